// SPDX-License-Identifier: Apache-2.0
#include "agent/session/outgoing.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/codec/proto.h"

void outgoing_init(struct outgoing *outgoing)
{
	berth__v1__agent_batch__init(&outgoing->batch);
	outgoing->size = 0;
	outgoing->due_ns = INT64_MAX;
	outgoing->reports = 0;
	outgoing->has_result = false;
}

void outgoing_clear(struct outgoing *outgoing)
{
	for (size_t i = 0; i < outgoing->batch.n_messages; i++) {
		berth_proto_free(outgoing->batch.messages[i]);
	}
	free(outgoing->batch.messages);
	outgoing_init(outgoing);
}

static bool is_report(const Berth__V1__AgentMessage *message)
{
	return message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
}

static bool is_result(const Berth__V1__AgentMessage *message)
{
	return is_report(message) && message->report->body_case == BERTH__V1__REPORT__BODY_DONE;
}

static int64_t patience_ms(const Berth__V1__AgentMessage *message)
{
	return is_report(message) || message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS ? OUTGOING_WAIT_MS
	                                                                                           : 0;
}

static bool is_progress_of(const Berth__V1__AgentMessage *message, const Berth__V1__TrialKey *key)
{
	return message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS &&
	       message->progress->trial->index == key->index &&
	       message->progress->trial->generation == key->generation &&
	       strcmp(message->progress->trial->job_id, key->job_id) == 0;
}

static void drop_older_progress(struct outgoing *outgoing, const Berth__V1__AgentMessage *message)
{
	Berth__V1__AgentBatch *batch = &outgoing->batch;
	for (size_t i = 0; i < batch->n_messages; i++) {
		if (is_progress_of(batch->messages[i], message->progress->trial)) {
			outgoing->size -= berth__v1__agent_message__get_packed_size(batch->messages[i]);
			berth_proto_free(batch->messages[i]);
			batch->n_messages--;
			memmove(&batch->messages[i], &batch->messages[i + 1],
				(batch->n_messages - i) * sizeof *batch->messages);
			return;
		}
	}
}

void outgoing_add(struct outgoing *outgoing, Berth__V1__AgentMessage *message, int64_t now_ns)
{
	if (message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS) {
		drop_older_progress(outgoing, message);
	}
	outgoing->size += berth__v1__agent_message__get_packed_size(message);
	berth_proto_append(&outgoing->batch.n_messages, &outgoing->batch.messages, message);
	int64_t due_ns = now_ns + patience_ms(message) * BERTH_NS_PER_MS;
	outgoing->due_ns = due_ns < outgoing->due_ns ? due_ns : outgoing->due_ns;
	outgoing->reports += is_report(message);
	outgoing->has_result |= is_result(message);
}

bool outgoing_leaves(const struct outgoing *outgoing, size_t in_flight, int64_t now_ns)
{
	return outgoing->due_ns <= now_ns || (outgoing->has_result && in_flight <= outgoing->reports);
}

bool outgoing_is_full(const struct outgoing *outgoing, const Berth__V1__AgentMessage *message)
{
	return outgoing->batch.n_messages == OUTGOING_MESSAGES_MAX ||
	       (outgoing->batch.n_messages &&
		       outgoing->size + berth__v1__agent_message__get_packed_size(message) > OUTGOING_SIZE_MAX);
}
