// SPDX-License-Identifier: Apache-2.0
// The mark of a data folder that was made from a backup, DATA/restored.json: which backup, and why. The first start on
// it tells the fleet, and removes the mark once that is committed.
#pragma once

#include <stdbool.h>

#include "common/base/digest.h"
#include "common/base/error.h"

struct berth_restored {
	uint64_t size; // events of the backup
	struct berth_digest leaf, root;
	char reason[512];
};

bool berth_restored_write(const char *data_folder, const struct berth_restored *restored, struct berth_error *err);
// *found: there is one. CORRUPT when it can't be read.
bool berth_restored_read(
	const char *data_folder, struct berth_restored *restored, bool *found, struct berth_error *err);
bool berth_restored_remove(const char *data_folder, struct berth_error *err);
