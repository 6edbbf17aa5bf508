// SPDX-License-Identifier: Apache-2.0
// Any bytes as an exec's output, fed in two different splits: what comes out must be the same, and no more than went
// in.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/frames.h"
#include "common/base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool put(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	struct berth_buf *out = context;
	if (stream != BERTH_DOCKER_STDOUT && stream != BERTH_DOCKER_STDERR) {
		abort();
	}
	// The stream belongs to every byte, so that a split cannot hide a wrong one.
	for (size_t i = 0; i < size; i++) {
		berth_buf_add_byte(out, (uint8_t)stream);
		berth_buf_add_byte(out, ((const uint8_t *)data)[i]);
	}
	return true;
}

static enum docker_frames_result feed(const uint8_t *data, size_t size, size_t step, struct berth_buf *out)
{
	struct docker_frames frames = {.put = put, .context = out};
	struct berth_error err;
	enum docker_frames_result result = DOCKER_FRAMES_GOOD;
	for (size_t at = 0; result == DOCKER_FRAMES_GOOD && at < size; at += step) {
		result = docker_frames_feed(&frames, data + at, step < size - at ? step : size - at, &err);
	}
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_buf whole = {0}, split = {0};
	enum docker_frames_result a = feed(data, size, size ? size : 1, &whole);
	enum docker_frames_result b = feed(data, size, size ? 1 + data[0] % 13 : 1, &split);
	if (a != b || whole.size != split.size || whole.size > 2 * size ||
		(whole.size && memcmp(whole.data, split.data, whole.size) != 0)) {
		abort();
	}
	berth_buf_free(&whole);
	berth_buf_free(&split);
	return 0;
}
