// SPDX-License-Identifier: Apache-2.0
// Certificates made on the spot, for tests of mutual TLS.
#pragma once

#include "common/rpc/rpc.h"

struct authority;

struct authority *authority_new(const char *name);
void authority_free(struct authority *authority);
// A certificate with these alternative names, in the form of OpenSSL's configuration ("URI:spiffe://f/user/u").
// `trusted` is whom the holder believes. Free with identity_free.
struct berth_rpc_tls *identity_new(
	struct authority *authority, const struct authority *trusted, const char *alternative_names);
void identity_free(struct berth_rpc_tls *identity);
