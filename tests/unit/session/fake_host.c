// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/session/fake_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define BULK_SIZE ((size_t)128 * 1024)

#define HOLD_SLICE_MS 5

struct fake_runner {
	struct berth_runner base; // first: it is cast back
	struct fake_host *host;
};

static struct fake_host *host_of(struct berth_runner *runner)
{
	return ((struct fake_runner *)runner)->host;
}

static char *resource(const struct fake_host *host, const char *lease_id)
{
	return berth_format("%s/resources/%s", host->folder, lease_id);
}

static bool make(const struct fake_host *host, const char *lease_id)
{
	BERTH_AUTO_FREE char *path = resource(host, lease_id);
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd >= 0;
}

static enum berth_create_outcome create(struct berth_runner *runner, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	(void)until;
	if (!make(host_of(runner), plan->lease_id)) {
		berth_fail(err, BERTH_ERROR_CONFLICT, "lease %s has a resource already", plan->lease_id);
		return BERTH_CREATE_REJECTED;
	}
	created->resource_id = berth_strdup(plan->lease_id);
	return BERTH_CREATE_CREATED;
}

static bool kill_lease(
	struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	struct fake_host *host = host_of(runner);
	if (atomic_load(&host->kill_fails)) {
		return berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the daemon is away");
	}
	if (!berth_sleep_ms(atomic_load(&host->proof_ms), until, err)) {
		return false;
	}
	atomic_fetch_add(&host->kills, 1);
	BERTH_AUTO_FREE char *path = resource(host, lease_id);
	return unlink(path) == 0 || errno == ENOENT || berth_fail_errno(err, "cannot remove %s", path);
}

static bool tidy(struct berth_runner *runner, struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct fake_host *host = host_of(runner);
	atomic_fetch_add(&host->tidies, 1);
	return !atomic_load(&host->tidy_fails) || berth_fail(err, BERTH_ERROR_EXHAUSTED, "no network is left");
}

static bool list_leases(struct berth_runner *runner, char ***lease_ids, size_t *count, struct berth_until until,
	struct berth_error *err)
{
	(void)until;
	BERTH_AUTO_FREE char *folder = berth_path_join(host_of(runner)->folder, "resources");
	DIR *dir = opendir(folder);
	if (!dir) {
		return berth_fail_errno(err, "cannot read %s", folder);
	}
	*lease_ids = NULL;
	*count = 0;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.') {
			*lease_ids = berth_realloc_array(*lease_ids, *count + 1, sizeof **lease_ids);
			(*lease_ids)[(*count)++] = berth_strdup(entry->d_name);
		}
	}
	closedir(dir);
	return true;
}

static void free_runner(struct berth_runner *runner)
{
	free(runner);
}

static struct berth_runner *open_runner(
	void *context, struct berth_session_facts *facts, struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct fake_host *host = context;
	atomic_fetch_add(&host->opens, 1);
	if (atomic_load(&host->open_failures) > 0) {
		atomic_fetch_sub(&host->open_failures, 1);
		berth_fail(err, BERTH_ERROR_UNAVAILABLE, "no daemon");
		return NULL;
	}
	struct fake_runner *runner = berth_alloc(sizeof *runner);
	runner->host = host;
	runner->base.name = "fake";
	runner->base.create = create;
	runner->base.kill = kill_lease;
	runner->base.tidy = tidy;
	runner->base.list_leases = list_leases;
	runner->base.free = free_runner;
	facts->daemon_id = berth_strdup(host->daemon_id);
	facts->platform = berth_strdup("linux/amd64");
	facts->cpus = 2;
	facts->memory_mb = 1000;
	facts->slots = host->slots;
	return &runner->base;
}

static bool probe(void *context, struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct fake_host *host = context;
	return !atomic_load(&host->broken) ||
	       berth_fail(err, BERTH_ERROR_UNAVAILABLE, "docker: no answer: start the daemon");
}

// --- a trial ---
static bool live(struct fake_host *host, struct berth_cancel *cancel)
{
	int64_t ms = 0;
	if (host->run_ms_max) {
		uint32_t random;
		berth_random(&random, sizeof random);
		ms = random % host->run_ms_max;
	}
	struct berth_until until = berth_within_ms(60000, cancel);
	bool went_on = berth_sleep_ms(ms, until, NULL);
	while (went_on && atomic_load(&host->hold_runs)) {
		went_on = berth_sleep_ms(HOLD_SLICE_MS, until, NULL);
	}
	return went_on;
}

static void note_run(const struct fake_host *host, const Berth__V1__TrialKey *key)
{
	BERTH_AUTO_FREE char *path = berth_path_join(host->folder, "runs");
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	BERTH_AUTO_FREE char *line = berth_format("%u.%u\n", key->index, key->generation);
	berth_write_all(fd, line, strlen(line), NULL);
}

static bool use_environment(struct fake_host *host, const struct berth_trial_host *trial_host, const char *lease_id,
	struct berth_cancel *cancel)
{
	struct berth_environment_plan plan = {.lease_id = lease_id};
	struct berth_created created = {0};
	struct berth_until until = berth_within_ms(60000, cancel);
	if (!berth_lease_create(&trial_host->leases, &plan, &created, until, NULL)) {
		return false;
	}
	free(created.resource_id);
	bool went_on = live(host, cancel);
	atomic_fetch_add(&host->cancelled, !went_on);
	berth_lease_retire(&trial_host->leases, lease_id, berth_within_ms(60000, NULL), NULL);
	return went_on;
}

static void run(const struct berth_trial_host *trial_host, const struct berth_trial_input *input,
	struct berth_cancel *cancel, Berth__V1__TrialResult *result)
{
	struct fake_host *host = host_of(trial_host->leases.runner);
	const Berth__V1__Assignment *assignment = input->assignment;
	atomic_fetch_add(&host->runs, 1);
	atomic_fetch_add(&host->running, 1);
	trial_host->phase(trial_host->context, "agent_execution");
	bool went_on = use_environment(host, trial_host, assignment->leases[0]->lease_id, cancel);
	BERTH_AUTO_FREE char *source = berth_path_join(input->task_folder, "instruction.md");
	went_on = went_on && berth_file_exists(source);
	BERTH_AUTO_FREE char *path = berth_path_join(input->work_folder, "trial.log");
	BERTH_AUTO_FREE char *text =
		berth_format("trial %u.%u\n", assignment->trial->index, assignment->trial->generation);
	berth_file_write(path, text, strlen(text), 0644, NULL);
	if (assignment->trial->index % 2 == 0) {
		BERTH_AUTO_FREE uint8_t *bulk = berth_alloc(BULK_SIZE);
		BERTH_AUTO_FREE char *bulky = berth_path_join(input->work_folder, "bulk");
		berth_file_write(bulky, bulk, BULK_SIZE, 0644, NULL);
	}
	if (went_on) {
		note_run(host, assignment->trial);
		result->outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
		berth_proto_set_string(&result->rewards_json, "{\"reward\":1.0}");
	} else {
		result->outcome = BERTH__V1__OUTCOME__OUTCOME_CANCELLED;
	}
	atomic_fetch_sub(&host->running, 1);
}

static void free_result(Berth__V1__TrialResult *result)
{
	berth_proto_set_string(&result->rewards_json, NULL);
}

void fake_host_open(struct fake_host *host, const char *folder)
{
	memset(host, 0, sizeof *host);
	host->folder = berth_strdup(folder);
	host->slots = 2;
	host->daemon_id = "daemon";
	BERTH_AUTO_FREE char *resources = berth_path_join(folder, "resources");
	if (!berth_mkdir_all(resources, 0700, NULL)) {
		abort();
	}
}

void fake_host_close(struct fake_host *host)
{
	free(host->folder);
}

struct berth_session_host fake_host_functions(struct fake_host *host)
{
	return (struct berth_session_host){
		.open = open_runner, .probe = probe, .run = run, .free_result = free_result, .context = host};
}

size_t fake_host_resources(const struct fake_host *host)
{
	struct fake_runner runner = {.host = (struct fake_host *)host};
	char **ids = NULL;
	size_t count = 0;
	if (!list_leases(&runner.base, &ids, &count, berth_within_ms(0, NULL), NULL)) {
		abort();
	}
	for (size_t i = 0; i < count; i++) {
		free(ids[i]);
	}
	free(ids);
	return count;
}

void fake_host_leave(struct fake_host *host, const char *lease_id)
{
	if (!make(host, lease_id)) {
		abort();
	}
}

size_t fake_host_runs(const struct fake_host *host)
{
	BERTH_AUTO_FREE char *path = berth_path_join(host->folder, "runs");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	size_t lines = 0;
	if (berth_file_read(path, 1 << 20, &text, NULL)) {
		for (const char *at = berth_buf_text(&text); *at; at++) {
			lines += *at == '\n';
		}
	}
	return lines;
}
