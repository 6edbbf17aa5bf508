// SPDX-License-Identifier: Apache-2.0
// gRPC says only that it could not listen; these find out why.
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/mem.h"
#include "common/rpc/internal.h"

#define UNIX_PREFIX "unix:"

static bool unix_address(const char *address, struct sockaddr_un *result)
{
	if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) != 0) {
		return false;
	}
	*result = (struct sockaddr_un){.sun_family = AF_UNIX};
	const char *path = address + strlen(UNIX_PREFIX);
	if (strlen(path) >= sizeof result->sun_path) {
		return false;
	}
	memcpy(result->sun_path, path, strlen(path) + 1);
	return true;
}

// gRPC unlinks whatever socket lies at the path, even one that another process serves.
bool berth_rpc_address_is_served(const char *address)
{
	struct sockaddr_un local;
	if (!unix_address(address, &local)) {
		return false;
	}
	BERTH_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, (const struct sockaddr *)&local, sizeof local) == 0;
}

static int try_bind(const struct addrinfo *where)
{
	BERTH_AUTO_CLOSE int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
		bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, 1) != 0) {
		return errno;
	}
	return 0;
}

static bool fail_tcp(const char *address, struct berth_error *err)
{
	const char *colon = strrchr(address, ':');
	if (!colon || colon == address || !colon[1]) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is no address; write host:port or unix:/path", address);
	}
	bool brackets = address[0] == '[' && colon[-1] == ']';
	const char *start = brackets ? address + 1 : address;
	BERTH_AUTO_FREE char *host = berth_strndup(start, (size_t)(colon - start) - (brackets ? 1 : 0));
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found = NULL;
	int status = getaddrinfo(host, colon + 1, &hints, &found);
	if (status != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "cannot listen on %s: %s", address, gai_strerror(status));
	}
	int number = try_bind(found);
	freeaddrinfo(found);
	if (number == EADDRINUSE) {
		return berth_fail(err, BERTH_ERROR_CONFLICT,
			"%s is taken by another program; stop it or choose another port", address);
	}
	errno = number ? number : EIO;
	return berth_fail_errno(err, "cannot listen on %s", address);
}

bool berth_rpc_address_fail(const char *address, struct berth_error *err)
{
	struct sockaddr_un local;
	if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) != 0) {
		return fail_tcp(address, err);
	}
	if (!unix_address(address, &local)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is longer than a socket's path may be", address);
	}
	BERTH_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&local, sizeof local) == 0) {
		unlink(local.sun_path);
		errno = EIO;
	}
	return berth_fail_errno(err, "cannot listen on %s", address);
}
