// SPDX-License-Identifier: Apache-2.0
// Any bytes as a build's answer, as a trace record, and as a Dockerfile inside and outside of a tar.
#include <stdint.h>
#include <stdlib.h>

#include "agent/docker/build.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_answer(const uint8_t *data, size_t size, const struct dockerfile_notes *notes)
{
	struct berth_error err;
	struct build_answer answer;
	struct berth_buf log = {0};
	build_answer_start(&answer, berth_sink_buf(&log));
	size_t step = size ? 1 + data[0] % 40 : 1;
	bool good = true;
	for (size_t at = 0; good && at < size; at += step) {
		good = docker_lines_put(&answer.lines, data + at, step < size - at ? step : size - at, &err);
	}
	if (answer.error && build_answer_fail(&answer, "build", "Dockerfile", notes, &err)) {
		abort();
	}
	build_answer_free(&answer);
	berth_buf_free(&log);
}

static void feed_trace(const uint8_t *data, size_t size)
{
	struct berth_error err;
	struct berth_buf log = {0};
	struct trace trace = {.log = berth_sink_buf(&log)};
	trace_feed(&trace, data, size, &err);
	trace_feed(&trace, data, size, &err);
	if (trace.count > TRACE_STEPS_MAX) {
		abort();
	}
	trace_free(&trace);
	berth_buf_free(&log);
}

static void feed_tar(const uint8_t *data, size_t size)
{
	struct berth_memory rest = {data, size};
	struct dockerfile_peek peek = {.tar = berth_source_memory(&rest), .name = "Dockerfile", .refuse_heredoc = true};
	struct berth_source source = dockerfile_peek_source(&peek);
	uint8_t *out = berth_alloc(1024);
	struct berth_error err;
	while (source.get(source.context, out, 1024, &err) > 0) {
	}
	free(out);
	dockerfile_peek_free(&peek);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dockerfile_notes notes;
	dockerfile_read((const char *)data, size, &notes);
	feed_answer(data, size, &notes);
	dockerfile_notes_free(&notes);
	feed_trace(data, size);
	feed_tar(data, size);
	return 0;
}
