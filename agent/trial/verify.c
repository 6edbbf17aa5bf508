// SPDX-License-Identifier: Apache-2.0
// The verifier in the agent's own container.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/trial/internal.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define SALVAGE_MS 30000

static bool is_folder(const char *path)
{
	struct stat stat_of;
	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

static bool verifier_env(const struct trial *trial, const struct berth_task_step *step, struct berth_env *env,
	struct trial_failure *failure)
{
	if (!trial_env_declared(
		    trial, &trial->task->verifier.env, "verifier/0", "task.toml: verifier.env", env, failure)) {
		return false;
	}
	if (step) {
		BERTH_AUTO_FREE char *scope = berth_format("verifier/0/%s", step->name);
		if (!trial_env_declared(
			    trial, &step->verifier.env, scope, "task.toml: steps.verifier.env", env, failure)) {
			return false;
		}
	}
	return trial_env_listed(trial, trial->spec->verifier_env_names, trial->spec->n_verifier_env_names, "verifier",
		"verifier.env of the job", env, failure);
}

// /logs/verifier made anew, so that nothing that the agent wrote there counts, and the tests: in one request. A step's
// tests lie over the task's own, in a folder that is made anew as well.
static bool lay_tests(
	struct trial *trial, const struct berth_task_step *step, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *root = berth_path_join(trial->task->folder, "tests");
	BERTH_AUTO_FREE char *own = step ? berth_format("%s/steps/%s/tests", trial->task->folder, step->name) : NULL;
	struct berth_put puts[4];
	size_t count = 0;
	puts[count++] = (struct berth_put){.target = "/logs/verifier", .fresh = true};
	if (step) {
		puts[count++] = (struct berth_put){.target = "/tests", .fresh = true};
	}
	if (is_folder(root)) {
		puts[count++] = (struct berth_put){.folder = root, .target = "/tests", .executable = "test.sh"};
	}
	if (own && is_folder(own)) {
		puts[count++] = (struct berth_put){.folder = own, .target = "/tests", .executable = "test.sh"};
	}
	return trial->leases.runner->put(trial->environment, puts, count, until, err);
}

static const char *verifier_user(const struct trial *trial, const struct berth_task_step *step)
{
	return step && step->verifier.user ? step->verifier.user : trial->task->verifier.user;
}

// A link that leads out of the verifier's folder is none for the reader of rewards: on this host it would name a file
// of ours.
static void drop_leaving_link(struct trial *trial, const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct stat stat_of;
	if (lstat(path, &stat_of) != 0 || !S_ISLNK(stat_of.st_mode)) {
		return;
	}
	char real[PATH_MAX], real_folder[PATH_MAX];
	if (realpath(path, real) && realpath(folder, real_folder)) {
		size_t size = strlen(real_folder);
		if (strncmp(real, real_folder, size) == 0 && real[size] == '/') {
			return;
		}
	}
	trial_log(trial, "verifier: %s is a link that leads out of its folder: not followed", name);
	unlink(path);
}

static bool read_rewards(struct trial *trial, const char *folder, berth_json **rewards, struct trial_failure *failure)
{
	drop_leaving_link(trial, folder, "reward.json");
	drop_leaving_link(trial, folder, "reward.txt");
	BERTH_AUTO(berth_reward_free) struct berth_reward reward = {0};
	berth_reward_read(folder, &reward);
	if (!reward.rewards) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, reward.exception, "%s", reward.message);
	}
	*rewards = BERTH_STEAL(reward.rewards);
	return true;
}

static bool run_tests(struct trial *trial, const struct berth_task_step *step, const struct berth_env *env,
	struct berth_until until, struct berth_error *err, const char **type)
{
	*type = "AddTestsDirError";
	if (!lay_tests(trial, step, until, err)) {
		return false;
	}
	*type = "RuntimeError";
	const struct trial_command command = {
		.command = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1",
		.user = verifier_user(trial, step),
		.env = env,
	};
	int exit_code = 0; // Harbor's rule: the rewards speak, not the status
	if (!trial_command(trial, &command, &exit_code, until, err)) {
		return false;
	}
	trial_log(trial, "verifier: test.sh ended with exit code %d", exit_code);
	return true;
}

static double verifier_timeout(const struct trial *trial, const struct berth_task_step *step, bool *immediate)
{
	double declared =
		step && step->verifier.timeout_sec > 0 ? step->verifier.timeout_sec : trial->task->verifier.timeout_sec;
	double override = trial->spec->verifier_override_timeout_sec;
	return berth_timeout_sec(override > 0 ? override : declared, trial->spec->verifier_max_timeout_sec,
		trial->spec->verifier_timeout_multiplier, trial->spec->timeout_multiplier, immediate);
}

static bool fail_verifier(struct trial *trial, const char *folder, const char *type, double timeout_sec,
	const struct berth_error *err, struct trial_failure *failure)
{
	if (trial_timed_out(trial, err)) {
		// What the tests said so far is worth a look; it is no reward.
		trial->leases.runner->download(trial->environment, "/logs/verifier", true, folder,
			berth_within_ms(SALVAGE_MS, trial->cancel), NULL);
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "VerifierTimeoutError",
			"Verifier execution timed out after %g seconds", timeout_sec);
	}
	return trial_fail_error(failure, type, err);
}

bool trial_verify(struct trial *trial, const struct berth_task_step *step, const char *verifier_folder,
	berth_json **rewards, struct trial_failure *failure)
{
	BERTH_AUTO(berth_env_free) struct berth_env env = {0};
	if (!verifier_env(trial, step, &env, failure)) {
		return false;
	}
	berth_proto_set_string(&trial->result->verifier_environment_mode, "shared");
	bool immediate = false;
	double timeout_sec = verifier_timeout(trial, step, &immediate);
	struct berth_until until = trial_until(trial, timeout_sec, immediate);
	struct berth_error err = {0};
	const char *type;
	if (!run_tests(trial, step, &env, until, &err, &type)) {
		return fail_verifier(trial, verifier_folder, type, timeout_sec, &err, failure);
	}
	if (!trial->leases.runner->download(trial->environment, "/logs/verifier", true, verifier_folder, until, &err)) {
		return fail_verifier(trial, verifier_folder, "DownloadVerifierDirError", timeout_sec, &err, failure);
	}
	return read_rewards(trial, verifier_folder, rewards, failure);
}
