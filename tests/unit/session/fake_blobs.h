// SPDX-License-Identifier: Apache-2.0
// The blob store of the fake coordinator, which is the context of its handlers.
#pragma once

#include "common/rpc/server.h"
#include "tests/unit/session/fake_coordinator.h"

// Takes the bytes unless it has them. Under the fake's lock.
void fake_keep_blob(struct fake *fake, const uint8_t digest[static 32], struct berth_buf *bytes);

extern const struct berth_rpc_handler FAKE_BLOB_HANDLERS[];
extern const size_t FAKE_BLOB_HANDLERS_COUNT;
