// SPDX-License-Identifier: Apache-2.0
// Agents: enrolment, the opening of a session (P7), heartbeats, silence, and what a lost agent's trials become.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/incarnation.h"
#include "coordinator/core/state.h"

#define PROTOCOL_VERSION 1
#define FENCE_PERCENT    105

void decide_enroll(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_AGENT_ENROLLED);
	Berth__Store__V1__AgentEnrolled *enrolled = emit_part(decision, sizeof *enrolled);
	berth__store__v1__agent_enrolled__init(enrolled);
	enrolled->role = emit_text(decision, command->role);
	enrolled->name = emit_text(decision, command->name);
	enrolled->certificate_sha256 = emit_text(decision, command->certificate_sha256);
	enrolled->signing_key_id = emit_text(decision, command->signing_key_id);
	enrolled->signing_key_der = emit_bytes(decision, command->signing_key_der, command->signing_key_size);
	event->agent_enrolled = enrolled;
	emit(decision, event);
}

static bool is_capacity_changed(const struct agent *agent, const Berth__V1__Capacity *capacity)
{
	return capacity &&
	       (agent->capacity.cpus != capacity->cpus || agent->capacity.memory_mb != capacity->memory_mb ||
		       agent->capacity.slots != capacity->slots || agent->capacity.disk_mb != capacity->disk_mb);
}

// An agent says Hello in a new life only after everything of its older lives is dead.
static void boot(const struct decision *decision, struct agent *agent, const Berth__V1__Hello *hello)
{
	bool restarted = strcmp(agent->boot_id, hello->boot_id) != 0;
	if (!restarted && !is_capacity_changed(agent, hello->capacity)) {
		return;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_AGENT_BOOTED);
	Berth__Store__V1__AgentBooted *booted = emit_part(decision, sizeof *booted);
	berth__store__v1__agent_booted__init(booted);
	booted->agent = emit_text(decision, agent->name);
	booted->boot_id = emit_text(decision, hello->boot_id);
	booted->daemon_id = emit_text(decision, hello->daemon_id);
	booted->platform = emit_text(decision, hello->platform);
	booted->version = emit_text(decision, hello->version);
	booted->capacity = hello->capacity;
	// A new life holds nothing of an older one's.
	booted->hold_ms = restarted ? decision->core->config.hold_ms : agent->hold_ms;
	event->agent_booted = booted;
	emit(decision, event);
}

static void note_hold(const struct decision *decision, const struct agent *agent)
{
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_AGENT_HOLD);
	event->agent_hold = emit_part(decision, sizeof *event->agent_hold);
	berth__store__v1__agent_hold__init(event->agent_hold);
	event->agent_hold->agent = emit_text(decision, agent->name);
	event->agent_hold->hold_ms = decision->core->config.hold_ms;
	emit(decision, event);
}

// A life of a coordinator that this one does not follow.
static bool obeyed_another(const struct berth_core *core, const Berth__V1__Incarnation *obeyed)
{
	return obeyed && (obeyed->number > core->incarnation_number ||
				 (obeyed->number == core->incarnation_number &&
					 (obeyed->nonce.len != sizeof core->incarnation_nonce ||
						 memcmp(obeyed->nonce.data, core->incarnation_nonce,
							 sizeof core->incarnation_nonce) != 0)));
}

// An agent can't make up a life of a coordinator: the ledger's key has signed it. (Where no key is, nobody can tell.)
static bool is_proven(const struct berth_core *core, const Berth__V1__Incarnation *obeyed)
{
	const struct berth_core_config *config = &core->config;
	const struct berth_incarnation name = {
		.fleet = config->fleet, .number = obeyed->number, .nonce = obeyed->nonce.data};
	return obeyed->nonce.len == BERTH_INCARNATION_NONCE_SIZE && obeyed->number < UINT64_MAX &&
	       (!config->ledger_key_size || berth_incarnation_verify(config->ledger_key_der, config->ledger_key_size,
						    &name, obeyed->signature.data, obeyed->signature.len, NULL));
}

// An older number, and yet not of this ledger: a life of the part that a restore lost, whose number lives after the
// restore have passed meanwhile. What it committed is missing, and the restore accounts for lower numbers only.
static bool obeyed_a_lost_one(const struct berth_core *core, const struct berth_command *command)
{
	const Berth__V1__Incarnation *obeyed = command->hello->obeyed;
	const Berth__V1__LedgerHead *seen = command->hello->seen;
	const struct berth_core_restore *last = core->restores_count ? &core->restores[core->restores_count - 1] : NULL;
	return obeyed && seen && last && !command->seen_held && obeyed->number < core->incarnation_number &&
	       last->size < seen->sequence && !berth_core_restore_after(core, obeyed, seen->sequence);
}

static bool claims_another(const struct berth_core *core, const Berth__V1__Incarnation *obeyed)
{
	return obeyed_another(core, obeyed) && !is_proven(core, obeyed);
}

// A new life ends what older ones left on its own Docker daemon before it says Hello. What runs on another daemon, of a
// host that had this name, may go on to the end of its hold.
static bool may_run_elsewhere(const struct decision *decision, const struct agent *agent)
{
	const Berth__V1__Hello *hello = decision->command->hello;
	return (agent->running || agent->open_leases) && strcmp(agent->boot_id, hello->boot_id) != 0 &&
	       strcmp(agent->daemon_id, hello->daemon_id) != 0 &&
	       fenced_at_ns(decision->core, agent) > decision->now.boot_ns;
}

// Which rule, if any, forbids this session.
static bool is_refused(const struct decision *decision, const struct agent *agent)
{
	const struct berth_core *core = decision->core;
	const Berth__V1__Hello *hello = decision->command->hello;
	const Berth__V1__VersionRange *range = hello->protocol;
	if (!range || range->least > PROTOCOL_VERSION || range->most < PROTOCOL_VERSION) {
		refuse(decision, BERTH_ERROR_UNSUPPORTED,
			"agent %s speaks protocol %u to %u, this coordinator speaks %u: install the same release on "
			"both",
			agent->name, range ? range->least : 0, range ? range->most : 0, PROTOCOL_VERSION);
	} else if (strlen(hello->boot_id) != BERTH_ID_SIZE - 1) {
		refuse(decision, BERTH_ERROR_INVALID, "agent %s sent a boot id that is not 32 digits", agent->name);
	} else if (claims_another(core, hello->obeyed)) {
		refuse(decision, BERTH_ERROR_DENIED,
			"agent %s claims to obey incarnation %llu, which the key of this ledger did not sign: if its "
			"state is not of this fleet, enroll it with an empty one",
			agent->name, (unsigned long long)hello->obeyed->number);
	} else if (hello->obeyed && hello->obeyed->number > core->incarnation_number) {
		refuse(decision, BERTH_ERROR_FENCED,
			"agent %s obeys incarnation %llu, this coordinator is %llu: a newer one runs, and this one "
			"stops",
			agent->name, (unsigned long long)hello->obeyed->number,
			(unsigned long long)core->incarnation_number);
		decision->core->stopped = true;
		effect(decision, BERTH_EFFECT_STOP_SERVING);
	} else if (obeyed_another(core, hello->obeyed)) {
		refuse(decision, BERTH_ERROR_FENCED,
			"agent %s obeys a twin of this coordinator (incarnation %llu with another nonce): two run on "
			"copies of one ledger; stop one",
			agent->name, (unsigned long long)core->incarnation_number);
	} else if (!decision->command->seen_held &&
		   !berth_core_restore_after(core, hello->obeyed, hello->seen ? hello->seen->sequence : 0)) {
		refuse(decision, BERTH_ERROR_FENCED,
			"agent %s saw event %llu committed, which this ledger does not hold: it is an older copy; "
			"bring the newer one back, or accept the loss with `berth ledger restore`",
			agent->name, (unsigned long long)(hello->seen ? hello->seen->sequence : 0));
	} else if (may_run_elsewhere(decision, agent)) {
		refuse(decision, BERTH_ERROR_CONFLICT,
			"agent %s comes with another Docker daemon (%.64s) than the one on which it runs trials "
			"(%.64s); they "
			"may go on there for another %lld s, and it is taken after that",
			agent->name, hello->daemon_id, agent->daemon_id,
			(long long)((fenced_at_ns(decision->core, agent) - decision->now.boot_ns) / BERTH_NS_PER_S) +
				1);
	} else {
		return false;
	}
	return true;
}

bool is_listed_trial(Berth__V1__TrialKey *const *running, size_t count, const struct cell *cell)
{
	for (size_t i = 0; i < count; i++) {
		const Berth__V1__TrialKey *key = running[i];
		if (key->index == cell->index && key->generation == cell->generation &&
			strcmp(key->job_id, cell->job->id) == 0) {
			return true;
		}
	}
	return false;
}

// The agent counts its hold from the send of a heartbeat that was acknowledged, so it has ended everything by the time
// that this wait, which starts at the receipt of that heartbeat, is over. Its hold may be that of an earlier
// coordinator.
int64_t fenced_at_ns(const struct berth_core *core, const struct agent *agent)
{
	int64_t hold_ms = agent->hold_ms > core->config.hold_ms ? agent->hold_ms : core->config.hold_ms;
	int64_t wait_ms = hold_ms * FENCE_PERCENT / 100 + BERTH_FENCE_EXTRA_MS;
	return agent->beat_boot_ns + wait_ms * BERTH_NS_PER_MS;
}

void wake_at(struct berth_core *core, int64_t boot_ns)
{
	core->tick_due_ns = boot_ns < core->tick_due_ns ? boot_ns : core->tick_due_ns;
}

int64_t berth_core_next_tick_ns(const struct berth_core *core)
{
	return core->tick_due_ns;
}

static void heard(const struct decision *decision, struct agent *agent)
{
	agent->lost = false;
	agent->beat_boot_ns = decision->now.boot_ns;
	agent->seen_at_ns = decision->now.wall_ns;
	wake_at(decision->core, fenced_at_ns(decision->core, agent));
}

void decide_hello(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	struct agent *agent = core_agent(decision->core, command->agent);
	if (!agent || agent->forgotten) {
		refuse(decision, BERTH_ERROR_DENIED, "agent %s is not enrolled%s: run `berth agent enroll %s`",
			command->agent, agent ? " since it was given up" : "", command->agent);
		return;
	}
	const Berth__V1__Incarnation *obeyed = command->hello->obeyed;
	bool lost = obeyed_another(decision->core, obeyed) || obeyed_a_lost_one(decision->core, command);
	if (agent->resending && lost && is_proven(decision->core, obeyed)) {
		raise_incarnation(decision, agent);
	}
	if (is_refused(decision, agent)) {
		return;
	}
	if (agent->session) {
		struct berth_effect *old = effect_agent(decision, BERTH_EFFECT_REFUSE, agent);
		old->code = BERTH_ERROR_CONFLICT;
		snprintf(old->reason, sizeof old->reason, "agent %s opened another session", agent->name);
	}
	bool restarted = strcmp(agent->boot_id, command->hello->boot_id) != 0;
	// One that resends says itself, in the end, what it does not run.
	if (restarted && !agent->resending) {
		struct cell *cell, *next;
		DL_FOREACH_SAFE (agent->running, cell, next) {
			// What the new life lists has ended already: its result is on the way.
			if (!is_listed_trial(command->hello->running, command->hello->n_running, cell)) {
				unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__AGENT_RESTARTED,
					"its agent restarted", NULL);
			}
		}
	}
	boot(decision, agent, command->hello);
	if (restarted) {
		struct lease *lease;
		DL_FOREACH (agent->fresh, lease) {
			lease->of_older_life = true;
		}
	}
	if (agent->hold_ms < decision->core->config.hold_ms) {
		note_hold(decision, agent); // before it is told
	}
	agent->session = command->session;
	agent->ready = false;
	agent->keeps_reports = decision->core->keeps_reports; // an agent drops nothing before the first answer
	agent->keeps_beat = 0;
	heard(decision, agent);
	struct berth_effect *welcome = effect_agent(decision, BERTH_EFFECT_WELCOME, agent);
	memcpy(welcome->boot_id, agent->boot_id, BERTH_ID_SIZE);
	const struct boot *reports = core_boot(agent, agent->boot_id);
	welcome->sequence = reports ? reports->applied_through : 0;
}

static struct agent *agent_in_session(const struct decision *decision)
{
	struct agent *agent = core_agent(decision->core, decision->command->agent);
	if (agent && agent->session == decision->command->session) {
		return agent;
	}
	refuse(decision, BERTH_ERROR_FENCED, "this is not the session of agent %s", decision->command->agent);
	return NULL;
}

// What it lists beyond its assignments is no longer its own. True where there was something.
static bool revoke_others(const struct decision *decision, const struct agent *agent)
{
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	bool any = false;
	for (size_t i = 0; i < beat->n_running; i++) {
		const Berth__V1__TrialKey *key = beat->running[i];
		const struct cell *known = core_cell(decision->core, key);
		if (known && known->agent == agent && known->generation == key->generation) {
			continue;
		}
		any = true;
		struct berth_effect *revoke = effect_agent(decision, BERTH_EFFECT_REVOKE, agent);
		snprintf(revoke->job_id, sizeof revoke->job_id, "%s", key->job_id);
		revoke->index = key->index;
		revoke->generation = key->generation;
		snprintf(revoke->reason, sizeof revoke->reason, "not assigned to this agent (any more)");
	}
	return any;
}

// A heartbeat comes after every report that was in the outbox, so what it does not list was never received.
static void reconcile(const struct decision *decision, struct agent *agent)
{
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	struct cell *cell, *next;
	DL_FOREACH_SAFE (agent->running, cell, next) {
		if (is_listed_trial(beat->running, beat->n_running, cell)) {
			cell->sent_session = agent->session;
			cell->unlisted_beat = 0;
		} else if (cell->sent_session != agent->session) {
			effect_cell(decision, BERTH_EFFECT_ASSIGN, cell);
			cell->sent_session = agent->session;
			cell->unlisted_beat = 0;
		} else if (!cell->unlisted_beat) {
			// It may have crossed the assignment. The answer to it comes after the assignment, on the same
			// stream: who has that answer has both.
			cell->unlisted_beat = beat->sequence;
		} else if (beat->acknowledged >= cell->unlisted_beat) {
			unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__INFRASTRUCTURE,
				"its agent does not know it", NULL);
		}
	}
	revoke_others(decision, agent);
}

static bool is_listed(const Berth__V1__Heartbeat *beat, const struct lease *lease)
{
	for (size_t i = 0; i < beat->n_running; i++) {
		const Berth__V1__TrialKey *key = beat->running[i];
		if (key->index == lease->record->trial_index && key->generation == lease->record->generation &&
			strcmp(key->job_id, lease->record->job_id) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_current(const struct lease *lease)
{
	const struct cell *cell = &lease->job->cells[lease->record->trial_index];
	return cell->agent == lease->agent && cell->generation == lease->record->generation;
}

// Its agent came back without what would show whether it was dispatched: the only failure of one that has no mark.
static bool is_unknown(const struct lease *lease)
{
	return lease->record->failure[0];
}

// Whether all that it had to report when it made this heartbeat is applied. (Reports of older lives go before those of
// this one; one whose outbox is never empty has told all the same.)
static bool has_told_all(const struct agent *agent, const Berth__V1__Heartbeat *beat)
{
	const struct boot *boot = core_boot(agent, agent->boot_id);
	return !beat->outbox_first || (beat->outbox_last && boot && boot->applied_through >= beat->outbox_last);
}

// A lease whose assignment was withdrawn, of which no mark was ever reported: it was never dispatched, once its agent
// has nothing left to report, does not list the trial, and has answered for all that was sent to it before (its marks
// are durable before their effects, and a stream keeps its order). A later life of it was sent nothing of the lease,
// and reports what the older one did, if it has its state.
static void retire_unused(const struct decision *decision, struct agent *agent)
{
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	bool told_all = has_told_all(agent, beat);
	struct lease *lease, *next;
	DL_FOREACH_SAFE (agent->fresh, lease, next) {
		if (is_current(lease) || is_listed(beat, lease) || is_unknown(lease)) {
			lease->idle_session = 0;
		} else if (!lease->of_older_life && lease->idle_session != agent->session) {
			lease->idle_session = agent->session;
			lease->idle_beat = beat->sequence;
		} else if (told_all && (lease->of_older_life || beat->acknowledged >= lease->idle_beat)) {
			Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
			move.lease_id = lease->record->lease_id;
			move.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
			move.proof = BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED;
			move_lease(decision, lease, &move);
		}
	}
}

static void hear_of_backups(const struct decision *decision, struct agent *agent)
{
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	if (!decision->core->keeps_reports || agent->keeps_reports) {
		return;
	}
	agent->keeps_reports = agent->keeps_beat && beat->acknowledged >= agent->keeps_beat;
	agent->keeps_beat = agent->keeps_beat ? agent->keeps_beat : beat->sequence;
}

void decide_heartbeat(const struct decision *decision)
{
	struct agent *agent = agent_in_session(decision);
	if (!agent) {
		return;
	}
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	bool was_open = agent_is_open(decision->core, agent, decision->now);
	if (agent->hold_ms > decision->core->config.hold_ms) {
		note_hold(decision, agent); // a heartbeat comes after the Welcome that told it
	}
	agent->ready = true;
	agent->accepting = beat->accepting;
	snprintf(agent->trouble, sizeof agent->trouble, "%s", beat->trouble);
	heard(decision, agent);
	if (agent->accepting && !was_open) {
		decision->core->place_wanted = true;
	}
	struct berth_effect *ack = effect_agent(decision, BERTH_EFFECT_HEARTBEAT_ACK, agent);
	ack->sequence = beat->sequence;
	hear_of_backups(decision, agent);
	if (agent->resending) {
		// What it runs may be of the part that is lost. Its report is on the way, or it has no mark yet: then
		// it is stopped before its trial may begin elsewhere, and what it reports until then is taken up.
		if (!has_told_all(agent, beat) || revoke_others(decision, agent)) {
			return;
		}
		end_resending(decision, agent);
	}
	reconcile(decision, agent);
	retire_unused(decision, agent);
}

void decide_stream_down(const struct decision *decision)
{
	struct agent *agent = core_agent(decision->core, decision->command->agent);
	if (agent && agent->session == decision->command->session) {
		agent->session = 0;
		agent->ready = false;
	}
}

void decide_progress(const struct decision *decision)
{
	struct agent *agent = agent_in_session(decision);
	const Berth__V1__TrialKey *key = decision->command->progress->trial;
	struct cell *cell = core_cell(decision->core, key);
	if (agent && cell && cell->agent == agent && cell->generation == key->generation) {
		snprintf(cell->phase, sizeof cell->phase, "%s", decision->command->progress->phase);
		effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
	}
}

static void promote_delayed(const struct decision *decision, struct job *job)
{
	struct cell *cell, *next;
	DL_FOREACH_SAFE (job->delayed, cell, next) {
		if (cell->due_boot_ns <= decision->now.boot_ns) {
			DL_DELETE(job->delayed, cell);
			cell->delayed = false;
			queue_push(&job->ready, cell->index);
			decision->core->place_wanted = true;
		} else {
			wake_at(decision->core, cell->due_boot_ns);
		}
	}
}

void decide_tick(const struct decision *decision)
{
	decision->core->tick_due_ns = INT64_MAX;
	struct agent *agent, *next_agent;
	HASH_ITER (hh, decision->core->agents, agent, next_agent) {
		// Nothing is assigned while one is to resend, so its trials wait for what it has to say, or for its
		// being given up.
		if (agent->lost || !agent->boot_id[0] || agent->resending) {
			continue;
		}
		if (fenced_at_ns(decision->core, agent) > decision->now.boot_ns) {
			wake_at(decision->core, fenced_at_ns(decision->core, agent));
			continue;
		}
		agent->lost = true;
		struct cell *cell, *next;
		DL_FOREACH_SAFE (agent->running, cell, next) {
			char detail[BERTH_NOTE_DETAIL_SIZE];
			snprintf(detail, sizeof detail, "agent %s was silent past the fencing wait", agent->name);
			unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__HOLD_EXPIRED, detail, NULL);
		}
	}
	count_deferred(decision);
	struct job *job, *next_job;
	DL_FOREACH_SAFE2(decision->core->open_jobs, job, next_job, open_next)
	{
		if (job->delayed) {
			promote_delayed(decision, job);
		}
		if (job->state == BERTH__V1__JOB_STATE__JOB_CANCELLING) {
			end_job_if_over(decision, job);
		}
	}
}
