// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/python_text_internal.h"
#include "common/task/reward.h"
#include "common/task/task.h"

#define TRIAL_NAME_BASE_MAX       32 // code points
#define TRIAL_NAME_RANDOM_LETTERS 7

bool berth_size_mb(const char *text, int64_t *mb, struct berth_error *err)
{
	size_t size;
	const char *stripped = berth_python_strip(text, strlen(text), &size);
	int unit = size > 0 ? toupper((unsigned char)stripped[size - 1]) : 0;
	double factor = unit == 'G' ? 1024 : unit == 'M' ? 1 : unit == 'K' ? 1.0 / 1024 : 0;
	double value = 0;
	if (factor == 0 || !berth_python_float(stripped, size - 1, &value) || !isfinite(value * factor) ||
		fabs(value * factor) >= 0x1p62) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"\"%s\" is no size: write a number and one of G, M, K, as in \"2G\"", text);
	}
	*mb = (int64_t)(value * factor);
	return true;
}

double berth_timeout_sec(double base, double max, double specific, double global, bool *immediate)
{
	if (immediate) {
		*immediate = false;
	}
	if (base == 0) {
		return 0;
	}
	double bounded = max > 0 && max < base ? max : base;
	double effective = bounded * (specific >= 0 ? specific : global);
	if (immediate) {
		*immediate = effective == 0;
	}
	return effective;
}

char *berth_trial_name(const char *task_base_name, const uint8_t random[static BERTH_TRIAL_NAME_RANDOM_SIZE])
{
	static const char alphabet[] = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	size_t length = strlen(task_base_name), cut = 0;
	for (int points = 0; points < TRIAL_NAME_BASE_MAX && cut < length; points++) {
		uint32_t point;
		size_t step = 1;
		berth_utf8_next(task_base_name + cut, length - cut, &point, &step);
		cut += step;
	}
	while (cut > 0 && (task_base_name[cut - 1] == '_' || task_base_name[cut - 1] == '-')) {
		cut--;
	}
	char letters[TRIAL_NAME_RANDOM_LETTERS + 1] = {0};
	for (size_t i = 0; i < TRIAL_NAME_RANDOM_LETTERS; i++) {
		unsigned pair = (unsigned)random[2 * i] << 8 | random[2 * i + 1];
		letters[i] = alphabet[pair % (sizeof alphabet - 1)];
	}
	return berth_format("%.*s__%s", (int)cut, task_base_name, letters);
}

char *berth_compose_project(const char *session_id)
{
	struct berth_buf out = {0};
	size_t size = strlen(session_id);
	for (size_t at = 0; at < size;) {
		uint32_t point = 0;
		size_t length = 1;
		bool ascii = berth_utf8_next(session_id + at, size - at, &point, &length) && point < 0x80;
		int lower = ascii ? tolower((int)point) : '-';
		bool alphanumeric = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
		if (at == 0 && !alphanumeric) {
			berth_buf_add_byte(&out, '0');
		}
		berth_buf_add_byte(&out, (uint8_t)(alphanumeric || lower == '_' ? lower : '-'));
		at += length;
	}
	berth_buf_add_text(&out, size == 0 ? "0" : "");
	return berth_buf_steal(&out);
}
