// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/trial_statement.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"

static void add(struct berth_buf *text, const char *part)
{
	berth_buf_add_text(text, part);
}

static bool is_plain(const char *value)
{
	for (; *value; value++) {
		unsigned char byte = (unsigned char)*value;
		if (byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\') {
			return false;
		}
	}
	return true;
}

// As the canonical writer does it, which is asked where more than quotes is needed.
static void add_string(struct berth_buf *text, const char *value)
{
	if (value && is_plain(value)) {
		berth_buf_add_byte(text, '"');
		add(text, value);
		berth_buf_add_byte(text, '"');
		return;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *json = berth_json_string(value);
	berth_json_write_canonical(json, text, NULL); // a string can always be written
}

static void add_number(struct berth_buf *text, uint64_t value)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
	add(text, digits);
}

static bool add_name(struct berth_buf *text, const ProtobufCEnumDescriptor *type, int value, struct berth_error *err)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
	if (!found) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%d is no %s", value, type->name);
	}
	add_string(text, found->name);
	return true;
}

static void add_attestations(struct berth_buf *text, const Berth__V1__Evidence *evidence)
{
	add(text, "\"attestations\":[");
	for (size_t i = 0; evidence && i < evidence->n_attestations; i++) {
		add(text, i ? "," : "");
		add_string(text, evidence->attestations[i]->digest);
	}
	add(text, "]");
}

static bool add_receipts(struct berth_buf *text, const Berth__V1__Evidence *evidence, struct berth_error *err)
{
	add(text, "\"receipts\":[");
	for (size_t i = 0; evidence && i < evidence->n_receipts; i++) {
		const Berth__V1__Lease *lease = evidence->receipts[i]->lease;
		add(text, i ? ",{\"lease_id\":" : "{\"lease_id\":");
		add_string(text, lease->lease_id);
		add(text, ",\"proof\":");
		if (!add_name(text, &berth__v1__death_proof__descriptor, (int)lease->proof, err)) {
			return false;
		}
		add(text, ",\"state\":");
		if (!add_name(text, &berth__v1__lease_state__descriptor, (int)lease->state, err)) {
			return false;
		}
		add(text, "}");
	}
	add(text, "]");
	return true;
}

static bool add_rewards(struct berth_buf *text, const char *rewards_json, struct berth_error *err)
{
	add(text, "\"rewards\":");
	if (!*rewards_json) {
		add(text, "null");
		return true;
	}
	BERTH_AUTO(berth_json_cleanup)
	berth_json *rewards = berth_json_parse(rewards_json, strlen(rewards_json), "rewards", err);
	return rewards && berth_json_write_canonical(rewards, text, err);
}

static void add_trial(struct berth_buf *text, const Berth__V1__TrialKey *trial)
{
	add(text, "\"trial\":{\"generation\":");
	add_number(text, trial->generation);
	add(text, ",\"index\":");
	add_number(text, trial->index);
	add(text, ",\"job_id\":");
	add_string(text, trial->job_id);
	add(text, "}");
}

bool berth_trial_statement_write(
	const struct berth_trial_statement *statement, struct berth_buf *text, struct berth_error *err)
{
	const Berth__V1__TrialResult *result = statement->result;
	add(text, "{\"agent\":");
	add_string(text, statement->agent);
	add(text, ",");
	add_attestations(text, result->evidence);
	add(text, ",\"exception\":");
	add_string(text, result->exception ? result->exception->type : NULL);
	add(text, ",\"fleet\":");
	add_string(text, statement->fleet);
	add(text, ",\"outcome\":");
	if (!add_name(text, &berth__v1__outcome__descriptor, (int)result->outcome, err)) {
		return false;
	}
	add(text, ",");
	if (!add_receipts(text, result->evidence, err)) {
		return false;
	}
	add(text, ",");
	if (!add_rewards(text, result->rewards_json, err)) {
		return false;
	}
	add(text, ",\"task_checksum\":");
	add_string(text, statement->task_checksum);
	add(text, ",");
	add_trial(text, statement->trial);
	add(text, ",\"version\":");
	add_number(text, BERTH_STATEMENT_VERSION);
	add(text, "}");
	return true;
}

// The text between `"task_checksum":"` and the next quote; NULL: it gives none.
static char *stated_checksum(const char *text)
{
	static const char member[] = "\"task_checksum\":\"";
	const char *found = strstr(text, member);
	const char *from = found ? found + strlen(member) : NULL;
	return from ? berth_strndup(from, strcspn(from, "\"\\")) : NULL;
}

bool berth_trial_statement_is(const struct berth_trial_statement *statement, const char *text)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf wanted = {0};
	BERTH_AUTO_FREE char *checksum = stated_checksum(text);
	struct berth_trial_statement as_stated = *statement;
	as_stated.task_checksum = checksum;
	return berth_trial_statement_write(&as_stated, &wanted, NULL) && strcmp(berth_buf_text(&wanted), text) == 0;
}
