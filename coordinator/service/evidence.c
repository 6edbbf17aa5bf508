// SPDX-License-Identifier: Apache-2.0
// Whether a result's evidence is what its signer said, and says what the result says.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/evidence/sign.h"
#include "coordinator/service/daemon.h"

#define STATEMENT_SIZE_MAX (1024 * 1024)

double berth_reward_number(const char *rewards_json)
{
	if (!rewards_json[0]) {
		return 0;
	}
	BERTH_AUTO(berth_json_cleanup)
	berth_json *rewards = berth_json_parse(rewards_json, strlen(rewards_json), "rewards", NULL);
	return rewards ? berth_json_as_number(berth_json_get(rewards, "reward")) : 0;
}
