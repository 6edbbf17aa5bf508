// SPDX-License-Identifier: Apache-2.0
// Preloaded below a program of ours and the libraries that it uses (RocksDB, gRPC, curl): numbers each call that makes
// something durable below one folder, or sends bytes through a socket, and kills the process at one of them, or makes
// some of them fail. failpoint.h says how it is told.
//
// A call is wrapped where a dynamic symbol of libc names it; docs/CRASH.md lists what that leaves out.
// Each symbol is defined here under its own name: with 64-bit offsets asked for, open would be open64.
#undef _FILE_OFFSET_BITS
#include "tests/crash/failpoint.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE   160
#define KIND_SIZE   16
#define MS_PER_S    1000
#define NS_PER_MS   1000000L
#define IOVECS_MOST 64

enum moment { BEFORE, AFTER, TORN };

static struct {
	bool on;
	char root[PATH_MAX];
	size_t root_size;
	int log_fd;
	const char *phase; // mapped
	long kill_at;      // a point's number; 0: none
	bool kills;        // at a call of this class
	enum moment moment;
	long linger_ms;
	int error; // 0: none
	long stall_ms;
	const char *call, *kind, *during;
	long from, times;
} plan = {.log_fd = -1};

static atomic_long points, matched;

// --- what the environment says ---

static long number_of(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text ? strtol(text, NULL, 10) : otherwise;
}

static const char *text_of(const char *name)
{
	const char *text = getenv(name);
	return text ? text : "*";
}

static void map_phase(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, FAILPOINT_PHASE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	plan.phase = mapped == MAP_FAILED ? NULL : mapped;
	if (fd >= 0) {
		close(fd);
	}
}

static int errno_of(const char *name)
{
	static const struct {
		const char *name;
		int value;
	} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EMFILE", EMFILE}};
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		if (strcmp(name, errors[i].name) == 0) {
			return errors[i].value;
		}
	}
	return 0;
}

static void take_error(const char *name)
{
	plan.stall_ms = name && strcmp(name, "stall") == 0 ? number_of(FAILPOINT_STALL_MS, 0) : 0;
	plan.error = name ? errno_of(name) : 0;
	plan.kills = name && strcmp(name, "kill") == 0;
	plan.call = text_of(FAILPOINT_CALL);
	plan.kind = text_of(FAILPOINT_KIND);
	plan.during = getenv(FAILPOINT_DURING);
	plan.from = number_of(FAILPOINT_FROM, 1);
	plan.times = number_of(FAILPOINT_TIMES, 0);
}

static __attribute__((constructor)) void read_plan(void)
{
	const char *root = getenv(FAILPOINT_ROOT), *log = getenv(FAILPOINT_LOG), *phase = getenv(FAILPOINT_PHASE);
	const char *moment = getenv(FAILPOINT_MOMENT);
	if (!root) {
		return;
	}
	snprintf(plan.root, sizeof plan.root, "%s", root);
	plan.root_size = strlen(plan.root);
	if (log) {
		plan.log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	}
	if (phase) {
		map_phase(phase);
	}
	plan.kill_at = number_of(FAILPOINT_KILL_AT, 0);
	plan.linger_ms = number_of(FAILPOINT_LINGER_MS, 0);
	plan.moment = moment && strcmp(moment, "after") == 0  ? AFTER
	              : moment && strcmp(moment, "torn") == 0 ? TORN
	                                                      : BEFORE;
	take_error(getenv(FAILPOINT_ERROR));
	plan.on = true;
}

// --- what a call touches ---

static bool ends_with(const char *text, const char *end)
{
	size_t size = strlen(text), end_size = strlen(end);
	return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

// By the path below the root: RocksDB's kinds of files, and those of our own folders.
static const char *kind_of_file(const char *path)
{
	static const struct {
		const char *part, *kind;
	} parts[] = {{"/blobs/", "blob"}, {"/bundles/", "bundle"}, {"/spool/", "result"}, {"/trials/", "work"},
		{"MANIFEST-", "MANIFEST"}, {"/OPTIONS-", "OPTIONS"}, {"/CURRENT", "CURRENT"}, {"/IDENTITY", "IDENTITY"},
		{".dbtmp", "CURRENT"}, {"ballast.berth", "ballast"}, {"LOCK", "lock"}, {"ledger.floor", "floor"}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (strstr(path, parts[i].part)) {
			return parts[i].kind;
		}
	}
	if (ends_with(path, ".sst")) {
		return "SST";
	}
	const char *name = strrchr(path, '/');
	if (ends_with(path, ".log")) { // RocksDB's has a number for a name
		return name && isdigit((unsigned char)name[1]) ? "WAL" : "work";
	}
	return strstr(path, "/LOG") ? "info-log" : "other";
}

static const char *kind_of_path(int folder, const char *path)
{
	char whole[PATH_MAX];
	if (path[0] != '/' && folder != AT_FDCWD) {
		char link[32];
		snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
		ssize_t size = readlink(link, whole, sizeof whole - 1);
		if (size < 0 || (size_t)size + strlen(path) + 2 > sizeof whole) {
			return NULL;
		}
		whole[size] = '/';
		strcpy(whole + size + 1, path);
		path = whole;
	}
	bool inside = strncmp(path, plan.root, plan.root_size) == 0 &&
	              (path[plan.root_size] == '/' || path[plan.root_size] == 0);
	return inside ? kind_of_file(path) : NULL;
}

static const char *kind_of_socket(int fd)
{
	int family = 0;
	socklen_t size = sizeof family;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0) {
		return NULL;
	}
	return family == AF_INET || family == AF_INET6 ? "socket" : family == AF_UNIX ? "engine" : NULL;
}

static const char *kind_of_fd(int fd)
{
	char link[32], path[PATH_MAX];
	struct stat info;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t size = readlink(link, path, sizeof path - 1);
	if (size <= 0) {
		return NULL;
	}
	path[size] = 0;
	if (path[0] != '/') {
		return strncmp(path, "socket:", 7) == 0 ? kind_of_socket(fd) : NULL;
	}
	const char *kind = kind_of_path(AT_FDCWD, path);
	return kind && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? "folder" : kind;
}

// --- points ---

static void say(long number, const char *call, const char *kind, const char *moment)
{
	char line[LINE_SIZE], phase[FAILPOINT_PHASE_SIZE] = "-";
	if (plan.log_fd < 0) {
		return;
	}
	if (plan.phase) {
		memcpy(phase, plan.phase, sizeof phase - 1);
	}
	int size = snprintf(line, sizeof line, "%ld\t%s\t%s\t%s\t%s\n", number, call, kind, phase, moment);
	syscall(SYS_write, plan.log_fd, line, (size_t)size);
}

static void rest(long ms)
{
	struct timespec time = {ms / MS_PER_S, ms % MS_PER_S * NS_PER_MS};
	nanosleep(&time, NULL);
}

static _Noreturn void die(void)
{
	syscall(SYS_kill, getpid(), SIGKILL);
	for (;;) {
		pause();
	}
}

struct point {
	long number;
	const char *call, *kind;
	bool dies;
	bool fails; // errno is set
};

static bool is_met(const char *call, const char *kind)
{
	return (plan.call[0] == '*' || strcmp(plan.call, call) == 0) &&
	       (plan.kind[0] == '*' || strcmp(plan.kind, kind) == 0) &&
	       (!plan.during || (plan.phase && strncmp(plan.phase, plan.during, strlen(plan.during)) == 0));
}

// Whether this call is one of those that the plan counts off.
static bool is_due(const struct point *point)
{
	if (!is_met(point->call, point->kind)) {
		return false;
	}
	long nth = atomic_fetch_add(&matched, 1) + 1;
	return nth >= plan.from && (!plan.times || nth < plan.from + plan.times);
}

static void inject(struct point *point)
{
	if ((!plan.error && !plan.stall_ms) || !is_due(point)) {
		return;
	}
	say(point->number, point->call, point->kind, plan.error ? "error" : "stall");
	if (plan.error) {
		point->fails = true;
		errno = plan.error;
	} else {
		rest(plan.stall_ms);
	}
}

// Counts a call that is about to be made; kind NULL: one that does not count. Does not return where the process is to
// die before it.
static struct point arrive(const char *call, const char *kind)
{
	struct point point = {.call = call, .kind = kind};
	if (!kind) {
		return point;
	}
	int kept = errno;
	point.number = atomic_fetch_add(&points, 1) + 1;
	point.dies = plan.kill_at ? point.number == plan.kill_at : plan.kills && is_due(&point);
	if (!plan.kill_at && !plan.kills && !plan.error && !plan.stall_ms) {
		say(point.number, call, kind, "-");
	} else if (point.dies && plan.moment == BEFORE) {
		say(point.number, call, kind, "before");
		rest(plan.linger_ms);
		die();
	}
	errno = kept;
	inject(&point);
	return point;
}

// Whether this call is to write a part and die. Where another call than a write has the number, it is whole.
static bool is_torn(const struct point *point)
{
	bool has_parts = strstr(point->call, "write") || strncmp(point->call, "send", 4) == 0;
	return has_parts && point->dies && plan.moment == TORN;
}

// After the call; `torn` tells that it wrote only a part.
static void depart(const struct point *point)
{
	if (point->dies) {
		say(point->number, point->call, point->kind, is_torn(point) ? "torn" : "after");
		rest(is_torn(point) ? plan.linger_ms : 0);
		die();
	}
}

// libc's own function of this name, once it is known.
#define REAL(name)                                                                                                     \
	static __typeof__(&name) real;                                                                                 \
	if (!real) {                                                                                                   \
		real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                                     \
	}

#define WRAP(name, kind, failed, ...)                                                                                  \
	REAL(name)                                                                                                     \
	struct point point = arrive(#name, plan.on ? (kind) : NULL);                                                   \
	if (point.fails) {                                                                                             \
		return failed;                                                                                         \
	}                                                                                                              \
	__typeof__(real(__VA_ARGS__)) result = real(__VA_ARGS__);                                                      \
	depart(&point);                                                                                                \
	return result

// --- writes and sends ---

ssize_t write(int fd, const void *data, size_t size)
{
	REAL(write)
	struct point point = arrive("write", plan.on ? kind_of_fd(fd) : NULL);
	if (point.fails) {
		return -1;
	}
	ssize_t result = real(fd, data, is_torn(&point) ? size / 2 : size);
	depart(&point);
	return result;
}

static ssize_t pwrite_at(
	ssize_t (*real)(int, const void *, size_t, off_t), int fd, const void *data, size_t size, off_t offset)
{
	struct point point = arrive("pwrite", plan.on ? kind_of_fd(fd) : NULL);
	if (point.fails) {
		return -1;
	}
	ssize_t result = real(fd, data, is_torn(&point) ? size / 2 : size, offset);
	depart(&point);
	return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	REAL(pwrite)
	return pwrite_at(real, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
	REAL(pwrite64)
	return pwrite_at(real, fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	REAL(writev)
	struct point point = arrive("writev", plan.on ? kind_of_fd(fd) : NULL);
	if (point.fails) {
		return -1;
	}
	ssize_t result = real(fd, parts, is_torn(&point) && count > 1 ? count / 2 : count);
	depart(&point);
	return result;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	REAL(send)
	struct point point = arrive("send", plan.on ? kind_of_fd(fd) : NULL);
	if (point.fails) {
		return -1;
	}
	ssize_t result = real(fd, data, is_torn(&point) ? size / 2 : size, flags);
	depart(&point);
	return result;
}

// The first half of the bytes of a message, for a send that is cut.
static ssize_t send_half(
	ssize_t (*real)(int, const struct msghdr *, int), int fd, const struct msghdr *message, int flags)
{
	struct iovec parts[IOVECS_MOST];
	struct msghdr half = *message;
	size_t whole = 0, count = 0;
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		whole += message->msg_iov[i].iov_len;
	}
	for (size_t left = whole / 2; left && count < message->msg_iovlen && count < IOVECS_MOST; count++) {
		parts[count] = message->msg_iov[count];
		parts[count].iov_len = parts[count].iov_len < left ? parts[count].iov_len : left;
		left -= parts[count].iov_len;
	}
	half.msg_iov = parts;
	half.msg_iovlen = count;
	return real(fd, &half, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	REAL(sendmsg)
	struct point point = arrive("sendmsg", plan.on ? kind_of_fd(fd) : NULL);
	if (point.fails) {
		return -1;
	}
	ssize_t result = is_torn(&point) ? send_half(real, fd, message, flags) : real(fd, message, flags);
	depart(&point);
	return result;
}

// --- syncs and sizes ---

int fsync(int fd)
{
	WRAP(fsync, kind_of_fd(fd), -1, fd);
}

int fdatasync(int fd)
{
	WRAP(fdatasync, kind_of_fd(fd), -1, fd);
}

int syncfs(int fd)
{
	WRAP(syncfs, kind_of_fd(fd), -1, fd);
}

int sync_file_range(int fd, off64_t offset, off64_t count, unsigned flags)
{
	WRAP(sync_file_range, kind_of_fd(fd), -1, fd, offset, count, flags);
}

int ftruncate(int fd, off_t size)
{
	WRAP(ftruncate, kind_of_fd(fd), -1, fd, size);
}

int ftruncate64(int fd, off64_t size)
{
	WRAP(ftruncate64, kind_of_fd(fd), -1, fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	WRAP(fallocate, kind_of_fd(fd), -1, fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size)
{
	WRAP(fallocate64, kind_of_fd(fd), -1, fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
	WRAP(posix_fallocate, kind_of_fd(fd), plan.error, fd, offset, size);
}

int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
	WRAP(posix_fallocate64, kind_of_fd(fd), plan.error, fd, offset, size);
}

// --- names ---

int rename(const char *from, const char *to)
{
	WRAP(rename, kind_of_path(AT_FDCWD, to), -1, from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	WRAP(renameat, kind_of_path(to_folder, to), -1, from_folder, from, to_folder, to);
}

int link(const char *from, const char *to)
{
	WRAP(link, kind_of_path(AT_FDCWD, to), -1, from, to);
}

int unlink(const char *path)
{
	WRAP(unlink, kind_of_path(AT_FDCWD, path), -1, path);
}

int unlinkat(int folder, const char *path, int flags)
{
	WRAP(unlinkat, kind_of_path(folder, path), -1, folder, path, flags);
}

// --- opens that make a file ---

static mode_t mode_of(int flags, va_list *arguments)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(*arguments, mode_t) : 0;
}

#define OPEN(name, folder, path, ...)                                                                                  \
	va_list arguments;                                                                                             \
	va_start(arguments, flags);                                                                                    \
	mode_t mode = mode_of(flags, &arguments);                                                                      \
	va_end(arguments);                                                                                             \
	REAL(name)                                                                                                     \
	struct point point = arrive("open", plan.on && flags & O_CREAT ? kind_of_path(folder, path) : NULL);           \
	if (point.fails) {                                                                                             \
		return -1;                                                                                             \
	}                                                                                                              \
	int result = real(__VA_ARGS__, mode);                                                                          \
	depart(&point);                                                                                                \
	return result

int open(const char *path, int flags, ...)
{
	OPEN(open, AT_FDCWD, path, path, flags);
}

int open64(const char *path, int flags, ...)
{
	OPEN(open64, AT_FDCWD, path, path, flags);
}

int openat(int folder, const char *path, int flags, ...)
{
	OPEN(openat, folder, path, folder, path, flags);
}

int openat64(int folder, const char *path, int flags, ...)
{
	OPEN(openat64, folder, path, folder, path, flags);
}
