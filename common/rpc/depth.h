// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#define BERTH_RPC_DEPTH_MAX 64

// False when messages of this type are nested deeper in the bytes than BERTH_RPC_DEPTH_MAX. protobuf-c follows them on
// the stack as far as they go, so a type that holds itself would let a peer end the process. What is malformed counts
// as shallow: unpacking refuses it.
bool berth_rpc_depth_is_bounded(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size);
