// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/watch.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/results.h"

#define TICK_MS 1000 // between two drawings while nothing comes

struct watch {
	struct cli *cli;
	struct cli_link link; // the caller's, with the token that counts now
	const char *job_id;
	const struct cli_watch_options *options;
	struct cli_progress progress;
	struct cli_phases phases;
	Berth__V1__JobState state;
	char *name;
	struct cli_away away;
	bool ended, cancelled_here, gave_up;
	bool blocked; // trials wait for money, and that was told
};

bool cli_job_has_ended(const Berth__V1__Job *job)
{
	return job->state == BERTH__V1__JOB_STATE__JOB_CANCELLED || job->state == BERTH__V1__JOB_STATE__JOB_COMPLETED;
}

char *cli_trial_line(const Berth__V1__Trial *trial)
{
	const Berth__V1__TrialResult *result = trial->result;
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__trial_state__descriptor, (int)trial->state);
	BERTH_AUTO(berth_buf_free) struct berth_buf line = {0};
	if (*trial->trial_name) {
		berth_buf_printf(&line, "%s: %s", trial->trial_name, state);
	} else {
		berth_buf_printf(&line, "trial %u: %s", trial->key ? trial->key->index : 0, state);
	}
	if (result && *result->rewards_json && trial->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED) {
		berth_buf_printf(&line, " %s", result->rewards_json);
	}
	if (result && result->exception) {
		berth_buf_printf(&line, ", %s: %s", result->exception->type, result->exception->message);
	} else if (!result && trial->n_notes > 0) {
		berth_buf_printf(&line, ", %s", trial->notes[trial->n_notes - 1]);
	}
	return cli_text_line(berth_buf_text(&line));
}

static int64_t now_ms(void)
{
	return berth_boot_ns() / BERTH_NS_PER_MS;
}

static void draw(struct watch *watch)
{
	if (watch->options->style != CLI_WATCH_BAR || !watch->progress.started) {
		return;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf phases = {0}, line = {0};
	cli_phases_text(&watch->phases, &phases);
	int columns = watch->cli->io->columns;
	cli_progress_line(
		&watch->progress, watch->name, berth_buf_text(&phases), now_ms(), columns > 1 ? columns - 1 : 0, &line);
	fprintf(watch->options->out, "\r%s\033[K", berth_buf_text(&line));
	fflush(watch->options->out);
}

static void end_line(const struct watch *watch)
{
	if (watch->options->style == CLI_WATCH_BAR && watch->progress.started) {
		fputc('\n', watch->options->out);
	}
}

static void show_job(struct watch *watch, const Berth__V1__Job *job)
{
	if (watch->options->style == CLI_WATCH_LINES && job->state != watch->state) {
		BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__job_state__descriptor, (int)job->state);
		const Berth__V1__JobCounts *counts = job->counts;
		fprintf(watch->options->out, "%s: %s, %u of %u trials ended, %u scored\n", watch->name, state,
			counts ? cli_progress_ended(counts) : 0, counts ? counts->total : 0,
			counts ? counts->scored : 0);
		fflush(watch->options->out);
	}
	bool blocked = *job->blocked_reason;
	if (blocked && !watch->blocked && watch->options->style != CLI_WATCH_NDJSON) {
		BERTH_AUTO_FREE char *reason = cli_text_line(job->blocked_reason);
		end_line(watch);
		fprintf(watch->cli->io->err, "%u trials wait for money: %s\n",
			job->counts ? job->counts->budget_blocked : 0, reason);
	}
	watch->blocked = blocked;
	watch->state = job->state;
	watch->ended = cli_job_has_ended(job);
}

static void apply(struct watch *watch, const Berth__V1__JobUpdate *update)
{
	FILE *out = watch->options->out;
	for (size_t i = 0; i < update->n_trials; i++) {
		bool ended = cli_phases_update(&watch->phases, update->trials[i]);
		if (ended && watch->options->style == CLI_WATCH_LINES) {
			BERTH_AUTO_FREE char *line = cli_trial_line(update->trials[i]);
			fprintf(out, "%s\n", line);
			fflush(out);
		}
	}
	if (update->job) {
		berth_free_cleanup(&watch->name);
		watch->name = cli_text_line(update->job->name);
		if (update->job->counts) {
			cli_progress_update(&watch->progress, update->job->counts, now_ms());
		}
		show_job(watch, update->job);
	}
	if (watch->options->style == CLI_WATCH_NDJSON) {
		cli_json_print(out, cli_message_json(&update->base), true);
		fflush(out);
	}
	draw(watch);
}

static bool cancel_job(struct watch *watch, struct berth_error *err)
{
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = (char *)watch->job_id;
	request.reason = "interrupted";
	end_line(watch);
	fputs("Cancelling the job and waiting for its end; interrupt again to leave it to itself.\n",
		watch->cli->io->err);
	watch->link.cancel = watch->cli->io->detach;
	watch->cancelled_here = true;
	void *response = cli_call(&watch->link, &berth__v1__job_service__descriptor, "CancelJob", &request, err);
	berth_proto_free(response);
	return response != NULL;
}

// What an interrupt means here: true to go on.
static bool handle_interrupt(struct watch *watch, struct berth_error *err)
{
	struct berth_cli_io *io = watch->cli->io;
	if (watch->options->cancel_on_interrupt && !watch->cancelled_here && !berth_cancel_fired(io->detach) &&
		cancel_job(watch, err)) {
		return true;
	}
	watch->gave_up = true;
	if (watch->cancelled_here && !berth_cancel_fired(io->detach)) {
		return false; // the job could not be cancelled; err says why
	}
	end_line(watch);
	return berth_fail(err, BERTH_ERROR_CANCELLED, "interrupted; job %s is left to itself: `berth job watch %s`",
		watch->job_id, watch->job_id);
}

static void free_stream(struct berth_rpc_stream **stream)
{
	berth_rpc_stream_free(*stream);
}

// Follows one stream. True when the job has ended; err has the reason that the stream is over.
static bool follow(struct watch *watch, struct berth_error *err)
{
	const struct berth_until whole = {BERTH_NO_DEADLINE_NS, watch->cli->io->detach};
	BERTH_AUTO(free_stream)
	struct berth_rpc_stream *stream = berth_rpc_stream_open(
		watch->link.channels->main, &berth__v1__job_service__descriptor, "WatchJob", whole, err);
	Berth__V1__WatchJobRequest request = BERTH__V1__WATCH_JOB_REQUEST__INIT;
	request.job_id = (char *)watch->job_id;
	request.with_trials = true;
	if (!stream) {
		return false;
	}
	if (berth_rpc_stream_send(stream, &request.base, err)) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	for (;;) {
		BERTH_AUTO(berth_proto_cleanup) ProtobufCMessage *message = NULL;
		switch (berth_rpc_stream_receive(stream, &message, berth_within_ms(TICK_MS, watch->link.cancel), err)) {
		case BERTH_RPC_MESSAGE:
			watch->link.reached = true;
			watch->away = (struct cli_away){0};
			apply(watch, (const Berth__V1__JobUpdate *)message);
			break;
		case BERTH_RPC_END:
			return watch->ended || berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the stream ended early");
		case BERTH_RPC_FAILED:
			if (err->code == BERTH_ERROR_CANCELLED && berth_cancel_fired(watch->link.cancel)) {
				if (!handle_interrupt(watch, err)) {
					return false;
				}
			} else if (err->code != BERTH_ERROR_TIMEOUT) {
				return watch->ended;
			}
			draw(watch);
			break;
		}
	}
}

static bool run(struct watch *watch, struct berth_error *err)
{
	while (!follow(watch, err)) {
		if (watch->ended || watch->gave_up) {
			return watch->ended;
		}
		if (cli_away_wait(&watch->link, &watch->away, err)) {
			continue;
		}
		bool interrupted = err->code == BERTH_ERROR_CANCELLED && berth_cancel_fired(watch->link.cancel);
		if (!interrupted || !handle_interrupt(watch, err)) {
			return false;
		}
	}
	return true;
}

bool cli_watch(struct cli *cli, struct cli_link *link, const char *job_id, const struct cli_watch_options *options,
	bool *interrupted, struct berth_error *err)
{
	struct watch watch = {
		.cli = cli, .link = *link, .job_id = job_id, .options = options, .name = berth_strdup("")};
	bool ended = run(&watch, err);
	if (ended) {
		end_line(&watch);
	}
	*interrupted = watch.cancelled_here;
	link->reached = link->reached || watch.link.reached;
	cli_phases_free(&watch.phases);
	berth_free_cleanup(&watch.name);
	return ended;
}
