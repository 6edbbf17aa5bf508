// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/command.h"

#include <string.h>

#include "common/base/mem.h"

#define JOB_FLAGS (CLI_LINK | CLI_JOB | CLI_SUBMIT | CLI_TABLE)

const struct cli_command CLI_COMMANDS[] = {
	{"run", NULL, "", 0, 0, JOB_FLAGS | CLI_RUN | CLI_RESULTS,
		"submit a job, watch it to its end, write its results",
		"Takes the flags of `harbor run`. The first interrupt cancels the job and waits for its end; the\n"
		"second leaves it to itself. Exit code 6 says that cells stayed unscored.",
		cli_run},
	{"job", "submit", "", 0, 0, JOB_FLAGS, "submit a job and print its id", NULL, cli_job_submit},
	{"job", "plan", "", 0, 0, JOB_FLAGS, "show what a job would take on and cost at most, and begin nothing",
		"Takes the flags of `berth job submit`. WORST_USD is the quote: every trial run as often as the fleet "
		"and\n"
		"the retry policy allow, each at its ceiling; the job can't spend more. TO_BUILD counts environments\n"
		"that no host is known to have.",
		cli_job_plan},
	{"job", "list", "", 0, 0, CLI_LINK | CLI_LIST | CLI_TABLE, "list jobs, newest first", NULL, cli_job_list},
	{"job", "show", "JOB", 1, 1, CLI_LINK | CLI_TABLE, "show one job and its trials",
		"JOB is an id, the first 6 digits or more of one, or a name that only one job has.", cli_job_show},
	{"job", "watch", "JOB", 1, 1, CLI_LINK | CLI_TABLE, "follow a job to its end",
		"A line of progress on a terminal, else a line for each trial that ends; --output json gives one\n"
		"JSON document a line. Goes on after a restart of the coordinator.",
		cli_job_watch},
	{"job", "logs", "JOB [TRIAL]", 1, 2, CLI_LINK | CLI_LOGS, "print what ended trials left, and where others are",
		"TRIAL is a trial's name or its index.", cli_job_logs},
	{"job", "cancel", "JOB", 1, 1, CLI_LINK | CLI_REASON | CLI_TABLE, "cancel a job",
		"Never waits: the job is cancelling until its last lease is proven dead.", cli_job_cancel},
	{"job", "results", "JOB", 1, 1, CLI_LINK | CLI_RESULTS | CLI_TABLE, "write a job's result folders",
		"In Harbor's layout. Run again, it adds only what is missing.", cli_job_results},
	{"agent", "list", "", 0, 0, CLI_LINK | CLI_TABLE, "list the fleet's agents", NULL, cli_agent_list},
	{"agent", "show", "NAME", 1, 1, CLI_LINK | CLI_TABLE, "show one agent and what it runs", NULL, cli_agent_show},
	{"agent", "enroll", "NAME", 1, 1, CLI_LINK | CLI_ENROLL, "make a key and get a certificate for it",
		"Writes authority.pem, certificate.pem and key.pem, and for an agent or an operator signing.pem. Keys\n"
		"are made here and do not leave this host. Enrolling a name again replaces its certificate.",
		cli_agent_enroll},
	{"agent", "forget", "NAME", 1, 1, CLI_LINK | CLI_REASON | CLI_TABLE, "give up an agent that never comes back",
		"What it holds counts as gone by your word, and is charged in full. Refused while it may still run\n"
		"something. Enrolled again later, its late receipts take back what it did not use.",
		cli_agent_forget},
	{"lease", "list", "", 0, 0, CLI_LINK | CLI_LEASES | CLI_LIST | CLI_TABLE, "list leases that are not retired",
		NULL, cli_lease_list},
	{"lease", "show", "LEASE", 1, 1, CLI_LINK | CLI_TABLE, "show one lease and what it may cost",
		"LEASE is an id, or the first 6 digits or more of one.", cli_lease_show},
	{"lease", "orphans", "", 0, 0, CLI_LINK | CLI_LEASES | CLI_LIST | CLI_TABLE,
		"list what nothing uses and nobody has proven gone",
		"With the time at which each is certainly gone, and the most that it may cost.", cli_lease_orphans},
	{"budget", "create", "NAME POLICY", 2, 2, CLI_LINK | CLI_TABLE, "open a budget with a policy",
		"POLICY is a JSON file: limits of the whole and of each phase, rates, meters. It never changes; "
		"limits\n"
		"are amended.",
		cli_budget_create},
	{"budget", "amend", "NAME", 1, 1, CLI_LINK | CLI_AMEND | CLI_REASON | CLI_TABLE,
		"change limits, signed by an operator",
		"Signs with signing.pem of the credentials folder, which an operator gets by enrolment. A limit below\n"
		"what is spent only stops new grants.",
		cli_budget_amend},
	{"budget", "list", "", 0, 0, CLI_LINK | CLI_TABLE, "list budgets", NULL, cli_budget_list},
	{"budget", "show", "NAME", 1, 1, CLI_LINK | CLI_TABLE, "show one budget and its phases", NULL, cli_budget_show},
	{"budget", "watch", "NAME", 1, 1, CLI_LINK | CLI_TABLE, "follow a budget until interrupted",
		"A line for each change; --output json gives one JSON document a line. Goes on after a restart of the\n"
		"coordinator.",
		cli_budget_watch},
	{"budget", "reservations", "NAME", 1, 1, CLI_LINK | CLI_RESERVATIONS | CLI_LIST | CLI_TABLE,
		"list what is reserved", NULL, cli_budget_reservations},
	{"ledger", "show", "", 0, 0, CLI_LINK | CLI_HEADS | CLI_TABLE, "show the ledger's signed head", NULL,
		cli_ledger_show},
	{"ledger", "prove", "[SEQUENCE]", 0, 1, CLI_LINK | CLI_HEADS | CLI_PROVE,
		"print a proof that an event is in the ledger",
		"A JSON document that holds by itself: the event, its path, the signed head. `berth ledger check`\n"
		"takes it without a coordinator.",
		cli_ledger_prove},
	{"ledger", "check", "FILE", 1, 1, CLI_HEADS | CLI_HOLDS, "check a proof, offline",
		"Exit code 8: it proves nothing.", cli_ledger_check},
	{"ledger", "audit", "[DATA]", 0, 1, CLI_LINK | CLI_HEADS | CLI_TABLE,
		"check that the ledger continues what was seen of it",
		"Keeps the newest head in $XDG_STATE_HOME/berth (default ~/.local/state/berth), and wants a proof "
		"from\n"
		"it to the coordinator's next. With DATA: as verify, and what is in it.",
		cli_ledger_audit},
	{"ledger", "export", "", 0, 0, CLI_LINK | CLI_EXPORT, "print a budget's chain of events",
		"One canonical JSON object a line, each with the digest of the one before.", cli_ledger_export},
	{"ledger", "verify", "DATA", 1, 1, CLI_TABLE, "check a stopped coordinator's ledger, offline",
		"DATA is the coordinator's data folder, or a copy. Walks every event from the first, replays it, and\n"
		"compares with what is stored beside it. Exit code 8 names the event that is broken.",
		cli_ledger_verify},
	{"ledger", "backup", "FOLDER", 1, 1, CLI_LINK | CLI_HEADS | CLI_TABLE,
		"copy the ledger and its blobs here, and check the copy",
		"Run it again into the same FOLDER: what is there is not read again. From the first one on agents "
		"keep\n"
		"what they reported until a backup covers it, so run it often. Keep the coordinator's credentials\n"
		"apart: they are not in it.",
		cli_ledger_backup},
	{"ledger", "restore", "BACKUP DATA", 2, 2, CLI_HEADS | CLI_HOLDS | CLI_REASON | CLI_TABLE,
		"make a coordinator's data folder from a backup, offline",
		"What came after the backup is lost but for what agents kept. The coordinator that starts on DATA "
		"says\n"
		"so to each of them, and assigns nothing before all have resent. Use the newest backup.",
		cli_ledger_restore},
	{"health", NULL, "[SERVICE]", 0, 1, CLI_LINK, "ask whether the coordinator serves",
		"Exit code 0: it serves, 7: it cannot be reached, 9: it does not serve.", cli_health},
	{"version", NULL, "", 0, 0, CLI_TABLE, "print the version", NULL, cli_version},
	{"help", NULL, "[COMMAND]", 0, 2, 0, "show this overview, or a command's page", NULL, cli_help},
	{"completion", NULL, "bash", 1, 1, 0, "print a completion script",
		"To load it: source <(berth completion bash)", cli_completion},
};
const size_t CLI_COMMANDS_COUNT = BERTH_COUNT(CLI_COMMANDS);

bool cli_noun_exists(const char *noun)
{
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		if (strcmp(CLI_COMMANDS[i].noun, noun) == 0) {
			return true;
		}
	}
	return false;
}

const struct cli_command *cli_command_find(const char *noun, const char *verb, size_t *words)
{
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		const struct cli_command *command = &CLI_COMMANDS[i];
		if (strcmp(command->noun, noun) != 0) {
			continue;
		}
		if (!command->verb || (verb && strcmp(command->verb, verb) == 0)) {
			*words = command->verb ? 2 : 1;
			return command;
		}
	}
	return NULL;
}
