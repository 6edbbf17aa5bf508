// SPDX-License-Identifier: Apache-2.0
// The ledger's proof of itself, offline.
#include "common/base/mem.h"
#include "coordinator/audit/audit.h"
#include "coordinator/cli/ledger_audit.h"
#include "coordinator/cli/ledger_summary.h"
#include "coordinator/cli/output.h"

static berth_json *audit_json(const struct berth_audit *audit)
{
	char root[BERTH_DIGEST_TEXT_SIZE], state[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&audit->head.root, root);
	berth_digest_text(&audit->state, state);
	berth_json *object = berth_json_object();
	berth_json_set(object, "fleet", berth_json_string(audit->fleet));
	berth_json_set(object, "incarnation", berth_json_integer((int64_t)audit->incarnation));
	berth_json_set(object, "events", berth_json_integer((int64_t)audit->head.sequence));
	berth_json_set(object, "root", berth_json_string(root));
	berth_json_set(object, "records_at", berth_json_integer((int64_t)audit->marker));
	berth_json_set(object, "records", berth_json_integer((int64_t)audit->records));
	berth_json_set(object, "state", berth_json_string(state));
	return object;
}

static void print_audit(struct cli *cli, const struct berth_audit *audit)
{
	static const char *const HEADS[] = {"FLEET", "INCARNATION", "EVENTS", "RECORDS", "ROOT", "STATE", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	char root[BERTH_DIGEST_TEXT_SIZE], state[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&audit->head.root, root);
	berth_digest_text(&audit->state, state);
	cli_table_add(table, "%s", audit->fleet);
	cli_table_add(table, "%llu", (unsigned long long)audit->incarnation);
	cli_table_add(table, "%llu", (unsigned long long)audit->head.sequence);
	cli_table_add(table, "%zu", audit->records);
	cli_table_add(table, "%s", root);
	cli_table_add(table, "%s", state);
	cli_table_print(cli, table);
}

// Both checks and the replayed state, or NULL.
static struct berth_core *audit_folder(struct cli *cli, struct berth_audit *audit, struct berth_error *err)
{
	struct berth_core *core = berth_audit_ledger(cli->args.positionals[0], audit, err);
	if (!core) {
		berth_error_wrap(err, "%s", cli->args.positionals[0]);
	}
	return core;
}

int cli_ledger_audit(struct cli *cli, struct berth_error *err)
{
	struct berth_audit audit;
	if (cli->args.positionals_count == 0) {
		return cli_ledger_audit_online(cli, err);
	}
	struct berth_core *core = audit_folder(cli, &audit, err);
	if (!core) {
		return CLI_FAILED;
	}
	if (cli->output != CLI_OUTPUT_JSON) {
		print_audit(cli, &audit);
	}
	cli_ledger_summary(cli, core, audit_json(&audit));
	berth_core_free(core);
	return 0;
}

int cli_ledger_verify(struct cli *cli, struct berth_error *err)
{
	struct berth_audit audit;
	struct berth_core *core = audit_folder(cli, &audit, err);
	if (!core) {
		return CLI_FAILED;
	}
	berth_core_free(core);
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, audit_json(&audit), false);
	} else {
		print_audit(cli, &audit);
	}
	return 0;
}
