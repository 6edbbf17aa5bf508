// SPDX-License-Identifier: Apache-2.0
// A task's folder as one blob: packed to a file without a name, hashed on the way, put only where it is missing.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "berth/v1/blob.pb-c.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/submission.h"

struct packer {
	int fd;
	int64_t size;
	struct berth_hasher *hasher;
	struct berth_cancel *cancel;
};

static bool pack_put(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct packer *packer = context;
	if (berth_cancel_fired(packer->cancel)) {
		return berth_fail(err, BERTH_ERROR_CANCELLED, "interrupted; nothing was submitted");
	}
	packer->size += (int64_t)size;
	berth_hasher_add(packer->hasher, data, size);
	return berth_write_all(packer->fd, data, size, err);
}

static int spool_open(struct berth_error *err)
{
	const char *folder = getenv("TMPDIR");
	BERTH_AUTO_FREE char *path = berth_format("%s/berth-XXXXXX", folder && *folder ? folder : "/tmp");
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		berth_fail_errno(err, "cannot make %s; set TMPDIR to a folder with room for a task", path);
	} else {
		unlink(path);
	}
	return fd;
}

static bool pack(const struct cli_link *link, int fd, const char *folder, int64_t size_max, Berth__V1__BlobRef *blob,
	struct berth_error *err)
{
	const struct berth_tar_options options = {.widen_private_modes = true, .content_size_max = size_max};
	struct packer packer = {.fd = fd, .hasher = berth_hasher_new(), .cancel = link->cancel};
	bool packed = berth_tar_write_folder(folder, &options, (struct berth_sink){pack_put, &packer}, err);
	struct berth_digest digest = berth_hasher_finish(packer.hasher);
	berth_proto_set_bytes(&blob->sha256, digest.bytes, sizeof digest.bytes);
	blob->size = packer.size;
	return packed;
}

static bool put_if_missing(struct cli_link *link, int fd, const Berth__V1__BlobRef *blob, struct berth_error *err)
{
	bool missing = false;
	return cli_blob_is_missing(link, blob, &missing, err) && (!missing || cli_blob_put(link, blob, fd, err));
}

static bool make_bundle(struct cli_link *link, const char *path, int64_t size_max, bool put, Berth__V1__Task *task,
	struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = spool_open(err);
	if (fd < 0) {
		return false;
	}
	task->bundle = berth_alloc(sizeof *task->bundle);
	berth__v1__blob_ref__init(task->bundle);
	return (pack(link, fd, path, size_max, task->bundle, err) &&
		       (!put || put_if_missing(link, fd, task->bundle, err))) ||
	       berth_error_wrap(err, "task %s", path);
}

bool cli_bundle_put(
	struct cli_link *link, const char *path, int64_t size_max, Berth__V1__Task *task, struct berth_error *err)
{
	return make_bundle(link, path, size_max, true, task, err);
}

bool cli_bundle_name(
	struct cli_link *link, const char *path, int64_t size_max, Berth__V1__Task *task, struct berth_error *err)
{
	return make_bundle(link, path, size_max, false, task, err);
}
