// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "common/task/task.h"

static void free_environment(struct berth_task_environment *environment)
{
	free(environment->docker_image);
	free(environment->os);
	berth_strings_free(&environment->gpu_types);
	berth_strings_free(&environment->network.allowed_hosts);
	for (size_t i = 0; i < environment->mcp_servers_count; i++) {
		struct berth_task_mcp_server *server = &environment->mcp_servers[i];
		free(server->name);
		free(server->transport);
		free(server->url);
		free(server->command);
		berth_strings_free(&server->args);
	}
	free(environment->mcp_servers);
	berth_env_free(&environment->env);
	free(environment->skills_dir);
	free(environment->healthcheck.command);
	free(environment->workdir);
}

static void free_agent(struct berth_task_agent *agent)
{
	free(agent->user);
	berth_strings_free(&agent->network.allowed_hosts);
}

static void free_verifier(struct berth_task_verifier *verifier)
{
	berth_env_free(&verifier->env);
	free(verifier->user);
	berth_strings_free(&verifier->network.allowed_hosts);
	if (verifier->environment) {
		free_environment(verifier->environment);
		free(verifier->environment);
	}
	for (size_t i = 0; i < verifier->collect_count; i++) {
		free(verifier->collect[i].command);
		free(verifier->collect[i].service);
		free(verifier->collect[i].user);
	}
	free(verifier->collect);
}

static void free_step(struct berth_task_step *step)
{
	free(step->name);
	free_agent(&step->agent);
	free_verifier(&step->verifier);
	berth_json_free(step->min_rewards);
	free(step->healthcheck.command);
	berth_task_artifacts_free(&step->artifacts);
}

void berth_task_free(struct berth_task *task)
{
	if (!task) {
		return;
	}
	free(task->folder);
	free(task->name);
	free(task->short_name);
	free(task->base_name);
	free(task->version);
	free(task->description);
	free(task->source);
	free(task->reward_strategy);
	free_agent(&task->agent);
	free_verifier(&task->verifier);
	free_environment(&task->environment);
	berth_env_free(&task->solution_env);
	berth_task_artifacts_free(&task->artifacts);
	for (size_t i = 0; i < task->steps_count; i++) {
		free_step(&task->steps[i]);
	}
	free(task->steps);
	berth_strings_free(&task->warnings);
	free(task);
}
