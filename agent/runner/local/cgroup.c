// SPDX-License-Identifier: Apache-2.0
// A group for one exec below its container's: whatever the exec starts is born in it and can't leave, so ending the
// group ends all of that and nothing else. Works where this process shares the host with the daemon.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/runner/local/internal.h"
#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define CGROUP_ROOT     "/sys/fs/cgroup"
#define END_PAUSE_MS    5
#define FREEZE_TRIES    40
#define PROC_FILE_MAX   (1024 * 1024)
#define CHILD_NAME_RAND 8

// Files below /proc and /sys tell no size.
static bool read_virtual(const char *path, struct berth_buf *out)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	while (out->size < PROC_FILE_MAX) {
		ssize_t got = read(fd, berth_buf_reserve(out, 4096), 4096);
		if (got <= 0) {
			berth_buf_text(out);
			berth_buf_add(out, "", 0);
			return got == 0;
		}
		out->size += (size_t)got;
	}
	return false;
}

static bool write_virtual(const char *folder, const char *file, const char *text)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, file);
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool is_folder(const char *path)
{
	struct stat stat_of;
	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

// "12:freezer:/path" (version 1) or "0::/path" (version 2). The folder of the wanted kind, or NULL.
static char *group_folder(char *line, bool unified)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path) {
		return NULL;
	}
	*path++ = 0;
	controllers++;
	if (unified) {
		if (*controllers) {
			return NULL;
		}
		BERTH_AUTO_FREE char *folder = berth_format(CGROUP_ROOT "%s", path);
		BERTH_AUTO_FREE char *killer = berth_format("%s/cgroup.kill", folder);
		return berth_file_exists(killer) ? BERTH_STEAL(folder) : NULL;
	}
	if (strcmp(controllers, "freezer") != 0) {
		return NULL;
	}
	BERTH_AUTO_FREE char *folder = berth_format(CGROUP_ROOT "/freezer%s", path);
	return is_folder(folder) ? BERTH_STEAL(folder) : NULL;
}

// The group of `pid`, but only when its path names the container: a daemon on another host, or in another process
// namespace, counts pids that mean someone else here.
static char *find_group(const char *container, int64_t pid, bool *unified)
{
	BERTH_AUTO_FREE char *proc = berth_format("/proc/%lld/cgroup", (long long)pid);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (pid <= 0 || !read_virtual(proc, &text)) {
		return NULL;
	}
	for (int version = 1; version <= 2; version++) {
		BERTH_AUTO_FREE char *lines = berth_strdup(berth_buf_text(&text));
		char *rest = lines;
		for (char *line; (line = strsep(&rest, "\n"));) {
			if (strlen(container) < 12 || !strstr(line, container)) {
				continue;
			}
			char *folder = group_folder(line, version == 2);
			if (folder) {
				*unified = version == 2;
				return folder;
			}
		}
	}
	return NULL;
}

// Calls `each` for every process of the group and gives their number; -1 when it can't be read.
static int each_process(const char *folder, void (*each)(void *context, pid_t pid), void *context)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "cgroup.procs");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!read_virtual(path, &text)) {
		return -1;
	}
	int count = 0;
	for (const char *at = berth_buf_text(&text); isdigit((unsigned char)*at); count++) {
		char *end;
		long pid = strtol(at, &end, 10);
		// 0 is a process of another namespace; a signal to 0 would meet ourselves.
		if (each && pid > 0) {
			each(context, (pid_t)pid);
		}
		at = end + (*end == '\n');
	}
	return count;
}

static void find_pid(void *context, pid_t pid)
{
	int64_t *wanted = context;
	if (*wanted == pid) {
		*wanted = 0;
	}
}

bool local_cgroup_reachable(const char *container, int64_t pid)
{
	bool unified;
	BERTH_AUTO_FREE char *folder = find_group(container, pid, &unified);
	if (!folder || access(folder, W_OK) != 0) {
		return false;
	}
	int64_t wanted = pid;
	return each_process(folder, find_pid, &wanted) > 0 && wanted == 0;
}

bool local_cgroup_enter(struct local_cgroup *cgroup, const char *container, int64_t pid)
{
	bool unified;
	BERTH_AUTO_FREE char *parent = find_group(container, pid, &unified);
	if (!parent) {
		return false;
	}
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	BERTH_AUTO_FREE char *folder = berth_format("%s/berth-exec-%.*s", parent, CHILD_NAME_RAND, id);
	if (mkdir(folder, 0755) != 0) {
		return false;
	}
	char text[32];
	snprintf(text, sizeof text, "%lld\n", (long long)pid);
	int64_t wanted = pid;
	if (!write_virtual(folder, "cgroup.procs", text) || each_process(folder, find_pid, &wanted) < 0 ||
		wanted != 0) {
		rmdir(folder);
		return false;
	}
	*cgroup = (struct local_cgroup){BERTH_STEAL(folder), unified};
	return true;
}

static void kill_pid(void *context, pid_t pid)
{
	(void)context;
	kill(pid, SIGKILL);
}

// Frozen, nothing can fork between the listing and the kill; thawed, the kills take effect.
static void kill_frozen(const char *folder, struct berth_until until)
{
	write_virtual(folder, "freezer.state", "FROZEN");
	for (int try = 0; try < FREEZE_TRIES; try++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, "freezer.state");
		BERTH_AUTO(berth_buf_free) struct berth_buf state = {0};
		if (!read_virtual(path, &state) || strncmp(berth_buf_text(&state), "FROZEN", 6) == 0 ||
			!berth_sleep_ms(END_PAUSE_MS, until, NULL)) {
			break;
		}
	}
	each_process(folder, kill_pid, NULL);
	write_virtual(folder, "freezer.state", "THAWED");
}

static bool end_group(const struct local_cgroup *cgroup, struct berth_until until, struct berth_error *err)
{
	for (;;) {
		int count = each_process(cgroup->folder, NULL, NULL);
		if (!is_folder(cgroup->folder)) {
			return true; // went with its container
		}
		if (count == 0 && (rmdir(cgroup->folder) == 0 || errno == ENOENT)) {
			return true;
		}
		if (count > 0 && cgroup->unified) {
			write_virtual(cgroup->folder, "cgroup.kill", "1");
		} else if (count > 0) {
			kill_frozen(cgroup->folder, until);
		}
		if (!berth_sleep_ms(END_PAUSE_MS, until, NULL)) {
			return berth_fail(
				err, BERTH_ERROR_INTERNAL, "%d process(es) still in %s", count, cgroup->folder);
		}
	}
}

bool local_cgroup_end(struct local_cgroup *cgroup, struct berth_until until, struct berth_error *err)
{
	if (!cgroup->folder) {
		return true;
	}
	bool good = end_group(cgroup, until, err);
	free(BERTH_STEAL(cgroup->folder));
	return good;
}
