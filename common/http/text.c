// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/http/http.h"

char *berth_http_header(const struct berth_http_response *response, const char *name)
{
	size_t length = strlen(name);
	for (const char *line = response->headers; line && *line;) {
		size_t size = strcspn(line, "\r\n");
		if (size > length && line[length] == ':' && strncasecmp(line, name, length) == 0) {
			const char *value = line + length + 1;
			const char *end = line + size;
			while (value < end && (*value == ' ' || *value == '\t')) {
				value++;
			}
			while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
				end--;
			}
			return berth_strndup(value, (size_t)(end - value));
		}
		line += size;
		line += strspn(line, "\r\n");
	}
	return NULL;
}

void berth_http_response_free(struct berth_http_response *response)
{
	free(response->headers);
	response->headers = NULL;
}

static bool unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

char *berth_http_escape(const char *text)
{
	struct berth_buf out = {0};
	berth_buf_add_text(&out, "");
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (unreserved(*c)) {
			berth_buf_add_byte(&out, *c);
		} else {
			berth_buf_printf(&out, "%%%02X", *c);
		}
	}
	return berth_buf_steal(&out);
}
