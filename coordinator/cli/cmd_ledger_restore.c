// SPDX-License-Identifier: Apache-2.0
// `berth ledger restore BACKUP DATA`: a data folder made from a backup, with the mark that its first start tells the
// fleet. Offline, on the coordinator's host. The copy is made and checked in DATA/restoring, and takes its place last.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/audit/audit.h"
#include "coordinator/audit/restored.h"
#include "coordinator/blob/blob.h"
#include "coordinator/cli/ledger_backup.h"
#include "coordinator/cli/output.h"

#define FOLDER_MODE 0700
#define FILE_MODE   0600
#define CHUNK_SIZE  (1024 * 1024)

static bool copy_bytes(int from, int to, off_t size, const char *path, struct berth_error *err)
{
	for (off_t left = size; left > 0;) {
		ssize_t sent = sendfile(to, from, NULL, (size_t)left);
		if (sent <= 0) {
			return berth_fail_errno(err, "cannot copy %s", path);
		}
		left -= sent;
	}
	return fsync(to) == 0 || berth_fail_errno(err, "cannot sync the copy of %s", path);
}

static bool copy_file(const char *from, const char *to, struct berth_error *err)
{
	struct stat status;
	BERTH_AUTO(berth_close_cleanup) int source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (source < 0 || fstat(source, &status) < 0) {
		return berth_fail_errno(err, "cannot read %s", from);
	}
	if (!S_ISREG(status.st_mode)) {
		return true;
	}
	BERTH_AUTO(berth_close_cleanup) int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (target < 0) {
		return berth_fail_errno(err, "cannot make %s", to);
	}
	return copy_bytes(source, target, status.st_size, from, err);
}

static void close_folder(DIR **dir)
{
	if (*dir) {
		closedir(*dir);
	}
}

static bool copy_ledger(const char *from, const char *to, struct berth_error *err)
{
	BERTH_AUTO(close_folder) DIR *dir = opendir(from);
	if (!dir) {
		return berth_fail_errno(err, "cannot read the backup's ledger %s", from);
	}
	if (!berth_mkdir_all(to, FOLDER_MODE, err)) {
		return false;
	}
	for (struct dirent *entry; errno = 0, (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
			continue;
		}
		BERTH_AUTO_FREE char *source = berth_path_join(from, entry->d_name);
		BERTH_AUTO_FREE char *target = berth_path_join(to, entry->d_name);
		if (!copy_file(source, target, err)) {
			return false;
		}
	}
	return errno ? berth_fail_errno(err, "cannot read %s", from) : berth_sync_dir(to, err);
}

struct blob_copy {
	struct berth_blobs *from, *to;
	uint64_t count;
	bool ok;
	struct berth_error *err;
};

static bool add_all(struct berth_blob_writer *writer, int fd, struct berth_error *err)
{
	BERTH_AUTO_FREE uint8_t *chunk = berth_alloc(CHUNK_SIZE);
	ssize_t size;
	while ((size = read(fd, chunk, CHUNK_SIZE)) > 0) {
		if (!berth_blob_writer_add(writer, chunk, (size_t)size, err)) {
			return false;
		}
	}
	return size == 0 || berth_fail_errno(err, "cannot read a blob of the backup");
}

// The writer checks the digest.
static bool copy_blob(struct blob_copy *copy, const struct berth_digest *digest, int64_t size, struct berth_error *err)
{
	BERTH_AUTO(berth_close_cleanup) int fd = berth_blob_open_read(copy->from, digest, size, err);
	struct berth_blob_writer *writer;
	bool existed;
	if (fd < 0 || !berth_blob_writer_open(copy->to, digest, size, &writer, &existed, err)) {
		return false;
	}
	copy->count++;
	if (existed) {
		return true;
	}
	if (!add_all(writer, fd, err)) {
		berth_blob_writer_abort(writer);
		return false;
	}
	return berth_blob_writer_finish(writer, err);
}

static void visit_blob(void *context, const struct berth_digest *digest, int64_t size)
{
	struct blob_copy *copy = context;
	copy->ok = copy->ok && copy_blob(copy, digest, size, copy->err);
}

static bool copy_blobs(const char *backup, const char *data, uint64_t *count, struct berth_error *err)
{
	BERTH_AUTO_FREE char *from = berth_path_join(backup, "blobs");
	BERTH_AUTO_FREE char *to = berth_path_join(data, "blobs");
	struct blob_copy copy = {.ok = true, .err = err};
	copy.from = berth_blobs_open(from, 0, err);
	copy.to = copy.from ? berth_blobs_open(to, 0, err) : NULL;
	bool ok = copy.to && berth_blobs_each(copy.from, visit_blob, &copy, err) && copy.ok;
	berth_blobs_close(copy.from);
	berth_blobs_close(copy.to);
	*count = copy.count;
	return ok;
}

static bool is_free(const char *data, const char *ledger, struct berth_error *err)
{
	return !berth_file_exists(ledger) ||
	       berth_fail(err, BERTH_ERROR_CONFLICT,
		       "%s holds a ledger: move it away first (it may tell what was lost), nothing is overwritten",
		       data);
}

// What its key signed is in the copy, which may be longer: a backup is signed after it has taken its place.
static bool holds(const char *data, const struct cli_backup_head *head, struct berth_error *err)
{
	const struct berth_ledger_options options = {0};
	struct berth_ledger_head at;
	struct berth_ledger *ledger = berth_ledger_open(data, &options, err);
	bool ok = ledger && berth_ledger_head_at(ledger, head->size, &at, err) &&
	          berth_digest_equal(&at.root, &head->root);
	berth_ledger_close(ledger);
	return ok || berth_fail(err, BERTH_ERROR_CORRUPT,
			     "the backup's ledger is not the one whose head was signed (head.json, %llu events)",
			     (unsigned long long)head->size);
}

static bool check(
	const char *data, const struct cli_backup_head *head, struct berth_audit *audit, struct berth_error *err)
{
	struct berth_core *core = berth_audit_ledger(data, audit, err);
	berth_core_free(core);
	return core && holds(data, head, err);
}

static bool write_mark(struct cli *cli, const char *data, const struct berth_audit *audit, struct berth_error *err)
{
	struct berth_restored mark = {.size = audit->head.sequence, .leaf = audit->head.leaf, .root = audit->head.root};
	snprintf(mark.reason, sizeof mark.reason, "%s", cli_args_text(&cli->args, CLI_FLAG_REASON));
	return berth_restored_write(data, &mark, err);
}

static bool take_place(const char *data, const char *checked, const char *place, struct berth_error *err)
{
	BERTH_AUTO_FREE char *floor = berth_path_join(data, "ledger.floor");
	unlink(floor); // of a ledger that was there before
	if (rename(checked, place) < 0) {
		return berth_fail_errno(err, "cannot put the ledger in its place in %s", data);
	}
	return berth_sync_dir(data, err);
}

static bool restore(struct cli *cli, const struct cli_backup_head *head, struct berth_audit *audit, uint64_t *blobs,
	struct berth_error *err)
{
	const char *backup = cli->args.positionals[0], *data = cli->args.positionals[1];
	BERTH_AUTO_FREE char *from = cli_backup_ledger(backup);
	BERTH_AUTO_FREE char *place = berth_path_join(data, "ledger");
	BERTH_AUTO_FREE char *restoring = berth_path_join(data, "restoring");
	BERTH_AUTO_FREE char *to = berth_path_join(restoring, "ledger");
	if (!is_free(data, place, err)) {
		return false;
	}
	bool ok = berth_remove_all(restoring, err) && berth_mkdir_all(restoring, FOLDER_MODE, err) &&
	          copy_blobs(backup, data, blobs, err) && copy_ledger(from, to, err) &&
	          check(restoring, head, audit, err) && write_mark(cli, data, audit, err) &&
	          take_place(data, to, place, err);
	berth_remove_all(restoring, NULL);
	return ok;
}

static void print_restored(struct cli *cli, const struct berth_audit *audit, uint64_t blobs)
{
	static const char *const HEADS[] = {"FLEET", "EVENTS", "ROOT", "BLOBS", NULL};
	char root[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&audit->head.root, root);
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	cli_table_add(table, "%s", audit->fleet);
	cli_table_add(table, "%llu", (unsigned long long)audit->head.sequence);
	cli_table_add(table, "%s", root);
	cli_table_add(table, "%llu", (unsigned long long)blobs);
	cli_table_print(cli, table);
	fprintf(cli->io->err,
		"start the coordinator on this folder, with a --hold-ms that is no shorter than any it had since the "
		"backup: it assigns\nnothing before every agent has resent what came after event %llu, or was given up "
		"with `berth agent forget NAME`\n(`berth ledger show` names them)\n",
		(unsigned long long)audit->head.sequence);
}

int cli_ledger_restore(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_key_free) struct cli_key key = {0};
	struct cli_backup_head head;
	struct berth_audit audit;
	uint64_t blobs;
	const char *reason = cli_args_text(&cli->args, CLI_FLAG_REASON);
	if (!reason || !*reason) {
		berth_fail(err, BERTH_ERROR_INVALID, "give a --reason: it is kept in the ledger for good");
		return CLI_FAILED;
	}
	if (!cli_trusted_key(cli, &key, err) || !cli_backup_head_read(cli->args.positionals[0], &key, &head, err)) {
		return CLI_FAILED;
	}
	if (!head.size) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND, "%s holds no backup: name what `berth ledger backup` wrote",
			cli->args.positionals[0]);
		return CLI_FAILED;
	}
	if (!restore(cli, &head, &audit, &blobs, err)) {
		return CLI_FAILED;
	}
	print_restored(cli, &audit, blobs);
	return 0;
}
