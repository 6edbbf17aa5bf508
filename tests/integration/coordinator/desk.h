// SPDX-License-Identifier: Apache-2.0
// An operator at the coordinator of the quay, who types `berth` commands.
#pragma once

#include "tests/integration/coordinator/quay.h"
#include "tests/unit/cli/fake.h"

struct desk {
	struct fixture *quay;
	struct shell shell;
	char *address, *blobs, *credentials, *proof;
	const char *env[9];
};

int desk_setup(void **state);
int desk_teardown(void **state);
void desk_point_at(struct desk *desk); // where the coordinator is now, after a restart
