// SPDX-License-Identifier: Apache-2.0
// The `berth` command as a function, so that tests run it whole. Everything that it touches of the process outside
// (streams, environment, interrupts) comes in here.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/base/cancel.h"

struct berth_cli_io {
	FILE *in, *out, *err; // data goes to out, talk to err
	bool in_tty, out_tty, err_tty;
	int columns;                                            // of the terminal; 0: not known
	const char *(*lookup)(void *context, const char *name); // the environment; NULL: unset
	void *lookup_context;
	struct berth_cancel *interrupt; // the first SIGINT or SIGTERM
	struct berth_cancel *detach;    // the second; a child of nothing, fired after the first
};

// Runs the command line and returns the exit code: 0, or what architecture.md lists.
int berth_cli_main(int argc, char **argv, struct berth_cli_io *io);
