// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/progress.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/results.h"

#define MS_PER_MINUTE 60000.0
#define BAR_WIDTH     20
#define ETA_S_MAX     (INT64_C(1000) * 24 * 3600)

enum { NOWHERE, STARTING, PHASE_FIRST, ENDED = 255 };

// As FleetService's Progress names them; a phase of another name is "other".
static const char *const PHASES[] = {
	"build", "environment_setup", "agent_setup", "agent_execution", "verifier", "cleanup", "other"};

uint32_t cli_progress_ended(const Berth__V1__JobCounts *counts)
{
	return counts->scored + counts->unscored + counts->quarantined + counts->cancelled;
}

void cli_progress_update(struct cli_progress *progress, const Berth__V1__JobCounts *counts, int64_t now_ms)
{
	if (!progress->started) {
		progress->started = true;
		progress->ended_first = cli_progress_ended(counts);
		progress->first_ms = now_ms;
	}
	progress->counts = *counts;
}

double cli_progress_rate(const struct cli_progress *progress, int64_t now_ms)
{
	uint32_t ended = cli_progress_ended(&progress->counts);
	int64_t passed_ms = now_ms - progress->first_ms;
	if (!progress->started || ended <= progress->ended_first || passed_ms <= 0) {
		return -1;
	}
	return (ended - progress->ended_first) * MS_PER_MINUTE / (double)passed_ms;
}

int64_t cli_progress_eta_s(const struct cli_progress *progress, int64_t now_ms)
{
	double rate = cli_progress_rate(progress, now_ms);
	uint32_t ended = cli_progress_ended(&progress->counts);
	if (progress->started && ended >= progress->counts.total) {
		return 0;
	}
	double seconds = rate > 0 ? (progress->counts.total - ended) * 60 / rate + 0.5 : -1;
	return seconds > ETA_S_MAX ? ETA_S_MAX : (int64_t)seconds;
}

void cli_duration_text(int64_t seconds, struct berth_buf *out)
{
	int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
	if (days > 0) {
		berth_buf_printf(out, "%lldd%02lldh", (long long)days, (long long)hours % 24);
	} else if (hours > 0) {
		berth_buf_printf(out, "%lldh%02lldm", (long long)hours, (long long)minutes % 60);
	} else if (minutes > 0) {
		berth_buf_printf(out, "%lldm%02llds", (long long)minutes, (long long)seconds % 60);
	} else {
		berth_buf_printf(out, "%llds", (long long)seconds);
	}
}

static void put_count(struct berth_buf *out, uint32_t count, const char *what)
{
	if (count > 0) {
		berth_buf_printf(out, "  %u %s", count, what);
	}
}

static void cut(struct berth_buf *out, size_t start, size_t columns)
{
	size_t width = 0, at = start;
	for (; at < out->size; at++) {
		width += (out->data[at] & 0xc0) != 0x80;
		if (width > columns) {
			break;
		}
	}
	out->size = at;
	if (out->data) {
		out->data[at] = 0;
	}
}

void cli_progress_line(const struct cli_progress *progress, const char *name, const char *phases, int64_t now_ms,
	int columns, struct berth_buf *out)
{
	const Berth__V1__JobCounts *counts = &progress->counts;
	size_t start = out->size;
	uint32_t ended = cli_progress_ended(counts);
	uint32_t filled = counts->total ? (uint32_t)((uint64_t)ended * BAR_WIDTH / counts->total) : 0;
	berth_buf_printf(out, "%s [", name);
	for (uint32_t i = 0; i < BAR_WIDTH; i++) {
		berth_buf_add_byte(out, i < filled ? '#' : '.');
	}
	berth_buf_printf(out, "] %u/%u  %u scored", ended, counts->total, counts->scored);
	put_count(out, counts->unscored + counts->quarantined, "unscored");
	put_count(out, counts->cancelled, "cancelled");
	put_count(out, counts->budget_blocked, "waiting for budget");
	put_count(out, counts->queued, "queued");
	double rate = cli_progress_rate(progress, now_ms);
	int64_t eta_s = cli_progress_eta_s(progress, now_ms);
	if (rate > 0) {
		berth_buf_printf(out, "  %.1f/min", rate);
	}
	if (eta_s > 0) {
		berth_buf_add_text(out, "  ETA ");
		cli_duration_text(eta_s, out);
	}
	if (*phases) {
		berth_buf_printf(out, "  | %s", phases);
	}
	if (columns > 0) {
		cut(out, start, (size_t)columns);
	}
}

static uint8_t state_of(const Berth__V1__Trial *trial)
{
	if (berth_trial_has_ended(trial->state)) {
		return ENDED;
	}
	if (trial->state != BERTH__V1__TRIAL_STATE__TRIAL_RUNNING) {
		return NOWHERE;
	}
	if (!*trial->phase) {
		return STARTING;
	}
	uint8_t phase = 0;
	while (phase + 1U < BERTH_COUNT(PHASES) && strcmp(PHASES[phase], trial->phase) != 0) {
		phase++;
	}
	return (uint8_t)(PHASE_FIRST + phase);
}

bool cli_phases_update(struct cli_phases *phases, const Berth__V1__Trial *trial)
{
	size_t index = trial->key ? trial->key->index : CLI_CELLS_MAX;
	if (index >= CLI_CELLS_MAX) {
		return false;
	}
	if (index >= phases->count) {
		size_t count = 2 * index + 64;
		phases->states = berth_realloc_array(phases->states, count, 1);
		memset(phases->states + phases->count, NOWHERE, count - phases->count);
		phases->count = count;
	}
	uint8_t before = phases->states[index];
	phases->states[index] = state_of(trial);
	return phases->states[index] == ENDED && before != ENDED;
}

void cli_phases_text(const struct cli_phases *phases, struct berth_buf *out)
{
	uint32_t counts[256] = {0};
	for (size_t i = 0; i < phases->count; i++) {
		counts[phases->states[i]]++;
	}
	const char *comma = "";
	for (size_t i = STARTING; i < PHASE_FIRST + BERTH_COUNT(PHASES); i++) {
		if (counts[i] > 0) {
			berth_buf_printf(
				out, "%s%u %s", comma, counts[i], i == STARTING ? "starting" : PHASES[i - PHASE_FIRST]);
			comma = ", ";
		}
	}
}

void cli_phases_free(struct cli_phases *phases)
{
	berth_free_cleanup(&phases->states);
	phases->count = 0;
}
