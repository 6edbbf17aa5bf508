// SPDX-License-Identifier: Apache-2.0
// Docker Engine API over its unix socket. Thread-safe; every call takes a deadline and a cancel token, and a daemon
// that hangs, dies or lies costs the caller no more than that.
//
// Errors: UNAVAILABLE (no daemon: the message names the socket), NOT_FOUND (no such image, container, network),
// CONFLICT (name in use, already in progress), EXHAUSTED (no address pool or space left), INVALID (the daemon refused
// the request), IO (the connection broke), INTERNAL (the daemon failed), TIMEOUT, CANCELLED.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/codec/tar.h"
#include "common/http/http.h"

struct berth_docker;

// `host` is "unix:///path" (NULL: $DOCKER_HOST, then unix:///var/run/docker.sock). Asks /_ping and /version and settles
// the API version (1.41 at least; the daemon's own or 1.47 at most).
struct berth_docker *berth_docker_open(
	struct berth_http *http, const char *host, struct berth_until until, struct berth_error *err);
void berth_docker_free(struct berth_docker *docker); // NULL is allowed

struct berth_docker_info {
	char *daemon_id;
	char *name;
	char *server_version; // "20.10.24"
	char *os_type;        // "linux"
	char *architecture;   // "amd64", as image platforms say it
	int cpus;
	int64_t memory_bytes;
	char *cgroup_driver;
	int cgroup_version;
	char *data_root;
};
bool berth_docker_info(
	struct berth_docker *docker, struct berth_docker_info *info, struct berth_until until, struct berth_error *err);
void berth_docker_info_free(struct berth_docker_info *info);
// CONFLICT when the daemon that answers is not the one of this id, but one with other data that came in its place: it
// shows nothing of what the other has.
bool berth_docker_is(
	struct berth_docker *docker, const char *daemon_id, struct berth_until until, struct berth_error *err);

struct berth_docker_label {
	const char *key;
	const char *value;
};

// --- images ---
struct berth_docker_image {
	char *id; // "sha256:..."
	char *os;
	char *architecture;
	char *workdir; // "" for none
	char *user;    // "" for root
	bool has_healthcheck;
	char *labels_json; // object of names and values
};
bool berth_docker_image_inspect(struct berth_docker *docker, const char *reference, struct berth_docker_image *image,
	struct berth_until until, struct berth_error *err);
void berth_docker_image_free(struct berth_docker_image *image);
bool berth_docker_image_pull(
	struct berth_docker *docker, const char *reference, struct berth_until until, struct berth_error *err);
bool berth_docker_image_remove(
	struct berth_docker *docker, const char *reference, struct berth_until until, struct berth_error *err);

struct berth_docker_build {
	const char *tag;
	const char *dockerfile; // path inside the context; NULL: "Dockerfile"
	const struct berth_docker_label *labels;
	size_t labels_count;
	struct berth_source context; // tar
	bool no_cache;
	struct berth_sink log; // readable text as it comes; put == NULL drops it
};
// BuildKit in the daemon where it has it (version=2), else the old builder. A failed step or base image is INVALID when
// the Dockerfile is at fault ("step failed with exit code 1: ..."), UNAVAILABLE when a registry could not be reached;
// the message has the last lines of the failing step. *image_id is "sha256:...", the caller frees.
bool berth_docker_image_build(struct berth_docker *docker, const struct berth_docker_build *build, char **image_id,
	struct berth_until until, struct berth_error *err);

// --- containers ---
struct berth_docker_create {
	const char *name;
	const char *image;
	const char *const *command; // NULL-terminated; NULL keeps the image's. The image's ENTRYPOINT is kept.
	const char *const *env;     // "KEY=value", NULL-terminated
	const char *workdir;
	const char *network;            // name, "none", or NULL for the default bridge
	const char *const *extra_hosts; // "name:address", NULL-terminated
	const char *const *binds;       // "source:target[:ro]", NULL-terminated
	double cpus;                    // 0: no limit
	int64_t memory_mb;              // 0: no limit
	const struct berth_docker_label *labels;
	size_t labels_count;
};
// Sends exactly one POST /containers/create. *sent is false when it is certain that the daemon did not get it.
bool berth_docker_container_create(struct berth_docker *docker, const struct berth_docker_create *create, char **id,
	bool *sent, struct berth_until until, struct berth_error *err);
bool berth_docker_container_start(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err);

struct berth_docker_container {
	char *id;
	char *name;
	char *image_id;
	char *status; // "created", "running", "exited", ...
	char *health; // "none", "starting", "healthy", "unhealthy"
	int64_t pid;  // on the daemon's host; 0 when not running
	int exit_code;
	bool oom_killed;
	char *network_mode;
	char *workdir;
	char *user;                      // "": root
	int64_t nano_cpus, memory_bytes; // 0: no limit
};
bool berth_docker_container_inspect(struct berth_docker *docker, const char *id,
	struct berth_docker_container *container, struct berth_until until, struct berth_error *err);
void berth_docker_container_free(struct berth_docker_container *container);
bool berth_docker_container_kill(struct berth_docker *docker, const char *id, const char *signal,
	struct berth_until until, struct berth_error *err);
// Force, with its anonymous volumes. One that is gone already is a success.
bool berth_docker_container_remove(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err);

// What carries all of these labels, in any state; labels_out gives every label of each.
struct berth_docker_listed {
	char *id;
	char *name;
	struct berth_docker_label *labels;
	size_t labels_count;
};
bool berth_docker_container_list(struct berth_docker *docker, const struct berth_docker_label *labels,
	size_t labels_count, struct berth_docker_listed **listed, size_t *count, struct berth_until until,
	struct berth_error *err);
bool berth_docker_network_list(struct berth_docker *docker, const struct berth_docker_label *labels,
	size_t labels_count, struct berth_docker_listed **listed, size_t *count, struct berth_until until,
	struct berth_error *err);
void berth_docker_listed_free(struct berth_docker_listed *listed, size_t count);
// The value of a label, or NULL.
const char *berth_docker_listed_label(const struct berth_docker_listed *listed, const char *key);

// Processes of a container as the Engine's top shows them (pid, sid and args of ps on the daemon's host; zombies too).
struct berth_docker_process {
	int64_t pid;
	int64_t sid;
	char *args;
};
bool berth_docker_container_top(struct berth_docker *docker, const char *id, struct berth_docker_process **processes,
	size_t *count, struct berth_until until, struct berth_error *err);
void berth_docker_processes_free(struct berth_docker_process *processes, size_t count);

// --- networks ---
struct berth_docker_network {
	const char *name;
	bool isolate_containers; // members of the bridge can't reach each other
	const struct berth_docker_label *labels;
	size_t labels_count;
};
bool berth_docker_network_create(struct berth_docker *docker, const struct berth_docker_network *network, char **id,
	struct berth_until until, struct berth_error *err);
bool berth_docker_network_remove(
	struct berth_docker *docker, const char *id, struct berth_until until, struct berth_error *err);

// --- files ---
// Unpacks a tar below `folder` of the container, which must exist (NOT_FOUND otherwise).
bool berth_docker_archive_put(struct berth_docker *docker, const char *id, const char *folder, struct berth_source tar,
	struct berth_until until, struct berth_error *err);
// A tar of `path`, whose last part is the first part of every entry.
bool berth_docker_archive_get(struct berth_docker *docker, const char *id, const char *path, struct berth_sink tar,
	struct berth_until until, struct berth_error *err);

// --- exec ---
enum berth_docker_stream { BERTH_DOCKER_STDOUT = 1, BERTH_DOCKER_STDERR = 2 };

struct berth_docker_exec {
	const char *const *argv; // NULL-terminated; the container needs /bin/sh besides
	const char *const *env;  // "KEY=value", NULL-terminated: in force for this exec only
	const char *user;        // NULL: the image's user
	const char *workdir;     // NULL: the image's
	const void *input;       // bytes for stdin, then its end; NULL: /dev/null
	size_t input_size;
	// Demultiplexed output, in the calling thread; NULL drops it. Returning false ends the exec as a cancel does.
	bool (*output)(void *context, enum berth_docker_stream stream, const void *data, size_t size);
	void *context;
	int64_t kill_ms;                      // how long the end of the session may take after `until`; 0: 10,000
	const struct berth_docker_gate *gate; // NULL: none
};

// Called after the process exists and before it runs `argv`: *pid is the process on the daemon's host, session the
// session id inside the container. False ends the exec with err.
struct berth_docker_gate {
	bool (*open)(void *context, int64_t pid, int64_t session, struct berth_error *err);
	void *context;
};

// Runs argv as the leader of a session of its own and waits for its end. True: *exit_code is its status (126, 127 when
// it could not start). When `until` passes first, every process of that session is killed from inside the container,
// their absence is proven by the Engine's top, and the result is TIMEOUT or CANCELLED; when that can't be proven within
// kill_ms it is INTERNAL: the caller must not go on as if nothing ran. Processes that left the session live on. Output
// after the process has ended is waited for two seconds (a background child may hold it open).
bool berth_docker_exec(struct berth_docker *docker, const char *container, const struct berth_docker_exec *exec,
	int *exit_code, struct berth_until until, struct berth_error *err);
