// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/rpc.h"

#define SCHEME        "spiffe://"
#define NAME_SIZE_MAX 63

static const struct {
	enum berth_rpc_role role;
	const char *name;
} roles[] = {
	{BERTH_ROLE_AGENT, "agent"},
	{BERTH_ROLE_USER, "user"},
	{BERTH_ROLE_OPERATOR, "operator"},
	{BERTH_ROLE_COORDINATOR, "coordinator"},
	{BERTH_ROLE_ANYONE, "anyone"},
};

const char *berth_rpc_role_name(enum berth_rpc_role role)
{
	for (size_t i = 0; i < BERTH_COUNT(roles); i++) {
		if (roles[i].role == role) {
			return roles[i].name;
		}
	}
	return "none";
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Copies the part before `end` (or the rest) and returns what follows it; NULL when the part is no name.
static const char *take_name(const char *text, char end, char name[static BERTH_RPC_NAME_MAX])
{
	size_t length = 0;
	while (text[length] && text[length] != end) {
		char c = text[length];
		bool inner = c == '.' || c == '_' || c == '-';
		if (length >= NAME_SIZE_MAX || !(is_letter_or_digit(c) || (inner && length > 0))) {
			return NULL;
		}
		name[length] = c;
		length++;
	}
	if (length == 0 || text[length] != end) {
		return NULL;
	}
	name[length] = 0;
	return end ? text + length + 1 : text + length;
}

static bool role_parse(const char *name, enum berth_rpc_role *role)
{
	for (size_t i = 0; i < BERTH_COUNT(roles); i++) {
		if (roles[i].role != BERTH_ROLE_ANYONE && strcmp(roles[i].name, name) == 0) {
			*role = roles[i].role;
			return true;
		}
	}
	return false;
}

bool berth_rpc_principal_parse(const char *spiffe_id, struct berth_rpc_principal *principal, struct berth_error *err)
{
	struct berth_rpc_principal parsed = {0};
	char role[BERTH_RPC_NAME_MAX];
	if (strncmp(spiffe_id, SCHEME, strlen(SCHEME)) != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "SPIFFE id %.200s does not start with " SCHEME, spiffe_id);
	}
	const char *rest = take_name(spiffe_id + strlen(SCHEME), '/', parsed.fleet);
	if (!rest) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"SPIFFE id %.200s: the fleet must be letters, digits, dots, underscores and hyphens, at most "
			"%d, and be followed by a role",
			spiffe_id, NAME_SIZE_MAX);
	}
	rest = take_name(rest, '/', role);
	if (!rest || !role_parse(role, &parsed.role)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"SPIFFE id %.200s: the role must be agent, user, operator or coordinator, followed by a name",
			spiffe_id);
	}
	if (!take_name(rest, 0, parsed.name)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"SPIFFE id %.200s: the name must be letters, digits, dots, underscores and hyphens, at most %d",
			spiffe_id, NAME_SIZE_MAX);
	}
	*principal = parsed;
	return true;
}
