// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/support/test.h"
#include "tests/unit/blob/blob_support.h"

#define TEXT    "a blob of some words"
#define WRITERS 8
#define ROUNDS  40

static char *path_of(const struct fixture *fixture, const char *text)
{
	struct berth_digest digest = digest_of(text);
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	return berth_format("%s/%.2s/%s", fixture->folder, hex, hex);
}

static void assert_nothing_left(struct fixture *fixture)
{
	assert_int_equal(count_unfinished(fixture), 0);
	assert_false(has_text(fixture->blobs, TEXT));
	// The place of the writer is free again.
	put_text(fixture->blobs, TEXT);
}

static void a_finished_blob_is_there_whole_and_read_only(void **state)
{
	struct fixture *fixture = *state;
	put_text(fixture->blobs, TEXT);
	assert_int_equal(count_unfinished(fixture), 0);
	reopen(fixture);
	struct berth_digest digest = digest_of(TEXT);
	struct berth_error err;
	BERTH_AUTO_CLOSE int fd = berth_blob_open_read(fixture->blobs, &digest, strlen(TEXT), &err);
	assert_ok(fd >= 0, err);
	char text[64] = "";
	assert_int_equal(read(fd, text, sizeof text), strlen(TEXT));
	assert_string_equal(text, TEXT);
	BERTH_AUTO_FREE char *path = path_of(fixture, TEXT);
	struct stat info;
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0400);
}

static void an_empty_blob_is_a_blob(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_ok(berth_blob_writer_finish(must_write(fixture->blobs, ""), &err), err);
	assert_true(has_text(fixture->blobs, ""));
}

static void a_blob_comes_in_many_chunks_of_a_bounded_size(void **state)
{
	struct fixture *fixture = *state;
	const size_t size = 3 * BERTH_BLOB_CHUNK_MAX + 17;
	BERTH_AUTO_FREE uint8_t *data = berth_alloc(size);
	memset(data, 'x', size);
	struct berth_digest digest = berth_sha256(data, size);
	struct berth_blob_writer *writer = NULL;
	bool existed = false;
	struct berth_error err;
	assert_ok(berth_blob_writer_open(fixture->blobs, &digest, (int64_t)size, &writer, &existed, &err), err);
	assert_fails(
		berth_blob_writer_add(writer, data, BERTH_BLOB_CHUNK_MAX + 1, &err), err, BERTH_ERROR_INVALID, "chunk");
	for (size_t done = 0; done < size;) {
		size_t part = size - done < BERTH_BLOB_CHUNK_MAX ? size - done : BERTH_BLOB_CHUNK_MAX;
		assert_ok(berth_blob_writer_add(writer, data + done, part, &err), err);
		done += part;
	}
	assert_ok(berth_blob_writer_finish(writer, &err), err);
	assert_true(berth_blobs_has(fixture->blobs, &digest, (int64_t)size));
}

static void another_digest_is_refused_and_leaves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writer = must_write(fixture->blobs, TEXT);
	struct berth_error err;
	assert_ok(berth_blob_writer_add(writer, "A blob of some words", strlen(TEXT), &err), err);
	assert_fails(berth_blob_writer_finish(writer, &err), err, BERTH_ERROR_CORRUPT, "digest is sha256:");
	assert_nothing_left(fixture);
}

static void a_short_blob_is_refused_and_leaves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writer = must_write(fixture->blobs, TEXT);
	struct berth_error err;
	assert_ok(berth_blob_writer_add(writer, TEXT, strlen(TEXT) - 1, &err), err);
	assert_fails(berth_blob_writer_finish(writer, &err), err, BERTH_ERROR_CORRUPT, "19 bytes, not the 20");
	assert_nothing_left(fixture);
}

static void a_long_blob_is_refused_and_leaves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writer = must_write(fixture->blobs, TEXT);
	struct berth_error err;
	assert_ok(berth_blob_writer_add(writer, TEXT, strlen(TEXT), &err), err);
	assert_fails(berth_blob_writer_add(writer, "!", 1, &err), err, BERTH_ERROR_CORRUPT, "more than the 20");
	berth_blob_writer_abort(writer);
	assert_nothing_left(fixture);
}

static void an_aborted_blob_leaves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writer = must_write(fixture->blobs, TEXT);
	struct berth_error err;
	assert_ok(berth_blob_writer_add(writer, TEXT, 5, &err), err);
	assert_int_equal(count_unfinished(fixture), 1);
	berth_blob_writer_abort(writer);
	berth_blob_writer_abort(NULL);
	assert_nothing_left(fixture);
}

static void a_size_out_of_bounds_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_digest digest = digest_of(TEXT);
	struct berth_blob_writer *writer = NULL;
	bool existed = false;
	struct berth_error err;
	assert_fails(berth_blob_writer_open(fixture->blobs, &digest, -1, &writer, &existed, &err), err,
		BERTH_ERROR_INVALID, "bytes");
	assert_fails(berth_blob_writer_open(fixture->blobs, &digest, BERTH_BLOB_SIZE_MAX + 1, &writer, &existed, &err),
		err, BERTH_ERROR_INVALID, "bytes");
}

static void below_the_watermark_no_blob_is_begun(void **state)
{
	struct fixture *fixture = *state;
	berth_blobs_close(fixture->blobs);
	struct berth_error err;
	fixture->blobs = berth_blobs_open(fixture->folder, INT64_MAX / 2, &err);
	assert_ok(fixture->blobs, err);
	struct berth_digest digest = digest_of(TEXT);
	struct berth_blob_writer *writer = NULL;
	bool existed = false;
	assert_fails(berth_blob_writer_open(fixture->blobs, &digest, strlen(TEXT), &writer, &existed, &err), err,
		BERTH_ERROR_EXHAUSTED, "bytes free");
	reopen(fixture);
	assert_nothing_left(fixture);
}

static void what_unfinished_writes_left_is_removed_at_open(void **state)
{
	struct fixture *fixture = *state;
	put_text(fixture->blobs, "kept");
	BERTH_AUTO_FREE char *left = berth_path_join(fixture->folder, "tmp/0123456789abcdef");
	struct berth_error err;
	assert_ok(berth_file_write(left, "half", 4, 0600, &err), err);
	assert_int_equal(count_unfinished(fixture), 1);
	reopen(fixture);
	assert_int_equal(count_unfinished(fixture), 0);
	assert_true(has_text(fixture->blobs, "kept"));
}

static void a_folder_that_went_missing_is_made_at_open(void **state)
{
	struct fixture *fixture = *state;
	char hex[BERTH_DIGEST_HEX_SIZE];
	const struct berth_digest digest = digest_of("text");
	berth_digest_hex(&digest, hex);
	BERTH_AUTO_FREE char *prefix = berth_format("%s/%.2s", fixture->folder, hex);
	assert_int_equal(rmdir(prefix), 0);
	reopen(fixture);
	put_text(fixture->blobs, "text");
	assert_true(has_text(fixture->blobs, "text"));
	reopen(fixture);
	assert_true(has_text(fixture->blobs, "text"));
}

static void a_blob_that_is_not_there_is_not_found(void **state)
{
	struct fixture *fixture = *state;
	struct berth_digest digest = digest_of(TEXT);
	struct berth_error err;
	assert_false(has_text(fixture->blobs, TEXT));
	assert_fails(berth_blob_open_read(fixture->blobs, &digest, strlen(TEXT), &err) >= 0, err, BERTH_ERROR_NOT_FOUND,
		"cannot open the blob");
}

static void a_blob_of_another_size_is_corrupt_and_can_be_written_again(void **state)
{
	struct fixture *fixture = *state;
	put_text(fixture->blobs, TEXT);
	BERTH_AUTO_FREE char *path = path_of(fixture, TEXT);
	assert_int_equal(truncate(path, 3), 0);
	struct berth_digest digest = digest_of(TEXT);
	struct berth_error err;
	assert_fails(berth_blob_open_read(fixture->blobs, &digest, strlen(TEXT), &err) >= 0, err, BERTH_ERROR_CORRUPT,
		"3 bytes, not 20");
	assert_nothing_left(fixture);
	assert_true(has_text(fixture->blobs, TEXT));
}

struct contest {
	struct berth_blobs *blobs;
	char text[32];
	bool first_gives_up;
	pthread_barrier_t start;
	atomic_int entered;
	atomic_int inside;
	atomic_int overlaps;
	atomic_int wrote;
	atomic_int found;
	atomic_int failed;
};

static void *write_once(void *context)
{
	struct contest *contest = context;
	struct berth_digest digest = digest_of(contest->text);
	struct berth_blob_writer *writer = NULL;
	bool existed = false;
	pthread_barrier_wait(&contest->start);
	if (!berth_blob_writer_open(contest->blobs, &digest, (int64_t)strlen(contest->text), &writer, &existed, NULL)) {
		atomic_fetch_add(&contest->failed, 1);
		return NULL;
	}
	if (existed) {
		atomic_fetch_add(&contest->found, 1);
		return NULL;
	}
	if (atomic_fetch_add(&contest->inside, 1) != 0) {
		atomic_fetch_add(&contest->overlaps, 1);
	}
	bool gives_up = contest->first_gives_up && atomic_fetch_add(&contest->entered, 1) == 0;
	bool added = berth_blob_writer_add(writer, contest->text, strlen(contest->text), NULL);
	atomic_fetch_sub(&contest->inside, 1);
	if (gives_up) {
		berth_blob_writer_abort(writer);
	} else if (added && berth_blob_writer_finish(writer, NULL)) {
		atomic_fetch_add(&contest->wrote, 1);
	} else {
		atomic_fetch_add(&contest->failed, 1);
	}
	return NULL;
}

static void run_contest(struct fixture *fixture, int round, bool first_gives_up)
{
	struct contest contest = {.blobs = fixture->blobs, .first_gives_up = first_gives_up};
	pthread_t threads[WRITERS];
	struct berth_error err;
	snprintf(contest.text, sizeof contest.text, "contest %d", round);
	pthread_barrier_init(&contest.start, NULL, WRITERS);
	for (int i = 0; i < WRITERS; i++) {
		assert_ok(berth_thread_start(&threads[i], "writer", write_once, &contest, &err), err);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
	}
	pthread_barrier_destroy(&contest.start);
	assert_int_equal(atomic_load(&contest.failed), 0);
	assert_int_equal(atomic_load(&contest.overlaps), 0);
	assert_int_equal(atomic_load(&contest.wrote), 1);
	assert_int_equal(atomic_load(&contest.found), WRITERS - 1 - (first_gives_up ? 1 : 0));
	assert_true(has_text(fixture->blobs, contest.text));
	assert_int_equal(count_unfinished(fixture), 0);
}

static void many_writers_of_one_blob_write_it_once(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		run_contest(*state, round, false);
	}
}

static void when_the_first_writer_gives_up_the_next_one_writes(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		run_contest(*state, round, true);
	}
}

static void writers_are_bounded(void **state)
{
	struct fixture *fixture = *state;
	struct berth_blob_writer *writers[1024];
	char text[32];
	int count = 0;
	struct berth_error err = {0};
	for (; count < 1024; count++) {
		bool existed = false;
		snprintf(text, sizeof text, "writer %d", count);
		struct berth_digest digest = digest_of(text);
		if (!berth_blob_writer_open(fixture->blobs, &digest, 5, &writers[count], &existed, &err)) {
			break;
		}
	}
	assert_true(count < 1024);
	assert_int_equal(err.code, BERTH_ERROR_EXHAUSTED);
	for (int i = 0; i < count; i++) {
		berth_blob_writer_abort(writers[i]);
	}
	put_text(fixture->blobs, TEXT);
}

#define WITH_BLOBS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_BLOBS(a_finished_blob_is_there_whole_and_read_only),
	WITH_BLOBS(an_empty_blob_is_a_blob),
	WITH_BLOBS(a_blob_comes_in_many_chunks_of_a_bounded_size),
	WITH_BLOBS(another_digest_is_refused_and_leaves_nothing),
	WITH_BLOBS(a_short_blob_is_refused_and_leaves_nothing),
	WITH_BLOBS(a_long_blob_is_refused_and_leaves_nothing),
	WITH_BLOBS(an_aborted_blob_leaves_nothing),
	WITH_BLOBS(a_size_out_of_bounds_is_refused),
	WITH_BLOBS(below_the_watermark_no_blob_is_begun),
	WITH_BLOBS(what_unfinished_writes_left_is_removed_at_open),
	WITH_BLOBS(a_folder_that_went_missing_is_made_at_open),
	WITH_BLOBS(a_blob_that_is_not_there_is_not_found),
	WITH_BLOBS(a_blob_of_another_size_is_corrupt_and_can_be_written_again),
	WITH_BLOBS(many_writers_of_one_blob_write_it_once),
	WITH_BLOBS(when_the_first_writer_gives_up_the_next_one_writes),
	WITH_BLOBS(writers_are_bounded),
};
BERTH_TEST_MAIN(tests)
