// SPDX-License-Identifier: Apache-2.0
// The daemon tells many things only in words. They are matched here, and nowhere else.
#include <stdlib.h>
#include <string.h>

#include "agent/docker/internal.h"
#include "common/base/mem.h"

static bool has_any(const char *message, const char *const *words)
{
	for (; *words; words++) {
		if (strcasestr(message, *words)) {
			return true;
		}
	}
	return false;
}

bool docker_is_exhausted(const char *message)
{
	static const char *const words[] = {"non-overlapping IPv4 address pool", "predefined address pools",
		"no space left on device", "disk quota exceeded", NULL};
	return has_any(message, words);
}

// The host of the first URL in the message, else the name that was looked up.
static char *registry_of(const char *message)
{
	const char *host = strstr(message, "https://");
	host = host ? host + strlen("https://") : strstr(message, "http://");
	if (!host && (host = strstr(message, "lookup "))) {
		host += strlen("lookup ");
	} else if (host && strncmp(host, "http://", 7) == 0) {
		host += strlen("http://");
	}
	return host ? berth_strndup(host, strcspn(host, "/ \":")) : berth_strdup("the registry");
}

bool docker_is_registry_failure(const char *message, char **registry)
{
	static const char *const words[] = {"dial tcp", "no such host", "server misbehaving", "TLS handshake timeout",
		"i/o timeout", "connection reset by peer", "Client.Timeout exceeded", "net/http: request canceled",
		"toomanyrequests", "503 Service Unavailable", "502 Bad Gateway", "500 Internal Server Error", NULL};
	static const char *const places[] = {"/v2/", "lookup ", "registry", "toomanyrequests", NULL};
	if (!has_any(message, words) || !has_any(message, places)) {
		return false;
	}
	if (registry) {
		*registry = registry_of(message);
	}
	return true;
}

static enum berth_error_code code_of(int status, const char *message)
{
	if (docker_is_exhausted(message)) {
		return BERTH_ERROR_EXHAUSTED;
	}
	if (status == 404) {
		return BERTH_ERROR_NOT_FOUND;
	}
	if (status == 409 || strstr(message, "has active endpoints") || strstr(message, "is ambiguous")) {
		return BERTH_ERROR_CONFLICT;
	}
	return status >= 500 ? BERTH_ERROR_INTERNAL : BERTH_ERROR_INVALID;
}

bool docker_fail(struct berth_error *err, int status, const char *what, const char *message)
{
	BERTH_AUTO_FREE char *registry = NULL;
	if (docker_is_registry_failure(message, &registry)) {
		return berth_fail(
			err, BERTH_ERROR_UNAVAILABLE, "%s: cannot reach the registry %s: %s", what, registry, message);
	}
	enum berth_error_code code = code_of(status, message);
	const char *hint = "";
	if (code == BERTH_ERROR_EXHAUSTED) {
		hint = strstr(message, "address pool")
		               ? " (remove unused networks, or give the daemon larger default-address-pools)"
		               : " (free disk space below the daemon's data root)";
	}
	return berth_fail(err, code, "%s: %s%s", what, message, hint);
}
