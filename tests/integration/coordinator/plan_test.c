// SPDX-License-Identifier: Apache-2.0
// `berth job plan`: what it says of trials, hosts, environments, bundles and money, and that it begins nothing.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/integration/coordinator/desk.h"
#include "tests/support/test.h"

// 4500 s at 10 nano-USD: what one run of count-words holds.
#define POLICY                                                                                                         \
	"{\"study_id\":\"s\",\"manifest_digest\":\"sha256:"                                                            \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":%d,"               \
	"\"phase_limits_nano_usd\":{\"search\":%d},\"rates\":[{\"backend\":\"local\","                                 \
	"\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,\"nano_usd_per_second\":10,"                  \
	"\"billing_quantum_seconds\":60}]}"

static char *a_task(void)
{
	return berth_test_data("tests/tasks/count-words");
}

static void open_budget(struct desk *desk, const char *name, int limit)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_format("%s/%s.json", desk->quay->folder, name);
	BERTH_AUTO_FREE char *policy = berth_format(POLICY, limit, limit);
	assert_ok(berth_file_write(path, policy, strlen(policy), 0600, &err), err);
	SHELL(&desk->shell, "budget", "create", name, path);
	assert_code(desk->shell, 0);
}

static void a_plan_counts_and_begins_nothing(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *task = a_task();
	SHELL(&desk->shell, "job", "plan", "-p", task, "-k", "3", "--output", "plain");
	assert_code(desk->shell, 0);
	// Trials, tasks, agents, attempts; no host; one environment, to build; one bundle, to send; no money.
	assert_string_equal(desk->shell.out, "3\t1\t1\t3\t0\t0\t1\t1\t1\t-\t-\t-\t-\n");
	assert_has(desk->shell.err, "No host takes trials now");
	SHELL(&desk->shell, "job", "list", "--output", "plain");
	assert_string_equal(desk->shell.out, "");
	struct agent agent = {0};
	quay_join(&agent, desk->quay);
	Berth__V1__CoordinatorMessage *ack = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK);
	berth_proto_free(ack);
	SHELL(&desk->shell, "job", "plan", "-p", task, "--output", "json");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "\"north\"");
	assert_has(desk->shell.out, "\"slots\": 2");
	quay_leave(&agent);
	quay_forget(&agent);
}

static void a_plan_names_the_quote_and_what_is_left(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *task = a_task();
	open_budget(desk, "tide", 100000);
	SHELL(&desk->shell, "job", "plan", "-p", task, "--override-cpus", "1", "--override-memory-mb", "512",
		"--budget", "tide", "--phase", "search", "--output", "plain");
	assert_code(desk->shell, 0);
	// Once, and in each of the five generations that a fleet may lose.
	assert_has(desk->shell.out, "\ttide\t0.000045\t0.000225\t0.0001\n");
	assert_has(desk->shell.err, "budget_blocked");
}

static void a_plan_says_why_the_job_would_be_refused(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *task = a_task();
	open_budget(desk, "ebb", 40000);
	SHELL(&desk->shell, "job", "plan", "-p", task, "--override-cpus", "1", "--override-memory-mb", "512",
		"--budget", "ebb", "--phase", "search");
	assert_code(desk->shell, 5);
	assert_has(desk->shell.err, "the job would be refused: one run of the job's dearest trial");
	SHELL(&desk->shell, "job", "plan", "-p", task, "--budget", "nothing", "--phase", "search");
	assert_code(desk->shell, 5);
	SHELL(&desk->shell, "job", "plan", "-p", task, "-k", "20000");
	assert_code(desk->shell, 2);
}

#define T(test) cmocka_unit_test_setup_teardown(test, desk_setup, desk_teardown)

static const struct CMUnitTest tests[] = {
	T(a_plan_counts_and_begins_nothing),
	T(a_plan_names_the_quote_and_what_is_left),
	T(a_plan_says_why_the_job_would_be_refused),
};
BERTH_TEST_MAIN(tests)
