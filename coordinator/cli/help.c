// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/command.h"

#define NAME_WIDTH 20
#define FLAG_WIDTH 34

static const struct {
	unsigned group;
	const char *title;
} SECTIONS[] = {
	{CLI_JOB, "The job, as `harbor run` names it"},
	{CLI_SUBMIT, "The job, beyond Harbor"},
	{CLI_RUN | CLI_RESULTS | CLI_LOGS | CLI_REASON | CLI_ENROLL | CLI_LEASES | CLI_LIST | CLI_AMEND |
			CLI_RESERVATIONS | CLI_HEADS | CLI_PROVE | CLI_EXPORT,
		"This command"},
	{CLI_LINK | CLI_HOLDS, "The coordinator"},
	{CLI_TABLE | CLI_ALL, "Output"},
};

static void put_name(FILE *out, const struct cli_command *command)
{
	BERTH_AUTO_FREE char *name =
		berth_format("%s%s%s", command->noun, command->verb ? " " : "", command->verb ? command->verb : "");
	fprintf(out, "  %-*s %s\n", NAME_WIDTH, name, command->summary);
}

void cli_help_overview(FILE *out)
{
	fputs("Runs Harbor evaluation tasks on a fleet.\n\nUsage: berth COMMAND [FLAGS]\n\nCommands:\n", out);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		put_name(out, &CLI_COMMANDS[i]);
	}
	fputs("\nExit codes: 0 ok, 1 other, 2 usage, 3 not found, 4 conflict, 5 budget refused, 6 cells unscored,\n"
	      "7 unreachable, 8 verification failed, 9 not serving, 124 timeout, 130 interrupted.\n"
	      "`berth help COMMAND` shows a command's flags.\n",
		out);
}

void cli_help_noun(FILE *out, const char *noun)
{
	fprintf(out, "Usage: berth %s VERB [FLAGS]\n\nVerbs:\n", noun);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		if (strcmp(CLI_COMMANDS[i].noun, noun) == 0) {
			put_name(out, &CLI_COMMANDS[i]);
		}
	}
}

static void put_flag(FILE *out, const struct cli_flag *flag)
{
	char letter[8] = "    ";
	if (flag->letter) {
		snprintf(letter, sizeof letter, "-%c, ", flag->letter);
	}
	BERTH_AUTO_FREE char *left = berth_format("%s--%s%s%s%s", letter, flag->name, flag->value ? " " : "",
		flag->value ? flag->value : "", flag->shape == CLI_MANY ? " ..." : "");
	if (strlen(left) > FLAG_WIDTH) {
		fprintf(out, "  %s\n  %*s %s\n", left, FLAG_WIDTH, "", flag->help);
	} else {
		fprintf(out, "  %-*s %s\n", FLAG_WIDTH, left, flag->help);
	}
}

// A flag is shown in the first section that it belongs to.
static size_t section_of(const struct cli_flag *flag)
{
	size_t section = 0;
	while (section + 1 < BERTH_COUNT(SECTIONS) && !(flag->groups & SECTIONS[section].group)) {
		section++;
	}
	return section;
}

static bool takes(const struct cli_command *command, const struct cli_flag *flag)
{
	return flag->groups & (command->groups | CLI_ALL);
}

void cli_help_command(FILE *out, const struct cli_command *command)
{
	fprintf(out, "Usage: berth %s%s%s%s%s [FLAGS]\n\n%s\n", command->noun, command->verb ? " " : "",
		command->verb ? command->verb : "", *command->arguments ? " " : "", command->arguments,
		command->summary);
	if (command->text) {
		fprintf(out, "%s\n", command->text);
	}
	for (size_t section = 0; section < BERTH_COUNT(SECTIONS); section++) {
		bool titled = false;
		for (size_t i = 0; i < CLI_FLAGS_COUNT; i++) {
			const struct cli_flag *flag = &CLI_FLAG_TABLE[i];
			if (!takes(command, flag) || section_of(flag) != section) {
				continue;
			}
			if (!titled) {
				fprintf(out, "\n%s:\n", SECTIONS[section].title);
				titled = true;
			}
			put_flag(out, flag);
		}
	}
}
