// SPDX-License-Identifier: Apache-2.0
// A task.toml of any bytes is a task or an error with a message.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || !berth_write_all(fd, data, size, NULL)) {
		abort();
	}
	close(fd);
}

static void prepare(void)
{
	static char folder[] = "/tmp/berth-task-fuzz-XXXXXX";
	if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("environment", 0755) != 0 || mkdir("tests", 0755) != 0) {
		abort();
	}
	put("instruction.md", "x", 1);
	put("environment/Dockerfile", "", 0);
	put("tests/test.sh", "", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool prepared;
	if (!prepared) {
		prepare();
		prepared = true;
	}
	put("task.toml", data, size);
	struct berth_task *task = NULL;
	struct berth_error err = {0};
	if (berth_task_load(".", false, &task, &err)) {
		for (size_t i = 0; i < task->steps_count; i++) {
			berth_task_verifier_mode(task, &task->steps[i]);
		}
		berth_task_free(task);
	} else if (!err.message[0]) {
		abort();
	}
	return 0;
}
