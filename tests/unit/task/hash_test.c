// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task.h"
#include "tests/support/test.h"
#include "tests/unit/task/folder.h"

struct texts {
	char checksum[BERTH_DIGEST_HEX_SIZE], lock[BERTH_DIGEST_HEX_SIZE], environment[33];
};

static bool hash(const char *folder, struct texts *texts, struct berth_error *err)
{
	struct berth_task *task = NULL;
	struct berth_task_hashes hashes;
	bool hashed = berth_task_load(folder, true, &task, err) && berth_task_hash(task, &hashes, err);
	if (hashed) {
		berth_digest_hex(&hashes.checksum, texts->checksum);
		berth_digest_hex(&hashes.lock_digest, texts->lock);
		memcpy(texts->environment, hashes.environment_id, sizeof texts->environment);
	}
	berth_task_free(task);
	return hashed;
}

static struct texts must_hash(const char *folder)
{
	struct texts texts;
	struct berth_error err;
	assert_ok(hash(folder, &texts, &err), err);
	return texts;
}

static void the_checksum_is_made_of_names_and_contents(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "");
	struct texts before = must_hash(folder);
	test_write(folder, "notes/a.txt", "hi");
	struct texts with = must_hash(folder);
	assert_string_not_equal(before.checksum, with.checksum);
	assert_string_equal(before.lock, with.lock);
	assert_string_equal(before.environment, with.environment);
	BERTH_AUTO_FREE char *notes = berth_path_join(folder, "notes");
	BERTH_AUTO_FREE char *moved = berth_path_join(folder, "letters");
	rename(notes, moved);
	assert_string_not_equal(with.checksum, must_hash(folder).checksum);
	// An empty folder counts for nothing.
	struct berth_error err;
	assert_ok(berth_remove_all(moved, &err), err);
	BERTH_AUTO_FREE char *empty = berth_path_join(folder, "empty/inside");
	assert_ok(berth_mkdir_all(empty, 0755, &err), err);
	assert_string_equal(before.checksum, must_hash(folder).checksum);
}

static void links_are_followed_by_the_checksum_and_skipped_by_the_environment(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "");
	struct texts before = must_hash(folder);
	BERTH_AUTO_FREE char *link = berth_path_join(folder, "environment/link");
	assert_int_equal(symlink("Dockerfile", link), 0);
	struct texts linked = must_hash(folder);
	assert_string_not_equal(before.checksum, linked.checksum);
	assert_string_not_equal(before.lock, linked.lock);
	assert_string_equal(before.environment, linked.environment);
	unlink(link);
	test_write(folder, "environment/link", "FROM scratch\n");
	struct texts copied = must_hash(folder);
	assert_string_equal(copied.checksum, linked.checksum);
	assert_string_equal(copied.lock, linked.lock);
	assert_string_not_equal(copied.environment, linked.environment);
}

static void a_link_that_leads_back_or_nowhere_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "");
	BERTH_AUTO_FREE char *link = berth_path_join(folder, "tests/up");
	struct texts texts;
	struct berth_error err;
	assert_int_equal(symlink("..", link), 0);
	assert_fails(hash(folder, &texts, &err), err, BERTH_ERROR_INVALID, "leads back");
	unlink(link);
	assert_int_equal(symlink("nowhere", link), 0);
	assert_fails(hash(folder, &texts, &err), err, BERTH_ERROR_INVALID, "leads nowhere");
}

static void environments_leave_out_what_tools_leave_behind(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "");
	struct texts before = must_hash(folder);
	test_write(folder, "environment/.DS_Store", "x");
	test_write(folder, "environment/a/__pycache__/m.pyc", "x");
	test_write(folder, "environment/.git/HEAD", "x");
	assert_string_equal(before.environment, must_hash(folder).environment);
	test_write(folder, "environment/a/m.py", "x");
	assert_string_not_equal(before.environment, must_hash(folder).environment);
}

static void an_environment_without_files_is_known_by_its_image(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "[environment]\ndocker_image = \"debian:bookworm-slim\"\n");
	BERTH_AUTO_FREE char *dockerfile = berth_path_join(folder, "environment/Dockerfile");
	unlink(dockerfile);
	struct berth_digest digest = berth_sha256("debian:bookworm-slim", 20);
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	struct texts texts = must_hash(folder);
	assert_int_equal(strlen(texts.environment), 32);
	assert_memory_equal(texts.environment, hex, 32);
}

// Adds files below tests/ and tells whether the lock digest sees them.
static bool lock_sees(const char *folder, const char *name)
{
	struct texts before = must_hash(folder);
	test_write(folder, name, "content");
	struct texts after = must_hash(folder);
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	unlink(path);
	return strcmp(before.lock, after.lock) != 0;
}

static void the_lock_leaves_out_what_the_ignore_patterns_take(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("t", "");
	assert_false(lock_sees(folder, "tests/x.pyc"));
	assert_false(lock_sees(folder, "tests/__pycache__/x.py"));
	assert_false(lock_sees(folder, "tests/x.txt~"));
	assert_false(lock_sees(folder, "other/x.txt"));
	assert_true(lock_sees(folder, "tests/__pycache__x"));
	assert_true(lock_sees(folder, "README.md"));
	test_write(folder, ".gitignore",
		"# "
		"comment\n\n*.log\n!keep.log\n/tests/top.txt\nbuild/\ndata/**/big\n**/cache\nenvironment/"
		"*.tmp\n\\#hash\nsp\\ \n[ab].c\n");
	static const struct {
		const char *name;
		bool seen;
	} rows[] = {{"tests/x.pyc", true}, {"tests/a.log", false}, {"tests/deep/a.log", false},
		{"tests/keep.log", true}, {"tests/top.txt", false}, {"tests/deep/top.txt", true},
		{"tests/build/x", false}, {"tests/plain/build", true}, {"steps/data/x/big", true},
		{"tests/cache", false}, {"tests/cache/x", false}, {"environment/a.tmp", false},
		{"environment/deep/a.tmp", true}, {"tests/#hash", false}, {"tests/sp ", false}, {"tests/a.c", false},
		{"tests/c.c", true}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		if (lock_sees(folder, rows[i].name) != rows[i].seen) {
			fail_msg("%s: wanted %s", rows[i].name, rows[i].seen ? "seen" : "ignored");
		}
	}
	test_write(folder, ".gitignore", "tests/data/**/big\ntests/a/**\n*\n!*.txt\n");
	assert_false(lock_sees(folder, "tests/x"));
	assert_true(lock_sees(folder, "tests/x.txt"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_checksum_is_made_of_names_and_contents),
	cmocka_unit_test(links_are_followed_by_the_checksum_and_skipped_by_the_environment),
	cmocka_unit_test(a_link_that_leads_back_or_nowhere_is_refused),
	cmocka_unit_test(environments_leave_out_what_tools_leave_behind),
	cmocka_unit_test(an_environment_without_files_is_known_by_its_image),
	cmocka_unit_test(the_lock_leaves_out_what_the_ignore_patterns_take),
};

BERTH_TEST_MAIN(tests)
