// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"

#define SECRET_TEXT "OPENAI_API_KEY=sk-not-a-real-one"
#define SECRET_SIZE (sizeof SECRET_TEXT - 1)

struct fixture {
	char *data;
	char *key_path;
	struct berth_ledger *ledger;
};

static void open_with_key(struct fixture *fixture)
{
	struct berth_error err;
	fixture->ledger = must_open_ledger(fixture->data);
	assert_ok(berth_ledger_set_secret_key_file(fixture->ledger, fixture->key_path, &err), err);
}

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	fixture->data = berth_path_join(folder, "data");
	fixture->key_path = berth_path_join(folder, "secret.key");
	open_with_key(fixture);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	berth_ledger_close(fixture->ledger);
	free(fixture->data);
	free(fixture->key_path);
	free(fixture);
	return 0;
}

static void reopen(struct fixture *fixture)
{
	berth_ledger_close(fixture->ledger);
	open_with_key(fixture);
}

static void put(struct fixture *fixture, const char *job)
{
	struct berth_error err;
	assert_ok(berth_ledger_put_secrets(fixture->ledger, job, SECRET_TEXT, SECRET_SIZE, &err), err);
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
}

static void assert_secret(struct fixture *fixture, const char *job)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	struct berth_error err;
	assert_ok(berth_ledger_get_secrets(fixture->ledger, job, &packed, &err), err);
	assert_string_equal(berth_buf_text(&packed), SECRET_TEXT);
}

static void secrets_come_back_until_they_are_dropped(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, "job-1");
	assert_secret(fixture, "job-1");
	reopen(fixture);
	assert_secret(fixture, "job-1");
	berth_ledger_drop_secrets(fixture->ledger, "job-1");
	struct berth_error err;
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	assert_fails(
		berth_ledger_get_secrets(fixture->ledger, "job-1", &packed, &err), err, BERTH_ERROR_NOT_FOUND, "job-1");
	assert_fails(
		berth_ledger_get_secrets(fixture->ledger, "job-2", &packed, &err), err, BERTH_ERROR_NOT_FOUND, "job-2");
}

static void empty_secrets_can_be_kept(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_ok(berth_ledger_put_secrets(fixture->ledger, "job-1", "", 0, &err), err);
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	assert_ok(berth_ledger_get_secrets(fixture->ledger, "job-1", &packed, &err), err);
	assert_int_equal(packed.size, 0);
}

static void secrets_come_with_their_events_or_not_at_all(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	append_events(fixture->ledger, 1);
	assert_ok(berth_ledger_put_secrets(fixture->ledger, "job-1", SECRET_TEXT, SECRET_SIZE, &err), err);
	reopen(fixture);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	assert_fails(
		berth_ledger_get_secrets(fixture->ledger, "job-1", &packed, &err), err, BERTH_ERROR_NOT_FOUND, "job-1");
	assert_events(fixture->ledger, 0);
}

static bool find_text(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	(void)key;
	(void)key_size;
	struct berth_buf *all = context;
	berth_buf_add(all, value, value_size);
	return true;
}

// The stored row of a job, read or put past the ledger.
static void with_store(struct fixture *fixture, void (*work)(struct berth_store *store))
{
	static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};
	const struct berth_store_options options = {.families = families};
	BERTH_AUTO_FREE char *path = berth_path_join(fixture->data, "ledger");
	struct berth_error err;
	berth_ledger_close(fixture->ledger);
	struct berth_store *store = berth_store_open(path, &options, &err);
	assert_ok(store, err);
	work(store);
	berth_store_close(store);
	open_with_key(fixture);
}

static void assert_no_plain_text(struct berth_store *store)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf all = {0};
	struct berth_error err;
	assert_ok(berth_store_scan(store, 4, NULL, 0, NULL, 0, find_text, &all, &err), err);
	assert_true(all.size > 2 * SECRET_SIZE);
	assert_null(memmem(all.data, all.size, "sk-not", 6));
	// Two seals of one text differ.
	assert_memory_not_equal(all.data, all.data + all.size / 2, all.size / 2);
}

static void the_disk_never_sees_the_text(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, "job-1");
	put(fixture, "job-2");
	with_store(fixture, assert_no_plain_text);
}

static void give_to_another_job(struct berth_store *store)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf sealed = {0};
	struct berth_error err;
	assert_ok(berth_store_get(store, 4, "job-1", 5, &sealed, &err), err);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	berth_store_batch_put(batch, 4, "job-2", 5, sealed.data, sealed.size);
	sealed.data[sealed.size / 2] ^= 1;
	berth_store_batch_put(batch, 4, "job-3", 5, sealed.data, sealed.size);
	berth_store_batch_put(batch, 4, "job-4", 5, sealed.data, 20);
	assert_ok(berth_store_commit(store, batch, &err), err);
	berth_store_batch_free(batch);
}

static void a_seal_opens_for_its_job_alone_and_only_whole(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, "job-1");
	with_store(fixture, give_to_another_job);
	assert_secret(fixture, "job-1");
	static const char *const others[] = {"job-2", "job-3", "job-4"};
	for (size_t i = 0; i < BERTH_COUNT(others); i++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
		struct berth_error err;
		assert_fails(berth_ledger_get_secrets(fixture->ledger, others[i], &packed, &err), err,
			BERTH_ERROR_CORRUPT, "do not open");
		assert_int_equal(packed.size, 0);
	}
}

static void another_key_opens_nothing(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, "job-1");
	BERTH_AUTO_FREE char *other = berth_format("%s.other", fixture->key_path);
	struct berth_error err;
	assert_ok(berth_ledger_set_secret_key_file(fixture->ledger, other, &err), err);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	assert_fails(berth_ledger_get_secrets(fixture->ledger, "job-1", &packed, &err), err, BERTH_ERROR_CORRUPT,
		"do not open");
}

static void the_key_file_is_made_private_and_refused_when_it_is_not(void **state)
{
	struct fixture *fixture = *state;
	struct stat info;
	struct berth_error err;
	assert_int_equal(stat(fixture->key_path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	assert_int_equal(info.st_size, 32);
	assert_int_equal(chmod(fixture->key_path, 0604), 0);
	assert_fails(berth_ledger_set_secret_key_file(fixture->ledger, fixture->key_path, &err), err,
		BERTH_ERROR_DENIED, "chmod 600");
}

static void a_key_file_of_another_size_or_in_the_data_folder_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *small = berth_format("%s.small", fixture->key_path);
	assert_ok(berth_file_write(small, "short", 5, 0600, &err), err);
	assert_fails(
		berth_ledger_set_secret_key_file(fixture->ledger, small, &err), err, BERTH_ERROR_INVALID, "5 bytes");
	BERTH_AUTO_FREE char *inside = berth_path_join(fixture->data, "secret.key");
	assert_fails(berth_ledger_set_secret_key_file(fixture->ledger, inside, &err), err, BERTH_ERROR_INVALID,
		"move it out");
}

static void secrets_before_the_key_are_refused(void **state)
{
	struct fixture *fixture = *state;
	berth_ledger_close(fixture->ledger);
	fixture->ledger = must_open_ledger(fixture->data);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	struct berth_error err;
	assert_fails(berth_ledger_put_secrets(fixture->ledger, "job-1", "x", 1, &err), err, BERTH_ERROR_INTERNAL,
		"key file first");
	assert_fails(berth_ledger_get_secrets(fixture->ledger, "job-1", &packed, &err), err, BERTH_ERROR_INTERNAL,
		"key file first");
}

static void a_keyed_digest_depends_on_the_text_and_the_key(void **state)
{
	struct fixture *fixture = *state;
	struct berth_digest one = berth_ledger_keyed_digest(fixture->ledger, "a", 1);
	struct berth_digest two = berth_ledger_keyed_digest(fixture->ledger, "b", 1);
	assert_memory_not_equal(one.bytes, two.bytes, BERTH_DIGEST_SIZE);
	reopen(fixture);
	struct berth_digest again = berth_ledger_keyed_digest(fixture->ledger, "a", 1);
	assert_memory_equal(one.bytes, again.bytes, BERTH_DIGEST_SIZE);
	BERTH_AUTO_FREE char *other = berth_format("%s.other", fixture->key_path);
	struct berth_error err;
	assert_ok(berth_ledger_set_secret_key_file(fixture->ledger, other, &err), err);
	again = berth_ledger_keyed_digest(fixture->ledger, "a", 1);
	assert_memory_not_equal(one.bytes, again.bytes, BERTH_DIGEST_SIZE);
}

#define WITH_KEY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static void a_small_blob_comes_with_its_event_and_damage_is_told(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_digest digest = berth_sha256("tar", 3), wrong = berth_sha256("rat", 3);
	BERTH_AUTO(berth_buf_free) struct berth_buf data = {0};
	append_events(fixture->ledger, 1);
	berth_ledger_put_blob(fixture->ledger, &digest, "tar", 3);
	reopen(fixture); // without a commit
	assert_events(fixture->ledger, 0);
	assert_false(berth_ledger_has_blob(fixture->ledger, &digest));
	assert_fails(berth_ledger_get_blob(fixture->ledger, &digest, &data, &err), err, BERTH_ERROR_NOT_FOUND, "blob");
	append_events(fixture->ledger, 1);
	berth_ledger_put_blob(fixture->ledger, &digest, "tar", 3);
	berth_ledger_put_blob(fixture->ledger, &wrong, "tar", 3);
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
	reopen(fixture);
	assert_events(fixture->ledger, 1);
	assert_ok(berth_ledger_get_blob(fixture->ledger, &digest, &data, &err), err);
	assert_string_equal(berth_buf_text(&data), "tar");
	assert_fails(berth_ledger_get_blob(fixture->ledger, &wrong, &data, &err), err, BERTH_ERROR_CORRUPT, "digest");
}

static const struct CMUnitTest tests[] = {
	WITH_KEY(secrets_come_back_until_they_are_dropped),
	WITH_KEY(empty_secrets_can_be_kept),
	WITH_KEY(secrets_come_with_their_events_or_not_at_all),
	WITH_KEY(the_disk_never_sees_the_text),
	WITH_KEY(a_seal_opens_for_its_job_alone_and_only_whole),
	WITH_KEY(another_key_opens_nothing),
	WITH_KEY(the_key_file_is_made_private_and_refused_when_it_is_not),
	WITH_KEY(a_key_file_of_another_size_or_in_the_data_folder_is_refused),
	WITH_KEY(secrets_before_the_key_are_refused),
	WITH_KEY(a_keyed_digest_depends_on_the_text_and_the_key),
	WITH_KEY(a_small_blob_comes_with_its_event_and_damage_is_told),
};
BERTH_TEST_MAIN(tests)
