// SPDX-License-Identifier: Apache-2.0
// Blobs of texts, and what is left in the folder of unfinished ones.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/blob/blob.h"

struct fixture {
	char *folder;
	struct berth_blobs *blobs;
};

int set_up(void **state);
int tear_down(void **state);
void reopen(struct fixture *fixture);

struct berth_digest digest_of(const char *text);
struct berth_blob_writer *must_write(struct berth_blobs *blobs, const char *text); // opened, nothing added
void put_text(struct berth_blobs *blobs, const char *text);
bool has_text(struct berth_blobs *blobs, const char *text);
int count_unfinished(const struct fixture *fixture);
