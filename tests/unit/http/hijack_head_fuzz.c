// SPDX-License-Identifier: Apache-2.0
// Any bytes as an answer's head and error body; a head that is found must not change when more bytes follow.
#include <stdint.h>
#include <stdlib.h>

#include "common/http/hijack_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_error err;
	struct berth_hijack_head whole, cut;
	if (berth_hijack_head_parse(data, size, &whole, &err) != BERTH_HIJACK_HEAD) {
		return 0;
	}
	if (whole.size > size || whole.status < 100 || whole.status > 999) {
		abort();
	}
	if (berth_hijack_head_parse(data, whole.size, &cut, &err) != BERTH_HIJACK_HEAD || cut.status != whole.status ||
		berth_hijack_head_parse(data, whole.size - 1, &cut, &err) != BERTH_HIJACK_MORE) {
		abort();
	}
	struct berth_buf text = {0};
	berth_hijack_body_text(&whole, data + whole.size, size - whole.size, &text);
	if (text.size > size) {
		abort();
	}
	berth_buf_free(&text);
	return 0;
}
