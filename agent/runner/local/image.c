// SPDX-License-Identifier: Apache-2.0
// Images: a ready one is inspected or pulled, another is built once for each content of its context. Inside the Engine
// only tags below berth-build are ever made.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/dockerignore.h"
#include "agent/runner/local/internal.h"
#include "common/base/digest.h"
#include "common/base/mem.h"

#define BUILD_KEY_VERSION "1" // grows when the same context would have to give another image
#define BUILD_TAG_DIGITS  32

static bool is_ready_made(const struct berth_environment_plan *plan)
{
	return plan->environment->docker_image && (!plan->force_build || !plan->has_dockerfile);
}

static bool has_content(const char *folder)
{
	DIR *dir = folder ? opendir(folder) : NULL;
	bool any = false;
	for (const struct dirent *found; dir && !any && (found = readdir(dir));) {
		any = strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0;
	}
	if (dir) {
		closedir(dir);
	}
	return any;
}

bool local_uploads_context(const struct berth_environment_plan *plan)
{
	return plan->environment->docker_image && !plan->has_dockerfile && has_content(plan->context_folder);
}

static bool check_image(const struct local *local, const char *reference, const struct berth_docker_image *image,
	struct berth_error *err)
{
	if (strcmp(image->os, local->os) != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "image %s is for %s and this Engine runs %s", reference,
			image->os, local->os);
	}
	return true;
}

static bool keep_image(struct local *local, const struct berth_environment_plan *plan, const char *reference,
	const struct berth_docker_image *image, struct berth_error *err)
{
	if (!check_image(local, reference, image, err)) {
		return false;
	}
	local_lease_put(local, plan->lease_id, image->id);
	return true;
}

struct pull {
	struct local *local;
	const char *reference;
};

static bool pull_image(void *context, struct berth_until until, struct berth_error *err)
{
	struct pull *pull = context;
	if (berth_docker_image_pull(pull->local->docker, pull->reference, until, err)) {
		return true;
	}
	if (err->code == BERTH_ERROR_NOT_FOUND) {
		err->code = BERTH_ERROR_INVALID; // the registry answered: the task names what does not exist
	}
	return berth_error_wrap(err, "image %s", pull->reference);
}

static bool prepare_ready_made(struct local *local, const struct berth_environment_plan *plan, struct berth_until until,
	struct berth_error *err)
{
	const char *reference = plan->environment->docker_image;
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image = {0};
	struct berth_error failure = {0};
	if (!berth_docker_image_inspect(local->docker, reference, &image, until, &failure)) {
		if (failure.code != BERTH_ERROR_NOT_FOUND) {
			return berth_fail(err, failure.code, "%s", failure.message);
		}
		struct pull pull = {local, reference};
		BERTH_AUTO_FREE char *key = berth_format("pull %s", reference);
		if (!local_single_flight(local, key, pull_image, &pull, until, err) ||
			!berth_docker_image_inspect(local->docker, reference, &image, until, err)) {
			return false;
		}
	}
	return keep_image(local, plan, reference, &image, err);
}

struct build {
	struct local *local;
	const struct berth_environment_plan *plan;
	const struct berth_tar_options *context;
	char key[BERTH_DIGEST_HEX_SIZE];
	char tag[sizeof "berth-build:" + BUILD_TAG_DIGITS];
	struct berth_sink log;
};

static bool hash_bytes(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)err;
	berth_hasher_add(context, data, size);
	return true;
}

static bool find_key(struct build *build, struct berth_error *err)
{
	struct berth_hasher *hasher = berth_hasher_new();
	berth_hasher_add(hasher, BUILD_KEY_VERSION, sizeof BUILD_KEY_VERSION);
	berth_hasher_add(hasher, build->local->platform, strlen(build->local->platform) + 1);
	if (!berth_tar_write_folder(
		    build->plan->context_folder, build->context, (struct berth_sink){hash_bytes, hasher}, err)) {
		berth_hasher_free(hasher);
		return false;
	}
	struct berth_digest digest = berth_hasher_finish(hasher);
	berth_digest_hex(&digest, build->key);
	snprintf(build->tag, sizeof build->tag, "berth-build:%.*s", BUILD_TAG_DIGITS, build->key);
	return true;
}

// Someone else's image under our tag is not ours to use; the full key in its label tells.
static bool is_ours(const struct berth_docker_image *image, const char *key)
{
	berth_json *labels = berth_json_parse(image->labels_json, strlen(image->labels_json), "labels", NULL);
	const char *value = berth_json_get_string(labels, BERTH_LABEL_BUILD);
	bool ours = value && strcmp(value, key) == 0;
	berth_json_free(labels);
	return ours;
}

static bool send_build(struct build *build, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = local_spool(err);
	if (fd < 0 || !berth_tar_write_folder(build->plan->context_folder, build->context, berth_sink_fd(&fd), err)) {
		return false;
	}
	if (lseek(fd, 0, SEEK_SET) != 0) {
		return berth_fail_errno(err, "cannot rewind the build context");
	}
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, build->local->fleet},
		{BERTH_LABEL_BUILD, build->key},
	};
	struct berth_docker_build request = {
		.tag = build->tag,
		.labels = labels,
		.labels_count = BERTH_COUNT(labels),
		.context = berth_source_fd(&fd),
		.log = build->log,
	};
	BERTH_AUTO_FREE char *image_id = NULL;
	return berth_docker_image_build(build->local->docker, &request, &image_id, until, err);
}

static bool build_image(void *context, struct berth_until until, struct berth_error *err)
{
	struct build *build = context;
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image = {0};
	struct berth_error failure = {0};
	if (!build->plan->force_build) {
		if (berth_docker_image_inspect(build->local->docker, build->tag, &image, until, &failure)) {
			if (is_ours(&image, build->key)) {
				return true;
			}
		} else if (failure.code != BERTH_ERROR_NOT_FOUND) {
			return berth_fail(err, failure.code, "%s", failure.message);
		}
	}
	return send_build(build, until, err);
}

static bool prepare_built(struct local *local, const struct berth_environment_plan *plan, struct berth_sink log,
	struct berth_until until, struct berth_error *err)
{
	if (!plan->has_dockerfile) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"environment/ has no Dockerfile and task.toml no environment.docker_image: add one of them");
	}
	BERTH_AUTO(dockerignore_free) struct dockerignore ignore = {0};
	if (!dockerignore_read(plan->context_folder, &ignore, err)) {
		return false;
	}
	struct berth_tar_options context = {
		.widen_private_modes = true, .skip = dockerignore_skip, .skip_context = &ignore};
	struct build build = {.local = local, .plan = plan, .context = &context, .log = log};
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image = {0};
	return find_key(&build, err) && local_single_flight(local, build.key, build_image, &build, until, err) &&
	       berth_docker_image_inspect(local->docker, build.tag, &image, until, err) &&
	       keep_image(local, plan, build.tag, &image, err);
}

bool local_prepare(struct berth_runner *runner, const struct berth_environment_plan *plan, struct berth_sink log,
	struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	return is_ready_made(plan) ? prepare_ready_made(local, plan, until, err)
	                           : prepare_built(local, plan, log, until, err);
}
