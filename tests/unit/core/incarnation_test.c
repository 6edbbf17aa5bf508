// SPDX-License-Identifier: Apache-2.0
// Who may make a coordinator believe that another life of it runs (promise P7): only one whom the ledger's key has
// named.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/incarnation.h"
#include "tests/support/key.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS 5000
#define NUMBER  2 // of the coordinator, after its restart
#define NONCE   "another-nonce-16"

struct fixture {
	struct test_fleet *fleet;
	struct test_key key, other_key;
};

static int setup(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->key = test_key_make();
	fixture->other_key = test_key_make();
	fixture->fleet = test_fleet_new(HOLD_MS);
	test_enroll(fixture->fleet, "north");
	fixture->fleet->config.ledger_key_der = fixture->key.der;
	fixture->fleet->config.ledger_key_size = fixture->key.der_size;
	test_restart(fixture->fleet); // with the key
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	test_fleet_free(fixture->fleet);
	test_key_clear(&fixture->key);
	test_key_clear(&fixture->other_key);
	free(fixture);
	return 0;
}

struct claim {
	uint64_t number;
	const struct berth_signing_key *key; // NULL: none
	const char *fleet;                   // that was signed; NULL: its own
};

static void claim(struct fixture *fixture, struct claim claim)
{
	Berth__V1__Hello message = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Incarnation obeyed = BERTH__V1__INCARNATION__INIT;
	const struct berth_incarnation name = {
		.fleet = claim.fleet ? claim.fleet : "quay", .number = claim.number, .nonce = (const uint8_t *)NONCE};
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	if (claim.key) {
		assert_ok(berth_incarnation_sign(claim.key, &name, signature, &err), err);
		obeyed.signature = (ProtobufCBinaryData){sizeof signature, signature};
	}
	range.least = range.most = 1;
	obeyed.number = claim.number;
	obeyed.nonce = (ProtobufCBinaryData){BERTH_INCARNATION_NONCE_SIZE, (uint8_t *)NONCE};
	message.protocol = &range;
	message.boot_id = (char *)BOOT_A;
	message.obeyed = &obeyed;
	test_decide(fixture->fleet, (struct berth_command){.kind = BERTH_COMMAND_HELLO,
					    .actor = "agent/north",
					    .agent = "north",
					    .session = 5,
					    .hello = &message,
					    .seen_held = true});
}

static void assert_serves(struct fixture *fixture)
{
	assert_int_equal(test_effects(fixture->fleet, BERTH_EFFECT_STOP_SERVING), 0);
	BERTH_AUTO_FREE const char *job = test_submit(fixture->fleet, "still", 1, 1);
	assert_int_equal(fixture->fleet->outcome.error.code, BERTH_ERROR_OK);
}

static void a_claim_that_the_ledgers_key_did_not_sign_stops_nobody(void **state)
{
	struct fixture *fixture = *state;
	const struct claim claims[] = {
		{.number = NUMBER + 1},
		{.number = NUMBER},
		{.number = UINT64_MAX, .key = fixture->key.own},
		{.number = NUMBER + 1, .key = fixture->other_key.own},
		{.number = NUMBER + 1, .key = fixture->key.own, .fleet = "wharf"},
	};
	for (size_t i = 0; i < BERTH_COUNT(claims); i++) {
		claim(fixture, claims[i]);
		assert_int_equal(fixture->fleet->outcome.error.code, BERTH_ERROR_DENIED);
		assert_non_null(strstr(fixture->fleet->outcome.error.message, "the key of this ledger did not sign"));
		assert_serves(fixture);
	}
}

static void a_newer_life_that_the_key_signed_ends_the_service(void **state)
{
	struct fixture *fixture = *state;
	claim(fixture, (struct claim){.number = NUMBER + 1, .key = fixture->key.own});
	assert_int_equal(fixture->fleet->outcome.error.code, BERTH_ERROR_FENCED);
	assert_int_equal(test_effects(fixture->fleet, BERTH_EFFECT_STOP_SERVING), 1);
}

static void a_twin_that_the_key_signed_is_named(void **state)
{
	struct fixture *fixture = *state;
	claim(fixture, (struct claim){.number = NUMBER, .key = fixture->key.own});
	assert_int_equal(fixture->fleet->outcome.error.code, BERTH_ERROR_FENCED);
	assert_non_null(strstr(fixture->fleet->outcome.error.message, "twin"));
	assert_serves(fixture);
}

// It would have risen by one, to 0.
static void no_claim_raises_the_number_past_its_end(void **state)
{
	struct fixture *fixture = *state;
	struct test_fleet *fleet = fixture->fleet;
	fleet->config.ledger_key_size = 0;
	fleet->config.ledger_key_der = NULL;
	test_restore(fleet, 2);
	claim(fixture, (struct claim){.number = UINT64_MAX});
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_DENIED);
}

static const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	T(a_claim_that_the_ledgers_key_did_not_sign_stops_nobody),
	T(a_newer_life_that_the_key_signed_ends_the_service),
	T(a_twin_that_the_key_signed_is_named),
	T(no_claim_raises_the_number_past_its_end),
};
BERTH_TEST_MAIN(tests)
