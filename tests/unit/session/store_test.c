// SPDX-License-Identifier: Apache-2.0
// What an agent finds on its disk after a restart.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/session/store.h"
#include "common/base/cancel.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/statement.h"
#include "tests/support/key.h"
#include "tests/support/test.h"

#define THREADS 8
#define MOVES   20

struct seen {
	uint64_t last;
	atomic_uint count;
	bool gap;
};

static void committed(void *context, const Berth__V1__Report *report)
{
	struct seen *seen = context;
	seen->gap = seen->gap || report->sequence != seen->last + 1;
	seen->last = report->sequence;
	atomic_fetch_add(&seen->count, 1);
}

static struct agent_store *open_store(const char *folder, struct seen *seen)
{
	struct agent_store_options options = {.folder = folder, .committed = committed, .context = seen};
	struct berth_error err;
	struct agent_store *store = agent_store_open(&options, &err);
	assert_ok(store != NULL, err);
	return store;
}

static Berth__V1__TrialKey key = {PROTOBUF_C_MESSAGE_INIT(&berth__v1__trial_key__descriptor), (char *)"job", 3, 1};

static void hold(struct agent_store *store, const char *lease_id)
{
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = (char *)lease_id;
	lease.state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	Berth__V1__Lease *leases[] = {&lease};
	Berth__V1__Reservation reservation = BERTH__V1__RESERVATION__INIT, *reservations[] = {&reservation};
	reservation.reservation_id = (char *)lease_id;
	reservation.max_nano_usd = 7;
	Berth__V1__Assignment assignment = BERTH__V1__ASSIGNMENT__INIT;
	assignment.trial = &key;
	assignment.leases = leases;
	assignment.n_leases = 1;
	assignment.reservations = reservations;
	assignment.n_reservations = 1;
	agent_store_hold_leases(store, &assignment);
}

static bool move(struct agent_store *store, const char *lease_id, Berth__V1__LeaseState state, const char *failure)
{
	Berth__V1__LeaseMove mark = BERTH__V1__LEASE_MOVE__INIT;
	mark.lease_id = (char *)lease_id;
	mark.state = state;
	mark.failure = (char *)failure;
	struct berth_lease_book book = agent_store_book(store);
	return book.mark(book.context, &mark, NULL);
}

static void a_held_lease_survives_with_its_newest_state_and_a_retired_one_is_forgotten(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	BERTH_AUTO_FREE char *first_life = berth_strdup(agent_store_boot_id(store));
	hold(store, "lease-a");
	hold(store, "lease-b");
	assert_true(move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, ""));
	assert_true(move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_RETIRED, ""));
	assert_false(move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_ACTIVE, ""));
	agent_store_close(store);
	store = open_store(folder, &seen);
	assert_true(strcmp(first_life, agent_store_boot_id(store)) < 0);
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **leases = NULL;
	assert_int_equal(agent_store_leases(store, true, &leases), 1);
	assert_string_equal(leases[0]->lease->lease_id, "lease-a");
	assert_int_equal(leases[0]->lease->state, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING);
	assert_string_equal(leases[0]->boot_id, first_life);
	assert_int_equal(leases[0]->trial->index, 3);
	berth_proto_free(leases[0]);
	agent_store_close(store);
}

static void a_running_trials_lease_is_not_loose_until_it_is_released(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	hold(store, "lease-a");
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **none = NULL;
	assert_int_equal(agent_store_leases(store, true, &none), 0);
	agent_store_release_leases(store, &key);
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **one = NULL;
	assert_int_equal(agent_store_leases(store, true, &one), 1);
	berth_proto_free(one[0]);
	agent_store_close(store);
}

struct others {
	size_t count, most;
};

static void count_others(void *context, const void *message)
{
	struct others *others = context;
	const Berth__V1__Report *report = message;
	others->count++;
	others->most = report->lease->n_others > others->most ? report->lease->n_others : others->most;
	if (report->lease->n_others) {
		assert_string_equal(report->lease->lease_id, "lease-a");
		assert_string_equal(report->lease->others[0]->lease->lease_id, "lease-b");
		assert_string_equal(report->lease->others[0]->reservation->reservation_id, "lease-b");
	}
}

// A coordinator that takes up the first one after a restore has to know of the second: its trial is known then.
static void the_first_move_of_a_trial_names_its_leases_that_have_not_moved(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	hold(store, "lease-a");
	hold(store, "lease-b");
	assert_true(move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, ""));
	assert_true(move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_ACTIVE, ""));
	assert_true(move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, ""));
	agent_store_close(store);
	store = open_store(folder, &seen);
	struct others others = {0};
	struct berth_error err;
	assert_ok(agent_store_each_report(store, count_others, &others, &err), err);
	assert_int_equal(others.count, 3);
	assert_int_equal(others.most, 1);
	agent_store_close(store);
}

static void a_cleanup_that_fails_again_in_the_same_way_is_reported_once(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	hold(store, "lease-a");
	for (int i = 0; i < 5; i++) {
		assert_true(move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED, "no daemon"));
	}
	assert_true(move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED, "busy"));
	agent_store_close(store);
	assert_int_equal(atomic_load(&seen.count), 2);
}

// More leases than the reference could ever hold, in threads that share their syncs.
#define X8_LEASES 4200

struct coming {
	struct agent_store *store;
	int first, last;
	atomic_bool failed;
};

static void *come_and_go(void *context)
{
	struct coming *coming = context;
	for (int i = coming->first; i < coming->last; i++) {
		char lease_id[32];
		snprintf(lease_id, sizeof lease_id, "lease-%d", i);
		hold(coming->store, lease_id);
		if (!move(coming->store, lease_id, BERTH__V1__LEASE_STATE__LEASE_RETIRED, "")) {
			coming->failed = true;
		}
	}
	return NULL;
}

static void x8_any_number_of_leases_comes_and_goes(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	struct coming coming[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		coming[i] = (struct coming){store, X8_LEASES / THREADS * i, X8_LEASES / THREADS * (i + 1), false};
		pthread_create(&threads[i], NULL, come_and_go, &coming[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_false(coming[i].failed);
	}
	hold(store, "one-more");
	agent_store_close(store);
	store = open_store(folder, &seen);
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **leases = NULL;
	assert_int_equal(agent_store_leases(store, true, &leases), 1);
	assert_string_equal(leases[0]->lease->lease_id, "one-more");
	berth_proto_free(leases[0]);
	agent_store_close(store);
}

static void a_providers_expiry_is_kept_as_it_was_first_told(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	hold(store, "lease-a");
	Berth__V1__LeaseMove mark = BERTH__V1__LEASE_MOVE__INIT;
	mark.lease_id = (char *)"lease-a";
	mark.state = BERTH__V1__LEASE_STATE__LEASE_DISPATCHING;
	mark.provider_expiry_at_ns = 1000;
	struct berth_lease_book book = agent_store_book(store);
	assert_true(book.mark(book.context, &mark, NULL));
	mark.state = BERTH__V1__LEASE_STATE__LEASE_ACTIVE;
	mark.provider_expiry_at_ns = 2000;
	assert_true(book.mark(book.context, &mark, NULL));
	agent_store_close(store);
	store = open_store(folder, &seen);
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **leases = NULL;
	assert_int_equal(agent_store_leases(store, true, &leases), 1);
	assert_int_equal(leases[0]->lease->provider_expiry_at_ns, 1000);
	berth_proto_free(leases[0]);
	agent_store_close(store);
}

struct told {
	int64_t proved_ns, retired_ns;
};

static void remember_elapsed(void *context, const Berth__V1__Report *report)
{
	struct told *told = context;
	if (report->lease->state == BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED) {
		told->proved_ns = report->lease->elapsed_ns;
	} else if (report->lease->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		told->retired_ns = report->lease->elapsed_ns;
	} else {
		assert_int_equal(report->lease->elapsed_ns, 0);
	}
}

static struct agent_store *open_told(const char *folder, struct told *told)
{
	struct agent_store_options options = {.folder = folder, .committed = remember_elapsed, .context = told};
	struct berth_error err;
	struct agent_store *store = agent_store_open(&options, &err);
	assert_ok(store != NULL, err);
	return store;
}

static void a_lease_is_timed_from_its_dispatch_to_the_proof_by_the_life_that_saw_both(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct told told = {0};
	struct agent_store *store = open_told(folder, &told);
	hold(store, "lease-a");
	hold(store, "lease-b");
	int64_t before_ns = berth_boot_ns();
	move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, "");
	move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, "");
	berth_sleep_ms(20, berth_within_ms(1000, NULL), NULL);
	move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, "");
	int64_t after_ns = berth_boot_ns();
	berth_sleep_ms(20, berth_within_ms(1000, NULL), NULL);
	move(store, "lease-a", BERTH__V1__LEASE_STATE__LEASE_RETIRED, "");
	agent_store_close(store);
	assert_in_range(told.proved_ns, 20 * BERTH_NS_PER_MS, after_ns - before_ns);
	assert_int_equal(told.retired_ns, told.proved_ns);
	told.proved_ns = told.retired_ns = -1;
	store = open_told(folder, &told);
	move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, "");
	move(store, "lease-b", BERTH__V1__LEASE_STATE__LEASE_RETIRED, "");
	agent_store_close(store);
	assert_int_equal(told.proved_ns, 0);
	assert_int_equal(told.retired_ns, 0);
}

struct many {
	struct agent_store *store;
	char lease_id[32];
};

static void *move_often(void *context)
{
	struct many *many = context;
	for (int i = 0; i < MOVES; i++) {
		move(many->store, many->lease_id, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, "");
	}
	return NULL;
}

struct order {
	char boot[2][40];
	size_t boots, count;
	uint64_t last;
	bool wrong;
};

static void check_order(void *context, const void *message)
{
	struct order *order = context;
	const Berth__V1__Report *report = message;
	if (order->boots == 0 || strcmp(order->boot[order->boots - 1], report->boot_id) != 0) {
		assert_true(order->boots < 2);
		snprintf(order->boot[order->boots++], sizeof order->boot[0], "%s", report->boot_id);
		order->last = 0;
	}
	order->wrong = order->wrong || report->sequence <= order->last;
	order->last = report->sequence;
	order->count++;
}

static void reports_of_many_threads_have_no_gap_and_older_lives_come_first(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct seen seen = {0};
	struct agent_store *store = open_store(folder, &seen);
	BERTH_AUTO_FREE char *first_life = berth_strdup(agent_store_boot_id(store));
	struct many many[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		many[i].store = store;
		snprintf(many[i].lease_id, sizeof many[i].lease_id, "lease-%d", i);
		hold(store, many[i].lease_id);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, move_often, &many[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	agent_store_close(store);
	assert_int_equal(seen.last, THREADS * MOVES);
	assert_false(seen.gap);
	struct seen second = {0};
	store = open_store(folder, &second);
	assert_true(move(store, "lease-0", BERTH__V1__LEASE_STATE__LEASE_ACTIVE, ""));
	agent_store_drop_reports(store, first_life, 100);
	assert_true(move(store, "lease-1", BERTH__V1__LEASE_STATE__LEASE_ACTIVE, "")); // after the drop
	struct order order = {0};
	struct berth_error err;
	assert_ok(agent_store_each_report(store, check_order, &order, &err), err);
	assert_int_equal(order.boots, 2);
	assert_string_equal(order.boot[0], first_life);
	assert_int_equal(order.count, THREADS * MOVES - 100 + 2);
	assert_false(order.wrong);
	agent_store_close(store);
}

// --- results that are signed together ---

#define RESULTS 20

struct signing {
	struct test_key key;
	pthread_mutex_t held; // while more results come: the store's thread waits for it
	atomic_bool waits;
	Berth__V1__Report *told[RESULTS];
	size_t told_count, read_count, alone_count;
};

static void wait_and_keep(void *context, const Berth__V1__Report *report)
{
	struct signing *signing = context;
	atomic_store(&signing->waits, true);
	pthread_mutex_lock(&signing->held);
	pthread_mutex_unlock(&signing->held);
	signing->told[signing->told_count++] = berth_proto_clone(report);
}

static void finish_trial(struct agent_store *store, const char *statement)
{
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	Berth__V1__TrialResult result = BERTH__V1__TRIAL_RESULT__INIT;
	Berth__V1__Evidence evidence = BERTH__V1__EVIDENCE__INIT;
	Berth__V1__Report report = BERTH__V1__REPORT__INIT;
	evidence.statement = (char *)statement;
	result.evidence = &evidence;
	done.trial = &key;
	done.result = &result;
	report.body_case = BERTH__V1__REPORT__BODY_DONE;
	report.done = &done;
	struct agent_write *write = agent_write_new();
	agent_write_report(write, &report);
	agent_store_write_later(store, write);
}

static void assert_same(const Berth__V1__Report *one, const Berth__V1__Report *other)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf ones = {0}, others = {0};
	berth_proto_pack(one, &ones);
	berth_proto_pack(other, &others);
	assert_int_equal(ones.size, others.size);
	assert_memory_equal(ones.data, others.data, ones.size);
}

// What is on the disk is what was told, and each statement is proved alone.
static void check_signed(void *context, const void *message)
{
	struct signing *signing = context;
	const Berth__V1__Report *report = message;
	const Berth__V1__Evidence *evidence = report->done->result->evidence;
	assert_same(report, signing->told[signing->read_count++]);
	if (!*evidence->statement) {
		assert_int_equal(evidence->signature.len + evidence->group_size, 0);
		return;
	}
	const struct berth_signed_statement of = {.statement = evidence->statement,
		.size = strlen(evidence->statement),
		.index = evidence->group_index,
		.group_size = evidence->group_size,
		.path = evidence->path.data,
		.path_size = evidence->path.len,
		.signature = evidence->signature.data,
		.signature_size = evidence->signature.len};
	struct berth_error err;
	struct berth_checked_group none = {0};
	assert_ok(berth_statement_verify(signing->key.der, signing->key.der_size, &of, &none, &err), err);
	char id[BERTH_DIGEST_HEX_SIZE];
	berth_signing_key_id(signing->key.der, signing->key.der_size, id);
	assert_string_equal(evidence->key_id, id);
	signing->alone_count += evidence->group_size == 1;
	assert_true(evidence->group_size == 1 || evidence->group_size == RESULTS - 2);
}

// The first comes alone; the last has no statement, so nothing to sign.
static void finish_trials(struct agent_store *store, struct signing *signing)
{
	pthread_mutex_lock(&signing->held);
	finish_trial(store, "the first");
	while (!atomic_load(&signing->waits)) {
		berth_sleep_ms(1, berth_within_ms(1000, NULL), NULL);
	}
	for (size_t i = 1; i < RESULTS - 1; i++) {
		BERTH_AUTO_FREE char *statement = berth_format("{\"index\":%zu}", i);
		finish_trial(store, statement);
	}
	finish_trial(store, "");
	pthread_mutex_unlock(&signing->held);
}

static void results_that_reach_the_disk_together_are_signed_together(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct signing signing = {.key = test_key_make(), .held = PTHREAD_MUTEX_INITIALIZER};
	struct berth_error err;
	const struct agent_store_options options = {
		.folder = folder, .signing_key = signing.key.own, .committed = wait_and_keep, .context = &signing};
	struct agent_store *store = agent_store_open(&options, &err);
	assert_ok(store != NULL, err);
	finish_trials(store, &signing);
	agent_store_close(store);
	store = agent_store_open(&options, &err);
	assert_ok(agent_store_each_report(store, check_signed, &signing, &err), err);
	assert_int_equal(signing.read_count, RESULTS);
	assert_int_equal(signing.alone_count, 1);
	agent_store_close(store);
	for (size_t i = 0; i < RESULTS; i++) {
		berth_proto_free(signing.told[i]);
	}
	test_key_clear(&signing.key);
}

// --- a write that fails below the store ---

#define PATIENCE_S 30 // less than a wait for room

static atomic_bool disk_full;

// In the place of libc's, for RocksDB too.
ssize_t write(int fd, const void *data, size_t size);
ssize_t write(int fd, const void *data, size_t size)
{
	if (fd > STDERR_FILENO && atomic_exchange(&disk_full, false)) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, data, size);
}

// RocksDB keeps what it was given: whether the batch is there is not known, however much room there is later.
static void a_write_that_the_disk_refused_ends_the_agent_at_once(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	pid_t child = fork();
	if (child == 0) {
		struct seen seen = {0};
		alarm(PATIENCE_S);
		struct agent_store *store = open_store(folder, &seen);
		atomic_store(&disk_full, true);
		hold(store, "lease");
		_exit(EXIT_SUCCESS);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
}

static const struct CMUnitTest tests[] = {
	// It forks, and no thread was begun yet.
	cmocka_unit_test(a_write_that_the_disk_refused_ends_the_agent_at_once),
	cmocka_unit_test(a_held_lease_survives_with_its_newest_state_and_a_retired_one_is_forgotten),
	cmocka_unit_test(a_running_trials_lease_is_not_loose_until_it_is_released),
	cmocka_unit_test(x8_any_number_of_leases_comes_and_goes),
	cmocka_unit_test(a_providers_expiry_is_kept_as_it_was_first_told),
	cmocka_unit_test(the_first_move_of_a_trial_names_its_leases_that_have_not_moved),
	cmocka_unit_test(a_cleanup_that_fails_again_in_the_same_way_is_reported_once),
	cmocka_unit_test(a_lease_is_timed_from_its_dispatch_to_the_proof_by_the_life_that_saw_both),
	cmocka_unit_test(reports_of_many_threads_have_no_gap_and_older_lives_come_first),
	cmocka_unit_test(results_that_reach_the_disk_together_are_signed_together),
};
BERTH_TEST_MAIN(tests)
