# SPDX-License-Identifier: Apache-2.0
"""The sample tasks and what their tables say of a trial's folder. tests/docker/trial reads the same tables."""
import hashlib
import json
import os
import re
import shutil

from world import run

NOT_RUN = ("separate-verifier", "sidecar")  # kinds of tasks that Berth refuses


def rows(tasks, name):
    with open(os.path.join(tasks, name), encoding="utf-8") as table:
        head = table.readline().rstrip("\n").split("\t")
        return [dict(zip(head, line.rstrip("\n").split("\t"))) for line in table]


def same(got, wanted):
    """As JSON values, where 1 and 1.0 differ."""
    if type(got) is not type(wanted):
        return False
    if isinstance(got, dict):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in got)
    return got == wanted


def digest(path):
    if os.path.islink(path):
        return "-> " + os.readlink(path)
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "missing"


class Corpus:
    def __init__(self, source):
        self.tasks = os.path.join(source, "tests/tasks")
        self.expected = {(row["task"], row["agent"]): row for row in rows(self.tasks, "EXPECTED.tsv") if row["task"] not in NOT_RUN}
        self.golden = {row["task"]: row for row in rows(self.tasks, "GOLDEN.tsv")}
        self.artifacts, self.files, self.steps = (self.by_trial(name) for name in ("ARTIFACTS.tsv", "FILES.tsv", "STEPS.tsv"))

    def by_trial(self, name):
        found = {}
        for row in rows(self.tasks, name):
            found.setdefault((row["task"], row["agent"]), []).append(row)
        return found

    def copy(self, folder):
        """All tasks that are run, finished, as a data set in `folder`."""
        os.makedirs(folder)
        for task in sorted({task for task, _ in self.expected}):
            shutil.copytree(os.path.join(self.tasks, task), os.path.join(folder, task), symlinks=True)
        run([os.path.join(self.tasks, "odd-names.make.sh"), folder])
        return folder

    # --- one trial's folder ---
    def faults(self, task, agent, folder, result):
        """What differs from the tables, as texts."""
        key = (task, agent)
        with open(os.path.join(folder, "lock.json"), encoding="utf-8") as file:
            lock = json.load(file)
        found = self.outcome(self.expected[key], result) + self.hashes(task, result, lock)
        found += self.step_results(self.steps.get(key, []), result.get("step_results"))
        found += self.kept(self.artifacts.get(key, []), folder)
        for row in self.files.get(key, []):
            found += self.file(os.path.join(folder, row["file"]), json.loads(row["wanted"]))
        return found

    def outcome(self, row, result):
        found = []
        rewards = (result["verifier_result"] or {}).get("rewards")
        if not same(rewards, json.loads(row["wanted_rewards"])):
            found.append("rewards %s, not %s" % (json.dumps(rewards), row["wanted_rewards"]))
        exception = result["exception_info"] or {}
        if exception.get("exception_type", "null") != row["wanted_exception"]:
            found.append("exception %s, not %s" % (exception or "null", row["wanted_exception"]))
        part = re.search(r'message has "([^"]*)"', row["note"])
        if part and part[1] not in exception.get("exception_message", ""):
            found.append('the message lacks "%s": %s' % (part[1], exception.get("exception_message")))
        phase = re.search(r"phase=(\w+)", row["note"])
        if phase:
            entered = [name for name in ("environment_setup", "agent_setup", "agent_execution", "verifier") if result[name]]
            if not entered or entered[-1] != phase[1]:
                found.append("it ended in %s, not in %s" % (entered[-1:], phase[1]))
        return found

    def hashes(self, task, result, lock):
        golden = self.golden[task]
        found = []
        if result["task_checksum"] != golden["task_checksum"]:
            found.append("task_checksum %s, not %s" % (result["task_checksum"], golden["task_checksum"]))
        if lock["task"]["digest"] != "sha256:" + golden["lock_digest"]:
            found.append("the lock's digest is %s, not %s" % (lock["task"]["digest"], golden["lock_digest"]))
        for where, document in (("result.json", result), ("lock.json", lock)):
            found += ["environment_id %s in %s, not %s" % (value, where, golden["environment_id"])
                      for value in named(document, "environment_id") if value != golden["environment_id"]]
        return found

    def step_results(self, wanted, got):
        if not wanted:
            return []
        seen = [(step["step_name"], (step["verifier_result"] or {}).get("rewards"),
                 (step["exception_info"] or {}).get("exception_type", "null")) for step in got or []]
        due = [(row["step"], json.loads(row["wanted_rewards"]), row["wanted_exception"]) for row in wanted]
        fits = len(seen) == len(due) and all(
            a[0] == b[0] and same(a[1], b[1]) and a[2] == b[2] for a, b in zip(seen, due))
        return [] if fits else ["steps %s, not %s" % (seen, due)]

    def kept(self, wanted, folder):
        """Each step's rows, in order, against its manifest; nothing else may lie there."""
        found = []
        for step in dict.fromkeys(row["step"] for row in wanted):
            part = os.path.join(folder, "artifacts") if step == "-" else os.path.join(folder, "steps", step, "artifacts")
            with open(os.path.join(part, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            mine = [row for row in wanted if row["step"] == step]
            keys = ("destination", "type", "status", "source", "service")
            got = [[entry.get(key) or "null" for key in keys] for entry in manifest]
            due = [[row[key] for key in keys] for row in mine]
            if got != due:
                found.append("manifest of step %s: %s, not %s" % (step, got, due))
            files = {path: name for row in mine for path, name in json.loads(row["files"]).items()}
            lie = {path: digest(os.path.join(part, path)) for path in below(part) if path != "manifest.json"}
            if lie != files:
                found.append("artifacts of step %s: %s, not %s" % (step, lie, files))
        return found

    def file(self, path, wanted):
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            return [str(error)]
        seen = {"has": wanted.get("has", "").encode() in content,
                "lacks": "lacks" not in wanted or wanted["lacks"].encode() not in content,
                "bytes": len(content) == wanted.get("bytes", len(content)),
                "sha256": "sha256" not in wanted or digest(path) == wanted["sha256"]}
        return ["%s: not %s: %d bytes, %r" % (path, [key for key in seen if not seen[key]], len(content), content[:200])
                ] if not all(seen.values()) else []


def below(folder):
    """Paths of all files and links below a folder."""
    for root, folders, files in os.walk(folder):
        for name in files + [name for name in folders if os.path.islink(os.path.join(root, name))]:
            yield os.path.relpath(os.path.join(root, name), folder)


def named(document, key):
    """Every value of this name, wherever it stands."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key:
                yield value
            yield from named(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from named(value, key)
