// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/grpc_library.h"

#include "common/base/late.h"
#include "common/base/mem.h"

#define CYCLES_IGNORED 0 // absl::OnDeadlockCycle::kIgnore

struct rpc_grpc grpc;
struct rpc_gpr gpr;

static const char *const grpc_names[] = {
#define X(name) "grpc_" #name,
	RPC_GRPC_CALLS(X)
#undef X
};

static const char *const gpr_names[] = {
#define X(name) "gpr_" #name,
	RPC_GPR_CALLS(X)
#undef X
};

// absl::SetMutexDeadlockDetectionMode, by the name that this version's library has it under.
static struct {
	void (*set_mode)(int mode);
} locks;
static const char *const locks_names[] = {
	"_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE",
};

static struct berth_late late_grpc = {
	.file = "libgrpc.so.29",
	.package = "libgrpc29",
	.names = grpc_names,
	.functions = &grpc,
	.count = BERTH_COUNT(grpc_names),
};

static struct berth_late late_gpr = {
	.file = "libgpr.so.29",
	.package = "libgrpc29",
	.names = gpr_names,
	.functions = &gpr,
	.count = BERTH_COUNT(gpr_names),
};

static struct berth_late late_locks = {
	.file = "libabsl_synchronization.so.20220623",
	.package = "libabsl20220623",
	.names = locks_names,
	.functions = &locks,
	.count = BERTH_COUNT(locks_names),
};

bool rpc_grpc_load(struct berth_error *err)
{
	return berth_late_load(&late_grpc, err) && berth_late_load(&late_gpr, err);
}

void rpc_grpc_locks_unwatched(void)
{
	struct berth_error err;
	if (berth_late_load(&late_locks, &err)) {
		locks.set_mode(CYCLES_IGNORED);
	}
}
