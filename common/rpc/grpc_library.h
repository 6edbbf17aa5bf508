// SPDX-License-Identifier: Apache-2.0
// gRPC Core's functions, loaded with the first server or channel: grpc.call_unref is its header's grpc_call_unref, and
// gpr.now its gpr_now. It brings some 45 libraries, which a command that calls nobody does without.
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdbool.h>

#include "common/base/error.h"

#define RPC_GRPC_CALLS(X)                                                                                              \
	X(auth_context_find_properties_by_name)                                                                        \
	X(auth_context_release)                                                                                        \
	X(auth_property_iterator_next)                                                                                 \
	X(byte_buffer_destroy)                                                                                         \
	X(byte_buffer_length)                                                                                          \
	X(byte_buffer_reader_destroy)                                                                                  \
	X(byte_buffer_reader_init)                                                                                     \
	X(byte_buffer_reader_peek)                                                                                     \
	X(byte_buffer_reader_readall)                                                                                  \
	X(call_auth_context)                                                                                           \
	X(call_cancel)                                                                                                 \
	X(call_details_destroy)                                                                                        \
	X(call_details_init)                                                                                           \
	X(call_error_to_string)                                                                                        \
	X(call_failed_before_recv_message)                                                                             \
	X(call_get_peer)                                                                                               \
	X(call_start_batch)                                                                                            \
	X(call_unref)                                                                                                  \
	X(channel_create)                                                                                              \
	X(channel_create_registered_call)                                                                              \
	X(channel_credentials_release)                                                                                 \
	X(channel_destroy)                                                                                             \
	X(channel_register_call)                                                                                       \
	X(completion_queue_create_for_next)                                                                            \
	X(completion_queue_create_for_pluck)                                                                           \
	X(completion_queue_destroy)                                                                                    \
	X(completion_queue_next)                                                                                       \
	X(completion_queue_pluck)                                                                                      \
	X(completion_queue_shutdown)                                                                                   \
	X(empty_slice)                                                                                                 \
	X(init)                                                                                                        \
	X(insecure_credentials_create)                                                                                 \
	X(insecure_server_credentials_create)                                                                          \
	X(is_initialized)                                                                                              \
	X(metadata_array_destroy)                                                                                      \
	X(metadata_array_init)                                                                                         \
	X(raw_byte_buffer_create)                                                                                      \
	X(server_add_http2_port)                                                                                       \
	X(server_cancel_all_calls)                                                                                     \
	X(server_create)                                                                                               \
	X(server_credentials_release)                                                                                  \
	X(server_destroy)                                                                                              \
	X(server_register_completion_queue)                                                                            \
	X(server_register_method)                                                                                      \
	X(server_request_call)                                                                                         \
	X(server_request_registered_call)                                                                              \
	X(server_shutdown_and_notify)                                                                                  \
	X(server_start)                                                                                                \
	X(shutdown)                                                                                                    \
	X(slice_from_copied_buffer)                                                                                    \
	X(slice_from_copied_string)                                                                                    \
	X(slice_from_static_string)                                                                                    \
	X(slice_new_with_user_data)                                                                                    \
	X(slice_unref)                                                                                                 \
	X(ssl_credentials_create_ex)                                                                                   \
	X(ssl_server_credentials_create_ex)

#define RPC_GPR_CALLS(X)                                                                                               \
	X(free)                                                                                                        \
	X(inf_future)                                                                                                  \
	X(now)                                                                                                         \
	X(set_log_function)                                                                                            \
	X(time_add)                                                                                                    \
	X(time_cmp)                                                                                                    \
	X(time_from_nanos)                                                                                             \
	X(time_sub)

struct rpc_grpc {
#define X(name) __typeof__(grpc_##name) *name;
	RPC_GRPC_CALLS(X)
#undef X
};

struct rpc_gpr {
#define X(name) __typeof__(gpr_##name) *name;
	RPC_GPR_CALLS(X)
#undef X
};

extern struct rpc_grpc grpc; // whole, as is the next, once rpc_grpc_load gave true
extern struct rpc_gpr gpr;

bool rpc_grpc_load(struct berth_error *err);
// Debian builds the locks that gRPC uses so that each one that is taken is looked up in a graph of all that are, under
// one lock of the process, to report what could block. That is for those who work on gRPC and costs each message some
// microseconds. After rpc_grpc_load; where it can't be switched off, everything works all the same.
void rpc_grpc_locks_unwatched(void);
