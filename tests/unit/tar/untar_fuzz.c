// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tar stream: nothing may appear beside the folder, and bounds hold.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char *root;
	if (!root) {
		root = berth_format("/tmp/untar-fuzz-%d", (int)getpid());
	}
	BERTH_AUTO_FREE char *folder = berth_format("%s/in", root);
	struct berth_memory rest = {data, size};
	struct berth_untar_options options = {
		.strip_parts = size > 0 ? data[size - 1] & 1 : 0, .content_size_max = 1 << 20, .entries_max = 100};
	struct berth_error err;
	berth_untar(berth_source_memory(&rest), folder, &options, &err);
	berth_remove_all(folder, NULL);
	if (rmdir(root) != 0) {
		abort(); // something lies outside `folder`
	}
	return 0;
}
