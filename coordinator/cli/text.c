// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/cli/output.h"

// The size of the UTF-8 character at `at`, 0 when it is none.
static size_t character(const unsigned char *at, size_t left)
{
	static const unsigned LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t size = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	if (size == 1) {
		return 1;
	}
	if (at[0] < 0xc2 || at[0] > 0xf4 || size > left) {
		return 0;
	}
	unsigned code = at[0] & (0xffU >> (size + 1));
	for (size_t i = 1; i < size; i++) {
		if ((at[i] & 0xc0) != 0x80) {
			return 0;
		}
		code = code << 6 | (at[i] & 0x3f);
	}
	bool surrogate = code >= 0xd800 && code <= 0xdfff;
	return code < LEAST[size] || code > 0x10ffff || surrogate ? 0 : size;
}

void cli_text_clean(const char *text, size_t size, bool lines, struct berth_buf *out)
{
	const unsigned char *at = (const unsigned char *)text;
	for (size_t i = 0, step; i < size; i += step) {
		step = character(at + i, size - i);
		if (step == 0) {
			berth_buf_add_text(out, "\xef\xbf\xbd");
			step = 1;
		} else if (step == 1 && (at[i] == '\n' || at[i] == '\t')) {
			berth_buf_add_byte(out, lines ? at[i] : ' ');
		} else if (step == 1 && (at[i] < 0x20 || at[i] == 0x7f)) {
			continue;
		} else if (step == 2 && at[i] == 0xc2 && at[i + 1] < 0xa0) {
			continue;
		} else {
			berth_buf_add(out, at + i, step);
		}
	}
}

char *cli_text_line(const char *text)
{
	struct berth_buf out = {0};
	berth_buf_add_text(&out, "");
	cli_text_clean(text, strlen(text), false, &out);
	return out.data ? berth_buf_steal(&out) : berth_strdup("");
}

size_t cli_text_torn(const char *data, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char byte = (unsigned char)data[size - back];
		if ((byte & 0xc0) == 0x80) {
			continue;
		}
		size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
		return whole > back ? back : 0;
	}
	return 0;
}

char *cli_time_text(int64_t wall_ns)
{
	if (wall_ns == 0) {
		return berth_strdup("-");
	}
	time_t seconds = wall_ns / BERTH_NS_PER_S;
	struct tm parts;
	char text[BERTH_TIME_TEXT_SIZE];
	localtime_r(&seconds, &parts);
	strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
	return berth_strdup(text);
}

char *cli_state_text(const ProtobufCEnumDescriptor *type, int value)
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
	const char *after = known ? strchr(known->name, '_') : NULL;
	char *text = known ? berth_strdup(after ? after + 1 : known->name) : berth_format("%d", value);
	for (char *at = text; *at; at++) {
		*at = (char)tolower((unsigned char)*at);
	}
	return text;
}
