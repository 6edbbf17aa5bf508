// SPDX-License-Identifier: Apache-2.0
// The methods of a service: names and types from protobuf-c, kinds from the FileDescriptorSet, and both compared.
#pragma once

#include "common/rpc/rpc.h"

struct berth_rpc_method {
	const ProtobufCMessageDescriptor *input;
	const ProtobufCMessageDescriptor *output;
	enum berth_rpc_kind kind;
	char *path; // "/package.Service/Method"
};

// CORRUPT when the bytes are no FileDescriptorSet.
bool berth_rpc_set_check(const void *set, size_t size, struct berth_error *err);
// Fills methods[0 .. service->n_methods) in the order of the descriptor. Fails, with nothing to free, when the set
// lacks the service or a method, has one more, or gives a method other types.
bool berth_rpc_methods_load(const void *set, size_t size, const ProtobufCServiceDescriptor *service,
	struct berth_rpc_method *methods, struct berth_error *err);
void berth_rpc_methods_clear(struct berth_rpc_method *methods, size_t count);
