// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/x509.h"
#include "tests/support/test.h"

extern char **environ;

struct fixture {
	char *folder;
	char *authority;
	char *authority_key;
	char *key;
	uint8_t *request;
	size_t request_size;
};

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	struct berth_error err;
	fixture->folder = berth_test_folder();
	assert_ok(berth_x509_authority_new("harbor.example", 3650, &fixture->authority, &fixture->authority_key, &err),
		err);
	assert_ok(
		berth_x509_request_new("quay-1", &fixture->key, &fixture->request, &fixture->request_size, &err), err);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	free(fixture->folder);
	free(fixture->authority);
	free(fixture->authority_key);
	free(fixture->key);
	free(fixture->request);
	free(fixture);
	return 0;
}

static bool issue_to(struct fixture *fixture, const char *role, const char *name, const char *const *hosts, int days,
	char **certificate, struct berth_error *err)
{
	return berth_x509_issue(fixture->authority, fixture->authority_key, fixture->request, fixture->request_size,
		role, name, hosts, days, certificate, err);
}

static char *issue(struct fixture *fixture, const char *const *hosts)
{
	char *certificate = NULL;
	struct berth_error err;
	assert_ok(issue_to(fixture, "agent", "quay-1", hosts, 90, &certificate, &err), err);
	return certificate;
}

static X509 *parse(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	assert_non_null(certificate);
	return certificate;
}

static char *write_text(struct fixture *fixture, const char *name, const char *text)
{
	char *path = berth_path_join(fixture->folder, name);
	struct berth_error err;
	assert_ok(berth_file_write(path, text, strlen(text), 0600, &err), err);
	return path;
}

static int run_openssl(char *const *argv)
{
	pid_t child;
	int status = -1;
	assert_int_equal(posix_spawnp(&child, "openssl", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static int openssl_verify(struct fixture *fixture, const char *certificate, char *option, char *value)
{
	BERTH_AUTO_FREE char *authority_path = write_text(fixture, "ca.pem", fixture->authority);
	BERTH_AUTO_FREE char *path = write_text(fixture, "leaf.pem", certificate);
	char *argv[] = {"openssl", "verify", "-x509_strict", "-CAfile", authority_path, option, value, path, NULL};
	return run_openssl(argv);
}

static void the_openssl_command_accepts_client_and_server_use(void **state)
{
	struct fixture *fixture = *state;
	static const char *const hosts[] = {"coordinator.harbor.example", "127.0.0.1", NULL};
	BERTH_AUTO_FREE char *certificate = issue(fixture, hosts);
	assert_int_equal(openssl_verify(fixture, certificate, "-purpose", "sslclient"), 0);
	assert_int_equal(openssl_verify(fixture, certificate, "-purpose", "sslserver"), 0);
	assert_int_equal(openssl_verify(fixture, certificate, "-verify_hostname", "coordinator.harbor.example"), 0);
	assert_int_equal(openssl_verify(fixture, certificate, "-verify_ip", "127.0.0.1"), 0);
	assert_int_not_equal(openssl_verify(fixture, certificate, "-verify_hostname", "other.example"), 0);
}

static void another_authority_does_not_vouch_for_it(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *certificate = issue(fixture, NULL);
	struct berth_error err;
	free(fixture->authority);
	free(fixture->authority_key);
	assert_ok(berth_x509_authority_new("harbor.example", 3650, &fixture->authority, &fixture->authority_key, &err),
		err);
	assert_int_not_equal(openssl_verify(fixture, certificate, "-purpose", "sslclient"), 0);
}

static void assert_names(X509 *certificate, const char *const *wanted)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	assert_non_null(names);
	int count = 0;
	for (; wanted[count]; count++) {
		assert_true(count < sk_GENERAL_NAME_num(names));
		GENERAL_NAME *name = sk_GENERAL_NAME_value(names, count);
		BIO *bio = BIO_new(BIO_s_mem());
		GENERAL_NAME_print(bio, name);
		char *data = NULL;
		long size = BIO_get_mem_data(bio, &data);
		BERTH_AUTO_FREE char *text = berth_strndup(data, (size_t)size);
		BIO_free(bio);
		assert_string_equal(text, wanted[count]);
	}
	assert_int_equal(sk_GENERAL_NAME_num(names), count);
	GENERAL_NAMES_free(names);
}

static void an_issued_certificate_names_fleet_role_name_and_hosts(void **state)
{
	struct fixture *fixture = *state;
	static const char *const hosts[] = {"c_1.internal", "10.0.0.7", "::1", NULL};
	BERTH_AUTO_FREE char *pem = issue(fixture, hosts);
	X509 *certificate = parse(pem);
	static const char *const wanted[] = {"URI:spiffe://harbor.example/agent/quay-1", "DNS:c_1.internal",
		"IP Address:10.0.0.7", "IP Address:0:0:0:0:0:0:0:1", NULL};
	assert_names(certificate, wanted);
	X509_free(certificate);
}

static void the_authority_names_its_fleet_and_can_only_sign_certificates(void **state)
{
	struct fixture *fixture = *state;
	X509 *authority = parse(fixture->authority);
	static const char *const wanted[] = {"URI:spiffe://harbor.example", NULL};
	assert_names(authority, wanted);
	assert_int_equal(X509_check_ca(authority), 1);
	assert_int_equal(X509_get_pathlen(authority), 0);
	assert_int_equal(X509_get_key_usage(authority), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	X509_free(authority);
	char *fleet = NULL;
	struct berth_error err;
	assert_ok(berth_x509_authority_fleet(fixture->authority, &fleet, &err), err);
	assert_string_equal(fleet, "harbor.example");
	free(fleet);
}

static bool is_critical(X509 *certificate, int nid)
{
	int at = X509_get_ext_by_NID(certificate, nid, -1);
	assert_true(at >= 0);
	return X509_EXTENSION_get_critical(X509_get_ext(certificate, at));
}

static void an_issued_certificate_is_a_leaf_for_tls_both_ways(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *pem = issue(fixture, NULL);
	X509 *certificate = parse(pem);
	assert_int_equal(X509_get_version(certificate), X509_VERSION_3);
	assert_int_equal(X509_check_ca(certificate), 0);
	assert_int_equal(X509_get_key_usage(certificate), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(certificate), XKU_SSL_CLIENT | XKU_SSL_SERVER);
	assert_true(is_critical(certificate, NID_basic_constraints));
	assert_true(is_critical(certificate, NID_key_usage));
	X509_free(certificate);
}

static void an_issued_certificate_carries_the_key_that_asked(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *pem = issue(fixture, NULL);
	X509 *certificate = parse(pem);
	BIO *bio = BIO_new_mem_buf(fixture->key, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	assert_int_equal(X509_check_private_key(certificate, key), 1);
	EVP_PKEY_free(key);
	BIO_free(bio);
	X509_free(certificate);
}

static int64_t seconds_from_now(const ASN1_TIME *when)
{
	int days = 0;
	int seconds = 0;
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, when), 1);
	return (int64_t)days * 86400 + seconds;
}

static void it_is_valid_from_a_little_ago_so_that_clocks_may_differ(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *pem = issue(fixture, NULL);
	X509 *certificate = parse(pem);
	int64_t since = seconds_from_now(X509_get0_notBefore(certificate));
	assert_true(since <= -5 * 60 && since > -3600);
	int64_t left = seconds_from_now(X509_get0_notAfter(certificate));
	assert_true(left <= INT64_C(90) * 86400 && left > INT64_C(90) * 86400 - 3600);
	X509_free(certificate);
}

static void no_certificate_outlives_its_authority(void **state)
{
	struct fixture *fixture = *state;
	char *pem = NULL;
	struct berth_error err;
	assert_ok(issue_to(fixture, "agent", "quay-1", NULL, 36500, &pem, &err), err);
	X509 *certificate = parse(pem);
	X509 *authority = parse(fixture->authority);
	assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(certificate), X509_get0_notAfter(authority)), 0);
	X509_free(authority);
	X509_free(certificate);
	free(pem);
}

static void two_certificates_have_different_serials_and_fingerprints(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE char *one = issue(fixture, NULL);
	BERTH_AUTO_FREE char *two = issue(fixture, NULL);
	X509 *first = parse(one);
	X509 *second = parse(two);
	assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(first), X509_get0_serialNumber(second)), 0);
	X509_free(second);
	char text_one[65];
	char text_two[65];
	struct berth_error err;
	assert_ok(berth_x509_fingerprint(one, text_one, &err), err);
	assert_ok(berth_x509_fingerprint(two, text_two, &err), err);
	assert_string_not_equal(text_one, text_two);
	unsigned char *der = NULL;
	int size = i2d_X509(first, &der);
	struct berth_digest digest = berth_sha256(der, (size_t)size);
	char wanted[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, wanted);
	assert_string_equal(text_one, wanted);
	OPENSSL_free(der);
	X509_free(first);
}

static void a_request_with_any_changed_byte_is_refused(void **state)
{
	struct fixture *fixture = *state;
	for (size_t i = 0; i < fixture->request_size; i++) {
		fixture->request[i] ^= 0x10;
		char *certificate = NULL;
		struct berth_error err;
		if (issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err)) {
			fail_msg("byte %zu is not covered", i);
		}
		assert_true(err.code == BERTH_ERROR_INVALID || err.code == BERTH_ERROR_CORRUPT);
		assert_null(certificate);
		fixture->request[i] ^= 0x10;
	}
}

static void a_cut_or_padded_request_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	char *certificate = NULL;
	fixture->request_size--;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"not a certificate request");
	size_t padded = fixture->request_size + 2;
	fixture->request = berth_realloc_array(fixture->request, padded, 1);
	fixture->request[padded - 1] = 0;
	fixture->request_size = padded;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"not a certificate request");
	fixture->request_size = 0;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"not a certificate request");
}

static uint8_t *request_for(EVP_PKEY *key, size_t *size)
{
	X509_REQ *request = X509_REQ_new();
	X509_REQ_set_pubkey(request, key);
	assert_true(X509_REQ_sign(request, key, EVP_sha256()) > 0);
	unsigned char *der = NULL;
	*size = (size_t)i2d_X509_REQ(request, &der);
	uint8_t *copy = berth_memdup(der, *size);
	OPENSSL_free(der);
	X509_REQ_free(request);
	return copy;
}

static void keys_other_than_p256_are_refused(void **state)
{
	struct fixture *fixture = *state;
	EVP_PKEY *keys[] = {EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048),
		EVP_PKEY_Q_keygen(NULL, NULL, "EC", "secp384r1"), EVP_PKEY_Q_keygen(NULL, NULL, "EC", "prime256v1")};
	EVP_PKEY_set_utf8_string_param(keys[2], "param_enc", "explicit");
	EVP_PKEY_set_utf8_string_param(keys[2], "encoding", "explicit");
	for (size_t i = 0; i < BERTH_COUNT(keys); i++) {
		free(fixture->request);
		fixture->request = request_for(keys[i], &fixture->request_size);
		struct berth_error err;
		char *certificate = NULL;
		assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err,
			BERTH_ERROR_INVALID, "P-256");
		EVP_PKEY_free(keys[i]);
	}
}

static void an_authority_key_of_another_certificate_is_refused(void **state)
{
	struct fixture *fixture = *state;
	free(fixture->authority_key);
	fixture->authority_key = berth_strdup(fixture->key);
	struct berth_error err;
	char *certificate = NULL;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"not the one of its certificate");
}

static void a_leaf_cannot_issue(void **state)
{
	struct fixture *fixture = *state;
	char *leaf = issue(fixture, NULL);
	free(fixture->authority);
	free(fixture->authority_key);
	fixture->authority = leaf;
	fixture->authority_key = berth_strdup(fixture->key);
	struct berth_error err;
	char *certificate = NULL;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"not of an authority");
}

static void an_encrypted_authority_key_is_refused_without_asking_a_terminal(void **state)
{
	struct fixture *fixture = *state;
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "prime256v1");
	BIO *bio = BIO_new(BIO_s_mem());
	PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_256_cbc(), "pass", 4, NULL, NULL);
	char *data = NULL;
	long size = BIO_get_mem_data(bio, &data);
	free(fixture->authority_key);
	fixture->authority_key = berth_strndup(data, (size_t)size);
	BIO_free(bio);
	EVP_PKEY_free(key);
	struct berth_error err;
	char *certificate = NULL;
	assert_fails(issue_to(fixture, "agent", "quay-1", NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"unencrypted");
}

static void names_that_would_break_out_of_the_spiffe_id_are_refused(void **state)
{
	struct fixture *fixture = *state;
	static const char *const bad[] = {"", ".", "..", "a/b", "a b", "quay%2f", "quay\n1", "qu\xc3\xa4y"};
	struct berth_error err;
	char *certificate = NULL;
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		assert_fails(issue_to(fixture, "agent", bad[i], NULL, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
			"the name");
		assert_fails(issue_to(fixture, bad[i], "quay-1", NULL, 90, &certificate, &err), err,
			BERTH_ERROR_INVALID, "the role");
	}
	static const char *const hosts[] = {"a,DNS:evil.example", NULL};
	assert_fails(issue_to(fixture, "agent", "quay-1", hosts, 90, &certificate, &err), err, BERTH_ERROR_INVALID,
		"neither an IP address nor a host name");
	char *key = NULL;
	assert_fails(berth_x509_authority_new("Harbor/x", 10, &certificate, &key, &err), err, BERTH_ERROR_INVALID,
		"fleet name");
	assert_fails(berth_x509_authority_new("harbor", 0, &certificate, &key, &err), err, BERTH_ERROR_INVALID, "days");
}

static void a_long_name_is_whole_in_the_identity(void **state)
{
	struct fixture *fixture = *state;
	char name[201];
	memset(name, 'q', 200);
	name[200] = 0;
	char *pem = NULL;
	struct berth_error err;
	assert_ok(issue_to(fixture, "agent", name, NULL, 90, &pem, &err), err);
	X509 *certificate = parse(pem);
	BERTH_AUTO_FREE char *uri = berth_format("URI:spiffe://harbor.example/agent/%s", name);
	const char *const wanted[] = {uri, NULL};
	assert_names(certificate, wanted);
	X509_free(certificate);
	free(pem);
}

#define WITH_AUTHORITY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_AUTHORITY(the_openssl_command_accepts_client_and_server_use),
	WITH_AUTHORITY(another_authority_does_not_vouch_for_it),
	WITH_AUTHORITY(an_issued_certificate_names_fleet_role_name_and_hosts),
	WITH_AUTHORITY(the_authority_names_its_fleet_and_can_only_sign_certificates),
	WITH_AUTHORITY(an_issued_certificate_is_a_leaf_for_tls_both_ways),
	WITH_AUTHORITY(an_issued_certificate_carries_the_key_that_asked),
	WITH_AUTHORITY(it_is_valid_from_a_little_ago_so_that_clocks_may_differ),
	WITH_AUTHORITY(no_certificate_outlives_its_authority),
	WITH_AUTHORITY(two_certificates_have_different_serials_and_fingerprints),
	WITH_AUTHORITY(a_request_with_any_changed_byte_is_refused),
	WITH_AUTHORITY(a_cut_or_padded_request_is_refused),
	WITH_AUTHORITY(keys_other_than_p256_are_refused),
	WITH_AUTHORITY(an_authority_key_of_another_certificate_is_refused),
	WITH_AUTHORITY(a_leaf_cannot_issue),
	WITH_AUTHORITY(an_encrypted_authority_key_is_refused_without_asking_a_terminal),
	WITH_AUTHORITY(names_that_would_break_out_of_the_spiffe_id_are_refused),
	WITH_AUTHORITY(a_long_name_is_whole_in_the_identity),
};
BERTH_TEST_MAIN(tests)
