// SPDX-License-Identifier: Apache-2.0
// Mutual TLS: who may call, and who is told why not.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "common/base/digest.h"
#include "tests/unit/rpc/certificates.h"
#include "tests/unit/rpc/client_support.h"

#define SERVER_NAMES "URI:spiffe://fleet-1/coordinator/c,DNS:localhost,IP:127.0.0.1"
#define AGENT        "URI:spiffe://fleet-1/agent/quay-1"
#define USER         "URI:spiffe://fleet-1/user/anna"

struct fixture {
	struct authority *ours, *foreign;
	struct berth_rpc_tls *server;
	struct echo *echo; // for agents
};

static int start(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->ours = authority_new("ours");
	fixture->foreign = authority_new("foreign");
	fixture->server = identity_new(fixture->ours, fixture->ours, SERVER_NAMES);
	fixture->echo = must_start(
		&(struct echo_options){.tls = fixture->server, .fleet = "fleet-1", .roles = BERTH_ROLE_AGENT});
	*state = fixture;
	return 0;
}

static int stop(void **state)
{
	struct fixture *fixture = *state;
	echo_stop(fixture->echo, 0);
	identity_free(fixture->server);
	authority_free(fixture->ours);
	authority_free(fixture->foreign);
	free(fixture);
	return 0;
}

// Says "who" as the holder of a certificate with these names; the answer is the caller's.
static char *who(struct fixture *fixture, struct authority *issuer, const struct authority *trusted, const char *names,
	struct berth_error *err)
{
	struct berth_rpc_tls *identity = identity_new(issuer, trusted, names);
	struct berth_rpc_channel *channel = must_connect(echo_address(fixture->echo), identity);
	char *answer = say(channel, "who", err);
	berth_rpc_channel_free(channel);
	identity_free(identity);
	return answer;
}

static void certificate_digest(const char *pem, char hex[static BERTH_DIGEST_HEX_SIZE])
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	unsigned char bytes[BERTH_DIGEST_SIZE];
	X509_digest(cert, EVP_sha256(), bytes, NULL);
	berth_hex(bytes, sizeof bytes, hex);
	X509_free(cert);
}

static void an_agent_is_known_by_its_certificate(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_tls *identity = identity_new(fixture->ours, fixture->ours, AGENT ",DNS:quay-1.example.org");
	struct berth_rpc_channel *channel = must_connect(echo_address(fixture->echo), identity);
	char hex[BERTH_DIGEST_HEX_SIZE];
	certificate_digest(identity->certificate, hex);
	BERTH_AUTO_FREE char *wanted = berth_format("agent/fleet-1/quay-1/%s", hex);
	for (int i = 0; i < 3; i++) {
		struct berth_error err;
		BERTH_AUTO_FREE char *answer = say(channel, "who", &err);
		assert_ok(answer, err);
		assert_string_equal(answer, wanted);
	}
	berth_rpc_channel_free(channel);
	identity_free(identity);
}

static void a_user_is_kept_from_what_is_for_agents(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(who(fixture, fixture->ours, fixture->ours, USER, &err), err, BERTH_ERROR_DENIED,
		"/berth.test.v1.Echo/Say is not for the role user");
	assert_int_equal(echo_seen(fixture->echo, "Say begin"), 0);
}

static void a_stream_of_the_wrong_role_is_refused_as_well(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_tls *identity = identity_new(fixture->ours, fixture->ours, USER);
	struct berth_rpc_channel *channel = must_connect(echo_address(fixture->echo), identity);
	struct berth_rpc_stream *stream = must_open(channel, "Chat");
	must_fail(stream, BERTH_ERROR_DENIED, "role user");
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
	identity_free(identity);
	assert_int_equal(echo_seen(fixture->echo, "Chat begin"), 0);
}

static void another_fleet_is_refused_by_name(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(who(fixture, fixture->ours, fixture->ours, "URI:spiffe://fleet-2/agent/quay-1", &err), err,
		BERTH_ERROR_DENIED, "agent quay-1 is of the fleet fleet-2; this server serves the fleet fleet-1");
}

static void a_certificate_that_names_nobody_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(who(fixture, fixture->ours, fixture->ours, "DNS:localhost", &err), err,
		BERTH_ERROR_UNAUTHENTICATED, "no SPIFFE id");
	assert_fails(who(fixture, fixture->ours, fixture->ours, "URI:https://fleet-1/agent/quay-1", &err), err,
		BERTH_ERROR_UNAUTHENTICATED, "no SPIFFE id");
	assert_fails(who(fixture, fixture->ours, fixture->ours, AGENT "," USER, &err), err, BERTH_ERROR_UNAUTHENTICATED,
		"more than one");
	assert_fails(who(fixture, fixture->ours, fixture->ours, "URI:spiffe://fleet-1/root/r", &err), err,
		BERTH_ERROR_UNAUTHENTICATED, "role");
}

static void a_client_of_another_authority_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(who(fixture, fixture->foreign, fixture->ours, AGENT, &err), err, BERTH_ERROR_UNAVAILABLE, "");
	assert_int_equal(echo_seen(fixture->echo, "Say begin"), 0);
}

static void a_server_of_another_authority_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(who(fixture, fixture->ours, fixture->foreign, AGENT, &err), err, BERTH_ERROR_UNAVAILABLE, "");
	assert_int_equal(echo_seen(fixture->echo, "Say begin"), 0);
}

static void a_client_without_tls_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_channel *channel = must_connect(echo_address(fixture->echo), NULL);
	struct berth_error err;
	assert_fails(say(channel, "who", &err), err, BERTH_ERROR_UNAVAILABLE, echo_address(fixture->echo));
	berth_rpc_channel_free(channel);
}

static void the_server_must_have_the_expected_name(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_tls *identity = identity_new(fixture->ours, fixture->ours, AGENT);
	static const struct {
		const char *name;
		bool accepted;
	} rows[] = {{"localhost", true}, {"coordinator.example.org", false}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		const struct berth_rpc_channel_options options = {
			.address = echo_address(fixture->echo),
			.tls = identity,
			.server_name = rows[i].name,
			.descriptor_set = echo_set,
			.descriptor_set_size = echo_set_size,
		};
		struct berth_error err;
		struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
		assert_ok(channel, err);
		BERTH_AUTO_FREE char *answer = say(channel, "who", &err);
		assert_int_equal(answer != NULL, rows[i].accepted);
		berth_rpc_channel_free(channel);
	}
	identity_free(identity);
}

static void identities_that_do_not_fit_together_are_refused_at_the_start(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_tls *identity = identity_new(fixture->ours, fixture->ours, AGENT);
	const struct {
		struct berth_rpc_tls tls;
		const char *part;
	} rows[] = {
		{{"junk", identity->certificate, identity->key}, "authority"},
		{{identity->authority, NULL, identity->key}, "certificate is no PEM"},
		{{identity->authority, identity->certificate, "junk"}, "key is no PEM"},
		{{identity->authority, fixture->server->certificate, identity->key}, "not the certificate's"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err;
		assert_fails(echo_start(&(struct echo_options){.tls = &rows[i].tls}, &err), err, BERTH_ERROR_INVALID,
			rows[i].part);
		const struct berth_rpc_channel_options options = {
			.address = "127.0.0.1:1",
			.tls = &rows[i].tls,
			.descriptor_set = echo_set,
			.descriptor_set_size = echo_set_size,
		};
		assert_fails(berth_rpc_channel_new(&options, &err), err, BERTH_ERROR_INVALID, rows[i].part);
	}
	identity_free(identity);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

static const struct CMUnitTest tests[] = {
	WITH(an_agent_is_known_by_its_certificate),
	WITH(a_user_is_kept_from_what_is_for_agents),
	WITH(a_stream_of_the_wrong_role_is_refused_as_well),
	WITH(another_fleet_is_refused_by_name),
	WITH(a_certificate_that_names_nobody_is_refused),
	WITH(a_client_of_another_authority_is_refused),
	WITH(a_server_of_another_authority_is_refused),
	WITH(a_client_without_tls_is_refused),
	WITH(the_server_must_have_the_expected_name),
	WITH(identities_that_do_not_fit_together_are_refused_at_the_start),
};

BERTH_TEST_MAIN(tests)
