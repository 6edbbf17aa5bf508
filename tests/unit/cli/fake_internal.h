// SPDX-License-Identifier: Apache-2.0
// What the parts of the fake share.
#pragma once

#include "tests/unit/cli/fake.h"

#define FAKE_ANYONE (BERTH_ROLE_ANYONE | BERTH_ROLE_USER | BERTH_ROLE_OPERATOR)

void fake_answer(struct berth_rpc_call *call, const void *message);
void fake_refuse(struct berth_rpc_call *call, enum berth_error_code code, const char *text);
struct fake_blob *fake_find_blob(struct fake *fake, const Berth__V1__BlobRef *ref);

extern const struct berth_rpc_handler FAKE_BUDGET_HANDLERS[];
extern const size_t FAKE_BUDGET_HANDLERS_COUNT;
extern const struct berth_rpc_handler FAKE_BLOB_HANDLERS[];
extern const size_t FAKE_BLOB_HANDLERS_COUNT;
