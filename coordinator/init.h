// SPDX-License-Identifier: Apache-2.0
// The first credentials of a fleet.
#pragma once

#include "common/base/error.h"

// Makes OUT/coordinator/{authority,authority-key,certificate,key}.pem and secret.key, and
// OUT/operator/{authority,certificate,key}.pem. Nothing that exists is overwritten (CONFLICT). `hosts` is a list of
// names and addresses, separated by commas, that go into the coordinator's certificate.
bool berth_coordinator_init(const char *fleet, const char *out, const char *hosts, struct berth_error *err);
