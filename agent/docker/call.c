// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/internal.h"
#include "common/base/mem.h"

#define HEADERS_MAX 3

// Keeps what comes of a reply: its JSON text, or the reason of a refusal in place of a stream.
struct receiver {
	const struct berth_http_response *response;
	struct berth_buf text;
	struct berth_sink sink; // put == NULL: everything is text
	const char *what;
};

static bool receive(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct receiver *receiver = context;
	if (receiver->sink.put && receiver->response->status < 400) {
		return receiver->sink.put(receiver->sink.context, data, size, err);
	}
	if (receiver->text.size + size > DOCKER_REPLY_MAX) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon's answer is larger than %d bytes",
			receiver->what, DOCKER_REPLY_MAX);
	}
	berth_buf_add(&receiver->text, data, size);
	return true;
}

static bool perform(struct berth_docker *docker, const struct docker_call *call, struct receiver *receiver,
	struct berth_http_response *response, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *url = berth_format("http://docker%s%s", docker->api, call->path);
	BERTH_AUTO_FREE char *body = call->body ? docker_json_text(call->body) : NULL;
	const char *headers[HEADERS_MAX] = {
		call->content_type ? call->content_type : "Content-Type: application/json", NULL};
	struct berth_http_request request = {
		.method = call->method,
		.url = url,
		.unix_socket = docker->socket,
		.headers = headers,
		.body = body,
		.body_size = body ? strlen(body) : 0,
		.body_source = call->source,
		.response = {receive, receiver},
		.until = until,
	};
	receiver->response = response;
	receiver->what = call->what;
	return berth_http_perform(docker->http, &request, response, err) || berth_error_wrap(err, "%s", call->what);
}

static bool refuse(const struct docker_call *call, int status, const struct berth_buf *text, struct berth_error *err)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *json = berth_json_parse(text->data, text->size, "answer", NULL);
	const char *message = berth_json_get_string(json, "message");
	return docker_fail(err, status, call->what, message ? message : berth_buf_text(text));
}

static bool only_blanks(const struct berth_buf *text)
{
	const char *data = berth_buf_text(text);
	return strspn(data, " \r\n\t") == text->size;
}

bool docker_call(struct berth_docker *docker, const struct docker_call *call, struct docker_reply *reply,
	struct berth_until until, struct berth_error *err)
{
	*reply = (struct docker_reply){0};
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct receiver receiver = {0};
	bool good = perform(docker, call, &receiver, &response, until, err);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = receiver.text;
	reply->status = response.status;
	reply->sent = response.sent;
	if (!good) {
		return false;
	}
	if (response.status >= 400) {
		return refuse(call, response.status, &text, err);
	}
	if (only_blanks(&text)) {
		return true;
	}
	struct berth_error why;
	reply->json = berth_json_parse(text.data, text.size, "answer", &why);
	return reply->json || berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon answered with no JSON: %s",
				      call->what, why.message);
}

void docker_reply_free(struct docker_reply *reply)
{
	berth_json_free(reply->json);
	reply->json = NULL;
}

bool docker_stream(struct berth_docker *docker, const struct docker_call *call, struct berth_sink sink,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct receiver receiver = {.sink = sink};
	bool good = perform(docker, call, &receiver, &response, until, err);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = receiver.text;
	if (!good) {
		return false;
	}
	return response.status < 400 || refuse(call, response.status, &text, err);
}

char *docker_escape_path(const char *text)
{
	struct berth_buf out = {0};
	berth_buf_add_text(&out, "");
	while (*text) {
		size_t size = strcspn(text, "/");
		BERTH_AUTO_FREE char *part = berth_strndup(text, size);
		BERTH_AUTO_FREE char *escaped = berth_http_escape(part);
		berth_buf_add_text(&out, escaped);
		text += size;
		if (*text == '/') {
			berth_buf_add_byte(&out, '/');
			text++;
		}
	}
	return berth_buf_steal(&out);
}

berth_json *docker_labels(const struct berth_docker_label *labels, size_t count)
{
	berth_json *object = berth_json_object();
	for (size_t i = 0; i < count; i++) {
		berth_json_set(object, labels[i].key, berth_json_string(labels[i].value ? labels[i].value : ""));
	}
	return object;
}

char *docker_json_text(const berth_json *value)
{
	struct berth_buf out = {0};
	berth_json_write(value, 0, &out);
	return berth_buf_steal(&out);
}

char *docker_string(const berth_json *object, const char *key)
{
	const char *text = berth_json_get_string(object, key);
	return berth_strdup(text ? text : "");
}

static bool take_line(struct docker_lines *lines, const char *text, size_t size, struct berth_error *err)
{
	if (strspn(text, " \r\t") >= size) {
		return true;
	}
	struct berth_error why;
	BERTH_AUTO(berth_json_cleanup) berth_json *line = berth_json_parse(text, size, "answer", &why);
	if (!line) {
		return berth_fail(
			err, BERTH_ERROR_INTERNAL, "the daemon's stream has a line that is no JSON: %s", why.message);
	}
	return lines->take(lines->context, line, err);
}

bool docker_lines_put(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct docker_lines *lines = context;
	// Only new bytes can hold a new line end.
	size_t looked = lines->partial.size;
	berth_buf_add(&lines->partial, data, size);
	size_t start = 0;
	const char *text = berth_buf_text(&lines->partial), *end;
	while ((end = memchr(text + looked, '\n', lines->partial.size - looked))) {
		size_t next = (size_t)(end - text) + 1;
		if (!take_line(lines, text + start, next - 1 - start, err)) {
			return false;
		}
		start = looked = next;
	}
	berth_buf_consume(&lines->partial, start);
	if (lines->partial.size > DOCKER_LINE_MAX) {
		return berth_fail(
			err, BERTH_ERROR_INTERNAL, "the daemon's stream has a line above %d bytes", DOCKER_LINE_MAX);
	}
	return true;
}

bool docker_lines_end(struct docker_lines *lines, struct berth_error *err)
{
	return lines->partial.size == 0 || take_line(lines, berth_buf_text(&lines->partial), lines->partial.size, err);
}
