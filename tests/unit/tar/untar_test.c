// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"
#include "tests/support/test.h"

// One ustar entry made by hand, so that the tests can say what no honest writer says.
static void add_entry(struct berth_buf *tar, char type, const char *name, const char *link, const char *content)
{
	char head[512] = {0};
	size_t size = content ? strlen(content) : 0;
	snprintf(head, 100, "%s", name);
	snprintf(head + 100, 8, "%07o", type == '5' ? 0755 : 0644);
	snprintf(head + 108, 8, "%07o", 0);
	snprintf(head + 116, 8, "%07o", 0);
	snprintf(head + 124, 12, "%011o", (unsigned)size % (1u << 24));
	snprintf(head + 136, 12, "%011o", 0);
	memset(head + 148, ' ', 8);
	head[156] = type;
	snprintf(head + 157, 100, "%s", link ? link : "");
	memcpy(head + 257, "ustar\00000", 8);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof head; i++) {
		sum += (unsigned char)head[i];
	}
	snprintf(head + 148, 8, "%06o", sum);
	berth_buf_add(tar, head, sizeof head);
	berth_buf_add(tar, content, size);
	while (tar->size % 512) {
		berth_buf_add_byte(tar, 0);
	}
}

static void end_tar(struct berth_buf *tar)
{
	static const char zeros[1024];
	berth_buf_add(tar, zeros, sizeof zeros);
}

static bool unpack(const struct berth_buf *tar, const char *folder, const struct berth_untar_options *options,
	struct berth_error *err)
{
	struct berth_memory rest = {tar->data, tar->size};
	return berth_untar(berth_source_memory(&rest), folder, options, err);
}

static void assert_content(const char *folder, const char *name, const char *wanted)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	struct berth_error err;
	assert_ok(berth_file_read(path, 1 << 20, &content, &err), err);
	assert_string_equal(berth_buf_text(&content), wanted);
}

static bool there(const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct stat found;
	return lstat(path, &found) == 0;
}

struct attack {
	const char *what;
	char type[2];
	const char *name[2];
	const char *link[2];
};

static void entries_that_would_leave_the_folder_are_refused(void **state)
{
	(void)state;
	static const struct attack attacks[] = {
		{"absolute", "0", {"/evil"}, {0}},
		{"parent", "0", {"../evil"}, {0}},
		{"parent inside", "0", {"a/../../evil"}, {0}},
		{"through a link", "20", {"out", "out/evil"}, {".."}},
		{"through an absolute link", "20", {"out", "out/evil"}, {"/tmp"}},
		{"folder through a link", "25", {"out", "out/evil"}, {".."}},
		{"hard link to a parent", "1", {"evil"}, {"../secret"}},
		{"hard link through a link", "21", {"out", "evil"}, {"..", "out/secret"}},
		{"absolute hard link", "1", {"evil"}, {"/etc/passwd"}},
	};
	for (size_t i = 0; i < BERTH_COUNT(attacks); i++) {
		BERTH_AUTO_FREE char *outside = berth_test_folder();
		BERTH_AUTO_FREE char *folder = berth_path_join(outside, "in");
		BERTH_AUTO_FREE char *secret = berth_path_join(outside, "secret");
		assert_true(berth_file_write(secret, "s", 1, 0600, NULL));
		BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
		for (int entry = 0; entry < 2 && attacks[i].name[entry]; entry++) {
			add_entry(&tar, attacks[i].type[entry], attacks[i].name[entry], attacks[i].link[entry],
				attacks[i].type[entry] == '0' ? "x" : NULL);
		}
		end_tar(&tar);
		struct berth_error err = {0};
		print_message("%s\n", attacks[i].what);
		assert_fails(unpack(&tar, folder, NULL, &err), err, BERTH_ERROR_INVALID, "would leave the folder");
		assert_false(there(outside, "evil"));
		assert_false(there(folder, "evil"));
	}
}

static void a_file_in_place_of_a_link_replaces_it_and_not_its_target(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *outside = berth_test_folder();
	BERTH_AUTO_FREE char *folder = berth_path_join(outside, "in");
	BERTH_AUTO_FREE char *victim = berth_path_join(outside, "victim");
	assert_true(berth_file_write(victim, "old", 3, 0600, NULL));
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '2', "f", "../victim", NULL);
	add_entry(&tar, '0', "f", NULL, "new");
	add_entry(&tar, '2', "d", "..", NULL);
	add_entry(&tar, '5', "d/", NULL, NULL);
	add_entry(&tar, '0', "d/g", NULL, "inner");
	end_tar(&tar);
	struct berth_error err;
	assert_ok(unpack(&tar, folder, NULL, &err), err);
	assert_content(folder, "f", "new");
	assert_content(folder, "d/g", "inner");
	assert_content(outside, "victim", "old");
	assert_false(there(outside, "g"));
}

static void links_and_modes_are_kept_and_devices_skipped(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '0', "./a", NULL, "one");
	add_entry(&tar, '1', "./b", "./a", NULL);
	add_entry(&tar, '2', "l", "/etc/hostname", NULL);
	add_entry(&tar, '3', "null", NULL, NULL);
	add_entry(&tar, '6', "pipe", NULL, NULL);
	end_tar(&tar);
	struct berth_error err;
	assert_ok(unpack(&tar, folder, NULL, &err), err);
	assert_content(folder, "b", "one");
	BERTH_AUTO_FREE char *a = berth_path_join(folder, "a");
	BERTH_AUTO_FREE char *link = berth_path_join(folder, "l");
	struct stat found;
	assert_int_equal(stat(a, &found), 0);
	assert_int_equal(found.st_nlink, 2);
	assert_int_equal(found.st_mode & 07777, 0644);
	char target[64] = {0};
	assert_int_equal(readlink(link, target, sizeof target - 1), 13);
	assert_string_equal(target, "/etc/hostname");
	assert_false(there(folder, "null"));
	assert_false(there(folder, "pipe"));
}

static void leading_parts_are_stripped(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '5', "logs/", NULL, NULL);
	add_entry(&tar, '0', "logs/a", NULL, "one");
	add_entry(&tar, '1', "logs/b", "logs/a", NULL);
	add_entry(&tar, '5', "logs/sub/", NULL, NULL);
	end_tar(&tar);
	struct berth_untar_options options = {.strip_parts = 1};
	struct berth_error err;
	assert_ok(unpack(&tar, folder, &options, &err), err);
	assert_content(folder, "b", "one");
	assert_true(there(folder, "sub"));
	assert_false(there(folder, "logs"));
	options.strip_parts = 2;
	BERTH_AUTO_FREE char *other = berth_test_folder();
	assert_ok(unpack(&tar, other, &options, &err), err);
	assert_false(there(other, "a"));
}

static void a_single_file_goes_to_its_own_path(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *target = berth_path_join(folder, "new/place");
	struct berth_untar_options options = {.strip_parts = 1, .single_file = target};
	BERTH_AUTO(berth_buf_free) struct berth_buf one = {0}, two = {0}, tree = {0};
	struct berth_error err;
	add_entry(&one, '0', "source", NULL, "text");
	end_tar(&one);
	assert_ok(unpack(&one, folder, &options, &err), err);
	assert_content(folder, "new/place", "text");

	add_entry(&two, '0', "source", NULL, "text");
	add_entry(&two, '0', "more", NULL, "text");
	end_tar(&two);
	assert_fails(unpack(&two, folder, &options, &err), err, BERTH_ERROR_INVALID, "more");

	add_entry(&tree, '5', "source/", NULL, NULL);
	add_entry(&tree, '0', "source/leaf", NULL, "text");
	end_tar(&tree);
	assert_ok(unpack(&tree, folder, &options, &err), err);
	assert_content(folder, "leaf", "text");
}

static void limits_on_content_and_entries_hold_exactly(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '0', "a", NULL, "12345");
	add_entry(&tar, '0', "b", NULL, "12345");
	end_tar(&tar);
	struct berth_error err;
	struct berth_untar_options fits = {.content_size_max = 10, .entries_max = 2};
	assert_ok(unpack(&tar, folder, &fits, &err), err);
	struct berth_untar_options small = {.content_size_max = 9};
	assert_fails(unpack(&tar, folder, &small, &err), err, BERTH_ERROR_INVALID, "9 bytes");
	struct berth_untar_options few = {.entries_max = 1};
	assert_fails(unpack(&tar, folder, &few, &err), err, BERTH_ERROR_INVALID, "1 entries");
}

static void a_cut_or_foreign_stream_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '0', "a", NULL, "12345");
	struct berth_error err;
	size_t cuts[] = {100, 512, 515};
	for (size_t i = 0; i < BERTH_COUNT(cuts); i++) {
		tar.size = cuts[i];
		assert_fails(unpack(&tar, folder, NULL, &err), err, BERTH_ERROR_INVALID, "damaged");
	}
	struct berth_buf text = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf words = text;
	for (int i = 0; i < 200; i++) {
		berth_buf_add_text(&words, "no tar at all. ");
	}
	assert_fails(unpack(&words, folder, NULL, &err), err, BERTH_ERROR_INVALID, "damaged");
}

static ssize_t fail_source(void *context, void *data, size_t size, struct berth_error *err)
{
	struct berth_memory *rest = context;
	if (rest->size == 0) {
		berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the line is cut");
		return -1;
	}
	return berth_source_memory(rest).get(rest, data, size, err);
}

static void the_sources_own_reason_is_reported(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '0', "a", NULL, "12345");
	struct berth_memory rest = {tar.data, tar.size};
	struct berth_error err;
	assert_fails(berth_untar((struct berth_source){fail_source, &rest}, folder, NULL, &err), err,
		BERTH_ERROR_UNAVAILABLE, "the line is cut");
}

static void padding_after_the_end_is_read_away(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	add_entry(&tar, '0', "a", NULL, "12345");
	for (int i = 0; i < 300; i++) {
		end_tar(&tar);
	}
	struct berth_memory rest = {tar.data, tar.size};
	struct berth_error err;
	assert_ok(berth_untar(berth_source_memory(&rest), folder, NULL, &err), err);
	assert_int_equal(rest.size, 0);
}

static void a_tree_that_is_unpacked_exactly_packs_to_the_same_bytes(void **state)
{
	(void)state;
	struct berth_error err;
	BERTH_AUTO_FREE char *from = berth_test_folder();
	BERTH_AUTO_FREE char *to = berth_test_folder();
	BERTH_AUTO_FREE char *team = berth_path_join(from, "team");
	BERTH_AUTO_FREE char *file = berth_path_join(from, "team/read-only.txt");
	assert_ok(berth_mkdir_all(team, 0755, &err) && berth_file_write(file, "x", 1, 0444, &err), err);
	assert_int_equal(chmod(team, 02775), 0);
	assert_int_equal(chmod(from, 0755), 0);
	BERTH_AUTO(berth_buf_free) struct berth_buf first = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf second = {0};
	struct berth_tar_options options = {0};
	assert_ok(berth_tar_write_folder(from, &options, berth_sink_buf(&first), &err), err);
	struct berth_untar_options exact = {.exact_modes = true};
	assert_ok(unpack(&first, to, &exact, &err), err);
	assert_int_equal(chmod(to, 0755), 0);
	assert_ok(berth_tar_write_folder(to, &options, berth_sink_buf(&second), &err), err);
	assert_int_equal(second.size, first.size);
	assert_memory_equal(second.data, first.data, first.size);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(entries_that_would_leave_the_folder_are_refused),
	cmocka_unit_test(a_file_in_place_of_a_link_replaces_it_and_not_its_target),
	cmocka_unit_test(links_and_modes_are_kept_and_devices_skipped),
	cmocka_unit_test(leading_parts_are_stripped),
	cmocka_unit_test(a_single_file_goes_to_its_own_path),
	cmocka_unit_test(limits_on_content_and_entries_hold_exactly),
	cmocka_unit_test(a_cut_or_foreign_stream_is_refused),
	cmocka_unit_test(the_sources_own_reason_is_reported),
	cmocka_unit_test(padding_after_the_end_is_read_away),
	cmocka_unit_test(a_tree_that_is_unpacked_exactly_packs_to_the_same_bytes),
};

BERTH_TEST_MAIN(tests)
