// SPDX-License-Identifier: Apache-2.0
// Pins: a bounded table in memory. After a restart there are none, and no sweep runs before clients have asked again.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/blob/blob_internal.h"

#define DROP_EVERY_MS (60 * 1000)

static uint32_t place_of(const struct berth_digest *digest)
{
	uint32_t start;
	memcpy(&start, digest->bytes, sizeof start); // a digest is as good as random
	return start & (BLOB_PINS_MAX - 1);
}

// The pin of the digest, or the free place where it would go. The table is never full.
static struct blob_pin *find(struct blob_pin *pins, const struct berth_digest *digest)
{
	uint32_t at = place_of(digest);
	while (pins[at].used && !berth_digest_equal(&pins[at].digest, digest)) {
		at = (at + 1) & (BLOB_PINS_MAX - 1);
	}
	return &pins[at];
}

static void drop_those_over(struct berth_blobs *blobs, int64_t now_ns)
{
	struct blob_pin *old = blobs->pins;
	blobs->pins = berth_alloc(BLOB_PINS_MAX * sizeof *blobs->pins);
	blobs->pin_count = 0;
	for (uint32_t i = 0; i < BLOB_PINS_MAX; i++) {
		if (old[i].used && old[i].until_ns > now_ns) {
			*find(blobs->pins, &old[i].digest) = old[i];
			blobs->pin_count++;
		}
	}
	free(old);
}

void blob_pin(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t now_ns)
{
	int64_t until_ns = now_ns + BERTH_BLOB_PIN_MS * BERTH_NS_PER_MS;
	struct blob_pin *pin = find(blobs->pins, digest);
	if (!pin->used && blobs->pin_count >= BLOB_PINS_MAX / 2 && now_ns >= blobs->next_drop_ns) {
		blobs->next_drop_ns = now_ns + DROP_EVERY_MS * BERTH_NS_PER_MS;
		drop_those_over(blobs, now_ns);
		pin = find(blobs->pins, digest);
	}
	if (!pin->used && blobs->pin_count >= BLOB_PINS_MAX / 2) {
		blobs->pin_all_until_ns = until_ns;
		return;
	}
	blobs->pin_count += pin->used ? 0 : 1;
	*pin = (struct blob_pin){.used = true, .digest = *digest, .until_ns = until_ns};
}

bool blob_pinned(const struct berth_blobs *blobs, const struct berth_digest *digest, int64_t now_ns)
{
	const struct blob_pin *pin = find(blobs->pins, digest);
	return blobs->pin_all_until_ns > now_ns || (pin->used && pin->until_ns > now_ns);
}

void berth_blobs_pin(struct berth_blobs *blobs, const struct berth_digest *digest)
{
	pthread_mutex_lock(&blobs->lock);
	blob_pin(blobs, digest, berth_boot_ns());
	pthread_mutex_unlock(&blobs->lock);
}
