// SPDX-License-Identifier: Apache-2.0
// Secrets of running jobs: sealed before they reach the store, in no event, gone when the job is over.
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/private_file.h"
#include "coordinator/ledger/ledger_internal.h"

#define KEY_FILE_SIZE    32
#define SEAL_VERSION     1
#define NONCE_SIZE       12
#define TAG_SIZE         16
#define SEAL_HEADER_SIZE (1 + NONCE_SIZE)
#define SECRETS_SIZE_MAX (4 * 1024 * 1024)
#define SEAL_LABEL       "berth seal v1"
#define DIGEST_LABEL     "berth keyed digest v1"

static void cipher_free(EVP_CIPHER_CTX **ctx)
{
	EVP_CIPHER_CTX_free(*ctx);
}

static bool outside(const char *path, const char *data_folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *file = realpath(path, NULL);
	BERTH_AUTO_FREE char *folder = realpath(data_folder, NULL);
	size_t length = folder ? strlen(folder) : 0;
	if (file && folder && strncmp(file, folder, length) == 0 && file[length] == '/') {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"the key file %s is inside the data folder, where a copy of the data has it too: move it out",
			path);
	}
	return true;
}

static bool make_key_file(const char *path, struct berth_error *err)
{
	uint8_t key[KEY_FILE_SIZE];
	berth_random(key, sizeof key);
	bool made = berth_private_file_make(path, key, sizeof key, err);
	OPENSSL_cleanse(key, sizeof key);
	return made;
}

bool berth_ledger_set_secret_key_file(struct berth_ledger *ledger, const char *path, struct berth_error *err)
{
	if (!berth_file_exists(path) && !make_key_file(path, err)) {
		return berth_error_wrap(err, "secret key");
	}
	BERTH_AUTO(berth_private_buf_free) struct berth_buf key = {0};
	if (!outside(path, ledger->data_folder, err) || !berth_private_file_read(path, KEY_FILE_SIZE, &key, err)) {
		return berth_error_wrap(err, "secret key");
	}
	if (key.size != KEY_FILE_SIZE) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the secret key %s has %zu bytes, not %d", path, key.size,
			KEY_FILE_SIZE);
	}
	// One key, two uses: each gets a key of its own.
	ledger->seal_key = berth_hmac_sha256(key.data, key.size, SEAL_LABEL, strlen(SEAL_LABEL));
	ledger->digest_key = berth_hmac_sha256(key.data, key.size, DIGEST_LABEL, strlen(DIGEST_LABEL));
	ledger->has_key = true;
	return true;
}

void ledger_wipe_keys(struct berth_ledger *ledger)
{
	OPENSSL_cleanse(&ledger->seal_key, sizeof ledger->seal_key);
	OPENSSL_cleanse(&ledger->digest_key, sizeof ledger->digest_key);
}

struct berth_digest berth_ledger_keyed_digest(const struct berth_ledger *ledger, const void *data, size_t size)
{
	return berth_hmac_sha256(ledger->digest_key.bytes, BERTH_DIGEST_SIZE, data, size);
}

static bool must_have_key(const struct berth_ledger *ledger, struct berth_error *err)
{
	return ledger->has_key || berth_fail(err, BERTH_ERROR_INTERNAL, "secrets need the secret key file first");
}

// The job's id is authenticated: one job's seal does not open under another's name.
static EVP_CIPHER_CTX *cipher(const struct berth_ledger *ledger, const char *job_id, const uint8_t *nonce, int sealing)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int length = 0;
	if (!ctx || EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, ledger->seal_key.bytes, nonce, sealing) != 1 ||
		EVP_CipherUpdate(ctx, NULL, &length, (const uint8_t *)job_id, (int)strlen(job_id)) != 1) {
		EVP_CIPHER_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static bool seal(const struct berth_ledger *ledger, const char *job_id, const void *packed, size_t size,
	struct berth_buf *sealed)
{
	uint8_t *at = berth_buf_reserve(sealed, SEAL_HEADER_SIZE + size + TAG_SIZE);
	at[0] = SEAL_VERSION;
	berth_random(at + 1, NONCE_SIZE);
	BERTH_AUTO(cipher_free) EVP_CIPHER_CTX *ctx = cipher(ledger, job_id, at + 1, 1);
	int length = 0;
	int rest = 0;
	uint8_t *body = at + SEAL_HEADER_SIZE;
	if (!ctx || EVP_CipherUpdate(ctx, body, &length, packed, (int)size) != 1 ||
		EVP_CipherFinal_ex(ctx, body + length, &rest) != 1 ||
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, body + size) != 1) {
		return false;
	}
	sealed->size += SEAL_HEADER_SIZE + size + TAG_SIZE;
	return true;
}

bool berth_ledger_put_secrets(
	struct berth_ledger *ledger, const char *job_id, const void *packed, size_t size, struct berth_error *err)
{
	if (!must_have_key(ledger, err) || !berth_store_writable(ledger->store, err)) {
		return false;
	}
	if (size > SECRETS_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the secrets of job %s have %zu bytes, more than %d",
			job_id, size, SECRETS_SIZE_MAX);
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf sealed = {0};
	if (!seal(ledger, job_id, packed, size, &sealed)) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "cannot seal the secrets of job %s", job_id);
	}
	ledger->must_sync = true;
	berth_store_batch_put(ledger->batch, LEDGER_SECRET, job_id, strlen(job_id), sealed.data, sealed.size);
	return true;
}

void berth_ledger_drop_secrets(struct berth_ledger *ledger, const char *job_id)
{
	ledger->must_sync = true;
	berth_store_batch_delete(ledger->batch, LEDGER_SECRET, job_id, strlen(job_id));
}

static bool open_seal(
	const struct berth_ledger *ledger, const char *job_id, struct berth_buf *sealed, struct berth_buf *packed)
{
	if (sealed->size < SEAL_HEADER_SIZE + TAG_SIZE || sealed->size > INT_MAX || sealed->data[0] != SEAL_VERSION) {
		return false;
	}
	size_t size = sealed->size - SEAL_HEADER_SIZE - TAG_SIZE;
	uint8_t *body = sealed->data + SEAL_HEADER_SIZE;
	uint8_t *out = berth_buf_reserve(packed, size + TAG_SIZE);
	BERTH_AUTO(cipher_free) EVP_CIPHER_CTX *ctx = cipher(ledger, job_id, sealed->data + 1, 0);
	int length = 0;
	int rest = 0;
	if (!ctx || EVP_CipherUpdate(ctx, out, &length, body, (int)size) != 1 ||
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, body + size) != 1 ||
		EVP_CipherFinal_ex(ctx, out + length, &rest) != 1) {
		OPENSSL_cleanse(out, size);
		return false;
	}
	packed->size += size;
	packed->data[packed->size] = 0;
	return true;
}

bool berth_ledger_get_secrets(
	struct berth_ledger *ledger, const char *job_id, struct berth_buf *packed, struct berth_error *err)
{
	if (!must_have_key(ledger, err)) {
		return false;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf sealed = {0};
	if (!berth_store_get(ledger->store, LEDGER_SECRET, job_id, strlen(job_id), &sealed, err)) {
		return berth_error_wrap(err, "secrets of job %s", job_id);
	}
	if (!open_seal(ledger, job_id, &sealed, packed)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"the secrets of job %s do not open: is the secret key file the one that sealed them?", job_id);
	}
	return true;
}
