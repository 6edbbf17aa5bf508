// SPDX-License-Identifier: Apache-2.0
// Rewards or an exception, never both and never neither; every reward is finite.
#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/task/reward.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct berth_reward *reward)
{
	if (!reward->rewards == !reward->exception || !reward->exception != !reward->message) {
		abort();
	}
	void *cursor = NULL;
	berth_json *value;
	while (reward->rewards && berth_json_next(reward->rewards, &cursor, NULL, &value)) {
		if (!isfinite(berth_json_as_number(value))) {
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BERTH_AUTO(berth_reward_free) struct berth_reward text, json;
	berth_reward_parse_text((const char *)data, size, &text);
	berth_reward_parse_json((const char *)data, size, &json);
	check(&text);
	check(&json);
	return 0;
}
