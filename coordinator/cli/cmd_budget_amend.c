// SPDX-License-Identifier: Apache-2.0
// New limits: read from the flags, numbered after the budget's last amendment, signed here.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/money.h"
#include "coordinator/cli/budget.h"

static void free_signing_key(struct berth_signing_key **key)
{
	berth_signing_key_free(*key);
}

static bool parse_usd(const char *flag, const char *text, int64_t *nano_usd, struct berth_error *err)
{
	return berth_money_parse(text, nano_usd, err) || berth_error_wrap(err, "--%s", flag);
}

// "NAME=USD": the name, which the caller frees; NULL when there is no amount.
static char *split(const char *flag, const char *text, const char **amount, struct berth_error *err)
{
	const char *equals = strrchr(text, '=');
	if (!equals || equals == text) {
		berth_fail(err, BERTH_ERROR_INVALID, "--%s: \"%s\" is no NAME=USD", flag, text);
		return NULL;
	}
	*amount = equals + 1;
	return berth_strndup(text, (size_t)(equals - text));
}

static bool add_phase(Berth__V1__AmendBudgetRequest *request, const char *text, struct berth_error *err)
{
	const char *amount;
	BERTH_AUTO_FREE char *name = split("phase-limit", text, &amount, err);
	int64_t nano_usd;
	if (!name || !parse_usd("phase-limit", amount, &nano_usd, err)) {
		return false;
	}
	Berth__V1__PhaseLimit *limit = berth_alloc(sizeof *limit);
	berth__v1__phase_limit__init(limit);
	berth_proto_set_string(&limit->phase, name);
	limit->limit_nano_usd = nano_usd;
	berth_proto_append(&request->n_phase_limits, &request->phase_limits, limit);
	return true;
}

static bool add_sub(Berth__V1__AmendBudgetRequest *request, bool of_job, const char *text, struct berth_error *err)
{
	const char *flag = of_job ? "job-limit" : "user-limit", *amount;
	BERTH_AUTO_FREE char *name = split(flag, text, &amount, err);
	int64_t nano_usd = 0;
	bool removed = name && strcmp(amount, "none") == 0;
	if (!name || (!removed && !parse_usd(flag, amount, &nano_usd, err))) {
		return false;
	}
	Berth__V1__SubLimit *limit = berth_alloc(sizeof *limit);
	berth__v1__sub_limit__init(limit);
	berth_proto_set_string(of_job ? &limit->job_id : &limit->user, name);
	limit->limit_nano_usd = nano_usd;
	limit->removed = removed;
	berth_proto_append(&request->n_sub_limits, &request->sub_limits, limit);
	return true;
}

static bool read_limits(const struct cli_args *args, Berth__V1__AmendBudgetRequest *request, struct berth_error *err)
{
	for (size_t i = 0; i < args->values_count; i++) {
		const struct cli_value *value = &args->values[i];
		bool fine = true;
		switch (value->flag) {
		case CLI_FLAG_HARD_LIMIT:
			fine = parse_usd("hard-limit", value->text, &request->hard_limit_nano_usd, err);
			break;
		case CLI_FLAG_PHASE_LIMIT:
			fine = add_phase(request, value->text, err);
			break;
		case CLI_FLAG_JOB_LIMIT:
		case CLI_FLAG_USER_LIMIT:
			fine = add_sub(request, value->flag == CLI_FLAG_JOB_LIMIT, value->text, err);
			break;
		default:
			break;
		}
		if (!fine) {
			return false;
		}
	}
	const char *reason = cli_args_text(args, CLI_FLAG_REASON);
	if (!reason) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--reason TEXT is missing: an amendment says why");
	}
	berth_proto_set_string(&request->reason, reason);
	return true;
}

static struct berth_signing_key *open_key(const struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO_FREE char *folder = cli_credentials_folder(cli);
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "signing.pem");
	if (!berth_file_exists(path)) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND,
			"%s is missing: amendments are signed by an operator who was enrolled with `berth agent enroll "
			"NAME --role operator --out FOLDER`; name that folder with --credentials",
			path);
		return NULL;
	}
	return berth_signing_key_open(path, err);
}

static bool sign(const struct cli *cli, const char *policy_digest, Berth__V1__AmendBudgetRequest *request,
	struct berth_error *err)
{
	BERTH_AUTO(free_signing_key) struct berth_signing_key *key = open_key(cli, err);
	BERTH_AUTO_FREE uint8_t *public_der = NULL;
	size_t public_size;
	if (!key || !berth_signing_key_public(key, &public_der, &public_size, err)) {
		return false;
	}
	char key_id[BERTH_DIGEST_HEX_SIZE];
	berth_signing_key_id(public_der, public_size, key_id);
	berth_proto_set_string(&request->key_id, key_id);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	if (!berth_budget_amendment_text(policy_digest, request, &text, err) ||
		!berth_sign(key, BERTH_AMENDMENT_TYPE, text.data, text.size, signature, err)) {
		return false;
	}
	berth_proto_set_bytes(&request->signature, signature, sizeof signature);
	return true;
}

int cli_budget_amend(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__AmendBudgetRequest *request = berth_alloc(sizeof *request);
	berth__v1__amend_budget_request__init(request);
	berth_proto_set_string(&request->name, cli->args.positionals[0]);
	if (!read_limits(&cli->args, request, err) || !cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetBudgetResponse *seen = cli_get_budget(&link, request->name, err);
	if (!seen) {
		return CLI_FAILED;
	}
	request->number = seen->budget->amendments + 1;
	if (!sign(cli, seen->budget->policy_digest, request, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__AmendBudgetResponse *response = cli_call(&link, CLI_BUDGETS, "AmendBudget", request, err);
	return response && response->budget ? cli_budget_print(cli, response->budget) : CLI_FAILED;
}
