// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1.1 answer, as far as a hijacked stream needs it. Pure: bytes in, fields out.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

#define BERTH_HIJACK_HEAD_MAX (64 * 1024)

struct berth_hijack_head {
	int status;
	bool chunked;
	int64_t content_length; // -1 when not given
	size_t size;            // of the head, with the empty line
};

enum berth_hijack_parse { BERTH_HIJACK_MORE, BERTH_HIJACK_HEAD, BERTH_HIJACK_BAD };

// Looks for a whole head at the start of `data`. BAD (err set) when it is none or larger than BERTH_HIJACK_HEAD_MAX.
enum berth_hijack_parse berth_hijack_head_parse(
	const void *data, size_t size, struct berth_hijack_head *head, struct berth_error *err);
// The text of an error body that has come so far: chunks joined, bytes that are no text left out.
void berth_hijack_body_text(
	const struct berth_hijack_head *head, const void *data, size_t size, struct berth_buf *text);
