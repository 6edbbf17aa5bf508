// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/session/outgoing.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"

#define AT_NS (50 * BERTH_NS_PER_S)

static int setup(void **state)
{
	struct outgoing *outgoing = berth_alloc(sizeof *outgoing);
	outgoing_init(outgoing);
	*state = outgoing;
	return 0;
}

static int teardown(void **state)
{
	outgoing_clear(*state);
	free(*state);
	return 0;
}

static Berth__V1__AgentMessage *message_of(Berth__V1__AgentMessage__BodyCase body)
{
	Berth__V1__AgentMessage *message = berth_alloc(sizeof *message);
	berth__v1__agent_message__init(message);
	message->body_case = body;
	return message;
}

static Berth__V1__AgentMessage *progress(uint32_t index, const char *phase)
{
	Berth__V1__AgentMessage *message = message_of(BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS);
	message->progress = berth_alloc(sizeof *message->progress);
	berth__v1__progress__init(message->progress);
	message->progress->trial = berth_alloc(sizeof *message->progress->trial);
	berth__v1__trial_key__init(message->progress->trial);
	berth_proto_set_string(&message->progress->trial->job_id, "job");
	message->progress->trial->index = index;
	berth_proto_set_string(&message->progress->phase, phase);
	return message;
}

static Berth__V1__AgentMessage *report(Berth__V1__Report__BodyCase body, size_t size)
{
	Berth__V1__AgentMessage *message = message_of(BERTH__V1__AGENT_MESSAGE__BODY_REPORT);
	message->report = berth_alloc(sizeof *message->report);
	berth__v1__report__init(message->report);
	message->report->body_case = body;
	BERTH_AUTO_FREE char *filler = berth_alloc(size + 1);
	memset(filler, 'x', size);
	if (body == BERTH__V1__REPORT__BODY_LEASE) {
		message->report->lease = berth_alloc(sizeof *message->report->lease);
		berth__v1__lease_move__init(message->report->lease);
		berth_proto_set_string(&message->report->lease->failure, filler);
	} else {
		message->report->done = berth_alloc(sizeof *message->report->done);
		berth__v1__trial_done__init(message->report->done);
	}
	return message;
}

#define WAITS_UNTIL_NS (AT_NS + OUTGOING_WAIT_MS * BERTH_NS_PER_MS)

static void a_heartbeat_leaves_at_once_and_takes_what_waits_along(void **state)
{
	struct outgoing *outgoing = *state;
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_DONE, 0), AT_NS);
	assert_false(outgoing_leaves(outgoing, 2, AT_NS + 1));
	outgoing_add(outgoing, message_of(BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT), AT_NS + 1);
	assert_true(outgoing_leaves(outgoing, 2, AT_NS + 1));
	assert_int_equal(outgoing->batch.n_messages, 2);
}

static void a_result_waits_for_the_acknowledgement_of_reports_that_are_on_their_way(void **state)
{
	struct outgoing *outgoing = *state;
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_LEASE, 0), AT_NS);
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_DONE, 0), AT_NS);
	assert_false(outgoing_leaves(outgoing, 3, AT_NS)); // these two and one that was sent
	assert_true(outgoing_leaves(outgoing, 2, AT_NS));
	assert_false(outgoing_leaves(outgoing, 3, WAITS_UNTIL_NS - 1));
	assert_true(outgoing_leaves(outgoing, 3, WAITS_UNTIL_NS)); // and no longer than anything else
	outgoing_clear(outgoing);
	assert_false(outgoing_leaves(outgoing, 0, WAITS_UNTIL_NS));
}

static void a_result_leaves_at_once_and_takes_what_waits_along_in_its_order(void **state)
{
	struct outgoing *outgoing = *state;
	assert_true(outgoing->due_ns == INT64_MAX);
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_LEASE, 0), AT_NS);
	assert_true(outgoing->due_ns == WAITS_UNTIL_NS);
	assert_false(outgoing_leaves(outgoing, 1, AT_NS));
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_DONE, 0), AT_NS + 1);
	assert_true(outgoing_leaves(outgoing, 2, AT_NS + 1));
	assert_int_equal(outgoing->batch.n_messages, 2);
	assert_int_equal(outgoing->batch.messages[0]->report->body_case, BERTH__V1__REPORT__BODY_LEASE);
	outgoing_clear(outgoing);
	assert_true(outgoing->due_ns == INT64_MAX);
}

static void the_oldest_that_waits_decides_when_all_leave(void **state)
{
	struct outgoing *outgoing = *state;
	outgoing_add(outgoing, progress(1, "agent"), AT_NS);
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_LEASE, 0), AT_NS + BERTH_NS_PER_MS);
	outgoing_add(outgoing, report(BERTH__V1__REPORT__BODY_LEASE, 0), AT_NS + 2 * BERTH_NS_PER_MS);
	assert_true(outgoing->due_ns == WAITS_UNTIL_NS);
}

static void a_trials_newer_progress_replaces_its_older_and_no_other(void **state)
{
	struct outgoing *outgoing = *state;
	outgoing_add(outgoing, progress(1, "build"), AT_NS);
	outgoing_add(outgoing, progress(2, "build"), AT_NS);
	outgoing_add(outgoing, progress(1, "agent"), AT_NS);
	assert_int_equal(outgoing->batch.n_messages, 2);
	assert_int_equal(outgoing->batch.messages[0]->progress->trial->index, 2);
	assert_string_equal(outgoing->batch.messages[1]->progress->phase, "agent");
	size_t size = berth__v1__agent_message__get_packed_size(outgoing->batch.messages[0]) +
	              berth__v1__agent_message__get_packed_size(outgoing->batch.messages[1]);
	assert_int_equal(outgoing->size, size);
}

static void a_batch_is_bounded_in_messages_and_in_bytes(void **state)
{
	struct outgoing *outgoing = *state;
	Berth__V1__AgentMessage *large = report(BERTH__V1__REPORT__BODY_LEASE, OUTGOING_SIZE_MAX);
	assert_false(outgoing_is_full(outgoing, large)); // alone it has its place
	for (uint32_t i = 0; i < OUTGOING_MESSAGES_MAX; i++) {
		Berth__V1__AgentMessage *next = progress(i, "agent");
		assert_false(outgoing_is_full(outgoing, next));
		outgoing_add(outgoing, next, AT_NS);
		assert_true(outgoing_is_full(outgoing, large));
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__AgentMessage *small = progress(0, "agent");
	assert_true(outgoing_is_full(outgoing, small));
	berth_proto_free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_result_leaves_at_once_and_takes_what_waits_along_in_its_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_heartbeat_leaves_at_once_and_takes_what_waits_along, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_result_waits_for_the_acknowledgement_of_reports_that_are_on_their_way, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_that_waits_decides_when_all_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_trials_newer_progress_replaces_its_older_and_no_other, setup, teardown),
		cmocka_unit_test_setup_teardown(a_batch_is_bounded_in_messages_and_in_bytes, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
