// SPDX-License-Identifier: Apache-2.0
// Inside coordinator/blob only. On disk: FOLDER/aa/HEX for the blob whose digest starts with aa, FOLDER/tmp for those
// that are being written.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/blob/blob.h"

#define BLOB_WRITERS_MAX 256
#define BLOB_PINS_MAX    65536 // a power of two; fuller than half, pins that are over make room, else the sweep waits

struct blob_pin {
	bool used;
	struct berth_digest digest;
	int64_t until_ns; // boot clock
};

struct berth_blobs {
	char *folder;
	int64_t disk_free_min_bytes;

	pthread_mutex_t lock;
	pthread_cond_t writer_gone;
	struct berth_digest writing[BLOB_WRITERS_MAX]; // digests that have a writer
	int writing_count;
	struct blob_pin *pins; // open addressing, BLOB_PINS_MAX places
	uint32_t pin_count;
	int64_t next_drop_ns;     // before this no search for pins that are over: it reads the whole table
	int64_t pin_all_until_ns; // there were more pins than places: nothing is swept before this
};

char *blob_path(const struct berth_blobs *blobs, const struct berth_digest *digest);
// EXHAUSTED when less than the watermark and `size` bytes are free.
bool blob_disk_check(const struct berth_blobs *blobs, int64_t size, struct berth_error *err);

// Under the lock.
void blob_pin(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t now_ns);
bool blob_pinned(const struct berth_blobs *blobs, const struct berth_digest *digest, int64_t now_ns);
bool blob_has_writer(const struct berth_blobs *blobs, const struct berth_digest *digest);
