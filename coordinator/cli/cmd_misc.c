// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/link.h"
#include "coordinator/cli/output.h"
#include "grpc/health/v1/health.pb-c.h"

#define VERSION "0.1.0"

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING

int cli_health(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_HEALTH, &link, err)) {
		return CLI_FAILED;
	}
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	request.service = (char *)(cli->args.positionals_count ? cli->args.positionals[0] : "");
	BERTH_AUTO(berth_proto_cleanup)
	Grpc__Health__V1__HealthCheckResponse *response =
		cli_call(&link, &grpc__health__v1__health__descriptor, "Check", &request, err);
	if (!response) {
		// One that does not answer in time is out of reach, too.
		err->code = err->code == BERTH_ERROR_TIMEOUT ? BERTH_ERROR_UNAVAILABLE : err->code;
		return CLI_FAILED;
	}
	if (response->status != SERVING) {
		berth_fail(err, BERTH_ERROR_NOT_SERVING, "the coordinator at %s does not serve %s%s", link.address,
			*request.service ? request.service : "now", "; its log says why");
		return CLI_FAILED;
	}
	fputs("serving\n", cli->io->out);
	return 0;
}

int cli_version(struct cli *cli, struct berth_error *err)
{
	(void)err;
	if (cli->output == CLI_OUTPUT_JSON) {
		berth_json *object = berth_json_object();
		berth_json_set(object, "version", berth_json_string(VERSION));
		cli_json_print(cli->io->out, object, false);
	} else {
		fputs("berth " VERSION "\n", cli->io->out);
	}
	return 0;
}

int cli_help(struct cli *cli, struct berth_error *err)
{
	const struct cli_args *args = &cli->args;
	size_t words = 0;
	if (args->positionals_count == 0) {
		cli_help_overview(cli->io->out);
		return 0;
	}
	const char *noun = args->positionals[0];
	const char *verb = args->positionals_count > 1 ? args->positionals[1] : NULL;
	const struct cli_command *command = cli_command_find(noun, verb, &words);
	if (command) {
		cli_help_command(cli->io->out, command);
		return 0;
	}
	if (cli_noun_exists(noun) && !verb) {
		cli_help_noun(cli->io->out, noun);
		return 0;
	}
	berth_fail(err, BERTH_ERROR_INVALID, "%s%s%s: no such command; `berth help` lists them", noun, verb ? " " : "",
		verb ? verb : "");
	return CLI_FAILED;
}

int cli_completion(struct cli *cli, struct berth_error *err)
{
	if (strcmp(cli->args.positionals[0], "bash") != 0) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s: only bash is supported", cli->args.positionals[0]);
		return CLI_FAILED;
	}
	cli_completion_bash(cli->io->out);
	return 0;
}
