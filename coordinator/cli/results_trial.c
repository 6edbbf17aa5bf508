// SPDX-License-Identifier: Apache-2.0
// One trial's result.json: every key of Harbor's, in its order, null where nothing is known.
#include <ctype.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/results_internal.h"

#define STATE(name) BERTH__V1__TRIAL_STATE__TRIAL_##name

bool berth_trial_has_ended(Berth__V1__TrialState state)
{
	return state == STATE(SCORED) || state == STATE(UNSCORED) || state == STATE(QUARANTINED) ||
	       state == STATE(CANCELLED);
}

bool results_has_folder(const Berth__V1__Trial *trial)
{
	return berth_trial_has_ended(trial->state) &&
	       (trial->state != STATE(CANCELLED) || trial->result || trial->started_at_ns);
}

const Berth__V1__Task *results_task(const struct results_job *job, const Berth__V1__Trial *trial)
{
	return trial->task < job->spec->n_tasks ? job->spec->tasks[trial->task] : NULL;
}

const char *results_agent_name(const struct results_job *job, const Berth__V1__Trial *trial)
{
	if (trial->result && *trial->result->agent_name) {
		return trial->result->agent_name;
	}
	return trial->agent < job->spec->n_agents ? job->spec->agents[trial->agent]->name : "unknown";
}

berth_json *results_rewards(const Berth__V1__Trial *trial)
{
	const char *text = trial->result ? trial->result->rewards_json : "";
	if (trial->state != STATE(SCORED) || !*text) {
		return NULL;
	}
	berth_json *rewards = berth_json_parse(text, strlen(text), "rewards", NULL);
	if (rewards && !berth_json_is(rewards, BERTH_JSON_OBJECT)) {
		berth_json_free(rewards);
		return NULL;
	}
	return rewards;
}

static Berth__V1__TrialException *exception_new(const char *type, const char *message, const char *trace, int64_t at_ns)
{
	Berth__V1__TrialException *exception = berth_alloc(sizeof *exception);
	berth__v1__trial_exception__init(exception);
	exception->type = berth_strdup(type);
	exception->message = berth_strdup(message);
	exception->traceback = berth_strdup(trace);
	exception->occurred_at_ns = at_ns;
	return exception;
}

static int64_t ended_at(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const Berth__V1__TrialResult *result = trial->result;
	if (result && result->trial && result->trial->finished_at_ns) {
		return result->trial->finished_at_ns;
	}
	return job->job->ended_at_ns ? job->job->ended_at_ns : trial->started_at_ns;
}

Berth__V1__TrialException *results_exception(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const Berth__V1__TrialException *given = trial->result ? trial->result->exception : NULL;
	int64_t at_ns = ended_at(job, trial);
	if (given) {
		return exception_new(*given->type ? given->type : "RuntimeError", given->message, given->traceback,
			given->occurred_at_ns ? given->occurred_at_ns : at_ns);
	}
	if (trial->state == STATE(CANCELLED)) {
		BERTH_AUTO_FREE char *message = berth_format("the job was cancelled%s%s", *job->job->reason ? ": " : "",
			*job->job->reason ? job->job->reason : "");
		return exception_new("CancelledError", message, "", at_ns);
	}
	if (trial->state != STATE(QUARANTINED)) {
		return NULL;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf notes = {0};
	for (size_t i = 0; i < trial->n_notes; i++) {
		berth_buf_printf(&notes, "%s\n", trial->notes[i]);
	}
	BERTH_AUTO_FREE char *message = berth_format("infrastructure failed too often%s%s", trial->n_notes ? ": " : "",
		trial->n_notes ? trial->notes[trial->n_notes - 1] : "");
	return exception_new("InfrastructureError", message, berth_buf_text(&notes), at_ns);
}

static berth_json *text_or_null(const char *text)
{
	return text && *text ? berth_json_string(text) : berth_json_null();
}

static berth_json *model_info(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const char *model = trial->agent < job->spec->n_agents ? job->spec->agents[trial->agent]->model_name : "";
	if (!*model) {
		return berth_json_null();
	}
	const char *slash = strchr(model, '/');
	berth_json *info = berth_json_object();
	berth_json_set(info, "name", berth_json_string(slash ? slash + 1 : model));
	berth_json_set(
		info, "provider", slash ? berth_json_string_n(model, (size_t)(slash - model)) : berth_json_null());
	return info;
}

static berth_json *agent_info(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const char *name = results_agent_name(job, trial);
	const char *version = trial->result ? trial->result->agent_version : "";
	bool built_in = strcmp(name, "oracle") == 0 || strcmp(name, "nop") == 0;
	berth_json *info = berth_json_object();
	berth_json_set(info, "name", berth_json_string(name));
	berth_json_set(info, "version", berth_json_string(*version ? version : built_in ? "1.0.0" : "unknown"));
	berth_json_set(info, "model_info", model_info(job, trial));
	return info;
}

static berth_json *agent_result(const Berth__V1__AgentUsage *usage, const Berth__V1__Phase *execution)
{
	if (!execution || execution->started_at_ns == 0) {
		return berth_json_null();
	}
	bool known = usage && usage->known;
	berth_json *result = berth_json_object();
	berth_json_set(result, "n_input_tokens", known ? berth_json_integer(usage->input_tokens) : berth_json_null());
	berth_json_set(result, "n_cache_tokens", known ? berth_json_integer(usage->cache_tokens) : berth_json_null());
	berth_json_set(result, "n_output_tokens", known ? berth_json_integer(usage->output_tokens) : berth_json_null());
	berth_json_set(result, "cost_usd",
		known ? berth_json_real((double)usage->cost_nano_usd / BERTH_NS_PER_S) : berth_json_null());
	berth_json_set(result, "rollout_details", berth_json_null());
	berth_json_set(result, "metadata", berth_json_null());
	return result;
}

static berth_json *verifier_result(const char *rewards_json)
{
	berth_json *rewards =
		*rewards_json ? berth_json_parse(rewards_json, strlen(rewards_json), "rewards", NULL) : NULL;
	if (!rewards) {
		return berth_json_null();
	}
	berth_json *result = berth_json_object();
	berth_json_set(result, "rewards", rewards);
	return result;
}

static berth_json *exception_info(const Berth__V1__TrialException *exception, int64_t at_ns)
{
	if (!exception) {
		return berth_json_null();
	}
	berth_json *info = berth_json_object();
	berth_json_set(info, "exception_type", berth_json_string(exception->type));
	berth_json_set(info, "exception_message", berth_json_string(exception->message));
	berth_json_set(info, "exception_traceback", berth_json_string(exception->traceback));
	berth_json_set(
		info, "occurred_at", results_time_utc(exception->occurred_at_ns ? exception->occurred_at_ns : at_ns));
	return info;
}

static berth_json *step_results(const Berth__V1__TrialResult *result, int64_t at_ns)
{
	if (!result || result->n_steps == 0) {
		return berth_json_null();
	}
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < result->n_steps; i++) {
		const Berth__V1__StepResult *step = result->steps[i];
		berth_json *entry = berth_json_object();
		berth_json_set(entry, "step_name", berth_json_string(step->name));
		berth_json_set(entry, "agent_result", agent_result(step->usage, step->agent_execution));
		berth_json_set(entry, "verifier_result", verifier_result(step->rewards_json));
		berth_json_set(entry, "exception_info", exception_info(step->exception, at_ns));
		berth_json_set(entry, "agent_execution", results_phase(step->agent_execution));
		berth_json_set(entry, "verifier", results_phase(step->verifier));
		berth_json_append(list, entry);
	}
	return list;
}

static berth_json *fleet(const Berth__V1__Trial *trial)
{
	static const char *const OUTCOMES[] = {NULL, "scored", "task", "configuration", "infrastructure", "cancelled"};
	size_t outcome = trial->result ? (size_t)trial->result->outcome : 0;
	// What its last run says of itself may not have counted.
	bool uncounted = outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED && trial->state != STATE(SCORED);
	if (outcome == 0 || outcome >= BERTH_COUNT(OUTCOMES) || uncounted) {
		outcome = trial->state == STATE(QUARANTINED) ? 4 : trial->state == STATE(CANCELLED) ? 5 : 0;
	}
	berth_json *notes = berth_json_array();
	for (size_t i = 0; i < trial->n_notes; i++) {
		berth_json_append(notes, berth_json_string(trial->notes[i]));
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "host", text_or_null(trial->agent_host));
	berth_json_set(object, "generation", berth_json_integer(trial->key ? trial->key->generation : 0));
	berth_json_set(object, "attempts", berth_json_integer((int64_t)trial->n_notes + 1));
	berth_json_set(object, "outcome", berth_json_string(OUTCOMES[outcome]));
	berth_json_set(object, "leftovers", text_or_null(trial->result ? trial->result->leftovers : NULL));
	berth_json_set(object, "notes", notes);
	return object;
}

// As Python's Path.as_uri.
static berth_json *file_uri(const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_format("%s/%s", folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf uri = {0};
	berth_buf_add_text(&uri, "file://");
	for (const unsigned char *at = (const unsigned char *)path; *at; at++) {
		if (isalnum(*at) || strchr("/_.-~", *at)) {
			berth_buf_add_byte(&uri, *at);
		} else {
			berth_buf_printf(&uri, "%%%02X", *at);
		}
	}
	return berth_json_string(berth_buf_text(&uri));
}

static berth_json *trial_id(const struct results_job *job, const Berth__V1__Trial *trial)
{
	BERTH_AUTO_FREE char *name = berth_format("%s/%u/%u", job->job->job_id, trial->key ? trial->key->index : 0,
		trial->key ? trial->key->generation : 0);
	BERTH_AUTO_FREE char *uuid = results_uuid(name);
	return berth_json_string(uuid);
}

static void set_identity(berth_json *result, const struct results_job *job, const Berth__V1__Trial *trial)
{
	const Berth__V1__Task *task = results_task(job, trial);
	berth_json *task_id = berth_json_object();
	berth_json_set(task_id, "path", berth_json_string(task ? task->path : ""));
	berth_json_set(result, "id", trial_id(job, trial));
	berth_json_set(result, "task_name", berth_json_string(task ? task->name : ""));
	berth_json_set(result, "trial_name", berth_json_string(trial->trial_name));
	berth_json_set(result, "trial_uri", file_uri(job->folder, trial->trial_name));
	berth_json_set(result, "task_id", task_id);
	berth_json_set(result, "source", text_or_null(task ? task->source : NULL));
	berth_json_set(result, "task_checksum", berth_json_string(task ? task->checksum : ""));
	berth_json_set(result, "config", results_trial_config(job, trial));
	berth_json_set(result, "agent_info", agent_info(job, trial));
}

berth_json *results_trial(const struct results_job *job, const Berth__V1__Trial *trial)
{
	static const Berth__V1__TrialResult none = BERTH__V1__TRIAL_RESULT__INIT;
	const Berth__V1__TrialResult *given = trial->result ? trial->result : &none;
	Berth__V1__TrialException *exception = results_exception(job, trial);
	int64_t at_ns = ended_at(job, trial);
	int64_t started_ns = given->trial ? given->trial->started_at_ns : 0;
	berth_json *result = berth_json_object();
	set_identity(result, job, trial);
	berth_json_set(result, "agent_result",
		given->n_steps ? berth_json_null() : agent_result(given->usage, given->agent_execution));
	berth_json_set(
		result, "verifier_result", verifier_result(trial->state == STATE(SCORED) ? given->rewards_json : ""));
	berth_json_set(result, "verifier_environment_mode", text_or_null(given->verifier_environment_mode));
	berth_json_set(result, "exception_info", exception_info(exception, at_ns));
	berth_json_set(result, "started_at", results_time_utc(started_ns ? started_ns : trial->started_at_ns));
	berth_json_set(result, "finished_at", results_time_utc(at_ns));
	berth_json_set(result, "environment_setup", results_phase(given->environment_setup));
	berth_json_set(result, "agent_setup", results_phase(given->agent_setup));
	berth_json_set(result, "agent_execution", results_phase(given->agent_execution));
	berth_json_set(result, "verifier", results_phase(given->verifier));
	berth_json_set(result, "step_results", step_results(given, at_ns));
	berth_json_set(result, "fleet", fleet(trial));
	berth_proto_free(exception);
	return result;
}
