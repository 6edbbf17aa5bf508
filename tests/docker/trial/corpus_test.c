// SPDX-License-Identifier: Apache-2.0
// Every row of the corpus through the whole lifecycle, four trials at a time: rewards, exception and artifacts are
// those of the tables, and nothing is left in the Engine.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/codec/json.h"
#include "tests/docker/trial/fixture.h"
#include "tests/support/test.h"

#define THREADS       4
#define COLUMNS_MAX   10
#define ROWS_MAX      400
#define FILE_SIZE_MAX (128 * 1024 * 1024)

struct row {
	char *columns[COLUMNS_MAX];
	char *verdict; // NULL: as wanted
	bool skipped;
};

struct table {
	struct row rows[ROWS_MAX];
	size_t count;
};

static void read_table(const char *name, struct table *table)
{
	BERTH_AUTO_FREE char *path = corpus_task(name);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err = {0};
	assert_ok(berth_file_read(path, 16 * 1024 * 1024, &text, &err), err);
	BERTH_AUTO_FREE char *lines = berth_strdup(berth_buf_text(&text));
	char *rest = lines;
	strsep(&rest, "\n");
	for (char *line; (line = strsep(&rest, "\n")) && *line && table->count < ROWS_MAX;) {
		struct row *row = &table->rows[table->count++];
		for (size_t i = 0; i < COLUMNS_MAX && line; i++) {
			row->columns[i] = berth_strdup(strsep(&line, "\t"));
		}
	}
}

static void free_table(struct table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		for (size_t j = 0; j < COLUMNS_MAX; j++) {
			free(table->rows[i].columns[j]);
		}
		free(table->rows[i].verdict);
	}
	free(table);
}

static struct bench bench;
static struct table *expected, *artifacts, *files;
static pthread_mutex_t next_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t next_row;
static char *odd_names;

static char *task_folder(const char *task)
{
	return strcmp(task, "odd-names") == 0 ? berth_path_join(odd_names, "odd-names") : corpus_task(task);
}

static berth_json *parse(const char *text)
{
	return text && *text ? berth_json_parse(text, strlen(text), "text", NULL) : NULL;
}

static bool same_json(const char *got, const char *wanted)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *a = parse(got);
	BERTH_AUTO(berth_json_cleanup) berth_json *b = parse(wanted);
	bool none = berth_json_is(b, BERTH_JSON_NULL);
	return none ? berth_json_is(a, BERTH_JSON_NULL) : berth_json_equal(a, b);
}

static char *check_outcome(const struct row *row, const struct run *run)
{
	const Berth__V1__TrialResult *result = &run->result;
	const char *exception = result->exception ? result->exception->type : "null";
	if (!same_json(result->rewards_json, row->columns[4]) || strcmp(exception, row->columns[5]) != 0) {
		BERTH_AUTO_FREE char *log = run_file(run, "trial.log");
		return berth_format("got %s and %s (%s), wanted %s and %s\n%s", result->rewards_json, exception,
			result->exception ? result->exception->message : "", row->columns[4], row->columns[5], log);
	}
	bool scored = strcmp(row->columns[4], "null") != 0;
	if (result->outcome != (scored ? BERTH__V1__OUTCOME__OUTCOME_SCORED : BERTH__V1__OUTCOME__OUTCOME_TASK)) {
		return berth_format("outcome is %d", (int)result->outcome);
	}
	char part[200];
	const char *wanted = strstr(row->columns[6] ? row->columns[6] : "", "message has \"");
	if (wanted && sscanf(wanted, "message has \"%199[^\"]\"", part) == 1 &&
		(!result->exception || !strstr(result->exception->message, part))) {
		return berth_format("the message lacks \"%s\": %s", part, result->exception->message);
	}
	return NULL;
}

static char *digest_of(const char *path)
{
	struct stat stat_of;
	char target[512];
	if (lstat(path, &stat_of) != 0) {
		return berth_strdup("missing");
	}
	if (S_ISLNK(stat_of.st_mode)) {
		ssize_t size = readlink(path, target, sizeof target - 1);
		return berth_format("-> %.*s", (int)size, target);
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_file_read(path, 64 * 1024 * 1024, &text, NULL);
	struct berth_digest digest = berth_sha256(text.data, text.size);
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	return berth_strdup(hex);
}

static size_t count_files(const char *folder)
{
	BERTH_AUTO_FREE char *command = berth_format("find '%s' ! -type d | wc -l", folder);
	FILE *pipe = popen(command, "r");
	size_t count = 0;
	if (!pipe || fscanf(pipe, "%zu", &count) != 1) {
		count = SIZE_MAX;
	}
	if (pipe) {
		pclose(pipe);
	}
	return count;
}

static char *check_entry(const struct row *row, const berth_json *entry, const char *folder, size_t *count)
{
	static const struct {
		const char *key;
		size_t column;
	} fields[] = {{"destination", 3}, {"type", 4}, {"status", 5}, {"source", 6}};
	for (size_t i = 0; i < BERTH_COUNT(fields); i++) {
		const char *got = berth_json_get_string(entry, fields[i].key);
		if (!got || strcmp(got, row->columns[fields[i].column]) != 0) {
			return berth_format("manifest %s is %s, wanted %s", fields[i].key, got ? got : "null",
				row->columns[fields[i].column]);
		}
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *wanted = parse(row->columns[8]);
	void *cursor = NULL;
	const char *path;
	berth_json *value;
	while (berth_json_next(wanted, &cursor, &path, &value)) {
		BERTH_AUTO_FREE char *full = berth_path_join(folder, path);
		BERTH_AUTO_FREE char *got = digest_of(full);
		++*count;
		if (strcmp(got, berth_json_as_string(value)) != 0) {
			return berth_format("artifact %s is %s", path, got);
		}
	}
	return NULL;
}

// The rows of one task, agent and step, in order, against its manifest; nothing else may lie in the folder.
static char *check_step_artifacts(const struct row *row, const struct run *run, const char *step)
{
	BERTH_AUTO_FREE char *folder = strcmp(step, "-") == 0 ? berth_format("%s/artifacts", run->work)
	                                                      : berth_format("%s/steps/%s/artifacts", run->work, step);
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "manifest.json");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_file_read(path, 1024 * 1024, &text, NULL);
	BERTH_AUTO(berth_json_cleanup) berth_json *manifest = parse(berth_buf_text(&text));
	size_t at = 0, count = 1;
	for (size_t i = 0; i < artifacts->count; i++) {
		const struct row *wanted = &artifacts->rows[i];
		if (strcmp(wanted->columns[0], row->columns[0]) != 0 ||
			strcmp(wanted->columns[1], row->columns[1]) != 0 || strcmp(wanted->columns[2], step) != 0) {
			continue;
		}
		char *wrong = check_entry(wanted, berth_json_at(manifest, at++), folder, &count);
		if (wrong) {
			return wrong;
		}
	}
	if (at != berth_json_size(manifest) || count != count_files(folder)) {
		return berth_format("%zu manifest entries, wanted %zu; %zu files, wanted %zu",
			berth_json_size(manifest), at, count_files(folder), count);
	}
	return NULL;
}

static char *check_artifacts(const struct row *row, const struct run *run)
{
	const char *last = "";
	for (size_t i = 0; i < artifacts->count; i++) {
		const struct row *wanted = &artifacts->rows[i];
		if (strcmp(wanted->columns[0], row->columns[0]) != 0 ||
			strcmp(wanted->columns[1], row->columns[1]) != 0 || strcmp(wanted->columns[2], last) == 0) {
			continue;
		}
		last = wanted->columns[2];
		char *wrong = check_step_artifacts(row, run, last);
		if (wrong) {
			return wrong;
		}
	}
	return NULL;
}

// What a row of FILES.tsv says of a file: a part that it has or lacks, its size, its hash.
static char *check_file(const char *path, const char *wanted_text)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *wanted = parse(wanted_text);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err = {0};
	if (!berth_file_read(path, FILE_SIZE_MAX, &text, &err)) {
		return berth_strdup(err.message);
	}
	const char *has = berth_json_get_string(wanted, "has"), *lacks = berth_json_get_string(wanted, "lacks");
	const berth_json *bytes = berth_json_get(wanted, "bytes");
	const char *sha256 = berth_json_get_string(wanted, "sha256");
	BERTH_AUTO_FREE char *got = digest_of(path);
	if ((has && !memmem(text.data, text.size, has, strlen(has))) ||
		(lacks && memmem(text.data, text.size, lacks, strlen(lacks))) ||
		(bytes && (int64_t)text.size != berth_json_as_integer(bytes)) || (sha256 && strcmp(sha256, got) != 0)) {
		return berth_format("wanted %s, but %zu bytes, SHA-256 %s: %.*s", wanted_text, text.size, got,
			(int)(text.size < 500 ? text.size : 500), (const char *)text.data);
	}
	return NULL;
}

static char *check_files(const struct row *row, const struct run *run)
{
	for (size_t i = 0; i < files->count; i++) {
		char *const *columns = files->rows[i].columns;
		if (strcmp(columns[0], row->columns[0]) != 0 || strcmp(columns[1], row->columns[1]) != 0) {
			continue;
		}
		BERTH_AUTO_FREE char *path = berth_path_join(run->work, columns[2]);
		BERTH_AUTO_FREE char *wrong = check_file(path, columns[3]);
		if (wrong) {
			return berth_format("%s: %s", columns[2], wrong);
		}
	}
	return NULL;
}

static char *check_evidence(const struct run *run)
{
	const Berth__V1__Evidence *evidence = run->result.evidence;
	if (!evidence || evidence->n_receipts != 1 ||
		evidence->receipts[0]->lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		return berth_strdup("no receipt of a retired lease");
	}
	if (!strstr(evidence->statement, evidence->receipts[0]->lease->lease_id)) {
		return berth_strdup("the statement does not bind the receipt");
	}
	bool scored = run->result.outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED;
	if (scored &&
		(evidence->n_attestations != 1 || !strstr(evidence->statement, evidence->attestations[0]->digest))) {
		return berth_strdup("the statement does not bind the attestation");
	}
	return NULL;
}

static void run_row(struct row *row)
{
	BERTH_AUTO_FREE char *folder = task_folder(row->columns[0]);
	// Four times the task's limits: on a busy machine an upload alone may take the three seconds of slow-agent.
	const struct trial_options options = {.agent = row->columns[1], .timeout_multiplier = 4};
	struct run run;
	bench_run(&bench, folder, &options, &run);
	row->verdict = check_outcome(row, &run);
	row->verdict = row->verdict ? row->verdict : check_artifacts(row, &run);
	row->verdict = row->verdict ? row->verdict : check_files(row, &run);
	row->verdict = row->verdict ? row->verdict : check_evidence(&run);
	run_free(&run);
	if (row->verdict) {
		print_error("%s %s: %s\n", row->columns[0], row->columns[1], row->verdict);
	}
}

static void *worker(void *context)
{
	(void)context;
	for (;;) {
		pthread_mutex_lock(&next_lock);
		size_t at = next_row++;
		pthread_mutex_unlock(&next_lock);
		if (at >= expected->count) {
			return NULL;
		}
		if (!expected->rows[at].skipped) {
			run_row(&expected->rows[at]);
		}
	}
}

static void choose_rows(void)
{
	const char *only = getenv("BERTH_TEST_TASKS"); // names with commas: for a look at some
	for (size_t i = 0; i < expected->count; i++) {
		const char *task = expected->rows[i].columns[0];
		expected->rows[i].skipped = strcmp(task, "sidecar") == 0 || strcmp(task, "separate-verifier") == 0 ||
		                            (only && *only && !strstr(only, task));
	}
}

static void finish_odd_names(void)
{
	BERTH_AUTO_FREE char *script = corpus_task("odd-names.make.sh");
	odd_names = berth_test_folder();
	BERTH_AUTO_FREE char *command = berth_format("bash '%s' '%s'", script, odd_names);
	assert_int_equal(system(command), 0);
}

static void every_row_of_the_corpus_ends_as_wanted_and_leaves_nothing(void **state)
{
	(void)state;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	expected = berth_alloc(sizeof *expected);
	artifacts = berth_alloc(sizeof *artifacts);
	files = berth_alloc(sizeof *files);
	read_table("EXPECTED.tsv", expected);
	read_table("ARTIFACTS.tsv", artifacts);
	read_table("FILES.tsv", files);
	finish_odd_names();
	choose_rows();
	pthread_t threads[THREADS];
	struct berth_error err = {0};
	for (size_t i = 0; i < THREADS; i++) {
		assert_ok(berth_thread_start(&threads[i], "trial", worker, NULL, &err), err);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	size_t wrong = 0;
	for (size_t i = 0; i < expected->count; i++) {
		wrong += expected->rows[i].verdict != NULL;
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(bench_containers(&bench), 0);
	bench_close(&bench);
	free_table(expected);
	free_table(artifacts);
	free_table(files);
	free(odd_names);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_row_of_the_corpus_ends_as_wanted_and_leaves_nothing),
};
BERTH_TEST_MAIN(tests)
