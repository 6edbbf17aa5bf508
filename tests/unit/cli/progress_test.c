// SPDX-License-Identifier: Apache-2.0
// Progress arithmetic, and text that cannot steer a terminal.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/link.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/progress.h"
#include "tests/support/test.h"

static Berth__V1__JobCounts counts_of(uint32_t total, uint32_t scored, uint32_t unscored)
{
	Berth__V1__JobCounts counts = BERTH__V1__JOB_COUNTS__INIT;
	counts.total = total;
	counts.scored = scored;
	counts.unscored = unscored;
	counts.queued = total - scored - unscored;
	return counts;
}

static void rate_and_eta_count_from_the_first_look(void **state)
{
	(void)state;
	struct cli_progress progress = {0};
	Berth__V1__JobCounts first = counts_of(100, 40, 0), later = counts_of(100, 45, 5);
	cli_progress_update(&progress, &first, 1000);
	assert_true(cli_progress_rate(&progress, 1000) < 0);
	assert_int_equal(cli_progress_eta_s(&progress, 61000), -1);
	cli_progress_update(&progress, &later, 121000);
	assert_true(cli_progress_rate(&progress, 121000) == 5);
	assert_int_equal(cli_progress_eta_s(&progress, 121000), 600);
	assert_int_equal(cli_progress_eta_s(&progress, 241000), 1200);
}

static void a_job_that_has_ended_has_no_time_left(void **state)
{
	(void)state;
	struct cli_progress progress = {0};
	Berth__V1__JobCounts all = counts_of(3, 2, 1);
	cli_progress_update(&progress, &all, 5);
	assert_int_equal(cli_progress_eta_s(&progress, 5), 0);
	struct cli_progress empty = {0};
	Berth__V1__JobCounts none = counts_of(0, 0, 0);
	cli_progress_update(&empty, &none, 5);
	assert_int_equal(cli_progress_eta_s(&empty, 5), 0);
}

static void an_eta_is_bounded(void **state)
{
	(void)state;
	struct cli_progress progress = {0};
	Berth__V1__JobCounts first = counts_of(UINT32_MAX, 0, 0), later = counts_of(UINT32_MAX, 1, 0);
	cli_progress_update(&progress, &first, 0);
	cli_progress_update(&progress, &later, INT64_C(1) << 50);
	assert_int_equal(cli_progress_eta_s(&progress, INT64_C(1) << 50), INT64_C(1000) * 24 * 3600);
}

static void durations_show_two_units_at_most(void **state)
{
	(void)state;
	static const struct {
		int64_t seconds;
		const char *text;
	} ROWS[] = {{0, "0s"}, {59, "59s"}, {60, "1m00s"}, {3599, "59m59s"}, {3600, "1h00m"}, {7620, "2h07m"},
		{86400, "1d00h"}, {273600, "3d04h"}};
	for (size_t i = 0; i < BERTH_COUNT(ROWS); i++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		cli_duration_text(ROWS[i].seconds, &text);
		assert_string_equal(berth_buf_text(&text), ROWS[i].text);
	}
}

static void a_line_holds_bar_counts_rate_and_phases(void **state)
{
	(void)state;
	struct cli_progress progress = {0};
	Berth__V1__JobCounts first = counts_of(8, 0, 0), later = counts_of(8, 3, 1);
	cli_progress_update(&progress, &first, 0);
	cli_progress_update(&progress, &later, 60000);
	BERTH_AUTO(berth_buf_free) struct berth_buf line = {0};
	cli_progress_line(&progress, "tide", "2 verifier", 60000, 0, &line);
	assert_string_equal(berth_buf_text(&line),
		"tide [##########..........] 4/8  3 scored  1 unscored  4 queued  4.0/min  ETA 1m00s  | 2 verifier");
	berth_buf_reset(&line);
	cli_progress_line(&progress, "t\xc3\xa4g", "", 60000, 5, &line);
	assert_string_equal(berth_buf_text(&line), "t\xc3\xa4g [");
}

static Berth__V1__Trial trial_of(Berth__V1__TrialKey *key, uint32_t index, Berth__V1__TrialState state, char *phase)
{
	Berth__V1__Trial trial = BERTH__V1__TRIAL__INIT;
	berth__v1__trial_key__init(key);
	key->index = index;
	trial.key = key;
	trial.state = state;
	trial.phase = phase;
	return trial;
}

static void phases_are_counted_and_an_end_is_told_once(void **state)
{
	(void)state;
	struct cli_phases phases = {0};
	Berth__V1__TrialKey key;
	static const struct {
		uint32_t index;
		char *phase;
	} RUNNING[] = {{0, "verifier"}, {700, "agent_execution"}, {3, "agent_execution"}, {4, ""}, {5, "\033[2J"}};
	for (size_t i = 0; i < BERTH_COUNT(RUNNING); i++) {
		Berth__V1__Trial trial =
			trial_of(&key, RUNNING[i].index, BERTH__V1__TRIAL_STATE__TRIAL_RUNNING, RUNNING[i].phase);
		assert_false(cli_phases_update(&phases, &trial));
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	cli_phases_text(&phases, &text);
	assert_string_equal(berth_buf_text(&text), "1 starting, 2 agent_execution, 1 verifier, 1 other");
	Berth__V1__Trial ended = trial_of(&key, 700, BERTH__V1__TRIAL_STATE__TRIAL_SCORED, "");
	assert_true(cli_phases_update(&phases, &ended));
	assert_false(cli_phases_update(&phases, &ended));
	Berth__V1__Trial absurd = trial_of(&key, UINT32_MAX, BERTH__V1__TRIAL_STATE__TRIAL_SCORED, "");
	assert_false(cli_phases_update(&phases, &absurd));
	cli_phases_free(&phases);
}

static void pauses_double_up_to_their_bound(void **state)
{
	(void)state;
	static const int64_t WANTED[] = {250, 500, 1000, 2000, 4000, 5000, 5000};
	for (size_t i = 0; i < BERTH_COUNT(WANTED); i++) {
		assert_int_equal(cli_backoff_ms((int)i), WANTED[i]);
	}
	assert_int_equal(cli_backoff_ms(INT32_MAX), 5000);
}

static void an_address_takes_another_port(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *name = cli_address_with_port("harbour.example:7311", 7312);
	BERTH_AUTO_FREE char *six = cli_address_with_port("[::1]:99", 7312);
	assert_string_equal(name, "harbour.example:7312");
	assert_string_equal(six, "[::1]:7312");
	assert_null(cli_address_with_port("unix:/run/berth.sock", 7312));
	assert_null(cli_address_with_port("harbour", 7312));
}

static void text_loses_what_steers_a_terminal(void **state)
{
	(void)state;
	static const struct {
		const char *dirty, *line, *lines;
	} ROWS[] = {
		{"plain", "plain", "plain"},
		{"a\033[31mb\007\r\nc\td", "a[31mb c d", "a[31mb\nc\td"},
		{"x\xc2\x9b"
		 "31my\x7f",
			"x31my", "x31my"},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa2", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa2",
			"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa2"},
		{"\xff\xc0\x9b\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
			NULL},
	};
	for (size_t i = 0; i < BERTH_COUNT(ROWS); i++) {
		BERTH_AUTO_FREE char *line = cli_text_line(ROWS[i].dirty);
		BERTH_AUTO(berth_buf_free) struct berth_buf lines = {0};
		cli_text_clean(ROWS[i].dirty, strlen(ROWS[i].dirty), true, &lines);
		assert_string_equal(line, ROWS[i].line);
		assert_string_equal(berth_buf_text(&lines), ROWS[i].lines ? ROWS[i].lines : ROWS[i].line);
	}
}

static void a_character_cut_at_a_chunks_end_waits_for_its_rest(void **state)
{
	(void)state;
	assert_int_equal(cli_text_torn("ab", 2), 0);
	assert_int_equal(cli_text_torn("a\xc3", 2), 1);
	assert_int_equal(cli_text_torn("a\xc3\xa4", 3), 0);
	assert_int_equal(cli_text_torn("\xe2\x82", 2), 2);
	assert_int_equal(cli_text_torn("\xf0\x9f\x9a", 3), 3);
	assert_int_equal(cli_text_torn("\x80\x80\x80\x80", 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_and_eta_count_from_the_first_look),
		cmocka_unit_test(a_job_that_has_ended_has_no_time_left),
		cmocka_unit_test(an_eta_is_bounded),
		cmocka_unit_test(durations_show_two_units_at_most),
		cmocka_unit_test(a_line_holds_bar_counts_rate_and_phases),
		cmocka_unit_test(phases_are_counted_and_an_end_is_told_once),
		cmocka_unit_test(pauses_double_up_to_their_bound),
		cmocka_unit_test(an_address_takes_another_port),
		cmocka_unit_test(text_loses_what_steers_a_terminal),
		cmocka_unit_test(a_character_cut_at_a_chunks_end_waits_for_its_rest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
