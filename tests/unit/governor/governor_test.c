// SPDX-License-Identifier: Apache-2.0
#include "coordinator/governor/governor.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

#define ACCOUNT    "e2b/3f9c"
#define BEGUN_NS   MS(1000000)
#define MS(ms)     ((int64_t)(ms)*BERTH_NS_PER_MS)
#define LONG_NS    MS(100000000)
#define WALK_STEPS 20000

static int setup(void **state)
{
	struct berth_error err;
	struct berth_governor *governor = berth_governor_new(BEGUN_NS);
	struct berth_governor_policy policy = berth_governor_e2b(0);
	assert_ok(berth_governor_set(governor, ACCOUNT, &policy, &err), err);
	*state = governor;
	return 0;
}

static int teardown(void **state)
{
	berth_governor_free(*state);
	return 0;
}

static void places(struct berth_governor *governor, uint32_t count)
{
	struct berth_error err;
	struct berth_governor_policy policy = berth_governor_e2b(count);
	assert_ok(berth_governor_set(governor, ACCOUNT, &policy, &err), err);
}

static void ask(struct berth_governor *governor, const char *ticket, int64_t now_ns)
{
	struct berth_error err;
	assert_ok(berth_governor_ask(governor, ACCOUNT, ticket, LONG_NS, now_ns, &err), err);
}

// The one permit that is due now.
static void assert_granted(struct berth_governor *governor, int64_t now_ns, const char *ticket)
{
	struct berth_permit permit;
	assert_true(berth_governor_grant(governor, now_ns, &permit));
	assert_string_equal(permit.ticket, ticket);
	assert_true(permit.granted_ns == now_ns);
	assert_false(berth_governor_grant(governor, now_ns, &permit));
}

static void assert_none(struct berth_governor *governor, int64_t now_ns)
{
	struct berth_permit permit;
	assert_false(berth_governor_grant(governor, now_ns, &permit));
}

static struct berth_governor_state state_of(const struct berth_governor *governor)
{
	struct berth_governor_state state;
	assert_true(berth_governor_state(governor, ACCOUNT, &state));
	return state;
}

static void creates_are_admitted_at_exactly_250_ms_whoever_asks_and_across_a_start(void **state)
{
	struct berth_governor *governor = *state;
	ask(governor, "a1", BEGUN_NS);
	ask(governor, "b1", BEGUN_NS);
	ask(governor, "a2", BEGUN_NS);
	assert_true(berth_governor_due_ns(governor) == BEGUN_NS + MS(250)); // as if one was granted just before
	assert_none(governor, BEGUN_NS + MS(250) - 1);
	assert_granted(governor, BEGUN_NS + MS(250), "a1");
	assert_none(governor, BEGUN_NS + MS(500) - 1);
	assert_granted(governor, BEGUN_NS + MS(500), "b1");
	assert_granted(governor, BEGUN_NS + MS(750), "a2");
	assert_true(berth_governor_due_ns(governor) == INT64_MAX);
}

static void a_pause_earns_no_burst(void **state)
{
	struct berth_governor *governor = *state;
	int64_t later_ns = BEGUN_NS + MS(60000);
	ask(governor, "a", later_ns);
	ask(governor, "b", later_ns);
	assert_granted(governor, later_ns, "a");
	assert_none(governor, later_ns + MS(249));
	assert_granted(governor, later_ns + MS(250), "b");
}

static void a_spacing_is_rounded_up(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	struct berth_governor_policy policy = {.dispatches = 3, .period_ms = 1, .permit_ms = 1000};
	assert_ok(berth_governor_set(governor, ACCOUNT, &policy, &err), err);
	assert_true(state_of(governor).spacing_ns == 333334);
}

static void a_deadline_inside_the_spacing_spends_no_sequence(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	char late[BERTH_ID_SIZE];
	assert_ok(berth_governor_ask(governor, ACCOUNT, "a", BEGUN_NS + MS(100), BEGUN_NS, &err), err);
	ask(governor, "b", BEGUN_NS);
	assert_true(berth_governor_due_ns(governor) == BEGUN_NS + MS(100));
	assert_false(berth_governor_late(governor, BEGUN_NS + MS(100) - 1, late));
	assert_true(berth_governor_late(governor, BEGUN_NS + MS(100), late));
	assert_string_equal(late, "a");
	assert_false(berth_governor_late(governor, BEGUN_NS + MS(100), late));
	struct berth_permit permit;
	assert_true(berth_governor_grant(governor, BEGUN_NS + MS(250), &permit));
	assert_string_equal(permit.ticket, "b");
	assert_int_equal(permit.sequence, 1);
	assert_fails(berth_governor_ask(governor, ACCOUNT, "c", BEGUN_NS, BEGUN_NS, &err), err, BERTH_ERROR_TIMEOUT,
		ACCOUNT);
}

static void a_permit_that_is_used_too_late_is_void_and_its_place_in_time_is_spent(void **state)
{
	struct berth_governor *governor = *state;
	int64_t at_ns = BEGUN_NS + MS(250);
	ask(governor, "a", BEGUN_NS);
	ask(governor, "b", BEGUN_NS);
	assert_granted(governor, at_ns, "a");
	assert_false(berth_governor_use(governor, "a", at_ns + MS(30000)));
	assert_false(berth_governor_use(governor, "b", at_ns)); // not granted
	struct berth_permit permit;
	assert_true(berth_governor_grant(governor, at_ns + MS(30000), &permit));
	assert_int_equal(permit.sequence, 2);
	assert_int_equal(state_of(governor).expired, 1);
	assert_true(berth_governor_use(governor, "b", at_ns + MS(30001)));
	assert_false(berth_governor_use(governor, "b", at_ns + MS(30001))); // one create a permit
	assert_int_equal(state_of(governor).taken, 1);
}

static void the_line_waits_while_all_places_are_taken(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	places(governor, 2);
	assert_ok(berth_governor_lives(governor, ACCOUNT, "old", &err), err);
	ask(governor, "a", BEGUN_NS);
	ask(governor, "b", BEGUN_NS);
	assert_granted(governor, BEGUN_NS + MS(1000), "a");
	assert_true(berth_governor_use(governor, "a", BEGUN_NS + MS(1000)));
	assert_none(governor, BEGUN_NS + MS(9000));
	assert_true(berth_governor_due_ns(governor) == LONG_NS); // when b is late
	berth_governor_end(governor, "old", BEGUN_NS + MS(9000));
	assert_granted(governor, BEGUN_NS + MS(9000), "b");
	berth_governor_end(governor, "unknown", BEGUN_NS + MS(9000));
}

static void a_refusal_for_the_rate_rests_and_slows_the_account_until_it_is_quiet(void **state)
{
	struct berth_governor *governor = *state;
	int64_t now_ns = BEGUN_NS + MS(10000);
	berth_governor_too_fast(governor, ACCOUNT, 3000, now_ns);
	ask(governor, "a", now_ns);
	ask(governor, "b", now_ns);
	assert_true(berth_governor_due_ns(governor) == now_ns + MS(3000));
	assert_granted(governor, now_ns + MS(3000), "a");
	assert_none(governor, now_ns + MS(3499));
	assert_granted(governor, now_ns + MS(3500), "b");
	ask(governor, "c", now_ns + MS(3500));
	assert_granted(governor, now_ns + MS(4000), "c"); // a period of quiet
	ask(governor, "d", now_ns + MS(4000));
	assert_granted(governor, now_ns + MS(4250), "d");
}

static void refusals_without_a_time_rest_a_second_and_slow_down_to_a_bound(void **state)
{
	struct berth_governor *governor = *state;
	int64_t now_ns = BEGUN_NS + MS(10000);
	for (int i = 0; i < 20; i++) {
		berth_governor_too_fast(governor, ACCOUNT, 0, now_ns);
	}
	assert_true(state_of(governor).rests_until_ns == now_ns + MS(1000));
	assert_true(state_of(governor).spacing_ns == MS(250) * BERTH_GOVERNOR_SLOWER_MAX);
	berth_governor_too_fast(
		governor, ACCOUNT, INT64_MAX, now_ns); // no provider may stop the fleet for longer than a day
	assert_true(state_of(governor).rests_until_ns == now_ns + MS(24 * 60 * 60 * 1000));
}

static void a_refusal_for_what_lives_lowers_the_places_and_quiet_gives_them_back(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	places(governor, 4);
	int64_t now_ns = BEGUN_NS + MS(10000);
	assert_ok(berth_governor_lives(governor, ACCOUNT, "x", &err), err);
	assert_ok(berth_governor_lives(governor, ACCOUNT, "y", &err), err);
	ask(governor, "a", now_ns);
	assert_granted(governor, now_ns, "a");
	assert_true(berth_governor_use(governor, "a", now_ns));
	berth_governor_too_many(governor, ACCOUNT, now_ns);
	berth_governor_end(governor, "a", now_ns);
	assert_int_equal(state_of(governor).places, 2);
	ask(governor, "b", now_ns);
	assert_none(governor, now_ns + MS(BERTH_GOVERNOR_RAISE_MS) - 1);
	assert_true(berth_governor_due_ns(governor) == now_ns + MS(BERTH_GOVERNOR_RAISE_MS));
	assert_granted(governor, now_ns + MS(BERTH_GOVERNOR_RAISE_MS), "b");
	assert_none(governor, now_ns + MS(3 * BERTH_GOVERNOR_RAISE_MS));
	assert_int_equal(state_of(governor).places, 4);
	berth_governor_too_many(governor, ACCOUNT, now_ns + MS(4 * BERTH_GOVERNOR_RAISE_MS));
	assert_true(state_of(governor).places >= 1);
}

static void accounts_do_not_wait_for_each_other(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	struct berth_governor_policy policy = berth_governor_e2b(1);
	assert_ok(berth_governor_set(governor, "e2b/other", &policy, &err), err);
	assert_ok(berth_governor_lives(governor, "e2b/other", "full", &err), err);
	assert_ok(berth_governor_ask(governor, "e2b/other", "o", LONG_NS, BEGUN_NS, &err), err);
	ask(governor, "a", BEGUN_NS);
	assert_granted(governor, BEGUN_NS + MS(250), "a");
}

static void asking_again_keeps_the_place(void **state)
{
	struct berth_governor *governor = *state;
	ask(governor, "a", BEGUN_NS);
	ask(governor, "b", BEGUN_NS);
	ask(governor, "a", BEGUN_NS);
	assert_int_equal(state_of(governor).waiting, 2);
	assert_granted(governor, BEGUN_NS + MS(250), "a");
	ask(governor, "a", BEGUN_NS + MS(250));
	assert_int_equal(state_of(governor).waiting, 1);
}

static void what_is_out_of_range_is_named(void **state)
{
	struct berth_governor *governor = *state;
	struct berth_error err;
	const struct {
		struct berth_governor_policy policy;
		const char *says;
	} cases[] = {{{.dispatches = 0, .period_ms = 1, .permit_ms = 1}, "0 creates"},
		{{.dispatches = 10001, .period_ms = 1, .permit_ms = 1}, "10001 creates"},
		{{.dispatches = 1, .period_ms = 0, .permit_ms = 1}, "period of 0 ms"},
		{{.dispatches = 1, .period_ms = 86400001, .permit_ms = 1}, "period of 86400001 ms"},
		{{.dispatches = 1, .period_ms = 1, .permit_ms = 0}, "good for 0 ms"}};
	for (size_t i = 0; i < BERTH_COUNT(cases); i++) {
		assert_fails(berth_governor_set(governor, ACCOUNT, &cases[i].policy, &err), err, BERTH_ERROR_INVALID,
			cases[i].says);
	}
	assert_fails(berth_governor_ask(governor, "gke/1", "a", LONG_NS, BEGUN_NS, &err), err, BERTH_ERROR_NOT_FOUND,
		"gke/1");
	assert_fails(berth_governor_lives(governor, "gke/1", "a", &err), err, BERTH_ERROR_NOT_FOUND, "gke/1");
	assert_fails(
		berth_governor_ask(governor, ACCOUNT, "0123456789abcdef0123456789abcdef0", LONG_NS, BEGUN_NS, &err),
		err, BERTH_ERROR_INVALID, "no ticket");
}

// Whatever happens, no window of a period holds more creates than the policy allows, and no more live than have places.
static void no_window_holds_too_many_and_no_place_is_taken_twice(void **state)
{
	struct berth_governor *governor = *state;
	enum { PLACES = 7, WINDOW = 4 };
	places(governor, PLACES);
	int64_t used_ns[WINDOW] = {0}, now_ns = BEGUN_NS;
	uint32_t seed = 12345, uses = 0, live = 0, made = 0;
	char alive[PLACES][BERTH_ID_SIZE];
	for (int step = 0; step < WALK_STEPS; step++) {
		seed = seed * 1664525 + 1013904223;
		now_ns += (int64_t)(seed >> 8) * 8; // up to 134 ms
		char ticket[BERTH_ID_SIZE];
		struct berth_permit permit;
		if (seed >> 28 < 6) {
			snprintf(ticket, sizeof ticket, "t%u", made++);
			ask(governor, ticket, now_ns);
		}
		while (berth_governor_grant(governor, now_ns, &permit)) {
			assert_true(now_ns - used_ns[uses % WINDOW] >= MS(1000));
			used_ns[uses++ % WINDOW] = now_ns;
			assert_true(live < PLACES);
			if (seed >> 16 & 1 && berth_governor_use(governor, permit.ticket, now_ns)) {
				memcpy(alive[live++], permit.ticket, BERTH_ID_SIZE);
			} else if (seed >> 17 & 7) { // else it is left to expire
				berth_governor_end(governor, permit.ticket, now_ns);
			}
		}
		if (live && seed >> 28 > 11) {
			berth_governor_end(governor, alive[--live], now_ns);
		}
		assert_true(state_of(governor).taken <= PLACES && state_of(governor).taken >= live);
		if (seed % 997 == 0) {
			berth_governor_too_fast(governor, ACCOUNT, (int64_t)(seed >> 20), now_ns);
		} else if (seed % 9973 == 0) {
			berth_governor_too_many(governor, ACCOUNT, now_ns);
		}
	}
	assert_true(uses > 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(creates_are_admitted_at_exactly_250_ms_whoever_asks_and_across_a_start),
	TEST(a_pause_earns_no_burst),
	TEST(a_spacing_is_rounded_up),
	TEST(a_deadline_inside_the_spacing_spends_no_sequence),
	TEST(a_permit_that_is_used_too_late_is_void_and_its_place_in_time_is_spent),
	TEST(the_line_waits_while_all_places_are_taken),
	TEST(a_refusal_for_the_rate_rests_and_slows_the_account_until_it_is_quiet),
	TEST(refusals_without_a_time_rest_a_second_and_slow_down_to_a_bound),
	TEST(a_refusal_for_what_lives_lowers_the_places_and_quiet_gives_them_back),
	TEST(accounts_do_not_wait_for_each_other),
	TEST(asking_again_keeps_the_place),
	TEST(what_is_out_of_range_is_named),
	TEST(no_window_holds_too_many_and_no_place_is_taken_twice),
};

BERTH_TEST_MAIN(tests)
