// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/library_locks.h"

#include <absl/synchronization/mutex.h>

void berth_rpc_locks_unwatched(void)
{
	absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}
