// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/store/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

static char *disk;

int small_disk_mount(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	bool own = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
	if (own && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("tmpfs", folder, "tmpfs", 0, "size=64m") == 0) {
		disk = BERTH_STEAL(folder);
	}
	return 0;
}

int small_disk_unmount(void **state)
{
	(void)state;
	if (disk) {
		umount(disk);
	}
	free(disk);
	return 0;
}

char *small_disk_folder(const char *name)
{
	if (!disk) {
		print_message("no mount namespace here\n");
		skip();
	}
	return berth_path_join(disk, name);
}

char *small_disk_fill(int64_t bytes)
{
	char *path = berth_path_join(disk, "filler");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(posix_fallocate(fd, 0, bytes), 0);
	close(fd);
	return path;
}

void small_disk_empty(char *filler)
{
	assert_int_equal(unlink(filler), 0);
	free(filler);
}
