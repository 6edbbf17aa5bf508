// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/build.h"
#include "common/base/digest.h"
#include "common/base/mem.h"

#define ERROR_TEXT_MAX   4096
#define SHOWN_TAIL_SIZE  600 // of a message
#define SHOWN_NAME_SIZE  160
#define SHOWN_ERROR_SIZE 400

static bool take_trace(struct build_answer *answer, const char *text, struct berth_error *err)
{
	size_t size = 0;
	BERTH_AUTO_FREE uint8_t *record = text ? berth_unbase64(text, strlen(text), &size) : NULL;
	if (!record) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "the daemon's build trace is no base64");
	}
	return trace_feed(&answer->trace, record, size, err);
}

static void take_error(struct build_answer *answer, const berth_json *line)
{
	const char *message = berth_json_get_string(berth_json_get(line, "errorDetail"), "message");
	message = message && *message ? message : berth_json_get_string(line, "error");
	if (message && !answer->error) {
		answer->error = berth_strndup(message, strnlen(message, ERROR_TEXT_MAX));
	}
}

static bool take_line(void *context, const berth_json *line, struct berth_error *err)
{
	struct build_answer *answer = context;
	const berth_json *aux = berth_json_get(line, "aux");
	const char *kind = berth_json_get_string(line, "id");
	const char *text = berth_json_get_string(line, "stream");
	text = text ? text : berth_json_get_string(line, "status");
	take_error(answer, line);
	if (kind && strcmp(kind, "moby.buildkit.trace") == 0) {
		return take_trace(answer, berth_json_as_string(aux), err);
	}
	const char *image = berth_json_get_string(aux, "ID");
	if (image && *image) {
		free(answer->image_id);
		answer->image_id = berth_strdup(image);
	}
	if (!text) {
		return true;
	}
	trace_add_tail(&answer->tail, text, strlen(text));
	return trace_log(answer->trace.log, text, strlen(text), err);
}

void build_answer_start(struct build_answer *answer, struct berth_sink log)
{
	*answer = (struct build_answer){.trace.log = log};
	answer->lines.take = take_line;
	answer->lines.context = answer;
}

struct berth_sink build_answer_sink(struct build_answer *answer)
{
	return (struct berth_sink){docker_lines_put, &answer->lines};
}

void build_answer_free(struct build_answer *answer)
{
	trace_free(&answer->trace);
	berth_buf_free(&answer->lines.partial);
	berth_buf_free(&answer->tail);
	free(answer->image_id);
	free(answer->error);
}

// The number in "... exit code: 3" or "... returned a non-zero code: 3"; -1 for none.
static int exit_code_in(const char *error)
{
	static const char *const words[] = {"exit code: ", "non-zero code: "};
	for (size_t i = 0; i < BERTH_COUNT(words); i++) {
		const char *found = strstr(error, words[i]);
		if (found && isdigit((unsigned char)found[strlen(words[i])])) {
			return atoi(found + strlen(words[i]));
		}
	}
	return -1;
}

static bool is_dockerfile_fault(const char *error)
{
	static const char *const words[] = {"parse error", "unknown instruction", "not found", "denied",
		"failed to compute cache key", "failed to calculate checksum", "does not exist", "no such file",
		"manifest unknown", "invalid", "failed to read dockerfile", "no match for platform", "forbidden path",
		"COPY failed", "ADD failed", "requires at least", "can't be empty", "circular dependency",
		"no build stage", NULL};
	for (const char *const *word = words; *word; word++) {
		if (strcasestr(error, *word)) {
			return true;
		}
	}
	return false;
}

// The last lines, whole ones only, so that an error message keeps what matters.
static const char *last_lines(const struct berth_buf *tail)
{
	const char *text = berth_buf_text(tail);
	if (tail->size > SHOWN_TAIL_SIZE) {
		text += tail->size - SHOWN_TAIL_SIZE;
		const char *line = strchr(text, '\n');
		text = line && line[1] ? line + 1 : text;
	}
	return text;
}

static bool fail_step(const struct build_answer *answer, const char *what, int code, struct berth_error *err)
{
	const struct trace_step *step = trace_failed_step(&answer->trace);
	const char *name = step && step->name ? step->name : answer->error;
	return berth_fail(err, BERTH_ERROR_INVALID, "%s: step failed with exit code %d: %.*s\n%s", what, code,
		SHOWN_NAME_SIZE, name, last_lines(step ? &step->tail : &answer->tail));
}

// True when the error is about the image of the syntax line: its repository without registry and tag stands in the URL.
static bool is_about_syntax(const char *error, const struct dockerfile_notes *notes)
{
	if (!notes->syntax) {
		return false;
	}
	const char *repository = notes->syntax;
	const char *slash = strchr(repository, '/');
	if (slash && strcspn(repository, ".:") < (size_t)(slash - repository)) {
		repository = slash + 1;
	}
	size_t size = strcspn(repository, ":@");
	return size > 0 && memmem(error, strlen(error), repository, size);
}

bool build_answer_fail(const struct build_answer *answer, const char *what, const char *dockerfile,
	const struct dockerfile_notes *notes, struct berth_error *err)
{
	BERTH_AUTO_FREE char *registry = NULL;
	const char *error = answer->error;
	int code = exit_code_in(error);
	if (docker_is_exhausted(error) || (code >= 0 && docker_is_exhausted(berth_buf_text(&answer->tail)))) {
		return docker_fail(err, 500, what, error);
	}
	if (code >= 0) {
		return fail_step(answer, what, code, err);
	}
	bool unreachable = docker_is_registry_failure(error, &registry);
	if (is_about_syntax(error, notes)) {
		return berth_fail(err, unreachable ? BERTH_ERROR_UNAVAILABLE : BERTH_ERROR_INVALID,
			"%s: %s:%d: the line `# syntax=%s` needs an image that cannot be fetched from %s: "
			"remove the line, or give the daemon a way to the registry: %.*s",
			what, dockerfile, notes->syntax_line, notes->syntax, registry ? registry : "its registry",
			SHOWN_ERROR_SIZE, error);
	}
	if (unreachable) {
		return docker_fail(err, 500, what, error);
	}
	enum berth_error_code kind = is_dockerfile_fault(error) ? BERTH_ERROR_INVALID : BERTH_ERROR_INTERNAL;
	return berth_fail(err, kind, "%s: %s: %.*s", what, dockerfile, SHOWN_ERROR_SIZE, error);
}
