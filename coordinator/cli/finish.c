// SPDX-License-Identifier: Apache-2.0
// The end of a run: result folders, and one table of what came out.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/results.h"
#include "coordinator/cli/watch.h"

struct writing {
	struct cli_link *link;
	struct berth_results *results;
	const Berth__V1__Trial *trial; // that is being added
};

static bool fetch(void *context, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err)
{
	const struct writing *writing = context;
	const ProtobufCBinaryData *folder = &writing->trial->folder;
	return folder->len ? sink.put(sink.context, folder->data, folder->len, err)
	                   : cli_blob_get(writing->link, blob, sink, err);
}

static bool add(void *context, const Berth__V1__Trial *trial, struct berth_error *err)
{
	struct writing *writing = context;
	writing->trial = trial;
	return berth_results_add(writing->results, trial, err);
}

static void free_results(struct berth_results **results)
{
	berth_results_free(*results);
}

static void put_numbers(struct berth_buf *out, const berth_json *object, const char *prefix)
{
	void *cursor = NULL;
	const char *key;
	berth_json *value;
	while (berth_json_next(object, &cursor, &key, &value)) {
		berth_buf_printf(out, "%s%s%s %.3f", out->size ? ", " : "", prefix, key, berth_json_as_number(value));
	}
}

static void add_eval(struct cli_table *table, const char *key, const berth_json *eval, const berth_json *fleet)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf metrics = {0}, passes = {0};
	const berth_json *list = berth_json_get(eval, "metrics");
	for (size_t i = 0; i < berth_json_size(list); i++) {
		put_numbers(&metrics, berth_json_at(list, i), "");
	}
	put_numbers(&passes, berth_json_get(eval, "pass_at_k"), "pass@");
	int64_t scored = berth_json_get_integer(eval, "n_trials"), cells = berth_json_get_integer(fleet, "n_cells");
	cli_table_add(table, "%s", key);
	cli_table_add(table, "%lld", (long long)cells);
	cli_table_add(table, "%lld", (long long)scored);
	cli_table_add(table, "%lld", (long long)(cells - scored));
	cli_table_add(table, "%.1f%%", 100 * berth_json_as_number(berth_json_get(fleet, "coverage")));
	cli_table_add(table, "%s", metrics.size ? berth_buf_text(&metrics) : "-");
	cli_table_add(table, "%s", passes.size ? berth_buf_text(&passes) : "-");
}

static void print_evals(const struct cli *cli, const berth_json *document)
{
	static const char *const HEADS[] = {
		"AGENT", "TRIALS", "SCORED", "UNSCORED", "COVERAGE", "REWARD", "PASS@K", NULL};
	const berth_json *evals = berth_json_get(berth_json_get(document, "stats"), "evals");
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	void *cursor = NULL;
	const char *key;
	berth_json *fleet;
	while (berth_json_next(berth_json_get(berth_json_get(document, "fleet"), "evals"), &cursor, &key, &fleet)) {
		add_eval(table, key, berth_json_get(evals, key), fleet);
	}
	cli_table_print(cli, table);
}

static void print_exceptions(const struct cli *cli, const berth_json *document)
{
	static const char *const HEADS[] = {"EXCEPTION", "TRIALS", "AGENT", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	void *cursor = NULL;
	const char *key;
	berth_json *eval;
	bool any = false;
	while (berth_json_next(berth_json_get(berth_json_get(document, "stats"), "evals"), &cursor, &key, &eval)) {
		void *inner = NULL;
		const char *type;
		berth_json *names;
		while (berth_json_next(berth_json_get(eval, "exception_stats"), &inner, &type, &names)) {
			cli_table_add(table, "%s", type);
			cli_table_add(table, "%zu", berth_json_size(names));
			cli_table_add(table, "%s", key);
			any = true;
		}
	}
	if (any) {
		fputs(cli->output == CLI_OUTPUT_TABLE ? "\n" : "", cli->io->out);
		cli_table_print(cli, table);
	}
}

static void print_json(const struct cli *cli, const Berth__V1__Job *job, const struct berth_results *results)
{
	berth_json *object = berth_json_object();
	berth_json_set(object, "job", cli_message_json(&job->base));
	berth_json_set(object, "folder", berth_json_string(berth_results_folder(results)));
	berth_json_set(object, "result", berth_json_copy(berth_results_document(results)));
	cli_json_print(cli->io->out, object, false);
}

static void print(const struct cli *cli, const Berth__V1__Job *job, const struct berth_results *results)
{
	const berth_json *document = berth_results_document(results);
	const struct berth_results_counts *counts = berth_results_counts(results);
	if (cli->output == CLI_OUTPUT_JSON) {
		print_json(cli, job, results);
		return;
	}
	print_evals(cli, document);
	print_exceptions(cli, document);
	if (counts->scored < counts->total) {
		fprintf(cli->io->err,
			"%u of %u cells have no score (%u of the task's doing, %u of the fleet's, %u cancelled, %u not "
			"run yet); they are missing from the rewards above, not zeros.\n",
			counts->total - counts->scored, counts->total, counts->unscored, counts->quarantined,
			counts->cancelled, counts->queued + counts->running + counts->blocked);
	}
	fprintf(cli->io->err, "Results written to %s/result.json (%u new trials)\n", berth_results_folder(results),
		counts->written);
}

int cli_finish(
	struct cli *cli, struct cli_link *link, const char *job_id, const char *jobs_dir, struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetJobResponse *found = cli_get_job(link, job_id, err);
	if (!found) {
		return CLI_FAILED;
	}
	struct writing writing = {.link = link};
	BERTH_AUTO(free_results)
	struct berth_results *results = berth_results_open(
		jobs_dir, found->job, found->spec, (struct berth_results_blobs){fetch, &writing}, err);
	writing.results = results;
	if (!results || !cli_each_trial(link, found->job->job_id, true, add, &writing, err) ||
		!berth_results_finish(results, err)) {
		return CLI_FAILED;
	}
	print(cli, found->job, results);
	const struct berth_results_counts *counts = berth_results_counts(results);
	if (!cli_job_has_ended(found->job)) {
		fputs("The job has not ended; the same command adds the rest later.\n", cli->io->err);
		return 0;
	}
	return counts->scored == counts->total ? 0 : CLI_EXIT_UNSCORED;
}
