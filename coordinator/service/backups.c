// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/backups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/heads.h"

#define BLOBS         "blobs"
#define LEDGER        "ledger/"
#define FOLDER_MODE   0700
#define FILE_MODE     0600
#define WAITS_FOR_MAX 16 // names of agents in an answer

struct berth_backups {
	char *folder;           // DATA/backup
	pthread_mutex_t lock;   // guards what follows, and the folder's content
	char id[BERTH_ID_SIZE]; // empty: none is under way
};

struct berth_backups *berth_backups_new(const char *data_folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *folder = berth_path_join(data_folder, "backup");
	if (!berth_remove_all(folder, err)) {
		return NULL;
	}
	struct berth_backups *backups = berth_alloc(sizeof *backups);
	backups->folder = BERTH_STEAL(folder);
	pthread_mutex_init(&backups->lock, NULL);
	return backups;
}

// Under the lock.
static bool clear(struct berth_backups *backups, struct berth_error *err)
{
	backups->id[0] = 0;
	return berth_remove_all(backups->folder, err);
}

void berth_backups_free(struct berth_backups *backups)
{
	if (!backups) {
		return;
	}
	clear(backups, NULL);
	pthread_mutex_destroy(&backups->lock);
	free(backups->folder);
	free(backups);
}

// --- begin ---

static void close_folder(DIR **dir)
{
	if (*dir) {
		closedir(*dir);
	}
}

static bool add_file(Berth__V1__BeginBackupResponse *response, const char *folder, const char *path, const char *name,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *whole = berth_format("%s/%s%s", folder, path, name);
	struct stat status;
	if (stat(whole, &status) < 0) {
		return berth_fail_errno(err, "cannot look at %s", whole);
	}
	if (!S_ISREG(status.st_mode)) {
		return true;
	}
	Berth__V1__BackupFile *file = berth_alloc(sizeof *file);
	berth__v1__backup_file__init(file);
	file->path = berth_format("%s%s", path, name);
	file->size = (uint64_t)status.st_size;
	berth_proto_append(&response->n_files, &response->files, file);
	return true;
}

static bool list_copy(
	const struct berth_backups *backups, Berth__V1__BeginBackupResponse *response, struct berth_error *err)
{
	BERTH_AUTO_FREE char *ledger = berth_path_join(backups->folder, "ledger");
	BERTH_AUTO(close_folder) DIR *dir = opendir(ledger);
	if (!dir) {
		return berth_fail_errno(err, "cannot read %s", ledger);
	}
	for (struct dirent *entry; errno = 0, (entry = readdir(dir));) {
		if (!add_file(response, backups->folder, LEDGER, entry->d_name, err)) {
			return false;
		}
	}
	return errno == 0 ? add_file(response, backups->folder, "", BLOBS, err)
	                  : berth_fail_errno(err, "cannot read %s", ledger);
}

static void add_blob(void *context, const struct berth_digest *digest, int64_t size)
{
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_hex(digest->bytes, BERTH_DIGEST_SIZE, hex);
	berth_buf_printf(context, "%s %lld\n", hex, (long long)size);
}

// The blobs are listed after the copy: what an event of it names was stored before.
static bool copy(struct berth_daemon *daemon, Berth__V1__BeginBackupResponse *response, struct berth_error *err)
{
	struct berth_backups *backups = daemon->backups;
	BERTH_AUTO_FREE char *ledger = berth_path_join(backups->folder, "ledger");
	BERTH_AUTO_FREE char *list = berth_path_join(backups->folder, BLOBS);
	BERTH_AUTO(berth_buf_free) struct berth_buf blobs = {0};
	if (!clear(backups, err) || !berth_mkdir_all(backups->folder, FOLDER_MODE, err) ||
		!berth_ledger_copy(daemon->ledger, ledger, err) ||
		!berth_blobs_each(daemon->blobs, add_blob, &blobs, err) ||
		!berth_file_write(list, blobs.data, blobs.size, FILE_MODE, err) || !list_copy(backups, response, err)) {
		clear(backups, NULL);
		return berth_error_wrap(err, "the backup");
	}
	berth_random_id(backups->id);
	berth_proto_set_string(&response->backup_id, backups->id);
	return true;
}

// Every agent in session has sent a heartbeat and acknowledged the answer by then, as a rule.
static uint64_t wait_ms(const struct berth_daemon *daemon)
{
	return 2 * (uint64_t)daemon->heartbeat_ms + 1000;
}

struct keep { // a KEEP_REPORTS on its way through the engine
	struct berth_engine_request request;
	struct berth_daemon *daemon;
	struct berth_rpc_call *call; // referenced
};

static void kept(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core;
	struct keep *keep = (struct keep *)request;
	Berth__V1__BeginBackupResponse response = BERTH__V1__BEGIN_BACKUP_RESPONSE__INIT;
	response.wait_ms = wait_ms(keep->daemon);
	berth_reply(keep->call, outcome->error.code == BERTH_ERROR_OK ? &response : NULL, &outcome->error);
	berth_rpc_call_unref(keep->call);
	free(keep);
}

static void keep_reports(struct berth_daemon *daemon, struct berth_rpc_call *call)
{
	struct keep *keep = berth_alloc(sizeof *keep);
	struct berth_error err;
	keep->daemon = daemon;
	keep->call = berth_rpc_call_ref(call);
	keep->request.command.kind = BERTH_COMMAND_KEEP_REPORTS;
	keep->request.principal = *berth_rpc_call_principal(call);
	berth_actor(call, keep->request.actor);
	keep->request.done = kept;
	if (!berth_engine_post(daemon->engine, &keep->request, &err)) {
		berth_rpc_finish(call, &err);
		berth_rpc_call_unref(keep->call);
		free(keep);
	}
}

struct hearing {
	bool keeps;
	Berth__V1__BeginBackupResponse *response; // names who has not heard it
};

static void ask_kept(const struct berth_core *core, void *context)
{
	struct hearing *hearing = context;
	const char *names[WAITS_FOR_MAX];
	berth_core_stable_through(core, "", &hearing->keeps);
	size_t count = berth_core_unaware(core, names, WAITS_FOR_MAX);
	for (size_t i = 0; i < count && i < WAITS_FOR_MAX; i++) {
		berth_proto_append(
			&hearing->response->n_waits_for, &hearing->response->waits_for, berth_strdup(names[i]));
	}
}

void berth_backup_begin(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct berth_daemon *daemon = context;
	struct berth_error err;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BeginBackupResponse *response = berth_alloc(sizeof *response);
	berth__v1__begin_backup_response__init(response);
	struct hearing hearing = {.response = response};
	if (!berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_kept, &hearing, &err)) {
		berth_rpc_finish(call, &err);
		return;
	}
	if (!hearing.keeps) {
		keep_reports(daemon, call);
		return;
	}
	if (response->n_waits_for) {
		response->wait_ms = wait_ms(daemon);
		berth_reply(call, response, NULL);
		return;
	}
	pthread_mutex_lock(&daemon->backups->lock);
	bool ok = copy(daemon, response, &err);
	pthread_mutex_unlock(&daemon->backups->lock);
	berth_reply(call, ok ? response : NULL, &err);
}

// --- read ---

static bool is_under_way(const struct berth_backups *backups, const char *id, struct berth_error *err)
{
	return (backups->id[0] && strcmp(backups->id, id) == 0) ||
	       berth_fail(err, BERTH_ERROR_NOT_FOUND,
		       "this backup is not under way (any more): another one was begun, or the coordinator started "
		       "again");
}

int berth_backup_open(
	struct berth_backups *backups, const Berth__V1__ReadBackupRequest *request, struct berth_error *err)
{
	const char *name = request->path;
	if (strncmp(name, LEDGER, strlen(LEDGER)) == 0) {
		name += strlen(LEDGER);
	} else if (strcmp(name, BLOBS) != 0) {
		name = "";
	}
	if (!name[0] || name[0] == '.' || strchr(name, '/') || request->offset < 0) {
		berth_fail(err, BERTH_ERROR_INVALID, "a backup has no file %.128s", request->path);
		return -1;
	}
	int fd = -1;
	BERTH_AUTO_FREE char *path = berth_path_join(backups->folder, request->path);
	pthread_mutex_lock(&backups->lock);
	if (is_under_way(backups, request->backup_id, err)) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || lseek(fd, request->offset, SEEK_SET) < 0) {
			berth_fail_errno(err, "the backup's file %s can't be read", request->path);
			berth_close_cleanup(&fd);
			fd = -1;
		}
	}
	pthread_mutex_unlock(&backups->lock);
	return fd;
}

// --- finish ---

struct finish {
	struct berth_engine_request request;
	struct berth_daemon *daemon;
	struct berth_rpc_call *call; // referenced
	const Berth__V1__FinishBackupRequest *message;
	struct berth_arena *memory; // of the message
	struct berth_ledger_head head;
};

// On the engine's thread, which may wait for the disk.
static void look_up_head(struct berth_engine_request *request)
{
	struct finish *finish = (struct finish *)request;
	const Berth__V1__LedgerHead *head = finish->message->head;
	struct berth_error err;
	request->command.seen_held =
		head && head->sequence && head->root_hash.len == BERTH_DIGEST_SIZE &&
		berth_ledger_head_at(finish->daemon->ledger, head->sequence, &finish->head, &err) &&
		memcmp(head->root_hash.data, finish->head.root.bytes, BERTH_DIGEST_SIZE) == 0;
}

static void finished(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core;
	struct finish *finish = (struct finish *)request;
	Berth__V1__FinishBackupResponse response = BERTH__V1__FINISH_BACKUP_RESPONSE__INIT;
	Berth__V1__LedgerHead head;
	struct berth_signed_head storage;
	bool ok = outcome->error.code == BERTH_ERROR_OK;
	if (ok) {
		berth_heads_fill(finish->daemon->heads, &finish->head, &storage, &head);
		response.head = &head;
		berth_log_info("a backup was verified", "events=%llu operator=%s",
			(unsigned long long)finish->head.sequence, request->actor);
	}
	berth_reply(finish->call, ok ? &response : NULL, &outcome->error);
	berth_rpc_call_unref(finish->call);
	berth_arena_free(finish->memory);
	free(finish);
}

void berth_backup_finish(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__FinishBackupRequest *asked = (const Berth__V1__FinishBackupRequest *)message;
	struct berth_error err;
	pthread_mutex_lock(&daemon->backups->lock);
	bool ok = is_under_way(daemon->backups, asked->backup_id, &err) && clear(daemon->backups, &err);
	pthread_mutex_unlock(&daemon->backups->lock);
	struct finish *finish = berth_alloc(sizeof *finish);
	finish->daemon = daemon;
	finish->call = berth_rpc_call_ref(call);
	finish->message = asked;
	finish->memory = berth_rpc_keep_message(call);
	finish->request.command.kind = BERTH_COMMAND_BACKUP_VERIFIED;
	finish->request.command.backup = finish->message;
	finish->request.principal = *berth_rpc_call_principal(call);
	berth_actor(call, finish->request.actor);
	finish->request.prepare = look_up_head;
	finish->request.done = finished;
	if (!ok || !berth_engine_post(daemon->engine, &finish->request, &err)) {
		berth_rpc_finish(call, &err);
		berth_rpc_call_unref(finish->call);
		berth_arena_free(finish->memory);
		free(finish);
	}
}
