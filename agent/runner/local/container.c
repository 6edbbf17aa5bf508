// SPDX-License-Identifier: Apache-2.0
// Containers: created, opened, killed with proof, listed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"

#define HEALTH_PAUSE_MS    200
#define ABSENCE_PAUSE_MS   50
#define ABSENCE_LISTINGS   2
#define PLACEMENT_PAUSE_MS 500
#define EXIT_CODE_KILLED   137
#define EXPLAIN_MS         5000

static const char *role_name(Berth__V1__LeaseRole role)
{
	switch (role) {
	case BERTH__V1__LEASE_ROLE__AGENT_RUNNER:
		return "agent_runner";
	case BERTH__V1__LEASE_ROLE__VERIFIER_ENVIRONMENT:
		return "verifier_environment";
	case BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT_BUILD:
		return "task_environment_build";
	case BERTH__V1__LEASE_ROLE__PROPOSER_PROJECT:
		return "proposer_project";
	default:
		return "task_environment";
	}
}

static char **env_lines(const struct berth_env *env)
{
	size_t count = env ? env->count : 0;
	char **lines = berth_alloc((count + 1) * sizeof *lines);
	for (size_t i = 0; i < count; i++) {
		lines[i] = berth_format("%s=%s", env->names[i], env->values[i]);
	}
	return lines;
}

static void free_lines(char ***lines)
{
	for (char **line = *lines; line && *line; line++) {
		free(*line);
	}
	free(*lines);
}

// What an answer of the daemon means. A name in use is a container of this very lease: it must be ended, so it is no
// refusal. Everything that is not a clear refusal may have had an effect: so may one that is EXHAUSTED, since that is
// read from the daemon's words and not from its status.
static enum berth_create_outcome outcome_of(bool sent, enum berth_error_code code)
{
	if (!sent) {
		return BERTH_CREATE_NOT_DISPATCHED;
	}
	switch (code) {
	case BERTH_ERROR_INVALID:
	case BERTH_ERROR_NOT_FOUND:
	case BERTH_ERROR_DENIED:
		return BERTH_CREATE_REJECTED;
	default:
		return BERTH_CREATE_AMBIGUOUS;
	}
}

enum berth_create_outcome local_create(struct berth_runner *runner, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	BERTH_AUTO(local_lease_free) struct local_lease lease;
	if (!local_lease_get(local, plan->lease_id, &lease)) {
		berth_fail(err, BERTH_ERROR_INTERNAL, "lease %s has no image: prepare it first", plan->lease_id);
		return BERTH_CREATE_NOT_DISPATCHED;
	}
	char trial[16], generation[16];
	snprintf(trial, sizeof trial, "%u", plan->trial_index);
	snprintf(generation, sizeof generation, "%u", plan->generation);
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_DAEMON, local->daemon_id},
		{BERTH_LABEL_AGENT, local->agent},
		{BERTH_LABEL_JOB, plan->job_id},
		{BERTH_LABEL_TRIAL, trial},
		{BERTH_LABEL_GENERATION, generation},
		{BERTH_LABEL_LEASE, plan->lease_id},
		{BERTH_LABEL_ROLE, role_name(plan->role)},
	};
	BERTH_AUTO_FREE char *name = berth_format("berth-%s", plan->lease_id);
	BERTH_AUTO_FREE char *bridge = local_network_id(local);
	BERTH_AUTO(free_lines) char **env = env_lines(plan->env);
	const struct berth_docker_create request = {
		.name = name,
		.image = lease.image_id,
		.command = (const char *const[]){"sh", "-c", "sleep infinity", NULL},
		.env = (const char *const *)env,
		.network = plan->network == BERTH_NETWORK_NONE ? "none" : bridge,
		// Compose gives the service its own name; a container of one needs no more than this.
		.extra_hosts = (const char *const[]){"main:127.0.0.1", NULL},
		.cpus = plan->cpus > 0 ? (double)plan->cpus : 0,
		.memory_mb = plan->memory_mb > 0 ? plan->memory_mb : 0,
		.labels = labels,
		.labels_count = BERTH_COUNT(labels),
	};
	bool sent = true;
	struct berth_error failure = {0};
	if (berth_docker_container_create(local->docker, &request, &created->resource_id, &sent, until, &failure)) {
		local_lease_answered(local, plan->lease_id);
		return BERTH_CREATE_CREATED;
	}
	berth_fail(err, failure.code, "%s", failure.message);
	return outcome_of(sent, failure.code);
}

// Waits until the image's own health check has spoken, where it has one.
static bool wait_until_it_runs(struct local *local, const char *id, struct berth_docker_container *container,
	struct berth_until until, struct berth_error *err)
{
	for (;;) {
		berth_docker_container_free(container);
		*container = (struct berth_docker_container){0};
		if (!berth_docker_container_inspect(local->docker, id, container, until, err)) {
			return false;
		}
		if (strcmp(container->status, "running") != 0) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"the container exited at once with exit code %d: its ENTRYPOINT must run the command "
				"that it is given",
				container->exit_code);
		}
		if (strcmp(container->health, "unhealthy") == 0) {
			return berth_fail(
				err, BERTH_ERROR_INVALID, "the container is unhealthy by the HEALTHCHECK of its image");
		}
		if (strcmp(container->health, "starting") != 0) {
			return true;
		}
		if (!berth_sleep_ms(HEALTH_PAUSE_MS, until, err)) {
			return berth_error_wrap(err, "waiting for the image's HEALTHCHECK");
		}
	}
}

static struct berth_environment *environment_new(struct local *local, const struct berth_environment_plan *plan,
	const char *id, const struct berth_docker_container *container)
{
	const char *declared = plan->environment->workdir;
	const char *own = container->workdir && *container->workdir ? container->workdir : "/";
	BERTH_AUTO_FREE char *bridge = local_network_id(local);
	struct berth_environment *environment = berth_alloc(sizeof *environment);
	*environment = (struct berth_environment){
		.local = local,
		.id = berth_strdup(id),
		.workdir = berth_strdup(declared ? declared : own),
		.exec_workdir = berth_strdup(declared),
		.image_id = berth_strdup(container->image_id),
		.user = berth_strdup(container->user),
		.network_mode = berth_strdup(container->network_mode),
		.own_bridge = strcmp(container->network_mode, bridge) == 0,
		.cpus = container->nano_cpus / 1000000000,
		.memory_mb = container->memory_bytes / (1024 * 1024),
		.role = plan->role,
	};
	return environment;
}

static bool furnish(struct berth_environment *environment, const struct berth_environment_plan *plan,
	struct berth_until until, struct berth_error *err)
{
	static const struct berth_put logs[] = {
		{.target = "/logs/agent", .fresh = true},
		{.target = "/logs/verifier", .fresh = true},
		{.target = "/logs/artifacts", .fresh = true},
	};
	return local_put(environment, logs, BERTH_COUNT(logs), until, err) &&
	       (!local_uploads_context(plan) ||
		       local_upload(environment, plan->context_folder, environment->workdir, until, err));
}

struct berth_environment *local_open(struct berth_runner *runner, const struct berth_environment_plan *plan,
	const char *resource_id, struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	BERTH_AUTO(berth_docker_container_free) struct berth_docker_container container = {0};
	if (!berth_docker_container_start(local->docker, resource_id, until, err)) {
		berth_error_wrap(err, "container %.12s", resource_id);
		return NULL;
	}
	if (!wait_until_it_runs(local, resource_id, &container, until, err)) {
		return NULL;
	}
	struct berth_environment *environment = environment_new(local, plan, resource_id, &container);
	// Files can be put into an ended container, and the Engine is late to say that one ended: look again.
	if (!furnish(environment, plan, until, err) ||
		!wait_until_it_runs(local, resource_id, &container, until, err)) {
		local_close(environment);
		return NULL;
	}
	return environment;
}

void local_close(struct berth_environment *environment)
{
	if (!environment) {
		return;
	}
	free(environment->id);
	free(environment->workdir);
	free(environment->exec_workdir);
	free(environment->image_id);
	free(environment->user);
	free(environment->network_mode);
	free(environment);
}

bool local_explain(struct berth_environment *environment, struct berth_error *err)
{
	if (!err || err->code == BERTH_ERROR_TIMEOUT || err->code == BERTH_ERROR_CANCELLED ||
		err->code == BERTH_ERROR_UNAVAILABLE) {
		return false;
	}
	BERTH_AUTO(berth_docker_container_free) struct berth_docker_container container = {0};
	struct berth_error failure = {0};
	if (!berth_docker_container_inspect(environment->local->docker, environment->id, &container,
		    berth_within_ms(EXPLAIN_MS, NULL), &failure)) {
		if (failure.code == BERTH_ERROR_NOT_FOUND) {
			err->code = BERTH_ERROR_UNAVAILABLE;
			berth_error_wrap(err, "the container is gone: someone removed it");
		}
		return false;
	}
	if (strcmp(container.status, "running") == 0) {
		return false;
	}
	// A first process can't be killed from inside: 137 without the kernel's word is someone on the host.
	bool own_doing = container.oom_killed || container.exit_code != EXIT_CODE_KILLED;
	err->code = own_doing ? BERTH_ERROR_INVALID : BERTH_ERROR_UNAVAILABLE;
	return berth_error_wrap(err, "the container exited with exit code %d%s", container.exit_code,
		container.oom_killed ? ", out of memory" : "");
}

berth_json *local_attest(struct berth_environment *environment, struct berth_until until, struct berth_error *err)
{
	(void)until;
	(void)err;
	const struct local *local = environment->local;
	bool sealed = strcmp(environment->network_mode, "none") == 0;
	enum berth_network_mode mode = sealed ? BERTH_NETWORK_NONE : BERTH_NETWORK_PUBLIC;
	berth_json *json = berth_json_object();
	berth_json_set(json, "schema_version", berth_json_integer(1));
	berth_json_set(json, "backend", berth_json_string("local"));
	berth_json_set(json, "role", berth_json_string(role_name(environment->role)));
	berth_json_set(json, "image_id", berth_json_string(environment->image_id));
	berth_json_set(json, "platform", berth_json_string(local->platform));
	berth_json_set(json, "network_mode",
		berth_json_string(
			sealed || environment->own_bridge ? berth_network_mode_name(mode) : environment->network_mode));
	berth_json_set(json, "user", berth_json_string(*environment->user ? environment->user : "root"));
	berth_json_set(json, "cpus", environment->cpus > 0 ? berth_json_integer(environment->cpus) : berth_json_null());
	berth_json_set(json, "memory_mb",
		environment->memory_mb > 0 ? berth_json_integer(environment->memory_mb) : berth_json_null());
	return json;
}

static bool list_lease(struct local *local, const char *lease_id, struct berth_docker_listed **listed, size_t *count,
	struct berth_until until, struct berth_error *err)
{
	// Not by agent: one that takes over a forgotten agent's leases ends them as well.
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_LEASE, lease_id},
	};
	return berth_docker_container_list(local->docker, labels, BERTH_COUNT(labels), listed, count, until, err);
}

// One listing; removes what it finds.
static bool sweep(
	struct local *local, const char *lease_id, size_t *found, struct berth_until until, struct berth_error *err)
{
	struct berth_docker_listed *listed = NULL;
	if (!list_lease(local, lease_id, &listed, found, until, err)) {
		return false;
	}
	bool good = true;
	for (size_t i = 0; i < *found && good; i++) {
		struct berth_error failure = {0};
		good = berth_docker_container_remove(local->docker, listed[i].id, until, &failure) ||
		       failure.code == BERTH_ERROR_CONFLICT || // someone removes it already: the next listing tells
		       berth_fail(err, failure.code, "%s", failure.message);
	}
	berth_docker_listed_free(listed, *found);
	return good;
}

bool local_kill(struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	BERTH_AUTO(local_lease_free) struct local_lease lease;
	bool settled = local_lease_get(local, lease_id, &lease) && lease.answered;
	int64_t bound_ns = local_lease_sent_ns(local, lease_id) + runner->placement_bound_ms * BERTH_NS_PER_MS;
	bool was_seen = false;
	for (int absences = 0;;) {
		size_t found = 0;
		if (!sweep(local, lease_id, &found, until, err)) {
			return berth_error_wrap(err, "lease %s", lease_id);
		}
		// What was seen once was the one that could appear.
		was_seen = was_seen || found > 0;
		settled = settled || was_seen;
		absences = found > 0 ? 0 : absences + 1;
		bool proven = settled || berth_boot_ns() >= bound_ns;
		if (absences >= ABSENCE_LISTINGS && proven) {
			if (!was_seen && !berth_docker_is(local->docker, local->daemon_id, until, err)) {
				return berth_error_wrap(err, "lease %s", lease_id);
			}
			local_lease_forget(local, lease_id);
			return true;
		}
		if (!berth_sleep_ms(proven ? ABSENCE_PAUSE_MS : PLACEMENT_PAUSE_MS, until, err)) {
			return berth_error_wrap(err, "lease %s: %zu container(s) still seen", lease_id, found);
		}
	}
}

static bool has_text(char *const *texts, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(texts[i], text) == 0) {
			return true;
		}
	}
	return false;
}

bool local_list_leases(struct berth_runner *runner, char ***lease_ids, size_t *count, struct berth_until until,
	struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_AGENT, local->agent},
	};
	struct berth_docker_listed *listed = NULL;
	size_t found = 0;
	if (!berth_docker_container_list(local->docker, labels, BERTH_COUNT(labels), &listed, &found, until, err)) {
		return false;
	}
	*lease_ids = berth_alloc((found + 1) * sizeof **lease_ids);
	*count = 0;
	for (size_t i = 0; i < found; i++) {
		const char *lease_id = berth_docker_listed_label(&listed[i], BERTH_LABEL_LEASE);
		if (lease_id && !has_text(*lease_ids, *count, lease_id)) {
			(*lease_ids)[(*count)++] = berth_strdup(lease_id);
		}
	}
	berth_docker_listed_free(listed, found);
	return true;
}
