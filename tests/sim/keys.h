// SPDX-License-Identifier: Apache-2.0
// Ed25519 keys that a run needs, made once a process: the operator's and the ledger's.
#pragma once

#include "common/evidence/sign.h"

struct sim_key {
	struct berth_signing_key *key;
	uint8_t *der; // of its public half
	size_t der_size;
	char id[BERTH_DIGEST_HEX_SIZE];
	char *pem; // as its file holds it
};

void sim_key_make(struct sim_key *key);                        // outside any run: it takes random numbers
const struct sim_key *sim_operator_key(void);                  // operator.c
const struct sim_key *sim_ledger_key(void);                    // heads.c
void sim_key_put(const struct sim_key *key, const char *path); // as a file
