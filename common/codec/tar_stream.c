// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/codec/tar_internal.h"

struct berth_tar_locale berth_tar_locale_enter(void)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (plain == (locale_t)0) {
		abort();
	}
	return (struct berth_tar_locale){plain, uselocale(plain)};
}

void berth_tar_locale_leave(struct berth_tar_locale *locale)
{
	uselocale(locale->before);
	freelocale(locale->plain);
}

static bool put_fd(void *context, const void *data, size_t size, struct berth_error *err)
{
	return berth_write_all(*(const int *)context, data, size, err);
}

struct berth_sink berth_sink_fd(const int *fd)
{
	return (struct berth_sink){put_fd, (void *)(uintptr_t)fd};
}

static ssize_t get_fd(void *context, void *data, size_t size, struct berth_error *err)
{
	for (;;) {
		ssize_t got = read(*(const int *)context, data, size);
		if (got >= 0) {
			return got;
		}
		if (errno != EINTR) {
			berth_fail_errno(err, "cannot read the stream");
			return -1;
		}
	}
}

struct berth_source berth_source_fd(const int *fd)
{
	return (struct berth_source){get_fd, (void *)(uintptr_t)fd};
}

static bool put_buf(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)err;
	berth_buf_add(context, data, size);
	return true;
}

struct berth_sink berth_sink_buf(struct berth_buf *buf)
{
	return (struct berth_sink){put_buf, buf};
}

static ssize_t get_memory(void *context, void *data, size_t size, struct berth_error *err)
{
	(void)err;
	struct berth_memory *rest = context;
	size = size < rest->size ? size : rest->size;
	if (size > 0) {
		memcpy(data, rest->data, size);
		rest->data += size;
		rest->size -= size;
	}
	return (ssize_t)size;
}

struct berth_source berth_source_memory(struct berth_memory *rest)
{
	return (struct berth_source){get_memory, rest};
}
