// SPDX-License-Identifier: Apache-2.0
// Which trials this agent may run, and for how long. A trial is waiting (for a slot, or for an older generation of its
// cell to end), started, or stopping; a stopping one is known until its thread has ended. One that has to stop while it
// waits is started and stopped at once, so that its leases are retired like those of any other.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/core/core_internal.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

static bool same_cell(const Berth__V1__TrialKey *a, const Berth__V1__TrialKey *b)
{
	return a->index == b->index && strcmp(a->job_id, b->job_id) == 0;
}

bool agent_core_key_equal(const Berth__V1__TrialKey *a, const Berth__V1__TrialKey *b)
{
	return a->generation == b->generation && same_cell(a, b);
}

static struct agent_core_trial *find(const struct berth_agent_core *core, const Berth__V1__TrialKey *key)
{
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		if (agent_core_key_equal(trial->key, key)) {
			return trial;
		}
	}
	return NULL;
}

static int64_t after_hold(const struct berth_agent_core *core, int64_t from_ns)
{
	uint64_t most = (uint64_t)(INT64_MAX - from_ns) / BERTH_NS_PER_MS;
	return core->hold_ms > most ? INT64_MAX : from_ns + (int64_t)core->hold_ms * BERTH_NS_PER_MS;
}

// The coordinator waits from the receipt of a heartbeat, and it assigns only to who has sent one. The assignment itself
// proves nothing: it may have waited in a queue while this host slept.
static int64_t held_until_ns(const struct berth_agent_core *core, const struct agent_core_trial *trial)
{
	return after_hold(core, core->renewed_ns == INT64_MIN ? trial->received_ns : core->renewed_ns);
}

static void act_stop(const struct agent_core_trial *trial, const char *reason, struct berth_agent_actions *actions)
{
	struct berth_agent_action *action = agent_core_act(actions, BERTH_AGENT_STOP);
	action->trial = berth_proto_clone(trial->key);
	action->reason = berth_strdup(reason);
	action->expired = trial->expired;
}

static void stop(struct agent_core_trial *trial, bool expired, const char *reason, struct berth_agent_actions *actions)
{
	bool news = !trial->stopping || (trial->expired && !expired);
	if (!news) {
		return;
	}
	trial->stopping = true;
	trial->expired = expired;
	if (trial->started) {
		act_stop(trial, reason, actions);
	}
}

static bool has_older(const struct berth_agent_core *core, const struct agent_core_trial *trial)
{
	struct agent_core_trial *other;
	DL_FOREACH (core->trials, other) {
		if (other == trial) {
			return false;
		}
		if (same_cell(other->key, trial->key)) {
			return true;
		}
	}
	return false;
}

static size_t started(const struct berth_agent_core *core)
{
	size_t count = 0;
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		count += trial->started;
	}
	return count;
}

static bool may_start(const struct berth_agent_core *core, const struct agent_core_trial *trial)
{
	return !trial->started && started(core) < core->capacity.slots && !has_older(core, trial);
}

static void start_ready(struct berth_agent_core *core, struct berth_agent_actions *actions)
{
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		if (!may_start(core, trial)) {
			continue;
		}
		trial->started = true;
		agent_core_act(actions, BERTH_AGENT_START)->assignment = BERTH_STEAL(trial->assignment);
		if (trial->stopping) {
			act_stop(trial, "it was withdrawn before it could start", actions);
		}
	}
}

void agent_core_trials_assign(struct berth_agent_core *core, const Berth__V1__Assignment *assignment, int64_t now_ns,
	struct berth_agent_actions *actions)
{
	const Berth__V1__TrialKey *key = assignment->trial;
	if (!key || !key->job_id[0] || !key->generation) {
		agent_core_close(core, actions, "the coordinator sent an assignment that names no trial");
		return;
	}
	size_t count = 0;
	struct agent_core_trial *other;
	if (agent_core_outbox_has_result(core, key)) {
		return;
	}
	DL_FOREACH (core->trials, other) {
		count++;
		if (same_cell(other->key, key) && other->key->generation >= key->generation) {
			return; // a duplicate, or one that is out of date
		}
	}
	if (count >= AGENT_CORE_TRIALS_MAX) {
		agent_core_close(core, actions, "the coordinator sent more than %d trials to an agent of %u slots",
			AGENT_CORE_TRIALS_MAX, core->capacity.slots);
		return;
	}
	DL_FOREACH (core->trials, other) {
		if (same_cell(other->key, key)) {
			stop(other, false, "a newer generation of this trial was assigned", actions);
		}
	}
	struct agent_core_trial *trial = berth_alloc(sizeof *trial);
	trial->key = berth_proto_clone(key);
	trial->assignment = berth_proto_clone(assignment);
	trial->received_ns = now_ns;
	trial->expires_ns = held_until_ns(core, trial);
	core->holds++;
	DL_APPEND(core->trials, trial);
	start_ready(core, actions);
}

void berth_agent_core_resume(struct berth_agent_core *core, const Berth__V1__TrialKey *key)
{
	struct agent_core_trial *trial = berth_alloc(sizeof *trial);
	trial->key = berth_proto_clone(key);
	trial->started = true;
	trial->expires_ns = INT64_MAX;
	DL_APPEND(core->trials, trial);
}

void agent_core_trials_revoke(
	struct berth_agent_core *core, const Berth__V1__Revoke *revoke, struct berth_agent_actions *actions)
{
	struct agent_core_trial *trial = revoke->trial ? find(core, revoke->trial) : NULL;
	if (trial) {
		stop(trial, false, revoke->reason[0] ? revoke->reason : "the coordinator revoked it", actions);
	}
}

void agent_core_trials_renew(struct berth_agent_core *core, int64_t sent_ns)
{
	struct agent_core_trial *trial;
	int64_t until_ns = after_hold(core, sent_ns);
	core->holds++;
	DL_FOREACH (core->trials, trial) {
		if (until_ns > trial->expires_ns) {
			trial->expires_ns = until_ns;
		}
	}
}

void agent_core_trials_rehold(struct berth_agent_core *core)
{
	struct agent_core_trial *trial;
	core->holds++;
	DL_FOREACH (core->trials, trial) {
		int64_t until_ns = held_until_ns(core, trial);
		if (trial->expires_ns != INT64_MAX && until_ns < trial->expires_ns) {
			trial->expires_ns = until_ns;
		}
	}
}

void agent_core_trials_tick(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		if (!trial->stopping && trial->expires_ns <= now_ns) {
			stop(trial, true, "its hold is over: the coordinator did not answer in time", actions);
		}
	}
	start_ready(core, actions);
}

int64_t agent_core_trials_next_ns(const struct berth_agent_core *core)
{
	int64_t next_ns = INT64_MAX;
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		if (may_start(core, trial)) {
			return 0;
		}
		if (!trial->stopping && trial->expires_ns < next_ns) {
			next_ns = trial->expires_ns;
		}
	}
	return next_ns;
}

uint64_t berth_agent_core_holds(const struct berth_agent_core *core)
{
	return core->holds;
}

int64_t berth_agent_core_expires_ns(const struct berth_agent_core *core, const Berth__V1__TrialKey *key)
{
	const struct agent_core_trial *trial = find(core, key);
	return trial ? trial->expires_ns : INT64_MAX;
}

void berth_agent_core_trial_ended(struct berth_agent_core *core, const Berth__V1__TrialKey *key)
{
	struct agent_core_trial *trial = find(core, key);
	if (!trial) {
		return;
	}
	DL_DELETE(core->trials, trial);
	berth_proto_free(trial->key);
	berth_proto_free(trial->assignment);
	free(trial->phase);
	free(trial);
}

static void tell(const struct agent_core_trial *trial, struct berth_agent_actions *actions)
{
	Berth__V1__Progress progress = BERTH__V1__PROGRESS__INIT;
	progress.trial = trial->key;
	progress.phase = trial->phase;
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS;
	message.progress = &progress;
	agent_core_send(actions, &message);
}

void agent_core_trials_tell(struct berth_agent_core *core, struct berth_agent_actions *actions)
{
	struct agent_core_trial *trial;
	DL_FOREACH (core->trials, trial) {
		if (trial->phase) {
			tell(trial, actions);
		}
	}
}

void berth_agent_core_progress(struct berth_agent_core *core, const Berth__V1__TrialKey *key, const char *phase,
	struct berth_agent_actions *actions)
{
	struct agent_core_trial *trial = find(core, key);
	if (!trial) {
		return;
	}
	free(trial->phase);
	trial->phase = berth_strdup(phase);
	if (core->stream == AGENT_CORE_OBEYING) {
		tell(trial, actions);
	}
}

size_t agent_core_running_keys(const struct berth_agent_core *core, Berth__V1__TrialKey ***keys)
{
	struct agent_core_trial *trial;
	struct agent_core_report *report;
	size_t most = 0, count = 0;
	DL_COUNT(core->trials, trial, most);
	DL_FOREACH (core->reports, report) {
		most += report->done != NULL;
	}
	*keys = berth_realloc_array(NULL, most + 1, sizeof **keys);
	DL_FOREACH (core->trials, trial) {
		(*keys)[count++] = trial->key;
	}
	DL_FOREACH (core->reports, report) {
		// Its result is on the way: a coordinator that saw it missing here would run it again.
		if (report->done && report->sequence > report->boot->acked && !find(core, report->done)) {
			(*keys)[count++] = report->done;
		}
	}
	return count;
}

size_t berth_agent_core_running(const struct berth_agent_core *core)
{
	struct agent_core_trial *trial;
	size_t count = 0;
	DL_COUNT(core->trials, trial, count);
	return count;
}

void agent_core_trials_free(struct berth_agent_core *core)
{
	while (core->trials) {
		berth_agent_core_trial_ended(core, core->trials->key);
	}
}
