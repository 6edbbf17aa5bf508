// SPDX-License-Identifier: Apache-2.0
// What a trial keeps: the collect hooks run, then each artifact is brought out, best effort, and the manifest says what
// became of each.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define PUBLISHED       "/logs/artifacts"
#define TRANSFER_MS     (120 * 1000)
#define PROBE_MS        (60 * 1000)
#define ARTIFACTS_MAX   1000
#define TAR_SIZE_MAX    (8LL * 1024 * 1024 * 1024)
#define TAR_ENTRIES_MAX 1000000

struct item {
	const char *source, *service;
	char *destination; // below artifacts/
	char *const *exclude;
	size_t exclude_count;
	bool published; // the convention's own folder, which nobody declared
	bool is_folder;
	const char *status;
};

struct items {
	struct item list[ARTIFACTS_MAX];
	size_t count;
};

static char *clean_destination(const char *source, const char *destination)
{
	const char *from = destination && *destination ? destination : source;
	from += strspn(from, "/");
	char *clean = berth_strdup(from);
	for (size_t size = strlen(clean); size > 0 && clean[size - 1] == '/'; size--) {
		clean[size - 1] = 0;
	}
	return clean;
}

// One path is the other, or lies inside it.
static bool overlap(const char *a, const char *b)
{
	size_t size_a = strlen(a), size_b = strlen(b), least = size_a < size_b ? size_a : size_b;
	return strncmp(a, b, least) == 0 && (size_a == size_b || (size_a < size_b ? b[least] == '/' : a[least] == '/'));
}

static void add(struct items *items, struct item item, const char *destination)
{
	if (items->count == ARTIFACTS_MAX) {
		return;
	}
	item.destination = clean_destination(item.source, destination);
	for (size_t i = 0; i < items->count; i++) {
		if (!items->list[i].status && overlap(items->list[i].destination, item.destination)) {
			item.status = "skipped";
		}
	}
	if (!item.status && (!*item.destination || !berth_path_is_safe(item.destination) ||
				    overlap(item.destination, "manifest.json"))) {
		item.status = "failed";
	}
	items->list[items->count++] = item;
}

static bool declares_published(const struct berth_task_artifacts *artifacts)
{
	for (size_t i = 0; artifacts && i < artifacts->count; i++) {
		BERTH_AUTO_FREE char *source = clean_destination(artifacts->items[i].source, NULL);
		if (strcmp(source, PUBLISHED + 1) == 0) {
			return true;
		}
	}
	return false;
}

static void add_declared(struct items *items, const struct berth_task_artifacts *artifacts)
{
	for (size_t i = 0; artifacts && i < artifacts->count; i++) {
		const struct berth_task_artifact *artifact = &artifacts->items[i];
		add(items,
			(struct item){.source = artifact->source,
				.service = artifact->service,
				.exclude = artifact->exclude.items,
				.exclude_count = artifact->exclude.count},
			artifact->destination);
	}
}

static void list_items(const struct trial *trial, const struct berth_task_step *step, struct items *items)
{
	const struct berth_task_artifacts *of_step = step ? &step->artifacts : NULL;
	if (!declares_published(&trial->task->artifacts) && !declares_published(of_step)) {
		add(items, (struct item){.source = PUBLISHED, .published = true}, NULL);
	}
	add_declared(items, &trial->task->artifacts);
	add_declared(items, of_step);
	for (size_t i = 0; i < trial->spec->n_artifacts; i++) {
		const Berth__V1__Artifact *artifact = trial->spec->artifacts[i];
		add(items,
			(struct item){.source = artifact->source,
				.service = *artifact->service ? artifact->service : NULL,
				.exclude = artifact->exclude,
				.exclude_count = artifact->n_exclude},
			artifact->destination);
	}
}

// Text inside single quotes of a shell.
static void add_quoted(struct berth_buf *out, const char *text)
{
	berth_buf_add_byte(out, '\'');
	for (; *text; text++) {
		berth_buf_add_text(out, *text == '\'' ? "'\\''" : (char[]){*text, 0});
	}
	berth_buf_add_byte(out, '\'');
}

static bool keep_answer(void *context, const void *data, size_t size)
{
	struct berth_buf *answer = context;
	if (answer->size + size <= ARTIFACTS_MAX) {
		berth_buf_add(answer, data, size);
	}
	return true;
}

// Asks about all declared sources at once, as root: "d" for a folder, "-" for everything else. Where the question can't
// be put, a name with a suffix is a file.
static void find_folders(struct trial *trial, struct items *items, struct berth_until until)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf question = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf answer = {0};
	size_t asked = 0;
	for (size_t i = 0; i < items->count; i++) {
		if (!items->list[i].published) {
			berth_buf_add_text(&question, "test -d ");
			add_quoted(&question, items->list[i].source);
			berth_buf_add_text(&question, " && printf d || printf -- -\n");
			asked++;
		}
	}
	struct berth_error err = {0};
	int exit_code = 0;
	const struct trial_command command = {
		.command = berth_buf_text(&question), .user = "root", .output = keep_answer, .context = &answer};
	bool good = asked == 0 ||
	            (trial_command(trial, &command, &exit_code, berth_until_at_most_ms(until, PROBE_MS), &err) &&
			    answer.size == asked);
	asked = 0;
	for (size_t i = 0; i < items->count; i++) {
		struct item *item = &items->list[i];
		const char *base = strrchr(item->source, '/');
		item->is_folder =
			item->published || (good ? answer.data[asked] == 'd' : !strchr(base ? base : "", '.'));
		asked += item->published ? 0 : 1;
	}
}

static int open_spool(const char *path, struct berth_error *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		berth_fail_errno(err, "cannot write %s", path);
		return -1;
	}
	unlink(path);
	return fd;
}

static bool write_piece(void *context, const void *data, size_t size)
{
	return berth_write_all(*(const int *)context, data, size, NULL);
}

// Packed inside the container by its own tar, which is what the patterns are written for.
static bool fetch_filtered(struct trial *trial, const struct item *item, const char *path, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf line = {0};
	berth_buf_add_text(&line, "tar cf - ");
	for (size_t i = 0; i < item->exclude_count; i++) {
		BERTH_AUTO_FREE char *option = berth_format("--exclude=%s", item->exclude[i]);
		add_quoted(&line, option);
		berth_buf_add_byte(&line, ' ');
	}
	berth_buf_add_text(&line, "-C ");
	add_quoted(&line, item->source);
	berth_buf_add_text(&line, " . 2> /dev/null");
	BERTH_AUTO_FREE char *spool = berth_format("%s/.artifact.tar", trial->input->work_folder);
	BERTH_AUTO_CLOSE int fd = open_spool(spool, err);
	int exit_code = 0;
	const struct trial_command command = {
		.command = berth_buf_text(&line), .user = "root", .output = write_piece, .context = &fd};
	if (fd < 0 || !trial_command(trial, &command, &exit_code, until, err)) {
		return false;
	}
	if (exit_code != 0 || lseek(fd, 0, SEEK_SET) != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "tar in the container ended with exit code %d", exit_code);
	}
	const struct berth_untar_options options = {.content_size_max = TAR_SIZE_MAX, .entries_max = TAR_ENTRIES_MAX};
	return berth_mkdir_all(path, 0755, err) && berth_untar(berth_source_fd(&fd), path, &options, err);
}

static bool folder_is_empty(const char *path)
{
	DIR *dir = opendir(path);
	bool empty = true;
	for (const struct dirent *found; dir && empty && (found = readdir(dir));) {
		empty = strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0;
	}
	if (dir) {
		closedir(dir);
	}
	return empty;
}

static void fetch(struct trial *trial, struct item *item, const char *folder, struct berth_until until)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, item->destination);
	struct berth_error err = {0};
	struct berth_until bounded = berth_until_at_most_ms(until, TRANSFER_MS);
	bool filtered = item->is_folder && item->exclude_count > 0;
	bool good = filtered ? fetch_filtered(trial, item, path, bounded, &err)
	                     : trial->leases.runner->download(
				       trial->environment, item->source, item->is_folder, path, bounded, &err);
	item->status = !good ? "failed" : item->published && folder_is_empty(path) ? "empty" : "ok";
	if (!good) {
		trial_log(trial, "artifacts: %s did not come: %s", item->source, err.message);
	}
}

static berth_json *entry_of(const struct item *item)
{
	BERTH_AUTO_FREE char *destination = berth_format("artifacts/%s", item->destination);
	berth_json *entry = berth_json_object();
	berth_json_set(entry, "source", berth_json_string(item->source));
	berth_json_set(entry, "destination", berth_json_string(destination));
	berth_json_set(entry, "type", berth_json_string(item->is_folder ? "directory" : "file"));
	berth_json_set(entry, "status", berth_json_string(item->status));
	berth_json_set(entry, "service", berth_json_string(item->service));
	return entry;
}

static void write_manifest(struct trial *trial, const struct items *items, const char *folder)
{
	berth_json *manifest = berth_json_array();
	for (size_t i = 0; i < items->count; i++) {
		berth_json_append(manifest, entry_of(&items->list[i]));
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(manifest, 2, &text);
	berth_json_free(manifest);
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "manifest.json");
	struct berth_error err = {0};
	if (!berth_file_write(path, text.data, text.size, 0644, &err)) {
		trial_log(trial, "artifacts: %s", err.message);
	}
}

static void run_hooks(struct trial *trial, const struct berth_task_verifier *verifier, struct berth_until until)
{
	for (size_t i = 0; i < verifier->collect_count; i++) {
		const struct berth_task_collect *hook = &verifier->collect[i];
		const struct trial_command command = {.command = hook->command, .user = hook->user};
		struct berth_error err = {0};
		int exit_code = 0;
		int64_t limit_ms = (int64_t)(hook->timeout_sec * 1000);
		if (!trial_command(trial, &command, &exit_code, berth_until_at_most_ms(until, limit_ms), &err)) {
			trial_log(trial, "collect hook: %s", err.message);
		} else if (exit_code != 0) {
			trial_log(trial, "collect hook: ended with exit code %d: %.80s", exit_code, hook->command);
		}
	}
}

void trial_collect(
	struct trial *trial, const struct berth_task_step *step, const char *artifacts_folder, struct berth_until until)
{
	run_hooks(trial, step && step->verifier.collect_count > 0 ? &step->verifier : &trial->task->verifier, until);
	struct items *items = berth_alloc(sizeof *items);
	list_items(trial, step, items);
	find_folders(trial, items, until);
	for (size_t i = 0; i < items->count; i++) {
		if (!items->list[i].status) {
			fetch(trial, &items->list[i], artifacts_folder, until);
		}
	}
	write_manifest(trial, items, artifacts_folder);
	for (size_t i = 0; i < items->count; i++) {
		free(items->list[i].destination);
	}
	free(items);
}
