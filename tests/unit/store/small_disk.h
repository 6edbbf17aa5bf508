// SPDX-License-Identifier: Apache-2.0
// A disk of 64 MiB: a tmpfs in a mount namespace that only this process sees.
#pragma once

#include <stdint.h>

#define MIB (INT64_C(1024) * 1024)

// Group set-up and tear-down. Before anything starts a thread.
int small_disk_mount(void **state);
int small_disk_unmount(void **state);
// A path on the disk; skips the test where this machine lets us mount nothing. The caller frees.
char *small_disk_folder(const char *name);
char *small_disk_fill(int64_t bytes); // takes that much room
void small_disk_empty(char *filler);  // gives it back
