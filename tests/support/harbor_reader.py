#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""harbor_reader.py JOB-FOLDER [TRIALS]: reads a job's folder as Harbor and its users' scripts do, and says what they
would stumble over. With TRIALS the job must have so many trial folders.

Written from the description of the result folders alone, so that the writer has something independent to agree with.
"""
import datetime
import json
import math
import os
import sys

RESULT_KEYS = ["id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum", "config", "agent_info",
               "agent_result", "verifier_result", "verifier_environment_mode", "exception_info", "started_at", "finished_at",
               "environment_setup", "agent_setup", "agent_execution", "verifier", "step_results"]
STEP_KEYS = ["step_name", "agent_result", "verifier_result", "exception_info", "agent_execution", "verifier"]
PHASES = ["environment_setup", "agent_setup", "agent_execution", "verifier"]
AGENT_RESULT_KEYS = {"n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd"}
EXCEPTION_KEYS = {"exception_type", "exception_message", "exception_traceback", "occurred_at"}
TASK_ID_KINDS = [{"git_url", "git_commit_id", "path"}, {"path"}, {"org", "name", "ref"}]
EVAL_KEYS = {"n_trials", "n_errors", "metrics", "pass_at_k", "reward_stats", "exception_stats"}
STATS_KEYS = {"n_completed_trials", "n_errored_trials", "n_running_trials", "n_pending_trials", "n_cancelled_trials",
              "n_retries", "evals"}
TRAJECTORY_KEYS = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics", "notes", "extra",
                   "continued_trajectory_ref", "subagent_trajectories"}


class Reader:
    """Collects faults instead of stopping at the first."""

    def __init__(self, folder):
        self.folder, self.faults = folder, []

    def want(self, condition, where, text):
        if not condition:
            self.faults.append("%s: %s" % (where, text))
        return condition

    # --- files ---
    def text(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def json(self, path):
        """A document; {} when there is none that a reader takes."""
        def refuse(text):
            raise ValueError("%s is no number" % text)
        try:
            document = json.loads(self.text(path), parse_constant=refuse)
        except (OSError, ValueError) as error:
            self.faults.append("%s: %s" % (path, error))
            return {}
        return document if self.want(isinstance(document, (dict, list)), path, "is no object") else {}

    # --- parts ---
    def time(self, where, text, aware):
        try:
            time = datetime.datetime.fromisoformat(text)
        except (TypeError, ValueError):
            self.faults.append("%s: %r is no time" % (where, text))
            return None
        fits = self.want((time.tzinfo is not None) == aware, where, "%s %s a zone" % (text, "lacks" if aware else "has"))
        return time if fits else None

    def span(self, where, span):
        """A phase or a trial: nullable, both ends of one kind, in order."""
        if span is None:
            return
        ends = [self.time(where + "." + key, span.get(key), True) for key in ("started_at", "finished_at")
                if span.get(key) is not None]
        if len(ends) == 2 and all(ends):
            self.want(ends[0] <= ends[1], where, "ends before it starts")

    def rewards(self, where, verified):
        rewards = (verified or {}).get("rewards")
        for key, value in (rewards or {}).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            self.want(number, where, "reward %r is %r" % (key, value))

    def exception(self, where, info):
        if info is None:
            return
        if self.want(set(info) == EXCEPTION_KEYS and all(isinstance(text, str) for text in info.values()), where,
                     "exception_info has %s" % sorted(info)):
            self.time(where + ".occurred_at", info["occurred_at"], True)

    def agent_result(self, where, result):
        if result is not None:
            self.want(AGENT_RESULT_KEYS <= set(result), where, "agent_result has only %s" % sorted(result))

    def config(self, where, config, name):
        task = config.get("task") or {}
        self.want((task.get("path") is None) != (task.get("name") is None), where, "config.task needs a path or a name: %s" % task)
        self.want(config.get("trial_name") == name, where, "config.trial_name is %r" % config.get("trial_name"))

    # --- a trial ---
    def result(self, where, result, name):
        self.want(list(result)[:len(RESULT_KEYS)] == RESULT_KEYS, where, "keys are %s" % list(result))
        self.want(result.get("trial_name") == name, where, "trial_name is %r" % result.get("trial_name"))
        uri = str(result.get("trial_uri"))
        self.want(uri.startswith("file:///") and uri.endswith("/" + name), where, "trial_uri is " + uri)
        self.want(set(result.get("task_id") or {}) in TASK_ID_KINDS, where, "task_id is %s" % result.get("task_id"))
        checksum = str(result.get("task_checksum"))
        self.want(len(checksum) == 64 and set(checksum) <= set("0123456789abcdef"), where, "task_checksum is " + checksum)
        for key in ("name", "version"):
            self.want(isinstance((result.get("agent_info") or {}).get(key), str), where, "agent_info has no " + key)
        agent = (result.get("config") or {}).get("agent") or {}
        self.want({"name", "model_name"} <= set(agent), where, "config.agent has only %s" % sorted(agent))
        self.span(where, result)
        for phase in PHASES:
            self.span("%s.%s" % (where, phase), result.get(phase))
        self.outcome(where, result)
        self.want((result.get("agent_result") is None) <= bool(result.get("step_results") or result.get("exception_info")),
                  where, "there is no agent_result")

    def outcome(self, where, result):
        self.rewards(where, result.get("verifier_result"))
        self.exception(where, result.get("exception_info"))
        self.agent_result(where, result.get("agent_result"))
        for step in result.get("step_results") or []:
            inner = "%s step %s" % (where, step.get("step_name"))
            self.want(set(STEP_KEYS) <= set(step), inner, "keys are %s" % list(step))
            self.outcome(inner, step)
            for phase in ("agent_execution", "verifier"):
                self.span("%s.%s" % (inner, phase), step.get(phase))

    def trial(self, name):
        where = name + "/result.json"
        result = self.json(where)
        self.result(where, result, name)
        self.config(where, result.get("config") or {}, name)
        self.config(name + "/config.json", self.json(name + "/config.json"), name)
        lock = self.json(name + "/lock.json")
        self.want(lock.get("schema_version") == 2 and str((lock.get("task") or {}).get("digest")).startswith("sha256:"),
                  name + "/lock.json", "schema_version %s, task %s" % (lock.get("schema_version"), lock.get("task")))
        has_text = os.path.exists(os.path.join(self.folder, name, "exception.txt"))
        self.want(has_text == (result.get("exception_info") is not None), name, "exception.txt and exception_info disagree")
        for path in ("trial.log", "exception.txt"):
            self.utf8("%s/%s" % (name, path))
        self.trajectory(name + "/agent/trajectory.json")
        return result

    def utf8(self, path):
        try:
            self.text(path)
        except FileNotFoundError:
            pass
        except ValueError as error:
            self.faults.append("%s: %s" % (path, error))

    def trajectory(self, path):
        if os.path.exists(os.path.join(self.folder, path)):
            trajectory = self.json(path)
            self.want(set(trajectory) <= TRAJECTORY_KEYS, path, "keys are %s" % sorted(trajectory))

    # --- the job ---
    def evals(self, stats, names):
        named = set()
        for key, one in (stats.get("evals") or {}).items():
            where = "result.json stats.evals." + key
            self.want(EVAL_KEYS <= set(one), where, "keys are %s" % sorted(one))
            self.want(isinstance(one.get("pass_at_k"), dict), where, "pass_at_k is %s" % one.get("pass_at_k"))
            for values in (one.get("reward_stats") or {}).values():
                named.update(name for trials in values.values() for name in trials)
            named.update(name for trials in (one.get("exception_stats") or {}).values() for name in trials)
        self.want(named <= names, "result.json stats.evals", "no folder for %s" % sorted(named - names))

    def job(self, names):
        result = self.json("result.json")
        self.want({"id", "started_at", "n_total_trials", "stats"} <= set(result), "result.json", "keys are %s" % sorted(result))
        stats = result.get("stats") or {}
        self.want(STATS_KEYS <= set(stats) and isinstance(stats.get("evals"), dict), "result.json stats", "keys are %s" % sorted(stats))
        over = not stats.get("n_running_trials") and not stats.get("n_pending_trials")
        self.want(over == (result.get("finished_at") is not None), "result.json", "finished_at is %s with %s running and %s pending" % (
            result.get("finished_at"), stats.get("n_running_trials"), stats.get("n_pending_trials")))
        for key in ("started_at", "updated_at", "finished_at"):
            if result.get(key) is not None:
                self.time("result.json " + key, result[key], False)
        self.evals(stats, names)
        self.json("config.json")
        lock = self.json("lock.json")
        self.want(lock.get("schema_version") == 3 and isinstance(lock.get("trials"), list), "lock.json", "keys are %s" % sorted(lock))
        self.utf8("job.log")
        return result


def read(folder, trials=None):
    """All faults of a job's folder, as texts, and its trials' results by name."""
    reader = Reader(folder)
    names = {entry.name for entry in os.scandir(folder) if entry.is_dir()}
    results = {name: reader.trial(name) for name in sorted(names)}
    job = reader.job(names)
    if trials is not None:
        reader.want(len(names) == trials, folder, "%d trial folders, not %d" % (len(names), trials))
        reader.want(job.get("n_total_trials") == trials, "result.json", "n_total_trials is %s" % job.get("n_total_trials"))
    return reader.faults, results


if __name__ == "__main__":
    found, _ = read(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
    print("\n".join(found))
    sys.exit(1 if found else 0)
