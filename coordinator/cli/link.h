// SPDX-License-Identifier: Apache-2.0
// The way to the coordinator: address, credentials, calls that outlast its restarts, and the calls that every command
// makes.
#pragma once

#include "berth/v1/job.pb-c.h"
#include "common/codec/tar.h"
#include "common/rpc/client.h"
#include "coordinator/cli/command.h"

#define CLI_CALL_MS          30000
#define CLI_CHUNK_SIZE       (1024 * 1024)
#define CLI_TRIALS_PAGE      100
#define CLI_BACKOFF_FIRST_MS 250
#define CLI_BACKOFF_MS_MAX   5000

// Shared by copies of a link. A channel that lost its server is thrown away: nobody polls it while its user pauses, so
// that its own attempts to connect again would starve in the middle of a handshake.
struct cli_channels {
	struct berth_rpc_channel *main, *blobs;
	struct berth_rpc_channel_options options;
	struct berth_rpc_tls tls;
	char *authority, *certificate, *key; // NULL: plain text
};

struct cli_link {
	char *address, *blobs_address;
	struct cli_channels *channels;
	struct berth_cancel *cancel; // ends every call
	int64_t timeout_ms;          // how long the coordinator may be away once it was reached
	bool reached;
	FILE *err;
};

enum cli_link_set { CLI_LINK_BERTH, CLI_LINK_HEALTH };

// Reads flags, environment and credentials; connects with the first call. INVALID or NOT_FOUND names what is missing
// and how to come by it.
bool cli_link_open(struct cli *cli, enum cli_link_set set, struct cli_link *link, struct berth_error *err);
void cli_link_close(struct cli_link *link); // also as BERTH_AUTO
// Where this user's keys and certificates are; the caller frees.
char *cli_credentials_folder(const struct cli *cli);

// One call on the main port. A coordinator that was reached before is waited for; one that never was fails at once
// with UNAVAILABLE and the fix. The answer is freed with berth_proto_free.
void *cli_call(struct cli_link *link, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err);
// The channel of the blob port, made with its first call: most commands need none. INVALID: the port is not known.
struct berth_rpc_channel *cli_blob_channel(struct cli_link *link, struct berth_error *err);
void *cli_call_blobs(struct cli_link *link, const char *method, const void *request, struct berth_error *err);

// Whether `err` means "away for now"; then it has waited for its turn. False when the time is over or the link was
// cancelled: err says which. `away` is zero at first and after every success.
struct cli_away {
	int64_t since_ns;
	int attempts;
};
bool cli_away_wait(struct cli_link *link, struct cli_away *away, struct berth_error *err);
int64_t cli_backoff_ms(int attempt); // pure: 0 for the first

// The host of "host:port", "[v6]:port" or "unix:/path" with another port; NULL when there is none to change.
char *cli_address_with_port(const char *address, int port);

Berth__V1__GetJobResponse *cli_get_job(struct cli_link *link, const char *name, struct berth_error *err);
// Every trial in the order of its index, a page at a time, with the small folders of their results where they are
// wanted. False when the visitor says so or a call fails.
bool cli_each_trial(struct cli_link *link, const char *job_id, bool with_folders,
	bool (*visit)(void *context, const Berth__V1__Trial *trial, struct berth_error *err), void *context,
	struct berth_error *err);

// blobs.c. Bytes go from and to the sink in chunks; a transfer that is cut goes on where it stopped.
bool cli_blob_get(
	struct cli_link *link, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err);
// A file of the backup that is under way.
bool cli_backup_get(struct cli_link *link, const char *backup_id, const char *path, struct berth_sink sink,
	struct berth_error *err);
// The blob's bytes are fd's from its start. True when the store has them, synced.
bool cli_blob_put(struct cli_link *link, const Berth__V1__BlobRef *blob, int fd, struct berth_error *err);
bool cli_blob_is_missing(struct cli_link *link, const Berth__V1__BlobRef *blob, bool *missing, struct berth_error *err);
