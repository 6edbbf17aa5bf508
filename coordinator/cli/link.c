// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/link.h"

#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "health_set.h"

#define ADDRESS_DEFAULT      "127.0.0.1:7311"
#define BLOBS_PORT           7312
#define TIMEOUT_DEFAULT_S    300
#define TIMEOUT_S_MAX        (30 * 24 * 3600)
#define CREDENTIAL_SIZE_MAX  65536
#define CREDENTIALS_FALLBACK ".config/berth"

char *cli_address_with_port(const char *address, int port)
{
	const char *colon = strrchr(address, ':');
	if (strncmp(address, "unix:", 5) == 0 || !colon) {
		return NULL;
	}
	return berth_format("%.*s:%d", (int)(colon - address), address, port);
}

static const char *flag_or_env(const struct cli *cli, enum cli_flag_id flag, const char *name)
{
	const char *text = cli_args_text(&cli->args, flag);
	return text ? text : cli_env(cli, name);
}

static bool read_addresses(const struct cli *cli, struct cli_link *link, struct berth_error *err)
{
	const char *address = flag_or_env(cli, CLI_FLAG_COORDINATOR, "BERTH_COORDINATOR");
	const char *blobs = flag_or_env(cli, CLI_FLAG_BLOBS, "BERTH_BLOBS");
	link->address = berth_strdup(address ? address : ADDRESS_DEFAULT);
	if (strncmp(link->address, "unix:", 5) != 0 && !strchr(link->address, ':')) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--coordinator: \"%s\" has no port; write it as host:port, such as %s:7311", link->address,
			link->address);
	}
	link->blobs_address = blobs ? berth_strdup(blobs) : cli_address_with_port(link->address, BLOBS_PORT);
	return true;
}

char *cli_credentials_folder(const struct cli *cli)
{
	const char *folder = flag_or_env(cli, CLI_FLAG_CREDENTIALS, "BERTH_CREDENTIALS");
	const char *home = cli_env(cli, "HOME");
	return folder ? berth_strdup(folder) : berth_path_join(home ? home : "/", CREDENTIALS_FALLBACK);
}

static bool read_pem(const char *folder, const char *name, char **text, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	struct berth_error why;
	if (!berth_file_read(path, CREDENTIAL_SIZE_MAX, &content, &why)) {
		return berth_fail(err, why.code,
			"%s; an operator makes credentials with `berth agent enroll NAME --role user --out FOLDER`, "
			"and "
			"--credentials or $BERTH_CREDENTIALS names the folder",
			why.message);
	}
	*text = content.data ? berth_buf_steal(&content) : berth_strdup("");
	return true;
}

static void drop_channels(struct cli_channels *channels)
{
	berth_rpc_channel_free(BERTH_STEAL(channels->main));
	berth_rpc_channel_free(BERTH_STEAL(channels->blobs));
}

static struct berth_rpc_channel *make_channel(
	const struct cli_channels *channels, const char *address, struct berth_error *err)
{
	struct berth_rpc_channel_options options = channels->options;
	options.tls = channels->key ? &channels->tls : NULL;
	options.address = address;
	return berth_rpc_channel_new(&options, err);
}

static bool make_main(const struct cli_link *link, struct berth_error *err)
{
	link->channels->main = make_channel(link->channels, link->address, err);
	return link->channels->main != NULL;
}

struct berth_rpc_channel *cli_blob_channel(struct cli_link *link, struct berth_error *err)
{
	struct cli_channels *channels = link->channels;
	if (!channels->blobs && !link->blobs_address) {
		berth_fail(err, BERTH_ERROR_INVALID,
			"the blob port of %s is not known; give it with --blobs or $BERTH_BLOBS", link->address);
	} else if (!channels->blobs) {
		channels->blobs = make_channel(channels, link->blobs_address, err);
	}
	return channels->blobs;
}

static bool read_credentials(const struct cli *cli, struct cli_channels *channels, struct berth_error *err)
{
	BERTH_AUTO_FREE char *folder = cli_credentials_folder(cli);
	if (!read_pem(folder, "authority.pem", &channels->authority, err) ||
		!read_pem(folder, "certificate.pem", &channels->certificate, err) ||
		!read_pem(folder, "key.pem", &channels->key, err)) {
		return false;
	}
	channels->tls = (struct berth_rpc_tls){channels->authority, channels->certificate, channels->key};
	return true;
}

bool cli_link_open(struct cli *cli, enum cli_link_set set, struct cli_link *link, struct berth_error *err)
{
	int64_t timeout_s = TIMEOUT_DEFAULT_S;
	*link = (struct cli_link){
		.cancel = cli->io->interrupt, .err = cli->io->err, .channels = berth_alloc(sizeof *link->channels)};
	link->channels->options = (struct berth_rpc_channel_options){
		.descriptor_set = set == CLI_LINK_HEALTH ? berth_rpc_health_set : berth_descriptor_set,
		.descriptor_set_size = set == CLI_LINK_HEALTH ? berth_rpc_health_set_size : berth_descriptor_set_size,
		.reconnect_ms_max = CLI_BACKOFF_MS_MAX,
	};
	if (!cli_args_integer(&cli->args, CLI_FLAG_TIMEOUT, 0, TIMEOUT_S_MAX, &timeout_s, err) ||
		!read_addresses(cli, link, err)) {
		return false;
	}
	link->timeout_ms = timeout_s * 1000;
	if (cli_args_has(&cli->args, CLI_FLAG_INSECURE)) {
		return make_main(link, err);
	}
	return read_credentials(cli, link->channels, err) &&
	       (make_main(link, err) || berth_error_wrap(err, "credentials for %s", link->address));
}

void cli_link_close(struct cli_link *link)
{
	struct cli_channels *channels = link->channels;
	if (channels) {
		drop_channels(channels);
		if (channels->key) {
			explicit_bzero(channels->key, strlen(channels->key));
		}
		berth_free_cleanup(&channels->authority);
		berth_free_cleanup(&channels->certificate);
		berth_free_cleanup(&channels->key);
	}
	berth_free_cleanup(&link->channels);
	berth_free_cleanup(&link->address);
	berth_free_cleanup(&link->blobs_address);
}

int64_t cli_backoff_ms(int attempt)
{
	int64_t ms = CLI_BACKOFF_FIRST_MS;
	for (int i = 0; i < attempt && ms < CLI_BACKOFF_MS_MAX; i++) {
		ms *= 2;
	}
	return ms < CLI_BACKOFF_MS_MAX ? ms : CLI_BACKOFF_MS_MAX;
}

static bool explain_away(const struct cli_link *link, struct berth_error *err)
{
	if (err->code != BERTH_ERROR_UNAVAILABLE) {
		return false;
	}
	struct berth_error why = *err;
	return berth_fail(err, BERTH_ERROR_UNAVAILABLE,
		"cannot reach the coordinator at %s (%s); start it, or name another with --coordinator or "
		"$BERTH_COORDINATOR",
		link->address, why.message);
}

bool cli_away_wait(struct cli_link *link, struct cli_away *away, struct berth_error *err)
{
	bool is_away = err->code == BERTH_ERROR_UNAVAILABLE || err->code == BERTH_ERROR_NOT_SERVING;
	int64_t now_ns = berth_boot_ns();
	if (!is_away || !link->reached) {
		return explain_away(link, err);
	}
	if (away->attempts == 0) {
		away->since_ns = now_ns;
		fprintf(link->err, "The coordinator at %s is away; trying again for %lld s.\n", link->address,
			(long long)(link->timeout_ms / 1000));
	}
	if (now_ns - away->since_ns >= link->timeout_ms * BERTH_NS_PER_MS) {
		return explain_away(link, err);
	}
	if (!berth_sleep_ms(
		    cli_backoff_ms(away->attempts++), (struct berth_until){BERTH_NO_DEADLINE_NS, link->cancel}, err)) {
		return false;
	}
	drop_channels(link->channels);
	return make_main(link, err);
}

static void *call(struct cli_link *link, bool on_blobs, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err)
{
	struct cli_away away = {0};
	ProtobufCMessage *response = NULL;
	for (;;) {
		// A wait may have replaced the channels.
		struct berth_rpc_channel *channel = on_blobs ? cli_blob_channel(link, err) : link->channels->main;
		if (!channel) {
			return NULL;
		}
		if (berth_rpc_unary(channel, service, method, request, &response,
			    berth_within_ms(CLI_CALL_MS, link->cancel), err)) {
			link->reached = true;
			return response;
		}
		if (!cli_away_wait(link, &away, err)) {
			return NULL;
		}
	}
}

void *cli_call(struct cli_link *link, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err)
{
	return call(link, false, service, method, request, err);
}

void *cli_call_blobs(struct cli_link *link, const char *method, const void *request, struct berth_error *err)
{
	void *response = call(link, true, &berth__v1__blob_service__descriptor, method, request, err);
	if (!response && link->blobs_address) {
		berth_error_wrap(err, "blob port %s", link->blobs_address);
	}
	return response;
}

Berth__V1__GetJobResponse *cli_get_job(struct cli_link *link, const char *name, struct berth_error *err)
{
	Berth__V1__GetJobRequest request = BERTH__V1__GET_JOB_REQUEST__INIT;
	request.job_id = (char *)name;
	Berth__V1__GetJobResponse *response =
		cli_call(link, &berth__v1__job_service__descriptor, "GetJob", &request, err);
	if (response && (!response->job || !response->spec)) {
		berth_proto_free(response);
		berth_fail(err, BERTH_ERROR_INTERNAL, "job %s: the coordinator's answer lacks the job", name);
		return NULL;
	}
	return response;
}

bool cli_each_trial(struct cli_link *link, const char *job_id, bool with_folders,
	bool (*visit)(void *context, const Berth__V1__Trial *trial, struct berth_error *err), void *context,
	struct berth_error *err)
{
	Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
	request.job_id = (char *)job_id;
	request.limit = CLI_TRIALS_PAGE;
	request.with_folders = with_folders;
	for (;;) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__ListTrialsResponse *page =
			cli_call(link, &berth__v1__job_service__descriptor, "ListTrials", &request, err);
		if (!page) {
			return false;
		}
		uint32_t after = request.after_index_plus_1;
		for (size_t i = 0; i < page->n_trials; i++) {
			const Berth__V1__Trial *trial = page->trials[i];
			if (!trial->key || !visit(context, trial, err)) {
				return trial->key != NULL ? false
				                          : berth_fail(err, BERTH_ERROR_INTERNAL,
								    "job %s: a trial without a key", job_id);
			}
			after = trial->key->index + 1;
		}
		// A page that does not get ahead is the last one.
		if (after <= request.after_index_plus_1) {
			return true;
		}
		request.after_index_plus_1 = after;
	}
}
