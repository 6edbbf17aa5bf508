// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rpc/echo_server.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "echo.pb-c.h"
#include "echo_set.h"

#define LINES_MAX 65536
#define WAIT_S    30
#define YIELDS    20 // inside a callback, so that one which should not overlap would

typedef Berth__Test__V1__Text text_proto;
typedef Berth__Test__V1__Number number_proto;

struct echo {
	struct berth_rpc_server *server;
	char *address;
	bool quiet, writer;
	atomic_int overlaps, at_once, most_at_once;
	pthread_mutex_t lock;
	pthread_cond_t added;
	char *lines[LINES_MAX];
	size_t lines_count;
	struct berth_rpc_call *chat;
};

struct kept { // a message of Join, until its client has sent the last
	const text_proto *message;
	struct berth_arena *memory;
};

struct call_data {
	atomic_int inside;
	struct kept *kept;
	size_t kept_count;
	int64_t next, count, padding_size;
};

static void record(struct echo *echo, const char *method, const char *what, const char *detail)
{
	if (echo->quiet) {
		return;
	}
	pthread_mutex_lock(&echo->lock);
	if (echo->lines_count < LINES_MAX) {
		echo->lines[echo->lines_count++] =
			berth_format("%s %s%s%.100s", method, what, *detail ? " " : "", detail);
	}
	pthread_cond_broadcast(&echo->added);
	pthread_mutex_unlock(&echo->lock);
}

static void enter(struct echo *echo, struct call_data *data)
{
	int now = atomic_fetch_add(&echo->at_once, 1) + 1;
	int most = atomic_load(&echo->most_at_once);
	while (now > most && !atomic_compare_exchange_weak(&echo->most_at_once, &most, now)) {
	}
	if (atomic_fetch_add(&data->inside, 1) != 0) {
		atomic_fetch_add(&echo->overlaps, 1);
	}
	for (int i = 0; i < YIELDS && !echo->quiet; i++) {
		sched_yield();
	}
}

static void leave(struct echo *echo, struct call_data *data)
{
	atomic_fetch_sub(&data->inside, 1);
	atomic_fetch_sub(&echo->at_once, 1);
}

static struct call_data *begin(struct berth_rpc_call *call, struct echo *echo, const char *method)
{
	struct call_data *data = berth_alloc(sizeof *data);
	berth_rpc_call_set_data(call, data);
	record(echo, method, "begin", "");
	return data;
}

static void end(struct berth_rpc_call *call, struct echo *echo, const char *method, bool cancelled)
{
	struct call_data *data = berth_rpc_call_data(call);
	for (size_t i = 0; i < data->kept_count; i++) {
		berth_arena_free(data->kept[i].memory);
	}
	free(data->kept);
	free(data);
	berth_rpc_call_set_data(call, NULL);
	record(echo, method, cancelled ? "cancelled" : "ended", "");
}

static bool send_text(struct berth_rpc_call *call, const char *text, size_t payload_size)
{
	text_proto response = BERTH__TEST__V1__TEXT__INIT;
	BERTH_AUTO_FREE uint8_t *payload = berth_alloc(payload_size + 1);
	response.text = (char *)text;
	response.payload = (ProtobufCBinaryData){payload_size, payload};
	return berth_rpc_send(call, &response.base, NULL);
}

// The rest of `text` behind `prefix`, or NULL.
static const char *after(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : NULL;
}

static bool fail_as_asked(struct berth_rpc_call *call, const char *text)
{
	const char *name = after(text, "fail:");
	for (int code = 0; name && code <= BERTH_ERROR_UNAUTHENTICATED; code++) {
		if (strcmp(name, berth_error_name(code)) == 0) {
			struct berth_error err;
			berth_fail(&err, code, "asked for %s", name);
			berth_rpc_finish(call, &err);
			return true;
		}
	}
	return false;
}

static void answer_about(struct berth_rpc_call *call, const char *text)
{
	const struct berth_rpc_principal *who = berth_rpc_call_principal(call);
	char answer[4 * BERTH_RPC_NAME_MAX];
	const char *header = after(text, "header:");
	size_t payload_size = 0;
	if (header) {
		const char *value = berth_rpc_call_metadata(call, header);
		snprintf(answer, sizeof answer, "%s", value ? value : "none");
	} else if (strcmp(text, "left") == 0) {
		int64_t left = berth_rpc_call_left_ms(call);
		snprintf(answer, sizeof answer, "%ld", left == INT64_MAX ? -1L : (long)left);
	} else if (strcmp(text, "who") == 0) {
		snprintf(answer, sizeof answer, "%s/%s/%s/%s", berth_rpc_role_name(who->role), who->fleet, who->name,
			who->certificate_sha256);
	} else if (strcmp(text, "peer") == 0) {
		snprintf(answer, sizeof answer, "%s", berth_rpc_call_peer(call));
	} else if (after(text, "bytes:")) {
		payload_size = strtoul(after(text, "bytes:"), NULL, 10);
		answer[0] = 0;
	} else {
		send_text(call, text, 0);
		return;
	}
	send_text(call, answer, payload_size);
}

static void say_begin(struct berth_rpc_call *call, void *context)
{
	begin(call, context, "Say");
}

static void say(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const char *text = ((const text_proto *)message)->text;
	struct echo *echo = context;
	enter(echo, berth_rpc_call_data(call));
	record(echo, "Say", "message", text);
	if (strcmp(text, "hold") != 0 && !fail_as_asked(call, text)) {
		if (strcmp(text, "silent") != 0) {
			answer_about(call, text);
		}
		berth_rpc_finish(call, NULL);
	}
	leave(echo, berth_rpc_call_data(call));
}

static void say_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	end(call, context, "Say", cancelled);
}

static void join_begin(struct berth_rpc_call *call, void *context)
{
	begin(call, context, "Join");
	berth_rpc_read_next(call);
}

static void join(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct call_data *data = berth_rpc_call_data(call);
	enter(context, data);
	berth_rpc_read_next(call);
	data->kept = berth_grow_array(data->kept, data->kept_count, sizeof *data->kept);
	data->kept[data->kept_count++] = (struct kept){(const text_proto *)message, berth_rpc_keep_message(call)};
	leave(context, data);
}

static void join_half_closed(struct berth_rpc_call *call, void *context)
{
	struct call_data *data = berth_rpc_call_data(call);
	record(context, "Join", "half_closed", "");
	BERTH_AUTO(berth_buf_free) struct berth_buf joined = {0};
	for (size_t i = 0; i < data->kept_count; i++) {
		berth_buf_add_text(&joined, data->kept[i].message->text);
	}
	send_text(call, berth_buf_text(&joined), 0);
	berth_rpc_finish(call, NULL);
}

static void join_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	end(call, context, "Join", cancelled);
}

static void count_on(struct berth_rpc_call *call, struct echo *echo)
{
	struct call_data *data = berth_rpc_call_data(call);
	BERTH_AUTO_FREE uint8_t *padding = berth_alloc((size_t)data->padding_size + 1);
	while (data->next < data->count) {
		number_proto number = BERTH__TEST__V1__NUMBER__INIT;
		number.value = data->next;
		number.padding = (ProtobufCBinaryData){(size_t)data->padding_size, padding};
		struct berth_error err;
		if (!berth_rpc_send(call, &number.base, &err)) {
			record(echo, "Count", err.code == BERTH_ERROR_EXHAUSTED ? "refused" : "failed", "");
			return;
		}
		data->next++;
	}
	berth_rpc_finish(call, NULL);
}

static void count_begin(struct berth_rpc_call *call, void *context)
{
	begin(call, context, "Count");
}

static void count(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const number_proto *number = (const number_proto *)message;
	struct call_data *data = berth_rpc_call_data(call);
	data->count = number->value;
	data->padding_size = number->padding_size;
	if (number->value >= 0) {
		count_on(call, context);
	}
}

static void count_writable(struct berth_rpc_call *call, void *context)
{
	record(context, "Count", "writable", "");
	count_on(call, context);
}

static void count_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	end(call, context, "Count", cancelled);
}

static void chat_begin(struct berth_rpc_call *call, void *context)
{
	struct echo *echo = context;
	pthread_mutex_lock(&echo->lock);
	if (echo->chat) {
		berth_rpc_call_unref(echo->chat);
	}
	echo->chat = berth_rpc_call_ref(call);
	pthread_mutex_unlock(&echo->lock);
	begin(call, echo, "Chat");
	berth_rpc_read_next(call);
}

static void chat(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct echo *echo = context;
	const text_proto *text = (const text_proto *)message;
	struct call_data *data = berth_rpc_call_data(call);
	bool pause = strcmp(text->text, "pause") == 0;
	bool corks = strcmp(text->text, "cork") == 0;
	if (echo->writer || corks) {
		berth_rpc_cork(call);
	}
	if (!pause) {
		berth_rpc_read_next(call);
	}
	enter(echo, data);
	record(echo, "Chat", "message", text->text);
	if (strcmp(text->text, "end") == 0) {
		berth_rpc_finish(call, NULL);
	} else if (!fail_as_asked(call, text->text)) {
		berth_rpc_send(call, message, NULL);
	}
	if (corks) {
		record(echo, "Chat", "corked", "");
	} else if (echo->writer) {
		berth_rpc_uncork(call, true);
	}
	leave(echo, data);
}

static void chat_half_closed(struct berth_rpc_call *call, void *context)
{
	record(context, "Chat", "half_closed", "");
	berth_rpc_finish(call, NULL);
}

static void chat_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	end(call, context, "Chat", cancelled);
}

struct echo *echo_start(const struct echo_options *options, struct berth_error *err)
{
	unsigned roles = options->roles ? options->roles : (unsigned)BERTH_ROLE_ANYONE;
	const struct berth_rpc_handler handlers[] = {
		{.method = "Say", .roles = roles, .begin = say_begin, .message = say, .ended = say_ended},
		{.method = "Join",
			.roles = roles,
			.begin = join_begin,
			.message = join,
			.half_closed = join_half_closed,
			.ended = join_ended},
		{.method = "Count",
			.roles = roles,
			.begin = count_begin,
			.message = count,
			.writable = count_writable,
			.ended = count_ended},
		{.method = "Chat",
			.roles = roles,
			.begin = chat_begin,
			.message = chat,
			.half_closed = chat_half_closed,
			.ended = chat_ended},
	};
	struct echo *echo = berth_alloc(sizeof *echo);
	echo->quiet = options->quiet;
	echo->writer = options->writer;
	pthread_mutex_init(&echo->lock, NULL);
	pthread_cond_init(&echo->added, NULL);
	const struct berth_rpc_service service = {
		.descriptor = &berth__test__v1__echo__descriptor,
		.handlers = handlers,
		.handlers_count = BERTH_COUNT(handlers),
		.context = echo,
	};
	const struct berth_rpc_server_options server = {
		.address = options->address ? options->address : "127.0.0.1:0",
		.tls = options->tls,
		.services = &service,
		.services_count = 1,
		.descriptor_set = echo_set,
		.descriptor_set_size = echo_set_size,
		.threads = options->threads,
		.send_queue_size_max = options->send_queue_size_max,
		.writer = options->writer,
		.fleet = options->fleet,
	};
	echo->server = berth_rpc_server_start(&server, err);
	if (!echo->server) {
		echo_stop(echo, 0);
		return NULL;
	}
	bool local = strncmp(server.address, "unix:", 5) == 0;
	echo->address = local ? berth_strdup(server.address)
	                      : berth_format("127.0.0.1:%d", berth_rpc_server_port(echo->server));
	return echo;
}

void echo_stop(struct echo *echo, int64_t grace_ms)
{
	if (echo->server) {
		berth_rpc_server_stop(echo->server, grace_ms);
	}
	if (echo->chat) {
		berth_rpc_call_unref(echo->chat);
	}
	for (size_t i = 0; i < echo->lines_count; i++) {
		free(echo->lines[i]);
	}
	pthread_cond_destroy(&echo->added);
	pthread_mutex_destroy(&echo->lock);
	free(echo->address);
	free(echo);
}

struct berth_rpc_server *echo_server(const struct echo *echo)
{
	return echo->server;
}

const char *echo_address(const struct echo *echo)
{
	return echo->address;
}

static int seen(const struct echo *echo, const char *line)
{
	int times = 0;
	for (size_t i = 0; i < echo->lines_count; i++) {
		times += strcmp(echo->lines[i], line) == 0;
	}
	return times;
}

int echo_seen(struct echo *echo, const char *line)
{
	pthread_mutex_lock(&echo->lock);
	int times = seen(echo, line);
	pthread_mutex_unlock(&echo->lock);
	return times;
}

bool echo_wait(struct echo *echo, const char *line, int times)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S;
	pthread_mutex_lock(&echo->lock);
	int status = 0;
	while (seen(echo, line) < times && status == 0) {
		status = pthread_cond_timedwait(&echo->added, &echo->lock, &end);
	}
	pthread_mutex_unlock(&echo->lock);
	return status == 0;
}

static struct berth_rpc_call *last_chat(struct echo *echo)
{
	pthread_mutex_lock(&echo->lock);
	struct berth_rpc_call *call = berth_rpc_call_ref(echo->chat);
	pthread_mutex_unlock(&echo->lock);
	return call;
}

void echo_read_next(struct echo *echo)
{
	struct berth_rpc_call *call = last_chat(echo);
	berth_rpc_read_next(call);
	berth_rpc_call_unref(call);
}

bool echo_has_unsent(struct echo *echo)
{
	struct berth_rpc_call *call = last_chat(echo);
	bool has_unsent = berth_rpc_send_queue_size(call) > 0;
	berth_rpc_call_unref(call);
	return has_unsent;
}

void echo_uncork(struct echo *echo)
{
	struct berth_rpc_call *call = last_chat(echo);
	berth_rpc_uncork(call, echo->writer);
	berth_rpc_call_unref(call);
}

int echo_overlaps(struct echo *echo)
{
	return atomic_load(&echo->overlaps);
}

int echo_most_at_once(struct echo *echo)
{
	return atomic_load(&echo->most_at_once);
}
