// SPDX-License-Identifier: Apache-2.0
#include "common/http/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/http/internal.h"

#define FILL_SIZE (64 * 1024)
// The condition's clock stands still while the host sleeps: look at the deadline's own clock this often.
#define WAIT_MS_MAX 1000

static void init_curl(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		abort();
	}
}

struct berth_http *berth_http_new(struct berth_error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, init_curl);
	struct berth_http *http = berth_alloc(sizeof *http);
	pthread_mutex_init(&http->lock, NULL);
	http->multi = curl_multi_init();
	if (!http->multi) {
		abort();
	}
	curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)BERTH_HTTP_CONNECTIONS_MAX);
	if (!berth_thread_start(&http->thread, "http", berth_http_drive, http, err)) {
		curl_multi_cleanup(http->multi);
		free(http);
		return NULL;
	}
	return http;
}

void berth_http_free(struct berth_http *http)
{
	if (!http) {
		return;
	}
	pthread_mutex_lock(&http->lock);
	http->stop = true;
	pthread_mutex_unlock(&http->lock);
	curl_multi_wakeup(http->multi);
	pthread_join(http->thread, NULL);
	curl_multi_cleanup(http->multi);
	pthread_mutex_destroy(&http->lock);
	free(http);
}

struct caller {
	struct transfer transfer;
	struct berth_http_response *answer;
	const struct berth_http_request *request;
	struct berth_error *err;
	struct berth_cancel_hook hook;
	struct berth_buf taken; // body bytes on their way to the sink
	struct berth_buf fill;  // what the source gave and curl has not yet got
	bool source_ended;
};

static void on_cancel(void *context)
{
	struct transfer *transfer = context;
	pthread_mutex_lock(&transfer->http->lock);
	pthread_cond_signal(&transfer->changed);
	pthread_mutex_unlock(&transfer->http->lock);
}

static void wait_a_while(struct transfer *transfer, struct berth_until until)
{
	int ms = berth_until_left_ms(until);
	ms = ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += ms % 1000 * BERTH_NS_PER_MS;
	end.tv_sec += ms / 1000 + end.tv_nsec / BERTH_NS_PER_S;
	end.tv_nsec %= BERTH_NS_PER_S;
	pthread_cond_timedwait(&transfer->changed, &transfer->http->lock, &end);
}

enum step { STEP_DELIVER, STEP_FILL, STEP_DONE, STEP_OVER };

static bool wants_fill(const struct caller *caller)
{
	return caller->request->body_source && !caller->source_ended && caller->fill.size < BERTH_HTTP_HALF_SIZE;
}

// Gives curl what the source gave, once it has sent the last portion.
static void hand_out(struct caller *caller)
{
	struct transfer *transfer = &caller->transfer;
	if (transfer->out_ended || transfer->out_sent < transfer->out.size ||
		(caller->fill.size == 0 && !caller->source_ended)) {
		return;
	}
	struct berth_buf empty = transfer->out;
	transfer->out = caller->fill;
	transfer->out_sent = 0;
	caller->fill = empty;
	berth_buf_reset(&caller->fill);
	transfer->out_ended = caller->source_ended;
	if (transfer->out_paused) {
		transfer->out_paused = false;
		transfer->wants_resume = true;
		berth_http_ask(transfer);
	}
}

// Takes what came, and lets curl go on where it had to stop.
static void take_in(struct caller *caller)
{
	struct transfer *transfer = &caller->transfer;
	// The sink may want to know what the body is of. "HTTP/1.1 200 OK"
	const char *space = strchr(berth_buf_text(&transfer->head), ' ');
	caller->answer->status = space ? atoi(space + 1) : 0;
	struct berth_buf empty = caller->taken;
	caller->taken = transfer->in;
	transfer->in = empty;
	berth_buf_reset(&transfer->in);
	if (transfer->in_paused) {
		transfer->in_paused = false;
		transfer->wants_resume = true;
		berth_http_ask(transfer);
	}
}

static enum step next_step(struct caller *caller)
{
	struct transfer *transfer = &caller->transfer;
	enum step step;
	pthread_mutex_lock(&transfer->http->lock);
	for (;;) {
		hand_out(caller);
		if (transfer->in.size > 0) {
			take_in(caller);
			step = STEP_DELIVER;
			break;
		}
		if (transfer->done) {
			step = STEP_DONE;
			break;
		}
		if (berth_until_over(caller->request->until)) {
			step = STEP_OVER;
			break;
		}
		if (wants_fill(caller)) {
			step = STEP_FILL;
			break;
		}
		wait_a_while(transfer, caller->request->until);
	}
	pthread_mutex_unlock(&transfer->http->lock);
	return step;
}

static bool deliver(struct caller *caller)
{
	struct berth_sink sink = caller->request->response;
	return !sink.put || sink.put(sink.context, caller->taken.data, caller->taken.size, caller->err);
}

static bool fill(struct caller *caller)
{
	const struct berth_source *source = caller->request->body_source;
	uint8_t *room = berth_buf_reserve(&caller->fill, FILL_SIZE);
	ssize_t got = source->get(source->context, room, FILL_SIZE, caller->err);
	if (got < 0) {
		return false;
	}
	caller->fill.size += (size_t)got;
	caller->source_ended = got == 0;
	return true;
}

static bool exchange(struct caller *caller)
{
	for (;;) {
		switch (next_step(caller)) {
		case STEP_DELIVER:
			if (!deliver(caller)) {
				return false;
			}
			if (berth_until_over(caller->request->until)) {
				return berth_fail_until(caller->request->until, caller->err, caller->request->url);
			}
			break;
		case STEP_FILL:
			if (!fill(caller)) {
				return false;
			}
			break;
		case STEP_OVER:
			return berth_fail_until(caller->request->until, caller->err, caller->request->url);
		case STEP_DONE:
			return caller->transfer.result == CURLE_OK ||
			       berth_http_fail(&caller->transfer, caller->request, caller->err);
		}
	}
}

static void start(struct transfer *transfer)
{
	pthread_mutex_lock(&transfer->http->lock);
	transfer->wants_add = true;
	berth_http_ask(transfer);
	pthread_mutex_unlock(&transfer->http->lock);
}

// After this the driver has let go of the transfer. It answers within milliseconds: it never blocks but in poll.
static void end(struct transfer *transfer)
{
	pthread_mutex_lock(&transfer->http->lock);
	if (!transfer->done) {
		transfer->wants_abort = true;
		berth_http_ask(transfer);
		while (!transfer->done) {
			pthread_cond_wait(&transfer->changed, &transfer->http->lock);
		}
	}
	pthread_mutex_unlock(&transfer->http->lock);
}

static void take_answer(struct transfer *transfer, struct berth_http_response *response)
{
	long status = 0, written = 0;
	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &written);
	response->status = (int)status;
	response->sent = written > 0 || status > 0;
	if (transfer->head.data) {
		response->headers = berth_buf_steal(&transfer->head);
	}
}

static bool perform(struct caller *caller, struct berth_http_response *response)
{
	struct transfer *transfer = &caller->transfer;
	if (berth_until_over(caller->request->until)) {
		return berth_fail_until(caller->request->until, caller->err, caller->request->url);
	}
	if (!berth_http_setup(transfer, caller->request, caller->err)) {
		return false;
	}
	caller->hook = (struct berth_cancel_hook){.run = on_cancel, .context = transfer};
	if (caller->request->until.cancel) {
		berth_cancel_hook(caller->request->until.cancel, &caller->hook);
	}
	start(transfer);
	bool good = exchange(caller);
	end(transfer);
	berth_cancel_unhook(&caller->hook);
	take_answer(transfer, response);
	return good;
}

bool berth_http_perform(struct berth_http *http, const struct berth_http_request *request,
	struct berth_http_response *response, struct berth_error *err)
{
	*response = (struct berth_http_response){0};
	BERTH_AUTO_FREE struct caller *caller = berth_alloc(sizeof *caller);
	struct berth_error ignored;
	caller->request = request;
	caller->answer = response;
	caller->err = err ? err : &ignored;
	caller->transfer.http = http;
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&caller->transfer.changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	bool good = perform(caller, response);
	curl_easy_cleanup(caller->transfer.easy);
	curl_slist_free_all(caller->transfer.headers_out);
	pthread_cond_destroy(&caller->transfer.changed);
	berth_buf_free(&caller->transfer.in);
	berth_buf_free(&caller->transfer.out);
	berth_buf_free(&caller->transfer.head);
	berth_buf_free(&caller->taken);
	berth_buf_free(&caller->fill);
	return good;
}
