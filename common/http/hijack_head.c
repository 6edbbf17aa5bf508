// SPDX-License-Identifier: Apache-2.0
#include "common/http/hijack_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool parse_status(const char *line, size_t size, int *status)
{
	// "HTTP/1.1 101 Switching Protocols"
	if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ') {
		return false;
	}
	*status = 0;
	for (size_t i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9') {
			return false;
		}
		*status = 10 * *status + (line[i] - '0');
	}
	return *status >= 100 && (size == 12 || line[12] == ' ');
}

// The trimmed value of the header `name` on this line; NULL when it is another.
static const char *value_of(const char *line, size_t size, const char *name, size_t *length)
{
	size_t name_size = strlen(name);
	if (size <= name_size || line[name_size] != ':' || strncasecmp(line, name, name_size) != 0) {
		return NULL;
	}
	const char *value = line + name_size + 1;
	const char *end = line + size;
	while (value < end && (*value == ' ' || *value == '\t')) {
		value++;
	}
	while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
		end--;
	}
	*length = (size_t)(end - value);
	return value;
}

static bool parse_length(const char *value, size_t length, int64_t *number)
{
	*number = 0;
	if (length == 0 || length > 18) {
		return false;
	}
	for (size_t i = 0; i < length; i++) {
		if (value[i] < '0' || value[i] > '9') {
			return false;
		}
		*number = 10 * *number + (value[i] - '0');
	}
	return true;
}

static bool parse_header(const char *line, size_t size, struct berth_hijack_head *head)
{
	size_t length;
	const char *value = value_of(line, size, "Content-Length", &length);
	if (value) {
		return parse_length(value, length, &head->content_length);
	}
	value = value_of(line, size, "Transfer-Encoding", &length);
	if (value) {
		head->chunked = length >= 7 && strncasecmp(value + length - 7, "chunked", 7) == 0;
	}
	return true;
}

enum berth_hijack_parse berth_hijack_head_parse(
	const void *data, size_t size, struct berth_hijack_head *head, struct berth_error *err)
{
	const char *text = data;
	const char *end = size ? memmem(text, size, "\r\n\r\n", 4) : NULL;
	if (!end) {
		if (size < BERTH_HIJACK_HEAD_MAX) {
			return BERTH_HIJACK_MORE;
		}
		berth_fail(err, BERTH_ERROR_IO, "the answer has more than %d bytes of headers", BERTH_HIJACK_HEAD_MAX);
		return BERTH_HIJACK_BAD;
	}
	*head = (struct berth_hijack_head){.content_length = -1, .size = (size_t)(end - text) + 4};
	bool first = true, good = true;
	for (const char *line = text; good && line < end;) {
		const char *next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
		size_t length = (size_t)(next - line);
		good = first ? parse_status(line, length, &head->status) : parse_header(line, length, head);
		first = false;
		line = next + 2;
	}
	if (!good || first) {
		berth_fail(err, BERTH_ERROR_IO, "the answer is no HTTP/1.1");
		return BERTH_HIJACK_BAD;
	}
	return BERTH_HIJACK_HEAD;
}

static void add_readable(struct berth_buf *text, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)data[i];
		if (c >= ' ' && c != 0x7f) {
			berth_buf_add_byte(text, c);
		} else if (c == '\n' || c == '\t') {
			berth_buf_add_byte(text, ' ');
		}
	}
}

void berth_hijack_body_text(const struct berth_hijack_head *head, const void *data, size_t size, struct berth_buf *text)
{
	const char *rest = data;
	if (size == 0) {
		return;
	}
	if (!head->chunked) {
		add_readable(text, rest, size);
		return;
	}
	const char *end = rest + size;
	while (rest < end) {
		const char *line = memmem(rest, (size_t)(end - rest), "\r\n", 2);
		if (!line || line - rest > 16) {
			return;
		}
		char digits[17] = {0};
		memcpy(digits, rest, (size_t)(line - rest));
		size_t length = strtoull(digits, NULL, 16);
		rest = line + 2;
		size_t left = (size_t)(end - rest);
		length = length < left ? length : left;
		if (length == 0) {
			return;
		}
		add_readable(text, rest, length);
		rest += length;
		rest += rest + 2 <= end ? 2 : end - rest;
	}
}
