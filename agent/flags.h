// SPDX-License-Identifier: Apache-2.0
// The command line of berth-agent, and the credentials that it names.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/log.h"

#define AGENT_VERSION "0.1.0"

struct agent_flags {
	const char *coordinator, *credentials, *state;
	const char *docker; // NULL: $DOCKER_HOST, then the usual socket
	char *blobs;        // given, or the port after the coordinator's
	uint32_t slots, cpus;
	uint64_t memory_mb; // 0: what the host has, and above
	int64_t drain_s;
	int64_t disk_free_min_mb, bundles_mb;
	enum berth_log_level level;
	bool core_dumps;
	bool cut_tail;
	bool help, version;
};
// Fills defaults too. Every error names the flag and what it takes.
bool agent_flags_parse(struct agent_flags *flags, int argc, char **argv, struct berth_error *err);
void agent_flags_free(struct agent_flags *flags);
const char *agent_flags_usage(void);

// As `berth agent enroll` writes them.
struct agent_credentials {
	char *authority, *certificate, *key;
	char *signing_file;
	// The public key of the fleet's ledger; size 0: enrolled before heads were signed.
	uint8_t *ledger_key;
	size_t ledger_key_size;
	char *fleet, *agent; // from the certificate
};
bool agent_credentials_load(struct agent_credentials *credentials, const char *folder, struct berth_error *err);
void agent_credentials_free(struct agent_credentials *credentials);
