// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/python_text_internal.h"
#include "common/task/task.h"

static bool contains_canary(const char *line, size_t size)
{
	for (size_t i = 0; i + 6 <= size; i++) {
		if (strncasecmp(line + i, "canary", 6) == 0) {
			return true;
		}
	}
	return false;
}

// A line "<!-- ... canary ... -->" or "# ... canary ..." once stripped.
static bool is_canary(const char *line, size_t size)
{
	line = berth_python_strip(line, size, &size);
	if (memchr(line, '\n', size)) {
		return false;
	}
	if (size > 0 && line[0] == '#') {
		return contains_canary(line, size);
	}
	return size >= 7 && strncmp(line, "<!--", 4) == 0 && strncmp(line + size - 3, "-->", 3) == 0 &&
	       contains_canary(line + 4, size - 7);
}

static bool is_blank(const char *line, size_t size)
{
	berth_python_strip(line, size, &size);
	return size == 0;
}

// The start of what follows the leading lines that `drop` takes; the end of the text when it takes them all.
static const char *skip_lines(const char *text, bool (*drop)(const char *line, size_t size))
{
	for (;;) {
		size_t length = strcspn(text, "\n");
		if (!drop(text, length)) {
			return text;
		}
		if (!text[length]) {
			return text + length;
		}
		text += length + 1;
	}
}

char *berth_instruction_strip(const char *text)
{
	return berth_strdup(skip_lines(skip_lines(text, is_canary), is_blank));
}

// CR LF and lone CR as LF, in place, as a Python text file is read.
static void to_line_feeds(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++) {
		if (from[0] == '\r' && from[1] == '\n') {
			continue;
		}
		*to++ = *from == '\r' ? '\n' : *from;
	}
	*to = 0;
}

static bool is_utf8(const struct berth_buf *text)
{
	for (size_t at = 0; at < text->size;) {
		uint32_t point;
		size_t length;
		if (!berth_utf8_next((const char *)text->data + at, text->size - at, &point, &length) || point == 0) {
			return false;
		}
		at += length;
	}
	return true;
}

char *berth_task_instruction(const struct berth_task *task, const struct berth_task_step *step,
	const struct berth_strings *extra, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = step ? berth_format("%s/steps/%s/instruction.md", task->folder, step->name)
	                                  : berth_path_join(task->folder, "instruction.md");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(path, BERTH_TASK_FILE_SIZE_MAX, &text, err)) {
		return NULL;
	}
	if (!is_utf8(&text)) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s: is not UTF-8 text: save it as UTF-8", path);
		return NULL;
	}
	BERTH_AUTO_FREE char *raw = berth_strdup(berth_buf_text(&text));
	to_line_feeds(raw);
	BERTH_AUTO_FREE char *stripped = berth_instruction_strip(raw);
	struct berth_buf out = {0};
	berth_buf_add_text(&out, stripped);
	for (size_t i = 0; extra && i < extra->count; i++) {
		berth_buf_printf(&out, "\n\n%s", extra->items[i]);
	}
	berth_buf_add_text(&out, "");
	return berth_buf_steal(&out);
}
