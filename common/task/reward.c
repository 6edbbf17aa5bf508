// SPDX-License-Identifier: Apache-2.0
#include "common/task/reward.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/mem.h"

#define SHOWN_SIZE_MAX 200

// The start of what was not understood, quoted so that any byte can be shown.
static char *quoted(const char *text, size_t size)
{
	size_t cut = size < SHOWN_SIZE_MAX ? size : SHOWN_SIZE_MAX;
	while (cut < size && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) {
		cut--; // not inside a character
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *shown = berth_json_string_n(text, cut);
	struct berth_buf out = {0};
	berth_json_write(shown, 0, &out);
	berth_buf_add_text(&out, cut < size ? "..." : "");
	return berth_buf_steal(&out);
}

static void reject(struct berth_reward *reward, const char *exception, char *message)
{
	berth_json_free(reward->rewards);
	free(reward->message);
	*reward = (struct berth_reward){.exception = exception, .message = message};
}

static void reject_text(
	struct berth_reward *reward, const char *exception, const char *what, const char *text, size_t size)
{
	BERTH_AUTO_FREE char *shown = quoted(text, size);
	reject(reward, exception, berth_format("%s: %s", what, shown));
}

void berth_reward_parse_text(const char *text, size_t size, struct berth_reward *reward)
{
	*reward = (struct berth_reward){0};
	double value;
	if (size == 0) {
		reject(reward, "RewardFileEmptyError", berth_strdup("reward.txt is empty"));
	} else if (!berth_python_float(text, size, &value)) {
		reject_text(reward, "VerifierOutputParseError", "reward.txt holds no number", text, size);
	} else if (!isfinite(value)) {
		reject_text(reward, "VerifierOutputParseError", "reward.txt holds no finite number", text, size);
	} else {
		reward->rewards = berth_json_object();
		berth_json_set(reward->rewards, "reward", berth_json_real(value));
	}
}

// One member as a number, by pydantic's rules for `float | int`; NULL with the exception set when it is none.
static berth_json *member_number(
	const char *key, const berth_json *value, const char *text, size_t size, struct berth_reward *reward)
{
	double number;
	switch (berth_json_type(value)) {
	case BERTH_JSON_INTEGER:
	case BERTH_JSON_REAL:
		return berth_json_copy(value);
	case BERTH_JSON_BOOL:
		return berth_json_real(berth_json_as_bool(value) ? 1 : 0);
	case BERTH_JSON_STRING:
		if (berth_python_float(berth_json_as_string(value), berth_json_string_size(value), &number)) {
			if (isfinite(number)) {
				return berth_json_real(number);
			}
			reject_text(
				reward, "VerifierOutputParseError", "reward.json holds no finite number", text, size);
			return NULL;
		}
		break;
	default:
		break;
	}
	BERTH_AUTO_FREE char *shown_key = quoted(key, strlen(key));
	BERTH_AUTO_FREE char *what = berth_format("reward.json: %s is no number", shown_key);
	reject_text(reward, "ValidationError", what, text, size);
	return NULL;
}

void berth_reward_parse_json(const char *text, size_t size, struct berth_reward *reward)
{
	*reward = (struct berth_reward){0};
	if (size == 0) {
		reject(reward, "RewardFileEmptyError", berth_strdup("reward.json is empty"));
		return;
	}
	struct berth_error err;
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_parse(text, size, "reward.json", &err);
	if (!value) {
		reject_text(reward, "VerifierOutputParseError", err.message, text, size);
		return;
	}
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		bool null = berth_json_is(value, BERTH_JSON_NULL);
		reject_text(reward, null ? "VerifierOutputParseError" : "ValidationError",
			"reward.json must hold an object of names and numbers", text, size);
		return;
	}
	reward->rewards = berth_json_object();
	void *cursor = NULL;
	const char *key;
	berth_json *member;
	while (berth_json_next(value, &cursor, &key, &member)) {
		berth_json *number = member_number(key, member, text, size, reward);
		if (!number) {
			return;
		}
		berth_json_set(reward->rewards, key, number);
	}
}

// Opens `name` in the folder for reading. The folder was written by the sandbox: a link may lead to another file in it,
// never out of it, or the sandbox could have this host read its own files.
static int open_inside(int folder, const char *name)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
	if (fd < 0 && errno == ENOSYS) {
		fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	}
	return fd;
}

// Reads the whole of `fd` up to the limit; false with the exception set.
static bool read_whole(int fd, const char *name, struct berth_buf *out, struct berth_reward *reward)
{
	while (out->size <= BERTH_REWARD_FILE_SIZE_MAX) {
		ssize_t got = read(fd, berth_buf_reserve(out, 64 * 1024), 64 * 1024);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			const char *exception = errno == EISDIR ? "IsADirectoryError" : "OSError";
			reject(reward, exception, berth_format("%s: %s", name, strerror(errno)));
			return false;
		}
		if (got == 0) {
			return true;
		}
		out->size += (size_t)got;
	}
	reject(reward, "VerifierOutputParseError",
		berth_format("%s is larger than %d bytes", name, BERTH_REWARD_FILE_SIZE_MAX));
	return false;
}

// False when there is no such file.
static bool read_one(int folder, const char *name,
	void (*parse)(const char *text, size_t size, struct berth_reward *reward), struct berth_reward *reward)
{
	BERTH_AUTO_CLOSE int fd = open_inside(folder, name);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		return false;
	}
	*reward = (struct berth_reward){0};
	struct stat found;
	if (fd < 0 && (errno == EXDEV || errno == ELOOP)) {
		reject(reward, "VerifierOutputParseError",
			berth_format(
				"%s is a link that leads out of the verifier's folder: write the file itself", name));
	} else if (fd < 0 || fstat(fd, &found) != 0) {
		const char *exception = errno == EACCES ? "PermissionError" : "OSError";
		reject(reward, exception, berth_format("%s: %s", name, strerror(errno)));
	} else if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
		reject(reward, "VerifierOutputParseError", berth_format("%s is no regular file", name));
	} else {
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		if (read_whole(fd, name, &text, reward)) {
			parse(berth_buf_text(&text), text.size, reward);
		}
	}
	return true;
}

void berth_reward_read(const char *verifier_folder, struct berth_reward *reward)
{
	*reward = (struct berth_reward){0};
	BERTH_AUTO_CLOSE int folder = open(verifier_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0 && (read_one(folder, "reward.json", berth_reward_parse_json, reward) ||
				   read_one(folder, "reward.txt", berth_reward_parse_text, reward))) {
		return;
	}
	reject(reward, "RewardFileNotFoundError",
		berth_format("neither reward.json nor reward.txt is in %s: the test script must write one of them to "
			     "/logs/verifier",
			verifier_folder));
}

void berth_reward_free(struct berth_reward *reward)
{
	berth_json_free(reward->rewards);
	free(reward->message);
	*reward = (struct berth_reward){0};
}
