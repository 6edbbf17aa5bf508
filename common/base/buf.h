// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer. The bytes are always followed by a NUL that is not counted, so text can be read in place.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct berth_buf {
	uint8_t *data; // NULL only while nothing was ever added
	size_t size;
	size_t capacity;
};

void berth_buf_add(struct berth_buf *buf, const void *data, size_t size);
void berth_buf_add_text(struct berth_buf *buf, const char *text);
void berth_buf_add_byte(struct berth_buf *buf, uint8_t byte);
void berth_buf_printf(struct berth_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Room for at least `size` more bytes; the caller writes at data + size and then adds to size.
uint8_t *berth_buf_reserve(struct berth_buf *buf, size_t size);
// Drops the first `size` bytes.
void berth_buf_consume(struct berth_buf *buf, size_t size);
void berth_buf_reset(struct berth_buf *buf); // keeps the memory
void berth_buf_free(struct berth_buf *buf);  // also as BERTH_AUTO(berth_buf_free)
// The text, never NULL. It belongs to the buffer until berth_buf_steal.
const char *berth_buf_text(const struct berth_buf *buf);
char *berth_buf_steal(struct berth_buf *buf);
