// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/cli.h"

#include <errno.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/output.h"

const char *cli_env(const struct cli *cli, const char *name)
{
	const char *value = cli->io->lookup(cli->io->lookup_context, name);
	return value && *value ? value : NULL;
}

static int print_help(const struct cli *cli)
{
	if (cli->args.command) {
		cli_help_command(cli->io->out, cli->args.command);
	} else if (cli->args.positionals_count > 0) {
		cli_help_noun(cli->io->out, cli->args.positionals[0]);
	} else {
		cli_help_overview(cli->io->out);
	}
	return 0;
}

static int fail(const struct cli *cli, const struct berth_error *err)
{
	// The message may quote what a trial or a peer wrote.
	BERTH_AUTO_FREE char *message = cli_text_line(err->message);
	fprintf(cli->io->err, "berth: %s\n", message);
	return berth_error_exit_code(err->code);
}

static void choose_output(struct cli *cli)
{
	const char *output = cli_args_text(&cli->args, CLI_FLAG_OUTPUT);
	cli->output = !output                        ? CLI_OUTPUT_TABLE
	              : strcmp(output, "json") == 0  ? CLI_OUTPUT_JSON
	              : strcmp(output, "plain") == 0 ? CLI_OUTPUT_PLAIN
	                                             : CLI_OUTPUT_TABLE;
	cli->color = cli->io->out_tty && !cli_args_has(&cli->args, CLI_FLAG_NO_COLOR) && !cli_env(cli, "NO_COLOR");
}

static int run(struct cli *cli)
{
	struct berth_error err = {0};
	if (!cli->args.command && !cli_args_has(&cli->args, CLI_FLAG_HELP)) {
		cli_help_overview(cli->io->err);
		return berth_error_exit_code(BERTH_ERROR_INVALID);
	}
	if (cli_args_has(&cli->args, CLI_FLAG_HELP)) {
		return print_help(cli);
	}
	int code = cli->args.command->run(cli, &err);
	if (fflush(cli->io->out) != 0 && code == 0) {
		berth_fail_errno(&err, "cannot write the output");
		// A reader that has seen enough is no news.
		return errno == EPIPE ? berth_error_exit_code(err.code) : fail(cli, &err);
	}
	return code == CLI_FAILED ? fail(cli, &err) : code;
}

int berth_cli_main(int argc, char **argv, struct berth_cli_io *io)
{
	struct cli cli = {.io = io};
	struct berth_error err;
	bool parsed = cli_args_parse(argc, argv, &cli.args, &err);
	if (parsed) {
		choose_output(&cli);
	}
	int code = parsed ? run(&cli) : fail(&cli, &err);
	cli_args_free(&cli.args);
	return code;
}
