// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"
#include "tests/docker/engine.h"

static void the_engine_says_what_it_is(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	BERTH_AUTO(berth_docker_info_free) struct berth_docker_info info;
	assert_ok(berth_docker_info(engine->docker, &info, engine_soon(), &err), err);
	assert_true(strlen(info.daemon_id) > 10);
	assert_true(strlen(info.name) > 0);
	assert_true(atoi(info.server_version) >= 20);
	assert_string_equal(info.os_type, "linux");
	assert_true(strcmp(info.architecture, "amd64") == 0 || strcmp(info.architecture, "arm64") == 0);
	assert_int_equal(info.cpus, sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(info.memory_bytes > 100 * 1024 * 1024);
	assert_true(info.cgroup_version == 1 || info.cgroup_version == 2);
	assert_int_equal(info.data_root[0], '/');
}

static void no_daemon_is_unavailable_and_names_the_socket(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	assert_fails(berth_docker_open(engine->http, "unix:///nowhere/docker.sock", engine_soon(), &err), err,
		BERTH_ERROR_UNAVAILABLE, "/nowhere/docker.sock");
	assert_fails(berth_docker_open(engine->http, "tcp://127.0.0.1:2375", engine_soon(), &err), err,
		BERTH_ERROR_UNSUPPORTED, "unix://");
}

static void a_container_is_made_as_it_was_asked_for(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	chmod(folder, 0755);
	BERTH_AUTO_FREE char *file = berth_path_join(folder, "f");
	assert_true(berth_file_write(file, "bound", 5, 0644, NULL));
	BERTH_AUTO_FREE char *bind = berth_format("%s:/bound:ro", folder);
	const char *command[] = {"sleep", "infinity", NULL}, *env[] = {"MINE=1 2", NULL}, *binds[] = {bind, NULL},
		   *hosts[] = {"gateway.test:10.9.8.7", NULL};
	struct berth_docker_label labels[] = {engine_label(engine), {"berth.odd", "a=b,c \"d\""}};
	char name[BERTH_ID_SIZE];
	berth_random_id(name);
	struct berth_docker_create create = {.name = name,
		.image = ENGINE_IMAGE,
		.command = command,
		.env = env,
		.workdir = "/tmp",
		.network = "none",
		.extra_hosts = hosts,
		.binds = binds,
		.cpus = 0.5,
		.memory_mb = 64,
		.labels = labels,
		.labels_count = 2};
	BERTH_AUTO_FREE char *id = NULL;
	bool sent = false;
	struct berth_error err;
	assert_ok(berth_docker_container_create(engine->docker, &create, &id, &sent, engine_soon(), &err), err);
	assert_true(sent);
	struct berth_docker_container created;
	assert_ok(berth_docker_container_inspect(engine->docker, id, &created, engine_soon(), &err), err);
	assert_string_equal(created.status, "created");
	assert_int_equal(created.pid, 0);
	berth_docker_container_free(&created);

	assert_ok(berth_docker_container_start(engine->docker, id, engine_soon(), &err), err);
	assert_ok(berth_docker_container_start(engine->docker, id, engine_soon(), &err), err);
	BERTH_AUTO(berth_docker_container_free) struct berth_docker_container running;
	assert_ok(berth_docker_container_inspect(engine->docker, name, &running, engine_soon(), &err), err);
	assert_string_equal(running.id, id);
	assert_string_equal(running.name, name);
	assert_string_equal(running.status, "running");
	assert_string_equal(running.health, "none");
	assert_string_equal(running.network_mode, "none");
	assert_string_equal(running.workdir, "/tmp");
	assert_int_equal(strncmp(running.image_id, "sha256:", 7), 0);
	assert_true(running.pid > 0);

	BERTH_AUTO_FREE char *seen = engine_shell(engine, id,
		"pwd; echo $MINE; cat /bound/f; grep -c gateway.test /etc/hosts; touch /bound/x 2>/dev/null || echo "
		"ro");
	assert_string_equal(seen, "/tmp\n1 2\nbound1\nro");
	BERTH_AUTO_FREE char *memory = engine_shell(engine, id,
		"cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1");
	assert_string_equal(memory, "67108864");
}

static void a_name_in_use_is_a_conflict_that_was_sent(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_docker_container box;
	struct berth_error err;
	assert_ok(berth_docker_container_inspect(engine->docker, engine->box, &box, engine_soon(), &err), err);
	struct berth_docker_create create = {.name = box.name, .image = ENGINE_IMAGE};
	char *id;
	bool sent = false;
	assert_fails(berth_docker_container_create(engine->docker, &create, &id, &sent, engine_soon(), &err), err,
		BERTH_ERROR_CONFLICT, box.name);
	assert_true(sent);
	berth_docker_container_free(&box);
	create.name = NULL;
	create.image = "no-such-image-here:1";
	assert_fails(berth_docker_container_create(engine->docker, &create, &id, &sent, engine_soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, "no-such-image-here");
	create.image = ENGINE_IMAGE;
	create.memory_mb = 1; // less than any Engine takes
	assert_fails(berth_docker_container_create(engine->docker, &create, &id, &sent, engine_soon(), &err), err,
		BERTH_ERROR_INVALID, "emory");
}

static void containers_are_listed_by_all_of_their_labels(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_docker_label labels[] = {engine_label(engine), {"berth.lease", "l1"}};
	struct berth_docker_create create = {.image = ENGINE_IMAGE, .labels = labels, .labels_count = 2};
	BERTH_AUTO_FREE char *id = NULL;
	struct berth_error err;
	assert_ok(berth_docker_container_create(engine->docker, &create, &id, NULL, engine_soon(), &err), err);
	struct berth_docker_listed *listed;
	size_t count;
	assert_ok(berth_docker_container_list(engine->docker, labels, 2, &listed, &count, engine_soon(), &err), err);
	assert_int_equal(count, 1);
	assert_string_equal(listed[0].id, id);
	assert_true(strlen(listed[0].name) > 0);
	assert_string_equal(berth_docker_listed_label(&listed[0], "berth.lease"), "l1");
	assert_null(berth_docker_listed_label(&listed[0], "berth.leas"));
	berth_docker_listed_free(listed, count);
	labels[1].value = "l2";
	assert_ok(berth_docker_container_list(engine->docker, labels, 2, &listed, &count, engine_soon(), &err), err);
	assert_int_equal(count, 0);
	berth_docker_listed_free(listed, count);
}

static void a_killed_container_shows_its_exit_and_a_removed_one_is_gone(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *id = engine_start_box(engine);
	struct berth_error err;
	assert_ok(berth_docker_container_kill(engine->docker, id, "KILL", engine_soon(), &err), err);
	struct berth_docker_container container;
	do {
		assert_ok(berth_docker_container_inspect(engine->docker, id, &container, engine_soon(), &err), err);
		bool ended = strcmp(container.status, "exited") == 0;
		int exit_code = container.exit_code;
		berth_docker_container_free(&container);
		if (ended) {
			assert_int_equal(exit_code, 137);
			break;
		}
	} while (true);
	assert_fails(berth_docker_container_kill(engine->docker, id, "KILL", engine_soon(), &err), err,
		BERTH_ERROR_CONFLICT, id);
	assert_ok(berth_docker_container_remove(engine->docker, id, engine_soon(), &err), err);
	assert_ok(berth_docker_container_remove(engine->docker, id, engine_soon(), &err), err);
	assert_fails(berth_docker_container_inspect(engine->docker, id, &container, engine_soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, id);
}

static void top_lists_processes_with_their_sessions(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *id = engine_start_box(engine);
	struct berth_docker_process *processes;
	size_t count;
	struct berth_error err;
	assert_ok(berth_docker_container_top(engine->docker, id, &processes, &count, engine_soon(), &err), err);
	assert_int_equal(count, 1);
	assert_true(processes[0].pid > 1);
	assert_int_equal(processes[0].sid, processes[0].pid);
	assert_string_equal(processes[0].args, "sleep infinity");
	berth_docker_processes_free(processes, count);
	assert_ok(berth_docker_container_remove(engine->docker, id, engine_soon(), &err), err);
	assert_fails(berth_docker_container_top(engine->docker, id, &processes, &count, engine_soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, id);
}

static void a_network_is_made_once_listed_and_removed(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_docker_label label = engine_label(engine);
	char name[BERTH_ID_SIZE];
	berth_random_id(name);
	struct berth_docker_network network = {
		.name = name, .isolate_containers = true, .labels = &label, .labels_count = 1};
	BERTH_AUTO_FREE char *id = NULL;
	char *second;
	struct berth_error err;
	assert_ok(berth_docker_network_create(engine->docker, &network, &id, engine_soon(), &err), err);
	assert_fails(berth_docker_network_create(engine->docker, &network, &second, engine_soon(), &err), err,
		BERTH_ERROR_CONFLICT, name);
	struct berth_docker_listed *listed;
	size_t count;
	assert_ok(berth_docker_network_list(engine->docker, &label, 1, &listed, &count, engine_soon(), &err), err);
	assert_int_equal(count, 1);
	assert_string_equal(listed[0].id, id);
	assert_string_equal(listed[0].name, name);
	berth_docker_listed_free(listed, count);

	const char *command[] = {"sleep", "infinity", NULL};
	struct berth_docker_create create = {
		.image = ENGINE_IMAGE, .command = command, .network = name, .labels = &label, .labels_count = 1};
	BERTH_AUTO_FREE char *member = NULL;
	assert_ok(berth_docker_container_create(engine->docker, &create, &member, NULL, engine_soon(), &err), err);
	assert_ok(berth_docker_container_start(engine->docker, member, engine_soon(), &err), err);
	assert_fails(berth_docker_network_remove(engine->docker, id, engine_soon(), &err), err, BERTH_ERROR_CONFLICT,
		"active endpoints");
	assert_ok(berth_docker_container_remove(engine->docker, member, engine_soon(), &err), err);
	assert_ok(berth_docker_network_remove(engine->docker, id, engine_soon(), &err), err);
	assert_fails(
		berth_docker_network_remove(engine->docker, id, engine_soon(), &err), err, BERTH_ERROR_NOT_FOUND, id);
}

static void members_of_an_isolated_network_cannot_reach_each_other(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_docker_label label = engine_label(engine);
	const char *command[] = {"python3", "-m", "http.server", "8000", NULL};
	for (int isolate = 0; isolate < 2; isolate++) {
		char name[BERTH_ID_SIZE], peer_name[BERTH_ID_SIZE];
		berth_random_id(name);
		berth_random_id(peer_name);
		struct berth_docker_network network = {
			.name = name, .isolate_containers = isolate, .labels = &label, .labels_count = 1};
		BERTH_AUTO_FREE char *id = NULL, *a = NULL, *b = NULL;
		struct berth_error err;
		assert_ok(berth_docker_network_create(engine->docker, &network, &id, engine_soon(), &err), err);
		struct berth_docker_create create = {.name = peer_name,
			.image = ENGINE_IMAGE,
			.command = command,
			.network = name,
			.labels = &label,
			.labels_count = 1};
		assert_ok(berth_docker_container_create(engine->docker, &create, &a, NULL, engine_soon(), &err), err);
		create.name = NULL;
		assert_ok(berth_docker_container_create(engine->docker, &create, &b, NULL, engine_soon(), &err), err);
		assert_ok(berth_docker_container_start(engine->docker, a, engine_soon(), &err), err);
		assert_ok(berth_docker_container_start(engine->docker, b, engine_soon(), &err), err);
		BERTH_AUTO_FREE char *script = berth_format(
			"curl -s -o /dev/null --retry %d --retry-delay 1 --retry-connrefused --max-time %d "
			"http://%s:8000/ && echo reached || echo cut",
			isolate ? 0 : 20, isolate ? 2 : 30, peer_name);
		BERTH_AUTO_FREE char *seen = engine_shell(engine, b, script);
		assert_string_equal(seen, isolate ? "cut" : "reached");
		assert_ok(berth_docker_container_remove(engine->docker, a, engine_soon(), &err), err);
		assert_ok(berth_docker_container_remove(engine->docker, b, engine_soon(), &err), err);
		assert_ok(berth_docker_network_remove(engine->docker, id, engine_soon(), &err), err);
	}
}

static void files_go_in_and_come_back(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0}, back = {0}, single = {0};
	struct berth_error err;
	BERTH_AUTO_FREE char *source = berth_test_folder();
	BERTH_AUTO_FREE char *file = berth_path_join(source, "a \xc3\xa9/e\xcc\x81");
	BERTH_AUTO_FREE char *folder = berth_path_join(source, "a \xc3\xa9");
	assert_true(berth_mkdir_all(folder, 0750, NULL));
	assert_true(berth_file_write(file, "text", 4, 0640, NULL));
	struct berth_tar_options options = {.prefix = "up/load"};
	assert_ok(berth_tar_write_folder(source, &options, berth_sink_buf(&tar), &err), err);
	struct berth_memory rest = {tar.data, tar.size};
	assert_ok(berth_docker_archive_put(
			  engine->docker, engine->box, "/tmp", berth_source_memory(&rest), engine_soon(), &err),
		err);
	BERTH_AUTO_FREE char *seen = engine_shell(
		engine, engine->box, "cd /tmp/up/load; stat -c '%a %u %Y' a*/*; cat a*/*; ls a* | od -An -tx1");
	assert_string_equal(seen, "640 0 0\ntext 65 cc 81 0a");

	assert_ok(berth_docker_archive_get(
			  engine->docker, engine->box, "/tmp/up/load", berth_sink_buf(&back), engine_soon(), &err),
		err);
	BERTH_AUTO_FREE char *target = berth_test_folder();
	rest = (struct berth_memory){back.data, back.size};
	struct berth_untar_options strip = {.strip_parts = 1};
	assert_ok(berth_untar(berth_source_memory(&rest), target, &strip, &err), err);
	BERTH_AUTO_FREE char *copy = berth_path_join(target, "a \xc3\xa9/e\xcc\x81");
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	assert_ok(berth_file_read(copy, 100, &content, &err), err);
	assert_string_equal(berth_buf_text(&content), "text");

	assert_ok(berth_docker_archive_get(
			  engine->docker, engine->box, "/etc/hostname", berth_sink_buf(&single), engine_soon(), &err),
		err);
	BERTH_AUTO_FREE char *host = berth_path_join(target, "my-host");
	rest = (struct berth_memory){single.data, single.size};
	strip.single_file = host;
	assert_ok(berth_untar(berth_source_memory(&rest), target, &strip, &err), err);
	assert_true(berth_file_exists(host));
}

static void copies_from_and_to_nowhere_are_not_found(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0}, tar = {0};
	struct berth_error err;
	assert_fails(berth_docker_archive_get(
			     engine->docker, engine->box, "/no/such", berth_sink_buf(&out), engine_soon(), &err),
		err, BERTH_ERROR_NOT_FOUND, "/no/such");
	assert_int_equal(out.size, 0);
	assert_ok(berth_tar_write_bytes("x", 1, "x", 0644, berth_sink_buf(&tar), &err), err);
	struct berth_memory rest = {tar.data, tar.size};
	assert_fails(berth_docker_archive_put(
			     engine->docker, engine->box, "/no/such", berth_source_memory(&rest), engine_soon(), &err),
		err, BERTH_ERROR_NOT_FOUND, "/no/such");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_engine_says_what_it_is),
	cmocka_unit_test(no_daemon_is_unavailable_and_names_the_socket),
	cmocka_unit_test(a_container_is_made_as_it_was_asked_for),
	cmocka_unit_test(a_name_in_use_is_a_conflict_that_was_sent),
	cmocka_unit_test(containers_are_listed_by_all_of_their_labels),
	cmocka_unit_test(a_killed_container_shows_its_exit_and_a_removed_one_is_gone),
	cmocka_unit_test(top_lists_processes_with_their_sessions),
	cmocka_unit_test(a_network_is_made_once_listed_and_removed),
	cmocka_unit_test(members_of_an_isolated_network_cannot_reach_each_other),
	cmocka_unit_test(files_go_in_and_come_back),
	cmocka_unit_test(copies_from_and_to_nowhere_are_not_found),
};

ENGINE_TEST_MAIN(tests)
