// SPDX-License-Identifier: Apache-2.0
// The parsers of what a daemon streams: pure, so without a daemon.
#include <stdlib.h>
#include <string.h>

#include "agent/docker/build.h"
#include "agent/docker/frames.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

struct outputs {
	struct berth_buf out, err;
	size_t stop_after;
};

static bool collect(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	struct outputs *outputs = context;
	berth_buf_add(stream == BERTH_DOCKER_STDOUT ? &outputs->out : &outputs->err, data, size);
	return outputs->stop_after == 0 || outputs->out.size < outputs->stop_after;
}

static const char two_streams[] =
	"\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\4\0\xff\xc3\n";

static void frames_may_be_split_anywhere(void **state)
{
	(void)state;
	size_t size = sizeof two_streams - 1;
	for (size_t step = 1; step <= size; step++) {
		struct outputs outputs = {0};
		struct docker_frames frames = {.put = collect, .context = &outputs};
		struct berth_error err;
		for (size_t at = 0; at < size; at += step) {
			size_t part = step < size - at ? step : size - at;
			assert_int_equal(docker_frames_feed(&frames, two_streams + at, part, &err), DOCKER_FRAMES_GOOD);
		}
		assert_true(docker_frames_at_end(&frames));
		assert_int_equal(outputs.out.size, 9);
		assert_memory_equal(outputs.out.data, "hello\0\xff\xc3\n", 9);
		assert_string_equal(berth_buf_text(&outputs.err), "err");
		berth_buf_free(&outputs.out);
		berth_buf_free(&outputs.err);
	}
}

static void bytes_that_are_no_frame_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"\0\0\0\0\0\0\0\1x", "\4\0\0\0\0\0\0\1x", "\1\1\0\0\0\0\0\1x", "OCI runtime"};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		struct outputs outputs = {0};
		struct docker_frames frames = {.put = collect, .context = &outputs};
		struct berth_error err = {0};
		assert_int_equal(docker_frames_feed(&frames, bad[i], 9, &err), DOCKER_FRAMES_BAD);
		assert_int_equal(err.code, BERTH_ERROR_IO);
	}
	struct docker_frames frames = {.put = collect};
	struct berth_error err = {0};
	assert_int_equal(docker_frames_feed(&frames, "\3\0\0\0\0\0\0\4oops", 12, &err), DOCKER_FRAMES_BAD);
	assert_non_null(strstr(err.message, "oops"));
}

static void a_stop_is_passed_on_and_a_cut_frame_is_seen(void **state)
{
	(void)state;
	struct outputs outputs = {.stop_after = 3};
	struct docker_frames frames = {.put = collect, .context = &outputs};
	struct berth_error err;
	assert_int_equal(docker_frames_feed(&frames, two_streams, 10, &err), DOCKER_FRAMES_GOOD);
	assert_false(docker_frames_at_end(&frames));
	assert_int_equal(docker_frames_feed(&frames, two_streams + 10, 3, &err), DOCKER_FRAMES_STOPPED);
	berth_buf_free(&outputs.out);
}

// --- trace records, written by hand ---
static void add_field(struct berth_buf *out, int field, const void *data, size_t size)
{
	berth_buf_add_byte(out, (uint8_t)(field << 3 | 2));
	assert_true(size < 16384);
	if (size >= 128) {
		berth_buf_add_byte(out, (uint8_t)(size & 127) | 128);
		berth_buf_add_byte(out, (uint8_t)(size >> 7));
	} else {
		berth_buf_add_byte(out, (uint8_t)size);
	}
	berth_buf_add(out, data, size);
}

static void add_vertex(struct berth_buf *out, const char *digest, const char *name, bool completed, const char *error)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf vertex = {0};
	add_field(&vertex, 1, digest, strlen(digest));
	add_field(&vertex, 3, name, strlen(name));
	add_field(&vertex, 5, "\x08\x01", 2);
	if (completed) {
		add_field(&vertex, 6, "\x08\x02", 2);
	}
	if (error) {
		add_field(&vertex, 7, error, strlen(error));
	}
	add_field(out, 1, vertex.data, vertex.size);
}

static void add_log(struct berth_buf *out, const char *digest, const char *text)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf log = {0};
	add_field(&log, 1, digest, strlen(digest));
	berth_buf_add(&log, "\x18\x01", 2);
	add_field(&log, 4, text, strlen(text));
	add_field(out, 3, log.data, log.size);
}

static void a_trace_becomes_a_readable_log(void **state)
{
	(void)state;
	BERTH_AUTO(berth_buf_free) struct berth_buf record = {0}, log = {0};
	BERTH_AUTO(trace_free) struct trace trace = {.log = berth_sink_buf(&log)};
	add_vertex(&record, "sha256:a", "[1/2] FROM base", true, NULL);
	add_vertex(&record, "sha256:b", "[2/2] RUN make", false, NULL);
	add_log(&record, "sha256:b", "one\ntwo\nthree");
	add_vertex(&record, "sha256:b", "[2/2] RUN make", true, "exit code: 2");
	struct berth_error err;
	assert_ok(trace_feed(&trace, record.data, record.size, &err), err);
	assert_string_equal(berth_buf_text(&log), "#1 [1/2] FROM base\n#1 DONE\n#2 [2/2] RUN make\n#2 one\n#2 two\n"
						  "#2 three\n#2 ERROR: exit code: 2\n");
	const struct trace_step *failed = trace_failed_step(&trace);
	assert_non_null(failed);
	assert_string_equal(failed->name, "[2/2] RUN make");
	assert_string_equal(berth_buf_text(&failed->tail), "one\ntwo\nthree");
}

static void a_damaged_trace_is_refused_wherever_it_is_cut(void **state)
{
	(void)state;
	BERTH_AUTO(berth_buf_free) struct berth_buf record = {0};
	add_vertex(&record, "sha256:a", "[1/2] FROM base", true, NULL);
	for (size_t size = 1; size < record.size; size++) {
		BERTH_AUTO(trace_free) struct trace trace = {0};
		struct berth_error err = {0};
		assert_fails(trace_feed(&trace, record.data, size, &err), err, BERTH_ERROR_INTERNAL, "damaged");
	}
}

static void steps_and_their_tails_are_bounded(void **state)
{
	(void)state;
	BERTH_AUTO(trace_free) struct trace trace = {0};
	struct berth_error err;
	BERTH_AUTO_FREE char *text = berth_alloc(10001);
	memset(text, 'x', 10000);
	for (int i = 0; i < TRACE_STEPS_MAX + 50; i++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf record = {0};
		BERTH_AUTO_FREE char *digest = berth_format("sha256:%d", i);
		add_vertex(&record, digest, "name", false, NULL);
		add_log(&record, digest, i % 100 ? "short" : text);
		assert_ok(trace_feed(&trace, record.data, record.size, &err), err);
	}
	assert_int_equal(trace.count, TRACE_STEPS_MAX);
	assert_int_equal(trace.steps[0].tail.size, TRACE_TAIL_SIZE);
}

// --- whole answers ---
static bool answer_fails(const char *lines, const char *dockerfile, struct berth_error *err)
{
	struct dockerfile_notes notes;
	dockerfile_read(dockerfile, strlen(dockerfile), &notes);
	struct build_answer answer;
	build_answer_start(&answer, (struct berth_sink){0});
	assert_ok(docker_lines_put(&answer.lines, lines, strlen(lines), err), *err);
	assert_ok(docker_lines_end(&answer.lines, err), *err);
	assert_non_null(answer.error);
	bool good = build_answer_fail(&answer, "build t:1", "Dockerfile", &notes, err);
	build_answer_free(&answer);
	dockerfile_notes_free(&notes);
	return good;
}

#define DETAIL(message) "{\"errorDetail\":{\"message\":\"" message "\"},\"error\":\"" message "\"}"

static void what_a_build_says_becomes_a_code(void **state)
{
	(void)state;
	static const struct {
		const char *lines, *dockerfile, *part;
		enum berth_error_code code;
	} rows[] = {
		{"{\"stream\":\"last words\\n\"}\n" DETAIL(
			 "The command '/bin/sh -c x' returned a non-zero code: 7") "\n",
			"FROM x", "exit code 7", BERTH_ERROR_INVALID},
		{"{\"stream\":\"last words\\n\"}\n" DETAIL("process x did not complete successfully: exit code: 1"),
			"FROM x", "last words", BERTH_ERROR_INVALID},
		{DETAIL("write /var/lib/x: no space left on device"), "FROM x", "free disk space",
			BERTH_ERROR_EXHAUSTED},
		{DETAIL("Get \\\"https://reg.test/v2/\\\": dial tcp: lookup reg.test: no such host"), "FROM x",
			"registry reg.test", BERTH_ERROR_UNAVAILABLE},
		{DETAIL("failed to do request: Head \\\"https://registry-1.docker.io/v2/docker/dockerfile/manifests/"
			"1\\\": dial tcp: i/o timeout"),
			"# syntax=docker/dockerfile:1\nFROM x", "Dockerfile:1", BERTH_ERROR_UNAVAILABLE},
		{DETAIL("dockerfile parse error line 3: unknown instruction: ECHO"), "FROM x", "line 3",
			BERTH_ERROR_INVALID},
		{DETAIL("pull access denied, repository does not exist"), "FROM x", "denied", BERTH_ERROR_INVALID},
		{DETAIL("rpc error: code = Unknown desc = mount failed"), "FROM x", "mount", BERTH_ERROR_INTERNAL},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err = {0};
		assert_fails(answer_fails(rows[i].lines, rows[i].dockerfile, &err), err, rows[i].code, rows[i].part);
	}
}

static void a_line_that_is_no_json_or_no_trace_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"<html>\n", "{\"a\":1\n",
		"{\"id\":\"moby.buildkit.trace\",\"aux\":\"***\"}\n", "{\"id\":\"moby.buildkit.trace\",\"aux\":{}}\n"};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		struct build_answer answer;
		build_answer_start(&answer, (struct berth_sink){0});
		struct berth_error err = {0};
		assert_fails(docker_lines_put(&answer.lines, bad[i], strlen(bad[i]), &err), err, BERTH_ERROR_INTERNAL,
			"daemon");
		build_answer_free(&answer);
	}
}

// --- Dockerfiles ---
static void heredocs_are_found_and_look_alikes_are_not(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int line;
	} rows[] = {{"FROM x\nRUN <<EOF\n", 2}, {"RUN cat <<-'END' > f", 1}, {"RUN a \\\n  b 3<<\"X\"", 2},
		{"COPY <<EOF /x", 1}, {"RUN cat <<< word", 0}, {"RUN echo $((1 << 2)) $((x<<y))", 0},
		{"RUN echo ' <<EOF'", 0}, {"# RUN <<EOF", 0}, {"ENV A=<<EOF", 0}, {"LABEL a=1\nCMD x <<EOF", 0},
		{"", 0}, {"RUN a <<", 0}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct dockerfile_notes notes;
		dockerfile_read(rows[i].text, strlen(rows[i].text), &notes);
		if (notes.heredoc_line != rows[i].line) {
			fail_msg("%s: line %d", rows[i].text, notes.heredoc_line);
		}
		dockerfile_notes_free(&notes);
	}
}

static void a_syntax_line_counts_only_at_the_top(void **state)
{
	(void)state;
	static const struct {
		const char *text, *syntax;
		int line;
	} rows[] = {{"# syntax=docker/dockerfile:1\r\nFROM x", "docker/dockerfile:1", 1},
		{"#escape=`\n#  SYNTAX = a/b\nFROM x", "a/b", 2}, {"# a comment\n# syntax=a\nFROM x", NULL, 0},
		{"FROM x\n# syntax=a", NULL, 0}, {"\n# syntax=a\n", NULL, 0}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct dockerfile_notes notes;
		dockerfile_read(rows[i].text, strlen(rows[i].text), &notes);
		assert_int_equal(notes.syntax_line, rows[i].line);
		if (rows[i].syntax) {
			assert_string_equal(notes.syntax, rows[i].syntax);
		} else {
			assert_null(notes.syntax);
		}
		dockerfile_notes_free(&notes);
	}
}

static void the_dockerfile_is_found_in_a_passing_tar(void **state)
{
	(void)state;
	static const char text[] = "FROM x\nRUN <<EOF\nEOF\n";
	BERTH_AUTO_FREE char *long_name = berth_alloc(201);
	memset(long_name, 'n', 200);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	// Before it an entry with an extended header; the end of the first archive is cut off.
	assert_true(berth_tar_write_bytes("abc", 3, long_name, 0644, berth_sink_buf(&tar), NULL));
	tar.size -= 1024;
	assert_true(berth_tar_write_bytes(text, strlen(text), "Dockerfile", 0644, berth_sink_buf(&tar), NULL));
	for (size_t step = 512; step < 2000; step += 371) {
		struct berth_memory rest = {tar.data, tar.size};
		BERTH_AUTO(dockerfile_peek_free)
		struct dockerfile_peek peek = {.tar = berth_source_memory(&rest), .name = "Dockerfile"};
		struct berth_source source = dockerfile_peek_source(&peek);
		BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
		BERTH_AUTO_FREE char *data = berth_alloc(step);
		struct berth_error err;
		ssize_t got;
		while ((got = source.get(source.context, data, step, &err)) > 0) {
			berth_buf_add(&out, data, (size_t)got);
		}
		assert_int_equal(peek.notes.heredoc_line, 2);
		assert_int_equal(out.size, tar.size + 512);
		assert_string_equal((char *)out.data, "./");
		assert_memory_equal(out.data + 512, tar.data, tar.size);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(frames_may_be_split_anywhere),
	cmocka_unit_test(bytes_that_are_no_frame_are_refused),
	cmocka_unit_test(a_stop_is_passed_on_and_a_cut_frame_is_seen),
	cmocka_unit_test(a_trace_becomes_a_readable_log),
	cmocka_unit_test(a_damaged_trace_is_refused_wherever_it_is_cut),
	cmocka_unit_test(steps_and_their_tails_are_bounded),
	cmocka_unit_test(what_a_build_says_becomes_a_code),
	cmocka_unit_test(a_line_that_is_no_json_or_no_trace_is_refused),
	cmocka_unit_test(heredocs_are_found_and_look_alikes_are_not),
	cmocka_unit_test(a_syntax_line_counts_only_at_the_top),
	cmocka_unit_test(the_dockerfile_is_found_in_a_passing_tar),
};

BERTH_TEST_MAIN(tests)
