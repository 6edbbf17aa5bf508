// SPDX-License-Identifier: Apache-2.0
#include "agent/docker/trace.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

// Field numbers of BuildKit's control.proto.
enum { STATUS_VERTEXES = 1, STATUS_LOGS = 3 };
enum {
	VERTEX_DIGEST = 1,
	VERTEX_NAME = 3,
	VERTEX_CACHED = 4,
	VERTEX_STARTED = 5,
	VERTEX_COMPLETED = 6,
	VERTEX_ERROR = 7
};
enum { LOG_VERTEX = 1, LOG_MESSAGE = 4 };

// A walk over the fields of one protobuf message.
struct walk {
	const uint8_t *at, *end;
	unsigned field;
	uint64_t number;     // of a varint field
	const uint8_t *data; // of a length-delimited one
	size_t size;
	bool bad;
};

static bool read_varint(struct walk *walk, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 64 && walk->at < walk->end; shift += 7) {
		uint8_t byte = *walk->at++;
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			return true;
		}
	}
	walk->bad = true;
	return false;
}

static bool skip_bytes(struct walk *walk, uint64_t size)
{
	if (size > (uint64_t)(walk->end - walk->at)) {
		walk->bad = true;
		return false;
	}
	walk->data = walk->at;
	walk->size = (size_t)size;
	walk->at += size;
	return true;
}

static bool next_field(struct walk *walk)
{
	uint64_t tag, size;
	if (walk->at == walk->end || !read_varint(walk, &tag)) {
		return false;
	}
	walk->field = (unsigned)(tag >> 3);
	walk->data = NULL;
	walk->size = 0;
	walk->number = 0;
	switch (tag & 7) {
	case 0:
		return read_varint(walk, &walk->number);
	case 1:
		return skip_bytes(walk, 8);
	case 2:
		return read_varint(walk, &size) && skip_bytes(walk, size);
	case 5:
		return skip_bytes(walk, 4);
	default:
		walk->bad = true;
		return false;
	}
}

static struct walk walk_of(const void *data, size_t size)
{
	const uint8_t *bytes = data;
	return (struct walk){.at = bytes, .end = bytes ? bytes + size : bytes};
}

bool trace_log(struct berth_sink log, const void *data, size_t size, struct berth_error *err)
{
	return !log.put || size == 0 || log.put(log.context, data, size, err);
}

void trace_add_tail(struct berth_buf *tail, const void *data, size_t size)
{
	berth_buf_add(tail, data, size);
	if (tail->size > TRACE_TAIL_SIZE) {
		berth_buf_consume(tail, tail->size - TRACE_TAIL_SIZE);
	}
}

static bool log_text(struct trace *trace, const struct berth_buf *text, struct berth_error *err)
{
	return trace_log(trace->log, text->data, text->size, err);
}

static struct trace_step *step_of(struct trace *trace, const uint8_t *digest, size_t size)
{
	for (size_t i = trace->count; i > 0; i--) {
		struct trace_step *step = &trace->steps[i - 1];
		if (strlen(step->digest) == size && memcmp(step->digest, digest, size) == 0) {
			return step;
		}
	}
	if (trace->count == TRACE_STEPS_MAX || !digest) {
		return NULL;
	}
	if ((trace->count & (trace->count - 1)) == 0) {
		size_t capacity = trace->count ? 2 * trace->count : 1;
		trace->steps = berth_realloc_array(trace->steps, capacity, sizeof *trace->steps);
	}
	trace->steps[trace->count] = (struct trace_step){.digest = berth_strndup((const char *)digest, size)};
	return &trace->steps[trace->count++];
}

static void set_text(char **text, const struct walk *walk)
{
	free(*text);
	*text = berth_strndup((const char *)(walk->data ? walk->data : (const uint8_t *)""), walk->size);
}

// What changed about a step, as lines of the log.
static bool log_step(struct trace *trace, struct trace_step *step, bool started, bool completed, bool cached,
	struct berth_error *err)
{
	int number = (int)(step - trace->steps) + 1;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if ((started || completed) && !step->started) {
		step->started = true;
		berth_buf_printf(&text, "#%d %s\n", number, step->name ? step->name : step->digest);
	}
	if (completed && !step->completed) {
		step->completed = true;
		berth_buf_printf(&text, "#%d %s%s\n", number, step->error ? "ERROR: " : "",
			step->error ? step->error
			: cached    ? "CACHED"
				    : "DONE");
	}
	return log_text(trace, &text, err);
}

static bool feed_vertex(struct trace *trace, const uint8_t *data, size_t size, struct berth_error *err)
{
	struct walk walk = walk_of(data, size), digest = {0}, name = {0}, error = {0};
	bool started = false, completed = false, cached = false;
	while (next_field(&walk)) {
		switch (walk.field) {
		case VERTEX_DIGEST:
			digest = walk;
			break;
		case VERTEX_NAME:
			name = walk;
			break;
		case VERTEX_CACHED:
			cached = walk.number != 0;
			break;
		case VERTEX_STARTED:
			started = true;
			break;
		case VERTEX_COMPLETED:
			completed = true;
			break;
		case VERTEX_ERROR:
			error = walk;
			break;
		default:
			break;
		}
	}
	struct trace_step *step = walk.bad ? NULL : step_of(trace, digest.data, digest.size);
	if (!step) {
		return !walk.bad;
	}
	if (name.data) {
		set_text(&step->name, &name);
	}
	if (error.size > 0) {
		set_text(&step->error, &error);
	}
	return log_step(trace, step, started, completed, cached, err);
}

// Each line of a step's output stands behind the step's number.
static bool feed_log(struct trace *trace, const uint8_t *data, size_t size, struct berth_error *err)
{
	struct walk walk = walk_of(data, size), vertex = {0}, message = {0};
	while (next_field(&walk)) {
		if (walk.field == LOG_VERTEX) {
			vertex = walk;
		} else if (walk.field == LOG_MESSAGE) {
			message = walk;
		}
	}
	struct trace_step *step = walk.bad ? NULL : step_of(trace, vertex.data, vertex.size);
	if (!step || !message.data) {
		return !walk.bad;
	}
	trace_add_tail(&step->tail, message.data, message.size);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	const uint8_t *line = message.data, *end = line + message.size;
	while (line < end) {
		const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
		const uint8_t *next = stop ? stop + 1 : end;
		berth_buf_printf(&text, "#%d ", (int)(step - trace->steps) + 1);
		berth_buf_add(&text, line, (size_t)(next - line));
		if (!stop) {
			berth_buf_add_byte(&text, '\n');
		}
		line = next;
	}
	return log_text(trace, &text, err);
}

bool trace_feed(struct trace *trace, const void *data, size_t size, struct berth_error *err)
{
	struct berth_error why = {0};
	struct walk walk = walk_of(data, size);
	bool good = true;
	while (good && next_field(&walk)) {
		if (walk.field == STATUS_VERTEXES && walk.data) {
			good = feed_vertex(trace, walk.data, walk.size, &why);
		} else if (walk.field == STATUS_LOGS && walk.data) {
			good = feed_log(trace, walk.data, walk.size, &why);
		}
	}
	if (good && !walk.bad) {
		return true;
	}
	return *why.message ? berth_fail(err, why.code, "%s", why.message)
	                    : berth_fail(err, BERTH_ERROR_INTERNAL, "the daemon's build trace is damaged");
}

const struct trace_step *trace_failed_step(const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		// Steps that run beside the failing one are cancelled for its sake.
		const char *error = trace->steps[i].error;
		if (error && !strstr(error, "context canceled")) {
			return &trace->steps[i];
		}
	}
	return NULL;
}

void trace_free(struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		free(trace->steps[i].digest);
		free(trace->steps[i].name);
		free(trace->steps[i].error);
		berth_buf_free(&trace->steps[i].tail);
	}
	free(trace->steps);
	trace->steps = NULL;
	trace->count = 0;
}
