// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/ledger.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/codec/proto.h"
#include "common/evidence/x509.h"
#include "coordinator/audit/recover.h"
#include "coordinator/audit/restored.h"
#include "coordinator/service/backups.h"
#include "coordinator/service/daemon.h"
#include "coordinator/service/heads.h"
#include "coordinator/service/watch.h"

#define TICK_MS       1000
#define BALLAST_BYTES (64 * 1024 * 1024)
#define CUT_TAIL_HINT "the ledger is damaged; after a power cut, and only then, start once with --cut-tail"

static void on_effect(void *context, const struct berth_core *core, const struct berth_effect *effect)
{
	struct berth_daemon *daemon = context;
	switch (effect->kind) {
	case BERTH_EFFECT_JOB_CHANGED:
	case BERTH_EFFECT_TRIAL_CHANGED:
		berth_watch_effect(daemon->job_watches, effect);
		break;
	case BERTH_EFFECT_BUDGET_CHANGED:
		berth_budget_watch_effect(daemon->budget_watches, effect);
		break;
	case BERTH_EFFECT_STOP_SERVING:
		berth_log_error("a newer incarnation of this coordinator exists; this one stops serving", "fleet=%s",
			daemon->fleet);
		daemon->fenced(daemon->context);
		break;
	case BERTH_EFFECT_DROP_SECRETS:
		berth_sessions_scrub(daemon); // their removal was in the batch itself
		break;
	default:
		berth_session_effect(daemon, core, effect);
	}
}

static int64_t on_settled(void *context, const struct berth_core *core)
{
	struct berth_daemon *daemon = context;
	berth_sessions_settled(daemon);
	int64_t jobs_ns = berth_watches_settled(daemon->job_watches, daemon, core);
	int64_t budgets_ns = berth_watches_settled(daemon->budget_watches, daemon, core);
	return jobs_ns < budgets_ns ? jobs_ns : budgets_ns;
}

// Commits the new incarnation before anything is served.
static void started(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core, (void)outcome;
	free(request);
}

static void seen_after_start(const struct berth_core *core, void *context)
{
	*(uint64_t *)context = berth_core_incarnation(core).number;
}

// The mark of a restore that this ledger has not told yet.
static bool read_restored(const struct berth_daemon *daemon, const char *data_folder, struct berth_restored *mark,
	bool *found, struct berth_error *err)
{
	if (!berth_restored_read(data_folder, mark, found, err)) {
		return false;
	}
	if (!*found) {
		return true;
	}
	const struct berth_core_restore *restores;
	size_t count = berth_core_restores(daemon->core, &restores);
	struct berth_ledger_head head = berth_ledger_head(daemon->ledger);
	if (count && restores[count - 1].size == mark->size) {
		*found = false; // told already: the mark outlived its own removal
		return berth_restored_remove(data_folder, err);
	}
	return (head.sequence == mark->size && berth_digest_equal(&head.root, &mark->root)) ||
	       berth_fail(err, BERTH_ERROR_CORRUPT,
		       "%s/restored.json names a backup of %llu events, and the ledger has %llu: restore it again",
		       data_folder, (unsigned long long)mark->size, (unsigned long long)head.sequence);
}

static bool start_incarnation(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct berth_restored mark;
	bool was_restored;
	if (!read_restored(daemon, options->data_folder, &mark, &was_restored, err)) {
		return false;
	}
	const struct berth_core_restored restored = {
		.size = mark.size, .leaf = mark.leaf, .root = mark.root, .reason = mark.reason};
	uint8_t nonce[16];
	berth_random(nonce, sizeof nonce);
	struct berth_engine_request *request = berth_alloc(sizeof *request);
	request->command.kind = BERTH_COMMAND_START;
	request->command.nonce = nonce;
	request->command.version = options->version;
	request->command.restored = was_restored ? &restored : NULL;
	request->done = started;
	uint64_t number = 0;
	if (!berth_engine_post(daemon->engine, request, err) ||
		!berth_engine_ask(daemon->engine, NULL, seen_after_start, &number, err)) {
		return false;
	}
	if (was_restored) {
		berth_log_warn("the ledger goes on from a backup; nothing is assigned before every agent has resent",
			"events=%llu reason=%s", (unsigned long long)mark.size, berth_log_quote(mark.reason));
		if (!berth_restored_remove(options->data_folder, err)) {
			return false;
		}
	}
	struct berth_ledger_head head = berth_ledger_head(daemon->ledger);
	berth_log_info("coordinator started", "fleet=%s incarnation=%llu events=%llu", daemon->fleet,
		(unsigned long long)number, (unsigned long long)head.sequence);
	return true;
}

static bool open_ledger(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct berth_ledger_options ledger = {.disk_free_min_bytes = options->disk_free_min_bytes,
		.ballast_bytes = BALLAST_BYTES,
		.cut_tail = options->cut_tail};
	daemon->ledger = berth_ledger_open(options->data_folder, &ledger, err);
	if (!daemon->ledger) {
		return options->cut_tail || err->code != BERTH_ERROR_CORRUPT ? false
		                                                             : berth_error_wrap(err, CUT_TAIL_HINT);
	}
	return true;
}

static bool open_stores(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	BERTH_AUTO_FREE char *blobs = berth_path_join(options->data_folder, "blobs");
	if (!berth_ledger_set_secret_key_file(daemon->ledger, options->secret_key_file, err)) {
		return false;
	}
	daemon->heads = berth_heads_new(daemon->fleet, options->ledger_key_file, err);
	if (!daemon->heads) {
		return false;
	}
	daemon->blobs = berth_blobs_open(blobs, options->disk_free_min_bytes, err);
	daemon->backups = daemon->blobs ? berth_backups_new(options->data_folder, err) : NULL;
	return daemon->backups != NULL;
}

static bool take_up_ledger(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	ProtobufCBinaryData key = berth_heads_key_der(daemon->heads);
	struct berth_core_config config = {.fleet = daemon->fleet,
		.hold_ms = options->hold_ms,
		.heartbeat_ms = options->heartbeat_ms,
		.aging_ms = options->aging_ms,
		.create_policy = options->create_policy,
		.max_generations = options->max_generations,
		.allow_unmetered_local = !options->meter_local,
		.ledger_key_der = key.data,
		.ledger_key_size = key.len};
	daemon->core = berth_core_new(&config);
	return berth_recover(daemon->core, daemon->ledger, err) ||
	       berth_error_wrap(err, "cannot take up the ledger in %s", options->data_folder);
}

static bool start_engine(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct berth_engine_options engine = {.core = daemon->core,
		.ledger = daemon->ledger,
		.tick_ms = TICK_MS,
		.checkpoint_ms = options->checkpoint_ms,
		.effect = on_effect,
		.settled = on_settled,
		.context = daemon};
	daemon->engine = berth_engine_start(&engine, err);
	return daemon->engine && start_incarnation(daemon, options, err);
}

static bool listen_on_ports(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct berth_rpc_service services[] = {
		{&berth__v1__job_service__descriptor, berth_job_handlers, berth_job_handlers_count, daemon},
		{&berth__v1__fleet_service__descriptor, berth_fleet_handlers, berth_fleet_handlers_count, daemon},
		{&berth__v1__lease_service__descriptor, berth_lease_handlers, berth_lease_handlers_count, daemon},
		{&berth__v1__ledger_service__descriptor, berth_ledger_handlers, berth_ledger_handlers_count, daemon},
		{&berth__v1__budget_service__descriptor, berth_budget_handlers, berth_budget_handlers_count, daemon},
	};
	struct berth_rpc_service blobs = {
		&berth__v1__blob_service__descriptor, berth_blob_handlers, berth_blob_handlers_count, daemon};
	struct berth_rpc_server_options server = {.address = options->listen,
		.tls = &options->tls,
		.tls_checked = true,
		.services = services,
		.services_count = BERTH_COUNT(services),
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size,
		.threads = BERTH_SERVICE_THREADS,
		.writer = true,
		.fleet = daemon->fleet};
	daemon->server = berth_rpc_server_listen(&server, err);
	if (!daemon->server) {
		return false;
	}
	server.address = options->blobs_listen;
	server.services = &blobs;
	server.services_count = 1;
	server.threads = BERTH_BLOB_THREADS;
	server.writer = false;
	server.send_queue_size_max = BERTH_BLOB_UNSENT_MAX;
	daemon->blob_server = berth_rpc_server_listen(&server, err);
	return daemon->blob_server != NULL;
}

// Listening begins beside the opening of the ledger: each sets up libraries of its own for as long as the other.
struct listening {
	struct berth_daemon *daemon;
	const struct berth_coordinator_options *options;
	pthread_mutex_t lock; // guards `is_told`
	pthread_cond_t told;
	bool is_told; // `is_identified` is known, and the daemon's fleet with it
	bool is_identified, ok;
	struct berth_error err;
};

// What the credentials say, before gRPC is there: this thread waits while RocksDB is loaded.
static bool identify(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	BERTH_AUTO_FREE char *fleet = NULL;
	if (!berth_x509_authority_fleet(options->tls.authority, &fleet, err)) {
		return false;
	}
	snprintf(daemon->fleet, sizeof daemon->fleet, "%s", fleet);
	return berth_rpc_tls_check(&options->tls, err);
}

static void *listen_run(void *context)
{
	struct listening *listening = context;
	listening->is_identified = identify(listening->daemon, listening->options, &listening->err);
	pthread_mutex_lock(&listening->lock);
	listening->is_told = true;
	pthread_cond_signal(&listening->told);
	pthread_mutex_unlock(&listening->lock);
	listening->ok =
		listening->is_identified && listen_on_ports(listening->daemon, listening->options, &listening->err);
	return NULL;
}

static bool open_and_take_up(struct listening *listening, struct berth_error *err)
{
	if (!open_ledger(listening->daemon, listening->options, err)) {
		return false;
	}
	pthread_mutex_lock(&listening->lock);
	while (!listening->is_told) {
		pthread_cond_wait(&listening->told, &listening->lock);
	}
	pthread_mutex_unlock(&listening->lock);
	return !listening->is_identified || (open_stores(listening->daemon, listening->options, err) &&
						    take_up_ledger(listening->daemon, listening->options, err));
}

// Of two errors the ledger's is told: it is the one that keeps a fleet down.
static bool open_and_listen(
	struct berth_daemon *daemon, const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct listening listening = {.daemon = daemon, .options = options};
	pthread_t thread;
	pthread_mutex_init(&listening.lock, NULL);
	pthread_cond_init(&listening.told, NULL);
	if (!berth_thread_start(&thread, "listen", listen_run, &listening, err)) {
		return false;
	}
	bool opened = open_and_take_up(&listening, err);
	pthread_join(thread, NULL);
	pthread_cond_destroy(&listening.told);
	pthread_mutex_destroy(&listening.lock);
	if (opened && !listening.ok) {
		*err = listening.err;
	}
	return opened && listening.ok;
}

static void begin_to_serve(struct berth_daemon *daemon)
{
	berth_rpc_server_begin(daemon->server);
	berth_rpc_server_begin(daemon->blob_server);
	berth_rpc_server_set_serving(daemon->server, true);
	berth_rpc_server_set_serving(daemon->blob_server, true);
}

struct berth_daemon *berth_coordinator_start(const struct berth_coordinator_options *options, struct berth_error *err)
{
	struct berth_daemon *daemon = berth_alloc(sizeof *daemon);
	daemon->hold_ms = options->hold_ms;
	daemon->heartbeat_ms = options->heartbeat_ms;
	daemon->authority = berth_strdup(options->tls.authority);
	daemon->authority_key = berth_strdup(options->authority_key);
	daemon->fenced = options->fenced;
	daemon->context = options->context;
	daemon->sessions = berth_sessions_new();
	daemon->job_watches = berth_watches_new(&berth_watch_job);
	daemon->budget_watches = berth_watches_new(&berth_watch_budget);
	if (!open_and_listen(daemon, options, err) || !start_engine(daemon, options, err)) {
		berth_coordinator_stop(daemon, 0);
		return NULL;
	}
	begin_to_serve(daemon);
	return daemon;
}

int berth_coordinator_port(const struct berth_daemon *daemon)
{
	return berth_rpc_server_port(daemon->server);
}

int berth_coordinator_blobs_port(const struct berth_daemon *daemon)
{
	return berth_rpc_server_port(daemon->blob_server);
}

void berth_coordinator_stop(struct berth_daemon *daemon, int64_t grace_ms)
{
	// Servers first: every call has ended when the engine takes its last command.
	if (daemon->server) {
		berth_rpc_server_set_serving(daemon->server, false);
		berth_rpc_server_stop(daemon->server, grace_ms);
	}
	if (daemon->blob_server) {
		berth_rpc_server_stop(daemon->blob_server, grace_ms);
	}
	if (daemon->engine) {
		berth_engine_stop(daemon->engine);
	}
	berth_core_free(daemon->core);
	berth_ledger_close(daemon->ledger);
	berth_heads_free(daemon->heads);
	berth_blobs_close(daemon->blobs);
	berth_backups_free(daemon->backups);
	berth_watches_free(daemon->job_watches);
	berth_watches_free(daemon->budget_watches);
	berth_sessions_free(daemon->sessions);
	free(daemon->authority);
	if (daemon->authority_key) {
		explicit_bzero(daemon->authority_key, strlen(daemon->authority_key));
		free(daemon->authority_key);
	}
	free(daemon);
}
