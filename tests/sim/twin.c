// SPDX-License-Identifier: Apache-2.0
// A second coordinator, on a copy of the first one's disk, to which some agents are led.
#include <string.h>

#include "berth/store/v1/agent.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/world.h"

#define LOG_FAMILY 0

void sim_twin_copy(void)
{
	if (sim_world.twin.starts || sim_world.twin.process.threads_count || sim_world.backs_up) {
		return; // one is enough
	}
	sim_world.twin.has_copy = true;
	sim_disk_copy(sim_disk_of(sim_world.coordinator.ledger_folder), sim_disk_of(sim_world.twin.ledger_folder));
}

static uint64_t copied(void)
{
	return sim_disk_count(sim_disk_of(sim_world.twin.ledger_folder), LOG_FAMILY);
}

// What an agent would still know after a crash.
static uint64_t seen_by(const struct sim_agent *agent)
{
	const struct sim_entry *entry = sim_disk_find(sim_disk_of(agent->store_folder), 0, "obeyed", strlen("obeyed"));
	if (!entry) {
		return 0;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Obeyed *obeyed = berth_proto_unpack(
		&berth__store__v1__obeyed__descriptor, entry->value, entry->value_size, "obeyed", NULL);
	return obeyed->seen ? obeyed->seen->sequence : 0;
}

bool sim_twin_begin(void)
{
	if (sim_world.twin.process.threads_count || !copied()) {
		return true;
	}
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		if (seen_by(&sim_world.agents[i]) <= copied()) {
			return false;
		}
	}
	sim_trace("the twin begins with %llu events", (unsigned long long)copied());
	sim_process_begin(&sim_world.twin.process);
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		if (sim_random_chance(&sim_world.random, 500)) {
			sim_world.agents[i].address = "twin";
			sim_net_break(sim_world.agents[i].number);
		}
	}
	return true;
}
