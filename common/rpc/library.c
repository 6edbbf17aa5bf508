// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/cancel.h"
#include "common/base/log.h"
#include "common/rpc/internal.h"

// gRPC's own lines go where ours go. It writes errors only, unless GRPC_VERBOSITY asks for more.
static void log_line(gpr_log_func_args *args)
{
	enum berth_log_level level = args->severity == GPR_LOG_SEVERITY_ERROR  ? BERTH_LOG_WARN
	                             : args->severity == GPR_LOG_SEVERITY_INFO ? BERTH_LOG_INFO
	                                                                       : BERTH_LOG_DEBUG;
	berth_log(level, "gRPC reports", "text=%s", berth_log_quote(args->message));
}

// A channel moves only while some thread polls, and ours poll only inside calls. When a call fails at once because the
// server is away, it is this poll that finishes the connecting; at the library's own 5 s each handshake times out
// first.
#define BACKUP_POLL_MS "100"

// A connection that was cut off half made holds the library for as long as its handshake may take. Nobody should wait
// for that; only a search for leaks must.
#if defined(__SANITIZE_ADDRESS__)
#define END_MS 30000
#else
#define END_MS 500
#endif
#define END_STEP_MS 2

static atomic_bool kept, used;

static void set_up(void)
{
	gpr.set_log_function(log_line);
	rpc_grpc_locks_unwatched();
	setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", BACKUP_POLL_MS, 0);
	if (atomic_load(&kept)) {
		grpc.init(); // a hold that nobody gives back
	}
}

void berth_rpc_library_keep(void)
{
	atomic_store(&kept, true);
}

bool berth_rpc_library_hold(struct berth_error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (!rpc_grpc_load(err)) {
		return false;
	}
	pthread_once(&once, set_up);
	grpc.init();
	atomic_store(&used, true);
	return true;
}

void berth_rpc_library_release(void)
{
	grpc.shutdown();
}

void berth_rpc_library_end(void)
{
	struct berth_until until = berth_within_ms(END_MS, NULL);
	while (atomic_load(&used) && grpc.is_initialized() && berth_sleep_ms(END_STEP_MS, until, NULL)) {
	}
}
