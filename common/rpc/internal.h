// SPDX-License-Identifier: Apache-2.0
// What server and client of this folder share: bytes on the wire, clocks, credentials, and what TSan must be told.
#pragma once

#include "common/base/arena.h"
#include "common/base/clock.h"
#include "common/rpc/descriptor.h"
#include "common/rpc/grpc_library.h"
#include "common/rpc/rpc.h"

#define BERTH_RPC_DETAILS_KEY           "grpc-status-details-bin"
#define BERTH_RPC_KEEPALIVE_MS          20000
#define BERTH_RPC_KEEPALIVE_TIMEOUT_MS  10000
#define BERTH_RPC_METADATA_SIZE_MAX     (16 * 1024)
#define BERTH_RPC_WINDOW_BYTES          (1024 * 1024) // that a stream may send before it is read
#define BERTH_RPC_COMPRESSION_NONE_BITS 1 // only the identity: a compressed message could grow beyond its limit

// A tag passes through a completion queue of a library that TSan does not see into: without these two it would call
// every hand-over a race.
#if defined(__SANITIZE_THREAD__)
#define BERTH_RPC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BERTH_RPC_TSAN 1
#endif
#endif
#ifdef BERTH_RPC_TSAN
#include <sanitizer/tsan_interface.h>
#define BERTH_HAND_OVER(tag) __tsan_release(tag)
#define BERTH_TAKE_OVER(tag) __tsan_acquire(tag)
#else
#define BERTH_HAND_OVER(tag) ((void)(tag))
#define BERTH_TAKE_OVER(tag) ((void)(tag))
#endif

// wire.c
// `room`: bytes that it will probably not exceed; 0: not known.
grpc_byte_buffer *berth_rpc_pack(const ProtobufCMessage *message, size_t room);
// NULL when the bytes are no such message. The buffer stays the caller's. With `arena`: the message is in a new one,
// which is the caller's also when this fails (and may be NULL then); without: freed by berth_proto_free.
ProtobufCMessage *berth_rpc_unpack(
	const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer, struct berth_arena **arena);
bool berth_rpc_slice_is(grpc_slice slice, const char *text);
char *berth_rpc_slice_text(grpc_slice slice); // the caller frees
// The boot clock's deadline as gRPC's monotonic one, so that a step of the wall clock does not move it.
gpr_timespec berth_rpc_deadline(int64_t deadline_ns);
// Milliseconds until a deadline of gRPC's, not below 0; INT64_MAX for one that never comes.
int64_t berth_rpc_left_ms(gpr_timespec deadline);
// Fills err from a status that is not OK: its code and the reason in its details.
void berth_rpc_status_error(grpc_status_code status, grpc_slice message, const grpc_metadata_array *trailers,
	const char *address, struct berth_error *err);

// credentials.c: the server's from what berth_rpc_tls_check has passed; the channel's are checked here.
grpc_server_credentials *berth_rpc_server_credentials(const struct berth_rpc_tls *tls, struct berth_error *err);
grpc_channel_credentials *berth_rpc_channel_credentials(const struct berth_rpc_tls *tls, struct berth_error *err);

// peer.c: who calls, with the answers for the last certificates kept. One thread.
struct berth_rpc_peers;
struct berth_rpc_peers *berth_rpc_peers_new(const char *fleet);
void berth_rpc_peers_free(struct berth_rpc_peers *peers);
// UNAUTHENTICATED when the certificate names nobody, DENIED for another fleet's.
bool berth_rpc_peers_identify(
	struct berth_rpc_peers *peers, grpc_call *call, struct berth_rpc_principal *principal, struct berth_error *err);

// address.c: why a server could not listen there, and whether a unix socket is someone's already.
bool berth_rpc_address_fail(const char *address, struct berth_error *err);
bool berth_rpc_address_is_served(const char *address);
