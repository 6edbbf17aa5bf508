// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/script.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

// What was acknowledged by a reply; what the agent's stream acknowledged is checked by hand_join.
static bool holds(struct script *script)
{
	struct desk_money money;
	Berth__V1__JobState state;
	uint32_t scored = 0;
	if (script->budget_open && !desk_money(&script->port, &money)) {
		return false;
	}
	if (script->budget_open && money.amendments < script->amendments) {
		port_broken(&script->port, "%u amendments were acknowledged, life %u has %u", script->amendments,
			script->port.lives, money.amendments);
	}
	if (script->job[0] && !desk_state(&script->port, script->job, &state, &scored)) {
		return false;
	}
	if (scored < script->scored) {
		port_broken(&script->port, "%u trials of job %s were scored, in life %u there are %u", script->scored,
			script->job, script->port.lives, scored);
	}
	script->checks++;
	return true;
}

static bool start(struct script *script)
{
	unsigned life = script->port.lives;
	return port_start(&script->port, life < SCRIPT_LIVES_MOST ? script->plans[life] : NULL);
}

void script_recover(struct script *script)
{
	do {
		hand_leave(&script->hand);
		while (!script->port.pid && !start(script)) {
		}
	} while ((script->joined && !hand_join(&script->hand)) || !holds(script));
}

static void run_trial(struct script *script, struct hand_trial *trial, bool batched)
{
	static const Berth__V1__LeaseState moves[] = {BERTH__V1__LEASE_STATE__LEASE_DISPATCHING,
		BERTH__V1__LEASE_STATE__LEASE_ACTIVE, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED,
		BERTH__V1__LEASE_STATE__LEASE_RETIRED};
	for (size_t i = 0; i < BERTH_COUNT(moves); i++) {
		bool last = moves[i] == BERTH__V1__LEASE_STATE__LEASE_RETIRED;
		SCRIPT_SAY(script,
			hand_move(&script->hand, trial, moves[i], last ? BERTH__V1__DEATH_PROOF__ABSENCE_SEEN : 0));
		while (!batched && !hand_flush(&script->hand)) {
			script_recover(script);
		}
	}
	if (trial->revoked) {
		port_broken(&script->port, "a trial of job %s was given and is revoked: its assignment was lost",
			trial->assignment->trial->job_id);
	}
	SCRIPT_SAY(script, hand_done(&script->hand, trial, QUAY_HONEST));
	SCRIPT_DO(script, hand_flush(&script->hand));
	script->trials++;
	hand_forget(trial);
}

static void submit(struct script *script, const char *key, uint32_t cells)
{
	char id[DESK_ID];
	SCRIPT_DO(script, desk_submit(&script->port, key, cells, id));
	memcpy(script->job, id, sizeof id);
	script->scored = 0;
}

void script_score(struct script *script, const char *key, uint32_t cells, bool batched)
{
	submit(script, key, cells);
	for (uint32_t i = 0; i < cells; i++) {
		struct hand_trial *trial;
		SCRIPT_DO(script, hand_take(&script->hand, script->job, &trial));
		run_trial(script, trial, batched);
		script->scored = i + 1; // its report was acknowledged
	}
	SCRIPT_DO(script, desk_check_ended(&script->port, script->job, BERTH__V1__JOB_STATE__JOB_COMPLETED, cells));
	script->jobs++;
}

void script_forfeit(struct script *script, const char *key)
{
	struct hand_trial *trial;
	submit(script, key, 1);
	SCRIPT_DO(script, hand_take(&script->hand, script->job, &trial));
	SCRIPT_SAY(script, hand_move(&script->hand, trial, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0));
	SCRIPT_DO(script, hand_flush(&script->hand));
	SCRIPT_DO(script, desk_cancel(&script->port, script->job));
	SCRIPT_DO(script, hand_wait_revoked(&script->hand, trial));
	trial->ended = true;
	SCRIPT_SAY(script, hand_move(&script->hand, trial, BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED, 0));
	SCRIPT_SAY(script, hand_move(&script->hand, trial, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
				   BERTH__V1__DEATH_PROOF__GIVEN_UP));
	SCRIPT_DO(script, hand_flush(&script->hand));
	hand_forget(trial);
	SCRIPT_DO(script, desk_check_ended(&script->port, script->job, BERTH__V1__JOB_STATE__JOB_CANCELLED, 1));
	script->cancels++;
}

void script_amend(struct script *script, unsigned runs)
{
	struct desk_money money;
	SCRIPT_DO(script, desk_money(&script->port, &money));
	int64_t limit = money.settled + money.forfeited + (int64_t)runs * DESK_PRICE;
	SCRIPT_DO(script, desk_amend(&script->port, money.amendments + 1, limit));
	script->amendments = money.amendments + 1;
}

static void check_money(struct script *script)
{
	struct desk_money money;
	SCRIPT_DO(script, desk_money(&script->port, &money));
	int64_t settled = (int64_t)script->trials * DESK_SPENT, forfeited = (int64_t)script->cancels * DESK_PRICE;
	if (money.reserved || money.settled != settled || money.forfeited != forfeited) {
		port_broken(&script->port,
			"at the end settled %lld, forfeited %lld, reserved %lld nano-USD, not %lld, %lld and 0",
			(long long)money.settled, (long long)money.forfeited, (long long)money.reserved,
			(long long)settled, (long long)forfeited);
	}
}

static void enroll(struct script *script)
{
	struct credentials ann = {0};
	SCRIPT_DO(script, desk_enroll(&script->port, "agent", "north", &script->port.quay.agent));
	SCRIPT_DO(script, desk_enroll(&script->port, "user", "bo", &script->port.user));
	SCRIPT_DO(script, desk_enroll(&script->port, "operator", "ann", &ann)); // whose key signs amendments
	quay_free_credentials(&ann);
}

static void end_first_life(struct script *script)
{
	hand_leave(&script->hand);
	port_kill(&script->port);
	port_wait(&script->port);
	script_recover(script);
}

static void name_phase(struct script *script, const char *phase)
{
	port_phase(&script->port, script->first_life ? "first-life" : phase);
}

void script_begin(struct script *script)
{
	name_phase(script, "start");
	script_recover(script);
	name_phase(script, "enroll");
	enroll(script);
	name_phase(script, "budget");
	SCRIPT_DO(script, desk_open_budget(&script->port));
	script->budget_open = true;
	name_phase(script, "join");
	script->joined = true;
	SCRIPT_DO(script, hand_join(&script->hand));
}

void script_end(struct script *script)
{
	name_phase(script, "money");
	check_money(script);
	name_phase(script, "stop");
	hand_leave(&script->hand);
	port_stop(&script->port);
	name_phase(script, "look");
	script_recover(script);
	check_money(script);
	hand_leave(&script->hand);
	port_stop(&script->port);
}

void script_run(struct script *script, bool second)
{
	script->first_life = second;
	script_begin(script);
	name_phase(script, "trial");
	script_score(script, "first", 1, false);
	if (second) {
		script->first_life = false;
		name_phase(script, "recover");
		end_first_life(script);
	}
	name_phase(script, "amend");
	script_amend(script, 2);
	name_phase(script, "batched");
	script_score(script, "second", 2, true);
	name_phase(script, "cancel");
	script_forfeit(script, "third");
	script_end(script);
}
