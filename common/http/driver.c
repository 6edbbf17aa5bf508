// SPDX-License-Identifier: Apache-2.0
#include <utlist.h>

#include "common/http/internal.h"

#define POLL_MS 1000

void berth_http_ask(struct transfer *transfer)
{
	if (!transfer->queued) {
		transfer->queued = true;
		LL_APPEND(transfer->http->asking, transfer);
	}
	curl_multi_wakeup(transfer->http->multi);
}

static void finish(struct berth_http *http, struct transfer *transfer, CURLcode result)
{
	if (transfer->added) {
		curl_multi_remove_handle(http->multi, transfer->easy);
	}
	pthread_mutex_lock(&http->lock);
	if (transfer->queued) {
		LL_DELETE(http->asking, transfer);
	}
	transfer->result = result;
	transfer->done = true;
	pthread_cond_signal(&transfer->changed);
	pthread_mutex_unlock(&http->lock);
}

static void serve(struct berth_http *http, struct transfer *transfer, bool add, bool resume, bool abort)
{
	if (abort) {
		finish(http, transfer, CURLE_ABORTED_BY_CALLBACK);
		return;
	}
	if (add) {
		transfer->added = curl_multi_add_handle(http->multi, transfer->easy) == CURLM_OK;
		if (!transfer->added) {
			finish(http, transfer, CURLE_FAILED_INIT);
			return;
		}
	}
	if (resume) {
		curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
	}
}

// Takes one wish at a time, since the callbacks that a resumed transfer runs take the lock.
static bool serve_next(struct berth_http *http)
{
	pthread_mutex_lock(&http->lock);
	struct transfer *transfer = http->asking;
	if (!transfer) {
		pthread_mutex_unlock(&http->lock);
		return false;
	}
	LL_DELETE(http->asking, transfer);
	transfer->queued = false;
	bool add = transfer->wants_add, resume = transfer->wants_resume, abort = transfer->wants_abort;
	transfer->wants_add = transfer->wants_resume = transfer->wants_abort = false;
	pthread_mutex_unlock(&http->lock);
	serve(http, transfer, add, resume, abort);
	return true;
}

static void finish_ended(struct berth_http *http)
{
	int left;
	CURLMsg *message;
	while ((message = curl_multi_info_read(http->multi, &left))) {
		if (message->msg == CURLMSG_DONE) {
			struct transfer *transfer = NULL;
			CURLcode result = message->data.result;
			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
			finish(http, transfer, result);
		}
	}
}

static bool stopped(struct berth_http *http)
{
	pthread_mutex_lock(&http->lock);
	bool stop = http->stop;
	pthread_mutex_unlock(&http->lock);
	return stop;
}

void *berth_http_drive(void *context)
{
	struct berth_http *http = context;
	while (!stopped(http)) {
		while (serve_next(http)) {
		}
		int running;
		curl_multi_perform(http->multi, &running);
		finish_ended(http);
		curl_multi_poll(http->multi, NULL, 0, POLL_MS, NULL);
	}
	return NULL;
}
