// SPDX-License-Identifier: Apache-2.0
// The C face of the locks that gRPC uses; for library.c alone.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Debian builds them so that each lock that is taken is looked up in a graph of all that are, under one lock of the
// process, to report what could block. That is for those who work on gRPC and costs each message some microseconds.
void berth_rpc_locks_unwatched(void);

#ifdef __cplusplus
}
#endif
