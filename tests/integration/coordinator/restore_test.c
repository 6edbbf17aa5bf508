// SPDX-License-Identifier: Apache-2.0
// Backups and restores through the commands that operators type, on a real coordinator with its disk: what is copied,
// what is refused, and how the fleet goes on from a backup.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "berth/v1/ledger.pb-c.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/restore.h"
#include "tests/integration/coordinator/desk.h"
#include "tests/support/test.h"

struct loss { // a job of two trials: the first ended before the backup, the second was assigned after it
	char *job, *backup, *data;
	struct agent agent;
	Berth__V1__CoordinatorMessage *second;
};

static char *below(const struct desk *desk, const char *name)
{
	return berth_path_join(desk->quay->folder, name);
}

static void back_up(struct desk *desk, const char *folder)
{
	SHELL(&desk->shell, "ledger", "backup", folder);
	assert_code(desk->shell, 0);
}

// Before its agent comes: who is in session first has to acknowledge it.
static void keep_reports(struct desk *desk)
{
	struct berth_error err;
	const Berth__V1__BeginBackupRequest begin = BERTH__V1__BEGIN_BACKUP_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BeginBackupResponse *begun =
		quay_call(desk->quay->main, &berth__v1__ledger_service__descriptor, "BeginBackup", &begin, &err);
	assert_ok(begun, err);
}

static void lose(struct desk *desk, struct loss *loss)
{
	loss->backup = below(desk, "backup");
	loss->data = below(desk, "data");
	loss->job = quay_submit(desk->quay, "key", 2);
	keep_reports(desk);
	quay_join(&loss->agent, desk->quay);
	Berth__V1__CoordinatorMessage *first =
		quay_receive(&loss->agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	loss->second = quay_receive(&loss->agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	quay_finish(&loss->agent, first->assignment, QUAY_HONEST);
	berth_proto_free(first);
	back_up(desk, loss->backup);
}

// The disk dies: the data folder is gone.
static void lose_the_disk(struct desk *desk, struct loss *loss)
{
	struct berth_error err;
	quay_leave(&loss->agent);
	quay_stop(desk->quay);
	assert_ok(berth_remove_all(loss->data, &err), err);
}

static void begin_again(struct desk *desk)
{
	quay_start(desk->quay);
	desk_point_at(desk);
}

static void free_loss(struct loss *loss)
{
	berth_proto_free(loss->second);
	quay_forget(&loss->agent);
	free(loss->job);
	free(loss->backup);
	free(loss->data);
}

// What this life's Welcome says of the restore holds under the key of the enrolment.
static void assert_said(const struct desk *desk, const Berth__V1__Welcome *welcome)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(desk->credentials, "ledger.pem");
	BERTH_AUTO(berth_buf_free) struct berth_buf pem = {0};
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t der_size;
	assert_ok(berth_file_read(path, 4096, &pem, &err), err);
	assert_ok(berth_public_key_parse(berth_buf_text(&pem), path, &der, &der_size, &err), err);
	const Berth__V1__Restore *said = welcome->restore;
	assert_non_null(said);
	struct berth_restore restore = {
		.incarnation = said->incarnation, .head = {.fleet = "quay", .size = said->head->sequence}};
	memcpy(restore.head.leaf.bytes, said->head->leaf_hash.data, BERTH_DIGEST_SIZE);
	memcpy(restore.head.root.bytes, said->head->root_hash.data, BERTH_DIGEST_SIZE);
	assert_ok(berth_restore_verify(der, der_size, &restore, said->signature.data, said->signature.len, &err), err);
	assert_int_equal(said->incarnation, welcome->incarnation->number);
}

static void a_backup_is_whole_and_the_next_one_reads_only_what_is_new(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	SHELL(&desk->shell, "ledger", "verify", loss.backup);
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "ledger", "backup", loss.backup, "--output", "plain");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "\t1\t0\t"); // the bundle is there already
	SHELL(&desk->shell, "ledger", "show", "--output", "plain");
	assert_has(desk->shell.out, "\t-\n");
	BERTH_AUTO_FREE char *left = below(desk, "data/backup");
	assert_false(berth_file_exists(left));
	quay_leave(&loss.agent);
	free_loss(&loss);
}

static void agents_hear_what_a_backup_covers(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	quay_beat(&loss.agent);
	Berth__V1__CoordinatorMessage *ack =
		quay_receive(&loss.agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK);
	while (ack->heartbeat_ack->sequence < loss.agent.beats) {
		berth_proto_free(ack);
		ack = quay_receive(&loss.agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK);
	}
	assert_true(ack->heartbeat_ack->keeps_reports);
	assert_int_equal(ack->heartbeat_ack->stable_through, loss.agent.reports);
	berth_proto_free(ack);
	quay_leave(&loss.agent);
	free_loss(&loss);
}

static void the_fleet_goes_on_from_a_backup(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	const Berth__V1__Assignment *second = loss.second->assignment;
	uint64_t covered = loss.agent.reports;
	quay_move(&loss.agent, second->leases[0]->lease_id, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	// A restart in the part that is lost: the agent obeys a higher incarnation than the backup knows.
	quay_leave(&loss.agent);
	quay_stop(desk->quay);
	begin_again(desk);
	quay_join(&loss.agent, desk->quay);
	lose_the_disk(desk, &loss);
	SHELL(&desk->shell, "ledger", "restore", loss.backup, loss.data, "--reason", "the disk died");
	assert_code(desk->shell, 0);
	begin_again(desk);
	SHELL(&desk->shell, "ledger", "show", "--output", "plain");
	assert_has(desk->shell.out, "\tnorth\n");
	loss.agent.reports = covered;
	loss.agent.outbox_first = covered + 1;
	quay_join(&loss.agent, desk->quay);
	assert_said(desk, loss.agent.welcome);
	loss.agent.given = second;
	quay_finish(&loss.agent, second, QUAY_HONEST);
	loss.agent.outbox_first = 0;
	quay_beat(&loss.agent);
	assert_int_equal(quay_state_of(desk->quay, loss.job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	SHELL(&desk->shell, "ledger", "show", "--output", "plain");
	assert_has(desk->shell.out, "\t-\n");
	quay_leave(&loss.agent);
	// Once told, it is a ledger like any other.
	quay_stop(desk->quay);
	begin_again(desk);
	quay_join(&loss.agent, desk->quay);
	assert_null(loss.agent.welcome->restore);
	quay_leave(&loss.agent);
	quay_stop(desk->quay);
	SHELL(&desk->shell, "ledger", "verify", loss.data);
	assert_code(desk->shell, 0);
	begin_again(desk);
	free_loss(&loss);
}

static void nothing_is_overwritten_by_a_restore(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	quay_leave(&loss.agent);
	quay_stop(desk->quay);
	SHELL(&desk->shell, "ledger", "restore", loss.backup, loss.data, "--reason", "a slip");
	assert_code(desk->shell, 4);
	assert_has(desk->shell.err, "move it away first");
	SHELL(&desk->shell, "ledger", "verify", loss.data);
	assert_code(desk->shell, 0);
	begin_again(desk);
	free_loss(&loss);
}

static void a_restore_needs_a_reason_a_backup_and_its_signed_head(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	struct berth_error err;
	lose(desk, &loss);
	BERTH_AUTO_FREE char *fresh = below(desk, "fresh"), *head = berth_path_join(loss.backup, "head.json");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	SHELL(&desk->shell, "ledger", "restore", loss.backup, fresh);
	assert_code(desk->shell, 2);
	SHELL(&desk->shell, "ledger", "restore", desk->quay->folder, fresh, "--reason", "x");
	assert_code(desk->shell, 3);
	assert_ok(berth_file_read(head, 4096, &text, &err), err);
	char *size = strstr((char *)berth_buf_text(&text), "\"size\":");
	*strpbrk(size, "0123456789") ^= 2; // another head than was signed
	assert_ok(berth_file_write(head, text.data, text.size, 0600, &err), err);
	SHELL(&desk->shell, "ledger", "restore", loss.backup, fresh, "--reason", "x");
	assert_code(desk->shell, 8);
	assert_false(berth_file_exists(fresh));
	quay_leave(&loss.agent);
	free_loss(&loss);
}

static void a_backup_of_a_restored_ledger_needs_another_folder(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	BERTH_AUTO_FREE char *older = below(desk, "older"), *other = below(desk, "other");
	BERTH_AUTO_FREE char *copy = berth_format("cp -r '%s' '%s'", loss.backup, older);
	assert_int_equal(system(copy), 0);
	quay_move(&loss.agent, loss.second->assignment->leases[0]->lease_id, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING,
		0);
	back_up(desk, loss.backup);
	lose_the_disk(desk, &loss);
	SHELL(&desk->shell, "ledger", "restore", older, loss.data, "--reason", "the newer one was not found");
	assert_code(desk->shell, 0);
	begin_again(desk);
	SHELL(&desk->shell, "ledger", "backup", loss.backup);
	assert_code(desk->shell, 8);
	assert_has(desk->shell.err, "another folder");
	back_up(desk, other);
	free_loss(&loss);
}

static void a_backup_that_was_killed_between_its_renames_is_still_one(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	struct berth_error err;
	lose(desk, &loss);
	BERTH_AUTO_FREE char *place = berth_path_join(loss.backup, "ledger"),
			     *old = berth_path_join(loss.backup, "old");
	assert_int_equal(rename(place, old), 0); // as the killed command left it
	BERTH_AUTO_FREE char *fresh = below(desk, "fresh"), *again = below(desk, "again");
	SHELL(&desk->shell, "ledger", "restore", loss.backup, fresh, "--reason", "x");
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "ledger", "verify", fresh);
	assert_code(desk->shell, 0);
	BERTH_AUTO_FREE char *another = quay_submit(desk->quay, "another", 1);
	assert_non_null(another);
	back_up(desk, loss.backup);
	assert_false(berth_file_exists(old));
	SHELL(&desk->shell, "ledger", "restore", loss.backup, again, "--reason", "x");
	assert_code(desk->shell, 0);
	// What a killed restore left is in nobody's way, and no ledger.
	assert_ok(berth_remove_all(again, &err), err);
	BERTH_AUTO_FREE char *half = berth_path_join(again, "restoring/ledger");
	assert_ok(berth_mkdir_all(half, 0700, &err), err);
	SHELL(&desk->shell, "ledger", "restore", loss.backup, again, "--reason", "x");
	assert_code(desk->shell, 0);
	quay_leave(&loss.agent);
	free_loss(&loss);
}

static void only_operators_back_up(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	Berth__V1__BeginBackupRequest begin = BERTH__V1__BEGIN_BACKUP_REQUEST__INIT;
	assert_null(
		quay_call(desk->quay->agent_main, &berth__v1__ledger_service__descriptor, "BeginBackup", &begin, &err));
	assert_int_equal(err.code, BERTH_ERROR_DENIED);
	Berth__V1__FinishBackupRequest finish = BERTH__V1__FINISH_BACKUP_REQUEST__INIT;
	finish.backup_id = "nothing";
	assert_null(quay_call(desk->quay->main, &berth__v1__ledger_service__descriptor, "FinishBackup", &finish, &err));
	assert_int_equal(err.code, BERTH_ERROR_NOT_FOUND);
}

static void what_nothing_uses_is_named_and_may_be_given_up(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	lose(desk, &loss);
	const char *lease = loss.second->assignment->leases[0]->lease_id;
	quay_move(&loss.agent, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	SHELL(&desk->shell, "lease", "orphans", "--output", "plain");
	assert_code(desk->shell, 0);
	assert_null(strstr(desk->shell.out, lease));
	SHELL(&desk->shell, "job", "cancel", loss.job);
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "lease", "orphans", "--output", "plain");
	assert_has(desk->shell.out, lease);
	assert_has(desk->shell.out, "its job was cancelled");
	SHELL(&desk->shell, "lease", "show", lease, "--output", "json");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "LEASE_DISPATCHING");
	SHELL(&desk->shell, "lease", "show", "zzzzzz");
	assert_code(desk->shell, 3);
	SHELL(&desk->shell, "agent", "forget", "north", "--reason", "it burnt");
	assert_code(desk->shell, 4);
	assert_has(desk->shell.err, "in session");
	quay_leave(&loss.agent);
	free_loss(&loss);
}

static void what_was_given_up_with_an_agent_is_told(void **state)
{
	struct desk *desk = *state;
	struct loss loss = {0};
	quay_stop(desk->quay);
	desk->quay->hold_ms = 2000; // the least: the fencing wait counts from it
	begin_again(desk);
	lose(desk, &loss);
	const char *lease = loss.second->assignment->leases[0]->lease_id;
	quay_move(&loss.agent, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	quay_leave(&loss.agent);
	struct berth_until until = berth_within_ms(WAIT_MS, NULL);
	do { // until the fencing wait is over
		SHELL(&desk->shell, "agent", "forget", "north", "--reason", "it burnt", "--output", "json");
	} while (desk->shell.code == 4 && berth_sleep_ms(100, until, NULL));
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, lease);
	free_loss(&loss);
}

#define T(test) cmocka_unit_test_setup_teardown(test, desk_setup, desk_teardown)

static const struct CMUnitTest tests[] = {
	T(a_backup_is_whole_and_the_next_one_reads_only_what_is_new),
	T(agents_hear_what_a_backup_covers),
	T(the_fleet_goes_on_from_a_backup),
	T(nothing_is_overwritten_by_a_restore),
	T(a_restore_needs_a_reason_a_backup_and_its_signed_head),
	T(a_backup_of_a_restored_ledger_needs_another_folder),
	T(a_backup_that_was_killed_between_its_renames_is_still_one),
	T(only_operators_back_up),
	T(what_nothing_uses_is_named_and_may_be_given_up),
	T(what_was_given_up_with_an_agent_is_told),
};
BERTH_TEST_MAIN(tests)
