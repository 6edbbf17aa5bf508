// SPDX-License-Identifier: Apache-2.0
// How the module's files ask the daemon and speak of its refusals.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/docker/docker.h"
#include "common/base/buf.h"
#include "common/codec/json.h"

struct berth_docker {
	struct berth_http *http;
	char *socket;
	char *api;        // "/v1.41"
	int engine_major; // 20 of "20.10.24"
	bool buildkit;
};

// The text of a reply that is read whole. An inspect or a list of a busy host stays far below.
#define DOCKER_REPLY_MAX (16 * 1024 * 1024)
// One line of a streamed reply (a trace record with a step's output in base64).
#define DOCKER_LINE_MAX (16 * 1024 * 1024)

struct docker_call {
	const char *method;
	const char *path;         // below the API version, escaped, with its query
	const char *what;         // for messages: "create container x"
	const berth_json *body;   // NULL for none
	const char *content_type; // of `source`
	const struct berth_source *source;
};

struct docker_reply {
	int status;
	bool sent;
	berth_json *json; // NULL where the reply had no body
};

// False with err set (mapped as docker.h says) when there was no reply or its status is 400 or more.
bool docker_call(struct berth_docker *docker, const struct docker_call *call, struct docker_reply *reply,
	struct berth_until until, struct berth_error *err);
void docker_reply_free(struct docker_reply *reply);

// The same for a reply that comes as a stream: `sink` gets its bytes while the status is below 400.
bool docker_stream(struct berth_docker *docker, const struct docker_call *call, struct berth_sink sink,
	struct berth_until until, struct berth_error *err);

// err from what the daemon said.
bool docker_fail(struct berth_error *err, int status, const char *what, const char *message);
// True when the daemon's words mean that a registry could not be reached; *registry is its host name (caller frees).
bool docker_is_registry_failure(const char *message, char **registry);
bool docker_is_exhausted(const char *message);

// Percent-encodes all but unreserved characters and "/".
char *docker_escape_path(const char *text);
// {"key":"value"} of labels; the caller owns it.
berth_json *docker_labels(const struct berth_docker_label *labels, size_t count);
char *docker_json_text(const berth_json *value);
char *docker_string(const berth_json *object, const char *key); // a copy, "" when missing

// Splits a stream into lines and hands each to `take` as JSON.
struct docker_lines {
	bool (*take)(void *context, const berth_json *line, struct berth_error *err);
	void *context;
	struct berth_buf partial;
};
bool docker_lines_put(void *lines, const void *data, size_t size, struct berth_error *err); // as a sink
bool docker_lines_end(struct docker_lines *lines, struct berth_error *err);
