// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/task/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

void test_write(const char *folder, const char *name, const char *text)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO_FREE char *parent = berth_strndup(path, (size_t)(strrchr(path, '/') - path));
	struct berth_error err;
	assert_ok(berth_mkdir_all(parent, 0755, &err), err);
	FILE *file = fopen(path, "w"); // nothing here has to outlive a crash
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	assert_int_equal(fclose(file), 0);
}

char *test_task(const char *name, const char *toml)
{
	BERTH_AUTO_FREE char *root = berth_test_folder();
	char *folder = berth_path_join(root, name);
	test_write(folder, "task.toml", toml);
	test_write(folder, "instruction.md", "Do it.\n");
	test_write(folder, "environment/Dockerfile", "FROM scratch\n");
	test_write(folder, "tests/test.sh", "#!/bin/bash\n");
	return folder;
}
