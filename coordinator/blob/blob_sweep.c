// SPDX-License-Identifier: Apache-2.0
// Walks over every blob. The sweep removes what nothing needs; it takes the lock for one blob at a time, so that
// uploads go on beside it.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/blob/blob_internal.h"

#define PREFIXES 256

struct sweep {
	struct berth_blobs *blobs;
	bool (*keep)(void *context, const struct berth_digest *digest);
	void *context;
	uint64_t removed;
};

static void dir_cleanup(DIR **dir)
{
	if (*dir) {
		closedir(*dir);
	}
}

// The pin is asked under the lock in which the blob loses its name: whoever pins first and then asks for the blob gets
// the truth. Giving its blocks back may take long and comes after.
static bool remove_unneeded(
	struct sweep *sweep, const char *path, const struct berth_digest *digest, struct berth_error *err)
{
	struct berth_blobs *blobs = sweep->blobs;
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	BERTH_AUTO_FREE char *aside = berth_format("%s/tmp/%s", blobs->folder, id);
	pthread_mutex_lock(&blobs->lock);
	bool needed = blob_pinned(blobs, digest, berth_boot_ns()) || blob_has_writer(blobs, digest);
	bool failed = !needed && rename(path, aside) < 0;
	int cause = errno;
	pthread_mutex_unlock(&blobs->lock);
	if (needed || (failed && cause == ENOENT)) {
		return true;
	}
	errno = cause;
	if (failed || unlink(aside) < 0) {
		return berth_fail_errno(err, "cannot remove the blob %s", path);
	}
	sweep->removed++;
	return true;
}

static bool sweep_one(void *context, const char *path, const struct berth_digest *digest, struct berth_error *err)
{
	struct sweep *sweep = context;
	return sweep->keep(sweep->context, digest) || remove_unneeded(sweep, path, digest, err);
}

typedef bool visit_fn(void *context, const char *path, const struct berth_digest *digest, struct berth_error *err);

static bool walk_folder(const char *folder, visit_fn *visit, void *context, struct berth_error *err)
{
	BERTH_AUTO(dir_cleanup) DIR *dir = opendir(folder);
	if (!dir) {
		return berth_fail_errno(err, "cannot read the folder %s", folder);
	}
	for (struct dirent *entry; errno = 0, (entry = readdir(dir));) {
		struct berth_digest digest;
		if (!berth_unhex(entry->d_name, digest.bytes, BERTH_DIGEST_SIZE)) {
			continue;
		}
		BERTH_AUTO_FREE char *path = berth_format("%s/%s", folder, entry->d_name);
		if (!visit(context, path, &digest, err)) {
			return false;
		}
	}
	return errno == 0 || berth_fail_errno(err, "cannot read the folder %s", folder);
}

static bool walk(struct berth_blobs *blobs, visit_fn *visit, void *context, struct berth_error *err)
{
	bool walked = true;
	for (unsigned i = 0; i < PREFIXES && walked; i++) {
		const uint8_t byte = (uint8_t)i;
		char name[3];
		berth_hex(&byte, 1, name);
		BERTH_AUTO_FREE char *folder = berth_format("%s/%s", blobs->folder, name);
		walked = walk_folder(folder, visit, context, err);
	}
	return walked;
}

bool berth_blobs_sweep(struct berth_blobs *blobs, bool (*keep)(void *context, const struct berth_digest *digest),
	void *context, uint64_t *removed, struct berth_error *err)
{
	struct sweep sweep = {.blobs = blobs, .keep = keep, .context = context};
	bool swept = walk(blobs, sweep_one, &sweep, err);
	*removed = sweep.removed;
	return swept;
}

struct each {
	void (*visit)(void *context, const struct berth_digest *digest, int64_t size);
	void *context;
};

static bool visit_one(void *context, const char *path, const struct berth_digest *digest, struct berth_error *err)
{
	const struct each *each = context;
	struct stat status;
	if (stat(path, &status) < 0) {
		return errno == ENOENT || berth_fail_errno(err, "cannot look at %s", path); // swept meanwhile
	}
	each->visit(each->context, digest, status.st_size);
	return true;
}

bool berth_blobs_each(struct berth_blobs *blobs,
	void (*visit)(void *context, const struct berth_digest *digest, int64_t size), void *context,
	struct berth_error *err)
{
	struct each each = {visit, context};
	return walk(blobs, visit_one, &each, err);
}
