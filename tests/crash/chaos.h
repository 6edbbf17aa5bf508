// SPDX-License-Identifier: Apache-2.0
// Jobs without an end on a coordinator that is killed at random moments, start and recovery included.
#pragma once

#include <stdint.h>

#include "tests/crash/script.h"

struct chaos_options {
	uint64_t seed;
	unsigned kills;       // to be reached
	unsigned audit_every; // kills between two audits of the ledger at rest
	const char *berth;    // the command
};

// Prints a line at each audit: kills, lives, jobs, trials, cancels, amendments, checks, events, worst recovery in ms.
// Lines are cumulative. The folder is an empty one.
void chaos_run(struct script *script, const struct chaos_options *options);
