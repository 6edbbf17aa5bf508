// SPDX-License-Identifier: Apache-2.0
// The tasks of tests/tasks: each one loads, and has the hashes of GOLDEN.tsv.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task.h"
#include "tests/support/test.h"

#define CORPUS_TASKS_MIN   40
#define CORPUS_COLUMNS_MAX 8

// The checkout itself: the names of some files are more than a build tool's links can carry.
static char *corpus(void)
{
	BERTH_AUTO_FREE char *table = berth_test_data("tests/tasks/GOLDEN.tsv");
	char *real = realpath(table, NULL);
	assert_non_null(real);
	*strrchr(real, '/') = 0;
	return real;
}

// The columns of one line, cut in place.
static size_t columns(char *line, char *out[CORPUS_COLUMNS_MAX])
{
	size_t count = 0;
	for (char *rest = line; rest && count < CORPUS_COLUMNS_MAX;) {
		out[count++] = strsep(&rest, "\t");
	}
	return count;
}

static char *read_table(const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct berth_buf text = {0};
	struct berth_error err;
	assert_ok(berth_file_read(path, 1024 * 1024, &text, &err), err);
	return berth_buf_steal(&text);
}

static void assert_golden(const char *root, const char *finished, char *row[CORPUS_COLUMNS_MAX])
{
	bool odd = strcmp(row[0], "odd-names") == 0;
	BERTH_AUTO_FREE char *folder = berth_path_join(odd ? finished : root, row[0]);
	struct berth_task *task = NULL;
	struct berth_task_hashes hashes;
	struct berth_error err;
	assert_ok(berth_task_load(folder, false, &task, &err), err);
	assert_ok(berth_task_hash(task, &hashes, &err), err);
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&hashes.checksum, hex);
	assert_string_equal(hex, row[1]);
	berth_digest_hex(&hashes.lock_digest, hex);
	assert_string_equal(hex, row[2]);
	assert_string_equal(hashes.environment_id, row[3]);
	assert_string_equal(task->short_name, row[4]);
	if (task->warnings.count > 0) {
		fail_msg("%s: %s", row[0], task->warnings.items[0]);
	}
	berth_task_free(task);
}

static void every_task_has_its_golden_hashes(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *root = corpus();
	BERTH_AUTO_FREE char *finished = berth_test_folder();
	BERTH_AUTO_FREE char *make = berth_format("bash '%s/odd-names.make.sh' '%s'", root, finished);
	assert_int_equal(system(make), 0);
	BERTH_AUTO_FREE char *table = read_table(root, "GOLDEN.tsv");
	char *rest = table;
	strsep(&rest, "\n"); // the names of the columns
	size_t rows = 0;
	for (char *line; rest && *rest && (line = strsep(&rest, "\n"));) {
		char *row[CORPUS_COLUMNS_MAX];
		assert_int_equal(columns(line, row), 6);
		assert_golden(root, finished, row);
		rows++;
	}
	assert_true(rows >= CORPUS_TASKS_MIN);
}

static bool table_has(const char *root, const char *table_name, const char *task)
{
	BERTH_AUTO_FREE char *table = read_table(root, table_name);
	BERTH_AUTO_FREE char *start = berth_format("\n%s\t", task);
	return strstr(table, start) != NULL;
}

static void every_task_folder_is_in_both_tables(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *root = corpus();
	DIR *folder = opendir(root);
	assert_non_null(folder);
	for (const struct dirent *entry; (entry = readdir(folder));) {
		BERTH_AUTO_FREE char *path = berth_path_join(root, entry->d_name);
		if (!berth_task_is_folder(path)) {
			continue;
		}
		if (!table_has(root, "GOLDEN.tsv", entry->d_name) || !table_has(root, "EXPECTED.tsv", entry->d_name)) {
			fail_msg("%s is missing in GOLDEN.tsv or EXPECTED.tsv", entry->d_name);
		}
	}
	closedir(folder);
}

static void expected_rewards_are_json(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *root = corpus();
	BERTH_AUTO_FREE char *table = read_table(root, "EXPECTED.tsv");
	char *rest = table;
	strsep(&rest, "\n");
	for (char *line; rest && *rest && (line = strsep(&rest, "\n"));) {
		char *row[CORPUS_COLUMNS_MAX];
		assert_int_equal(columns(line, row), 7);
		for (size_t i = 2; i < 6; i += 2) {
			struct berth_error err;
			BERTH_AUTO(berth_json_cleanup)
			berth_json *value = berth_json_parse(row[i], strlen(row[i]), row[0], &err);
			assert_ok(value, err);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_task_has_its_golden_hashes),
	cmocka_unit_test(every_task_folder_is_in_both_tables),
	cmocka_unit_test(expected_rewards_are_json),
};

BERTH_TEST_MAIN(tests)
