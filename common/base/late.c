// SPDX-License-Identifier: Apache-2.0
#include "common/base/late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static bool find_all(struct berth_late *late)
{
	void *library = dlopen(late->file, RTLD_LAZY | RTLD_LOCAL);
	for (size_t i = 0; library && i < late->count; i++) {
		void *found = dlsym(library, late->names[i]);
		if (!found) {
			return false;
		}
		memcpy((char *)late->functions + i * sizeof found, &found, sizeof found);
	}
	return library != NULL;
}

bool berth_late_load(struct berth_late *late, struct berth_error *err)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&one_at_a_time);
	bool ok = late->loaded || find_all(late);
	if (ok && !late->loaded && late->first_use) {
		late->first_use();
	}
	late->loaded = ok;
	if (!ok) {
		berth_fail(err, BERTH_ERROR_UNSUPPORTED, "cannot load a library: %s; install the package %s", dlerror(),
			late->package);
	}
	pthread_mutex_unlock(&one_at_a_time);
	return ok;
}
