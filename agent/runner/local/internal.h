// SPDX-License-Identifier: Apache-2.0
// What the files of the local runner share.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "agent/runner/local/local.h"

#define LOCAL_COPY_SIZE_MAX    (8LL * 1024 * 1024 * 1024) // of one folder out of an environment
#define LOCAL_COPY_ENTRIES_MAX 1000000

// What is known of a lease between prepare and kill.
struct local_lease {
	char *lease_id;
	char *image_id;
	bool answered; // its one create was answered: nothing can appear any more
	struct local_lease *next;
};
#define LOCAL_LEASES_MAX 4096 // the oldest is forgotten above

// One image being made; who wants the same one waits for it.
struct local_flight {
	char *key;
	unsigned waiting;
	bool done;
	struct berth_error err; // code OK: made
	struct local_flight *next;
};

struct local {
	struct berth_runner runner;
	struct berth_docker *docker;
	char *fleet, *agent;
	char *daemon_id, *platform, *os;
	bool foreign_cgroups;
	pthread_mutex_t lock; // guards what follows
	pthread_cond_t landed;
	char *network_id; // the bridge
	struct local_lease *leases;
	// By then (boot clock) the create of every lease that is not among them had been sent: an older life of the
	// agent was dead when this one began.
	int64_t others_sent_ns;
	struct local_flight *flights;
};

struct berth_environment {
	struct local *local;
	char *id;           // container
	char *workdir;      // declared, else the container's
	char *exec_workdir; // declared, or NULL
	char *image_id, *user, *network_mode;
	bool own_bridge;
	int64_t cpus, memory_mb; // 0: no limit
	Berth__V1__LeaseRole role;
};

// --- image.c ---
// The image that the plan starts from: makes or finds it, and keeps what create and open need under the lease.
bool local_prepare(struct berth_runner *runner, const struct berth_environment_plan *plan, struct berth_sink log,
	struct berth_until until, struct berth_error *err);
// True when `plan` starts from a ready image and its environment/ is uploaded into the working directory.
bool local_uploads_context(const struct berth_environment_plan *plan);

// --- leases.c ---
// A copy of the lease's entry; false when it has none.
bool local_lease_get(struct local *local, const char *lease_id, struct local_lease *copy);
// When its create was sent, at the latest (boot clock).
int64_t local_lease_sent_ns(struct local *local, const char *lease_id);
void local_lease_put(struct local *local, const char *lease_id, const char *image_id);
void local_lease_answered(struct local *local, const char *lease_id);
void local_lease_forget(struct local *local, const char *lease_id);
void local_lease_free(struct local_lease *lease);
// Runs `make` unless someone makes the same key already: then waits for that one and shares its end.
bool local_single_flight(struct local *local, const char *key,
	bool (*make)(void *context, struct berth_until until, struct berth_error *err), void *context,
	struct berth_until until, struct berth_error *err);

// --- network.c ---
char *local_network_id(struct local *local); // caller frees; NULL before it was settled
// Finds the agent's bridge, or makes it, and removes every other one. For a start and from time to time.
bool local_network_settle(struct local *local, struct berth_until until, struct berth_error *err);

// --- container.c ---
enum berth_create_outcome local_create(struct berth_runner *runner, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err);
struct berth_environment *local_open(struct berth_runner *runner, const struct berth_environment_plan *plan,
	const char *resource_id, struct berth_until until, struct berth_error *err);
void local_close(struct berth_environment *environment);
bool local_kill(struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err);
bool local_list_leases(struct berth_runner *runner, char ***lease_ids, size_t *count, struct berth_until until,
	struct berth_error *err);
berth_json *local_attest(struct berth_environment *environment, struct berth_until until, struct berth_error *err);
// A failed call on an environment may mean that its container has ended: then err becomes INVALID for an end of its
// own doing (its first process ended, out of memory), UNAVAILABLE for one from outside. Always false.
bool local_explain(struct berth_environment *environment, struct berth_error *err);

// --- exec.c ---
bool local_exec(struct berth_environment *environment, const struct berth_exec *exec, struct berth_exec_end *end,
	struct berth_until until, struct berth_error *err);

// --- files.c ---
bool local_upload(struct berth_environment *environment, const char *folder, const char *target,
	struct berth_until until, struct berth_error *err);
bool local_put(struct berth_environment *environment, const struct berth_put *puts, size_t count,
	struct berth_until until, struct berth_error *err);
bool local_download(struct berth_environment *environment, const char *source, bool is_folder, const char *path,
	struct berth_until until, struct berth_error *err);
// An unlinked file in the folder for temporary files; -1 with err set.
int local_spool(struct berth_error *err);

// --- cgroup.c: ends everything that one exec started, from the daemon's own host ---
struct local_cgroup {
	char *folder; // of the exec's group; NULL: none was made
	bool unified; // cgroup v2
};
// Whether the container's own group, by its first process, can be reached and written from this process.
bool local_cgroup_reachable(const char *container, int64_t pid);
// Moves the exec's first process into a group of its own below the container's. False, without err: not possible here.
bool local_cgroup_enter(struct local_cgroup *cgroup, const char *container, int64_t pid);
// Kills what is left and removes the group; nothing where none was made. INTERNAL when something stays alive.
bool local_cgroup_end(struct local_cgroup *cgroup, struct berth_until until, struct berth_error *err);

// --- marks.c: the same from inside the container ---
struct local_marks {
	char *known; // processes from before, "pid:start:session" each
	char mark[33];
	int64_t session; // of the exec, as the gate told; 0: not known
};
#define LOCAL_MARK_NAME "BERTH_EXEC_MARK"
bool local_marks_begin(struct berth_environment *environment, struct local_marks *marks, struct berth_until until,
	struct berth_error *err);
bool local_marks_end(struct berth_environment *environment, struct local_marks *marks, struct berth_until until,
	struct berth_error *err);
void local_marks_free(struct local_marks *marks);
