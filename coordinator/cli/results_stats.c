// SPDX-License-Identifier: Apache-2.0
// What the job's result.json says over all its trials: counts, and for each agent, model and data set the rewards.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/results_internal.h"

#define STATE(name) BERTH__V1__TRIAL_STATE__TRIAL_##name
#define ADHOC       "adhoc" // the data set of tasks that were given by themselves

struct cell {
	uint32_t task;
	bool passed; // the one reward is 1
};

struct eval {
	char *key;
	berth_json **rewards; // of the scored cells, in their order
	struct cell *cells;   // likewise
	size_t scored, errors, total;
	bool binary; // each has exactly one reward, 0 or 1
	berth_json *reward_stats, *exception_stats;
};

struct results_stats {
	const struct results_job *job;
	struct berth_results_counts counts;
	struct eval *evals;
	size_t evals_count;
	uint32_t errored;
	uint64_t retries;
	bool usage_known;
	int64_t input_tokens, cache_tokens, output_tokens, cost_nano_usd;
};

struct results_stats *results_stats_new(const struct results_job *job)
{
	struct results_stats *stats = berth_alloc(sizeof *stats);
	stats->job = job;
	return stats;
}

void results_stats_free(struct results_stats *stats)
{
	for (size_t i = 0; stats && i < stats->evals_count; i++) {
		struct eval *eval = &stats->evals[i];
		for (size_t j = 0; j < eval->scored; j++) {
			berth_json_free(eval->rewards[j]);
		}
		berth_free_cleanup(&eval->rewards);
		berth_free_cleanup(&eval->cells);
		berth_free_cleanup(&eval->key);
		berth_json_free(eval->reward_stats);
		berth_json_free(eval->exception_stats);
	}
	if (stats) {
		berth_free_cleanup(&stats->evals);
	}
	berth_free_cleanup(&stats);
}

const struct berth_results_counts *results_stats_counts(const struct results_stats *stats)
{
	return &stats->counts;
}

static struct eval *eval_of(struct results_stats *stats, const Berth__V1__Trial *trial)
{
	const struct results_job *job = stats->job;
	const Berth__V1__Task *task = results_task(job, trial);
	const char *model = trial->agent < job->spec->n_agents ? job->spec->agents[trial->agent]->model_name : "";
	const char *slash = strchr(model, '/');
	model = slash ? slash + 1 : model;
	BERTH_AUTO_FREE char *key = berth_format("%s%s%s__%s", results_agent_name(job, trial), *model ? "__" : "",
		model, task && *task->source ? task->source : ADHOC);
	for (size_t i = 0; i < stats->evals_count; i++) {
		if (strcmp(stats->evals[i].key, key) == 0) {
			return &stats->evals[i];
		}
	}
	stats->evals = berth_grow_array(stats->evals, stats->evals_count, sizeof *stats->evals);
	struct eval *eval = &stats->evals[stats->evals_count++];
	*eval = (struct eval){.key = BERTH_STEAL(key),
		.binary = true,
		.reward_stats = berth_json_object(),
		.exception_stats = berth_json_object()};
	return eval;
}

static void count_state(struct berth_results_counts *counts, Berth__V1__TrialState state)
{
	counts->total++;
	counts->scored += state == STATE(SCORED);
	counts->unscored += state == STATE(UNSCORED);
	counts->quarantined += state == STATE(QUARANTINED);
	counts->cancelled += state == STATE(CANCELLED);
	counts->blocked += state == STATE(BUDGET_BLOCKED);
	counts->running += state == STATE(RUNNING);
	counts->queued += state == STATE(QUEUED);
}

static berth_json *member(berth_json *object, const char *key, berth_json *(*make)(void))
{
	if (!berth_json_get(object, key)) {
		berth_json_set(object, key, make());
	}
	return berth_json_get(object, key);
}

// The list for this value: 1 and 1.0 share one, under the text of whichever came first.
static berth_json *names_of_value(berth_json *by_value, const berth_json *value)
{
	void *cursor = NULL;
	const char *key;
	berth_json *names;
	while (berth_json_next(by_value, &cursor, &key, &names)) {
		BERTH_AUTO(berth_json_cleanup) berth_json *known = berth_json_parse(key, strlen(key), "value", NULL);
		if (berth_json_as_number(known) == berth_json_as_number(value)) {
			return names;
		}
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(value, 0, &text);
	return member(by_value, berth_buf_text(&text), berth_json_array);
}

static void add_rewards(struct eval *eval, const Berth__V1__Trial *trial, berth_json *rewards)
{
	void *cursor = NULL;
	const char *key;
	berth_json *value = NULL;
	while (berth_json_next(rewards, &cursor, &key, &value)) {
		berth_json *names = names_of_value(member(eval->reward_stats, key, berth_json_object), value);
		berth_json_append(names, berth_json_string(trial->trial_name));
	}
	double only = berth_json_size(rewards) == 1 ? berth_json_as_number(value) : -1;
	eval->binary = eval->binary && (only == 0 || only == 1);
	eval->rewards = berth_grow_array(eval->rewards, eval->scored, sizeof(berth_json *));
	eval->cells = berth_grow_array(eval->cells, eval->scored, sizeof(struct cell));
	eval->cells[eval->scored] = (struct cell){trial->task, only == 1};
	eval->rewards[eval->scored++] = rewards;
}

static void add_usage(struct results_stats *stats, const Berth__V1__AgentUsage *usage)
{
	if (usage && usage->known) {
		stats->usage_known = true;
		stats->input_tokens += usage->input_tokens;
		stats->cache_tokens += usage->cache_tokens;
		stats->output_tokens += usage->output_tokens;
		stats->cost_nano_usd += usage->cost_nano_usd;
	}
}

void results_stats_add(struct results_stats *stats, const Berth__V1__Trial *trial)
{
	struct eval *eval = eval_of(stats, trial);
	count_state(&stats->counts, trial->state);
	eval->total++;
	stats->retries += trial->n_notes;
	if (!results_has_folder(trial)) {
		return;
	}
	Berth__V1__TrialException *exception = results_exception(stats->job, trial);
	if (exception) {
		stats->errored++;
		eval->errors++;
		berth_json_append(member(eval->exception_stats, exception->type, berth_json_array),
			berth_json_string(trial->trial_name));
		berth_proto_free(exception);
	}
	berth_json *rewards = results_rewards(trial);
	if (rewards) {
		add_rewards(eval, trial, rewards);
	}
	add_usage(stats, trial->result ? trial->result->usage : NULL);
	for (size_t i = 0; trial->result && i < trial->result->n_steps; i++) {
		add_usage(stats, trial->result->steps[i]->usage);
	}
}

static berth_json *metrics_of(const struct results_stats *stats, const struct eval *eval)
{
	const berth_json *given = berth_json_get(stats->job->config, "metrics");
	berth_json *list = berth_json_array();
	size_t count = berth_json_size(given);
	for (size_t i = 0; i < (count ? count : 1); i++) {
		const char *type = count ? berth_json_get_string(berth_json_at(given, i), "type") : "mean";
		berth_json *metric = results_metric(type ? type : "mean", eval->rewards, eval->scored, 0);
		if (metric) {
			berth_json_append(list, metric);
		}
	}
	return list;
}

static berth_json *pass_at_k(const struct results_stats *stats, const struct eval *eval)
{
	berth_json *result = berth_json_object();
	size_t tasks = stats->job->spec->n_tasks;
	if (!eval->binary || eval->scored == 0) {
		return result;
	}
	BERTH_AUTO_FREE uint32_t *attempts = berth_alloc((tasks + 1) * sizeof(uint32_t));
	BERTH_AUTO_FREE uint32_t *passes = berth_alloc((tasks + 1) * sizeof(uint32_t));
	for (size_t i = 0; i < eval->scored; i++) {
		size_t task = eval->cells[i].task < tasks ? eval->cells[i].task : tasks;
		attempts[task]++;
		passes[task] += eval->cells[i].passed;
	}
	uint32_t least = UINT32_MAX, counted = 0;
	for (size_t i = 0; i <= tasks; i++) {
		counted += attempts[i] > 0;
		least = attempts[i] > 0 && attempts[i] < least ? attempts[i] : least;
	}
	for (uint32_t k = results_next_k(0); k <= least; k = results_next_k(k)) {
		double sum = 0;
		for (size_t i = 0; i <= tasks; i++) {
			sum += attempts[i] ? results_pass_at_k(attempts[i], passes[i], k) : 0;
		}
		BERTH_AUTO_FREE char *key = berth_format("%u", k);
		berth_json_set(result, key, berth_json_real(sum / counted));
	}
	return result;
}

static berth_json *eval_json(const struct results_stats *stats, const struct eval *eval)
{
	berth_json *object = berth_json_object();
	berth_json_set(object, "n_trials", berth_json_integer((int64_t)eval->scored));
	berth_json_set(object, "n_errors", berth_json_integer((int64_t)eval->errors));
	berth_json_set(object, "metrics", metrics_of(stats, eval));
	berth_json_set(object, "pass_at_k", pass_at_k(stats, eval));
	berth_json_set(object, "reward_stats", berth_json_copy(eval->reward_stats));
	berth_json_set(object, "exception_stats", berth_json_copy(eval->exception_stats));
	return object;
}

static berth_json *known(const struct results_stats *stats, berth_json *value)
{
	if (stats->usage_known) {
		return value;
	}
	berth_json_free(value);
	return berth_json_null();
}

berth_json *results_stats_json(const struct results_stats *stats)
{
	const struct berth_results_counts *counts = &stats->counts;
	berth_json *evals = berth_json_object();
	for (size_t i = 0; i < stats->evals_count; i++) {
		if (stats->evals[i].scored + stats->evals[i].errors > 0) {
			berth_json_set(evals, stats->evals[i].key, eval_json(stats, &stats->evals[i]));
		}
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "n_completed_trials",
		berth_json_integer((int64_t)counts->scored + counts->unscored + counts->quarantined));
	berth_json_set(object, "n_errored_trials", berth_json_integer(stats->errored));
	berth_json_set(object, "n_running_trials", berth_json_integer(counts->running));
	berth_json_set(object, "n_pending_trials", berth_json_integer((int64_t)counts->queued + counts->blocked));
	berth_json_set(object, "n_cancelled_trials", berth_json_integer(counts->cancelled));
	berth_json_set(object, "n_retries", berth_json_integer((int64_t)stats->retries));
	berth_json_set(object, "evals", evals);
	berth_json_set(object, "n_input_tokens", known(stats, berth_json_integer(stats->input_tokens)));
	berth_json_set(object, "n_cache_tokens", known(stats, berth_json_integer(stats->cache_tokens)));
	berth_json_set(object, "n_output_tokens", known(stats, berth_json_integer(stats->output_tokens)));
	berth_json_set(
		object, "cost_usd", known(stats, berth_json_real((double)stats->cost_nano_usd / BERTH_NS_PER_S)));
	return object;
}

static berth_json *coverage(size_t scored, size_t total)
{
	return total ? berth_json_real((double)scored / (double)total) : berth_json_null();
}

berth_json *results_stats_fleet(const struct results_stats *stats)
{
	const struct berth_results_counts *counts = &stats->counts;
	berth_json *evals = berth_json_object();
	for (size_t i = 0; i < stats->evals_count; i++) {
		const struct eval *eval = &stats->evals[i];
		berth_json *entry = berth_json_object();
		berth_json_set(entry, "n_cells", berth_json_integer((int64_t)eval->total));
		berth_json_set(entry, "coverage", coverage(eval->scored, eval->total));
		// For a comparison with Harbor's own figure, which takes what was not scored for zeros.
		berth_json *zeros = results_metric("mean", eval->rewards, eval->scored, eval->total - eval->scored);
		berth_json_set(entry, "mean_with_unscored_as_0", zeros ? zeros : berth_json_null());
		berth_json_set(evals, eval->key, entry);
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "job_id", berth_json_string(stats->job->job->job_id));
	berth_json_set(object, "n_scored", berth_json_integer(counts->scored));
	berth_json_set(object, "n_unscored", berth_json_integer(counts->unscored));
	berth_json_set(object, "n_quarantined", berth_json_integer(counts->quarantined));
	berth_json_set(object, "n_cancelled", berth_json_integer(counts->cancelled));
	berth_json_set(object, "n_budget_blocked", berth_json_integer(counts->blocked));
	berth_json_set(object, "coverage", coverage(counts->scored, counts->total));
	berth_json_set(object, "evals", evals);
	return object;
}
