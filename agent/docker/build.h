// SPDX-License-Identifier: Apache-2.0
// What a build's answer says, line by line. Pure but for the log.
#pragma once

#include "agent/docker/dockerfile.h"
#include "agent/docker/internal.h"
#include "agent/docker/trace.h"

struct build_answer {
	struct trace trace;
	struct docker_lines lines;
	struct berth_buf tail; // of the old builder's output
	char *image_id;
	char *error; // the first errorDetail
};

void build_answer_start(struct build_answer *answer, struct berth_sink log);
struct berth_sink build_answer_sink(struct build_answer *answer);
// err for the error that the answer told, in the words and the code that a caller needs.
bool build_answer_fail(const struct build_answer *answer, const char *what, const char *dockerfile,
	const struct dockerfile_notes *notes, struct berth_error *err);
void build_answer_free(struct build_answer *answer);
