// SPDX-License-Identifier: Apache-2.0
// etcd: a lease is a Txn that puts a key if it is absent, a removal a DeleteRange of it, by unary calls of
// etcdserverpb.KV. Each call's few fields are written by hand: field numbers are etcd's rpc.proto's.
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/bench/ledger/line.h"
#include "tests/bench/ledger/peer.h"

#define KEY_SIZE     16
#define CHANNELS     8 // connections share them
#define TXN_PATH     "/etcdserverpb.KV/Txn"
#define DELETE_PATH  "/etcdserverpb.KV/DeleteRange"
#define RANGE_PATH   "/etcdserverpb.KV/Range"
#define LENGTH_FIELD 2 // wire type of bytes and messages

struct exchange {
	grpc_call *call;
	grpc_byte_buffer *request, *response;
	grpc_metadata_array headers, trailers;
	grpc_status_code status;
	grpc_slice message;
	uint32_t connection, task;
	bool removing;
};

static struct {
	grpc_completion_queue *queue;
	grpc_channel *channels[CHANNELS];
	struct exchange *exchanges;
	uint32_t next_task;
} etcd;

static void add_varint(struct berth_buf *buf, uint64_t value)
{
	for (; value >= 0x80; value >>= 7) {
		berth_buf_add_byte(buf, (uint8_t)(value | 0x80));
	}
	berth_buf_add_byte(buf, (uint8_t)value);
}

static void add_bytes(struct berth_buf *buf, unsigned field, const void *data, size_t size)
{
	add_varint(buf, field << 3 | LENGTH_FIELD);
	add_varint(buf, size);
	berth_buf_add(buf, data, size);
}

static void key_of(uint32_t task, char key[static KEY_SIZE])
{
	snprintf(key, KEY_SIZE, "task/%010u", task);
}

static void fill_txn(struct berth_buf *out, uint32_t task)
{
	char key[KEY_SIZE], body[PEER_BODY];
	BERTH_AUTO(berth_buf_free) struct berth_buf compare = {0}, put = {0}, operation = {0};
	key_of(task, key);
	peer_body(task, body);
	// Compare{result: EQUAL (0), target: CREATE (1), key, create_revision: 0}
	berth_buf_add(&compare, "\x10\x01", 2);
	add_bytes(&compare, 3, key, strlen(key));
	berth_buf_add(&compare, "\x28\x00", 2);
	add_bytes(&put, 1, key, strlen(key));
	add_bytes(&put, 2, body, sizeof body);
	add_bytes(&operation, 2, put.data, put.size); // RequestOp.request_put
	add_bytes(out, 1, compare.data, compare.size);
	add_bytes(out, 2, operation.data, operation.size);
}

static void start(struct exchange *exchange, const char *path, const struct berth_buf *body)
{
	grpc_slice slice = grpc_slice_from_copied_buffer((const char *)body->data, body->size);
	exchange->request = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	exchange->message = grpc_empty_slice();
	exchange->headers = exchange->trailers = (grpc_metadata_array){0};
	exchange->call = grpc_channel_create_call(etcd.channels[exchange->connection % CHANNELS], NULL,
		GRPC_PROPAGATE_DEFAULTS, etcd.queue, grpc_slice_from_static_string(path), NULL,
		gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = exchange->request},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &exchange->headers},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &exchange->response},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {.trailing_metadata = &exchange->trailers,
				.status = &exchange->status,
				.status_details = &exchange->message}},
	};
	if (grpc_call_start_batch(exchange->call, ops, BERTH_COUNT(ops), exchange, NULL) != GRPC_CALL_OK) {
		abort();
	}
}

static void clear(struct exchange *exchange)
{
	grpc_byte_buffer_destroy(exchange->request);
	grpc_byte_buffer_destroy(BERTH_STEAL(exchange->response));
	grpc_slice_unref(exchange->message);
	grpc_metadata_array_destroy(&exchange->headers);
	grpc_metadata_array_destroy(&exchange->trailers);
	grpc_call_unref(exchange->call);
}

static void begin_etcd(struct peer *peer, uint32_t number)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	struct exchange *exchange = &etcd.exchanges[number];
	if (etcd.next_task == peer->options.tasks) {
		bench_fail("the load has no task left");
	}
	exchange->connection = number;
	exchange->task = etcd.next_task++;
	exchange->removing = false;
	fill_txn(&out, exchange->task);
	start(exchange, TXN_PATH, &out);
}

static void open_all(struct peer *peer)
{
	etcd.queue = line_queue_new();
	for (size_t i = 0; i < CHANNELS; i++) {
		etcd.channels[i] = line_channel_new(peer->options.address, NULL);
	}
}

static void fill_etcd(struct peer *peer)
{
	open_all(peer);
	etcd.exchanges = berth_alloc(peer->options.connections * sizeof *etcd.exchanges);
}

// TxnResponse.succeeded is field 2: a refused one leaves it out.
static bool succeeded(grpc_byte_buffer *response)
{
	grpc_byte_buffer_reader reader;
	if (!response || !grpc_byte_buffer_reader_init(&reader, response)) {
		return false;
	}
	grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
	const uint8_t *data = GRPC_SLICE_START_PTR(bytes);
	size_t size = GRPC_SLICE_LENGTH(bytes);
	size_t head = size > 2 && data[0] == 0x0a ? 2 + (size_t)data[1] : 0;
	bool ok = head + 2 <= size && data[head] == 0x10 && data[head + 1] == 1;
	grpc_slice_unref(bytes);
	grpc_byte_buffer_reader_destroy(&reader);
	return ok;
}

static void take(struct peer *peer, struct exchange *exchange)
{
	bool ok = exchange->status == GRPC_STATUS_OK;
	bool leased = ok && !exchange->removing && succeeded(exchange->response);
	clear(exchange);
	if (!ok) {
		peer->gone = true;
		return;
	}
	if (exchange->removing) {
		peer_removed(peer, exchange->connection, exchange->task);
		peer_idle(peer, exchange->connection);
		return;
	}
	if (!leased) {
		bench_fail("etcd refused a key that nobody holds");
	}
	peer_leased(peer, exchange->connection, exchange->task);
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	char key[KEY_SIZE];
	key_of(exchange->task, key);
	add_bytes(&out, 1, key, strlen(key));
	exchange->removing = true;
	peer_removing(peer, exchange->task);
	start(exchange, DELETE_PATH, &out);
}

static void wait_etcd(struct peer *peer, int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - berth_boot_ns();
	gpr_timespec until = gpr_time_add(
		gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns > 0 ? left_ns : 0, GPR_TIMESPAN));
	grpc_event event = grpc_completion_queue_next(etcd.queue, until, NULL);
	if (event.type == GRPC_OP_COMPLETE) {
		take(peer, event.tag);
	}
}

// Whether the key is there: RangeResponse.count is field 4 and is left out when it is 0.
static bool is_there(uint32_t task)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	struct exchange exchange = {.task = task};
	char key[KEY_SIZE];
	key_of(task, key);
	add_bytes(&out, 1, key, strlen(key));
	add_varint(&out, 9 << 3); // count_only
	add_varint(&out, 1);
	start(&exchange, RANGE_PATH, &out);
	grpc_completion_queue_next(etcd.queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	if (exchange.status != GRPC_STATUS_OK) {
		bench_fail("etcd does not answer");
	}
	grpc_byte_buffer_reader reader;
	grpc_byte_buffer_reader_init(&reader, exchange.response);
	grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
	size_t size = GRPC_SLICE_LENGTH(bytes);
	const uint8_t *data = GRPC_SLICE_START_PTR(bytes);
	bool found = size >= 2 && data[size - 2] == 4 << 3 && data[size - 1] == 1;
	grpc_slice_unref(bytes);
	grpc_byte_buffer_reader_destroy(&reader);
	clear(&exchange);
	return found;
}

static void look_etcd(struct peer *peer, uint8_t *state)
{
	open_all(peer);
	for (uint32_t i = 0; i < peer->options.tasks; i++) {
		// A lease that is not there was lost; a removal that is there came back.
		if (peer->tasks[i] == TASK_READY) {
			state[i] = TASK_READY;
		} else if (is_there(i)) {
			state[i] = TASK_LEASED;
		} else {
			state[i] = peer->tasks[i] == TASK_LEASED ? TASK_READY : TASK_REMOVED;
		}
	}
}

const struct peer_kind peer_etcd = {"etcd", fill_etcd, begin_etcd, wait_etcd, look_etcd};
