// SPDX-License-Identifier: Apache-2.0
// `berth ledger backup FOLDER`: a copy of the coordinator's ledger and blobs, checked here, on the machine that keeps
// it.
//
// FOLDER has the shape of a data folder, and head.json: the head of the copy, signed. A copy is made and checked in
// FOLDER/new and takes its place whole; blobs that are there from an earlier backup are not read again.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/audit.h"
#include "coordinator/blob/blob.h"
#include "coordinator/cli/ledger_audit.h"
#include "coordinator/cli/ledger_backup.h"
#include "coordinator/cli/ledger_proof.h"
#include "coordinator/cli/output.h"

#define FOLDER_MODE   0700
#define FILE_MODE     0600
#define BLOB_LIST_MAX (INT64_C(1) << 32)
#define WAIT_MS_MAX   (5 * 60 * 1000)

struct backup {
	struct cli *cli;
	struct cli_link link;
	struct cli_key key;
	const char *folder;
	char *fresh;                   // FOLDER/new
	struct cli_backup_head before; // of the backup that is there; size 0: none
	struct berth_audit audit;
	uint64_t bytes, blobs, blobs_new;
};

static void free_backup(struct backup *backup)
{
	if (backup->fresh) {
		berth_remove_all(backup->fresh, NULL);
	}
	free(backup->fresh);
	cli_link_close(&backup->link);
	cli_key_free(&backup->key);
}

// --- reading ---

static void say_whom(const struct backup *backup, const Berth__V1__BeginBackupResponse *response)
{
	for (size_t i = 0; i < response->n_waits_for; i++) {
		fprintf(backup->cli->io->err, "%s%s",
			i ? ", " : "waiting until these agents keep their reports: ", response->waits_for[i]);
	}
	fputs(response->n_waits_for ? "\n" : "", backup->cli->io->err);
}

// The first backup of a fleet tells every agent to keep its reports, and waits until all in session have acknowledged
// it.
static Berth__V1__BeginBackupResponse *begin(struct backup *backup, struct berth_error *err)
{
	Berth__V1__BeginBackupRequest request = BERTH__V1__BEGIN_BACKUP_REQUEST__INIT;
	Berth__V1__BeginBackupResponse *response = cli_call(&backup->link, CLI_LEDGER, "BeginBackup", &request, err);
	while (response && response->wait_ms) {
		say_whom(backup, response);
		int64_t wait_ms = response->wait_ms < WAIT_MS_MAX ? (int64_t)response->wait_ms : WAIT_MS_MAX;
		berth_proto_free(response);
		if (!berth_sleep_ms(wait_ms, (struct berth_until){BERTH_NO_DEADLINE_NS, backup->link.cancel}, err)) {
			return NULL;
		}
		response = cli_call(&backup->link, CLI_LEDGER, "BeginBackup", &request, err);
	}
	return response;
}

static bool read_file(struct backup *backup, const char *id, const Berth__V1__BackupFile *file, struct berth_error *err)
{
	if (!berth_path_is_safe(file->path)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the coordinator names a file outside the backup");
	}
	BERTH_AUTO_FREE char *path = berth_path_join(backup->fresh, file->path);
	BERTH_AUTO(berth_close_cleanup)
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot make %s", path);
	}
	if (!cli_backup_get(&backup->link, id, file->path, berth_sink_fd(&fd), err)) {
		return false;
	}
	if (fsync(fd) < 0) {
		return berth_fail_errno(err, "cannot sync %s", path);
	}
	struct stat status;
	if (fstat(fd, &status) < 0 || (uint64_t)status.st_size != file->size) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "%s has another size than the coordinator said", path);
	}
	backup->bytes += file->size;
	return true;
}

static bool read_ledger(struct backup *backup, const Berth__V1__BeginBackupResponse *begun, struct berth_error *err)
{
	BERTH_AUTO_FREE char *ledger = berth_path_join(backup->fresh, "ledger");
	if (!berth_remove_all(backup->fresh, err) || !berth_mkdir_all(ledger, FOLDER_MODE, err)) {
		return false;
	}
	for (size_t i = 0; i < begun->n_files; i++) {
		if (!read_file(backup, begun->backup_id, begun->files[i], err)) {
			return false;
		}
	}
	return berth_sync_dir(ledger, err);
}

static bool add_chunk(void *context, const void *data, size_t size, struct berth_error *err)
{
	return berth_blob_writer_add(context, data, size, err);
}

static bool read_blob(struct backup *backup, struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size,
	struct berth_error *err)
{
	struct berth_blob_writer *writer;
	bool existed;
	backup->blobs++;
	if (!berth_blob_writer_open(blobs, digest, size, &writer, &existed, err) || existed) {
		return existed;
	}
	Berth__V1__BlobRef ref = BERTH__V1__BLOB_REF__INIT;
	ref.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)digest->bytes};
	ref.size = size;
	if (!cli_blob_get(&backup->link, &ref, (struct berth_sink){add_chunk, writer}, err)) {
		berth_blob_writer_abort(writer);
		return false;
	}
	backup->blobs_new++;
	backup->bytes += (uint64_t)size;
	return berth_blob_writer_finish(writer, err);
}

static bool read_blobs(struct backup *backup, struct berth_error *err)
{
	BERTH_AUTO_FREE char *list = berth_path_join(backup->fresh, "blobs");
	BERTH_AUTO_FREE char *folder = berth_path_join(backup->folder, "blobs");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(list, BLOB_LIST_MAX, &text, err)) {
		return false;
	}
	struct berth_blobs *blobs = berth_blobs_open(folder, 0, err);
	bool ok = blobs != NULL;
	char *rest = (char *)berth_buf_text(&text), *line;
	while (ok && (line = strsep(&rest, "\n")) && *line) {
		struct berth_digest digest;
		char *space = strchr(line, ' ');
		if (space) {
			*space = 0;
		}
		ok = space && berth_unhex(line, digest.bytes, BERTH_DIGEST_SIZE)
		             ? read_blob(backup, blobs, &digest, strtoll(space + 1, NULL, 10), err)
		             : berth_fail(err, BERTH_ERROR_CORRUPT, "the coordinator's list of blobs can't be read");
	}
	berth_blobs_close(blobs);
	return ok;
}

// --- checking ---

// What was backed up before must be in the copy, unchanged.
static bool continues(const struct backup *backup, struct berth_error *err)
{
	if (!backup->before.size) {
		return true;
	}
	const struct berth_ledger_options options = {0};
	struct berth_ledger_head head;
	struct berth_ledger *ledger = berth_ledger_open(backup->fresh, &options, err);
	bool same = ledger && berth_ledger_head_at(ledger, backup->before.size, &head, err) &&
	            berth_digest_equal(&head.root, &backup->before.root);
	berth_ledger_close(ledger);
	return same || berth_fail(err, BERTH_ERROR_CORRUPT,
			       "%s holds a backup of %llu events that this ledger does not continue: it was edited, "
			       "forked or restored since; back up into another folder",
			       backup->folder, (unsigned long long)backup->before.size);
}

// The head of the copy, signed; the caller frees it.
static Berth__V1__LedgerHead *signed_head(struct backup *backup, struct berth_error *err)
{
	Berth__V1__ProveConsistencyRequest request = BERTH__V1__PROVE_CONSISTENCY_REQUEST__INIT;
	request.first = request.second = backup->audit.head.sequence;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ProveConsistencyResponse *response =
		cli_call(&backup->link, CLI_LEDGER, "ProveConsistency", &request, err);
	if (!response || !response->first ||
		!cli_head_check(response->first, backup->audit.fleet, backup->key.der, backup->key.size, err)) {
		return NULL;
	}
	if (memcmp(response->first->root_hash.data, backup->audit.head.root.bytes, BERTH_DIGEST_SIZE) != 0) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "the copy is not the ledger whose head is signed");
		return NULL;
	}
	return BERTH_STEAL(response->first);
}

// Agents may drop what the copy covers.
static bool finish(struct backup *backup, const char *id, const struct berth_core *core, struct berth_error *err)
{
	Berth__V1__FinishBackupRequest *request = berth_alloc(sizeof *request);
	berth__v1__finish_backup_request__init(request);
	berth_proto_set_string(&request->backup_id, id);
	request->head = berth_alloc(sizeof *request->head);
	berth__v1__ledger_head__init(request->head);
	request->head->sequence = backup->audit.head.sequence;
	berth_proto_set_bytes(&request->head->root_hash, backup->audit.head.root.bytes, BERTH_DIGEST_SIZE);
	request->n_applied = berth_core_applied(core, &request->applied);
	BERTH_AUTO(berth_proto_cleanup)
	void *response = cli_call(&backup->link, CLI_LEDGER, "FinishBackup", request, err);
	berth_proto_free(request);
	return response != NULL;
}

// The copy takes the place of the one before it: from here on it is the backup.
static bool take_place(const struct backup *backup, struct berth_error *err)
{
	BERTH_AUTO_FREE char *fresh = berth_path_join(backup->fresh, "ledger");
	BERTH_AUTO_FREE char *place = berth_path_join(backup->folder, "ledger");
	BERTH_AUTO_FREE char *floor = berth_path_join(backup->folder, "ledger.floor");
	BERTH_AUTO_FREE char *old = berth_path_join(backup->folder, CLI_BACKUP_OLD);
	// Without a ledger in its place the old one is the backup: a command was killed between the two renames.
	bool replaces = berth_file_exists(place);
	if (replaces && !berth_remove_all(old, err)) {
		return false;
	}
	if ((replaces && rename(place, old) < 0) || rename(fresh, place) < 0) {
		return berth_fail_errno(err, "cannot put the copy in its place in %s", backup->folder);
	}
	unlink(floor);
	return berth_sync_dir(backup->folder, err) && berth_remove_all(old, err);
}

static void print_backup(const struct backup *backup)
{
	static const char *const HEADS[] = {"FLEET", "EVENTS", "ROOT", "BLOBS", "NEW_BLOBS", "BYTES_READ", NULL};
	struct cli *cli = backup->cli;
	char root[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&backup->audit.head.root, root);
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	cli_table_add(table, "%s", backup->audit.fleet);
	cli_table_add(table, "%llu", (unsigned long long)backup->audit.head.sequence);
	cli_table_add(table, "%s", root);
	cli_table_add(table, "%llu", (unsigned long long)backup->blobs);
	cli_table_add(table, "%llu", (unsigned long long)backup->blobs_new);
	cli_table_add(table, "%llu", (unsigned long long)backup->bytes);
	cli_table_print(cli, table);
}

static bool back_up(struct backup *backup, struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__BeginBackupResponse *begun = begin(backup, err);
	if (!begun || !read_ledger(backup, begun, err) || !read_blobs(backup, err)) {
		return false;
	}
	struct berth_core *core = berth_audit_ledger(backup->fresh, &backup->audit, err);
	if (!core) {
		return berth_error_wrap(err, "the copy does not hold");
	}
	Berth__V1__LedgerHead *head = NULL;
	// Told last: agents drop what it covers, so it must be one that can be restored.
	bool ok = continues(backup, err) && (head = signed_head(backup, err)) && take_place(backup, err) &&
	          cli_backup_head_write(backup->folder, backup->audit.fleet, head, err) &&
	          finish(backup, begun->backup_id, core, err);
	berth_core_free(core);
	berth_proto_free(head);
	return ok;
}

int cli_ledger_backup(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(free_backup) struct backup backup = {.cli = cli, .folder = cli->args.positionals[0]};
	backup.fresh = berth_path_join(backup.folder, "new");
	if (!cli_trusted_key(cli, &backup.key, err) || !cli_link_open(cli, CLI_LINK_BERTH, &backup.link, err) ||
		!berth_mkdir_all(backup.folder, FOLDER_MODE, err) ||
		!cli_backup_head_read(backup.folder, &backup.key, &backup.before, err) || !back_up(&backup, err)) {
		return CLI_FAILED;
	}
	print_backup(&backup);
	return 0;
}
