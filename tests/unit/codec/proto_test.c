// SPDX-License-Identifier: Apache-2.0
// Our packing and copying beside the library's, on messages of every type that has to do with a ledger or a session.
#include "common/codec/proto.h"

#include <stdlib.h>
#include <string.h>

#include "berth/store/v1/agent.pb-c.h"
#include "berth/store/v1/event.pb-c.h"
#include "berth/store/v1/state.pb-c.h"
#include "berth/v1/budget.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "berth/v1/ledger.pb-c.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

#define ROUNDS    3000
#define DEPTH_MAX 7
#define LIST_MAX  3

static const ProtobufCMessageDescriptor *const types[] = {
	&berth__store__v1__event__descriptor,
	&berth__store__v1__finished_trial__descriptor,
	&berth__store__v1__held_lease__descriptor,
	&berth__store__v1__job_row__descriptor,
	&berth__store__v1__agent_row__descriptor,
	&berth__store__v1__trial_row__descriptor,
	&berth__v1__agent_batch__descriptor,
	&berth__v1__coordinator_batch__descriptor,
	&berth__v1__budget__descriptor,
	&berth__v1__submit_job_request__descriptor,
	&berth__v1__get_events_response__descriptor,
};

static uint64_t number(void)
{
	static uint64_t seed = 1;
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33;
}

// Of every length of a varint, and negative ones.
static uint64_t any(void)
{
	uint64_t wide = number() << 33 ^ number() << 11 ^ number();
	return number() % 4 == 0 ? 0 : wide >> number() % 64;
}

static char *any_text(void)
{
	static const size_t sizes[] = {0, 1, 5, 127, 128, 300};
	size_t size = number() % 50 == 0 ? 20000 : sizes[number() % BERTH_COUNT(sizes)];
	char *text = berth_alloc(size + 1);
	memset(text, 'a' + (int)(number() % 26), size);
	return text;
}

static ProtobufCMessage *make(const ProtobufCMessageDescriptor *type, int depth);

static void fill(const ProtobufCFieldDescriptor *field, void *member, int depth)
{
	char *text;
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		text = any_text();
		*(char **)member = text[0] ? text : (char *)protobuf_c_empty_string;
		if (!text[0]) {
			free(text);
		}
		break;
	case PROTOBUF_C_TYPE_BYTES:
		text = any_text();
		berth_proto_set_bytes(member, text, strlen(text));
		free(text);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)member = make(field->descriptor, depth + 1);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		*(double *)member = (double)any() / 7;
		break;
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)member = number() % 2;
		break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
		*(uint64_t *)member = any();
		break;
	default:
		*(uint32_t *)member = (uint32_t)any();
	}
}

static size_t size_of(ProtobufCType type)
{
	bool is_wide =
		type == PROTOBUF_C_TYPE_INT64 || type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_DOUBLE;
	bool is_pointer = type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_MESSAGE;
	return type == PROTOBUF_C_TYPE_BYTES  ? sizeof(ProtobufCBinaryData)
	       : is_pointer                   ? sizeof(void *)
	       : is_wide                      ? 8
	       : type == PROTOBUF_C_TYPE_BOOL ? sizeof(protobuf_c_boolean)
	                                      : 4;
}

static void fill_list(const ProtobufCFieldDescriptor *field, char *message, int depth)
{
	size_t count = number() % (LIST_MAX + 1), size = size_of(field->type);
	*(size_t *)(message + field->quantifier_offset) = count;
	char *items = count ? berth_alloc(count * size) : NULL;
	*(void **)(message + field->offset) = items;
	for (size_t i = 0; i < count; i++) {
		if (field->type == PROTOBUF_C_TYPE_STRING) {
			*(char **)(items + i * size) = any_text(); // each is freed, also an empty one
		} else {
			fill(field, items + i * size, depth);
		}
	}
}

static void add_unknown(ProtobufCMessage *message)
{
	message->n_unknown_fields = 1;
	message->unknown_fields = berth_alloc(sizeof *message->unknown_fields);
	message->unknown_fields[0].tag = 12345;
	message->unknown_fields[0].wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
	message->unknown_fields[0].len = 4;
	message->unknown_fields[0].data = berth_memdup("\x03xyz", 4);
}

static ProtobufCMessage *make(const ProtobufCMessageDescriptor *type, int depth)
{
	ProtobufCMessage *message = berth_alloc(type->sizeof_message);
	protobuf_c_message_init(type, message);
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
		uint32_t *chosen = (uint32_t *)((char *)message + field->quantifier_offset);
		bool is_oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
		if (number() % 5 == 0 || (is_message && depth == DEPTH_MAX) ||
			(is_oneof && (*chosen || number() % 4))) {
			continue;
		}
		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			fill_list(field, (char *)message, depth);
			continue;
		}
		fill(field, (char *)message + field->offset, depth);
		*(is_oneof ? chosen : &(uint32_t){0}) = field->id;
	}
	if (number() % 16 == 0) {
		add_unknown(message);
	}
	return message;
}

static void pack_by_library(const ProtobufCMessage *message, struct berth_buf *out)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	out->size += protobuf_c_message_pack(message, berth_buf_reserve(out, size));
}

static void assert_packed(const void *message, const struct berth_buf *wanted)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	berth_buf_add_text(&packed, "before");
	berth_proto_pack(message, &packed);
	assert_int_equal(packed.size, 6 + wanted->size);
	assert_memory_equal(packed.data, "before", 6);
	assert_memory_equal(packed.data + 6, wanted->data, wanted->size);
	assert_int_equal(packed.data[packed.size], 0);
	// Whatever is expected, the bytes are the same.
	const size_t expected[] = {1, wanted->size, 200, 70000};
	for (size_t i = 0; i < BERTH_COUNT(expected); i++) {
		berth_buf_reset(&packed);
		berth_proto_pack_large(message, expected[i], &packed);
		assert_int_equal(packed.size, wanted->size);
		assert_memory_equal(packed.data, wanted->data, wanted->size);
	}
}

// In an arena that expects nothing, and one that expects more than enough; cut off, it is no such message or another.
static void assert_unpacked(const struct berth_buf *packed, const ProtobufCMessageDescriptor *type)
{
	const size_t first_sizes[] = {0, 64 * packed->size};
	for (size_t i = 0; i < BERTH_COUNT(first_sizes); i++) {
		struct berth_arena *arena = berth_arena_new(first_sizes[i]);
		assert_packed(berth_proto_unpack_in(arena, type, packed->data, packed->size), packed);
		berth_proto_unpack_in(arena, type, packed->data, packed->size / 2);
		berth_arena_free(arena);
	}
}

static void packing_gives_the_librarys_bytes_and_copies_and_digests_are_of_the_same(void **state)
{
	(void)state;
	size_t largest = 0;
	for (int round = 0; round < ROUNDS; round++) {
		const ProtobufCMessageDescriptor *type = types[(size_t)round % BERTH_COUNT(types)];
		BERTH_AUTO(berth_proto_cleanup) ProtobufCMessage *message = make(type, 0);
		BERTH_AUTO(berth_buf_free) struct berth_buf wanted = {0};
		pack_by_library(message, &wanted);
		assert_packed(message, &wanted);
		size_t size = 0;
		struct berth_digest digest = berth_proto_sha256(message, &size);
		assert_int_equal(size, wanted.size);
		struct berth_digest wanted_digest = berth_sha256(wanted.data, wanted.size);
		assert_memory_equal(digest.bytes, wanted_digest.bytes, BERTH_DIGEST_SIZE);
		ProtobufCMessage *copy = berth_proto_clone(message);
		ProtobufCMessage *compact = berth_proto_compact(message);
		berth_proto_free(BERTH_STEAL(message)); // the copies have nothing of it
		assert_packed(copy, &wanted);
		assert_packed(compact, &wanted);
		berth_proto_free(copy);
		berth_proto_compact_free(compact);
		assert_unpacked(&wanted, type);
		largest = wanted.size > largest ? wanted.size : largest;
	}
	assert_true(largest > 16384); // a length of three bytes
}

// On the stack, with texts that nobody owns.
static void a_borrowed_message_is_packed_and_copied(void **state)
{
	(void)state;
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	key.job_id = (char *)"job";
	key.index = 300;
	revoke.trial = &key;
	revoke.reason = NULL;
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	berth_proto_pack(&revoke, &packed);
	static const uint8_t wanted[] = {0x0a, 8, 0x0a, 3, 'j', 'o', 'b', 0x10, 0xac, 2};
	assert_int_equal(packed.size, sizeof wanted);
	assert_memory_equal(packed.data, wanted, sizeof wanted);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Revoke *copy = berth_proto_clone(&revoke);
	assert_string_equal(copy->reason, "");
	assert_string_equal(copy->trial->job_id, "job");
	assert_ptr_not_equal(copy->trial, &key);
	assert_null(berth_proto_clone(NULL));
	assert_null(berth_proto_compact(NULL));
	berth_proto_compact_free(NULL);
}

static void an_empty_message_is_no_bytes(void **state)
{
	(void)state;
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	berth_proto_pack(&revoke, &packed);
	assert_int_equal(packed.size, 0);
	assert_non_null(packed.data);
}

// What the one pass knows: proto3, and the scalars that are in use.
static void assert_supported(const ProtobufCMessageDescriptor *type, int depth)
{
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		bool is_proto3 = field->label == PROTOBUF_C_LABEL_NONE || field->label == PROTOBUF_C_LABEL_REPEATED;
		bool is_known = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_INT64 ||
		                field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64 ||
		                field->type == PROTOBUF_C_TYPE_BOOL || field->type == PROTOBUF_C_TYPE_ENUM ||
		                field->type == PROTOBUF_C_TYPE_DOUBLE || field->type == PROTOBUF_C_TYPE_STRING ||
		                field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_MESSAGE;
		if (!is_proto3 || !is_known) {
			fail_msg("%s.%s is of a kind that berth_proto_pack does not know", type->name, field->name);
		}
		if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth < DEPTH_MAX) {
			assert_supported(field->descriptor, depth + 1);
		}
	}
}

static void every_message_is_of_a_kind_that_packing_knows(void **state)
{
	(void)state;
	static const ProtobufCServiceDescriptor *const services[] = {&berth__v1__fleet_service__descriptor,
		&berth__v1__job_service__descriptor, &berth__v1__budget_service__descriptor,
		&berth__v1__ledger_service__descriptor};
	for (size_t i = 0; i < BERTH_COUNT(types); i++) {
		assert_supported(types[i], 0);
	}
	for (size_t i = 0; i < BERTH_COUNT(services); i++) {
		for (unsigned j = 0; j < services[i]->n_methods; j++) {
			assert_supported(services[i]->methods[j].input, 0);
			assert_supported(services[i]->methods[j].output, 0);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(packing_gives_the_librarys_bytes_and_copies_and_digests_are_of_the_same),
	cmocka_unit_test(a_borrowed_message_is_packed_and_copied),
	cmocka_unit_test(an_empty_message_is_no_bytes),
	cmocka_unit_test(every_message_is_of_a_kind_that_packing_knows),
};
BERTH_TEST_MAIN(tests)
