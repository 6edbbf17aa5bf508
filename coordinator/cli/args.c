// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/command.h"

// Flags of `harbor run` that stand for what Berth does not do, each with the way out.
static const struct {
	const char *name, *instead;
} HARBOR_ONLY[] = {
	{"dataset", "fetch the data set and give its folder with -p"},
	{"task", "fetch the task and give its folder with -p"},
	{"registry-url", "fetch the data set and give its folder with -p"},
	{"registry-path", "fetch the data set and give its folder with -p"},
	{"repo", "clone it and give the folder with -p"},
	{"task-git-url", "clone it and give the folder with -p"},
	{"task-git-commit", "clone it and give the folder with -p"},
	{"env-file", "set the variables in the shell that starts berth"},
	{"mounts", "put the files into the task's environment folder"},
	{"extra-docker-compose", "put docker-compose.yaml into the task's environment folder"},
	{"install-only", "leave it out"},
	{"print-config", "leave it out; config.json of the results has it"},
	{"debug", "leave it out; `berth job logs` has each trial's log"},
	{"ek", "set it in the file given with -c"},
	{"verifier", "Berth runs the task's own verifier"},
	{"mcp-config", "declare the servers in task.toml"},
	{"skill", "leave it out"},
};

static bool fail_unknown(const char *word, const char *name, size_t length, struct berth_error *err)
{
	BERTH_AUTO_FREE char *text = berth_strndup(name, length);
	for (size_t i = 0; i < BERTH_COUNT(HARBOR_ONLY); i++) {
		if (strcmp(HARBOR_ONLY[i].name, text) == 0) {
			return berth_fail(err, BERTH_ERROR_INVALID, "--%s of `harbor run` is not supported here: %s",
				text, HARBOR_ONLY[i].instead);
		}
	}
	const char *names[CLI_FLAGS_COUNT];
	for (size_t i = 0; i < CLI_FLAGS_COUNT; i++) {
		names[i] = CLI_FLAG_TABLE[i].name;
	}
	const char *nearest = cli_nearest(text, names, CLI_FLAGS_COUNT);
	if (nearest) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: no such flag; did you mean --%s?", word, nearest);
	}
	return berth_fail(err, BERTH_ERROR_INVALID, "%s: no such flag; `berth help COMMAND` lists them", word);
}

static bool is_choice(const char *choices, const char *text)
{
	size_t length = strlen(text);
	for (const char *at = choices; at && length; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
		if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == 0)) {
			return true;
		}
	}
	return false;
}

static bool add_value(struct cli_args *args, enum cli_flag_id id, const char *text, struct berth_error *err)
{
	const struct cli_flag *flag = &CLI_FLAG_TABLE[id];
	if (text && flag->value && strchr(flag->value, '|') && !is_choice(flag->value, text)) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "--%s: \"%s\" is none of %s", flag->name, text, flag->value);
	}
	args->values = berth_realloc_array(args->values, args->values_count + 1, sizeof *args->values);
	args->values[args->values_count++] = (struct cli_value){id, text};
	return true;
}

// What is left to read.
struct cursor {
	int argc, at;
	char **argv;
};

static bool take_value(struct cli_args *args, struct cursor *cursor, enum cli_flag_id id, const char *attached,
	struct berth_error *err)
{
	const struct cli_flag *flag = &CLI_FLAG_TABLE[id];
	if (attached) {
		return add_value(args, id, attached, err);
	}
	if (cursor->at + 1 >= cursor->argc) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "--%s needs a value: --%s %s", flag->name, flag->name, flag->value);
	}
	return add_value(args, id, cursor->argv[++cursor->at], err);
}

static bool take_long(struct cli_args *args, struct cursor *cursor, struct berth_error *err)
{
	const char *word = cursor->argv[cursor->at];
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	enum cli_flag_id id = cli_flag_find(name, length);
	if (id == CLI_FLAGS_COUNT) {
		return fail_unknown(word, name, length, err);
	}
	if (CLI_FLAG_TABLE[id].shape != CLI_SWITCH) {
		return take_value(args, cursor, id, equals ? equals + 1 : NULL, err);
	}
	if (equals) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: this flag takes no value", word);
	}
	return add_value(args, id, NULL, err);
}

static bool take_letters(struct cli_args *args, struct cursor *cursor, struct berth_error *err)
{
	const char *word = cursor->argv[cursor->at];
	for (const char *letter = word + 1; *letter; letter++) {
		enum cli_flag_id id = cli_flag_find_letter(*letter);
		if (id == CLI_FLAGS_COUNT) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"%s: no such flag as -%c; `berth help COMMAND` lists them", word, *letter);
		}
		if (CLI_FLAG_TABLE[id].shape != CLI_SWITCH) {
			return take_value(args, cursor, id, letter[1] ? letter + 1 : NULL, err);
		}
		if (!add_value(args, id, NULL, err)) {
			return false;
		}
	}
	return true;
}

static bool take_all(int argc, char **argv, struct cli_args *args, struct berth_error *err)
{
	bool only_words = false;
	for (struct cursor cursor = {argc, 1, argv}; cursor.at < argc; cursor.at++) {
		const char *word = argv[cursor.at];
		if (!only_words && strcmp(word, "--") == 0) {
			only_words = true;
		} else if (!only_words && strcmp(word, "--version") == 0) {
			args->positionals[0] = "version";
			args->positionals_count = 1;
			return true;
		} else if (!only_words && strncmp(word, "--", 2) == 0) {
			if (!take_long(args, &cursor, err)) {
				return false;
			}
		} else if (!only_words && word[0] == '-' && word[1]) {
			if (!take_letters(args, &cursor, err)) {
				return false;
			}
		} else if (args->positionals_count == CLI_POSITIONALS_MAX) {
			return berth_fail(err, BERTH_ERROR_INVALID, "%s: too many words", word);
		} else {
			args->positionals[args->positionals_count++] = word;
		}
	}
	return true;
}

static bool fail_command(const char *noun, const char *verb, struct berth_error *err)
{
	const char *names[64];
	size_t count = 0;
	bool known = cli_noun_exists(noun);
	for (size_t i = 0; i < CLI_COMMANDS_COUNT && count < BERTH_COUNT(names); i++) {
		if (!known) {
			names[count++] = CLI_COMMANDS[i].noun;
		} else if (strcmp(CLI_COMMANDS[i].noun, noun) == 0) {
			names[count++] = CLI_COMMANDS[i].verb;
		}
	}
	const char *wrong = known ? verb : noun;
	const char *nearest = cli_nearest(wrong, names, count);
	const char *prefix = known ? noun : "", *space = known ? " " : "";
	BERTH_AUTO_FREE char *hint = nearest ? berth_format("did you mean `berth %s%s%s`?", prefix, space, nearest)
	                                     : berth_format("`berth help%s%s` lists them", space, prefix);
	return berth_fail(err, BERTH_ERROR_INVALID, "%s%s%s: no such command; %s", prefix, space, wrong, hint);
}

static bool find_command(struct cli_args *args, struct berth_error *err)
{
	const char *noun = args->positionals[0];
	const char *verb = args->positionals_count > 1 ? args->positionals[1] : NULL;
	size_t words = 0;
	args->command = cli_command_find(noun, verb, &words);
	if (!args->command && cli_noun_exists(noun) && !verb) {
		if (cli_args_has(args, CLI_FLAG_HELP)) {
			return true;
		}
		return berth_fail(
			err, BERTH_ERROR_INVALID, "%s: what about it? `berth help %s` lists its verbs", noun, noun);
	}
	if (!args->command) {
		return fail_command(noun, verb, err);
	}
	args->positionals_count -= words;
	memmove(args->positionals, args->positionals + words, args->positionals_count * sizeof *args->positionals);
	return true;
}

static bool check_command(const struct cli_args *args, struct berth_error *err)
{
	const struct cli_command *command = args->command;
	const char *space = command->verb ? " " : "", *verb = command->verb ? command->verb : "";
	for (size_t i = 0; i < args->values_count; i++) {
		const struct cli_flag *flag = &CLI_FLAG_TABLE[args->values[i].flag];
		if (!(flag->groups & (command->groups | CLI_ALL))) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"--%s is no flag of `berth %s%s%s`; `berth help %s%s%s` lists them", flag->name,
				command->noun, space, verb, command->noun, space, verb);
		}
	}
	if (args->positionals_count < command->arguments_least) {
		return berth_fail(err, BERTH_ERROR_INVALID, "usage: berth %s%s%s %s", command->noun, space, verb,
			command->arguments);
	}
	if (args->positionals_count > command->arguments_most) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: one word too many; usage: berth %s%s%s %s",
			args->positionals[command->arguments_most], command->noun, space, verb, command->arguments);
	}
	return true;
}

bool cli_args_parse(int argc, char **argv, struct cli_args *args, struct berth_error *err)
{
	*args = (struct cli_args){0};
	if (!take_all(argc, argv, args, err)) {
		return false;
	}
	if (args->positionals_count == 0) {
		return true;
	}
	return find_command(args, err) &&
	       (!args->command || cli_args_has(args, CLI_FLAG_HELP) || check_command(args, err));
}

void cli_args_free(struct cli_args *args)
{
	berth_free_cleanup(&args->values);
}

const char *cli_args_text(const struct cli_args *args, enum cli_flag_id flag)
{
	for (size_t i = args->values_count; i-- > 0;) {
		if (args->values[i].flag == flag) {
			return args->values[i].text;
		}
	}
	return NULL;
}

bool cli_args_has(const struct cli_args *args, enum cli_flag_id flag)
{
	for (size_t i = 0; i < args->values_count; i++) {
		if (args->values[i].flag == flag) {
			return true;
		}
	}
	return false;
}

bool cli_args_integer(const struct cli_args *args, enum cli_flag_id flag, int64_t least, int64_t most, int64_t *value,
	struct berth_error *err)
{
	const char *text = cli_args_text(args, flag);
	if (!text) {
		return true;
	}
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	if (errno || end == text || *end || number < least || number > most) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--%s: \"%s\" is no whole number from %lld to %lld",
			CLI_FLAG_TABLE[flag].name, text, (long long)least, (long long)most);
	}
	*value = number;
	return true;
}

bool cli_args_number(const struct cli_args *args, enum cli_flag_id flag, double *value, struct berth_error *err)
{
	const char *text = cli_args_text(args, flag);
	if (!text) {
		return true;
	}
	char *end;
	double number = strtod(text, &end);
	if (end == text || *end || !isfinite(number) || number < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--%s: \"%s\" is no number from 0 up",
			CLI_FLAG_TABLE[flag].name, text);
	}
	*value = number;
	return true;
}
