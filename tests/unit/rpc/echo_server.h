// SPDX-License-Identifier: Apache-2.0
// The Echo service, with a record of what its handlers were told.
//
// Say answers with the text it got, unless that is
//   fail:NAME  the error with this name, message "asked for NAME"
//   hold       nothing, ever
//   silent     the end without a response
//   header:KEY the header's value, or "none"
//   left       milliseconds to the deadline, or "none"
//   who        ROLE/FLEET/NAME/CERTIFICATE of the principal
//   peer       the peer's address
//   bytes:N    a payload of N bytes
// Join keeps its messages and answers with all texts joined. Chat echoes each, and knows fail:NAME and
//   pause      is echoed, and nothing more is read until echo_read_next
//   end        ends with OK, whatever the client still sends
//   cork       is echoed, and the next is read, after echo_uncork
#pragma once

#include "common/rpc/server.h"

struct echo_options {
	const char *address; // NULL: 127.0.0.1 on any port
	const struct berth_rpc_tls *tls;
	const char *fleet;
	int threads;
	bool writer; // Chat leaves all that it does to the server's writer
	size_t send_queue_size_max;
	unsigned roles; // 0: anyone
	bool quiet;     // keeps no record
};

struct echo;

struct echo *echo_start(const struct echo_options *options, struct berth_error *err);
void echo_stop(struct echo *echo, int64_t grace_ms);
struct berth_rpc_server *echo_server(const struct echo *echo);
const char *echo_address(const struct echo *echo); // host:port

// The record has lines such as "Chat begin", "Chat message hello", "Chat half_closed", "Count refused",
// "Count writable", "Say ended", "Say cancelled".
// Waits until the record has the line `times` times; false after half a minute.
bool echo_wait(struct echo *echo, const char *line, int times);
int echo_seen(struct echo *echo, const char *line);
// Reads on in the last call of Chat.
void echo_read_next(struct echo *echo);
// The same call: whether something waits to be sent, and the end of its cork.
bool echo_has_unsent(struct echo *echo);
void echo_uncork(struct echo *echo);
// How often a callback ran while another of the same call did, and the most callbacks at one moment.
int echo_overlaps(struct echo *echo);
int echo_most_at_once(struct echo *echo);
