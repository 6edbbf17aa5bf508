// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/head.h"
#include "common/evidence/private_file.h"
#include "common/evidence/sign.h"
#include "common/evidence/statement.h"
#include "tests/support/test.h"

#define TYPE "http://example.com/HelloWorld"
#define BODY "hello world"

struct fixture {
	char *path;
	struct berth_signing_key *key;
	uint8_t *der;
	size_t der_size;
};

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	fixture->path = berth_path_join(folder, "signing.pem");
	struct berth_error err;
	fixture->key = berth_signing_key_open(fixture->path, &err);
	assert_ok(fixture->key, err);
	assert_ok(berth_signing_key_public(fixture->key, &fixture->der, &fixture->der_size, &err), err);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	berth_signing_key_free(fixture->key);
	free(fixture->path);
	free(fixture->der);
	free(fixture);
	return 0;
}

static void a_missing_key_is_made_for_its_owner_alone_and_found_again(void **state)
{
	struct fixture *fixture = *state;
	struct stat info;
	assert_int_equal(stat(fixture->path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	struct berth_error err;
	struct berth_signing_key *again = berth_signing_key_open(fixture->path, &err);
	assert_ok(again, err);
	uint8_t *der = NULL;
	size_t size = 0;
	assert_ok(berth_signing_key_public(again, &der, &size, &err), err);
	assert_int_equal(size, fixture->der_size);
	assert_memory_equal(der, fixture->der, size);
	free(der);
	berth_signing_key_free(again);
}

static void a_key_file_that_others_can_read_is_refused_with_the_fix(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(chmod(fixture->path, 0640), 0);
	struct berth_error err;
	assert_fails(berth_signing_key_open(fixture->path, &err), err, BERTH_ERROR_DENIED, "run chmod 600");
	assert_int_equal(chmod(fixture->path, 0400), 0);
	struct berth_signing_key *key = berth_signing_key_open(fixture->path, &err);
	assert_ok(key, err);
	berth_signing_key_free(key);
}

static void a_file_that_is_no_ed25519_key_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "key");
	struct berth_error err;
	assert_ok(berth_file_write(path, "not a key", 9, 0600, &err), err);
	assert_fails(berth_signing_key_open(path, &err), err, BERTH_ERROR_INVALID, "PEM private key");
}

static void making_a_key_file_never_replaces_one(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_ok(berth_private_file_make(fixture->path, "other", 5, &err), err);
	struct berth_signing_key *again = berth_signing_key_open(fixture->path, &err);
	assert_ok(again, err);
	berth_signing_key_free(again);
}

static void a_signature_is_ed25519_over_the_dsse_encoding(void **state)
{
	struct fixture *fixture = *state;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	assert_ok(berth_sign(fixture->key, TYPE, BODY, strlen(BODY), signature, &err), err);
	// The example of DSSE's protocol page, checked by the library directly.
	static const char encoded[] = "DSSEv1 29 http://example.com/HelloWorld 11 hello world";
	const unsigned char *at = fixture->der;
	EVP_PKEY *pkey = d2i_PUBKEY(NULL, &at, (long)fixture->der_size);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey), 1);
	assert_int_equal(
		EVP_DigestVerify(ctx, signature, sizeof signature, (const unsigned char *)encoded, sizeof encoded - 1),
		1);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
}

static bool verify(struct fixture *fixture, const char *type, const char *body, const uint8_t *signature, size_t size,
	struct berth_error *err)
{
	return berth_verify(fixture->der, fixture->der_size, type, body, strlen(body), signature, size, err);
}

static void a_signature_fits_its_type_body_and_key_only(void **state)
{
	struct fixture *fixture = *state;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	assert_ok(berth_sign(fixture->key, TYPE, BODY, strlen(BODY), signature, &err), err);
	assert_ok(verify(fixture, TYPE, BODY, signature, sizeof signature, &err), err);
	assert_fails(verify(fixture, TYPE, "hello worle", signature, sizeof signature, &err), err, BERTH_ERROR_CORRUPT,
		"does not fit");
	assert_fails(
		verify(fixture, "other", BODY, signature, sizeof signature, &err), err, BERTH_ERROR_CORRUPT, "other");
	assert_fails(verify(fixture, TYPE, BODY, signature, sizeof signature - 1, &err), err, BERTH_ERROR_CORRUPT,
		"does not fit");
	for (size_t i = 0; i < sizeof signature; i++) {
		signature[i] ^= 1;
		assert_false(verify(fixture, TYPE, BODY, signature, sizeof signature, NULL));
		signature[i] ^= 1;
	}
	fixture->der[fixture->der_size - 1] ^= 1;
	assert_false(verify(fixture, TYPE, BODY, signature, sizeof signature, NULL));
}

static void an_empty_body_can_be_signed(void **state)
{
	struct fixture *fixture = *state;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	assert_ok(berth_sign(fixture->key, TYPE, "", 0, signature, &err), err);
	assert_ok(verify(fixture, TYPE, "", signature, sizeof signature, &err), err);
}

static void bytes_that_are_no_public_key_are_invalid(void **state)
{
	struct fixture *fixture = *state;
	uint8_t signature[BERTH_SIGNATURE_SIZE] = {0};
	struct berth_error err;
	assert_fails(berth_verify("junk", 4, TYPE, BODY, strlen(BODY), signature, sizeof signature, &err), err,
		BERTH_ERROR_INVALID, "public key");
	assert_fails(berth_verify(fixture->der, fixture->der_size - 1, TYPE, BODY, strlen(BODY), signature,
			     sizeof signature, &err),
		err, BERTH_ERROR_INVALID, "public key");
}

static void a_key_id_is_the_digest_of_the_public_key(void **state)
{
	(void)state;
	char id[BERTH_DIGEST_HEX_SIZE];
	berth_signing_key_id("abc", 3, id);
	assert_string_equal(id, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void a_public_key_goes_through_pem_and_nothing_else_does(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *pem = berth_public_key_pem(fixture->der, fixture->der_size, &err);
	assert_ok(pem, err);
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t size = 0;
	assert_ok(berth_public_key_parse(pem, "ledger.pem", &der, &size, &err), err);
	assert_int_equal(size, fixture->der_size);
	assert_memory_equal(der, fixture->der, size);
	uint8_t *none = NULL;
	assert_fails(berth_public_key_parse("junk", "ledger.pem", &none, &size, &err), err, BERTH_ERROR_INVALID,
		"ledger.pem is not an Ed25519 public key");
	assert_null(berth_public_key_pem("junk", 4, &err));
}

static void a_head_is_signed_as_one_line_of_canonical_json(void **state)
{
	struct fixture *fixture = *state;
	struct berth_head head = {
		.fleet = "quay", .size = 12, .leaf = berth_sha256("a", 1), .root = berth_sha256("b", 1)};
	static const char wanted[] =
		"{\"fleet\":\"quay\","
		"\"leaf\":\"sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\","
		"\"root\":\"sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\",\"size\":12}";
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_head_text(&head, &text);
	assert_string_equal(berth_buf_text(&text), wanted);
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	assert_ok(berth_head_sign(fixture->key, &head, signature, &err), err);
	assert_ok(berth_head_verify(fixture->der, fixture->der_size, &head, signature, sizeof signature, &err), err);
	// It is no trial's statement, whatever its text.
	assert_fails(berth_verify(fixture->der, fixture->der_size, BERTH_STATEMENTS_TYPE, text.data, text.size,
			     signature, sizeof signature, &err),
		err, BERTH_ERROR_CORRUPT, "does not fit");
	head.root.bytes[31] ^= 1;
	assert_fails(berth_head_verify(fixture->der, fixture->der_size, &head, signature, sizeof signature, &err), err,
		BERTH_ERROR_CORRUPT, "ledger-head");
}

#define WITH_KEY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_KEY(a_missing_key_is_made_for_its_owner_alone_and_found_again),
	WITH_KEY(a_key_file_that_others_can_read_is_refused_with_the_fix),
	cmocka_unit_test(a_file_that_is_no_ed25519_key_is_refused),
	WITH_KEY(making_a_key_file_never_replaces_one),
	WITH_KEY(a_signature_is_ed25519_over_the_dsse_encoding),
	WITH_KEY(a_signature_fits_its_type_body_and_key_only),
	WITH_KEY(an_empty_body_can_be_signed),
	WITH_KEY(bytes_that_are_no_public_key_are_invalid),
	WITH_KEY(a_public_key_goes_through_pem_and_nothing_else_does),
	WITH_KEY(a_head_is_signed_as_one_line_of_canonical_json),
	cmocka_unit_test(a_key_id_is_the_digest_of_the_public_key),
};
BERTH_TEST_MAIN(tests)
