// SPDX-License-Identifier: Apache-2.0
// Inside common/codec only: a deep copy of a message, from memory that the caller gives.
#pragma once

#include <protobuf-c/protobuf-c.h>

// Each part of the copy comes from one call of `take`, the message itself from the first.
void *proto_copy(const ProtobufCMessage *from, void *(*take)(void *context, size_t size), void *context);
