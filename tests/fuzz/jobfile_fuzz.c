// SPDX-License-Identifier: Apache-2.0
// A job file of any bytes is a job or an error with a message. It runs in an empty folder.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/jobfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void prepare(void)
{
	static char folder[] = "/tmp/berth-jobfile-fuzz-XXXXXX";
	if (!mkdtemp(folder) || chdir(folder) != 0) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool prepared;
	if (!prepared) {
		prepare();
		prepared = true;
	}
	int fd = open("job.yaml", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || !berth_write_all(fd, data, size, NULL)) {
		abort();
	}
	close(fd);
	struct berth_job_flags flags = berth_job_flags_none();
	flags.config_file = "job.yaml";
	struct berth_job *job = NULL;
	struct berth_error err = {0};
	if (berth_job_load(&flags, &job, &err)) {
		berth_job_free(job);
	} else if (!err.message[0]) {
		abort();
	}
	return 0;
}
