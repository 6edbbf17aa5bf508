// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/blob/blob_support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	BERTH_AUTO_FREE char *parent = berth_test_folder();
	fixture->folder = berth_path_join(parent, "data/blobs");
	struct berth_error err;
	fixture->blobs = berth_blobs_open(fixture->folder, 0, &err);
	assert_ok(fixture->blobs, err);
	*state = fixture;
	return 0;
}

int tear_down(void **state)
{
	struct fixture *fixture = *state;
	berth_blobs_close(fixture->blobs);
	free(fixture->folder);
	free(fixture);
	return 0;
}

void reopen(struct fixture *fixture)
{
	struct berth_error err;
	berth_blobs_close(fixture->blobs);
	fixture->blobs = berth_blobs_open(fixture->folder, 0, &err);
	assert_ok(fixture->blobs, err);
}

struct berth_digest digest_of(const char *text)
{
	return berth_sha256(text, strlen(text));
}

struct berth_blob_writer *must_write(struct berth_blobs *blobs, const char *text)
{
	struct berth_digest digest = digest_of(text);
	struct berth_blob_writer *writer = NULL;
	bool existed = true;
	struct berth_error err;
	assert_ok(berth_blob_writer_open(blobs, &digest, (int64_t)strlen(text), &writer, &existed, &err), err);
	assert_false(existed);
	assert_non_null(writer);
	return writer;
}

void put_text(struct berth_blobs *blobs, const char *text)
{
	struct berth_error err;
	struct berth_blob_writer *writer = must_write(blobs, text);
	assert_ok(berth_blob_writer_add(writer, text, strlen(text), &err), err);
	assert_ok(berth_blob_writer_finish(writer, &err), err);
}

bool has_text(struct berth_blobs *blobs, const char *text)
{
	struct berth_digest digest = digest_of(text);
	return berth_blobs_has(blobs, &digest, (int64_t)strlen(text));
}

int count_unfinished(const struct fixture *fixture)
{
	BERTH_AUTO_FREE char *path = berth_path_join(fixture->folder, "tmp");
	DIR *dir = opendir(path);
	assert_non_null(dir);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		count += entry->d_name[0] != '.';
	}
	closedir(dir);
	return count;
}
