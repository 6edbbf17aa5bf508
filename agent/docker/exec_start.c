// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "agent/docker/exec_internal.h"
#include "common/base/mem.h"

static berth_json *strings(const char *const *texts)
{
	berth_json *array = berth_json_array();
	for (; texts && *texts; texts++) {
		berth_json_append(array, berth_json_string(*texts));
	}
	return array;
}

bool exec_create(struct berth_docker *docker, const char *container, const struct exec_request *request, char **id,
	struct berth_until until, struct berth_error *err)
{
	*id = NULL;
	BERTH_AUTO(berth_json_cleanup) berth_json *body = berth_json_object();
	berth_json_set(body, "AttachStdin", berth_json_bool(request->stdin_attached));
	berth_json_set(body, "AttachStdout", berth_json_bool(true));
	berth_json_set(body, "AttachStderr", berth_json_bool(true));
	berth_json_set(body, "Cmd", strings(request->argv));
	berth_json_set(body, "Env", strings(request->env));
	if (request->user) {
		berth_json_set(body, "User", berth_json_string(request->user));
	}
	if (request->workdir) {
		berth_json_set(body, "WorkingDir", berth_json_string(request->workdir));
	}
	BERTH_AUTO_FREE char *name = berth_http_escape(container);
	BERTH_AUTO_FREE char *path = berth_format("/containers/%s/exec", name);
	BERTH_AUTO_FREE char *what = berth_format("run a command in container %s", container);
	struct docker_call call = {.method = "POST", .path = path, .what = what, .body = body};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const char *text = berth_json_get_string(reply.json, "Id");
	if (!text || !*text) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon gave no id", what);
	}
	*id = berth_strdup(text);
	return true;
}

struct berth_hijack *exec_start(
	struct berth_docker *docker, const char *id, int *status, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *target = berth_format("%s/exec/%s/start", docker->api, name);
	return berth_hijack_open(docker->socket, target, "{\"Detach\":false,\"Tty\":false}", status, until, err);
}

bool exec_inspect(struct berth_docker *docker, const char *id, struct exec_state *state, struct berth_until until,
	struct berth_error *err)
{
	*state = (struct exec_state){0};
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *path = berth_format("/exec/%s/json", name);
	struct docker_call call = {.method = "GET", .path = path, .what = "look at a running command"};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const berth_json *code = berth_json_get(reply.json, "ExitCode");
	state->running = berth_json_get_bool(reply.json, "Running");
	state->pid = berth_json_get_integer(reply.json, "Pid");
	state->ended = !state->running && berth_json_is(code, BERTH_JSON_INTEGER);
	state->exit_code = (int)berth_json_as_integer(code);
	return true;
}
