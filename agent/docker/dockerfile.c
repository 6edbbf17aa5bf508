// SPDX-License-Identifier: Apache-2.0
#include "agent/docker/dockerfile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"

struct line {
	const char *text;
	size_t size;
};

static struct line trimmed(const char *text, size_t size)
{
	while (size > 0 && isspace((unsigned char)*text)) {
		text++;
		size--;
	}
	while (size > 0 && isspace((unsigned char)text[size - 1])) {
		size--;
	}
	return (struct line){text, size};
}

// "# syntax = docker/dockerfile:1": the image, or an empty line.
static struct line syntax_of(struct line line)
{
	struct line none = {0};
	line = trimmed(line.text + 1, line.size - 1);
	if (line.size < 6 || strncasecmp(line.text, "syntax", 6) != 0) {
		return none;
	}
	line = trimmed(line.text + 6, line.size - 6);
	if (line.size == 0 || *line.text != '=') {
		return none;
	}
	return trimmed(line.text + 1, line.size - 1);
}

static bool begins_with(struct line line, const char *word)
{
	size_t size = strlen(word);
	return line.size > size && strncasecmp(line.text, word, size) == 0 && isspace((unsigned char)line.text[size]);
}

// A word "<<NAME", "<<-NAME" or "3<<'NAME'" outside of quotes. "<<<" is a here-string, and "1<<2" is arithmetic.
static bool has_heredoc(struct line line)
{
	char quote = 0;
	bool word_start = true;
	for (size_t i = 0; i < line.size; i++) {
		char c = line.text[i];
		if (quote) {
			quote = c == quote ? 0 : quote;
		} else if (word_start && (c == '<' || isdigit((unsigned char)c))) {
			size_t j = i;
			while (j < line.size && isdigit((unsigned char)line.text[j])) {
				j++;
			}
			if (j + 2 < line.size && line.text[j] == '<' && line.text[j + 1] == '<') {
				j += line.text[j + 2] == '-' ? 3 : 2;
				char name = j < line.size ? line.text[j] : ' ';
				if (isalpha((unsigned char)name) || strchr("_'\"", name)) {
					return true;
				}
			}
			word_start = false;
		} else {
			quote = c == '\'' || c == '"' ? c : 0;
			word_start = isspace((unsigned char)c);
		}
	}
	return false;
}

// Parser directives stand before everything else; a comment that is none ends them.
static bool read_directive(struct line line, int number, struct dockerfile_notes *notes)
{
	if (line.size == 0 || *line.text != '#' || !memchr(line.text, '=', line.size)) {
		return false;
	}
	struct line image = syntax_of(line);
	if (image.size > 0 && !notes->syntax) {
		notes->syntax = berth_strndup(image.text, image.size);
		notes->syntax_line = number;
	}
	return true;
}

void dockerfile_read(const char *text, size_t size, struct dockerfile_notes *notes)
{
	*notes = (struct dockerfile_notes){0};
	bool directives = true, instruction = false, continued = false;
	int number = 1;
	for (size_t at = 0; at < size; number++) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = end ? (size_t)(end - text) - at : size - at;
		struct line line = trimmed(text + at, length);
		at += length + 1;
		directives = directives && read_directive(line, number, notes);
		if (line.size == 0 || *line.text == '#') {
			continue;
		}
		if (!continued) {
			instruction = begins_with(line, "RUN") || begins_with(line, "COPY") || begins_with(line, "ADD");
		}
		if (instruction && !notes->heredoc_line && has_heredoc(line)) {
			notes->heredoc_line = number;
		}
		continued = line.text[line.size - 1] == '\\';
	}
}

void dockerfile_notes_free(struct dockerfile_notes *notes)
{
	free(notes->syntax);
	*notes = (struct dockerfile_notes){0};
}

// The size field is octal text; base-256 is for files above 8 GiB, which no Dockerfile is.
static bool entry_size(const uint8_t *header, uint64_t *size)
{
	*size = 0;
	for (size_t i = 124; i < 136; i++) {
		uint8_t c = header[i];
		if (c == ' ' || c == 0) {
			if (i > 124 && *size > 0) {
				break;
			}
			continue;
		}
		if (c < '0' || c > '7') {
			return false;
		}
		*size = *size * 8 + (c - '0');
	}
	return true;
}

static bool is_wanted(const struct dockerfile_peek *peek)
{
	char name[101] = {0};
	memcpy(name, peek->header, 100);
	const char *path = strncmp(name, "./", 2) == 0 ? name + 2 : name;
	return !peek->found && (peek->header[156] == '0' || peek->header[156] == 0) && strcmp(path, peek->name) == 0 &&
	       peek->header[345] == 0;
}

static void begin_entry(struct dockerfile_peek *peek)
{
	uint64_t size;
	peek->header_size = 0;
	if (memcmp(peek->header + 257, "ustar", 5) != 0 || !entry_size(peek->header, &size)) {
		peek->foreign = true; // the end of the tar, or a form that is not ours to read
		return;
	}
	peek->left = (size + 511) / 512 * 512;
	if (is_wanted(peek)) {
		peek->found = true;
		peek->wanted = size < DOCKERFILE_SIZE_MAX ? size : DOCKERFILE_SIZE_MAX;
	}
}

static void look(struct dockerfile_peek *peek, const uint8_t *data, size_t size)
{
	while (size > 0 && !peek->foreign) {
		size_t part;
		if (peek->left > 0) {
			part = size < peek->left ? size : (size_t)peek->left;
			size_t kept = part < peek->wanted ? part : (size_t)peek->wanted;
			berth_buf_add(&peek->content, data, kept);
			peek->wanted -= kept;
			peek->left -= part;
		} else {
			part = sizeof peek->header - peek->header_size;
			part = size < part ? size : part;
			memcpy(peek->header + peek->header_size, data, part);
			peek->header_size += part;
			if (peek->header_size == sizeof peek->header) {
				begin_entry(peek);
			}
		}
		data += part;
		size -= part;
	}
}

static void lead(uint8_t header[static 512])
{
	memset(header, 0, 512);
	memcpy(header, "./", 2);
	memcpy(header + 100, "0000755", 7);
	memcpy(header + 108, "0000000", 7);
	memcpy(header + 116, "0000000", 7);
	memcpy(header + 124, "00000000000", 11);
	memcpy(header + 136, "00000000000", 11);
	memset(header + 148, ' ', 8);
	header[156] = '5';
	memcpy(header + 257, "ustar\00000", 8);
	unsigned sum = 0;
	for (size_t i = 0; i < 512; i++) {
		sum += header[i];
	}
	char digits[8];
	snprintf(digits, sizeof digits, "%06o", sum);
	memcpy(header + 148, digits, 7);
}

static ssize_t get(void *context, void *data, size_t size, struct berth_error *err)
{
	struct dockerfile_peek *peek = context;
	if (!peek->led && size >= 512) {
		peek->led = true;
		lead(data);
		return 512;
	}
	ssize_t got = peek->tar.get(peek->tar.context, data, size, err);
	if (got <= 0) {
		return got;
	}
	look(peek, data, (size_t)got);
	if (peek->found && peek->wanted == 0 && peek->content.size > 0) {
		dockerfile_notes_free(&peek->notes);
		dockerfile_read(berth_buf_text(&peek->content), peek->content.size, &peek->notes);
		berth_buf_free(&peek->content);
		if (peek->refuse_heredoc && peek->notes.heredoc_line && !peek->notes.syntax) {
			berth_fail(err, BERTH_ERROR_INVALID,
				"%s:%d: this Docker Engine is older than 23 and knows no heredocs: "
				"write the step with && and \\, or update the Engine",
				peek->name, peek->notes.heredoc_line);
			return -1;
		}
	}
	return got;
}

struct berth_source dockerfile_peek_source(struct dockerfile_peek *peek)
{
	return (struct berth_source){get, peek};
}

void dockerfile_peek_free(struct dockerfile_peek *peek)
{
	dockerfile_notes_free(&peek->notes);
	berth_buf_free(&peek->content);
}
