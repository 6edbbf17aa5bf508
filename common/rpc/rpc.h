// SPDX-License-Identifier: Apache-2.0
// What server and client share: who a peer is, which side of a method streams, and transport security.
//
// Methods are never written down twice. Names and message types come from protobuf-c's service descriptors; which side
// streams comes from the FileDescriptorSet that is embedded at build time (protobuf-c drops it). Both are compared when
// a server or a channel is made, and a difference is an error there, not at the first call.
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define BERTH_RPC_MESSAGE_SIZE_MAX (16 * 1024 * 1024)
#define BERTH_RPC_NAME_MAX         128

enum berth_rpc_kind {
	BERTH_RPC_UNARY,
	BERTH_RPC_CLIENT_STREAM,
	BERTH_RPC_SERVER_STREAM,
	BERTH_RPC_BIDI,
};

// Finds a method in a serialized google.protobuf.FileDescriptorSet. NOT_FOUND names the method.
bool berth_rpc_method_kind(const void *descriptor_set, size_t size, const char *service, const char *method,
	enum berth_rpc_kind *kind, struct berth_error *err);

// Roles, as bits, so that a handler names all that may call it.
enum berth_rpc_role {
	BERTH_ROLE_AGENT = 1 << 0,       // spiffe://FLEET/agent/NAME
	BERTH_ROLE_USER = 1 << 1,        // spiffe://FLEET/user/NAME
	BERTH_ROLE_OPERATOR = 1 << 2,    // spiffe://FLEET/operator/NAME
	BERTH_ROLE_COORDINATOR = 1 << 3, // spiffe://FLEET/coordinator/NAME
	BERTH_ROLE_ANYONE = 1 << 4,      // no certificate asked: health
};

// Who is calling, from the URI SAN of the verified client certificate.
struct berth_rpc_principal {
	enum berth_rpc_role role;
	char fleet[BERTH_RPC_NAME_MAX]; // trust domain
	char name[BERTH_RPC_NAME_MAX];
	char certificate_sha256[65]; // hex of the DER certificate; empty without TLS
};

// Parses a SPIFFE id. INVALID names what is wrong with it. Names: [A-Za-z0-9][A-Za-z0-9._-]*, at most 63 bytes.
bool berth_rpc_principal_parse(const char *spiffe_id, struct berth_rpc_principal *principal, struct berth_error *err);
const char *berth_rpc_role_name(enum berth_rpc_role role);

// PEM texts. A server asks every client for a certificate of `authority`; a client takes only a server whose
// certificate is of `authority`.
struct berth_rpc_tls {
	const char *authority;
	const char *certificate;
	const char *key;
};
// INVALID when certificate, key and authority are no PEM or do not belong together. gRPC finds that out at the first
// handshake only, and then says little. It needs no gRPC.
bool berth_rpc_tls_check(const struct berth_rpc_tls *tls, struct berth_error *err);

// grpc_init and grpc_shutdown, counted; called by server and channel themselves. The first loads gRPC, and fails with
// UNSUPPORTED where it is not installed. A test for leaks calls the second and then waits until the library has cleaned
// up.
bool berth_rpc_library_hold(struct berth_error *err);
void berth_rpc_library_release(void);
// The last of a program: waits, not for long, until the library's own threads have cleaned up, so that none of them is
// cut off by the process's end.
void berth_rpc_library_end(void);
// Before the first use, instead of _end, by a program that ends with _exit: the library is never cleaned up.
void berth_rpc_library_keep(void);

// Packs `message` into google.rpc.Status bytes with one ErrorInfo (reason = error name, domain "berth"), the form of
// the trailer grpc-status-details-bin; and reads the reason back (empty when there is none).
void berth_rpc_status_details(const struct berth_error *error, uint8_t **details, size_t *size); // caller frees
bool berth_rpc_status_reason(const void *details, size_t size, char reason[static BERTH_RPC_NAME_MAX]);
