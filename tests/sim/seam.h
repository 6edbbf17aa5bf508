// SPDX-License-Identifier: Apache-2.0
// The system as the real code sees it: clocks, threads, randomness, files.
#pragma once

#include <stdint.h>

void sim_seam_begin(uint64_t seed);
