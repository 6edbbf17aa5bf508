// SPDX-License-Identifier: Apache-2.0
// Looks at the Dockerfile while its tar goes to the daemon: for what an old Engine can't read, and for the line to name
// when a frontend image can't be fetched.
#pragma once

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/codec/tar.h"

#define DOCKERFILE_SIZE_MAX (1024 * 1024) // of a larger one only the beginning is looked at

struct dockerfile_notes {
	int syntax_line;  // of `# syntax=`; 0 for none
	char *syntax;     // its image
	int heredoc_line; // of the first heredoc; 0 for none
};
void dockerfile_read(const char *text, size_t size, struct dockerfile_notes *notes);
void dockerfile_notes_free(struct dockerfile_notes *notes);

// A source that passes a tar on and keeps the content of the entry `name`. A folder "./" goes first: BuildKit takes a
// context whose first 512 bytes are no plain entry (a long name, one that is not ASCII) for a lone Dockerfile.
struct dockerfile_peek {
	struct berth_source tar;
	bool led;            // "./" was sent
	const char *name;    // "Dockerfile"
	bool refuse_heredoc; // INVALID as soon as the Dockerfile has one
	struct dockerfile_notes notes;
	struct berth_buf content; // of the Dockerfile, while it passes
	uint8_t header[512];
	size_t header_size;
	uint64_t left;   // of the entry's content and padding
	uint64_t wanted; // of the content, to be kept
	bool found, foreign;
};
struct berth_source dockerfile_peek_source(struct dockerfile_peek *peek);
void dockerfile_peek_free(struct dockerfile_peek *peek);
