// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task_internal.h"

static bool exists(const struct berth_task *task, const char *relative)
{
	BERTH_AUTO_FREE char *path = berth_path_join(task->folder, relative);
	return berth_file_exists(path);
}

static bool is_directory(const struct berth_task *task, const char *relative)
{
	BERTH_AUTO_FREE char *path = berth_path_join(task->folder, relative);
	struct stat stat_of;
	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

static const char *test_script(const struct berth_task *task)
{
	return strcmp(task->environment.os, "windows") == 0 ? "test.bat" : "test.sh";
}

static bool check_single(const struct berth_task *task, bool verification_disabled, struct berth_error *err)
{
	if (!exists(task, "instruction.md")) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%s: instruction.md is missing: write what the agent is to do into it", task->folder);
	}
	BERTH_AUTO_FREE char *script = berth_format("tests/%s", test_script(task));
	if (verification_disabled || berth_task_verifier_mode(task, NULL) == BERTH_VERIFIER_SEPARATE ||
		exists(task, script)) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_INVALID,
		"%s: %s is missing: add it, or turn the verifier off or give it its own environment", task->folder,
		script);
}

static bool check_step(const struct berth_task *task, const struct berth_task_step *step, bool verification_disabled,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *instruction = berth_format("steps/%s/instruction.md", step->name);
	if (!exists(task, instruction)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: %s of step \"%s\" is missing", task->folder,
			instruction, step->name);
	}
	BERTH_AUTO_FREE char *own = berth_format("steps/%s/tests/%s", step->name, test_script(task));
	BERTH_AUTO_FREE char *common = berth_format("tests/%s", test_script(task));
	if (verification_disabled || berth_task_verifier_mode(task, step) == BERTH_VERIFIER_SEPARATE ||
		exists(task, own) || exists(task, common)) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_INVALID, "%s: neither %s nor %s is there: step \"%s\" has no test",
		task->folder, own, common, step->name);
}

static void note_parts(struct berth_task *task)
{
	task->has_dockerfile = exists(task, "environment/Dockerfile");
	task->has_compose = exists(task, "environment/docker-compose.yaml");
	task->has_solution = exists(task, "solution/solve.sh");
	task->has_trajectory = exists(task, "trajectory.json");
	for (size_t i = 0; i < task->steps_count; i++) {
		BERTH_AUTO_FREE char *solution = berth_format("steps/%s/solution/solve.sh", task->steps[i].name);
		BERTH_AUTO_FREE char *trajectory = berth_format("steps/%s/trajectory.json", task->steps[i].name);
		task->has_solution = task->has_solution || exists(task, solution);
		task->has_trajectory = task->has_trajectory || (i == 0 && exists(task, trajectory));
	}
	if (exists(task, "environment/docker-compose.yml") && !task->has_compose) {
		berth_strings_add(&task->warnings,
			"environment/docker-compose.yml has no effect: only docker-compose.yaml is read");
	}
}

bool berth_task_check_files(struct berth_task *task, bool verification_disabled, struct berth_error *err)
{
	if (!is_directory(task, "environment")) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%s: the folder environment/ is missing: add it with a Dockerfile", task->folder);
	}
	note_parts(task);
	if (!task->has_dockerfile && !task->has_compose && !task->environment.docker_image) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%s: nothing says which image to run: add environment/Dockerfile, or docker_image to "
			"[environment]",
			task->folder);
	}
	for (size_t i = 0; i < task->steps_count; i++) {
		if (!check_step(task, &task->steps[i], verification_disabled, err)) {
			return false;
		}
	}
	return task->steps_count > 0 || check_single(task, verification_disabled, err);
}
