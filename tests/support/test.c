// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test.h"

#include <stdlib.h>

#include "common/base/mem.h"

char *berth_test_folder(void)
{
	const char *root = getenv("TEST_TMPDIR");
	char *folder = berth_format("%s/berth-test-XXXXXX", root ? root : "/tmp");
	if (!mkdtemp(folder)) {
		abort();
	}
	return folder;
}

char *berth_test_data(const char *path)
{
	// Bazel runs a test in its runfiles folder, which mirrors the source tree.
	const char *root = getenv("TEST_SRCDIR");
	return root ? berth_format("%s/berth/%s", root, path) : berth_strdup(path);
}
