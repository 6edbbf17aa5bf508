// SPDX-License-Identifier: Apache-2.0
// What trials left, as text that cannot steer a terminal. A trial's folder is unpacked to a temporary place, one at a
// time.
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/results_internal.h"
#include "coordinator/cli/watch.h"

#define CHUNK_SIZE 65536

struct logs {
	struct cli *cli;
	struct cli_link *link;
	const char *trial; // NULL: every one
	const char *file;  // NULL: those that hold logs
	bool found;
};

static void print_stream(FILE *out, int fd)
{
	char chunk[CHUNK_SIZE];
	BERTH_AUTO(berth_buf_free) struct berth_buf clean = {0};
	size_t kept = 0;
	for (ssize_t size; (size = read(fd, chunk + kept, sizeof chunk - kept)) > 0;) {
		size_t whole = kept + (size_t)size;
		size_t torn = cli_text_torn(chunk, whole);
		berth_buf_reset(&clean);
		cli_text_clean(chunk, whole - torn, true, &clean);
		fwrite(clean.data, 1, clean.size, out);
		memmove(chunk, chunk + whole - torn, torn);
		kept = torn;
	}
	if (kept > 0) {
		berth_buf_reset(&clean);
		cli_text_clean(chunk, kept, true, &clean);
		fwrite(clean.data, 1, clean.size, out);
	}
}

// Opens a file of the unpacked folder; a link that leads out of it is not followed.
static int open_inside(const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO_FREE char *real = realpath(path, NULL);
	size_t length = strlen(folder);
	if (!real || strncmp(real, folder, length) != 0 || real[length] != '/') {
		return -1;
	}
	return open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static bool print_file(struct logs *logs, const char *trial, const char *folder, const char *name)
{
	BERTH_AUTO_CLOSE int fd = open_inside(folder, name);
	if (fd < 0) {
		return false;
	}
	FILE *out = logs->cli->io->out;
	if (!logs->file || !logs->trial) {
		BERTH_AUTO_FREE char *head = cli_text_line(name);
		fprintf(out, "==> %s/%s <==\n", trial, head);
	}
	print_stream(out, fd);
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);
	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// Logs of trial, agent and verifier; not what the task's own artifacts hold.
static bool is_log(const char *name)
{
	return (ends_with(name, ".txt") || ends_with(name, ".log")) && strncmp(name, "artifacts/", 10) != 0 &&
	       !strstr(name, "/artifacts/");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void print_logs(struct logs *logs, const char *trial, char *folder)
{
	char *const roots[] = {folder, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	for (FTSENT *entry; walk && (entry = fts_read(walk));) {
		const char *name = entry->fts_path + strlen(folder) + (entry->fts_level > 0);
		if (entry->fts_info == FTS_F && is_log(name)) {
			print_file(logs, trial, folder, name);
		}
	}
	if (walk) {
		fts_close(walk);
	}
}

static bool fetch(void *context, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err)
{
	return cli_blob_get(context, blob, sink, err);
}

static bool print_unpacked(struct logs *logs, const Berth__V1__Trial *trial, char *folder, struct berth_error *err)
{
	const struct berth_untar_options options = {
		.content_size_max = BERTH_RESULTS_FOLDER_SIZE_MAX, .entries_max = BERTH_RESULTS_FOLDER_FILES_MAX};
	BERTH_AUTO_CLOSE int fd =
		results_fetch(folder, trial->result->folder, (struct berth_results_blobs){fetch, logs->link}, err);
	if (fd < 0 || !berth_untar(berth_source_fd(&fd), folder, &options, err)) {
		return berth_error_wrap(err, "trial %s", trial->trial_name);
	}
	if (!logs->file) {
		print_logs(logs, trial->trial_name, folder);
		return true;
	}
	if (!print_file(logs, trial->trial_name, folder, logs->file) && logs->trial) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND,
			"trial %s left no file %s; without --file its logs are listed", trial->trial_name, logs->file);
	}
	return true;
}

static bool print_ended(struct logs *logs, const Berth__V1__Trial *trial, struct berth_error *err)
{
	const char *root = getenv("TMPDIR");
	BERTH_AUTO_FREE char *pattern = berth_format("%s/berth-logs-XXXXXX", root && *root ? root : "/tmp");
	if (!mkdtemp(pattern)) {
		return berth_fail_errno(err, "cannot make %s; set TMPDIR to a folder with room for a trial", pattern);
	}
	BERTH_AUTO_FREE char *folder = realpath(pattern, NULL);
	bool printed = folder ? print_unpacked(logs, trial, folder, err) : berth_fail_errno(err, "%s", pattern);
	berth_remove_all(pattern, NULL);
	return printed;
}

static void print_state(const struct logs *logs, const Berth__V1__Trial *trial)
{
	BERTH_AUTO_FREE char *line = cli_trial_line(trial);
	BERTH_AUTO_FREE char *host = cli_text_line(trial->agent_host);
	BERTH_AUTO_FREE char *phase = cli_text_line(trial->phase);
	fprintf(logs->cli->io->out, "%s%s%s%s%s\n", line, *host ? " on " : "", host, *phase ? ", " : "", phase);
}

static bool is_wanted(const struct logs *logs, const Berth__V1__Trial *trial)
{
	BERTH_AUTO_FREE char *index = berth_format("%u", trial->key->index);
	return !logs->trial || strcmp(logs->trial, trial->trial_name) == 0 || strcmp(logs->trial, index) == 0;
}

static bool visit(void *context, const Berth__V1__Trial *trial, struct berth_error *err)
{
	struct logs *logs = context;
	if (!is_wanted(logs, trial)) {
		return true;
	}
	logs->found = true;
	const Berth__V1__TrialResult *result = trial->result;
	if (result && result->folder && result->folder->size > 0) {
		return print_ended(logs, trial, err);
	}
	print_state(logs, trial);
	return true;
}

int cli_job_logs(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	struct logs logs = {.cli = cli,
		.link = &link,
		.trial = cli->args.positionals_count > 1 ? cli->args.positionals[1] : NULL,
		.file = cli_args_text(&cli->args, CLI_FLAG_FILE)};
	if (logs.file && !berth_path_is_safe(logs.file)) {
		berth_fail(err, BERTH_ERROR_INVALID, "--file: \"%s\" is no path inside a trial's folder", logs.file);
		return CLI_FAILED;
	}
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = cli_get_job(&link, cli->args.positionals[0], err);
	if (!found || !cli_each_trial(&link, found->job->job_id, false, visit, &logs, err)) {
		return CLI_FAILED;
	}
	if (logs.trial && !logs.found) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND, "job %s has no trial %s; `berth job show %s` lists them",
			found->job->name, logs.trial, cli->args.positionals[0]);
		return CLI_FAILED;
	}
	return 0;
}
