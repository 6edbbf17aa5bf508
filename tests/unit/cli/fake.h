// SPDX-License-Identifier: Apache-2.0
// A small coordinator over real gRPC, for tests of the command: one job, blobs in memory, and knobs for what goes
// wrong. And the command run whole, with its output as texts.
#pragma once

#include <pthread.h>

#include "berth/v1/job.pb-c.h"
#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/rpc/server.h"
#include "coordinator/budget/budget.h"

#define FAKE_BLOBS_MAX  64
#define FAKE_JOB_ID     "0123456789abcdef0123456789abcdef"
#define FAKE_NO_TRIAL   UINT32_MAX
#define FAKE_TRIALS_MAX 64

struct fake_blob {
	uint8_t sha256[32];
	struct berth_buf bytes;
};

enum fake_end { FAKE_ENDS, FAKE_WAITS_FOR_CANCEL, FAKE_NEVER_ENDS, FAKE_ENDS_AT_SECOND_WATCH };

struct fake {
	struct berth_rpc_server *main, *blob_server;
	char *address, *blobs_address, *folder;
	pthread_mutex_t lock;
	struct fake_blob blobs[FAKE_BLOBS_MAX];
	size_t blobs_count;
	int puts, gets, submits, watches, cancels;
	Berth__V1__SubmitJobRequest *submitted;
	Berth__V1__Job *job;
	Berth__V1__Trial *trials[FAKE_TRIALS_MAX];
	uint32_t trials_count;
	struct berth_rpc_call *held;     // the watch that waits for a cancel
	char *authority, *authority_key; // with TLS
	struct berth_budgets *budgets;
	struct berth_buf signing_key; // of who was enrolled last
	// Knobs.
	enum fake_end end;
	uint32_t unscored;                         // index of a trial that ends without a reward
	int watch_cuts;                            // so many watches break off after their first update
	int get_cuts;                              // so many GetBlob calls break off after their first bytes
	bool corrupt_blobs;                        // GetBlob gives other bytes
	const char *message;                       // of the unscored trial's exception
	const char *budget_refusal;                // SubmitJob refuses so
	const char *blocked_reason;                // of the job and its trials
	struct berth_cancel *on_budget_watch;      // fired when WatchBudget has answered twice
	struct berth_cancel *on_watch, *on_cancel; // fired when a watch has begun, when CancelJob came
};

// Starts both servers; with TLS when `tls`. Free with fake_stop.
void fake_start(struct fake *fake, bool tls);
void fake_stop(struct fake *fake); // for BERTH_AUTO
// With TLS alone: the main server goes, stays away for so long, and comes back at its address.
void fake_restart(struct fake *fake, unsigned away_ms);
// Writes a task folder with this task.toml below fake->folder and gives its path; the caller frees.
char *fake_task(const struct fake *fake, const char *name, const char *toml);
// The folder of an operator's credentials, made by hand, without a key to sign with; the caller frees its name. With
// TLS.
char *fake_operator(const struct fake *fake, const char *name);
// The value of a secret in what was submitted, NULL when it is not there.
const Berth__V1__Secret *fake_secret(const struct fake *fake, const char *scope, const char *name);

// --- running the command ---

struct shell {
	const struct fake *fake; // NULL: no coordinator; its addresses are given otherwise, with --insecure
	const char *const *env;  // name, value, ..., NULL
	const char *input;       // stdin, as typed on a terminal; NULL: none, and no terminal
	struct berth_cancel *interrupt, *detach;
	char *out, *err;
	int code;
};

void shell_start(struct shell *shell, const struct fake *fake);
void shell_free(struct shell *shell); // for BERTH_AUTO
// Runs `berth WORDS...` (NULL-terminated) and returns the exit code.
int shell_run(struct shell *shell, const char *const *words);
#define SHELL(shell, ...) shell_run((shell), (const char *const[]){__VA_ARGS__, NULL})

#define assert_has(text, part)                                                                                         \
	do {                                                                                                           \
		if (!strstr((text), (part))) {                                                                         \
			fail_msg("no \"%s\" in: %s", (part), (text));                                                  \
		}                                                                                                      \
	} while (0)
#define assert_code(shell, wanted)                                                                                     \
	do {                                                                                                           \
		if ((shell).code != (wanted)) {                                                                        \
			fail_msg("exit code %d, wanted %d: %s", (shell).code, (wanted), (shell).err);                  \
		}                                                                                                      \
	} while (0)
