// SPDX-License-Identifier: Apache-2.0
// The first byte says which parser gets the rest: a SPIFFE id, the details of a status, a message
// of a type that holds itself, a text to clean, or a descriptor set.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/depth.h"
#include "common/rpc/descriptor.h"
#include "common/rpc/details.h"
#include "echo.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition) {
		abort();
	}
}

static void fuzz_spiffe(const char *text)
{
	struct berth_rpc_principal principal;
	struct berth_error err;
	if (!berth_rpc_principal_parse(text, &principal, &err)) {
		return;
	}
	// What was taken is written in one way only.
	BERTH_AUTO_FREE char *again =
		berth_format("spiffe://%s/%s/%s", principal.fleet, berth_rpc_role_name(principal.role), principal.name);
	must(strcmp(again, text) == 0);
}

static void fuzz_details(const uint8_t *data, size_t size)
{
	char reason[BERTH_RPC_NAME_MAX];
	bool found = berth_rpc_status_reason(data, size, reason);
	must(strlen(reason) < sizeof reason);
	must(found || reason[0] == 0);
}

static void fuzz_clean(const char *text)
{
	struct berth_error error = {.code = BERTH_ERROR_INVALID};
	berth_fail(&error, BERTH_ERROR_INVALID, "%s", text);
	berth_rpc_text_clean(error.message);
	char again[BERTH_ERROR_MESSAGE_MAX];
	memcpy(again, error.message, sizeof again);
	berth_rpc_text_clean(again);
	must(strcmp(again, error.message) == 0);
	uint8_t *details = NULL;
	size_t size = 0;
	berth_rpc_status_details(&error, &details, &size);
	char reason[BERTH_RPC_NAME_MAX];
	must(berth_rpc_status_reason(details, size, reason) && strcmp(reason, "INVALID") == 0);
	free(details);
}

static void fuzz_set(const uint8_t *data, size_t size)
{
	struct berth_error err;
	enum berth_rpc_kind kind;
	berth_rpc_method_kind(data, size, "berth.test.v1.Echo", "Chat", &kind, &err);
	const ProtobufCServiceDescriptor *echo = &berth__test__v1__echo__descriptor;
	struct berth_rpc_method methods[8];
	if (berth_rpc_methods_load(data, size, echo, methods, &err)) {
		must(strcmp(methods[0].path, "/berth.test.v1.Echo/Say") == 0);
		berth_rpc_methods_clear(methods, echo->n_methods);
	}
}

static void fuzz_depth(const uint8_t *data, size_t size)
{
	if (berth_rpc_depth_is_bounded(&berth__test__v1__text__descriptor, data, size)) {
		Berth__Test__V1__Text *text = berth__test__v1__text__unpack(NULL, size, data);
		int depth = 0;
		for (const Berth__Test__V1__Text *at = text; at; at = at->inner) {
			depth++;
		}
		// Each repetition of a field is one more chance, but never one more level.
		must(depth <= BERTH_RPC_DEPTH_MAX + 1);
		berth__test__v1__text__free_unpacked(text, NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	BERTH_AUTO_FREE char *text = berth_strndup((const char *)data + 1, size - 1);
	switch (data[0] % 5) {
	case 0:
		fuzz_spiffe(text);
		break;
	case 1:
		fuzz_details(data + 1, size - 1);
		break;
	case 2:
		fuzz_depth(data + 1, size - 1);
		break;
	case 3:
		fuzz_clean(text);
		break;
	default:
		fuzz_set(data + 1, size - 1);
	}
	return 0;
}
