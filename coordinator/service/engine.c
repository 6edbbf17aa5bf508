// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/codec/proto.h"
#include "coordinator/service/recorder.h"

#define EXIT_DISK_FAILED 74                  // as EX_IOERR
#define PACKED_KEPT      ((size_t)64 * 1024) // bytes
#define BATCH_ROOM       ((size_t)2 * BERTH_ENGINE_BATCH_MAX)

struct question {
	const struct berth_rpc_principal *principal;
	void (*ask)(const struct berth_core *core, void *context);
	void *context;
	struct berth_error *err;
	bool done, ok;
	struct question *prev, *next;
};

struct decided {
	struct berth_engine_request *request; // NULL: the engine's own
	struct berth_outcome outcome;
};

struct berth_engine {
	struct berth_engine_options options;
	pthread_t thread;
	pthread_mutex_t lock; // guards what follows
	pthread_cond_t wake, answered;
	struct berth_engine_request *requests, *requests_tail;
	size_t requests_count;
	struct question *questions;
	bool stopping;
	// the engine's thread only
	struct decided *batch;
	size_t batch_count;
	struct berth_buf packed; // the event that is being appended
	int64_t ticked_ns;
	struct berth_recorder recorder;
	int64_t settle_ns; // when the caller wants to be asked again
	bool disk_low;
	char disk_message[BERTH_ERROR_MESSAGE_MAX];
};

static struct berth_core_now now(void)
{
	return (struct berth_core_now){.boot_ns = berth_boot_ns(), .wall_ns = berth_wall_ns()};
}

// A name that was enrolled is only taken with its newest certificate.
static bool is_authorized(
	const struct berth_core *core, const struct berth_rpc_principal *principal, struct berth_error *err)
{
	if (!principal || !principal->name[0] || !principal->certificate_sha256[0]) {
		return true;
	}
	const char *role = berth_rpc_role_name(principal->role);
	const char *enrolled = berth_core_certificate(core, role, principal->name);
	if (enrolled && strcmp(enrolled, principal->certificate_sha256) != 0) {
		return berth_fail(err, BERTH_ERROR_DENIED,
			"%s %s was enrolled again since this certificate was issued: use the newer one", role,
			principal->name);
	}
	return true;
}

static void disk_failed(const struct berth_error *err)
{
	// The outcome of the batch is unknown; what the disk really has is found out by starting again.
	berth_log_error(
		"the ledger could not be written; the coordinator ends", "reason=%s", berth_log_quote(err->message));
	_exit(EXIT_DISK_FAILED);
}

static void append_events(struct berth_engine *engine, const struct berth_outcome *outcome, size_t first_size)
{
	struct berth_error err;
	struct berth_buf *packed = &engine->packed;
	for (size_t i = 0; i < outcome->events_count; i++) {
		berth_buf_reset(packed);
		berth_proto_pack_large(outcome->events[i], i ? 0 : first_size, packed);
		if (!berth_ledger_append(
			    engine->options.ledger, outcome->events[i]->sequence, packed->data, packed->size, &err)) {
			disk_failed(&err);
		}
	}
	if (packed->capacity > PACKED_KEPT) {
		berth_buf_free(packed);
	}
}

static void write_secrets(
	struct berth_engine *engine, const struct berth_engine_request *request, const struct berth_outcome *outcome)
{
	struct berth_error err;
	bool is_new = request && request->command.kind == BERTH_COMMAND_SUBMIT &&
	              outcome->error.code == BERTH_ERROR_OK && !outcome->existed;
	if (is_new && request->secrets_size &&
		!berth_ledger_put_secrets(
			engine->options.ledger, outcome->job_id, request->secrets, request->secrets_size, &err)) {
		disk_failed(&err);
	}
	for (size_t i = 0; i < outcome->effects_count; i++) {
		if (outcome->effects[i].kind == BERTH_EFFECT_DROP_SECRETS) {
			berth_ledger_drop_secrets(engine->options.ledger, outcome->effects[i].job_id);
		}
	}
}

static void write_blob(
	struct berth_engine *engine, const struct berth_engine_request *request, const struct berth_outcome *outcome)
{
	if (request && request->blob_size && outcome->events_count) {
		berth_ledger_put_blob(engine->options.ledger, &request->blob_digest, request->blob, request->blob_size);
	}
}

static void decide(
	struct berth_engine *engine, struct berth_engine_request *request, const struct berth_command *command)
{
	struct decided *decided = &engine->batch[engine->batch_count++];
	decided->request = request; // the outcome is as deliver left it
	if (request && !is_authorized(engine->options.core, &request->principal, &decided->outcome.error)) {
		return;
	}
	berth_core_decide(engine->options.core, command, now(), &decided->outcome);
	append_events(engine, &decided->outcome, request ? request->events_size : 0);
	write_secrets(engine, request, &decided->outcome);
	write_blob(engine, request, &decided->outcome);
	if (request && request->note) {
		request->note(request, &decided->outcome);
	}
	berth_outcome_drop_events(&decided->outcome);
}

static int64_t next_tick_ns(const struct berth_engine *engine)
{
	int64_t longest_ns = engine->ticked_ns + engine->options.tick_ms * BERTH_NS_PER_MS;
	int64_t due_ns = berth_core_next_tick_ns(engine->options.core);
	return due_ns < longest_ns ? due_ns : longest_ns;
}

static void mint_ids(char (*ids)[BERTH_ID_SIZE])
{
	uint8_t bytes[BERTH_PLACE_IDS][(BERTH_ID_SIZE - 1) / 2];
	berth_random(bytes, sizeof bytes);
	for (size_t i = 0; i < BERTH_PLACE_IDS; i++) {
		berth_hex(bytes[i], sizeof bytes[i], ids[i]);
	}
}

static void look_at_disk(struct berth_engine *engine)
{
	struct berth_error err;
	engine->disk_low = !berth_ledger_disk_ok(engine->options.ledger, &err);
	snprintf(engine->disk_message, sizeof engine->disk_message, "%s", engine->disk_low ? err.message : "");
}

static void decide_own(struct berth_engine *engine)
{
	int64_t boot_ns = berth_boot_ns();
	if (boot_ns >= next_tick_ns(engine)) {
		engine->ticked_ns = boot_ns;
		look_at_disk(engine);
		struct berth_command tick = {.kind = BERTH_COMMAND_TICK};
		decide(engine, NULL, &tick);
	}
	// Below the watermark nothing new is granted; what runs may end.
	while (!engine->disk_low && engine->batch_count < BERTH_ENGINE_BATCH_MAX &&
		berth_core_wants_place(engine->options.core, now())) {
		char ids[BERTH_PLACE_IDS][BERTH_ID_SIZE];
		mint_ids(ids);
		struct berth_command place = {.kind = BERTH_COMMAND_PLACE, .ids = ids};
		decide(engine, NULL, &place);
	}
}

static void deliver(struct berth_engine *engine)
{
	for (size_t i = 0; i < engine->batch_count; i++) {
		struct decided *decided = &engine->batch[i];
		if (decided->request) {
			decided->request->done(decided->request, engine->options.core, &decided->outcome);
		}
		for (size_t j = 0; j < decided->outcome.effects_count; j++) {
			engine->options.effect(
				engine->options.context, engine->options.core, &decided->outcome.effects[j]);
		}
		berth_outcome_reset(&decided->outcome);
	}
	engine->batch_count = 0;
}

static void answer(struct berth_engine *engine, struct question *questions)
{
	struct question *question, *next;
	DL_FOREACH_SAFE (questions, question, next) {
		bool ok = is_authorized(engine->options.core, question->principal, question->err);
		if (ok) {
			question->ask(engine->options.core, question->context);
		}
		pthread_mutex_lock(&engine->lock);
		question->ok = ok;
		question->done = true; // the asking thread may return and its question be gone from here on
		pthread_cond_broadcast(&engine->answered);
		pthread_mutex_unlock(&engine->lock);
	}
}

// The disk is full to what was kept for an end: this batch is the last, and it is answered.
static void commit_on_ballast(struct berth_engine *engine, struct berth_error *err)
{
	struct berth_error again;
	if (err->code != BERTH_ERROR_EXHAUSTED) {
		disk_failed(err);
	}
	berth_ledger_release_ballast(engine->options.ledger);
	if (!berth_ledger_commit(engine->options.ledger, &again)) {
		disk_failed(&again);
	}
}

static void run_batch(struct berth_engine *engine, struct berth_engine_request *requests, struct question *questions)
{
	struct berth_error err;
	struct berth_engine_request *request, *next;
	if (engine->disk_low) { // nobody is refused for what was freed since the last tick
		look_at_disk(engine);
	}
	LL_FOREACH_SAFE(requests, request, next)
	{
		request->command.actor = request->actor;
		request->command.disk_low = engine->disk_low;
		request->command.disk_message = engine->disk_message;
		if (request->prepare) {
			request->prepare(request);
		}
		decide(engine, request, &request->command);
	}
	decide_own(engine);
	berth_recorder_write(&engine->recorder, engine->batch_count ? BERTH_RECORDS_BESIDE : BERTH_RECORDS_ALONE);
	bool full = !berth_ledger_commit(engine->options.ledger, &err);
	if (full) {
		commit_on_ballast(engine, &err);
	}
	deliver(engine);
	answer(engine, questions);
	engine->settle_ns = engine->options.settled(engine->options.context, engine->options.core);
	berth_recorder_committed(&engine->recorder, berth_boot_ns());
	if (full) {
		disk_failed(&err);
	}
}

static struct berth_engine_request *take_requests(struct berth_engine *engine)
{
	struct berth_engine_request *first = engine->requests, *last = first;
	if (!first) {
		return NULL;
	}
	size_t taken = 1;
	while (last->next && taken < BERTH_ENGINE_BATCH_MAX / 2) {
		last = last->next;
		taken++;
	}
	engine->requests = last->next;
	engine->requests_count -= taken;
	last->next = NULL;
	return first;
}

static void wait_for_work(struct berth_engine *engine)
{
	int64_t tick_ns = next_tick_ns(engine);
	int64_t wake_ns = engine->recorder.busy ? 0 : engine->settle_ns < tick_ns ? engine->settle_ns : tick_ns;
	while (!engine->requests && !engine->questions && !engine->stopping && berth_boot_ns() < wake_ns) {
		struct timespec deadline;
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		int64_t left_ns = wake_ns - berth_boot_ns();
		left_ns += deadline.tv_nsec;
		deadline.tv_sec += left_ns > 0 ? left_ns / BERTH_NS_PER_S : 0;
		deadline.tv_nsec = left_ns > 0 ? left_ns % BERTH_NS_PER_S : 0;
		pthread_cond_timedwait(&engine->wake, &engine->lock, &deadline);
	}
}

static void *engine_run(void *context)
{
	struct berth_engine *engine = context;
	pthread_mutex_lock(&engine->lock);
	for (;;) {
		wait_for_work(engine);
		struct berth_engine_request *requests = take_requests(engine);
		struct question *questions = engine->questions;
		engine->questions = NULL;
		bool over = engine->stopping && !requests && !questions;
		pthread_mutex_unlock(&engine->lock);
		if (over) {
			return NULL;
		}
		run_batch(engine, requests, questions);
		pthread_mutex_lock(&engine->lock);
	}
}

struct berth_engine *berth_engine_start(const struct berth_engine_options *options, struct berth_error *err)
{
	struct berth_engine *engine = berth_alloc(sizeof *engine);
	engine->options = *options;
	engine->recorder = (struct berth_recorder){.core = options->core,
		.ledger = options->ledger,
		.every_ms = options->checkpoint_ms,
		.begun_ns = berth_boot_ns(),
		.begun_at = berth_ledger_marker(options->ledger)};
	engine->batch = berth_alloc(BATCH_ROOM * sizeof *engine->batch);
	pthread_mutex_init(&engine->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->wake, &attr);
	pthread_cond_init(&engine->answered, &attr);
	pthread_condattr_destroy(&attr);
	if (!berth_thread_start(&engine->thread, "engine", engine_run, engine, err)) {
		free(engine->batch);
		free(engine);
		return NULL;
	}
	return engine;
}

bool berth_engine_post_all(
	struct berth_engine *engine, struct berth_engine_request *first, size_t count, struct berth_error *err)
{
	struct berth_engine_request *last = first;
	while (last->next) {
		last = last->next;
	}
	bool ok = true;
	pthread_mutex_lock(&engine->lock);
	if (engine->stopping) {
		ok = berth_fail(err, BERTH_ERROR_NOT_SERVING, "the coordinator is stopping: try again when it is back");
	} else if (engine->requests_count >= BERTH_ENGINE_QUEUE_MAX &&
		   first->command.kind != BERTH_COMMAND_STREAM_DOWN) {
		ok = berth_fail(err, BERTH_ERROR_EXHAUSTED, "too many commands wait in the coordinator: try again");
	} else {
		if (engine->requests) {
			engine->requests_tail->next = first;
		} else {
			engine->requests = first;
		}
		engine->requests_tail = last;
		engine->requests_count += count;
	}
	pthread_mutex_unlock(&engine->lock);
	if (ok) {
		pthread_cond_signal(&engine->wake); // not under the lock, which the woken thread would wait for at once
	}
	return ok;
}

bool berth_engine_post(struct berth_engine *engine, struct berth_engine_request *request, struct berth_error *err)
{
	request->next = NULL;
	return berth_engine_post_all(engine, request, 1, err);
}

bool berth_engine_ask(struct berth_engine *engine, const struct berth_rpc_principal *principal,
	void (*ask)(const struct berth_core *core, void *context), void *context, struct berth_error *err)
{
	struct question question = {.principal = principal, .ask = ask, .context = context, .err = err};
	pthread_mutex_lock(&engine->lock);
	if (engine->stopping) {
		pthread_mutex_unlock(&engine->lock);
		return berth_fail(
			err, BERTH_ERROR_NOT_SERVING, "the coordinator is stopping: try again when it is back");
	}
	DL_APPEND(engine->questions, &question);
	pthread_mutex_unlock(&engine->lock);
	pthread_cond_signal(&engine->wake);
	pthread_mutex_lock(&engine->lock);
	while (!question.done) {
		pthread_cond_wait(&engine->answered, &engine->lock);
	}
	pthread_mutex_unlock(&engine->lock);
	return question.ok;
}

void berth_engine_stop(struct berth_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->stopping = true;
	pthread_cond_signal(&engine->wake);
	pthread_mutex_unlock(&engine->lock);
	pthread_join(engine->thread, NULL);
	pthread_cond_destroy(&engine->wake);
	pthread_cond_destroy(&engine->answered);
	pthread_mutex_destroy(&engine->lock);
	for (size_t i = 0; i < BATCH_ROOM; i++) {
		berth_outcome_clear(&engine->batch[i].outcome);
	}
	free(engine->batch);
	berth_buf_free(&engine->packed);
	free(engine);
}
