// SPDX-License-Identifier: Apache-2.0
// What an operator and a user ask of the coordinator, each so that asking again after a restart changes nothing more.
//
// A function returns false when the coordinator is gone (port_is_gone): start it and ask again.
#pragma once

#include "tests/crash/port.h"

#define DESK_PRICE 45000 // nano-USD that one run of a trial reserves: 4500 s at 10
#define DESK_SPENT 600   // and that one of a second costs: the quantum of 60 s
#define DESK_ID    33

struct desk_money {
	int64_t limit, settled, forfeited, reserved;
	uint32_t amendments;
};

bool desk_enroll(struct port *port, const char *role, const char *name, struct credentials *into);
bool desk_open_budget(struct port *port);
// Signs and sends amendment `number`, with this limit.
bool desk_amend(struct port *port, uint64_t number, int64_t limit);
// Breaks when settled, forfeited and reserved together pass the limit.
bool desk_money(struct port *port, struct desk_money *money);
// A paid job of one or two cells, and its bundle.
bool desk_submit(struct port *port, const char *key, uint32_t cells, char id[static DESK_ID]);
bool desk_cancel(struct port *port, const char *job);
bool desk_state(struct port *port, const char *job, Berth__V1__JobState *state, uint32_t *scored);
// That an ended job is whole: its state, each of its cells scored once (or none, of a cancelled one), every lease
// retired.
bool desk_check_ended(struct port *port, const char *job, Berth__V1__JobState state, uint32_t cells);
