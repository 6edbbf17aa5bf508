// SPDX-License-Identifier: Apache-2.0
// How long a nop trial takes beside the same work done by hand: create, start, exec mkdir, put the tests, exec them,
// get three folders, remove. One of each in turn, so that a busy machine slows both. Prints medians in milliseconds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/docker/trial/fixture.h"
#include "tests/support/test.h"

#define ROUNDS 11

static struct bench bench;
static struct berth_error err;

static struct berth_until soon(void)
{
	return berth_within_ms(60 * 1000, NULL);
}

static void must(bool good)
{
	if (!good) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
}

static void exec_by_hand(const char *id, const char *command)
{
	const struct berth_docker_exec exec = {.argv = (const char *const[]){"bash", "-c", command, NULL}};
	int exit_code;
	must(berth_docker_exec(bench.docker, id, &exec, &exit_code, soon(), &err));
}

static void get_by_hand(const char *id, const char *folder)
{
	struct berth_buf tar = {0};
	must(berth_docker_archive_get(bench.docker, id, folder, berth_sink_buf(&tar), soon(), &err));
	berth_buf_free(&tar);
}

static void by_hand(const char *image, const char *tests)
{
	const struct berth_docker_label label = {BERTH_LABEL_FLEET, bench.fleet};
	BERTH_AUTO_FREE char *network = berth_format("berth-%s-quay-1", bench.fleet);
	const struct berth_docker_create create = {.image = image,
		.command = (const char *const[]){"sh", "-c", "sleep infinity", NULL},
		.network = network,
		.labels = &label,
		.labels_count = 1};
	BERTH_AUTO_FREE char *id = NULL;
	bool sent;
	must(berth_docker_container_create(bench.docker, &create, &id, &sent, soon(), &err));
	must(berth_docker_container_start(bench.docker, id, soon(), &err));
	exec_by_hand(id, "mkdir -p /logs/verifier /logs/agent /logs/artifacts && chmod 777 /logs/*");
	struct berth_buf tar = {0};
	const struct berth_tar_options options = {.prefix = "tests"};
	must(berth_tar_write_folder(tests, &options, berth_sink_buf(&tar), &err));
	struct berth_memory rest = {tar.data, tar.size};
	must(berth_docker_archive_put(bench.docker, id, "/", berth_source_memory(&rest), soon(), &err));
	berth_buf_free(&tar);
	exec_by_hand(id, "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1");
	get_by_hand(id, "/logs/agent");
	get_by_hand(id, "/logs/artifacts");
	get_by_hand(id, "/logs/verifier");
	must(berth_docker_container_remove(bench.docker, id, soon(), &err));
}

static int by_size(const void *a, const void *b)
{
	const int64_t *one = a, *other = b;
	return (*one > *other) - (*one < *other);
}

int main(void)
{
	if (!bench_open(&bench, NULL, false)) {
		fprintf(stderr, "set BERTH_TEST_DOCKER_HOST\n");
		return 2;
	}
	BERTH_AUTO_FREE char *task = corpus_task("count-words");
	BERTH_AUTO_FREE char *tests = berth_format("%s/tests", task);
	int64_t hand[ROUNDS], trial[ROUNDS];
	for (int i = -1; i < ROUNDS; i++) {
		const struct trial_options options = {.agent = "nop"};
		struct run run;
		int64_t start_ns = berth_boot_ns();
		bench_run(&bench, task, &options, &run);
		int64_t middle_ns = berth_boot_ns();
		if (run.result.outcome != BERTH__V1__OUTCOME__OUTCOME_SCORED) {
			fprintf(stderr, "the trial did not score\n");
			return 1;
		}
		const char *json = run.result.evidence->attestations[0]->json;
		BERTH_AUTO_FREE char *image = berth_strndup(strstr(json, "sha256:"), 71);
		run_free(&run);
		by_hand(image, tests);
		if (i >= 0) {
			trial[i] = (middle_ns - start_ns) / BERTH_NS_PER_MS;
			hand[i] = (berth_boot_ns() - middle_ns) / BERTH_NS_PER_MS;
		}
	}
	qsort(hand, ROUNDS, sizeof *hand, by_size);
	qsort(trial, ROUNDS, sizeof *trial, by_size);
	printf("nop trial %lld ms, by hand %lld ms, ratio %.2f\n", (long long)trial[ROUNDS / 2],
		(long long)hand[ROUNDS / 2], (double)trial[ROUNDS / 2] / (double)hand[ROUNDS / 2]);
	bench_close(&bench);
	return 0;
}
