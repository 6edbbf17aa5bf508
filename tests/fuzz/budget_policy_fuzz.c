// SPDX-License-Identifier: Apache-2.0
// A policy of any bytes is a policy whose canonical form reads back to the same digest, or an error with a message.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Berth__V1__BudgetPolicy *policy)
{
	struct berth_digest first, second;
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_policy_json(policy);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_policy_digest(policy, &first, NULL) || !berth_json_write_canonical(object, &text, NULL)) {
		abort();
	}
	if (text.size > BERTH_POLICY_SIZE_MAX) {
		return; // defaults written out can make it larger than what is read
	}
	Berth__V1__BudgetPolicy *again = berth_policy_parse(text.data, text.size, "fuzz", NULL);
	if (!again || !berth_policy_digest(again, &second, NULL) || !berth_digest_equal(&first, &second)) {
		abort();
	}
	berth_proto_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_error err = {0};
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(data, size, "fuzz", &err);
	if (policy) {
		check(policy);
	} else if (!err.message[0]) {
		abort();
	}
	berth_proto_free(policy);
	return 0;
}
