// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/details.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/rpc.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#define DOMAIN            "berth"
#define TYPE_PREFIX       "type.googleapis.com/"
#define DETAILS_COUNT_MAX 16 // more than this many details are not looked at

// The bytes of the UTF-8 character at `at`, 0 when there is none. Overlong forms and surrogates are none.
static size_t character_size(const unsigned char *at)
{
	size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
	for (size_t i = 1; i < size; i++) {
		if ((at[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	bool bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
	           (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90);
	return bad ? 0 : size;
}

void berth_rpc_text_clean(char *text)
{
	unsigned char *at = (unsigned char *)text;
	while (*at) {
		size_t size = character_size(at);
		if (size == 0) {
			*at = '?';
		}
		at += size ? size : 1;
	}
}

void berth_rpc_status_details(const struct berth_error *error, uint8_t **details, size_t *size)
{
	Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
	// protobuf-c's fields are not const, and packing does not write to them.
	info.reason = (char *)berth_error_name(error->code);
	info.domain = (char *)DOMAIN;
	size_t info_size = google__rpc__error_info__get_packed_size(&info);
	BERTH_AUTO_FREE uint8_t *packed = berth_alloc(info_size + 1);
	google__rpc__error_info__pack(&info, packed);

	Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
	any.type_url = (char *)TYPE_PREFIX "google.rpc.ErrorInfo";
	any.value = (ProtobufCBinaryData){info_size, packed};
	Google__Protobuf__Any *list[] = {&any};

	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
	status.code = berth_error_grpc_status(error->code);
	struct berth_error clean = *error;
	berth_rpc_text_clean(clean.message);
	status.message = clean.message;
	status.details = list;
	status.n_details = BERTH_COUNT(list);
	*size = google__rpc__status__get_packed_size(&status);
	*details = berth_alloc(*size + 1);
	google__rpc__status__pack(&status, *details);
}

// The part after the last slash names the type; what is before it is any host.
static bool is_error_info(const Google__Protobuf__Any *any)
{
	const char *slash = strrchr(any->type_url, '/');
	return slash && strcmp(slash + 1, "google.rpc.ErrorInfo") == 0;
}

static bool reason_of(const Google__Protobuf__Any *any, char reason[static BERTH_RPC_NAME_MAX])
{
	Google__Rpc__ErrorInfo *info = google__rpc__error_info__unpack(
		NULL, any->value.len, any->value.data ? any->value.data : (const uint8_t *)"");
	if (!info) {
		return false;
	}
	bool ours = strcmp(info->domain, DOMAIN) == 0 && strlen(info->reason) < BERTH_RPC_NAME_MAX;
	if (ours) {
		snprintf(reason, BERTH_RPC_NAME_MAX, "%s", info->reason);
	}
	google__rpc__error_info__free_unpacked(info, NULL);
	return ours;
}

bool berth_rpc_status_reason(const void *details, size_t size, char reason[static BERTH_RPC_NAME_MAX])
{
	reason[0] = 0;
	Google__Rpc__Status *status = google__rpc__status__unpack(NULL, size, details ? details : "");
	if (!status) {
		return false;
	}
	bool found = false;
	for (size_t i = 0; i < status->n_details && i < DETAILS_COUNT_MAX && !found; i++) {
		found = is_error_info(status->details[i]) && reason_of(status->details[i], reason);
	}
	google__rpc__status__free_unpacked(status, NULL);
	return found;
}
