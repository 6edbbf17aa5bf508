// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/http/internal.h"

#define CONNECT_TIMEOUT_MS 10000
#define CURL_BUFFER_SIZE   (64 * 1024)

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
	(void)one;
	struct transfer *transfer = context;
	struct berth_http *http = transfer->http;
	size_t taken = size;
	pthread_mutex_lock(&http->lock);
	if (transfer->in.size > 0 && transfer->in.size + size > BERTH_HTTP_HALF_SIZE) {
		transfer->in_paused = true;
		taken = CURL_WRITEFUNC_PAUSE;
	} else {
		berth_buf_add(&transfer->in, data, size);
		pthread_cond_signal(&transfer->changed);
	}
	pthread_mutex_unlock(&http->lock);
	return taken;
}

static size_t on_upload(char *data, size_t one, size_t size, void *context)
{
	size *= one;
	struct transfer *transfer = context;
	struct berth_http *http = transfer->http;
	pthread_mutex_lock(&http->lock);
	size_t rest = transfer->out.size - transfer->out_sent;
	size_t given = rest < size ? rest : size;
	if (given > 0) {
		memcpy(data, transfer->out.data + transfer->out_sent, given);
		transfer->out_sent += given;
	} else if (!transfer->out_ended) {
		transfer->out_paused = true;
		given = CURL_READFUNC_PAUSE;
	}
	pthread_cond_signal(&transfer->changed);
	pthread_mutex_unlock(&http->lock);
	return given;
}

static size_t on_header(char *data, size_t one, size_t size, void *context)
{
	(void)one;
	struct transfer *transfer = context;
	struct berth_http *http = transfer->http;
	pthread_mutex_lock(&http->lock);
	if (size >= 5 && memcmp(data, "HTTP/", 5) == 0) {
		berth_buf_reset(&transfer->head); // an interim answer came before
	}
	if (transfer->head.size + size > BERTH_HTTP_HEADERS_SIZE_MAX) {
		transfer->head_too_large = true;
		size = 0;
	} else {
		berth_buf_add(&transfer->head, data, size);
	}
	pthread_mutex_unlock(&http->lock);
	return size;
}

static bool has_header(const struct berth_http_request *request, const char *name)
{
	size_t length = strlen(name);
	for (const char *const *line = request->headers; line && *line; line++) {
		if (strncasecmp(*line, name, length) == 0 && (*line)[length] == ':') {
			return true;
		}
	}
	return false;
}

static void add_header(struct transfer *transfer, const char *line)
{
	struct curl_slist *longer = curl_slist_append(transfer->headers_out, line);
	if (!longer) {
		abort();
	}
	transfer->headers_out = longer;
}

static void set_headers(struct transfer *transfer, const struct berth_http_request *request)
{
	for (const char *const *line = request->headers; line && *line; line++) {
		add_header(transfer, *line);
	}
	// Not for us to wait a second for a 100, nor to claim that a body is a form.
	add_header(transfer, "Expect:");
	if (!has_header(request, "Content-Type")) {
		add_header(transfer, "Content-Type:");
	}
	curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers_out);
}

static void set_body(struct transfer *transfer, const struct berth_http_request *request)
{
	CURL *easy = transfer->easy;
	if (request->body_source) {
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_upload);
		curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)CURL_BUFFER_SIZE);
	} else if (request->body || strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0) {
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body ? request->body : "");
	} else if (strcmp(request->method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	// Curl sends a request again by itself when a kept connection turns out dead. That must never happen to one
	// that has an effect: it gets a connection of its own.
	bool harmless = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, harmless ? 0L : 1L);
}

static void set_connection(struct transfer *transfer, const struct berth_http_request *request)
{
	CURL *easy = transfer->easy;
	if (request->unix_socket) {
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	}
	if (request->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
	}
	int64_t connect_ms = request->connect_timeout_ms > 0 ? request->connect_timeout_ms : CONNECT_TIMEOUT_MS;
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	// A name lookup that hangs does not hold up the driver when its transfer is given up.
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
}

bool berth_http_setup(struct transfer *transfer, const struct berth_http_request *request, struct berth_error *err)
{
	CURL *easy = transfer->easy = curl_easy_init();
	if (!easy) {
		abort();
	}
	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error_text);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)CURL_BUFFER_SIZE);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	set_headers(transfer, request);
	set_body(transfer, request);
	set_connection(transfer, request);
	if (curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK) {
		return berth_fail(err, BERTH_ERROR_INVALID, "cannot use the URL %s", request->url);
	}
	return true;
}

static enum berth_error_code code_of(const struct transfer *transfer)
{
	long written = 0;
	switch (transfer->result) {
	case CURLE_URL_MALFORMAT:
		return BERTH_ERROR_INVALID;
	case CURLE_UNSUPPORTED_PROTOCOL:
		// Of our URL, or of a peer that answers in something else than HTTP.
		curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &written);
		return written > 0 ? BERTH_ERROR_IO : BERTH_ERROR_INVALID;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_OPERATION_TIMEDOUT: // only the connection has a limit of curl's own
		return BERTH_ERROR_UNAVAILABLE;
	default:
		return BERTH_ERROR_IO;
	}
}

bool berth_http_fail(const struct transfer *transfer, const struct berth_http_request *request, struct berth_error *err)
{
	if (transfer->head_too_large) {
		return berth_fail(err, BERTH_ERROR_IO, "%s %s: the answer has more than %d bytes of headers",
			request->method, request->url, BERTH_HTTP_HEADERS_SIZE_MAX);
	}
	const char *text = *transfer->error_text ? transfer->error_text : curl_easy_strerror(transfer->result);
	return berth_fail(err, code_of(transfer), "%s %s%s%s: %s", request->method, request->url,
		request->unix_socket ? " on " : "", request->unix_socket ? request->unix_socket : "", text);
}
