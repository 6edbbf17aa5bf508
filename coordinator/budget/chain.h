// SPDX-License-Identifier: Apache-2.0
// The reference's linear chain of one budget, as an export: one canonical JSON object a line,
// {action, digest, previous_digest, recorded_at, sequence}, where a digest covers all but itself and the first previous
// digest is 64 zeros. Pure: events in, lines out.
//
// opened, reserved, settled and forfeited are the reference's actions. A breach is charged in full there (charge and
// overrun). What the reference does not know are actions of our own: amended, job_limited, released, appealed.
#pragma once

#include "berth/store/v1/event.pb-c.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"

struct berth_budget_chain {
	const char *budget; // events of others add nothing
	uint64_t sequence;
	struct berth_digest previous;
};

// Appends the lines of one event of the log: one, several (an assignment's reservations), or none.
bool berth_budget_chain_add(struct berth_budget_chain *chain, const Berth__Store__V1__Event *event,
	struct berth_buf *lines, struct berth_error *err);
