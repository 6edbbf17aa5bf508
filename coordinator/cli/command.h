// SPDX-License-Identifier: Apache-2.0
// The one table of commands, and the parsed command line.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/flags.h"

#define CLI_POSITIONALS_MAX 8
#define CLI_FAILED          (-1) // a command's result: the error is filled, its code gives the exit code
#define CLI_EXIT_UNSCORED   6

struct cli;

struct cli_command {
	const char *noun, *verb; // verb NULL: the noun alone is the command
	const char *arguments;   // as the usage line shows them
	size_t arguments_least, arguments_most;
	unsigned groups; // of flags that it takes, besides CLI_ALL
	const char *summary;
	const char *text; // for the help page; NULL: the summary says it all
	int (*run)(struct cli *cli, struct berth_error *err);
};

extern const struct cli_command CLI_COMMANDS[];
extern const size_t CLI_COMMANDS_COUNT;

// The command of one or two words (*words tells); NULL when there is none. verb may be NULL.
const struct cli_command *cli_command_find(const char *noun, const char *verb, size_t *words);
// Whether any command starts with this noun.
bool cli_noun_exists(const char *noun);

struct cli_value {
	enum cli_flag_id flag;
	const char *text; // NULL: a switch
};

struct cli_args {
	const struct cli_command *command; // NULL: none was named
	const char *positionals[CLI_POSITIONALS_MAX];
	size_t positionals_count; // after the command's words
	struct cli_value *values; // in the order given
	size_t values_count;
};

// INVALID names the word, and the nearest one that exists.
bool cli_args_parse(int argc, char **argv, struct cli_args *args, struct berth_error *err);
void cli_args_free(struct cli_args *args);
bool cli_args_has(const struct cli_args *args, enum cli_flag_id flag);
const char *cli_args_text(const struct cli_args *args, enum cli_flag_id flag); // the last one; NULL: not given
// *value stays as it was when the flag is not given. INVALID names flag, text and range.
bool cli_args_integer(const struct cli_args *args, enum cli_flag_id flag, int64_t least, int64_t most, int64_t *value,
	struct berth_error *err);
bool cli_args_number(const struct cli_args *args, enum cli_flag_id flag, double *value, struct berth_error *err);

enum cli_output { CLI_OUTPUT_TABLE, CLI_OUTPUT_JSON, CLI_OUTPUT_PLAIN };

// One run of the program.
struct cli {
	struct berth_cli_io *io;
	struct cli_args args;
	enum cli_output output;
	bool color;
};

const char *cli_env(const struct cli *cli, const char *name); // NULL when unset or empty

// suggest.c: the candidate nearest to `word`, NULL when more than about a third of it would have to change.
size_t cli_edit_distance(const char *a, const char *b);
const char *cli_nearest(const char *word, const char *const *candidates, size_t count);

// help.c, completion.c
void cli_help_overview(FILE *out);
void cli_help_noun(FILE *out, const char *noun);
void cli_help_command(FILE *out, const struct cli_command *command);
void cli_completion_bash(FILE *out);

// One function a command.
int cli_run(struct cli *cli, struct berth_error *err);
int cli_job_submit(struct cli *cli, struct berth_error *err);
int cli_job_plan(struct cli *cli, struct berth_error *err);
int cli_job_list(struct cli *cli, struct berth_error *err);
int cli_job_show(struct cli *cli, struct berth_error *err);
int cli_job_watch(struct cli *cli, struct berth_error *err);
int cli_job_logs(struct cli *cli, struct berth_error *err);
int cli_job_cancel(struct cli *cli, struct berth_error *err);
int cli_job_results(struct cli *cli, struct berth_error *err);
int cli_agent_list(struct cli *cli, struct berth_error *err);
int cli_agent_show(struct cli *cli, struct berth_error *err);
int cli_agent_enroll(struct cli *cli, struct berth_error *err);
int cli_agent_forget(struct cli *cli, struct berth_error *err);
int cli_lease_list(struct cli *cli, struct berth_error *err);
int cli_lease_show(struct cli *cli, struct berth_error *err);
int cli_lease_orphans(struct cli *cli, struct berth_error *err);
int cli_budget_create(struct cli *cli, struct berth_error *err);
int cli_budget_amend(struct cli *cli, struct berth_error *err);
int cli_budget_list(struct cli *cli, struct berth_error *err);
int cli_budget_show(struct cli *cli, struct berth_error *err);
int cli_budget_watch(struct cli *cli, struct berth_error *err);
int cli_budget_reservations(struct cli *cli, struct berth_error *err);
int cli_ledger_show(struct cli *cli, struct berth_error *err);
int cli_ledger_prove(struct cli *cli, struct berth_error *err);
int cli_ledger_check(struct cli *cli, struct berth_error *err);
int cli_ledger_audit(struct cli *cli, struct berth_error *err);
int cli_ledger_export(struct cli *cli, struct berth_error *err);
int cli_ledger_verify(struct cli *cli, struct berth_error *err);
int cli_ledger_backup(struct cli *cli, struct berth_error *err);
int cli_ledger_restore(struct cli *cli, struct berth_error *err);
int cli_health(struct cli *cli, struct berth_error *err);
int cli_version(struct cli *cli, struct berth_error *err);
int cli_help(struct cli *cli, struct berth_error *err);
int cli_completion(struct cli *cli, struct berth_error *err);
