// SPDX-License-Identifier: Apache-2.0
// Files that hold a key: owner-only, read into memory that is wiped. Any thread; all block on the disk.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/error.h"

// Appends the file's bytes to `out`. DENIED when the group or others may touch the file (the message says chmod).
bool berth_private_file_read(const char *path, size_t size_max, struct berth_buf *out, struct berth_error *err);
// Makes the file with mode 0600, synced; one that exists already is left as it is, also in a race of two makers.
bool berth_private_file_make(const char *path, const void *data, size_t size, struct berth_error *err);
// Wipes the bytes, then frees; also as BERTH_AUTO(berth_private_buf_free).
void berth_private_buf_free(struct berth_buf *buf);
