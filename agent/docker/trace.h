// SPDX-License-Identifier: Apache-2.0
// BuildKit's progress records (moby.buildkit.control StatusResponse, aux records of POST /build?version=2) as a
// readable log. Only the fields that a log and an error need are read; pure but for the sink.
#pragma once

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/codec/tar.h"

#define TRACE_STEPS_MAX 2048
#define TRACE_TAIL_SIZE 2048 // the end of a step's output that an error repeats

struct trace_step {
	char *digest;
	char *name;
	char *error;
	bool started, completed;
	struct berth_buf tail;
};

struct trace {
	struct berth_sink log;
	struct trace_step *steps; // in order of appearance
	size_t count;
};

// One serialized StatusResponse. False for bytes that are none, or when the sink failed.
bool trace_feed(struct trace *trace, const void *data, size_t size, struct berth_error *err);
// The step that failed, or NULL.
const struct trace_step *trace_failed_step(const struct trace *trace);
void trace_free(struct trace *trace);

// Writes to the log, or nowhere when it is dropped.
bool trace_log(struct berth_sink log, const void *data, size_t size, struct berth_error *err);
// Appends to a tail, of which only the last TRACE_TAIL_SIZE bytes are kept.
void trace_add_tail(struct berth_buf *tail, const void *data, size_t size);
