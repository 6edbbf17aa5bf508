// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/internal.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"

#define REMOVAL_POLL_MS 50

static berth_json *strings(const char *const *texts)
{
	berth_json *array = berth_json_array();
	for (; texts && *texts; texts++) {
		berth_json_append(array, berth_json_string(*texts));
	}
	return array;
}

static void set_strings(berth_json *object, const char *key, const char *const *texts)
{
	if (texts && *texts) {
		berth_json_set(object, key, strings(texts));
	}
}

static berth_json *host_config(const struct berth_docker_create *create)
{
	berth_json *host = berth_json_object();
	if (create->network) {
		berth_json_set(host, "NetworkMode", berth_json_string(create->network));
	}
	set_strings(host, "ExtraHosts", create->extra_hosts);
	set_strings(host, "Binds", create->binds);
	if (create->cpus > 0) {
		berth_json_set(host, "NanoCpus", berth_json_integer(llround(create->cpus * 1e9)));
	}
	if (create->memory_mb > 0) {
		berth_json_set(host, "Memory", berth_json_integer(create->memory_mb * 1024 * 1024));
	}
	return host;
}

static berth_json *create_body(const struct berth_docker_create *create)
{
	berth_json *body = berth_json_object();
	berth_json_set(body, "Image", berth_json_string(create->image));
	set_strings(body, "Cmd", create->command);
	set_strings(body, "Env", create->env);
	if (create->workdir) {
		berth_json_set(body, "WorkingDir", berth_json_string(create->workdir));
	}
	berth_json_set(body, "Labels", docker_labels(create->labels, create->labels_count));
	berth_json_set(body, "HostConfig", host_config(create));
	return body;
}

// The id in the daemon's answer to a create.
static bool take_id(const struct docker_reply *reply, const char *what, char **id, struct berth_error *err)
{
	const char *text = berth_json_get_string(reply->json, "Id");
	if (!text || !*text) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon gave no id", what);
	}
	*id = berth_strdup(text);
	return true;
}

bool berth_docker_container_create(struct berth_docker *docker, const struct berth_docker_create *create, char **id,
	bool *sent, struct berth_until until, struct berth_error *err)
{
	*id = NULL;
	BERTH_AUTO(berth_json_cleanup) berth_json *body = create_body(create);
	BERTH_AUTO_FREE char *name = berth_http_escape(create->name ? create->name : "");
	BERTH_AUTO_FREE char *path = berth_format("/containers/create%s%s", *name ? "?name=" : "", name);
	BERTH_AUTO_FREE char *what =
		berth_format("create container %s of %s", create->name ? create->name : "", create->image);
	struct docker_call call = {.method = "POST", .path = path, .what = what, .body = body};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	bool good = docker_call(docker, &call, &reply, until, err);
	if (sent) {
		*sent = reply.sent;
	}
	return good && take_id(&reply, what, id, err);
}

// One request about one container, whose answer does not matter.
static bool act(struct berth_docker *docker, const char *method, const char *id, const char *action, const char *verb,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *path = berth_format("/containers/%s%s", name, action);
	BERTH_AUTO_FREE char *what = berth_format("%s container %s", verb, id);
	struct docker_call call = {.method = method, .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err);
}

bool berth_docker_container_start(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err)
{
	return act(docker, "POST", id, "/start", "start", until, err);
}

bool berth_docker_container_kill(struct berth_docker *docker, const char *id, const char *signal,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *escaped = berth_http_escape(signal);
	BERTH_AUTO_FREE char *action = berth_format("/kill?signal=%s", escaped);
	return act(docker, "POST", id, action, "kill", until, err);
}

// Waits until a removal that someone else began has ended.
static bool await_gone(struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err)
{
	for (;;) {
		struct berth_docker_container container;
		if (!berth_docker_container_inspect(docker, id, &container, until, err)) {
			return err->code == BERTH_ERROR_NOT_FOUND;
		}
		berth_docker_container_free(&container);
		if (!berth_sleep_ms(REMOVAL_POLL_MS, until, err)) {
			return berth_error_wrap(err, "remove container %s", id);
		}
	}
}

bool berth_docker_container_remove(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err)
{
	struct berth_error why;
	if (act(docker, "DELETE", id, "?force=1&v=1", "remove", until, &why) || why.code == BERTH_ERROR_NOT_FOUND) {
		return true;
	}
	if (why.code == BERTH_ERROR_CONFLICT && strstr(why.message, "in progress") &&
		await_gone(docker, id, until, &why)) {
		return true;
	}
	return berth_fail(err, why.code, "%s", why.message);
}

bool berth_docker_container_inspect(struct berth_docker *docker, const char *id,
	struct berth_docker_container *container, struct berth_until until, struct berth_error *err)
{
	*container = (struct berth_docker_container){0};
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *path = berth_format("/containers/%s/json", name);
	BERTH_AUTO_FREE char *what = berth_format("inspect container %s", id);
	struct docker_call call = {.method = "GET", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const berth_json *state = berth_json_get(reply.json, "State");
	const char *health = berth_json_get_string(berth_json_get(state, "Health"), "Status");
	const char *full = berth_json_get_string(reply.json, "Name");
	container->id = docker_string(reply.json, "Id");
	container->name = berth_strdup(full && *full == '/' ? full + 1 : full ? full : "");
	container->image_id = docker_string(reply.json, "Image");
	container->status = docker_string(state, "Status");
	container->health = berth_strdup(health && *health ? health : "none");
	container->pid = berth_json_get_integer(state, "Pid");
	container->exit_code = (int)berth_json_get_integer(state, "ExitCode");
	container->oom_killed = berth_json_get_bool(state, "OOMKilled");
	const berth_json *host = berth_json_get(reply.json, "HostConfig"),
			 *config = berth_json_get(reply.json, "Config");
	container->network_mode = docker_string(host, "NetworkMode");
	container->nano_cpus = berth_json_get_integer(host, "NanoCpus");
	container->memory_bytes = berth_json_get_integer(host, "Memory");
	container->workdir = docker_string(config, "WorkingDir");
	container->user = docker_string(config, "User");
	return true;
}

void berth_docker_container_free(struct berth_docker_container *container)
{
	free(container->id);
	free(container->name);
	free(container->image_id);
	free(container->status);
	free(container->health);
	free(container->network_mode);
	free(container->workdir);
	free(container->user);
	*container = (struct berth_docker_container){0};
}

bool berth_docker_network_create(struct berth_docker *docker, const struct berth_docker_network *network, char **id,
	struct berth_until until, struct berth_error *err)
{
	*id = NULL;
	BERTH_AUTO(berth_json_cleanup) berth_json *body = berth_json_object();
	berth_json_set(body, "Name", berth_json_string(network->name));
	berth_json_set(body, "CheckDuplicate", berth_json_bool(true));
	berth_json_set(body, "Driver", berth_json_string("bridge"));
	berth_json_set(body, "Labels", docker_labels(network->labels, network->labels_count));
	if (network->isolate_containers) {
		struct berth_docker_label option = {"com.docker.network.bridge.enable_icc", "false"};
		berth_json_set(body, "Options", docker_labels(&option, 1));
	}
	BERTH_AUTO_FREE char *what = berth_format("create network %s", network->name);
	struct docker_call call = {.method = "POST", .path = "/networks/create", .what = what, .body = body};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err) && take_id(&reply, what, id, err);
}

bool berth_docker_network_remove(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *path = berth_format("/networks/%s", name);
	BERTH_AUTO_FREE char *what = berth_format("remove network %s", id);
	struct docker_call call = {.method = "DELETE", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err);
}

bool berth_docker_archive_put(struct berth_docker *docker, const char *id, const char *folder, struct berth_source tar,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *escaped = berth_http_escape(folder);
	BERTH_AUTO_FREE char *path = berth_format("/containers/%s/archive?path=%s", name, escaped);
	BERTH_AUTO_FREE char *what = berth_format("copy to %s of container %s", folder, id);
	struct docker_call call = {.method = "PUT",
		.path = path,
		.what = what,
		.content_type = "Content-Type: application/x-tar",
		.source = &tar};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err);
}

bool berth_docker_archive_get(struct berth_docker *docker, const char *id, const char *path, struct berth_sink tar,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *escaped = berth_http_escape(path);
	BERTH_AUTO_FREE char *target = berth_format("/containers/%s/archive?path=%s", name, escaped);
	BERTH_AUTO_FREE char *what = berth_format("copy %s from container %s", path, id);
	struct docker_call call = {.method = "GET", .path = target, .what = what};
	return docker_stream(docker, &call, tar, until, err);
}
