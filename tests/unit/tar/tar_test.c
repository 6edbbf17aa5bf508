// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"
#include "tests/support/test.h"

static char *make_file(const char *folder, const char *name, const char *text, mode_t mode)
{
	char *path = berth_path_join(folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static void make_folder(const char *folder, const char *name, mode_t mode)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_true(berth_mkdir_all(path, 0755, NULL));
	assert_int_equal(chmod(path, mode), 0);
}

static void write_tree(const char *folder, const struct berth_tar_options *options, struct berth_buf *out)
{
	struct berth_error err;
	assert_ok(berth_tar_write_folder(folder, options, berth_sink_buf(out), &err), err);
}

// A tree with each kind of entry, made in the given order of two.
static char *make_tree(bool backwards)
{
	char *folder = berth_test_folder();
	chmod(folder, 0755);
	for (int i = 0; i < 2; i++) {
		if (backwards == (i == 0)) {
			free(make_file(folder, "zeta.sh", "#!/bin/sh\n", 04755));
			make_folder(folder, "empty", 01777);
		} else {
			free(make_file(folder, "a b\xc3\xa9.txt", "text", 0640));
			make_folder(folder, "sub", 0755);
			free(make_file(folder, "sub/leaf", "", 0600));
			BERTH_AUTO_FREE char *link = berth_path_join(folder, "sub/link");
			assert_int_equal(symlink("../zeta.sh", link), 0);
		}
	}
	return folder;
}

static void the_same_tree_gives_the_same_bytes(void **state)
{
	(void)state;
	static const char wanted[] = "5e90c0866884a58cdd7505b090c90ac3dc2caa8642d61833598510ea68d037cc";
	for (int backwards = 0; backwards < 2; backwards++) {
		BERTH_AUTO_FREE char *folder = make_tree(backwards);
		BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
		write_tree(folder, NULL, &tar);
		struct berth_digest digest = berth_sha256(tar.data, tar.size);
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&digest, hex);
		assert_string_equal(hex, wanted);
	}
}

static void the_bytes_do_not_depend_on_the_locale(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	free(make_file(folder, "e\xcc\x81", "decomposed", 0644));
	BERTH_AUTO(berth_buf_free) struct berth_buf plain = {0}, utf8 = {0};
	write_tree(folder, NULL, &plain);
	assert_non_null(setlocale(LC_ALL, "C.UTF-8"));
	write_tree(folder, NULL, &utf8);
	setlocale(LC_ALL, "C");
	assert_int_equal(plain.size, utf8.size);
	assert_memory_equal(plain.data, utf8.data, plain.size);
}

static void a_tree_comes_back_whole(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	free(make_file(folder, "e\xcc\x81", "decomposed", 0644));
	free(make_file(folder, "b\xff", "no text at all", 0644));
	BERTH_AUTO_FREE char *name = berth_alloc(251);
	memset(name, 'n', 250);
	free(make_file(folder, name, "long", 0644));
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0}, again = {0};
	write_tree(folder, NULL, &tar);
	BERTH_AUTO_FREE char *back = berth_test_folder();
	struct berth_memory rest = {tar.data, tar.size};
	struct berth_error err;
	assert_ok(berth_untar(berth_source_memory(&rest), back, NULL, &err), err);
	BERTH_AUTO_FREE char *setuid = berth_path_join(back, "zeta.sh");
	struct stat stat_back;
	assert_int_equal(stat(setuid, &stat_back), 0);
	assert_int_equal(stat_back.st_mode & 07777, 0755);
	chmod(setuid, 04755);
	write_tree(back, NULL, &again);
	assert_int_equal(tar.size, again.size);
	assert_memory_equal(tar.data, again.data, tar.size);
}

// The mode that the unpacked archive gives `name`.
static mode_t mode_after(const struct berth_buf *tar, const char *name)
{
	BERTH_AUTO_FREE char *back = berth_test_folder();
	struct berth_memory rest = {tar->data, tar->size};
	struct berth_error err;
	assert_ok(berth_untar(berth_source_memory(&rest), back, NULL, &err), err);
	BERTH_AUTO_FREE char *path = berth_path_join(back, name);
	struct stat found;
	assert_int_equal(lstat(path, &found), 0);
	return found.st_mode & 07777;
}

static void private_modes_are_widened_only_when_all_are_private(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	chmod(folder, 0700);
	make_folder(folder, "sub", 0700);
	free(make_file(folder, "sub/run", "x", 0700));
	free(make_file(folder, "sub/text", "x", 0600));
	BERTH_AUTO_FREE char *link = berth_path_join(folder, "link");
	assert_int_equal(symlink("sub", link), 0);
	struct berth_tar_options options = {.prefix = "tests", .widen_private_modes = true};
	BERTH_AUTO(berth_buf_free) struct berth_buf wide = {0}, kept = {0};
	write_tree(folder, &options, &wide);
	assert_int_equal(mode_after(&wide, "tests"), 0755);
	assert_int_equal(mode_after(&wide, "tests/sub"), 0755);
	assert_int_equal(mode_after(&wide, "tests/sub/run"), 0755);
	assert_int_equal(mode_after(&wide, "tests/sub/text"), 0644);
	free(make_file(folder, "sub/shared", "x", 0640));
	write_tree(folder, &options, &kept);
	assert_int_equal(mode_after(&kept, "tests/sub/text"), 0600);
	assert_int_equal(mode_after(&kept, "tests/sub/shared"), 0640);
}

static void a_prefix_that_leaves_the_archive_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	static const char *const bad[] = {"/abs", "a/../b", ".."};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		struct berth_error err = {0};
		struct berth_tar_options options = {.prefix = bad[i]};
		assert_fails(berth_tar_write_folder(folder, &options, berth_sink_buf(&tar), &err), err,
			BERTH_ERROR_INVALID, bad[i]);
	}
}

// BuildKit knows a tar by its first 512 bytes, which must be the entry itself and no extended header.
static void a_plain_name_needs_no_extended_header(void **state)
{
	(void)state;
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	struct berth_error err;
	assert_ok(berth_tar_write_bytes("x", 1, "Dockerfile", 0644, berth_sink_buf(&tar), &err), err);
	assert_string_equal((char *)tar.data, "Dockerfile");
	assert_int_equal(tar.size, 4 * 512);
}

static bool skip_sub(void *context, const char *path, bool is_folder)
{
	(*(int *)context)++;
	return is_folder && strcmp(path, "sub") == 0;
}

static void a_skipped_folder_is_left_out_with_all_that_is_in_it(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	int asked = 0;
	struct berth_tar_options options = {.skip = skip_sub, .skip_context = &asked};
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	write_tree(folder, &options, &tar);
	assert_int_equal(asked, 4); // not for what is below sub
	assert_null(memmem(tar.data, tar.size, "leaf", 4));
	assert_non_null(memmem(tar.data, tar.size, "zeta", 4));
}

static void content_above_the_limit_is_refused_by_name(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	free(make_file(folder, "big", "0123456789", 0644));
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	struct berth_tar_options options = {.content_size_max = 9};
	struct berth_error err = {0};
	assert_fails(
		berth_tar_write_folder(folder, &options, berth_sink_buf(&tar), &err), err, BERTH_ERROR_INVALID, "big");
	assert_int_equal(tar.size, 0);
	options.content_size_max = 10;
	write_tree(folder, &options, &tar);
}

static void sockets_and_fifos_are_refused_by_name(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *fifo = berth_path_join(folder, "pipe");
	assert_int_equal(mkfifo(fifo, 0644), 0);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	struct berth_error err = {0};
	assert_fails(
		berth_tar_write_folder(folder, NULL, berth_sink_buf(&tar), &err), err, BERTH_ERROR_INVALID, "pipe");
}

static void a_missing_folder_and_a_file_for_a_folder_are_told_apart(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *file = make_file(folder, "file", "x", 0644);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	struct berth_error err = {0};
	assert_fails(berth_tar_write_folder("/nowhere/at/all", NULL, berth_sink_buf(&tar), &err), err,
		BERTH_ERROR_NOT_FOUND, "/nowhere/at/all");
	assert_fails(berth_tar_write_folder(file, NULL, berth_sink_buf(&tar), &err), err, BERTH_ERROR_INVALID, file);
	assert_fails(
		berth_tar_write_file(folder, "f", 0644, berth_sink_buf(&tar), &err), err, BERTH_ERROR_INVALID, folder);
}

static void one_file_and_bytes_are_stored_under_their_name(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *file = make_file(folder, "file", "text", 0600);
	BERTH_AUTO(berth_buf_free) struct berth_buf from_file = {0}, from_bytes = {0};
	struct berth_error err;
	assert_ok(berth_tar_write_file(file, "solve.sh", 0755, berth_sink_buf(&from_file), &err), err);
	assert_ok(berth_tar_write_bytes("text", 4, "solve.sh", 0755, berth_sink_buf(&from_bytes), &err), err);
	assert_int_equal(from_file.size, from_bytes.size);
	assert_memory_equal(from_file.data, from_bytes.data, from_file.size);
	assert_int_equal(mode_after(&from_file, "solve.sh"), 0755);
}

static bool refuse(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)data;
	(void)size;
	(*(int *)context)++;
	return berth_fail(err, BERTH_ERROR_EXHAUSTED, "the sink is full");
}

static void a_sink_that_fails_ends_the_writing_with_its_reason(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	int calls = 0;
	struct berth_error err = {0};
	assert_fails(berth_tar_write_folder(folder, NULL, (struct berth_sink){refuse, &calls}, &err), err,
		BERTH_ERROR_EXHAUSTED, "the sink is full");
	assert_int_equal(calls, 1);
}

static void streams_go_through_descriptors(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = make_tree(false);
	BERTH_AUTO_FREE char *back = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(back, "x.tar");
	BERTH_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct berth_error err;
	assert_ok(berth_tar_write_folder(folder, NULL, berth_sink_fd(&fd), &err), err);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_ok(berth_untar(berth_source_fd(&fd), back, NULL, &err), err);
	BERTH_AUTO_FREE char *leaf = berth_path_join(back, "sub/leaf");
	assert_true(berth_file_exists(leaf));
	int closed = -1;
	assert_fails(berth_untar(berth_source_fd(&closed), back, NULL, &err), err, BERTH_ERROR_IO, "stream");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_same_tree_gives_the_same_bytes),
	cmocka_unit_test(the_bytes_do_not_depend_on_the_locale),
	cmocka_unit_test(a_tree_comes_back_whole),
	cmocka_unit_test(private_modes_are_widened_only_when_all_are_private),
	cmocka_unit_test(a_prefix_that_leaves_the_archive_is_refused),
	cmocka_unit_test(a_plain_name_needs_no_extended_header),
	cmocka_unit_test(a_skipped_folder_is_left_out_with_all_that_is_in_it),
	cmocka_unit_test(content_above_the_limit_is_refused_by_name),
	cmocka_unit_test(sockets_and_fifos_are_refused_by_name),
	cmocka_unit_test(a_missing_folder_and_a_file_for_a_folder_are_told_apart),
	cmocka_unit_test(one_file_and_bytes_are_stored_under_their_name),
	cmocka_unit_test(a_sink_that_fails_ends_the_writing_with_its_reason),
	cmocka_unit_test(streams_go_through_descriptors),
};

BERTH_TEST_MAIN(tests)
