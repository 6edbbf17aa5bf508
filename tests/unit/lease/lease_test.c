// SPDX-License-Identifier: Apache-2.0
// The order of marks and effects under every answer of a backend, and under a disk that fails at every mark. The fake
// runner is a backend of one lease with knobs; both it and the book write into one history.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/lease.h"
#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

#define ANSWERS_MAX 8
#define LEASE       "00112233445566778899aabbccddeeff"

struct fake {
	struct berth_runner runner;
	struct berth_buf history;
	enum berth_create_outcome answers[ANSWERS_MAX];
	enum berth_error_code reasons[ANSWERS_MAX];
	int creates;
	int kills, kills_that_fail;
	bool create_had_cancel;
	struct berth_cancel *fire_in_create;
	int marks, mark_that_fails; // counted from 1; 0: none
	Berth__V1__DeathProof proof;
	char failure[BERTH_ERROR_MESSAGE_MAX];
};

static enum berth_create_outcome fake_create(struct berth_runner *runner, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	struct fake *fake = (struct fake *)runner;
	assert_string_equal(plan->lease_id, LEASE);
	berth_buf_add_text(&fake->history, "create ");
	fake->create_had_cancel = until.cancel != NULL || until.deadline_ns == BERTH_NO_DEADLINE_NS;
	if (fake->fire_in_create) {
		berth_cancel_fire(fake->fire_in_create);
	}
	enum berth_create_outcome outcome = fake->answers[fake->creates];
	if (outcome == BERTH_CREATE_CREATED) {
		created->resource_id = berth_strdup("box-1");
	} else {
		berth_fail(err, fake->reasons[fake->creates], "answer %d", fake->creates);
	}
	fake->creates++;
	return outcome;
}

static bool fake_kill(
	struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	struct fake *fake = (struct fake *)runner;
	assert_string_equal(lease_id, LEASE);
	assert_null(until.cancel);
	berth_buf_add_text(&fake->history, "kill ");
	return ++fake->kills > fake->kills_that_fail ||
	       berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the daemon is away (%d)", fake->kills);
}

static bool book_mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	struct fake *fake = context;
	static const char *const names[] = {
		"?", "creating", "DISPATCHING", "ACTIVE", "CLEANUP_FAILED", "KILL_PROVED", "RETIRED"};
	assert_string_equal(move->lease_id, LEASE);
	if (++fake->marks == fake->mark_that_fails) {
		berth_buf_add_text(&fake->history, "disk-failed ");
		return berth_fail(err, BERTH_ERROR_IO, "the disk is broken");
	}
	berth_buf_printf(&fake->history, "%s ", names[move->state]);
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_ACTIVE) {
		assert_string_equal(move->resource_id, "box-1");
	}
	fake->proof = move->proof;
	snprintf(fake->failure, sizeof fake->failure, "%s", move->failure);
	return true;
}

static struct berth_lease_driver driver_of(struct fake *fake)
{
	fake->runner.name = "fake";
	fake->runner.create = fake_create;
	fake->runner.kill = fake_kill;
	return (struct berth_lease_driver){.runner = &fake->runner, .book = {book_mark, fake}};
}

static bool create(struct fake *fake, struct berth_until until, struct berth_error *err)
{
	struct berth_lease_driver driver = driver_of(fake);
	struct berth_environment_plan plan = {.lease_id = LEASE};
	struct berth_created created = {0};
	bool good = berth_lease_create(&driver, &plan, &created, until, err);
	if (good) {
		assert_string_equal(created.resource_id, "box-1");
	} else {
		assert_null(created.resource_id);
	}
	free(created.resource_id);
	return good;
}

static void assert_history(struct fake *fake, const char *wanted)
{
	assert_string_equal(berth_buf_text(&fake->history), wanted);
	berth_buf_free(&fake->history);
}

static struct berth_until soon(void)
{
	return berth_within_ms(60 * 1000, NULL);
}

static void a_create_is_marked_before_and_after(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.answers = {BERTH_CREATE_CREATED}};
	assert_ok(create(&fake, soon(), &err), err);
	assert_false(fake.create_had_cancel);
	assert_history(&fake, "DISPATCHING create ACTIVE ");
}

static void a_refused_create_is_tried_again_where_that_can_help(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.answers = {BERTH_CREATE_REJECTED, BERTH_CREATE_NOT_DISPATCHED, BERTH_CREATE_CREATED},
		.reasons = {BERTH_ERROR_EXHAUSTED, BERTH_ERROR_UNAVAILABLE}};
	assert_ok(create(&fake, soon(), &err), err);
	assert_history(&fake, "DISPATCHING create create create ACTIVE ");
}

static void attempts_have_a_bound(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {0};
	for (int i = 0; i < ANSWERS_MAX; i++) {
		fake.answers[i] = BERTH_CREATE_NOT_DISPATCHED;
		fake.reasons[i] = BERTH_ERROR_UNAVAILABLE;
	}
	assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_UNAVAILABLE, "answer 3");
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	assert_int_equal(fake.kills, 0);
	assert_history(&fake, "DISPATCHING create create create create RETIRED ");
}

static void a_refusal_that_will_stand_is_not_tried_again(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.answers = {BERTH_CREATE_REJECTED}, .reasons = {BERTH_ERROR_INVALID}};
	assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_INVALID, "answer 0");
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__REJECTED);
	assert_history(&fake, "DISPATCHING create RETIRED ");
}

static void a_refusal_before_a_create_that_was_not_sent_is_the_proof(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.answers = {BERTH_CREATE_REJECTED, BERTH_CREATE_NOT_DISPATCHED},
		.reasons = {BERTH_ERROR_EXHAUSTED, BERTH_ERROR_IO}};
	assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_IO, "answer 1");
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__REJECTED);
	assert_history(&fake, "DISPATCHING create create RETIRED ");
}

static void after_an_ambiguous_create_nothing_is_sent_but_a_kill(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {
		.answers = {BERTH_CREATE_AMBIGUOUS, BERTH_CREATE_CREATED}, .reasons = {BERTH_ERROR_UNAVAILABLE}};
	assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_UNAVAILABLE, "answer 0");
	assert_int_equal(fake.creates, 1);
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	assert_history(&fake, "DISPATCHING create kill KILL_PROVED RETIRED ");
}

static void an_ambiguous_create_is_ended_though_its_trial_was_cancelled_meanwhile(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct fake fake = {.answers = {BERTH_CREATE_AMBIGUOUS}, .reasons = {BERTH_ERROR_IO}, .fire_in_create = cancel};
	assert_fails(create(&fake, berth_within_ms(1000, cancel), &err), err, BERTH_ERROR_IO, "answer 0");
	berth_cancel_free(cancel);
	assert_history(&fake, "DISPATCHING create kill KILL_PROVED RETIRED ");
}

static void a_cleanup_that_is_not_proven_outranks_the_failed_create(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.answers = {BERTH_CREATE_AMBIGUOUS}, .reasons = {BERTH_ERROR_IO}, .kills_that_fail = 99};
	assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_UNAVAILABLE, "its end is not proven");
	assert_non_null(strstr(err.message, "answer 0"));
	assert_non_null(strstr(fake.failure, "the daemon is away (3)"));
	assert_history(&fake, "DISPATCHING create kill kill kill CLEANUP_FAILED ");
}

static void a_cancel_ends_the_waiting_between_attempts(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct fake fake = {.answers = {BERTH_CREATE_REJECTED, BERTH_CREATE_CREATED},
		.reasons = {BERTH_ERROR_EXHAUSTED},
		.fire_in_create = cancel};
	assert_fails(create(&fake, berth_within_ms(1000, cancel), &err), err, BERTH_ERROR_EXHAUSTED, "answer 0");
	berth_cancel_free(cancel);
	assert_history(&fake, "DISPATCHING create RETIRED ");
}

static void a_cancel_does_not_abandon_a_create_in_flight(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct fake fake = {.answers = {BERTH_CREATE_CREATED}, .fire_in_create = cancel};
	assert_ok(create(&fake, berth_within_ms(1000, cancel), &err), err);
	berth_cancel_free(cancel);
	assert_history(&fake, "DISPATCHING create ACTIVE ");
}

static void a_cancel_before_the_create_sends_nothing(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	berth_cancel_fire(cancel);
	struct fake fake = {.answers = {BERTH_CREATE_CREATED}};
	assert_fails(create(&fake, berth_within_ms(1000, cancel), &err), err, BERTH_ERROR_CANCELLED, "cancelled");
	berth_cancel_free(cancel);
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	assert_history(&fake, "RETIRED ");
}

static void nothing_follows_a_mark_that_failed(void **state)
{
	(void)state;
	static const struct {
		int mark_that_fails;
		enum berth_create_outcome answer;
		const char *history;
	} rows[] = {
		{1, BERTH_CREATE_CREATED, "disk-failed "},
		{2, BERTH_CREATE_CREATED, "DISPATCHING create disk-failed "},
		{2, BERTH_CREATE_REJECTED, "DISPATCHING create disk-failed "},
		{2, BERTH_CREATE_AMBIGUOUS, "DISPATCHING create kill disk-failed "},
		{3, BERTH_CREATE_AMBIGUOUS, "DISPATCHING create kill KILL_PROVED disk-failed "},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err = {0};
		struct fake fake = {.answers = {rows[i].answer},
			.reasons = {BERTH_ERROR_INVALID},
			.mark_that_fails = rows[i].mark_that_fails};
		assert_fails(create(&fake, soon(), &err), err, BERTH_ERROR_IO, "the disk is broken");
		assert_history(&fake, rows[i].history);
	}
}

static void a_retire_proves_then_marks(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.kills_that_fail = 2};
	struct berth_lease_driver driver = driver_of(&fake);
	assert_ok(berth_lease_retire(&driver, LEASE, soon(), &err), err);
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	assert_history(&fake, "kill kill kill KILL_PROVED RETIRED ");
}

static void a_retire_is_not_stopped_by_a_cancel(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	berth_cancel_fire(cancel);
	struct fake fake = {.kills_that_fail = 1};
	struct berth_lease_driver driver = driver_of(&fake);
	assert_ok(berth_lease_retire(&driver, LEASE, berth_within_ms(10 * 1000, cancel), &err), err);
	berth_cancel_free(cancel);
	assert_history(&fake, "kill kill KILL_PROVED RETIRED ");
}

static void a_failed_retire_can_be_tried_again_later(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.kills_that_fail = 3};
	struct berth_lease_driver driver = driver_of(&fake);
	assert_fails(berth_lease_retire(&driver, LEASE, soon(), &err), err, BERTH_ERROR_UNAVAILABLE, LEASE);
	assert_ok(berth_lease_retire(&driver, LEASE, soon(), &err), err);
	assert_history(&fake, "kill kill kill CLEANUP_FAILED kill KILL_PROVED RETIRED ");
}

static void nothing_follows_a_mark_that_failed_while_retiring(void **state)
{
	(void)state;
	static const struct {
		int mark_that_fails, kills_that_fail;
		const char *history;
	} rows[] = {
		{1, 0, "kill disk-failed "},
		{2, 0, "kill KILL_PROVED disk-failed "},
		{1, 99, "kill kill kill disk-failed "},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err = {0};
		struct fake fake = {
			.mark_that_fails = rows[i].mark_that_fails, .kills_that_fail = rows[i].kills_that_fail};
		struct berth_lease_driver driver = driver_of(&fake);
		assert_fails(berth_lease_retire(&driver, LEASE, soon(), &err), err, BERTH_ERROR_IO, LEASE);
		assert_history(&fake, rows[i].history);
	}
}

static void h3_a_cleanup_failure_that_cannot_be_written_holds_up_no_later_retire(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {.kills_that_fail = 3, .mark_that_fails = 1};
	struct berth_lease_driver driver = driver_of(&fake);
	assert_fails(berth_lease_retire(&driver, LEASE, soon(), &err), err, BERTH_ERROR_IO, LEASE);
	assert_ok(berth_lease_retire(&driver, LEASE, soon(), &err), err);
	assert_history(&fake, "kill kill kill disk-failed kill KILL_PROVED RETIRED ");
}

static void a_dropped_lease_was_never_dispatched(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct fake fake = {0};
	struct berth_lease_driver driver = driver_of(&fake);
	assert_ok(berth_lease_drop(&driver, LEASE, &err), err);
	assert_int_equal(fake.proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	assert_history(&fake, "RETIRED ");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_create_is_marked_before_and_after),
	cmocka_unit_test(a_refused_create_is_tried_again_where_that_can_help),
	cmocka_unit_test(attempts_have_a_bound),
	cmocka_unit_test(a_refusal_that_will_stand_is_not_tried_again),
	cmocka_unit_test(a_refusal_before_a_create_that_was_not_sent_is_the_proof),
	cmocka_unit_test(after_an_ambiguous_create_nothing_is_sent_but_a_kill),
	cmocka_unit_test(an_ambiguous_create_is_ended_though_its_trial_was_cancelled_meanwhile),
	cmocka_unit_test(a_cleanup_that_is_not_proven_outranks_the_failed_create),
	cmocka_unit_test(a_cancel_ends_the_waiting_between_attempts),
	cmocka_unit_test(a_cancel_does_not_abandon_a_create_in_flight),
	cmocka_unit_test(a_cancel_before_the_create_sends_nothing),
	cmocka_unit_test(nothing_follows_a_mark_that_failed),
	cmocka_unit_test(a_retire_proves_then_marks),
	cmocka_unit_test(a_retire_is_not_stopped_by_a_cancel),
	cmocka_unit_test(a_failed_retire_can_be_tried_again_later),
	cmocka_unit_test(nothing_follows_a_mark_that_failed_while_retiring),
	cmocka_unit_test(h3_a_cleanup_failure_that_cannot_be_written_holds_up_no_later_retire),
	cmocka_unit_test(a_dropped_lease_was_never_dispatched),
};
BERTH_TEST_MAIN(tests)
