// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 and HTTP/2 requests for threads that wait: one curl multi thread drives every transfer of the process, a
// caller sleeps until its own is done, its deadline passes, or its cancel token fires (within 100 ms).
//
// The body callbacks run in the calling thread, and a slow caller pauses its transfer, so memory stays bounded
// (BERTH_HTTP_BUFFER_SIZE each way) however large the body is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/codec/tar.h"

#define BERTH_HTTP_BUFFER_SIZE      (1024 * 1024)
#define BERTH_HTTP_HEADERS_SIZE_MAX (256 * 1024)
#define BERTH_HTTP_BODY_TEXT_MAX    (64 * 1024 * 1024)

struct berth_http;

struct berth_http *berth_http_new(struct berth_error *err);
void berth_http_free(struct berth_http *http); // after every request has returned; NULL is allowed

struct berth_http_request {
	const char *method;         // "GET", "POST", "PUT", "DELETE", "HEAD"
	const char *url;            // "http://docker/v1.41/info" with a unix socket: the host part is not looked at
	const char *unix_socket;    // path, or NULL for TCP
	const char *const *headers; // "Name: value" lines, NULL-terminated; NULL for none
	const void *body;           // sent as it is, or NULL
	size_t body_size;
	const struct berth_source *body_source; // instead of body: streamed, chunked
	struct berth_sink response;             // gets the body as it comes, whatever the status; put == NULL drops it
	struct berth_until until;               // required
	int64_t connect_timeout_ms;             // 0: 10,000
	const char *ca_file;                    // for https: PEM bundle, NULL for the system's
};

// What came back. `status` is set before the first byte of the body goes to the sink. `sent` tells a caller that must
// know whether the request may have had an effect: false means that no byte of it reached the peer.
struct berth_http_response {
	int status;    // 0 when there was no answer
	char *headers; // raw header lines, NUL-terminated; free with berth_http_response_free
	bool sent;
};

// True when an answer came, whatever its status. False: UNAVAILABLE (no connection), TIMEOUT, CANCELLED, IO (cut off),
// or what a body callback said. Thread-safe.
bool berth_http_perform(struct berth_http *http, const struct berth_http_request *request,
	struct berth_http_response *response, struct berth_error *err);
// The value of a header (case-insensitive), copied and trimmed; NULL when it is not there. The caller frees.
char *berth_http_header(const struct berth_http_response *response, const char *name);
void berth_http_response_free(struct berth_http_response *response);
// Percent-encodes all but unreserved characters; the caller frees.
char *berth_http_escape(const char *text);
