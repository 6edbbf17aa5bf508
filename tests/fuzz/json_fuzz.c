// SPDX-License-Identifier: Apache-2.0
// What is read and written canonically reads back equal, and its canonical form is a fixed point.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_parse(data, size, "fuzz", NULL);
	if (!value) {
		return 0;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf first = {0}, second = {0}, indented = {0};
	if (!berth_json_write_canonical(value, &first, NULL)) {
		abort();
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *back = berth_json_parse(first.data, first.size, "fuzz", NULL);
	if (!back || !berth_json_equal(value, back) || !berth_json_write_canonical(back, &second, NULL) ||
		first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
		abort();
	}
	berth_json_write(value, 2, &indented);
	BERTH_AUTO(berth_json_cleanup) berth_json *again = berth_json_parse(indented.data, indented.size, "fuzz", NULL);
	if (!again || !berth_json_equal(value, again)) {
		abort();
	}
	return 0;
}
