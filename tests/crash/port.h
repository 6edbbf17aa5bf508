// SPDX-License-Identifier: Apache-2.0
// A real coordinator process that is killed and started again, and the channels to the life that serves.
//
// What must never happen ends the program through port_broken. One thread uses a port; port_kill may come from another.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "tests/integration/coordinator/quay.h"

#define PORT_PLAN_MOST 16 // variables of one life

struct port_options {
	const char *coordinator; // the program
	const char *preload;     // failpoint.so, NULL: none
	const char *folder;      // where all of it is: credentials, data, logs; made before
	const char *checkpoint_ms;
	const char *hold_ms;
	bool faults; // the disk fails: a life may also end by itself, or live and refuse
};

struct port {
	struct port_options options;
	struct fixture quay; // credentials and channels, as quay.h's calls take them
	struct credentials user;
	struct berth_rpc_channel *user_main;
	int main_port;
	char *phase;            // mapped by the preloaded library
	pthread_mutex_t lock;   // guards pid and serves against a kill from another thread
	pid_t pid;              // 0: no process
	bool serves;            // it is ready
	unsigned lives, deaths; // started, ended
	int end;                // wait status of the last that ended
	int first_end;          // and of the first
	unsigned refusals;      // of calls that failed while the coordinator went on
	double recovery_ms;     // from the last start to serving
	double worst_ms;        // of all lives but the first
};

void port_open(struct port *port, const struct port_options *options); // a fleet's credentials, no process
void port_close(struct port *port);

// Names the script's phase to the preloaded library.
void port_phase(struct port *port, const char *phase);
// Opens the channels of credentials that have come since the life began.
void port_open_channels(struct port *port);
// Starts a life with these variables ("NAME=VALUE", NULL-terminated; NULL: none, and no library). False when it died
// before it served.
bool port_start(struct port *port, const char *const *plan);
void port_kill(struct port *port); // SIGKILL, when it lives
// Waits for the death of a process that was told or is known to end; its wait status.
int port_wait(struct port *port);
// An orderly end; false when it was killed on the way.
bool port_stop(struct port *port);

// After a failed call: waits until the process is gone and reaped. A coordinator that lives and fails is broken; where
// the disk fails it may refuse, is asked again, and is killed when it refuses for ever.
void port_is_gone(struct port *port, const char *what, const struct berth_error *err);

_Noreturn void port_broken(struct port *port, const char *format, ...) __attribute__((format(printf, 2, 3)));
