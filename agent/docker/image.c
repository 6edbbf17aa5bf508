// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/docker/build.h"
#include "agent/docker/internal.h"
#include "common/base/mem.h"

#define HEREDOC_ENGINE 23

bool berth_docker_image_inspect(struct berth_docker *docker, const char *reference, struct berth_docker_image *image,
	struct berth_until until, struct berth_error *err)
{
	*image = (struct berth_docker_image){0};
	BERTH_AUTO_FREE char *name = docker_escape_path(reference);
	BERTH_AUTO_FREE char *path = berth_format("/images/%s/json", name);
	BERTH_AUTO_FREE char *what = berth_format("inspect image %s", reference);
	struct docker_call call = {.method = "GET", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const berth_json *config = berth_json_get(reply.json, "Config");
	const berth_json *test = berth_json_get(berth_json_get(config, "Healthcheck"), "Test");
	const char *first = berth_json_as_string(berth_json_at(test, 0));
	image->id = docker_string(reply.json, "Id");
	image->os = docker_string(reply.json, "Os");
	image->architecture = docker_string(reply.json, "Architecture");
	image->workdir = docker_string(config, "WorkingDir");
	image->user = docker_string(config, "User");
	image->labels_json = docker_json_text(berth_json_get(config, "Labels"));
	image->has_healthcheck = first && *first && strcmp(first, "NONE") != 0;
	return true;
}

void berth_docker_image_free(struct berth_docker_image *image)
{
	free(image->id);
	free(image->os);
	free(image->architecture);
	free(image->workdir);
	free(image->user);
	free(image->labels_json);
	*image = (struct berth_docker_image){0};
}

bool berth_docker_image_remove(
	struct berth_docker *docker, const char *reference, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = docker_escape_path(reference);
	BERTH_AUTO_FREE char *path = berth_format("/images/%s", name);
	BERTH_AUTO_FREE char *what = berth_format("remove image %s", reference);
	struct docker_call call = {.method = "DELETE", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	return docker_call(docker, &call, &reply, until, err);
}

// Where the name ends and its tag or digest begins; without either, "latest": an empty tag would fetch all.
static void split_reference(const char *reference, char **name, char **tag)
{
	const char *mark = strchr(reference, '@');
	if (!mark) {
		const char *slash = strrchr(reference, '/');
		mark = strchr(slash ? slash : reference, ':');
	}
	*name = mark ? berth_strndup(reference, (size_t)(mark - reference)) : berth_strdup(reference);
	*tag = berth_strdup(mark ? mark + 1 : "latest");
}

bool berth_docker_image_pull(
	struct berth_docker *docker, const char *reference, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *name = NULL;
	BERTH_AUTO_FREE char *tag = NULL;
	split_reference(reference, &name, &tag);
	BERTH_AUTO_FREE char *name_text = berth_http_escape(name);
	BERTH_AUTO_FREE char *tag_text = berth_http_escape(tag);
	BERTH_AUTO_FREE char *path = berth_format("/images/create?fromImage=%s&tag=%s", name_text, tag_text);
	BERTH_AUTO_FREE char *what = berth_format("pull image %s", reference);
	struct docker_call call = {.method = "POST", .path = path, .what = what};
	BERTH_AUTO(build_answer_free) struct build_answer answer;
	build_answer_start(&answer, (struct berth_sink){0});
	if (!docker_stream(docker, &call, build_answer_sink(&answer), until, err) ||
		!docker_lines_end(&answer.lines, err)) {
		return false;
	}
	if (!answer.error) {
		return true;
	}
	bool missing = strstr(answer.error, "not found") || strstr(answer.error, "manifest unknown") ||
	               strstr(answer.error, "denied");
	return docker_fail(err, missing ? 404 : 500, what, answer.error);
}

static char *build_path(const struct berth_docker *docker, const struct berth_docker_build *build)
{
	BERTH_AUTO_FREE char *tag = berth_http_escape(build->tag ? build->tag : "");
	BERTH_AUTO_FREE char *dockerfile = berth_http_escape(build->dockerfile ? build->dockerfile : "Dockerfile");
	BERTH_AUTO(berth_json_cleanup) berth_json *labels = docker_labels(build->labels, build->labels_count);
	BERTH_AUTO_FREE char *labels_json = docker_json_text(labels);
	BERTH_AUTO_FREE char *labels_text = berth_http_escape(labels_json);
	return berth_format("/build?%st=%s&dockerfile=%s&labels=%s&rm=1&forcerm=1%s",
		docker->buildkit ? "version=2&" : "", tag, dockerfile, labels_text,
		build->no_cache ? "&nocache=1" : "");
}

bool berth_docker_image_build(struct berth_docker *docker, const struct berth_docker_build *build, char **image_id,
	struct berth_until until, struct berth_error *err)
{
	struct berth_error ignored;
	err = err ? err : &ignored;
	*image_id = NULL;
	const char *dockerfile = build->dockerfile ? build->dockerfile : "Dockerfile";
	BERTH_AUTO_FREE char *path = build_path(docker, build);
	BERTH_AUTO_FREE char *what = berth_format("build %s", build->tag ? build->tag : "an image");
	BERTH_AUTO(dockerfile_peek_free)
	struct dockerfile_peek peek = {.tar = build->context, .name = dockerfile};
	peek.refuse_heredoc = docker->engine_major > 0 && docker->engine_major < HEREDOC_ENGINE;
	struct berth_source source = dockerfile_peek_source(&peek);
	struct docker_call call = {.method = "POST",
		.path = path,
		.what = what,
		.content_type = "Content-Type: application/x-tar",
		.source = &source};
	BERTH_AUTO(build_answer_free) struct build_answer answer;
	build_answer_start(&answer, build->log);
	bool whole = docker_stream(docker, &call, build_answer_sink(&answer), until, err) &&
	             docker_lines_end(&answer.lines, err);
	// An error that was told counts more than a connection that broke after it.
	if (answer.error && (whole || err->code == BERTH_ERROR_IO)) {
		return build_answer_fail(&answer, what, dockerfile, &peek.notes, err);
	}
	if (!whole) {
		return false;
	}
	if (!answer.image_id) {
		return berth_fail(err, BERTH_ERROR_IO,
			"%s: the daemon's answer ended without an image and without an error", what);
	}
	*image_id = BERTH_STEAL(answer.image_id);
	return true;
}
