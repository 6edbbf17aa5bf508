// SPDX-License-Identifier: Apache-2.0
#include "common/codec/tar_libarchive.h"

#include "common/base/late.h"
#include "common/base/mem.h"

struct tar_libarchive libarchive;

static const char *const names[] = {
#define X(name) "archive_" #name,
	TAR_LIBARCHIVE_CALLS(X)
#undef X
};

static struct berth_late late = {
	.file = "libarchive.so.13",
	.package = "libarchive13",
	.names = names,
	.functions = &libarchive,
	.count = BERTH_COUNT(names),
};

bool tar_libarchive_load(struct berth_error *err)
{
	return berth_late_load(&late, err);
}
