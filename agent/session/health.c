// SPDX-License-Identifier: Apache-2.0
// Whether this host can take trials, told with every heartbeat.
#include <stdlib.h>
#include <string.h>

#include "agent/session/session_internal.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"

#define PROBE_BOUND_MS 5000
#define MB             (INT64_C(1024) * 1024)

// Why no trial can be taken, or NULL. The caller frees.
static char *trouble_of(struct session *session, int64_t disk_free)
{
	const struct berth_session_options *options = &session->options;
	if (disk_free >= 0 && disk_free < options->disk_free_min_bytes) {
		return berth_format(
			"disk: %lld MB are free at %s and %lld are needed: remove files, or move --state to a "
			"larger disk",
			(long long)(disk_free / MB), options->state, (long long)(options->disk_free_min_bytes / MB));
	}
	struct berth_error err = {0};
	struct berth_until until = berth_within_ms(PROBE_BOUND_MS, session->close);
	if (options->host.probe && !options->host.probe(options->host.context, until, &err)) {
		return berth_strdup(err.message);
	}
	return NULL;
}

void session_check_host(struct session *session)
{
	int64_t disk_free = berth_disk_free(session->options.state, NULL);
	char *trouble = trouble_of(session, disk_free);
	if (berth_cancel_fired(session->close)) {
		free(trouble);
		return;
	}
	bool news = trouble && (!session->trouble || strcmp(session->trouble, trouble) != 0);
	free(session->trouble);
	session->trouble = berth_strdup(trouble);
	if (news) {
		berth_log_warn("no new trials", "trouble=%s", berth_log_quote(trouble));
	}
	session_post(&session->queue, (struct session_event){.kind = SESSION_CONDITION,
					      .accepting = !trouble,
					      .text = trouble,
					      .disk_free_mb = disk_free < 0 ? 0 : (uint64_t)(disk_free / MB)});
}

void *session_health(void *context)
{
	struct session *session = context;
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = session->close};
	do {
		session_check_host(session);
	} while (berth_sleep_ms(session->options.probe_ms, until, NULL));
	return NULL;
}
