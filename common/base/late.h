// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are loaded when they are first needed, and not with the program: mapping and relocating one
// that most commands never call costs each of them milliseconds.
//
// A module lists the functions that it calls once, as X(NAME) for each, makes a struct of pointers to them and an array
// of their names from the list, and calls through the struct.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct berth_late {
	const char *file;         // as a linker would have noted it: the name with the version
	const char *package;      // Debian's, for who lacks it
	const char *const *names; // `count` of them
	void *functions;          // a struct of as many function pointers, in the same order
	size_t count;
	// NULL, or called once at the end of the load, before another library is loaded: for what a thread does once
	// with the library, as making its thread-locals, and would wait with for a load that goes on elsewhere.
	void (*first_use)(void);
	bool loaded;
};

// Any thread, as often as one likes; one loads at a time, as the dynamic loader itself has it. Nothing is ever
// unloaded. UNSUPPORTED names the library, what is wrong with it, and its package.
bool berth_late_load(struct berth_late *late, struct berth_error *err);
