// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/docker/internal.h"
#include "agent/docker/top.h"
#include "common/base/mem.h"

// {"label":["key=value",...]} as a query value.
static char *label_filter(const struct berth_docker_label *labels, size_t count)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *filter = berth_json_object();
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < count; i++) {
		BERTH_AUTO_FREE char *text = labels[i].value ? berth_format("%s=%s", labels[i].key, labels[i].value)
		                                             : berth_strdup(labels[i].key);
		berth_json_append(list, berth_json_string(text));
	}
	berth_json_set(filter, "label", list);
	BERTH_AUTO_FREE char *text = docker_json_text(filter);
	return berth_http_escape(text);
}

static void take_labels(struct berth_docker_listed *listed, const berth_json *labels)
{
	size_t count = berth_json_is(labels, BERTH_JSON_OBJECT) ? berth_json_size(labels) : 0;
	listed->labels = berth_alloc((count + 1) * sizeof *listed->labels);
	void *cursor = NULL;
	const char *key;
	berth_json *value;
	while (listed->labels_count < count && berth_json_next(labels, &cursor, &key, &value)) {
		const char *text = berth_json_as_string(value);
		struct berth_docker_label *label = &listed->labels[listed->labels_count++];
		label->key = berth_strdup(key);
		label->value = berth_strdup(text ? text : "");
	}
}

static char *name_of(const berth_json *item)
{
	const char *name = berth_json_get_string(item, "Name");
	if (!name) {
		name = berth_json_as_string(berth_json_at(berth_json_get(item, "Names"), 0));
	}
	return berth_strdup(!name ? "" : *name == '/' ? name + 1 : name);
}

static bool list(struct berth_docker *docker, const char *path, const char *what, struct berth_docker_listed **listed,
	size_t *count, struct berth_until until, struct berth_error *err)
{
	*listed = NULL;
	*count = 0;
	struct docker_call call = {.method = "GET", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	if (!berth_json_is(reply.json, BERTH_JSON_ARRAY)) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon answered with no list", what);
	}
	size_t size = berth_json_size(reply.json);
	*listed = berth_alloc((size + 1) * sizeof **listed);
	for (size_t i = 0; i < size; i++) {
		const berth_json *item = berth_json_at(reply.json, i);
		(*listed)[i].id = docker_string(item, "Id");
		(*listed)[i].name = name_of(item);
		take_labels(&(*listed)[i], berth_json_get(item, "Labels"));
	}
	*count = size;
	return true;
}

bool berth_docker_container_list(struct berth_docker *docker, const struct berth_docker_label *labels,
	size_t labels_count, struct berth_docker_listed **listed, size_t *count, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *filter = label_filter(labels, labels_count);
	BERTH_AUTO_FREE char *path = berth_format("/containers/json?all=1&filters=%s", filter);
	return list(docker, path, "list containers", listed, count, until, err);
}

bool berth_docker_network_list(struct berth_docker *docker, const struct berth_docker_label *labels,
	size_t labels_count, struct berth_docker_listed **listed, size_t *count, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *filter = label_filter(labels, labels_count);
	BERTH_AUTO_FREE char *path = berth_format("/networks?filters=%s", filter);
	return list(docker, path, "list networks", listed, count, until, err);
}

void berth_docker_listed_free(struct berth_docker_listed *listed, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < listed[i].labels_count; j++) {
			free((char *)(uintptr_t)listed[i].labels[j].key);
			free((char *)(uintptr_t)listed[i].labels[j].value);
		}
		free(listed[i].labels);
		free(listed[i].id);
		free(listed[i].name);
	}
	free(listed);
}

const char *berth_docker_listed_label(const struct berth_docker_listed *listed, const char *key)
{
	for (size_t i = 0; i < listed->labels_count; i++) {
		if (strcmp(listed->labels[i].key, key) == 0) {
			return listed->labels[i].value;
		}
	}
	return NULL;
}

static const char *column(const berth_json *row, size_t index)
{
	const char *text = berth_json_as_string(berth_json_at(row, index));
	return text ? text : "";
}

bool docker_top(struct berth_docker *docker, const char *id, struct docker_top *top, struct berth_until until,
	struct berth_error *err)
{
	*top = (struct docker_top){0};
	BERTH_AUTO_FREE char *name = berth_http_escape(id);
	BERTH_AUTO_FREE char *path = berth_format("/containers/%s/top?ps_args=-eo%%20pid,sid,stat,args", name);
	BERTH_AUTO_FREE char *what = berth_format("list processes of container %s", id);
	struct docker_call call = {.method = "GET", .path = path, .what = what};
	BERTH_AUTO(docker_reply_free) struct docker_reply reply;
	if (!docker_call(docker, &call, &reply, until, err)) {
		return false;
	}
	const berth_json *titles = berth_json_get(reply.json, "Titles");
	const berth_json *rows = berth_json_get(reply.json, "Processes");
	if (strcmp(column(titles, 0), "PID") != 0 || strcmp(column(titles, 1), "SID") != 0 ||
		strcmp(column(titles, 2), "STAT") != 0) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the daemon's ps knows no pid,sid,stat", what);
	}
	size_t count = berth_json_is(rows, BERTH_JSON_ARRAY) ? berth_json_size(rows) : 0;
	top->rows = berth_alloc((count + 1) * sizeof *top->rows);
	for (size_t i = 0; i < count; i++) {
		const berth_json *row = berth_json_at(rows, i);
		struct docker_top_row *out = &top->rows[top->count++];
		out->process.pid = strtoll(column(row, 0), NULL, 10);
		out->process.sid = strtoll(column(row, 1), NULL, 10);
		out->dead = column(row, 2)[0] == 'Z' || column(row, 2)[0] == 'X';
		out->process.args = berth_strdup(column(row, 3));
	}
	return true;
}

void docker_top_free(struct docker_top *top)
{
	for (size_t i = 0; i < top->count; i++) {
		free(top->rows[i].process.args);
	}
	free(top->rows);
	*top = (struct docker_top){0};
}

bool berth_docker_container_top(struct berth_docker *docker, const char *id, struct berth_docker_process **processes,
	size_t *count, struct berth_until until, struct berth_error *err)
{
	*processes = NULL;
	*count = 0;
	BERTH_AUTO(docker_top_free) struct docker_top top;
	if (!docker_top(docker, id, &top, until, err)) {
		return false;
	}
	*processes = berth_alloc((top.count + 1) * sizeof **processes);
	for (size_t i = 0; i < top.count; i++) {
		(*processes)[i] = top.rows[i].process;
		top.rows[i].process.args = NULL;
	}
	*count = top.count;
	return true;
}

void berth_docker_processes_free(struct berth_docker_process *processes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(processes[i].args);
	}
	free(processes);
}
