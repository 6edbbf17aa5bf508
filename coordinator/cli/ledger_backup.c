// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/ledger_backup.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/codec/proto.h"
#include "coordinator/cli/ledger_proof.h"

#define HEAD          "head.json"
#define HEAD_SIZE_MAX 4096
#define HEAD_MODE     0600

char *cli_backup_ledger(const char *folder)
{
	char *place = berth_path_join(folder, "ledger");
	BERTH_AUTO_FREE char *old = berth_path_join(folder, CLI_BACKUP_OLD);
	if (!berth_file_exists(place) && berth_file_exists(old)) {
		free(place);
		return BERTH_STEAL(old);
	}
	return place;
}

bool cli_backup_head_write(
	const char *folder, const char *fleet, const Berth__V1__LedgerHead *head, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, HEAD);
	BERTH_AUTO(berth_json_cleanup) berth_json *text = cli_head_json(head);
	berth_json_set(text, "fleet", berth_json_string(fleet));
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	berth_json_write(text, 0, &out);
	return berth_file_write(path, out.data, out.size, HEAD_MODE, err);
}

bool cli_backup_head_read(
	const char *folder, const struct cli_key *key, struct cli_backup_head *head, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, HEAD);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	*head = (struct cli_backup_head){0};
	if (!berth_file_exists(path)) {
		return true;
	}
	if (!berth_file_read(path, HEAD_SIZE_MAX, &text, err)) {
		return false;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *json = berth_json_parse_unique(text.data, text.size, path, err);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__LedgerHead *read = json ? cli_head_of_json(json, err) : NULL;
	const char *fleet = read ? berth_json_get_string(json, "fleet") : NULL;
	if (!json) {
		return false; // the message names the file
	}
	if (!read || !fleet || strlen(fleet) >= sizeof head->fleet ||
		!cli_head_check(read, fleet, key->der, key->size, err)) {
		return berth_error_wrap(err, "%s", path);
	}
	snprintf(head->fleet, sizeof head->fleet, "%s", fleet);
	head->size = read->sequence;
	memcpy(head->leaf.bytes, read->leaf_hash.data, BERTH_DIGEST_SIZE);
	memcpy(head->root.bytes, read->root_hash.data, BERTH_DIGEST_SIZE);
	return true;
}
