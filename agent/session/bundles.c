// SPDX-License-Identifier: Apache-2.0
#include "agent/session/bundles.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/session/transfer.h"
#include "common/base/cancel.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"

#define WAIT_SLICE_MS      20 // how late a waiter sees its cancel token
#define TREE_FDS           16
#define FETCH_DIGEST_TRIES 2

struct bundle {
	char hex[BERTH_DIGEST_HEX_SIZE];
	bool ready, fetching;
	unsigned users;
	int64_t bytes;
	struct timespec used;
	struct bundle *prev, *next;
};

struct bundles {
	char *folder;
	int64_t bytes_max;
	struct berth_rpc_channel *channel;
	pthread_mutex_t lock;
	struct bundle *list;
};

static _Thread_local int64_t tree_bytes;

static int add_size(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
	(void)path;
	(void)kind;
	(void)walk;
	tree_bytes += (int64_t)info->st_blocks * 512;
	return 0;
}

static int64_t size_of_tree(const char *path)
{
	tree_bytes = 0;
	nftw(path, add_size, TREE_FDS, FTW_PHYS);
	return tree_bytes;
}

static bool is_digest(const char *name)
{
	uint8_t bytes[BERTH_DIGEST_SIZE];
	return berth_unhex(name, bytes, sizeof bytes);
}

static void remember(struct bundles *bundles, const char *hex)
{
	BERTH_AUTO_FREE char *path = berth_path_join(bundles->folder, hex);
	struct stat info;
	if (stat(path, &info) < 0) {
		return;
	}
	struct bundle *bundle = berth_alloc(sizeof *bundle);
	memcpy(bundle->hex, hex, BERTH_DIGEST_HEX_SIZE - 1);
	bundle->ready = true;
	bundle->bytes = size_of_tree(path);
	bundle->used = info.st_mtim;
	DL_APPEND(bundles->list, bundle);
}

// Whole bundles stay, cut downloads stay to be gone on with, half-unpacked folders go.
static bool scan(struct bundles *bundles, struct berth_error *err)
{
	DIR *dir = opendir(bundles->folder);
	if (!dir) {
		return berth_fail_errno(err, "cannot read %s", bundles->folder);
	}
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		const char *dot = strrchr(entry->d_name, '.');
		if (is_digest(entry->d_name)) {
			remember(bundles, entry->d_name);
		} else if (dot && strcmp(dot, ".new") == 0) {
			BERTH_AUTO_FREE char *path = berth_path_join(bundles->folder, entry->d_name);
			berth_remove_all(path, NULL);
		}
	}
	closedir(dir);
	return true;
}

struct bundles *bundles_open(
	const char *folder, int64_t bytes_max, struct berth_rpc_channel *channel, struct berth_error *err)
{
	struct bundles *bundles = berth_alloc(sizeof *bundles);
	bundles->folder = berth_strdup(folder);
	bundles->bytes_max = bytes_max;
	bundles->channel = channel;
	pthread_mutex_init(&bundles->lock, NULL);
	if (!berth_mkdir_all(folder, 0700, err) || !scan(bundles, err)) {
		bundles_close(bundles);
		return NULL;
	}
	return bundles;
}

void bundles_close(struct bundles *bundles)
{
	if (!bundles) {
		return;
	}
	struct bundle *bundle, *after;
	DL_FOREACH_SAFE (bundles->list, bundle, after) {
		free(bundle);
	}
	pthread_mutex_destroy(&bundles->lock);
	free(bundles->folder);
	free(bundles);
}

// --- one fetch ---
static bool check_tar(const char *path, const Berth__V1__BlobRef *blob, struct berth_error *err)
{
	struct berth_digest digest;
	int64_t size;
	if (!transfer_digest_file(path, &digest, &size, err)) {
		return false;
	}
	if (size != blob->size || memcmp(digest.bytes, blob->sha256.data, BERTH_DIGEST_SIZE) != 0) {
		unlink(path);
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the coordinator sent other bytes than the bundle's");
	}
	return true;
}

static bool unpack(struct bundles *bundles, const char *tar, const char *target, struct berth_error *err)
{
	BERTH_AUTO_FREE char *fresh = berth_format("%s.new", target);
	BERTH_AUTO_CLOSE int fd = open(tar, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot read %s", tar);
	}
	struct berth_untar_options options = {
		.exact_modes = true, .content_size_max = BUNDLE_BYTES_MAX, .entries_max = BUNDLE_ENTRIES_MAX};
	if (!berth_remove_all(fresh, err) || !berth_untar(berth_source_fd(&fd), fresh, &options, err)) {
		berth_remove_all(fresh, NULL);
		return false;
	}
	// What has its final name is whole after a crash as well.
	if (syncfs(fd) < 0 || rename(fresh, target) < 0) {
		return berth_fail_errno(err, "cannot keep %s", target);
	}
	unlink(tar);
	return berth_sync_dir(bundles->folder, err);
}

static bool fetch(struct bundles *bundles, const char *hex, const Berth__V1__BlobRef *blob, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *target = berth_path_join(bundles->folder, hex);
	BERTH_AUTO_FREE char *tar = berth_format("%s.part", target);
	for (int attempt = 1;; attempt++) {
		if (!transfer_get(bundles->channel, blob, tar, until, err)) {
			return false;
		}
		if (check_tar(tar, blob, err)) {
			return unpack(bundles, tar, target, err);
		}
		if (attempt == FETCH_DIGEST_TRIES) {
			return false;
		}
	}
}

// --- who holds what ---
static struct bundle *find(struct bundles *bundles, const char *hex)
{
	struct bundle *bundle;
	DL_FOREACH (bundles->list, bundle) {
		if (strcmp(bundle->hex, hex) == 0) {
			return bundle;
		}
	}
	return NULL;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

// Takes the bundle that was used least recently out of the list, when all are above the bound.
static struct bundle *take_victim(struct bundles *bundles)
{
	struct bundle *bundle, *victim = NULL;
	int64_t bytes = 0;
	DL_FOREACH (bundles->list, bundle) {
		bytes += bundle->bytes;
		bool idle = bundle->ready && bundle->users == 0;
		if (idle && (!victim || is_before(&bundle->used, &victim->used))) {
			victim = bundle;
		}
	}
	if (bytes <= bundles->bytes_max || !victim) {
		return NULL;
	}
	DL_DELETE(bundles->list, victim);
	return victim;
}

static void make_room(struct bundles *bundles)
{
	for (;;) {
		pthread_mutex_lock(&bundles->lock);
		struct bundle *victim = take_victim(bundles);
		BERTH_AUTO_FREE char *gone = NULL;
		if (victim) {
			// Renamed under the lock, so that a new fetch of the same bundle does not meet it.
			BERTH_AUTO_FREE char *path = berth_path_join(bundles->folder, victim->hex);
			gone = berth_format("%s.%p.new", path, (void *)victim);
			rename(path, gone);
		}
		pthread_mutex_unlock(&bundles->lock);
		if (!victim) {
			return;
		}
		berth_log_info("removed an unused bundle", "digest=%s", victim->hex);
		berth_remove_all(gone, NULL);
		free(victim);
	}
}

// Waits until the bundle is there or nobody fetches it; then the caller fetches. True: it is held and ready.
static bool join(struct bundles *bundles, const char *hex, struct bundle **mine, struct berth_until until)
{
	*mine = NULL;
	for (;;) {
		pthread_mutex_lock(&bundles->lock);
		struct bundle *bundle = find(bundles, hex);
		bool ready = bundle && bundle->ready;
		if (ready) {
			bundle->users++;
		} else if (!bundle) {
			bundle = berth_alloc(sizeof *bundle);
			memcpy(bundle->hex, hex, BERTH_DIGEST_HEX_SIZE - 1);
			bundle->fetching = true;
			DL_APPEND(bundles->list, bundle);
			*mine = bundle;
		}
		pthread_mutex_unlock(&bundles->lock);
		if (ready || *mine || !berth_sleep_ms(WAIT_SLICE_MS, until, NULL)) {
			return ready;
		}
	}
}

static void settle(struct bundles *bundles, struct bundle *mine, bool fetched, int64_t bytes)
{
	pthread_mutex_lock(&bundles->lock);
	if (fetched) {
		mine->ready = true;
		mine->fetching = false;
		mine->users = 1;
		mine->bytes = bytes;
	} else {
		DL_DELETE(bundles->list, mine);
		free(mine);
	}
	pthread_mutex_unlock(&bundles->lock);
}

static bool hex_of(const Berth__V1__BlobRef *blob, char hex[static BERTH_DIGEST_HEX_SIZE], struct berth_error *err)
{
	if (!blob || blob->sha256.len != BERTH_DIGEST_SIZE || blob->size < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the assignment names no bundle");
	}
	berth_hex(blob->sha256.data, BERTH_DIGEST_SIZE, hex);
	return true;
}

char *bundles_hold(
	struct bundles *bundles, const Berth__V1__BlobRef *blob, struct berth_until until, struct berth_error *err)
{
	char hex[BERTH_DIGEST_HEX_SIZE];
	if (!hex_of(blob, hex, err)) {
		return NULL;
	}
	struct bundle *mine;
	if (join(bundles, hex, &mine, until)) {
		return berth_path_join(bundles->folder, hex);
	}
	if (!mine) {
		berth_fail_until(until, err, "the fetch of a bundle");
		return NULL;
	}
	bool fetched = fetch(bundles, hex, blob, until, err);
	char *path = berth_path_join(bundles->folder, hex);
	settle(bundles, mine, fetched, fetched ? size_of_tree(path) : 0);
	if (!fetched) {
		berth_error_wrap(err, "bundle %.12s", hex);
		free(path);
		return NULL;
	}
	make_room(bundles);
	return path;
}

void bundles_release(struct bundles *bundles, const Berth__V1__BlobRef *blob)
{
	char hex[BERTH_DIGEST_HEX_SIZE];
	if (!hex_of(blob, hex, NULL)) {
		return;
	}
	BERTH_AUTO_FREE char *path = berth_path_join(bundles->folder, hex);
	utimensat(AT_FDCWD, path, NULL, 0); // the order of use outlives the agent
	pthread_mutex_lock(&bundles->lock);
	struct bundle *bundle = find(bundles, hex);
	if (bundle) {
		bundle->users--;
		clock_gettime(CLOCK_REALTIME, &bundle->used);
	}
	pthread_mutex_unlock(&bundles->lock);
	make_room(bundles);
}
