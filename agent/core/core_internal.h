// SPDX-License-Identifier: Apache-2.0
// The parts of the pure session: what was seen of the ledger (core_head.c), trials (core_trials.c), outbox
// (core_outbox.c), actions (core_actions.c), and the handshake and heartbeats that hold them together (core.c).
#pragma once

#include "agent/core/core.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/evidence/incarnation.h"
#include "common/evidence/sign.h"

#define AGENT_CORE_NONCE_SIZE BERTH_INCARNATION_NONCE_SIZE
// Reports on their way and not acknowledged: more wait for an acknowledgement, so that a long outbox fits any stream.
#define AGENT_CORE_IN_FLIGHT_MAX 256
// Trials known at once, waiting ones included. A coordinator that sends more has lost count: its stream is ended.
#define AGENT_CORE_TRIALS_MAX 4096
// Heartbeats sent and not acknowledged whose send times are kept; the oldest is forgotten first.
#define AGENT_CORE_HEARTBEATS_MAX 64
#define AGENT_CORE_SAVE_NS        BERTH_NS_PER_S

enum agent_core_stream {
	AGENT_CORE_DOWN,
	AGENT_CORE_GREETING, // Hello sent, no Welcome yet
	AGENT_CORE_OBEYING,
	AGENT_CORE_REFUSED, // ended by us; what still arrives is ignored
};

// One life of this agent, as far as it still has reports.
struct agent_core_boot {
	char *boot_id;
	uint64_t acked; // by the coordinator that is obeyed now
	uint64_t last;  // newest report that was written
	uint64_t dropped;
	struct agent_core_boot *prev, *next;
};

struct agent_core_report {
	struct agent_core_boot *boot;
	uint64_t sequence;
	uint8_t *packed;
	size_t size;
	Berth__V1__TrialKey *done; // of a TrialDone, else NULL
	bool sent;                 // on the stream that is up
	struct agent_core_report *prev, *next;
};

struct agent_core_trial {
	Berth__V1__TrialKey *key;
	Berth__V1__Assignment *assignment; // until it is started
	bool started;
	bool stopping;
	bool expired;        // stopping only because the hold is over
	int64_t received_ns; // of the assignment
	int64_t expires_ns;  // INT64_MAX: it holds nothing
	char *phase;         // newest, NULL before the first
	struct agent_core_trial *prev, *next;
};

struct agent_core_heartbeat {
	uint64_t sequence;
	int64_t sent_ns;
};

// The newest head of the ledger that this agent saw.
struct agent_core_seen {
	uint64_t sequence; // 0: none yet
	struct berth_digest leaf, root;
	bool has_root;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	size_t signature_size;
};

struct berth_agent_core {
	char *fleet, *boot_id, *daemon_id, *platform, *version;
	char **capabilities;
	size_t capabilities_count;
	Berth__V1__Capacity capacity;
	uint8_t *ledger_key; // NULL: signatures are not asked for
	size_t ledger_key_size;

	enum agent_core_stream stream;
	uint64_t number; // of the incarnation that is obeyed; 0: none yet
	uint8_t nonce[AGENT_CORE_NONCE_SIZE];
	uint8_t number_signature[BERTH_SIGNATURE_SIZE]; // of both, under the ledger's key
	size_t number_signature_size;                   // 0: the coordinator has no key
	struct agent_core_seen seen;
	bool unsaved;
	int64_t saved_ns;

	uint64_t hold_ms, heartbeat_ms;
	uint64_t heartbeat_sequence;
	uint64_t acknowledged; // newest heartbeat that was answered on this stream
	int64_t heartbeat_due_ns;
	struct agent_core_heartbeat heartbeats[AGENT_CORE_HEARTBEATS_MAX]; // by sequence modulo the size
	int64_t renewed_ns; // send time of the newest acknowledged heartbeat; INT64_MIN: none
	uint64_t holds;     // changes of any trial's expires_ns
	bool accepting;
	char *trouble;
	uint64_t disk_free_mb;

	bool stable_known; // announced on this stream
	uint64_t stable_through;
	bool keeps_reports;
	size_t outbox_size;            // bytes of reports
	struct agent_core_boot *boots; // oldest first
	struct agent_core_report *reports;
	size_t in_flight;
	struct agent_core_trial *trials; // in the order of their assignments
};

// core_actions.c
struct berth_agent_action *agent_core_act(struct berth_agent_actions *actions, enum berth_agent_action_kind kind);
void agent_core_send(struct berth_agent_actions *actions, const Berth__V1__AgentMessage *message);
void agent_core_close(struct berth_agent_core *core, struct berth_agent_actions *actions, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// core_head.c
void agent_core_head_remember(struct berth_agent_core *core, const Berth__V1__LedgerHead *head); // from the store
void agent_core_head_see(struct berth_agent_core *core, const Berth__V1__LedgerHead *head);      // newer than seen
// What was seen; its bytes are the core's.
Berth__V1__LedgerHead agent_core_head_seen(struct berth_agent_core *core);
// Why a head cannot follow what was seen, or NULL. The caller frees; the same of a Welcome, which proves more.
char *agent_core_head_refusal(const struct berth_agent_core *core, const Berth__V1__LedgerHead *head);
char *agent_core_head_welcome_refusal(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome);
// Whether the Welcome, which was not refused, goes on from a backup that lacks what was seen; then it is forgotten.
bool agent_core_head_goes_back(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome);
void agent_core_head_forget(struct berth_agent_core *core);

// core_outbox.c
void agent_core_outbox_add(struct berth_agent_core *core, const Berth__V1__Report *report);
// A coordinator was welcomed that has this boot's reports up to `applied_through`. One of another incarnation than the
// last may know less than the last had acknowledged.
void agent_core_outbox_welcome(struct berth_agent_core *core, uint64_t applied_through, bool same_incarnation);
void agent_core_outbox_send(struct berth_agent_core *core, struct berth_agent_actions *actions);
void agent_core_outbox_stream_down(struct berth_agent_core *core);
// False: no such report was ever written, so nobody can have it.
bool agent_core_outbox_wrote(const struct berth_agent_core *core, const char *boot_id, uint64_t sequence);
void agent_core_outbox_ack(struct berth_agent_core *core, const char *boot_id, uint64_t through);
bool agent_core_outbox_has_result(const struct berth_agent_core *core, const Berth__V1__TrialKey *key);
void agent_core_outbox_drop(struct berth_agent_core *core, struct berth_agent_actions *actions);
uint64_t agent_core_outbox_first(const struct berth_agent_core *core);
uint64_t agent_core_outbox_last(const struct berth_agent_core *core);
void agent_core_outbox_free(struct berth_agent_core *core);

// core_trials.c
void agent_core_trials_assign(struct berth_agent_core *core, const Berth__V1__Assignment *assignment, int64_t now_ns,
	struct berth_agent_actions *actions);
void agent_core_trials_revoke(
	struct berth_agent_core *core, const Berth__V1__Revoke *revoke, struct berth_agent_actions *actions);
// A heartbeat that was sent at `sent_ns` was acknowledged.
void agent_core_trials_renew(struct berth_agent_core *core, int64_t sent_ns);
// hold_ms may have become shorter.
void agent_core_trials_rehold(struct berth_agent_core *core);
void agent_core_trials_tick(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions);
int64_t agent_core_trials_next_ns(const struct berth_agent_core *core);
void agent_core_trials_tell(struct berth_agent_core *core, struct berth_agent_actions *actions);
// What is running, stopping or waiting here, and what has ended with a report that is not acknowledged. The keys are
// the core's, the list is the caller's.
size_t agent_core_running_keys(const struct berth_agent_core *core, Berth__V1__TrialKey ***keys);
bool agent_core_key_equal(const Berth__V1__TrialKey *a, const Berth__V1__TrialKey *b);
void agent_core_trials_free(struct berth_agent_core *core);
