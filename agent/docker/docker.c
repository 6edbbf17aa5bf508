// SPDX-License-Identifier: Apache-2.0
#include "agent/docker/docker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/internal.h"
#include "common/base/mem.h"

#define API_MINOR_LEAST 41
#define API_MINOR_MOST  47

static bool settle_version(struct berth_docker *docker, const berth_json *version, struct berth_error *err)
{
	const char *api = berth_json_get_string(version, "ApiVersion");
	const char *engine = berth_json_get_string(version, "Version");
	const char *os = berth_json_get_string(version, "Os");
	int major = 0, minor = 0;
	if (!api || sscanf(api, "%d.%d", &major, &minor) != 2) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "the daemon at %s names no API version", docker->socket);
	}
	if (major == 1 && minor < API_MINOR_LEAST) {
		return berth_fail(err, BERTH_ERROR_UNSUPPORTED,
			"the daemon at %s speaks API %s; 1.%d is needed: install Docker Engine 20.10 or later",
			docker->socket, api, API_MINOR_LEAST);
	}
	minor = major > 1 || minor > API_MINOR_MOST ? API_MINOR_MOST : minor;
	free(docker->api);
	docker->api = berth_format("/v1.%d", minor);
	docker->engine_major = engine ? atoi(engine) : 0;
	// BuildKit is part of every Engine with this API on Linux; on Windows it is not.
	docker->buildkit = os && strcmp(os, "linux") == 0;
	return true;
}

static bool greet(struct berth_docker *docker, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *what = berth_format("Docker at unix://%s", docker->socket);
	struct docker_call ping = {.method = "GET", .path = "/_ping", .what = what};
	// The answer is "OK", which is no JSON.
	if (!docker_stream(docker, &ping, (struct berth_sink){0}, until, err)) {
		return false;
	}
	struct docker_call call = {.method = "GET", .path = "/version", .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err) && settle_version(docker, reply.json, err);
}

struct berth_docker *berth_docker_open(
	struct berth_http *http, const char *host, struct berth_until until, struct berth_error *err)
{
	struct berth_error ignored;
	err = err ? err : &ignored;
	const char *named = getenv("DOCKER_HOST");
	if (!host) {
		host = named && *named ? named : "unix:///var/run/docker.sock";
	}
	if (strncmp(host, "unix://", 7) != 0) {
		berth_fail(err, BERTH_ERROR_UNSUPPORTED,
			"the Docker host %s is no unix socket: use unix:///path/docker.sock", host);
		return NULL;
	}
	struct berth_docker *docker = berth_alloc(sizeof *docker);
	docker->http = http;
	docker->socket = berth_strdup(host + 7);
	docker->api = berth_strdup("");
	if (!greet(docker, until, err)) {
		berth_docker_free(docker);
		return NULL;
	}
	return docker;
}

void berth_docker_free(struct berth_docker *docker)
{
	if (!docker) {
		return;
	}
	free(docker->socket);
	free(docker->api);
	free(docker);
}

// The Engine says what `uname -m` says; image platforms use Go's names.
static const char *platform_name(const char *machine)
{
	static const char *const names[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"},
		{"armv6l", "arm"}, {"i686", "386"}, {"i386", "386"}};
	for (size_t i = 0; i < BERTH_COUNT(names); i++) {
		if (strcmp(machine, names[i][0]) == 0) {
			return names[i][1];
		}
	}
	return machine;
}

bool berth_docker_info(
	struct berth_docker *docker, struct berth_docker_info *info, struct berth_until until, struct berth_error *err)
{
	*info = (struct berth_docker_info){0};
	struct docker_call call = {.method = "GET", .path = "/info", .what = "ask Docker about itself"};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const berth_json *json = reply.json;
	const char *machine = berth_json_get_string(json, "Architecture");
	const char *cgroup = berth_json_get_string(json, "CgroupVersion");
	info->daemon_id = docker_string(json, "ID");
	info->name = docker_string(json, "Name");
	info->server_version = docker_string(json, "ServerVersion");
	info->os_type = docker_string(json, "OSType");
	info->architecture = berth_strdup(platform_name(machine ? machine : ""));
	info->cpus = (int)berth_json_get_integer(json, "NCPU");
	info->memory_bytes = berth_json_get_integer(json, "MemTotal");
	info->cgroup_driver = docker_string(json, "CgroupDriver");
	info->cgroup_version = cgroup ? atoi(cgroup) : 1;
	info->data_root = docker_string(json, "DockerRootDir");
	return true;
}

bool berth_docker_is(
	struct berth_docker *docker, const char *daemon_id, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO(berth_docker_info_free) struct berth_docker_info info;
	return berth_docker_info(docker, &info, until, err) &&
	       (strcmp(info.daemon_id, daemon_id) == 0 || berth_fail(err, BERTH_ERROR_CONFLICT,
								  "another Docker daemon answers (%.64s) than at the "
	                                                          "agent's start (%.64s): bring that one back, "
								  "or start the agent again",
								  info.daemon_id, daemon_id));
}

void berth_docker_info_free(struct berth_docker_info *info)
{
	free(info->daemon_id);
	free(info->name);
	free(info->server_version);
	free(info->os_type);
	free(info->architecture);
	free(info->cgroup_driver);
	free(info->data_root);
	*info = (struct berth_docker_info){0};
}
