// SPDX-License-Identifier: Apache-2.0
// Inside the agent's store: store.c opens and reads, store_write.c is the writing thread, store_sign.c
// signs for it, store_leases.c is the book.
#pragma once

#include <pthread.h>

#include "agent/session/store.h"
#include "common/base/digest.h"
#include "common/store/store.h"

#define AGENT_STORE_FAMILY     0
#define AGENT_STORE_GROUP_MAX  64 // writes in one sync
#define AGENT_STORE_KEY_OBEYED "obeyed"
#define AGENT_STORE_KEY_LIFE   "life"
#define AGENT_STORE_KEY_LEASE  "lease/"
#define AGENT_STORE_KEY_OUTBOX "outbox/"
#define AGENT_STORE_KEY_DONE   "done/"

struct agent_change {
	char *key;
	uint8_t *value; // NULL deletes
	size_t size;
	struct agent_change *next;
};

struct agent_write {
	Berth__V1__Report *report;
	struct agent_change *changes, *last;
	bool later;  // nobody waits: the writing thread frees it
	bool synced; // under the store's lock
	struct agent_write *prev, *next;
};

struct agent_held {
	Berth__Store__V1__HeldLease *record;
	bool of_running_trial;
	int64_t dispatched_ns,
		elapsed_ns; // of this life: when its create began (boot clock), and until its death; 0: not
	struct agent_held *prev, *next;
};

struct agent_store {
	struct berth_store *store;
	struct agent_store_options options;
	char boot_id[BERTH_ID_SIZE];
	char key_id[BERTH_DIGEST_HEX_SIZE]; // of the signing key; empty without one
	pthread_mutex_t lock;               // guards what follows; never held over I/O
	pthread_cond_t changed;
	struct agent_write *pending;
	struct agent_held *held;
	bool closing;
	pthread_t writer;
	uint64_t sequence; // the writing thread's: of the newest report
};

// The writing thread: signs the statements of the results in a group, which go to the disk together.
void agent_store_sign(struct agent_store *store, struct agent_write *const *group, size_t count);
void *agent_store_writer(void *store);
void agent_write_free(struct agent_write *write);
bool agent_store_load_leases(struct agent_store *store, struct berth_error *err);
void agent_store_free_leases(struct agent_store *store);
