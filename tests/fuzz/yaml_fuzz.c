// SPDX-License-Identifier: Apache-2.0
// Whatever parses has a canonical form, and the tree is the same with and without lines.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/codec/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *lines = NULL;
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_yaml_parse((const char *)data, size, "fuzz", NULL);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *lined = berth_yaml_parse_lines((const char *)data, size, "fuzz", &lines, NULL);
	if (!value != !lined || !value != !lines || !berth_json_equal(value, lined)) {
		abort();
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	if (value && !berth_json_write_canonical(value, &out, NULL)) {
		abort();
	}
	return 0;
}
