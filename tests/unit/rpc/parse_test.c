// SPDX-License-Identifier: Apache-2.0
// Identities, status details and descriptor sets: the parsers of bytes from outside.
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/depth.h"
#include "common/rpc/descriptor.h"
#include "common/rpc/details.h"
#include "echo.pb-c.h"
#include "echo_set.h"
#include "other_set.h"
#include "tests/support/test.h"

static void a_spiffe_id_gives_fleet_role_and_name(void **state)
{
	(void)state;
	static const struct {
		const char *id;
		enum berth_rpc_role role;
		const char *fleet, *name;
	} rows[] = {
		{"spiffe://harbor-1/agent/quay-7", BERTH_ROLE_AGENT, "harbor-1", "quay-7"},
		{"spiffe://f/user/A", BERTH_ROLE_USER, "f", "A"},
		{"spiffe://f.example.org/operator/o_p", BERTH_ROLE_OPERATOR, "f.example.org", "o_p"},
		{"spiffe://0/coordinator/9", BERTH_ROLE_COORDINATOR, "0", "9"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_rpc_principal principal;
		struct berth_error err;
		assert_ok(berth_rpc_principal_parse(rows[i].id, &principal, &err), err);
		assert_int_equal(principal.role, rows[i].role);
		assert_string_equal(principal.fleet, rows[i].fleet);
		assert_string_equal(principal.name, rows[i].name);
		assert_string_equal(principal.certificate_sha256, "");
	}
}

static void a_bad_spiffe_id_is_refused_with_its_fault(void **state)
{
	(void)state;
	static const struct {
		const char *id, *part;
	} rows[] = {
		{"", "spiffe://"},
		{"https://f/agent/a", "spiffe://"},
		{"SPIFFE://f/agent/a", "spiffe://"},
		{"spiffe://", "fleet"},
		{"spiffe://f", "fleet"},
		{"spiffe:///agent/a", "fleet"},
		{"spiffe://-f/agent/a", "fleet"},
		{"spiffe://f f/agent/a", "fleet"},
		{"spiffe://f@x/agent/a", "fleet"},
		{"spiffe://f/agent", "role"},
		{"spiffe://f/Agent/a", "role"},
		{"spiffe://f/anyone/a", "role"},
		{"spiffe://f/root/a", "role"},
		{"spiffe://f//a", "role"},
		{"spiffe://f/agent/", "name"},
		{"spiffe://f/agent/.a", "name"},
		{"spiffe://f/agent/a/b", "name"},
		{"spiffe://f/agent/a?b", "name"},
		{"spiffe://f/agent/a%20b", "name"},
		{"spiffe://f/agent/\xc3\xa4", "name"},
		{"spiffe://f/agent/a234567890123456789012345678901234567890123456789012345678901234", "name"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_rpc_principal principal;
		struct berth_error err;
		assert_fails(berth_rpc_principal_parse(rows[i].id, &principal, &err), err, BERTH_ERROR_INVALID,
			rows[i].part);
	}
}

static void a_name_of_63_bytes_is_the_longest(void **state)
{
	(void)state;
	struct berth_rpc_principal principal;
	struct berth_error err;
	assert_ok(berth_rpc_principal_parse(
			  "spiffe://f/agent/a23456789012345678901234567890123456789012345678901234567890123",
			  &principal, &err),
		err);
}

static void every_code_survives_the_status_details(void **state)
{
	(void)state;
	for (int code = BERTH_ERROR_OK; code <= BERTH_ERROR_UNAUTHENTICATED; code++) {
		struct berth_error error;
		berth_fail(&error, code, "a message");
		BERTH_AUTO_FREE uint8_t *details = NULL;
		size_t size = 0;
		berth_rpc_status_details(&error, &details, &size);
		char reason[BERTH_RPC_NAME_MAX];
		assert_true(berth_rpc_status_reason(details, size, reason));
		assert_string_equal(reason, berth_error_name(code));
		for (size_t cut = 1; cut < size; cut++) {
			berth_rpc_status_reason(details, cut, reason); // whatever it says, it stays inside
		}
	}
}

static void details_of_others_give_no_reason(void **state)
{
	(void)state;
	char reason[BERTH_RPC_NAME_MAX] = "left over";
	assert_false(berth_rpc_status_reason("", 0, reason));
	assert_string_equal(reason, "");
	assert_false(berth_rpc_status_reason("\xff\xff", 2, reason));
	// Status{details: Any{type_url: "type.googleapis.com/google.rpc.ErrorInfo", value: ErrorInfo{"X", "other"}}}
	static const char foreign[] =
		"\x1a\x36\x0a\x28type.googleapis.com/google.rpc.ErrorInfo\x12\x0a\x0a\x01X\x12\x05"
		"other";
	assert_false(berth_rpc_status_reason(foreign, sizeof foreign - 1, reason));
	assert_string_equal(reason, "");
}

static void a_message_cut_inside_a_character_stays_text(void **state)
{
	(void)state;
	struct berth_error error = {.code = BERTH_ERROR_INVALID};
	memcpy(error.message, "caf\xc3", 5);
	BERTH_AUTO_FREE uint8_t *details = NULL;
	size_t size = 0;
	berth_rpc_status_details(&error, &details, &size);
	assert_null(memchr(details, 0xc3, size));
	assert_non_null(memmem(details, size, "caf?", 4));
}

static void only_what_is_not_text_is_replaced(void **state)
{
	(void)state;
	static const char *rows[][2] = {
		{"plain", "plain"},
		{"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\xa2", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\xa2"},
		{"\xff", "?"},
		{"a\xe2\x82", "a??"},
		{"\xc0\x80", "??"},
		{"\xed\xa0\x80", "???"},
		{"\xf4\x90\x80\x80", "????"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO_FREE char *text = berth_strdup(rows[i][0]);
		berth_rpc_text_clean(text);
		assert_string_equal(text, rows[i][1]);
	}
}

static void the_set_tells_which_side_streams(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		enum berth_rpc_kind kind;
	} rows[] = {
		{"Say", BERTH_RPC_UNARY},
		{"Join", BERTH_RPC_CLIENT_STREAM},
		{"Count", BERTH_RPC_SERVER_STREAM},
		{"Chat", BERTH_RPC_BIDI},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		enum berth_rpc_kind kind;
		struct berth_error err;
		assert_ok(berth_rpc_method_kind(
				  echo_set, echo_set_size, "berth.test.v1.Echo", rows[i].method, &kind, &err),
			err);
		assert_int_equal(kind, rows[i].kind);
	}
}

static void a_method_that_the_set_lacks_is_named(void **state)
{
	(void)state;
	enum berth_rpc_kind kind;
	struct berth_error err;
	assert_fails(berth_rpc_method_kind(echo_set, echo_set_size, "berth.test.v1.Echo", "Sing", &kind, &err), err,
		BERTH_ERROR_NOT_FOUND, "berth.test.v1.Echo.Sing");
	assert_fails(berth_rpc_method_kind(echo_set, echo_set_size, "berth.test.Echo", "Say", &kind, &err), err,
		BERTH_ERROR_NOT_FOUND, "berth.test.Echo");
	assert_fails(berth_rpc_method_kind("\xff", 1, "a", "b", &kind, &err), err, BERTH_ERROR_CORRUPT, "1 bytes");
}

// `levels` Texts inside each other, in a buffer that the caller frees: each level is 0x1a, the size, the rest.
static uint8_t *nested(size_t levels, size_t *size)
{
	size_t room = levels * 6 + 1;
	uint8_t *buffer = berth_alloc(room);
	size_t at = room;
	for (size_t i = 0; i < levels; i++) {
		size_t inside = room - at;
		uint8_t varint[5];
		size_t length = 0;
		do {
			varint[length++] = (uint8_t)((inside & 0x7f) | (inside > 0x7f ? 0x80 : 0));
			inside >>= 7;
		} while (inside);
		at -= length;
		memcpy(buffer + at, varint, length);
		buffer[--at] = 0x1a;
	}
	*size = room - at;
	memmove(buffer, buffer + at, *size);
	return buffer;
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	static const struct {
		size_t levels;
		bool bounded;
	} rows[] = {
		{0, true}, {1, true}, {BERTH_RPC_DEPTH_MAX, true}, {BERTH_RPC_DEPTH_MAX + 1, false}, {100000, false}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		size_t size = 0;
		BERTH_AUTO_FREE uint8_t *bytes = nested(rows[i].levels, &size);
		assert_int_equal(
			berth_rpc_depth_is_bounded(&berth__test__v1__text__descriptor, bytes, size), rows[i].bounded);
		// Every message that counts as bounded and is whole is one that protobuf-c takes.
		if (rows[i].bounded) {
			Berth__Test__V1__Text *text = berth__test__v1__text__unpack(NULL, size, bytes);
			assert_non_null(text);
			berth__test__v1__text__free_unpacked(text, NULL);
		}
	}
}

static void types_and_methods_are_compared(void **state)
{
	(void)state;
	struct berth_rpc_method methods[8];
	struct berth_error err;
	const ProtobufCServiceDescriptor *echo = &berth__test__v1__echo__descriptor;
	assert_ok(berth_rpc_methods_load(echo_set, echo_set_size, echo, methods, &err), err);
	assert_string_equal(methods[0].path, "/berth.test.v1.Echo/Say");
	berth_rpc_methods_clear(methods, echo->n_methods);
	assert_fails(berth_rpc_methods_load(other_set, other_set_size, echo, methods, &err), err, BERTH_ERROR_CONFLICT,
		"response type is berth.test.v1.Text, the descriptor set's is .berth.test.v1.Number");
	ProtobufCServiceDescriptor fewer = *echo;
	fewer.n_methods--;
	assert_fails(berth_rpc_methods_load(echo_set, echo_set_size, &fewer, methods, &err), err, BERTH_ERROR_CONFLICT,
		"4 methods");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_spiffe_id_gives_fleet_role_and_name),
	cmocka_unit_test(a_bad_spiffe_id_is_refused_with_its_fault),
	cmocka_unit_test(a_name_of_63_bytes_is_the_longest),
	cmocka_unit_test(every_code_survives_the_status_details),
	cmocka_unit_test(details_of_others_give_no_reason),
	cmocka_unit_test(a_message_cut_inside_a_character_stays_text),
	cmocka_unit_test(only_what_is_not_text_is_replaced),
	cmocka_unit_test(the_set_tells_which_side_streams),
	cmocka_unit_test(a_method_that_the_set_lacks_is_named),
	cmocka_unit_test(nesting_is_bounded),
	cmocka_unit_test(types_and_methods_are_compared),
};

BERTH_TEST_MAIN(tests)
