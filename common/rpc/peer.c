// SPDX-License-Identifier: Apache-2.0
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/rpc/internal.h"

#define SCHEME      "spiffe://"
#define SCHEME_SIZE (sizeof SCHEME - 1)
#define KEPT_MAX    64 // certificates whose answer is kept

// A connection brings the same certificate with every call: parsing it each time would cost more than the call.
struct kept {
	char *pem;
	size_t pem_size;
	bool known;
	struct berth_rpc_principal principal;
	struct berth_error error;
};

struct berth_rpc_peers {
	char *fleet; // NULL takes any
	struct kept kept[KEPT_MAX];
	size_t next;
};

struct berth_rpc_peers *berth_rpc_peers_new(const char *fleet)
{
	struct berth_rpc_peers *peers = berth_alloc(sizeof *peers);
	peers->fleet = berth_strdup(fleet);
	return peers;
}

void berth_rpc_peers_free(struct berth_rpc_peers *peers)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		free(peers->kept[i].pem);
	}
	free(peers->fleet);
	free(peers);
}

static void auth_cleanup(grpc_auth_context **auth)
{
	grpc.auth_context_release(*auth);
}

static const grpc_auth_property *first_property(grpc_auth_context *auth, const char *name)
{
	grpc_auth_property_iterator iterator = grpc.auth_context_find_properties_by_name(auth, name);
	return grpc.auth_property_iterator_next(&iterator);
}

// The one SPIFFE id among the URIs of the certificate; two would leave open who calls.
static char *spiffe_id_of(grpc_auth_context *auth, struct berth_error *err)
{
	grpc_auth_property_iterator iterator =
		grpc.auth_context_find_properties_by_name(auth, GRPC_PEER_URI_PROPERTY_NAME);
	const grpc_auth_property *property = NULL;
	char *id = NULL;
	while ((property = grpc.auth_property_iterator_next(&iterator))) {
		if (property->value_length < SCHEME_SIZE || memcmp(property->value, SCHEME, SCHEME_SIZE) != 0) {
			continue;
		}
		if (id) {
			free(id);
			berth_fail(
				err, BERTH_ERROR_UNAUTHENTICATED, "the client certificate has more than one SPIFFE id");
			return NULL;
		}
		id = berth_strndup(property->value, property->value_length);
		if (strlen(id) != property->value_length) {
			free(id);
			berth_fail(
				err, BERTH_ERROR_UNAUTHENTICATED, "the client certificate's SPIFFE id has a zero byte");
			return NULL;
		}
	}
	if (!id) {
		berth_fail(err, BERTH_ERROR_UNAUTHENTICATED,
			"the client certificate has no SPIFFE id among its alternative names; enroll the client anew");
	}
	return id;
}

static void hash_certificate(const grpc_auth_property *pem, char hex[static BERTH_DIGEST_HEX_SIZE])
{
	BIO *bio = BIO_new_mem_buf(pem->value, (int)pem->value_length);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	unsigned char *der = NULL;
	int size = cert ? i2d_X509(cert, &der) : -1;
	if (size > 0) {
		struct berth_digest digest = berth_sha256(der, (size_t)size);
		berth_digest_hex(&digest, hex);
	}
	OPENSSL_free(der);
	X509_free(cert);
	ERR_clear_error();
}

static bool identify(const char *fleet, grpc_auth_context *auth, const grpc_auth_property *pem,
	struct berth_rpc_principal *principal, struct berth_error *err)
{
	BERTH_AUTO_FREE char *id = spiffe_id_of(auth, err);
	if (!id) {
		return false;
	}
	if (!berth_rpc_principal_parse(id, principal, err)) {
		err->code = BERTH_ERROR_UNAUTHENTICATED;
		return berth_error_wrap(err, "client certificate");
	}
	hash_certificate(pem, principal->certificate_sha256);
	if (fleet && strcmp(fleet, principal->fleet) != 0) {
		return berth_fail(err, BERTH_ERROR_DENIED, "%s %s is of the fleet %s; this server serves the fleet %s",
			berth_rpc_role_name(principal->role), principal->name, principal->fleet, fleet);
	}
	return true;
}

static const struct kept *find_kept(const struct berth_rpc_peers *peers, const grpc_auth_property *pem)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		const struct kept *kept = &peers->kept[i];
		if (kept->pem_size == pem->value_length && kept->pem &&
			memcmp(kept->pem, pem->value, pem->value_length) == 0) {
			return kept;
		}
	}
	return NULL;
}

static const struct kept *keep(struct berth_rpc_peers *peers, grpc_auth_context *auth, const grpc_auth_property *pem)
{
	struct kept *kept = &peers->kept[peers->next++ % KEPT_MAX];
	free(kept->pem);
	*kept = (struct kept){.pem = berth_memdup(pem->value, pem->value_length), .pem_size = pem->value_length};
	kept->known = identify(peers->fleet, auth, pem, &kept->principal, &kept->error);
	return kept;
}

bool berth_rpc_peers_identify(
	struct berth_rpc_peers *peers, grpc_call *call, struct berth_rpc_principal *principal, struct berth_error *err)
{
	BERTH_AUTO(auth_cleanup) grpc_auth_context *auth = grpc.call_auth_context(call);
	const grpc_auth_property *pem = auth ? first_property(auth, GRPC_X509_PEM_CERT_PROPERTY_NAME) : NULL;
	if (!pem) {
		return berth_fail(err, BERTH_ERROR_UNAUTHENTICATED, "the client showed no certificate");
	}
	const struct kept *kept = find_kept(peers, pem);
	if (!kept) {
		kept = keep(peers, auth, pem);
	}
	if (!kept->known) {
		*err = kept->error;
		return false;
	}
	*principal = kept->principal;
	return true;
}
