// SPDX-License-Identifier: Apache-2.0
// A completion function for bash, made from the same tables as everything else.
#include <string.h>

#include "coordinator/cli/command.h"

static void put_choices(FILE *out, const char *choices)
{
	for (const char *at = choices; *at; at++) {
		fputc(*at == '|' ? ' ' : *at, out);
	}
}

// What follows a flag: its choices, or files.
static void put_values(FILE *out)
{
	fputs("  case \"$previous\" in\n", out);
	for (size_t i = 0; i < CLI_FLAGS_COUNT; i++) {
		const struct cli_flag *flag = &CLI_FLAG_TABLE[i];
		if (flag->shape == CLI_SWITCH) {
			continue;
		}
		fprintf(out, "    --%s", flag->name);
		if (flag->letter) {
			fprintf(out, "|-%c", flag->letter);
		}
		if (strchr(flag->value, '|')) {
			fputs(") COMPREPLY=($(compgen -W \"", out);
			put_choices(out, flag->value);
			fputs("\" -- \"$word\")); return ;;\n", out);
		} else if (strcmp(flag->value, "FILE") == 0 || strcmp(flag->value, "FOLDER") == 0) {
			fputs(") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", out);
		} else {
			fputs(") return ;;\n", out);
		}
	}
	fputs("  esac\n", out);
}

static void put_verbs(FILE *out, const char *noun)
{
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		if (strcmp(CLI_COMMANDS[i].noun, noun) == 0 && CLI_COMMANDS[i].verb) {
			fprintf(out, "%s ", CLI_COMMANDS[i].verb);
		}
	}
}

static bool is_first_of_noun(size_t index)
{
	return index == 0 || strcmp(CLI_COMMANDS[index - 1].noun, CLI_COMMANDS[index].noun) != 0;
}

static void put_words(FILE *out)
{
	fputs("  if [[ $word != -* ]]; then\n    if ((COMP_CWORD == 1)); then\n      COMPREPLY=($(compgen -W \"", out);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		if (is_first_of_noun(i)) {
			fprintf(out, "%s ", CLI_COMMANDS[i].noun);
		}
	}
	fputs("\" -- \"$word\"))\n    elif ((COMP_CWORD == 2)); then\n      case \"${COMP_WORDS[1]}\" in\n", out);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		if (is_first_of_noun(i) && CLI_COMMANDS[i].verb) {
			fprintf(out, "        %s) COMPREPLY=($(compgen -W \"", CLI_COMMANDS[i].noun);
			put_verbs(out, CLI_COMMANDS[i].noun);
			fputs("\" -- \"$word\")) ;;\n", out);
		}
	}
	fputs("        completion) COMPREPLY=($(compgen -W bash -- \"$word\")) ;;\n", out);
	fputs("      esac\n    fi\n    return\n  fi\n", out);
}

static void put_flags(FILE *out)
{
	fputs("  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n", out);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		const struct cli_command *command = &CLI_COMMANDS[i];
		fprintf(out, "    \"%s %s\"%s) COMPREPLY=($(compgen -W \"", command->noun,
			command->verb ? command->verb : "", command->verb ? "" : "*");
		for (size_t flag = 0; flag < CLI_FLAGS_COUNT; flag++) {
			if (CLI_FLAG_TABLE[flag].groups & (command->groups | CLI_ALL)) {
				fprintf(out, "--%s ", CLI_FLAG_TABLE[flag].name);
			}
		}
		fputs("\" -- \"$word\")) ;;\n", out);
	}
	fputs("  esac\n", out);
}

void cli_completion_bash(FILE *out)
{
	fputs("# bash completion of berth\n_berth() {\n"
	      "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n  COMPREPLY=()\n",
		out);
	put_values(out);
	put_words(out);
	put_flags(out);
	fputs("}\ncomplete -F _berth berth\n", out);
}
