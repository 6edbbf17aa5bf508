// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdbool.h>
#include <stdint.h>

// `reachable` is asked at the end of each transfer: false makes it begin again.
void sim_blobs_begin(uint64_t seed, bool (*reachable)(void));
