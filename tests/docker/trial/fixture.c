// SPDX-License-Identifier: Apache-2.0
#include "tests/docker/trial/fixture.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/task/task.h"
#include "tests/support/test.h"

#define ENGINE_MS 30000
#define TEXT_MAX  (128 * 1024 * 1024)

bool bench_open(struct bench *bench, const char *host, bool foreign_cgroups)
{
	*bench = (struct bench){.lock = PTHREAD_MUTEX_INITIALIZER};
	host = host ? host : getenv("BERTH_TEST_DOCKER_HOST");
	if (!host || !*host) {
		return false;
	}
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	snprintf(bench->fleet, sizeof bench->fleet, "test-%.12s", id);
	bench->host = berth_strdup(host);
	bench->folder = berth_test_folder();
	struct berth_error err = {0};
	bench->http = berth_http_new(&err);
	assert_ok(bench->http != NULL, err);
	bench->docker = berth_docker_open(bench->http, host, berth_within_ms(ENGINE_MS, NULL), &err);
	assert_ok(bench->docker != NULL, err);
	const struct berth_local_options options = {
		.fleet = bench->fleet, .agent = "quay-1", .foreign_cgroups = foreign_cgroups};
	bench->runner = berth_local_runner_new(bench->docker, &options, berth_within_ms(ENGINE_MS, NULL), &err);
	assert_ok(bench->runner != NULL, err);
	return true;
}

void bench_close(struct bench *bench)
{
	if (!bench->runner) {
		return;
	}
	struct berth_error err = {0};
	assert_ok(berth_local_runner_remove_network(bench->runner, berth_within_ms(ENGINE_MS, NULL), &err), err);
	bench->runner->free(bench->runner);
	berth_docker_free(bench->docker);
	berth_http_free(bench->http);
	free(bench->host);
	free(bench->folder);
	*bench = (struct bench){0};
}

size_t bench_containers(struct bench *bench)
{
	const struct berth_docker_label label = {BERTH_LABEL_FLEET, bench->fleet};
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	struct berth_error err = {0};
	assert_ok(berth_docker_container_list(
			  bench->docker, &label, 1, &listed, &count, berth_within_ms(ENGINE_MS, NULL), &err),
		err);
	berth_docker_listed_free(listed, count);
	return count;
}

static bool bench_mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	(void)move;
	(void)err;
	struct bench *bench = context;
	pthread_mutex_lock(&bench->lock);
	bench->moves++;
	pthread_mutex_unlock(&bench->lock);
	return true;
}

static const char *sample_token(void *context, const char *name)
{
	return strcmp(name, "BERTH_SAMPLE_TOKEN") == 0 ? context : NULL;
}

// As the CLI does it at submission: every table, templates resolved.
static void add_secrets(Berth__V1__SecretSet *set, const struct berth_env *table, const char *scope,
	const struct trial_options *options)
{
	struct berth_env env = {0};
	berth_env_merge(&env, table);
	berth_env_resolve(&env, scope, sample_token, (void *)options->token, NULL);
	for (size_t i = 0; i < env.count; i++) {
		if (options->drop_secret && strcmp(env.names[i], options->drop_secret) == 0) {
			continue;
		}
		Berth__V1__Secret *secret = berth_alloc(sizeof *secret);
		berth__v1__secret__init(secret);
		berth_proto_set_string(&secret->scope, scope);
		berth_proto_set_string(&secret->name, env.names[i]);
		berth_proto_set_string(&secret->value, env.values[i]);
		secret->sensitive = berth_env_name_is_sensitive(env.names[i]);
		berth_proto_append(&set->n_secrets, &set->secrets, secret);
	}
	berth_env_free(&env);
}

static Berth__V1__SecretSet *secrets_of(const struct berth_task *task, const struct trial_options *options)
{
	Berth__V1__SecretSet *set = berth_alloc(sizeof *set);
	berth__v1__secret_set__init(set);
	add_secrets(set, &task->environment.env, "environment/0", options);
	add_secrets(set, &task->verifier.env, "verifier/0", options);
	add_secrets(set, &task->solution_env, "solution/0", options);
	for (size_t i = 0; i < task->steps_count; i++) {
		BERTH_AUTO_FREE char *scope = berth_format("verifier/0/%s", task->steps[i].name);
		add_secrets(set, &task->steps[i].verifier.env, scope, options);
	}
	return set;
}

static Berth__V1__JobSpec *spec_of(const struct berth_task *task, const struct trial_options *options)
{
	Berth__V1__JobSpec *spec = berth_alloc(sizeof *spec);
	berth__v1__job_spec__init(spec);
	spec->timeout_multiplier = options->timeout_multiplier > 0 ? options->timeout_multiplier : 1;
	spec->agent_timeout_multiplier = spec->verifier_timeout_multiplier = -1;
	spec->agent_setup_timeout_multiplier = spec->environment_build_timeout_multiplier = -1;
	spec->override_cpus = spec->override_memory_mb = spec->override_storage_mb = -1;
	spec->leftovers = options->leftovers;
	Berth__V1__AgentConfig *agent = berth_alloc(sizeof *agent);
	berth__v1__agent_config__init(agent);
	berth_proto_set_string(&agent->name, options->agent);
	berth_proto_append(&spec->n_agents, &spec->agents, agent);
	Berth__V1__Task *entry = berth_alloc(sizeof *entry);
	berth__v1__task__init(entry);
	berth_proto_set_string(&entry->base_name, task ? task->base_name : "?");
	struct berth_task_hashes hashes;
	if (task && berth_task_hash(task, &hashes, NULL)) {
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&hashes.checksum, hex);
		berth_proto_set_string(&entry->checksum, hex);
	}
	berth_proto_append(&spec->n_tasks, &spec->tasks, entry);
	return spec;
}

static Berth__V1__Lease *lease_of(Berth__V1__LeaseRole role)
{
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	Berth__V1__Lease *lease = berth_alloc(sizeof *lease);
	berth__v1__lease__init(lease);
	berth_proto_set_string(&lease->lease_id, id);
	lease->backend = BERTH__V1__BACKEND__BACKEND_LOCAL;
	lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	lease->role = role;
	return lease;
}

static Berth__V1__Assignment *assignment_of(const char *folder, const struct trial_options *options)
{
	struct berth_task *task = NULL;
	berth_task_load(folder, false, &task, NULL);
	char id[BERTH_UUID_SIZE];
	berth_random_uuid(id);
	Berth__V1__Assignment *assignment = berth_alloc(sizeof *assignment);
	berth__v1__assignment__init(assignment);
	assignment->trial = berth_alloc(sizeof *assignment->trial);
	berth__v1__trial_key__init(assignment->trial);
	berth_proto_set_string(&assignment->trial->job_id, id);
	assignment->trial->generation = 1;
	berth_proto_set_string(&assignment->trial_name, "sample__2345678");
	assignment->spec = spec_of(task, options);
	if (task) {
		assignment->secrets = secrets_of(task, options);
	}
	berth_proto_append(
		&assignment->n_leases, &assignment->leases, lease_of(BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT));
	berth_task_free(task);
	return assignment;
}

void bench_run(struct bench *bench, const char *task_folder, const struct trial_options *options, struct run *run)
{
	berth__v1__trial_result__init(&run->result);
	run->assignment = assignment_of(task_folder, options);
	run->work = berth_format("%s/%s", bench->folder, run->assignment->leases[0]->lease_id);
	berth_mkdir_all(run->work, 0755, NULL);
	const struct berth_trial_host host = {
		.leases = {.runner = bench->runner,
			.book = options->book ? *options->book : (struct berth_lease_book){bench_mark, bench}},
		.fleet = bench->fleet,
		.agent = "quay-1",
		.phase = bench->on_phase,
		.context = bench->context,
	};
	const struct berth_trial_input input = {
		.assignment = run->assignment, .task_folder = task_folder, .work_folder = run->work};
	berth_trial_run(&host, &input, options->cancel, &run->result);
}

void run_free(struct run *run)
{
	berth_trial_result_free(&run->result);
	berth_proto_free(run->assignment);
	free(run->work);
	*run = (struct run){0};
}

char *run_file(const struct run *run, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(run->work, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(path, TEXT_MAX, &text, NULL)) {
		return berth_strdup("");
	}
	return berth_strdup(berth_buf_text(&text));
}

char *corpus_task(const char *name)
{
	// A runfile is a link into the checkout, where the task folders are whole.
	BERTH_AUTO_FREE char *table = berth_test_data("tests/tasks/EXPECTED.tsv");
	char real[PATH_MAX];
	if (!realpath(table, real)) {
		abort();
	}
	*strrchr(real, '/') = 0;
	return berth_path_join(real, name);
}
