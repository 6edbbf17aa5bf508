// SPDX-License-Identifier: Apache-2.0
// The one completion queue of all servers of a process, and the one thread on it. gRPC keeps one epoll set for the
// process: with a queue a server, what arrives for one of them wakes the thread of another first.
#pragma once

#include "common/base/error.h"
#include "common/rpc/grpc_library.h"

// Each hold is released once. What was begun on the queue is completed before the release.
bool berth_rpc_poller_hold(grpc_completion_queue **queue, struct berth_error *err);
void berth_rpc_poller_release(void);
// Returns when the thread is done with every completion that it had taken by now. Not from the thread itself.
void berth_rpc_poller_pass(void);
