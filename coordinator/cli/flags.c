// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "coordinator/cli/command.h"

const struct cli_flag CLI_FLAG_TABLE[CLI_FLAGS_COUNT] = {
#define X(id, name, letter, shape, value, groups, help) [CLI_FLAG_##id] = {name, letter, shape, value, groups, help},
	CLI_FLAGS(X)
#undef X
};

enum cli_flag_id cli_flag_find(const char *name, size_t length)
{
	size_t id = 0;
	while (id < CLI_FLAGS_COUNT &&
		(strncmp(CLI_FLAG_TABLE[id].name, name, length) != 0 || CLI_FLAG_TABLE[id].name[length])) {
		id++;
	}
	return (enum cli_flag_id)id;
}

enum cli_flag_id cli_flag_find_letter(char letter)
{
	size_t id = 0;
	while (id < CLI_FLAGS_COUNT && (!letter || CLI_FLAG_TABLE[id].letter != letter)) {
		id++;
	}
	return (enum cli_flag_id)id;
}
