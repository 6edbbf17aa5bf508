// SPDX-License-Identifier: Apache-2.0
// What a handler may ask of its call.
#include <string.h>

#include "common/rpc/server_internal.h"

const struct berth_rpc_principal *berth_rpc_call_principal(const struct berth_rpc_call *call)
{
	return &call->principal;
}

const char *berth_rpc_call_metadata(const struct berth_rpc_call *call, const char *key)
{
	const char *at = call->metadata;
	while (*at) {
		const char *value = at + strlen(at) + 1;
		if (strcmp(at, key) == 0) {
			return value;
		}
		at = value + strlen(value) + 1;
	}
	return NULL;
}

const char *berth_rpc_call_peer(const struct berth_rpc_call *call)
{
	return call->peer;
}

int64_t berth_rpc_call_left_ms(const struct berth_rpc_call *call)
{
	return berth_rpc_left_ms(call->deadline);
}

void berth_rpc_call_set_data(struct berth_rpc_call *call, void *data)
{
	atomic_store(&call->data, data);
}

void *berth_rpc_call_data(const struct berth_rpc_call *call)
{
	return atomic_load(&call->data);
}
