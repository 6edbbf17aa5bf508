// SPDX-License-Identifier: Apache-2.0
// A whole agent against a coordinator that is a real gRPC server.
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"
#include "tests/unit/session/agent_under_test.h"

struct world {
	struct fake fake;
	struct fake_host host;
	char *folder, *state;
	struct agent_under_test agent;
};

static struct world *open_world(void)
{
	struct world *world = berth_alloc(sizeof *world);
	world->folder = berth_test_folder();
	world->state = berth_path_join(world->folder, "state");
	fake_open(&world->fake);
	fake_host_open(&world->host, world->folder);
	return world;
}

static void start(struct world *world)
{
	agent_start(&world->agent, &world->fake, &world->host, world->state);
}

static void close_world(struct world *world)
{
	if (world->fake.faults) {
		fail_msg("%u faults of the agent; the first: %s", world->fake.faults, world->fake.fault);
	}
	fake_close(&world->fake);
	fake_host_close(&world->host);
	free(world->folder);
	free(world->state);
	free(world);
}

static bool all_accepted(struct fake *fake)
{
	for (size_t i = 0; i < fake->trials_count; i++) {
		if (!fake->trials[i].accepted) {
			return false;
		}
	}
	return true;
}

static bool has_heartbeat(struct fake *fake)
{
	return fake->heartbeat != NULL;
}

static bool is_running(struct fake *fake)
{
	return fake->heartbeat && fake->heartbeat->n_running > 0 && strcmp(fake->progress, "agent_execution") == 0;
}

static void let_trials_run(struct world *world)
{
	atomic_store(&world->host.hold_runs, false);
}

static void trials_run_and_their_results_are_reported_with_their_folders(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 7);
	start(world);
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(fake_host_runs(&world->host), 7);
	assert_int_equal(fake_host_resources(&world->host), 0);
	assert_int_equal(world->fake.leases_count, 7);
	assert_int_equal(fake_open_leases(&world->fake), 0);
	assert_int_equal(world->fake.gets, 1); // one bundle for all
	assert_int_equal(world->fake.puts, 4); // the folders that are too large to go with their reports
	for (size_t i = 0; i < 7; i++) {
		const Berth__V1__TrialResult *result = world->fake.trials[i].result;
		assert_int_equal(result->outcome, BERTH__V1__OUTCOME__OUTCOME_SCORED);
		struct fake_blob *blob = fake_blob(&world->fake, result->folder);
		assert_int_equal(blob->bytes.size, result->folder->size);
		BERTH_AUTO_FREE char *target = berth_format("%s/out%zu", world->folder, i);
		struct berth_memory memory = {.data = blob->bytes.data, .size = blob->bytes.size};
		struct berth_error err;
		struct berth_untar_options options = {0};
		assert_ok(berth_untar(berth_source_memory(&memory), target, &options, &err), err);
		BERTH_AUTO_FREE char *log = berth_path_join(target, "trial.log");
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		assert_ok(berth_file_read(log, 1000, &text, &err), err);
		BERTH_AUTO_FREE char *wanted = berth_format("trial %zu.1\n", i);
		assert_string_equal(berth_buf_text(&text), wanted);
	}
	BERTH_AUTO_FREE char *spool = berth_path_join(world->state, "spool");
	assert_int_equal(rmdir(spool), 0); // nothing is left in it
	close_world(world);
}

static bool has_reports(struct fake *fake)
{
	return fake->reports >= 2; // DISPATCHING and ACTIVE of the first lease
}

static void a_restarted_coordinator_gets_unacknowledged_reports_again_and_applies_each_once(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 2);
	atomic_store(&world->host.hold_runs, true);
	world->fake.no_acks = true;
	start(world);
	assert_true(fake_wait(&world->fake, has_reports));
	fake_stop(&world->fake);
	let_trials_run(world); // they end while nobody is there
	pthread_mutex_lock(&world->fake.lock);
	world->fake.no_acks = false;
	world->fake.number++;
	for (size_t i = 0; i < world->fake.boots_count; i++) {
		world->fake.boots[i].applied = 0; // it lost what it had not acknowledged
	}
	world->fake.leases_count = 0;
	pthread_mutex_unlock(&world->fake.lock);
	fake_start(&world->fake);
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(world->fake.repeats, 0);
	assert_int_equal(fake_host_runs(&world->host), 2); // the restart stopped nothing
	assert_int_equal(fake_open_leases(&world->fake), 0);
	close_world(world);
}

static bool has_come_back(struct fake *fake)
{
	return fake->hellos >= 2;
}

static void a_coordinator_that_falls_silent_is_left_and_connected_again(void **state)
{
	(void)state;
	struct world *world = open_world();
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	pthread_mutex_lock(&world->fake.lock);
	world->fake.mute = true;
	pthread_mutex_unlock(&world->fake.lock);
	assert_true(fake_wait(&world->fake, has_come_back));
	agent_end(&world->agent);
	close_world(world);
}

static void a_twin_is_refused_and_gives_no_trial(void **state)
{
	(void)state;
	struct world *world = open_world();
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	fake_stop(&world->fake);
	world->fake.nonce++;
	world->fake.heartbeats = 0;
	world->fake.hellos = 0;
	fake_add_trials(&world->fake, 1);
	fake_start(&world->fake);
	assert_true(fake_wait(&world->fake, has_come_back)); // and was left again
	agent_end(&world->agent);
	assert_int_equal(world->fake.heartbeats, 0);
	assert_int_equal(atomic_load(&world->host.runs), 0);
	close_world(world);
}

static void a_revoked_trial_is_ended_and_its_lease_retired(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	atomic_store(&world->host.hold_runs, true);
	start(world);
	assert_true(fake_wait(&world->fake, is_running));
	fake_revoke(&world->fake, 0);
	assert_true(fake_wait(&world->fake, all_accepted));
	assert_int_equal(world->fake.trials[0].result->outcome, BERTH__V1__OUTCOME__OUTCOME_CANCELLED);
	assert_null(world->fake.trials[0].result->folder);
	agent_end(&world->agent);
	assert_int_equal(fake_open_leases(&world->fake), 0);
	assert_int_equal(fake_host_resources(&world->host), 0);
	close_world(world);
}

static bool is_lost(struct fake *fake)
{
	return fake->trials[0].refused > 0;
}

static void a_trial_whose_hold_is_over_is_ended_and_can_run_again(void **state)
{
	(void)state;
	struct world *world = open_world();
	world->fake.hold_ms = 1500;
	fake_add_trials(&world->fake, 1);
	atomic_store(&world->host.hold_runs, true);
	start(world);
	assert_true(fake_wait(&world->fake, is_running));
	fake_stop(&world->fake);
	struct berth_until until = berth_within_ms(60000, NULL);
	while (atomic_load(&world->host.running) && berth_sleep_ms(5, until, NULL)) {
	}
	assert_int_equal(atomic_load(&world->host.running), 0);
	let_trials_run(world);
	fake_start(&world->fake);
	assert_true(fake_wait(&world->fake, is_lost));
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(world->fake.trials[0].generation, 2);
	assert_int_equal(fake_open_leases(&world->fake), 0);
	close_world(world);
}

#define FAR_BEYOND_HOLD_MS 30000 // and before the run ends by itself

static atomic_bool disk_hangs;

// In the place of libc's, for RocksDB too.
int fdatasync(int fd)
{
	while (atomic_load(&disk_hangs)) {
		berth_sleep_ms(5, berth_within_ms(60000, NULL), NULL);
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void a_hold_ends_in_time_while_the_disk_hangs(void **state)
{
	(void)state;
	struct world *world = open_world();
	world->fake.hold_ms = 3000;
	fake_add_trials(&world->fake, 1);
	atomic_store(&world->host.hold_runs, true);
	start(world);
	assert_true(fake_wait(&world->fake, is_running));
	fake_stop(&world->fake);
	atomic_store(&disk_hangs, true);
	pthread_mutex_lock(&world->fake.lock);
	world->fake.number++; // which the agent writes down before it obeys
	world->fake.heartbeats = 0;
	pthread_mutex_unlock(&world->fake.lock);
	fake_start(&world->fake);
	assert_true(fake_wait(&world->fake, has_come_back));
	struct berth_until until = berth_within_ms(FAR_BEYOND_HOLD_MS, NULL);
	while (!atomic_load(&world->host.cancelled) && berth_sleep_ms(5, until, NULL)) {
	}
	assert_int_equal(atomic_load(&world->host.cancelled), 1);
	assert_int_equal(world->fake.heartbeats, 0); // it had not obeyed
	atomic_store(&disk_hangs, false);
	let_trials_run(world);
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(fake_open_leases(&world->fake), 0);
	close_world(world);
}

static void hello_waits_until_everything_of_the_past_is_dead(void **state)
{
	(void)state;
	struct world *world = open_world();
	atomic_store(&world->host.open_failures, 2);
	fake_host_leave(&world->host, "someones-lease");
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	assert_int_equal(atomic_load(&world->host.opens), 3);
	assert_int_equal(fake_host_resources(&world->host), 0);
	agent_end(&world->agent);
	close_world(world);
}

static bool tells_of_docker(struct fake *fake)
{
	return fake->heartbeat && !fake->heartbeat->accepting && strstr(fake->heartbeat->trouble, "start the daemon");
}

static bool tells_of_the_disk(struct fake *fake)
{
	return fake->heartbeat && !fake->heartbeat->accepting && strstr(fake->heartbeat->trouble, "MB are free at");
}

static bool is_accepting(struct fake *fake)
{
	return fake->heartbeat && fake->heartbeat->accepting;
}

static void a_broken_host_says_so_and_takes_no_trial_until_it_is_mended(void **state)
{
	(void)state;
	struct world *world = open_world();
	atomic_store(&world->host.broken, true);
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	assert_true(fake_wait(&world->fake, tells_of_docker));
	fake_add_trials(&world->fake, 1);
	atomic_store(&world->host.broken, false);
	assert_true(fake_wait(&world->fake, is_accepting));
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	close_world(world);
}

static void a_full_disk_says_so(void **state)
{
	(void)state;
	struct world *world = open_world();
	world->agent.disk_free_min_bytes = INT64_MAX;
	start(world);
	assert_true(fake_wait(&world->fake, tells_of_the_disk));
	agent_end(&world->agent);
	close_world(world);
}

static void a_shutdown_ends_trials_and_flushes_the_outbox(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	atomic_store(&world->host.hold_runs, true);
	start(world);
	assert_true(fake_wait(&world->fake, is_running));
	agent_end(&world->agent);
	assert_int_equal(fake_host_resources(&world->host), 0);
	assert_int_equal(fake_open_leases(&world->fake), 0);
	assert_int_equal(world->fake.trials[0].refused, 1); // INFRASTRUCTURE: the fleet runs it again
	assert_int_equal(world->fake.trials[0].generation, 2);
	close_world(world);
}

static void await_runs(struct world *world, size_t runs)
{
	struct berth_until until = berth_within_ms(60000, NULL);
	while (fake_host_runs(&world->host) < runs && berth_sleep_ms(5, until, NULL)) {
	}
	assert_int_equal(fake_host_runs(&world->host), runs);
}

static bool is_finished_and_gone(struct fake *fake)
{
	return fake_open_leases(fake) == 0 && fake->leases_count > 0;
}

static void a_finished_result_is_uploaded_by_the_next_life_and_not_run_again(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	world->agent.drain_ms = 1; // nothing is waited for
	atomic_store(&world->host.hold_runs, true);
	start(world);
	// The bundle was fetched once the run began; from then on no blob goes through.
	assert_true(fake_wait(&world->fake, is_running));
	pthread_mutex_lock(&world->fake.lock);
	world->fake.refuse_blobs = true;
	pthread_mutex_unlock(&world->fake.lock);
	let_trials_run(world);
	await_runs(world, 1);
	assert_true(fake_wait(&world->fake, is_finished_and_gone));
	agent_end(&world->agent);
	assert_int_equal(world->fake.trials[0].accepted, 0);
	assert_int_equal(world->fake.puts, 0);
	world->fake.refuse_blobs = false;
	start(world);
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(world->fake.trials[0].generation, 1);
	assert_int_equal(fake_host_runs(&world->host), 1);
	assert_int_equal(world->fake.puts, 1);
	close_world(world);
}

static void h17_a_lease_that_could_not_be_retired_is_settled_later(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	atomic_store(&world->host.kill_fails, true);
	assert_true(fake_wait(&world->fake, all_accepted));
	assert_int_equal(fake_open_leases(&world->fake), 1);
	atomic_store(&world->host.kill_fails, false);
	assert_true(fake_wait(&world->fake, is_finished_and_gone));
	agent_end(&world->agent);
	assert_int_equal(fake_host_resources(&world->host), 0);
	close_world(world);
}

static void a_runner_that_is_not_in_order_is_tidied_again_and_holds_nothing_back(void **state)
{
	(void)state;
	struct world *world = open_world();
	atomic_store(&world->host.tidy_fails, true);
	fake_add_trials(&world->fake, 2);
	start(world);
	assert_true(fake_wait(&world->fake, is_finished_and_gone));
	struct berth_until until = berth_within_ms(60000, NULL);
	while (atomic_load(&world->host.tidies) < 3 && berth_sleep_ms(20, until, NULL)) {
	}
	assert_true(atomic_load(&world->host.tidies) >= 3);
	agent_end(&world->agent);
	close_world(world);
}

// The sweeper of these tests begins every 100 ms.
#define LOOKS_MS 1500 // in which a start has tried several times

static void what_another_docker_daemon_shows_settles_nothing(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	atomic_store(&world->host.kill_fails, true);
	assert_true(fake_wait(&world->fake, all_accepted));
	agent_end(&world->agent);
	assert_int_equal(fake_open_leases(&world->fake), 1);
	atomic_store(&world->host.kill_fails, false);
	unsigned hellos = world->fake.hellos, kills = atomic_load(&world->host.kills);
	world->host.daemon_id = "another";
	start(world);
	berth_sleep_ms(LOOKS_MS, berth_within_ms(60000, NULL), NULL);
	agent_end(&world->agent);
	assert_int_equal(world->fake.hellos, hellos);
	assert_int_equal(atomic_load(&world->host.kills), kills);
	assert_int_equal(fake_open_leases(&world->fake), 1);
	world->host.daemon_id = "daemon";
	start(world);
	assert_true(fake_wait(&world->fake, is_finished_and_gone));
	agent_end(&world->agent);
	close_world(world);
}

static void a_proof_may_take_longer_than_the_pause_between_two_sweeps(void **state)
{
	(void)state;
	struct world *world = open_world();
	fake_add_trials(&world->fake, 1);
	start(world);
	assert_true(fake_wait(&world->fake, has_heartbeat));
	atomic_store(&world->host.kill_fails, true);
	assert_true(fake_wait(&world->fake, all_accepted));
	atomic_store(&world->host.proof_ms, 400);
	atomic_store(&world->host.kill_fails, false);
	assert_true(fake_wait(&world->fake, is_finished_and_gone));
	agent_end(&world->agent);
	assert_int_equal(fake_host_resources(&world->host), 0);
	close_world(world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(trials_run_and_their_results_are_reported_with_their_folders),
	cmocka_unit_test(a_restarted_coordinator_gets_unacknowledged_reports_again_and_applies_each_once),
	cmocka_unit_test(a_coordinator_that_falls_silent_is_left_and_connected_again),
	cmocka_unit_test(a_twin_is_refused_and_gives_no_trial),
	cmocka_unit_test(a_revoked_trial_is_ended_and_its_lease_retired),
	cmocka_unit_test(a_trial_whose_hold_is_over_is_ended_and_can_run_again),
	cmocka_unit_test(a_hold_ends_in_time_while_the_disk_hangs),
	cmocka_unit_test(hello_waits_until_everything_of_the_past_is_dead),
	cmocka_unit_test(a_broken_host_says_so_and_takes_no_trial_until_it_is_mended),
	cmocka_unit_test(a_full_disk_says_so),
	cmocka_unit_test(a_shutdown_ends_trials_and_flushes_the_outbox),
	cmocka_unit_test(a_finished_result_is_uploaded_by_the_next_life_and_not_run_again),
	cmocka_unit_test(h17_a_lease_that_could_not_be_retired_is_settled_later),
	cmocka_unit_test(a_runner_that_is_not_in_order_is_tidied_again_and_holds_nothing_back),
	cmocka_unit_test(what_another_docker_daemon_shows_settles_nothing),
	cmocka_unit_test(a_proof_may_take_longer_than_the_pause_between_two_sweeps),
};
BERTH_TEST_MAIN(tests)
