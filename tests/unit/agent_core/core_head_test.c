// SPDX-License-Identifier: Apache-2.0
// Signed heads (promise P5): which ledgers an agent that was given the ledger's key follows, and which it leaves.
#include <stdlib.h>
#include <string.h>

#include "agent/core/core.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/head.h"
#include "common/evidence/incarnation.h"
#include "common/evidence/merkle.h"
#include "common/evidence/restore.h"
#include "tests/support/key.h"
#include "tests/support/test.h"

#define FLEET      "quay"
#define EVENTS_MAX 40
#define PROOF_MAX  (BERTH_MERKLE_LEVELS + 1)

struct ledger { // as a coordinator would have it
	struct berth_digest leaves[EVENTS_MAX];
};

struct fixture {
	struct ledger true_one;
	struct test_key key, other_key;
	struct berth_agent_core *core;
	struct berth_agent_actions actions; // of the last call
	Berth__Store__V1__Obeyed *saved;    // the newest
};

static void open_core(struct fixture *fixture, bool with_key)
{
	const struct berth_agent_core_config config = {.fleet = FLEET,
		.boot_id = "000000000000000200000000000000aa",
		.daemon_id = "daemon",
		.platform = "linux/amd64",
		.version = "1",
		.capacity = BERTH__V1__CAPACITY__INIT,
		.ledger_key_der = with_key ? fixture->key.der : NULL,
		.ledger_key_size = with_key ? fixture->key.der_size : 0};
	berth_agent_core_free(fixture->core);
	fixture->core = berth_agent_core_new(&config, fixture->saved);
}

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	for (uint64_t i = 0; i < EVENTS_MAX; i++) {
		fixture->true_one.leaves[i] = berth_merkle_leaf(&i, sizeof i);
	}
	fixture->key = test_key_make();
	fixture->other_key = test_key_make();
	open_core(fixture, true);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	berth_agent_actions_clear(&fixture->actions);
	berth_agent_core_free(fixture->core);
	berth_proto_free(fixture->saved);
	test_key_clear(&fixture->key);
	test_key_clear(&fixture->other_key);
	free(fixture);
	return 0;
}

static bool node_of(void *context, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err)
{
	(void)err;
	const struct ledger *ledger = context;
	struct berth_merkle tree = {0};
	for (uint64_t i = start; i < start + (UINT64_C(1) << level); i++) {
		berth_merkle_add(&tree, &ledger->leaves[i]);
	}
	*node = berth_merkle_root(&tree);
	return true;
}

static struct berth_digest root_of(const struct ledger *ledger, uint64_t size)
{
	struct berth_merkle tree = {0};
	for (uint64_t i = 0; i < size; i++) {
		berth_merkle_add(&tree, &ledger->leaves[i]);
	}
	return berth_merkle_root(&tree);
}

struct spoken { // what the coordinator says of its ledger
	const struct ledger *ledger;
	uint64_t size;
	const struct berth_signing_key *key; // NULL: the head is not signed
	bool bare;                           // nor has it a root
	const char *fleet;                   // that is signed; NULL: FLEET
	struct berth_digest *root;           // NULL: that of the ledger
	bool without_proof;
	uint64_t number;                             // of its incarnation; 0: 1
	uint64_t backup;                             // that it says to go on from; 0: none
	uint64_t since;                              // the incarnation that first did; 0: `number`
	const struct berth_signing_key *restore_key; // that signs that; NULL: `key`
	const struct ledger *backup_of;              // whose root is named; NULL: `ledger`
	const struct berth_signing_key *number_key;  // that signs the incarnation; NULL: the ledger's
	bool unsigned_number;
};

struct head {
	Berth__V1__LedgerHead message;
	struct berth_digest leaf, root;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};

static void fill_head(struct head *head, const struct spoken *spoken)
{
	struct berth_error err;
	berth__v1__ledger_head__init(&head->message);
	head->leaf = spoken->ledger->leaves[spoken->size - 1];
	head->root = spoken->root ? *spoken->root : root_of(spoken->ledger, spoken->size);
	head->message.sequence = spoken->size;
	head->message.leaf_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, head->leaf.bytes};
	if (!spoken->bare) {
		head->message.root_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, head->root.bytes};
	}
	if (spoken->key) {
		const struct berth_head text = {.fleet = spoken->fleet ? spoken->fleet : FLEET,
			.size = spoken->size,
			.leaf = head->leaf,
			.root = head->root};
		assert_ok(berth_head_sign(spoken->key, &text, head->signature, &err), err);
		head->message.signature = (ProtobufCBinaryData){sizeof head->signature, head->signature};
	}
}

static void receive(struct fixture *fixture, const Berth__V1__CoordinatorMessage *message)
{
	berth_agent_actions_clear(&fixture->actions);
	berth_agent_core_message(fixture->core, message, BERTH_NS_PER_S, &fixture->actions);
	for (size_t i = 0; i < fixture->actions.count; i++) {
		if (fixture->actions.items[i].kind == BERTH_AGENT_SAVE_OBEYED) {
			berth_proto_free(fixture->saved);
			fixture->saved = berth_proto_clone(fixture->actions.items[i].obeyed);
		}
	}
}

struct restored {
	Berth__V1__Restore message;
	Berth__V1__LedgerHead head;
	struct berth_digest root;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};

static void fill_restored(struct restored *restored, const struct spoken *spoken)
{
	struct berth_error err;
	const struct ledger *of = spoken->backup_of ? spoken->backup_of : spoken->ledger;
	const struct berth_restore text = {.incarnation = spoken->since ? spoken->since : spoken->number,
		.head = {.fleet = FLEET,
			.size = spoken->backup,
			.leaf = of->leaves[spoken->backup - 1],
			.root = root_of(of, spoken->backup)}};
	berth__v1__restore__init(&restored->message);
	berth__v1__ledger_head__init(&restored->head);
	restored->root = text.head.root;
	restored->head.sequence = spoken->backup;
	restored->head.leaf_hash =
		(ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)of->leaves[spoken->backup - 1].bytes};
	restored->head.root_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, restored->root.bytes};
	restored->message.head = &restored->head;
	restored->message.incarnation = text.incarnation;
	assert_ok(berth_restore_sign(
			  spoken->restore_key ? spoken->restore_key : spoken->key, &text, restored->signature, &err),
		err);
	restored->message.signature = (ProtobufCBinaryData){BERTH_SIGNATURE_SIZE, restored->signature};
}

// The agent comes anew, and the coordinator says this.
static void welcome(struct fixture *fixture, const struct spoken *spoken)
{
	static uint8_t nonce[16] = {7};
	berth_agent_core_stream_down(fixture->core, 0, &fixture->actions);
	berth_agent_actions_clear(&fixture->actions);
	berth_agent_core_stream_up(fixture->core, 0, &fixture->actions);
	assert_int_equal(fixture->actions.items[0].message->body_case, BERTH__V1__AGENT_MESSAGE__BODY_HELLO);
	uint64_t seen = fixture->actions.items[0].message->hello->seen->sequence;
	uint64_t first = spoken->backup ? spoken->backup : seen;
	struct head head;
	fill_head(&head, spoken);
	struct berth_digest proof[PROOF_MAX];
	ProtobufCBinaryData items[PROOF_MAX];
	size_t count = 0;
	struct berth_error err;
	if (first && first <= spoken->size && !spoken->without_proof) {
		assert_ok(berth_merkle_consistency(
				  first, spoken->size, node_of, (void *)spoken->ledger, proof, &count, &err),
			err);
	}
	for (size_t i = 0; i < count; i++) {
		items[i] = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, proof[i].bytes};
	}
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	Berth__V1__Welcome body = BERTH__V1__WELCOME__INIT;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	struct restored restored;
	if (spoken->backup) {
		fill_restored(&restored, spoken);
		body.restore = &restored.message;
	}
	incarnation.number = spoken->number ? spoken->number : 1;
	incarnation.nonce = (ProtobufCBinaryData){sizeof nonce, nonce};
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	const struct berth_incarnation name = {.fleet = FLEET, .number = incarnation.number, .nonce = nonce};
	assert_ok(berth_incarnation_sign(
			  spoken->number_key ? spoken->number_key : fixture->key.own, &name, signature, &err),
		err);
	if (!spoken->unsigned_number) {
		incarnation.signature = (ProtobufCBinaryData){sizeof signature, signature};
	}
	body.protocol = 1;
	body.incarnation = &incarnation;
	body.head = &head.message;
	body.fleet = (char *)FLEET;
	body.hold_ms = 10000;
	body.heartbeat_ms = 1000;
	body.consistency = items;
	body.n_consistency = count;
	if (seen) {
		body.seen_leaf_hash =
			(ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)spoken->ledger->leaves[seen - 1].bytes};
	}
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME;
	message.welcome = &body;
	receive(fixture, &message);
}

static void acknowledge(struct fixture *fixture, const struct spoken *spoken)
{
	struct head head;
	fill_head(&head, spoken);
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	ack.sequence = 1;
	ack.head = &head.message;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	receive(fixture, &message);
}

static void assert_obeys(const struct fixture *fixture)
{
	assert_true(berth_agent_core_in_session(fixture->core));
}

static void assert_left(const struct fixture *fixture, const char *part)
{
	assert_false(berth_agent_core_in_session(fixture->core));
	for (size_t i = 0; i < fixture->actions.count; i++) {
		if (fixture->actions.items[i].kind == BERTH_AGENT_CLOSE) {
			if (!strstr(fixture->actions.items[i].reason, part)) {
				fail_msg("wanted \"%s\", got: %s", part, fixture->actions.items[i].reason);
			}
			return;
		}
	}
	fail_msg("the stream was not ended");
}

#define HONEST(fixture, n)                                                                                             \
	&(struct spoken)                                                                                               \
	{                                                                                                              \
		.ledger = &(fixture)->true_one, .size = (n), .key = (fixture)->key.own                                 \
	}

static void a_signed_ledger_that_grows_is_followed_over_every_size(void **state)
{
	struct fixture *fixture = *state;
	for (uint64_t size = 1; size <= EVENTS_MAX; size++) {
		welcome(fixture, HONEST(fixture, size));
		assert_obeys(fixture);
		uint64_t later = size + size % 3 < EVENTS_MAX ? size + size % 3 : EVENTS_MAX;
		acknowledge(fixture, HONEST(fixture, later));
		assert_obeys(fixture);
		size = later;
	}
}

static void the_newest_signed_head_is_kept_and_told_after_a_restart(void **state)
{
	struct fixture *fixture = *state;
	struct head wanted;
	fill_head(&wanted, HONEST(fixture, 7));
	welcome(fixture, HONEST(fixture, 7));
	assert_int_equal(fixture->saved->seen->signature.len, BERTH_SIGNATURE_SIZE);
	assert_memory_equal(fixture->saved->seen->signature.data, wanted.signature, BERTH_SIGNATURE_SIZE);
	assert_memory_equal(fixture->saved->seen->root_hash.data, wanted.root.bytes, BERTH_DIGEST_SIZE);
	open_core(fixture, true);
	berth_agent_actions_clear(&fixture->actions);
	berth_agent_core_stream_up(fixture->core, 0, &fixture->actions);
	const Berth__V1__LedgerHead *seen = fixture->actions.items[0].message->hello->seen;
	assert_int_equal(seen->sequence, 7);
	assert_memory_equal(seen->root_hash.data, wanted.root.bytes, BERTH_DIGEST_SIZE);
	assert_memory_equal(seen->signature.data, wanted.signature, BERTH_SIGNATURE_SIZE);
}

static void an_incarnation_that_the_ledgers_key_did_not_sign_is_not_obeyed(void **state)
{
	struct fixture *fixture = *state;
	struct spoken spoken = *HONEST(fixture, 5);
	spoken.unsigned_number = true;
	welcome(fixture, &spoken);
	assert_left(fixture, "incarnation 1 is not signed");
	spoken = *HONEST(fixture, 5);
	spoken.number_key = fixture->other_key.own;
	welcome(fixture, &spoken);
	assert_left(fixture, "ledger.pem");
	welcome(fixture, HONEST(fixture, 5));
	assert_obeys(fixture);
	spoken.number = 2;
	welcome(fixture, &spoken);
	assert_left(fixture, "incarnation 2 is not signed");
}

static void the_signature_of_who_is_obeyed_is_kept_and_handed_on(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	welcome(fixture, HONEST(fixture, 5));
	open_core(fixture, true);
	berth_agent_actions_clear(&fixture->actions);
	berth_agent_core_stream_up(fixture->core, 0, &fixture->actions);
	const Berth__V1__Incarnation *obeyed = fixture->actions.items[0].message->hello->obeyed;
	const struct berth_incarnation name = {.fleet = FLEET, .number = 1, .nonce = obeyed->nonce.data};
	assert_ok(berth_incarnation_verify(fixture->key.der, fixture->key.der_size, &name, obeyed->signature.data,
			  obeyed->signature.len, &err),
		err);
}

static void a_head_without_a_signature_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct spoken spoken = {.ledger = &fixture->true_one, .size = 5};
	welcome(fixture, &spoken);
	assert_left(fixture, "head 5 is not signed");
	spoken.bare = true;
	welcome(fixture, &spoken);
	assert_left(fixture, "head 5 is not signed");
}

static void another_key_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct spoken spoken = {.ledger = &fixture->true_one, .size = 5, .key = fixture->other_key.own};
	welcome(fixture, &spoken);
	assert_left(fixture, "ledger.pem");
	welcome(fixture, HONEST(fixture, 5));
	assert_obeys(fixture);
	spoken.size = 6;
	acknowledge(fixture, &spoken);
	assert_left(fixture, "head 6 is not signed with the ledger key");
}

static void a_signature_over_another_fleet_root_or_size_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct spoken spoken = *HONEST(fixture, 5);
	spoken.fleet = "wharf";
	welcome(fixture, &spoken);
	assert_left(fixture, "not signed with the ledger key");
	// A true signature, moved to another head.
	struct head moved;
	fill_head(&moved, HONEST(fixture, 5));
	welcome(fixture, HONEST(fixture, 4));
	assert_obeys(fixture);
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	moved.message.sequence = 6;
	ack.head = &moved.message;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	receive(fixture, &message);
	assert_left(fixture, "head 6 is not signed with the ledger key");
}

static void a_ledger_that_shrank_is_refused_although_it_is_signed(void **state)
{
	struct fixture *fixture = *state;
	welcome(fixture, HONEST(fixture, 9));
	assert_obeys(fixture);
	acknowledge(fixture, HONEST(fixture, 8));
	assert_left(fixture, "truncated");
	welcome(fixture, HONEST(fixture, 8));
	assert_left(fixture, "ends at event 8");
}

static void a_fork_with_the_same_last_event_is_told_by_its_root(void **state)
{
	struct fixture *fixture = *state;
	struct ledger forked = fixture->true_one;
	forked.leaves[2].bytes[0] ^= 1;
	struct spoken spoken = {.ledger = &forked, .size = 9, .key = fixture->key.own};
	welcome(fixture, HONEST(fixture, 9));
	assert_obeys(fixture);
	acknowledge(fixture, &spoken);
	assert_left(fixture, "forked");
}

static void an_event_edited_before_what_was_seen_breaks_the_consistency_proof(void **state)
{
	struct fixture *fixture = *state;
	for (size_t edited = 0; edited < 9; edited++) {
		struct ledger forked = fixture->true_one;
		forked.leaves[edited].bytes[0] ^= 1;
		struct spoken spoken = {.ledger = &forked, .size = 20, .key = fixture->key.own};
		welcome(fixture, HONEST(fixture, 10)); // the tenth event is the same in both
		assert_obeys(fixture);
		welcome(fixture, &spoken);
		assert_left(fixture, "does not continue");
	}
}

static void a_missing_proof_is_refused(void **state)
{
	struct fixture *fixture = *state;
	welcome(fixture, HONEST(fixture, 10));
	struct spoken spoken = *HONEST(fixture, 13);
	spoken.without_proof = true;
	welcome(fixture, &spoken);
	assert_left(fixture, "does not continue");
}

static void an_agent_without_the_key_still_checks_consistency(void **state)
{
	struct fixture *fixture = *state;
	open_core(fixture, false);
	struct ledger forked = fixture->true_one;
	forked.leaves[2].bytes[0] ^= 1;
	struct spoken spoken = {.ledger = &fixture->true_one, .size = 10}, fork = {.ledger = &forked, .size = 12};
	welcome(fixture, &spoken);
	assert_obeys(fixture);
	welcome(fixture, &fork);
	assert_left(fixture, "does not continue");
}

// --- restores ---

// The agent has seen event 20 of a ledger; what follows event 10 is lost, and another 15 follow it.
static struct spoken lose_a_tail(struct fixture *fixture, struct ledger *restored)
{
	*restored = fixture->true_one;
	for (size_t i = 10; i < EVENTS_MAX; i++) {
		restored->leaves[i].bytes[0] ^= 1;
	}
	welcome(fixture, HONEST(fixture, 20));
	assert_obeys(fixture);
	return (struct spoken){.ledger = restored, .size = 25, .key = fixture->key.own, .number = 2, .backup = 10};
}

static void a_restore_that_the_ledgers_key_signed_is_followed(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored;
	struct spoken spoken = lose_a_tail(fixture, &restored);
	spoken.backup = 0;
	welcome(fixture, &spoken);
	assert_left(fixture, "does not hold event 20");
	spoken.backup = 10;
	spoken.size = 12; // fewer than were seen
	welcome(fixture, &spoken);
	assert_obeys(fixture);
	bool said = false;
	for (size_t i = 0; i < fixture->actions.count; i++) {
		said |= fixture->actions.items[i].kind == BERTH_AGENT_RESTORED;
	}
	assert_true(said);
	assert_int_equal(fixture->saved->seen->sequence, 12);
	assert_int_equal(fixture->saved->incarnation->number, 2);
	spoken.backup = 0; // from here on it must continue like any other
	spoken.size = 30;
	welcome(fixture, &spoken);
	assert_obeys(fixture);
	struct spoken lost = *HONEST(fixture, 40);
	lost.number = 3;
	welcome(fixture, &lost);
	assert_left(fixture, "does not hold event 30");
}

static void a_restore_signed_by_another_key_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored;
	struct spoken spoken = lose_a_tail(fixture, &restored);
	spoken.restore_key = fixture->other_key.own;
	welcome(fixture, &spoken);
	assert_left(fixture, "its restore from event 10 is not signed");
}

static void a_restore_must_continue_the_backup_that_it_names(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored, other;
	struct spoken spoken = lose_a_tail(fixture, &restored);
	other = restored;
	other.leaves[3].bytes[0] ^= 1;
	spoken.backup_of = &other;
	welcome(fixture, &spoken);
	assert_left(fixture, "does not continue the backup of 10 events");
}

static void a_restore_is_accepted_once(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored, again = fixture->true_one;
	struct spoken spoken = lose_a_tail(fixture, &restored);
	welcome(fixture, &spoken);
	assert_obeys(fixture);
	// Another fork from the same backup, in the name of the same restore.
	again.leaves[11].bytes[0] ^= 3;
	spoken.ledger = &again;
	spoken.number = 3;
	spoken.since = 2;
	welcome(fixture, &spoken);
	assert_left(fixture, "does not hold event 25");
}

static void a_restore_of_an_incarnation_that_was_passed_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored;
	struct spoken spoken = lose_a_tail(fixture, &restored), passed = *HONEST(fixture, 20);
	passed.number = 5;
	welcome(fixture, &passed);
	assert_obeys(fixture);
	welcome(fixture, &spoken);
	assert_left(fixture, "older than 5");
	spoken.number = 6; // says nothing that the agent had not outlived
	spoken.since = 5;
	welcome(fixture, &spoken);
	assert_left(fixture, "does not hold event 20");
}

static void an_agent_without_the_key_follows_no_restore(void **state)
{
	struct fixture *fixture = *state;
	struct ledger restored;
	struct spoken spoken = lose_a_tail(fixture, &restored);
	open_core(fixture, false);
	welcome(fixture, &spoken);
	assert_left(fixture, "enroll it again");
}

#define WITH_CORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_CORE(a_signed_ledger_that_grows_is_followed_over_every_size),
	WITH_CORE(the_newest_signed_head_is_kept_and_told_after_a_restart),
	WITH_CORE(an_incarnation_that_the_ledgers_key_did_not_sign_is_not_obeyed),
	WITH_CORE(the_signature_of_who_is_obeyed_is_kept_and_handed_on),
	WITH_CORE(a_head_without_a_signature_is_refused),
	WITH_CORE(another_key_is_refused),
	WITH_CORE(a_signature_over_another_fleet_root_or_size_is_refused),
	WITH_CORE(a_ledger_that_shrank_is_refused_although_it_is_signed),
	WITH_CORE(a_fork_with_the_same_last_event_is_told_by_its_root),
	WITH_CORE(an_event_edited_before_what_was_seen_breaks_the_consistency_proof),
	WITH_CORE(a_missing_proof_is_refused),
	WITH_CORE(an_agent_without_the_key_still_checks_consistency),
	WITH_CORE(a_restore_that_the_ledgers_key_signed_is_followed),
	WITH_CORE(a_restore_signed_by_another_key_is_refused),
	WITH_CORE(a_restore_must_continue_the_backup_that_it_names),
	WITH_CORE(a_restore_is_accepted_once),
	WITH_CORE(a_restore_of_an_incarnation_that_was_passed_is_refused),
	WITH_CORE(an_agent_without_the_key_follows_no_restore),
};
BERTH_TEST_MAIN(tests)
