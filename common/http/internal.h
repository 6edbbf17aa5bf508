// SPDX-License-Identifier: Apache-2.0
// One transfer, shared by the thread that waits for it and the thread that drives curl.
//
// `lock` of berth_http guards all of a transfer but what its comment gives to one side. The caller owns the transfer
// again once `done` is set: the driver does not touch it after that.
#pragma once

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/http/http.h"

// Each way has two buffers that change places, one for each side.
#define BERTH_HTTP_HALF_SIZE       (BERTH_HTTP_BUFFER_SIZE / 2)
#define BERTH_HTTP_CONNECTIONS_MAX 64

struct transfer {
	struct berth_http *http;
	CURL *easy; // the caller's before it is queued and after `done`, else the driver's
	struct curl_slist *headers_out;
	pthread_cond_t changed;

	struct berth_buf in; // body bytes that the caller has not taken
	bool in_paused;      // curl holds bytes back: `in` is full
	struct berth_buf out;
	size_t out_sent;       // of `out`
	bool out_ended;        // nothing follows `out`
	bool out_paused;       // curl waits for more of `out`
	struct berth_buf head; // header lines of the last answer
	bool head_too_large;

	// What the caller asks of the driver; `next` links the transfers that ask.
	bool queued, wants_add, wants_resume, wants_abort;
	struct transfer *next;

	bool added, done;
	CURLcode result;
	char error_text[CURL_ERROR_SIZE];
};

struct berth_http {
	CURLM *multi;
	pthread_t thread;
	pthread_mutex_t lock;
	struct transfer *asking;
	bool stop;
};

// The driver thread, and the way to wake it: call with the lock held.
void *berth_http_drive(void *http);
void berth_http_ask(struct transfer *transfer);

// Makes the easy handle for a request. INVALID for a request that curl refuses.
bool berth_http_setup(struct transfer *transfer, const struct berth_http_request *request, struct berth_error *err);
// Fills err for a transfer that ended with a curl error.
bool berth_http_fail(
	const struct transfer *transfer, const struct berth_http_request *request, struct berth_error *err);
