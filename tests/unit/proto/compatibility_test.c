// SPDX-License-Identifier: Apache-2.0
// Nothing that a release has put on the wire or on disk may change its meaning: every message, field, enum value and
// method of proto/release is still there, with the same name, number, type and side that streams.
#include <stdlib.h>
#include <string.h>

#include "berth_descriptors.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "google/protobuf/descriptor.pb-c.h"
#include "tests/support/test.h"

typedef Google__Protobuf__FileDescriptorSet set_t;
typedef Google__Protobuf__DescriptorProto message_t;
typedef Google__Protobuf__EnumDescriptorProto enum_t;

static void check(bool same, const char *where, const char *what)
{
	if (!same) {
		fail_msg("%s: %s changed since the release", where, what);
	}
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static void check_fields(const message_t *old, const message_t *new, const char *where)
{
	for (size_t i = 0; i < old->n_field; i++) {
		const Google__Protobuf__FieldDescriptorProto *field = old->field[i], *found = NULL;
		for (size_t j = 0; j < new->n_field; j++) {
			if (new->field[j]->number == field->number) {
				found = new->field[j];
			}
		}
		BERTH_AUTO_FREE char *name = berth_format("%s.%s = %d", where, field->name, field->number);
		check(found != NULL, name, "the field is gone: it");
		check(same_text(found->name, field->name), name, "the name");
		check(found->type == field->type && same_text(found->type_name, field->type_name), name, "the type");
		check(found->label == field->label, name, "repeated or not");
		check(found->has_oneof_index == field->has_oneof_index, name, "its oneof");
	}
}

static void check_enum(const enum_t *old, const enum_t *new, const char *where)
{
	for (size_t i = 0; i < old->n_value; i++) {
		bool found = false;
		for (size_t j = 0; j < new->n_value; j++) {
			found |= new->value[j]->number ==
			         old->value[i]->number &&same_text(new->value[j]->name, old->value[i]->name);
		}
		check(found, where, old->value[i]->name);
	}
}

static void check_message(const message_t *old, message_t *const *all, size_t count, const char *where)
{
	const message_t *new = NULL;
	for (size_t i = 0; i < count; i++) {
		if (same_text(all[i]->name, old->name)) {
			new = all[i];
		}
	}
	BERTH_AUTO_FREE char *name = berth_format("%s.%s", where, old->name);
	check(new != NULL, name, "the message is gone: it");
	check_fields(old, new, name);
	for (size_t i = 0; i < old->n_nested_type; i++) {
		check_message(old->nested_type[i], new->nested_type, new->n_nested_type, name);
	}
}

static void check_enums(enum_t *const *old, size_t old_count, enum_t *const *new, size_t new_count, const char *where)
{
	for (size_t i = 0; i < old_count; i++) {
		const enum_t *found = NULL;
		for (size_t j = 0; j < new_count; j++) {
			found = same_text(new[j]->name, old[i]->name) ? new[j] : found;
		}
		check(found != NULL, where, old[i]->name);
		check_enum(old[i], found, old[i]->name);
	}
}

static void check_services(
	const Google__Protobuf__FileDescriptorProto *old, const Google__Protobuf__FileDescriptorProto *new)
{
	for (size_t i = 0; i < old->n_service; i++) {
		const Google__Protobuf__ServiceDescriptorProto *service = old->service[i], *found = NULL;
		for (size_t j = 0; j < new->n_service; j++) {
			found = same_text(new->service[j]->name, service->name) ? new->service[j] : found;
		}
		check(found != NULL, old->name, service->name);
		for (size_t j = 0; j < service->n_method; j++) {
			const Google__Protobuf__MethodDescriptorProto *method = service->method[j];
			bool same = false;
			for (size_t k = 0; k < found->n_method; k++) {
				const Google__Protobuf__MethodDescriptorProto *other = found->method[k];
				same |= same_text(other->name, method->name) &&
				        same_text(other->input_type, method->input_type) &&
				        same_text(other->output_type, method->output_type) &&
				        other->client_streaming == method->client_streaming &&
				        other->server_streaming == method->server_streaming;
			}
			check(same, service->name, method->name);
		}
	}
}

static set_t *unpack(const void *data, size_t size)
{
	set_t *set = google__protobuf__file_descriptor_set__unpack(NULL, size, data);
	assert_non_null(set);
	return set;
}

static void what_a_release_published_keeps_its_meaning(void **state)
{
	(void)state;
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_test_data("proto/release/0.1.binpb");
	BERTH_AUTO(berth_buf_free) struct berth_buf released = {0};
	assert_ok(berth_file_read(path, 16 * 1024 * 1024, &released, &err), err);
	set_t *old = unpack(released.data, released.size);
	set_t *new = unpack(berth_descriptor_set, berth_descriptor_set_size);
	for (size_t i = 0; i < old->n_file; i++) {
		const Google__Protobuf__FileDescriptorProto *file = old->file[i], *found = NULL;
		for (size_t j = 0; j < new->n_file; j++) {
			found = same_text(new->file[j]->name, file->name) ? new->file[j] : found;
		}
		check(found != NULL, file->name, "the file is gone: it");
		for (size_t j = 0; j < file->n_message_type; j++) {
			check_message(file->message_type[j], found->message_type, found->n_message_type, file->package);
		}
		check_enums(file->enum_type, file->n_enum_type, found->enum_type, found->n_enum_type, file->name);
		check_services(file, found);
	}
	google__protobuf__file_descriptor_set__free_unpacked(old, NULL);
	google__protobuf__file_descriptor_set__free_unpacked(new, NULL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_a_release_published_keeps_its_meaning),
};

BERTH_TEST_MAIN(tests)
