// SPDX-License-Identifier: Apache-2.0
// The agent's half of a session, pure: no clock, no I/O, no threads. What happened comes in with the time, what to do
// comes out as actions, which the caller carries out in order. The simulator runs this very code.
//
// What may be deleted from the outbox. Where no backups are kept, reports go when they are acknowledged. Where the
// coordinator asks to keep them, they stay until they are acknowledged and below stable_through, and are sent again to
// a coordinator of another incarnation that knows less. Nothing goes before the first announcement on a stream. An
// outbox over BERTH_AGENT_OUTBOX_MAX takes no new trial until a backup makes room.
//
// Running, for Hello and heartbeats: every trial that waits, runs or is stopping, and every one whose TrialDone is not
// acknowledged.
//
// Times are the host's CLOCK_BOOTTIME in nanoseconds. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/store/v1/agent.pb-c.h"
#include "berth/v1/fleet.pb-c.h"

#define BERTH_PROTOCOL_LEAST   1
#define BERTH_PROTOCOL_MOST    1
#define BERTH_AGENT_OUTBOX_MAX (256 * 1024 * 1024) // bytes of reports

struct berth_agent_core;

struct berth_agent_core_config {
	const char *fleet; // a Welcome of another fleet is refused
	const char *boot_id;
	const char *daemon_id;
	const char *platform;
	const char *version;
	Berth__V1__Capacity capacity;
	const char *const *capabilities;
	size_t capabilities_count;
	// The key that signs this fleet's ledger heads, as the enrolment gave it (SubjectPublicKeyInfo): a head that is
	// not signed with it is refused. Size 0: none was given, and signatures are not asked for.
	const uint8_t *ledger_key_der;
	size_t ledger_key_size;
};

enum berth_agent_action_kind {
	BERTH_AGENT_SEND,         // message, on the stream that is up
	BERTH_AGENT_CLOSE,        // end the stream, with a reason: the peer must not be obeyed
	BERTH_AGENT_SAVE_OBEYED,  // write `obeyed`, synced before the next action unless `later`
	BERTH_AGENT_START,        // start the trial of `assignment`
	BERTH_AGENT_STOP,         // fire the cancel token of `trial`: it is not ours any more, for `reason`
	BERTH_AGENT_RESTORED,     // say that the ledger was restored from a backup, for `reason`
	BERTH_AGENT_DROP_REPORTS, // delete outbox entries of `boot_id` up to `through`
};

struct berth_agent_action {
	enum berth_agent_action_kind kind;
	Berth__V1__AgentMessage *message; // owned by the action, and below
	char *reason;
	Berth__Store__V1__Obeyed *obeyed;
	bool later; // SAVE_OBEYED: only what was seen is new, which may be lost
	Berth__V1__Assignment *assignment;
	Berth__V1__TrialKey *trial;
	char *boot_id;
	uint64_t through;
	// STOP: only the hold is over, so the coordinator may still want a result that is finished. A second STOP with
	// false follows when it does not.
	bool expired;
};

struct berth_agent_actions {
	struct berth_agent_action *items;
	size_t count, capacity;
};
void berth_agent_actions_clear(struct berth_agent_actions *actions);

// `obeyed` is what the store has (NULL: never obeyed one).
struct berth_agent_core *berth_agent_core_new(
	const struct berth_agent_core_config *config, const Berth__Store__V1__Obeyed *obeyed);
void berth_agent_core_free(struct berth_agent_core *core);

// The outbox at start, oldest first, before the first stream: reports of older boots first.
void berth_agent_core_load_report(struct berth_agent_core *core, const Berth__V1__Report *report);
// A trial of an older boot that has ended, with a result that is not reported yet: listed as running, so that nobody
// runs it again, until berth_agent_core_trial_ended. It holds nothing, so no hold ends it. Before the first stream.
void berth_agent_core_resume(struct berth_agent_core *core, const Berth__V1__TrialKey *trial);
// A report that was just synced to the outbox. Sent now when a session is on, else after the next Welcome.
void berth_agent_core_reported(
	struct berth_agent_core *core, const Berth__V1__Report *report, struct berth_agent_actions *actions);

void berth_agent_core_stream_up(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions);
void berth_agent_core_stream_down(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions);
void berth_agent_core_message(struct berth_agent_core *core, const Berth__V1__CoordinatorMessage *message,
	int64_t now_ns, struct berth_agent_actions *actions);
// A trial's thread has ended; its TrialDone was reported before. What waited for its end (a newer generation, or
// another trial for its slot) is started by the next tick, which is due at once.
void berth_agent_core_trial_ended(struct berth_agent_core *core, const Berth__V1__TrialKey *trial);
void berth_agent_core_progress(struct berth_agent_core *core, const Berth__V1__TrialKey *trial, const char *phase,
	struct berth_agent_actions *actions);
// What the next heartbeats say about this host.
void berth_agent_core_condition(
	struct berth_agent_core *core, bool accepting, const char *trouble, uint64_t disk_free_mb);
// Sends a heartbeat that is due, and stops every trial whose hold is over: hold_ms after the send of the newest
// heartbeat that the coordinator acknowledged (after the receipt of the assignment while none was).
void berth_agent_core_tick(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions);
int64_t berth_agent_core_next_tick_ns(const struct berth_agent_core *core);
// Changes whenever the hold of a trial did.
uint64_t berth_agent_core_holds(const struct berth_agent_core *core);
// When a trial has to stop: INT64_MAX when nothing bounds it, or when it is not known.
int64_t berth_agent_core_expires_ns(const struct berth_agent_core *core, const Berth__V1__TrialKey *trial);
// Interval of heartbeats that the last Welcome asked for; 0 before the first.
uint64_t berth_agent_core_heartbeat_ms(const struct berth_agent_core *core);
// Every report is acknowledged.
bool berth_agent_core_flushed(const struct berth_agent_core *core);
// Reports that were given out to be sent on this stream and are not acknowledged.
size_t berth_agent_core_in_flight(const struct berth_agent_core *core);
bool berth_agent_core_in_session(const struct berth_agent_core *core);
size_t berth_agent_core_running(const struct berth_agent_core *core);
