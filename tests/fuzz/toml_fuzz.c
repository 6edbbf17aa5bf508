// SPDX-License-Identifier: Apache-2.0
// Every key of a document that parses has a line inside of it.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/codec/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_toml *document = berth_toml_parse((const char *)data, size, "fuzz", NULL);
	if (!document) {
		return 0;
	}
	void *cursor = NULL;
	const char *key;
	while (berth_json_next(berth_toml_root(document), &cursor, &key, NULL)) {
		int line = berth_toml_line(document, key);
		if (line < 1 || (size_t)line > size + 1) {
			abort();
		}
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	if (!berth_json_write_canonical(berth_toml_root(document), &out, NULL)) {
		abort();
	}
	berth_toml_free(document);
	return 0;
}
