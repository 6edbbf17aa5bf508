// SPDX-License-Identifier: Apache-2.0
// Commands in a container, and the end of what they leave behind.
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/cancel.h"
#include "common/base/digest.h"
#include "common/base/mem.h"

#define LEFTOVERS_END_MS 20000

static bool pass_output(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	(void)stream;
	const struct berth_exec *exec = context;
	return exec->output(exec->context, data, size);
}

static char **exec_env(const struct berth_env *env, const char *mark)
{
	size_t count = env ? env->count : 0;
	char **lines = berth_alloc((count + 2) * sizeof *lines);
	for (size_t i = 0; i < count; i++) {
		lines[i] = berth_format("%s=%s", env->names[i], env->values[i]);
	}
	if (mark) {
		lines[count] = berth_format(LOCAL_MARK_NAME "=%s", mark);
	}
	return lines;
}

static void free_exec_env(char ***lines)
{
	for (char **line = *lines; line && *line; line++) {
		free(*line);
	}
	free(*lines);
}

static bool run(struct berth_environment *environment, const struct berth_exec *exec,
	const struct berth_docker_gate *gate, const char *mark, int *exit_code, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO(free_exec_env) char **env = exec_env(exec->env, mark);
	const struct berth_docker_exec request = {
		.argv = (const char *const[]){"bash", "-c", exec->command, NULL},
		.env = (const char *const *)env,
		.user = exec->user,
		.workdir = exec->workdir ? exec->workdir : environment->exec_workdir,
		.output = exec->output ? pass_output : NULL,
		.context = (void *)exec,
		.gate = gate,
	};
	struct berth_error failure = {0};
	if (berth_docker_exec(environment->local->docker, environment->id, &request, exit_code, until, &failure)) {
		return true;
	}
	local_explain(environment, &failure);
	return berth_fail(err, failure.code, "%s", failure.message);
}

// What the gate of an exec learns.
struct watch {
	const struct berth_environment *environment;
	struct local_cgroup cgroup;
	int64_t session;
	bool opened; // the command's process exists
};

static bool open_gate(void *context, int64_t pid, int64_t session, struct berth_error *err)
{
	(void)err;
	struct watch *watch = context;
	watch->session = session;
	watch->opened = true;
	if (!watch->environment->local->foreign_cgroups) {
		local_cgroup_enter(&watch->cgroup, watch->environment->id, pid);
	}
	return true;
}

// The command's own end stands, unless what it left can't be ended: then nothing may count.
static bool end_leftovers(struct berth_environment *environment, struct watch *watch, struct local_marks *marks,
	const char **how, struct berth_error *err)
{
	// Not stopped by a cancel: whoever cancelled wants it dead as well.
	struct berth_until until = berth_within_ms(LEFTOVERS_END_MS, NULL);
	struct berth_error failure = {0};
	bool good;
	if (watch->cgroup.folder) {
		*how = "cgroup";
		good = local_cgroup_end(&watch->cgroup, until, &failure);
	} else {
		*how = "marks";
		marks->session = watch->session;
		good = local_marks_end(environment, marks, until, &failure);
	}
	if (good || failure.code == BERTH_ERROR_UNAVAILABLE || failure.code == BERTH_ERROR_INVALID) {
		return good || berth_fail(err, failure.code, "%s", failure.message);
	}
	return berth_fail(
		err, BERTH_ERROR_INTERNAL, "what the agent left running could not be ended: %s", failure.message);
}

static bool can_use_cgroups(const struct berth_environment *environment, struct berth_until until)
{
	if (environment->local->foreign_cgroups) {
		return false;
	}
	BERTH_AUTO(berth_docker_container_free) struct berth_docker_container container = {0};
	if (!berth_docker_container_inspect(environment->local->docker, environment->id, &container, until, NULL)) {
		return false;
	}
	return local_cgroup_reachable(environment->id, container.pid);
}

static bool exec_and_end(struct berth_environment *environment, const struct berth_exec *exec,
	struct berth_exec_end *end, struct berth_until until, struct berth_error *err)
{
	struct watch watch = {.environment = environment};
	const struct berth_docker_gate gate = {open_gate, &watch};
	BERTH_AUTO(local_marks_free) struct local_marks marks = {0};
	// The picture from before is needed only where no group can be made.
	if (!can_use_cgroups(environment, until) && !local_marks_begin(environment, &marks, until, err)) {
		return false;
	}
	struct berth_error failure = {0};
	bool good = run(environment, exec, &gate, *marks.mark ? marks.mark : NULL, &end->exit_code, until, &failure);
	if (!watch.opened) {
		end->leftovers = "none"; // it could not start: no such user or folder
		return good || berth_fail(err, failure.code, "%s", failure.message);
	}
	if (!watch.cgroup.folder && !*marks.mark) {
		return berth_fail(err, good ? BERTH_ERROR_INTERNAL : failure.code, "%s",
			good ? "the command could not be put into a group of its own" : failure.message);
	}
	if (failure.code == BERTH_ERROR_UNAVAILABLE || failure.code == BERTH_ERROR_INVALID) {
		local_cgroup_end(&watch.cgroup, berth_within_ms(LEFTOVERS_END_MS, NULL), NULL);
		return berth_fail(err, failure.code, "%s", failure.message); // no container, nothing left in it
	}
	return end_leftovers(environment, &watch, &marks, &end->leftovers, err) &&
	       (good || berth_fail(err, failure.code, "%s", failure.message));
}

bool local_exec(struct berth_environment *environment, const struct berth_exec *exec, struct berth_exec_end *end,
	struct berth_until until, struct berth_error *err)
{
	*end = (struct berth_exec_end){.leftovers = "kept"};
	return exec->end_leftovers ? exec_and_end(environment, exec, end, until, err)
	                           : run(environment, exec, NULL, NULL, &end->exit_code, until, err);
}
