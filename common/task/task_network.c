// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/task_internal.h"

#define LABEL_LENGTH_MAX 63
#define HOST_LENGTH_MAX  253

const char *const berth_task_network_modes[] = {"public", "no-network", "allowlist", NULL};

const char *berth_network_mode_name(enum berth_network_mode mode)
{
	return berth_task_network_modes[mode == BERTH_NETWORK_UNSET ? 0 : mode - BERTH_NETWORK_PUBLIC];
}

static bool is_label(const char *text, size_t length)
{
	if (length == 0 || length > LABEL_LENGTH_MAX || text[0] == '-' || text[length - 1] == '-') {
		return false;
	}
	for (size_t i = 0; i < length; i++) {
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) && text[i] != '-') {
			return false;
		}
	}
	return true;
}

static bool is_host_name(const char *host)
{
	if (strlen(host) > HOST_LENGTH_MAX) {
		return false;
	}
	host += strncmp(host, "*.", 2) == 0 ? 2 : 0;
	for (;;) {
		size_t length = strcspn(host, ".");
		if (!is_label(host, length)) {
			return false;
		}
		if (!host[length]) {
			return true;
		}
		host += length + 1;
	}
}

// An address, or a network whose host bits are all zero.
static bool is_address(const char *host)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	BERTH_AUTO_FREE char *address = berth_strndup(host, strcspn(host, "/"));
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(family, address, bytes) != 1) {
		return false;
	}
	const char *slash = strchr(host, '/');
	if (!slash) {
		return true;
	}
	size_t bits = family == AF_INET ? 32 : 128, digits = strspn(slash + 1, "0123456789");
	if (digits == 0 || digits > 3 || slash[1 + digits]) {
		return false;
	}
	size_t prefix = strtoul(slash + 1, NULL, 10);
	for (size_t bit = prefix; bit < bits; bit++) {
		if (bytes[bit / 8] & (0x80 >> bit % 8)) {
			return false;
		}
	}
	return prefix <= bits;
}

static void normalize(char *host)
{
	for (char *at = host; *at; at++) {
		*at = (char)tolower((unsigned char)*at);
	}
	for (size_t length = strlen(host); length > 0 && host[length - 1] == '.'; length--) {
		host[length - 1] = 0;
	}
}

bool berth_task_check_network(struct berth_reading *reading, const char *path, struct berth_task_network *network)
{
	BERTH_AUTO_FREE char *key = berth_schema_path(path, "allowed_hosts");
	struct berth_strings *hosts = &network->allowed_hosts;
	if (hosts->count > 0 && network->mode != BERTH_NETWORK_ALLOWLIST) {
		return berth_schema_fail(
			reading, key, "works with an allow list only: write network_mode = \"allowlist\" beside it");
	}
	for (size_t i = 0; i < hosts->count; i++) {
		normalize(hosts->items[i]);
		// Digits and dots alone are meant as an address: 1.2.3 is no host name.
		bool numeric = strspn(hosts->items[i], "0123456789./") == strlen(hosts->items[i]);
		if (!is_address(hosts->items[i]) && (numeric || !is_host_name(hosts->items[i]))) {
			return berth_schema_fail(reading, key,
				"holds \"%s\": write host names, \"*.name\", addresses or networks, without port, path "
				"and scheme",
				hosts->items[i]);
		}
	}
	return true;
}
