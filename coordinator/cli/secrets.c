// SPDX-License-Identifier: Apache-2.0
// Every value of an environment table goes into the secret set, so that no value reaches the coordinator's log;
// `sensitive` says which of them must not be found in what a trial leaves either.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/submission.h"

struct lookup {
	const struct cli *cli;
	struct berth_strings *used;
};

static const char *look_up(void *context, const char *name)
{
	struct lookup *lookup = context;
	const struct berth_cli_io *io = lookup->cli->io;
	const char *value = io->lookup(io->lookup_context, name);
	bool known = value == NULL;
	for (size_t i = 0; !known && i < lookup->used->count; i++) {
		known = strcmp(lookup->used->items[i], name) == 0;
	}
	if (!known) {
		berth_strings_add(lookup->used, name);
	}
	return value;
}

static void add_secret(Berth__V1__SecretSet *set, const char *scope, const char *name, const char *value)
{
	Berth__V1__Secret *secret = berth_alloc(sizeof *secret);
	berth__v1__secret__init(secret);
	berth_proto_set_string(&secret->scope, scope);
	berth_proto_set_string(&secret->name, name);
	berth_proto_set_string(&secret->value, value);
	secret->sensitive = berth_env_name_is_sensitive(name);
	berth_proto_append(&set->n_secrets, &set->secrets, secret);
}

static void env_free(struct berth_env *env)
{
	for (size_t i = 0; i < env->count; i++) {
		explicit_bzero(env->values[i], strlen(env->values[i]));
	}
	berth_env_free(env);
}

// `where` names the table in errors; `names`, if any, gets the variables' names.
static bool add_env(const struct cli *cli, struct cli_submission *submission, const struct berth_env *table,
	const char *scope, const char *where, size_t *names_count, char ***names, struct berth_error *err)
{
	struct lookup lookup = {cli, &submission->variables};
	BERTH_AUTO(env_free) struct berth_env env = {0};
	berth_env_merge(&env, table);
	if (!berth_env_resolve(&env, where, look_up, &lookup, err)) {
		return false;
	}
	for (size_t i = 0; i < env.count; i++) {
		add_secret(submission->request->secrets, scope, env.names[i], env.values[i]);
		if (names) {
			berth_proto_append(names_count, names, berth_strdup(env.names[i]));
		}
	}
	return true;
}

bool cli_secrets_add_job(const struct cli *cli, struct cli_submission *submission, struct berth_error *err)
{
	const struct berth_job *job = submission->job;
	Berth__V1__JobSpec *spec = submission->request->spec;
	for (size_t i = 0; i < job->agents_count; i++) {
		BERTH_AUTO_FREE char *scope = berth_format("agent/%zu", i);
		BERTH_AUTO_FREE char *where = berth_format("job: agents[%zu].env (--ae)", i);
		if (!add_env(cli, submission, &job->agents[i].env, scope, where, &spec->agents[i]->n_env_names,
			    &spec->agents[i]->env_names, err)) {
			return false;
		}
	}
	return add_env(cli, submission, &job->environment_env, "environment", "job: environment.env (--ee)",
		       &spec->n_environment_env_names, &spec->environment_env_names, err) &&
	       add_env(cli, submission, &job->verifier_env, "verifier", "job: verifier.env (--ve)",
		       &spec->n_verifier_env_names, &spec->verifier_env_names, err);
}

static bool has_oracle(const struct berth_job *job)
{
	for (size_t i = 0; i < job->agents_count; i++) {
		if (job->agents[i].name && strcmp(job->agents[i].name, "oracle") == 0) {
			return true;
		}
	}
	return false;
}

static bool add_table(const struct cli *cli, struct cli_submission *submission, const struct berth_task *task,
	const struct berth_env *table, const char *table_name, const char *scope, struct berth_error *err)
{
	BERTH_AUTO_FREE char *where = berth_format("task %s: %s/task.toml [%s]", task->name, task->folder, table_name);
	return add_env(cli, submission, table, scope, where, NULL, NULL, err);
}

bool cli_secrets_add_task(const struct cli *cli, struct cli_submission *submission, size_t index,
	const struct berth_task *task, struct berth_error *err)
{
	BERTH_AUTO_FREE char *environment = berth_format("environment/%zu", index);
	BERTH_AUTO_FREE char *solution = berth_format("solution/%zu", index);
	BERTH_AUTO_FREE char *verifier = berth_format("verifier/%zu", index);
	if (!add_table(cli, submission, task, &task->environment.env, "environment.env", environment, err)) {
		return false;
	}
	// Only the oracle runs solutions: for others a variable of theirs need not be set.
	if (has_oracle(submission->job) &&
		!add_table(cli, submission, task, &task->solution_env, "solution.env", solution, err)) {
		return false;
	}
	if (!add_table(cli, submission, task, &task->verifier.env, "verifier.env", verifier, err)) {
		return false;
	}
	for (size_t i = 0; i < task->steps_count; i++) {
		const struct berth_task_step *step = &task->steps[i];
		BERTH_AUTO_FREE char *scope = berth_format("%s/%s", verifier, step->name);
		if (!add_table(cli, submission, task, &step->verifier.env, "steps.verifier.env", scope, err)) {
			return false;
		}
	}
	return true;
}

void cli_secrets_wipe(Berth__V1__SecretSet *secrets)
{
	for (size_t i = 0; secrets && i < secrets->n_secrets; i++) {
		char *value = secrets->secrets[i]->value;
		if (value && *value) {
			explicit_bzero(value, strlen(value));
		}
	}
}
