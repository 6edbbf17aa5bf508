// SPDX-License-Identifier: Apache-2.0
#include "common/base/buf.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define BUF_CAPACITY_MIN 64

uint8_t *berth_buf_reserve(struct berth_buf *buf, size_t size)
{
	size_t need = buf->size + size + 1;
	if (need < size) {
		abort();
	}
	if (need > buf->capacity) {
		size_t capacity = buf->capacity ? buf->capacity : BUF_CAPACITY_MIN;
		while (capacity < need) {
			capacity += capacity / 2 + 1;
		}
		buf->data = buf->data ? berth_realloc_array(buf->data, capacity, 1) : berth_alloc_large(capacity);
		buf->capacity = capacity;
		buf->data[buf->size] = 0;
	}
	return buf->data + buf->size;
}

void berth_buf_add(struct berth_buf *buf, const void *data, size_t size)
{
	uint8_t *room = berth_buf_reserve(buf, size);
	if (size) {
		memcpy(room, data, size);
	}
	buf->size += size;
	buf->data[buf->size] = 0;
}

void berth_buf_add_text(struct berth_buf *buf, const char *text)
{
	berth_buf_add(buf, text, strlen(text));
}

void berth_buf_add_byte(struct berth_buf *buf, uint8_t byte)
{
	berth_buf_add(buf, &byte, 1);
}

void berth_buf_printf(struct berth_buf *buf, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *text = berth_vformat(format, args);
	va_end(args);
	berth_buf_add_text(buf, text);
}

void berth_buf_consume(struct berth_buf *buf, size_t size)
{
	if (size >= buf->size) {
		berth_buf_reset(buf);
		return;
	}
	memmove(buf->data, buf->data + size, buf->size - size);
	buf->size -= size;
	buf->data[buf->size] = 0;
}

void berth_buf_reset(struct berth_buf *buf)
{
	buf->size = 0;
	if (buf->data) {
		buf->data[0] = 0;
	}
}

void berth_buf_free(struct berth_buf *buf)
{
	free(buf->data);
	*buf = (struct berth_buf){0};
}

const char *berth_buf_text(const struct berth_buf *buf)
{
	return buf->data ? (const char *)buf->data : "";
}

char *berth_buf_steal(struct berth_buf *buf)
{
	berth_buf_reserve(buf, 0);
	char *text = (char *)buf->data;
	*buf = (struct berth_buf){0};
	return text;
}
