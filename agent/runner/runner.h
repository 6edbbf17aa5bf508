// SPDX-License-Identifier: Apache-2.0
// One interface for every place where a trial's environment can live: a table of functions with a name, a local Docker
// Engine or E2B behind it. Every function may block and takes a deadline and a cancel token; all are thread-safe, but
// one environment is used by one thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/v1/lease.pb-c.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/codec/json.h"
#include "common/codec/tar.h"
#include "common/task/task.h"

struct berth_runner;
struct berth_environment;

// What to create, and who it belongs to. Strings are the caller's and outlive the call.
struct berth_environment_plan {
	const char *lease_id;
	Berth__V1__LeaseRole role;
	const char *job_id;
	uint32_t trial_index, generation;
	const char *session_id;       // Harbor's: "<trial_name>__env"
	const char *environment_name; // of the task, for the image's tag
	const struct berth_task_environment *environment;
	const char *context_folder; // build context: the task's environment/
	bool has_dockerfile;
	bool force_build;
	int64_t cpus, memory_mb;     // in force, overrides applied; -1: no limit
	const struct berth_env *env; // resolved; becomes container configuration
	enum berth_network_mode network;
};

// How a create ended. Decided from status and parsed body, never from text.
enum berth_create_outcome {
	BERTH_CREATE_NOT_DISPATCHED, // certain that nothing was sent
	BERTH_CREATE_REJECTED,       // the backend answered that it did not create
	BERTH_CREATE_CREATED,
	BERTH_CREATE_AMBIGUOUS, // sent, and no answer that tells: the resource may exist now or later
};

struct berth_created {
	char *resource_id;
	int64_t expected_end_at_ns; // wall clock of the backend; 0: lives until killed
};

struct berth_exec {
	const char *command;         // run as `bash -c COMMAND`
	const char *user;            // NULL: the image's
	const char *workdir;         // NULL: [environment].workdir, else the image's
	const struct berth_env *env; // for this exec only; NULL: none
	// Output of both streams as it comes; NULL drops it. At most a tail is worth keeping.
	bool (*output)(void *context, const void *data, size_t size);
	void *context;
	// End everything that this command started, wherever it went, when it ends or is ended (policy leftovers =
	// kill).
	bool end_leftovers;
};

struct berth_exec_end {
	int exit_code;
	const char *leftovers; // how they were ended: "kept", "cgroup", "marks"; a literal
};

// One piece of a put: pieces are laid down in order, in as few requests as the backend allows.
struct berth_put {
	const char *folder;     // on this host: its content goes below `target`; NULL: an empty folder with mode 777
	const char *target;     // absolute
	bool fresh;             // whatever stands at `target` is removed first, without the help of anything inside
	const char *executable; // a file below `folder` that everyone may execute, whatever its mode says; NULL: none
};

struct berth_runner {
	const char *name; // "local"
	Berth__V1__Backend backend;

	// Builds or pulls what the plan starts from. Idempotent and single-flight by content; no lease is involved.
	// INVALID: the recipe is at fault; everything else is the infrastructure's.
	bool (*prepare)(struct berth_runner *runner, const struct berth_environment_plan *plan, struct berth_sink log,
		struct berth_until until, struct berth_error *err);
	// Sends one create, whatever happens. err is set for every outcome but CREATED.
	enum berth_create_outcome (*create)(struct berth_runner *runner, const struct berth_environment_plan *plan,
		struct berth_created *created, struct berth_until until, struct berth_error *err);
	// Starts what was created and waits until it runs and is healthy. INVALID: it ended at once or is unhealthy by
	// its own doing; other codes: the backend.
	struct berth_environment *(*open)(struct berth_runner *runner, const struct berth_environment_plan *plan,
		const char *resource_id, struct berth_until until, struct berth_error *err);
	// Ends everything that carries the lease and reads its absence back, twice. True: proven. A lease that has
	// nothing (any more) is a success only after the backend's placement bound, from the last moment on at which
	// its create may have been sent: for leases of older lives, the runner's own beginning.
	bool (*kill)(
		struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err);
	// Puts in order what the runner keeps beside the resources of leases, for which no other one takes care: once
	// at a start and from time to time. NULL: it keeps nothing.
	bool (*tidy)(struct berth_runner *runner, struct berth_until until, struct berth_error *err);
	// The ids of leases that live resources of this fleet and agent carry; the caller frees each and the list.
	bool (*list_leases)(struct berth_runner *runner, char ***lease_ids, size_t *count, struct berth_until until,
		struct berth_error *err);
	// How long after an ambiguous create the resource may still appear.
	int64_t placement_bound_ms;

	// --- an open environment ---
	// True: the command ended (any exit code). TIMEOUT, CANCELLED: it was ended, proven. INTERNAL: its end is not
	// proven, so nothing that follows may count. INVALID: the environment itself has ended, by its own doing.
	bool (*exec)(struct berth_environment *environment, const struct berth_exec *exec, struct berth_exec_end *end,
		struct berth_until until, struct berth_error *err);
	// The folder's content (folder/.) into `target`, which is made; owned by root, modes kept.
	bool (*upload)(struct berth_environment *environment, const char *folder, const char *target,
		struct berth_until until, struct berth_error *err);
	// Several folders at once, owned by root, modes kept.
	bool (*put)(struct berth_environment *environment, const struct berth_put *puts, size_t count,
		struct berth_until until, struct berth_error *err);
	// Where a command without a workdir runs: belongs to the environment.
	const char *(*workdir)(struct berth_environment *environment);
	// The content of a folder, or one file to exactly `path`. NOT_FOUND when it is not there.
	bool (*download)(struct berth_environment *environment, const char *source, bool is_folder, const char *path,
		struct berth_until until, struct berth_error *err);
	// What was observed of the environment, for its attestation: nothing ephemeral. The caller frees.
	berth_json *(*attest)(struct berth_environment *environment, struct berth_until until, struct berth_error *err);
	void (*close)(struct berth_environment *environment); // frees the handle only; NULL is allowed

	void (*free)(struct berth_runner *runner);
};
