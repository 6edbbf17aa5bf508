// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"

#define UUID_BYTES 16

berth_json *results_time_utc(int64_t wall_ns)
{
	if (wall_ns == 0) {
		return berth_json_null();
	}
	char text[BERTH_TIME_TEXT_SIZE];
	berth_time_harbor(wall_ns, text);
	return berth_json_string(text);
}

berth_json *results_time_local(int64_t wall_ns)
{
	if (wall_ns == 0) {
		return berth_json_null();
	}
	time_t seconds = wall_ns / BERTH_NS_PER_S;
	struct tm parts;
	localtime_r(&seconds, &parts);
	char date[BERTH_TIME_TEXT_SIZE];
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
	BERTH_AUTO_FREE char *text = berth_format("%s.%06d", date, (int)(wall_ns % BERTH_NS_PER_S / 1000));
	return berth_json_string(text);
}

berth_json *results_phase(const Berth__V1__Phase *phase)
{
	if (!phase || phase->started_at_ns == 0) {
		return berth_json_null();
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "started_at", results_time_utc(phase->started_at_ns));
	berth_json_set(object, "finished_at", results_time_utc(phase->finished_at_ns));
	return object;
}

char *results_uuid(const char *id)
{
	uint8_t bytes[UUID_BYTES];
	if (!berth_unhex(id, bytes, sizeof bytes)) {
		struct berth_digest digest = berth_sha256(id, strlen(id));
		memcpy(bytes, digest.bytes, sizeof bytes);
	}
	char text[BERTH_UUID_SIZE];
	berth_uuid_text(bytes, text);
	return berth_strdup(text);
}
