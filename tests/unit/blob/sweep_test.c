// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/support/test.h"
#include "tests/unit/blob/blob_support.h"

#define BLOBS    40
#define PINS_MAX 40000 // more than the table of pins takes

static bool keep_none(void *context, const struct berth_digest *digest)
{
	(void)context;
	(void)digest;
	return false;
}

static bool keep_one(void *context, const struct berth_digest *digest)
{
	struct berth_digest wanted = digest_of(context);
	return berth_digest_equal(&wanted, digest);
}

static uint64_t sweep(struct fixture *fixture, const char *kept)
{
	uint64_t removed = 99;
	struct berth_error err;
	BERTH_AUTO_FREE char *context = berth_strdup(kept);
	assert_ok(berth_blobs_sweep(fixture->blobs, kept ? keep_one : keep_none, context, &removed, &err), err);
	return removed;
}

// Pins live in memory: after a restart what was put long ago has none.
static void put_unpinned(struct fixture *fixture, int count)
{
	char text[32];
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof text, "blob %d", i);
		put_text(fixture->blobs, text);
	}
	reopen(fixture);
}

static void a_sweep_removes_what_is_not_kept_and_counts_it(void **state)
{
	struct fixture *fixture = *state;
	put_unpinned(fixture, BLOBS);
	assert_int_equal(sweep(fixture, "blob 7"), BLOBS - 1);
	assert_true(has_text(fixture->blobs, "blob 7"));
	assert_false(has_text(fixture->blobs, "blob 8"));
	assert_int_equal(count_unfinished(fixture), 0);
	assert_int_equal(sweep(fixture, "blob 7"), 0);
}

static void a_pinned_blob_stays_whether_it_is_there_or_about_to_come(void **state)
{
	struct fixture *fixture = *state;
	put_unpinned(fixture, 2);
	struct berth_digest there = digest_of("blob 0");
	struct berth_digest coming = digest_of("coming");
	berth_blobs_pin(fixture->blobs, &there);
	berth_blobs_pin(fixture->blobs, &coming);
	assert_int_equal(sweep(fixture, NULL), 1);
	assert_true(has_text(fixture->blobs, "blob 0"));
	put_text(fixture->blobs, "coming");
	assert_int_equal(sweep(fixture, NULL), 0);
	assert_true(has_text(fixture->blobs, "coming"));
}

static void a_blob_that_was_just_written_stays_until_its_event_can_name_it(void **state)
{
	struct fixture *fixture = *state;
	put_text(fixture->blobs, "new");
	assert_int_equal(sweep(fixture, NULL), 0);
	assert_true(has_text(fixture->blobs, "new"));
}

static void a_blob_that_a_second_upload_found_is_pinned_as_well(void **state)
{
	struct fixture *fixture = *state;
	put_unpinned(fixture, 1);
	struct berth_digest digest = digest_of("blob 0");
	struct berth_blob_writer *writer = NULL;
	bool existed = false;
	struct berth_error err;
	assert_ok(berth_blob_writer_open(fixture->blobs, &digest, 6, &writer, &existed, &err), err);
	assert_true(existed);
	assert_null(writer);
	assert_int_equal(sweep(fixture, NULL), 0);
}

static void an_unfinished_upload_is_not_swept(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writer = must_write(fixture->blobs, "slow");
	assert_int_equal(sweep(fixture, NULL), 0);
	struct berth_error err;
	assert_ok(berth_blob_writer_add(writer, "slow", 4, &err), err);
	assert_ok(berth_blob_writer_finish(writer, &err), err);
	assert_true(has_text(fixture->blobs, "slow"));
}

static void more_pins_than_places_stop_the_sweep_and_lose_none(void **state)
{
	struct fixture *fixture = *state;
	put_unpinned(fixture, 3);
	for (int i = 0; i < PINS_MAX; i++) {
		const struct berth_digest digest = berth_sha256(&i, sizeof i);
		berth_blobs_pin(fixture->blobs, &digest);
	}
	struct berth_digest late = digest_of("blob 2");
	berth_blobs_pin(fixture->blobs, &late);
	assert_int_equal(sweep(fixture, NULL), 0);
	assert_true(has_text(fixture->blobs, "blob 2"));
}

static void files_that_are_no_blobs_are_left_alone(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *path = berth_path_join(fixture->folder, "ab/README");
	struct berth_error err;
	assert_ok(berth_file_write(path, "x", 1, 0600, &err), err);
	assert_int_equal(sweep(fixture, NULL), 0);
	assert_true(berth_file_exists(path));
}

struct race {
	struct fixture *fixture;
	atomic_bool over;
};

static void *sweep_for_ever(void *context)
{
	struct race *race = context;
	while (!atomic_load(&race->over)) {
		uint64_t removed = 0;
		berth_blobs_sweep(race->fixture->blobs, keep_none, NULL, &removed, NULL);
	}
	return NULL;
}

static void what_is_found_after_pinning_stays_found_beside_a_sweep(void **state)
{
	struct fixture *fixture = *state;
	put_unpinned(fixture, BLOBS);
	struct race race = {.fixture = fixture};
	pthread_t sweeper;
	struct berth_error err;
	assert_ok(berth_thread_start(&sweeper, "sweeper", sweep_for_ever, &race, &err), err);
	bool found[BLOBS];
	char text[32];
	for (int i = 0; i < BLOBS; i++) {
		snprintf(text, sizeof text, "blob %d", i);
		struct berth_digest digest = digest_of(text);
		berth_blobs_pin(fixture->blobs, &digest);
		found[i] = has_text(fixture->blobs, text);
	}
	atomic_store(&race.over, true);
	pthread_join(sweeper, NULL);
	sweep(fixture, NULL);
	for (int i = 0; i < BLOBS; i++) {
		snprintf(text, sizeof text, "blob %d", i);
		assert_int_equal(has_text(fixture->blobs, text), found[i]);
	}
}

#define WITH_BLOBS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_BLOBS(a_sweep_removes_what_is_not_kept_and_counts_it),
	WITH_BLOBS(a_pinned_blob_stays_whether_it_is_there_or_about_to_come),
	WITH_BLOBS(a_blob_that_was_just_written_stays_until_its_event_can_name_it),
	WITH_BLOBS(a_blob_that_a_second_upload_found_is_pinned_as_well),
	WITH_BLOBS(an_unfinished_upload_is_not_swept),
	WITH_BLOBS(more_pins_than_places_stop_the_sweep_and_lose_none),
	WITH_BLOBS(files_that_are_no_blobs_are_left_alone),
	WITH_BLOBS(what_is_found_after_pinning_stays_found_beside_a_sweep),
};
BERTH_TEST_MAIN(tests)
