// SPDX-License-Identifier: Apache-2.0
// The floor: a small file that says which event was last reported as committed, written after each commit and never
// synced. It survives the process and mostly the machine, and it is never ahead of the log. It catches what a store
// alone cannot: a log whose tail was damaged in a way that looks like a torn write is cut there, and nothing in it
// tells.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

#define FLOOR_MAGIC      "berthfl1"
#define FLOOR_MAGIC_SIZE 8
#define FLOOR_MODE       0600

struct floor_record {
	uint8_t magic[FLOOR_MAGIC_SIZE];
	uint8_t sequence[LEDGER_KEY_SIZE];
	struct berth_digest leaf;
	struct berth_digest check; // of what is before it
};

static struct berth_digest check_of(const struct floor_record *record)
{
	return berth_sha256(record, offsetof(struct floor_record, check));
}

bool ledger_floor_open(struct berth_ledger *ledger, struct ledger_floor *floor, struct berth_error *err)
{
	memset(floor, 0, sizeof *floor);
	BERTH_AUTO_FREE char *path = berth_path_join(ledger->data_folder, "ledger.floor");
	ledger->floor_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FLOOR_MODE);
	if (ledger->floor_fd < 0) {
		return berth_fail_errno(err, "cannot open %s", path);
	}
	struct floor_record record;
	if (pread(ledger->floor_fd, &record, sizeof record, 0) != sizeof record) {
		return true; // new, or its first write was lost with the power
	}
	struct berth_digest check = check_of(&record);
	if (memcmp(record.magic, FLOOR_MAGIC, FLOOR_MAGIC_SIZE) == 0 && berth_digest_equal(&check, &record.check)) {
		floor->sequence = ledger_key_sequence(record.sequence);
		floor->leaf = record.leaf;
	}
	return true;
}

void ledger_floor_set(struct berth_ledger *ledger, const struct ledger_floor *floor)
{
	struct floor_record record;
	memcpy(record.magic, FLOOR_MAGIC, FLOOR_MAGIC_SIZE);
	ledger_key(floor->sequence, record.sequence);
	record.leaf = floor->leaf;
	record.check = check_of(&record);
	// A floor that stays behind is still true: failing here takes nothing from the commit.
	ssize_t written = pwrite(ledger->floor_fd, &record, sizeof record, 0);
	(void)written;
}
