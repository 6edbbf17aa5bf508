# SPDX-License-Identifier: Apache-2.0
"""Jobs on a healthy fleet: results, cancelling, secrets, memory."""
import json
import os
import secrets
import time

from fleet import Fleet
from runner import fleet_test
from world import at_once, check, marked, wait_until

CORPUS = ["count-words", "prebuilt-image", "two-steps", "json-metrics", "json-beats-text", "reward-missing", "no-network",
          "broken-build", "image-workdir", "no-solution", "published-artifact", "custom-user"]
RSS_MB = 64
CANCEL_SECONDS = 15


def wanted(source):
    rows = {}
    with open(os.path.join(source, "tests/tasks/EXPECTED.tsv")) as table:
        head = table.readline().rstrip("\n").split("\t")
        for line in table:
            row = dict(zip(head, line.rstrip("\n").split("\t")))
            if row["agent"] == "oracle":
                rows[row["task"]] = (json.loads(row["wanted_rewards"]), row["wanted_exception"].replace("null", ""))
    return rows


@fleet_test()
def a_job_of_sample_tasks_over_three_agents_ends_as_the_table_says(stage):
    fleet = Fleet(stage.world, "corpus").start()
    rows, flags = wanted(stage.world.source), []
    for task in CORPUS:
        flags += ["-i", task]
    before = fleet.coordinator.cpu_ms()
    begun = time.monotonic()
    code, _, err = fleet.command("run", "-p", stage.world.source + "/tests/tasks", "-a", "oracle", "-o", fleet.jobs,
                                 "--job-name", "corpus", "-y", *flags, bound=300)
    seconds = time.monotonic() - begun
    check(code == 6, "some cells of this job have no score, so `berth run` ends with 6, not %d: %s" % (code, err[-900:]))
    job = fleet.json("job", "list")[0]["job_id"]
    shown = fleet.show(job)
    check(len(shown["trials"]) == len(CORPUS), "%d cells for %d tasks" % (len(shown["trials"]), len(CORPUS)))
    for trial in shown["trials"]:
        name = trial["trial_name"].rsplit("__", 1)[0]
        rewards, exception = rows[name]
        result = trial["result"] or {}
        got = json.loads(result.get("rewards_json") or "null")
        check(got == rewards, "%s: rewards %s, not %s (%s)" % (name, got, rewards, result.get("exception")))
        check(((result.get("exception") or {}).get("type") or "") == exception, "%s: exception %s, not %s" % (
            name, result.get("exception"), exception))
        check(fleet.generations(job, trial["key"]["index"]) == [1], "%s was run more than once" % name)
        check(os.path.exists("%s/corpus/%s/result.json" % (fleet.jobs, trial["trial_name"])), name + " has no result.json")
    hosts = {trial["agent_host"] for trial in shown["trials"]}
    check(len(hosts) == 3, "only %s worked" % sorted(hosts))
    stage.figure("%d sample tasks on three hosts: %.1f s, %.1f CPU ms of the coordinator a trial" % (
        len(CORPUS), seconds, (fleet.coordinator.cpu_ms() - before) / len(CORPUS)))
    fleet.check_retired(job)
    fleet.stop()


@fleet_test()
def cancelling_a_job_removes_every_container_in_time(stage):
    fleet = Fleet(stage.world, "cancel", slots=2).start()
    job = fleet.submit(fleet.sleepers("long", 100, 6))
    fleet.wait_containers(6)
    wait_until("all six agents' scripts run", 60, lambda: all(
        trial["phase"] == "agent_execution" for trial in fleet.show(job)["trials"]))
    begun = time.monotonic()
    fleet.berth("job", "cancel", job, "--reason", "test")
    wait_until("every container is gone", CANCEL_SECONDS, lambda: not fleet.containers())
    seconds = time.monotonic() - begun
    fleet.wait_job(job, 15, "JOB_CANCELLED")
    stage.figure("cancelling 6 running trials: last container gone after %.1f s, job cancelled after %.1f s" % (
        seconds, time.monotonic() - begun))
    shown = fleet.show(job)
    check(shown["job"]["counts"]["cancelled"] == 6, "counts after cancelling: %s" % shown["job"]["counts"])
    fleet.check_retired(job)
    fleet.stop()


# --- secrets ---
def files_with(needle, folder):
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            try:
                with open(path, "rb") as file:
                    if needle in file.read():
                        found.append(path)
            except OSError:
                pass
    return found


def processes_with(needle, root):
    found = []
    for pid in marked(root):
        for part in ("cmdline", "environ"):
            try:
                with open("/proc/%d/%s" % (pid, part), "rb") as file:
                    if needle in file.read():
                        with open("/proc/%d/comm" % pid) as comm:
                            found.append("%s of %s" % (part, comm.read().strip()))
            except OSError:
                pass
    return found


def memory_with(needle, pid):
    """Places in a process's memory, as a core dump would show them."""
    found = []
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            first, last = (int(part, 16) for part in fields[0].split("-"))
            if "r" not in fields[1] or fields[-1] in ("[vvar]", "[vsyscall]"):
                continue
            try:
                memory.seek(first)
                content = memory.read(last - first)
            except (OSError, ValueError):
                continue
            at = -1
            while (at := content.find(needle, at + 1)) >= 0:
                found.append("%s+%x: %r" % (fields[-1], at, content[max(0, at - 40):at + 60]))
    return found


def copies(needles, process):
    return sum(len(memory_with(needle, process.pid)) for needle in needles)


@fleet_test()
def a_planted_secret_is_found_nowhere(stage):
    fleet = Fleet(stage.world, "secret", agents=2, slots=2).start()
    verifier = "planted" + secrets.token_hex(12)
    agent = "planted" + secrets.token_hex(12)
    folder = fleet.sleepers("leaky", 4, 2, verifier='\n[verifier.env]\nJUDGE_KEY = "${BERTH_FLEET_KEY}"\n',
                            solve='echo "token $AGENT_TOKEN"\n', test='echo "key $JUDGE_KEY"; [ -n "$JUDGE_KEY" ] || exit 1\n')
    job = fleet.submit(folder, "--ae", "AGENT_TOKEN=" + agent, environment={"BERTH_FLEET_KEY": verifier})
    fleet.wait_containers(2)
    needles = [text.encode() for text in (verifier, agent)]
    for needle in needles:
        seen = processes_with(needle, stage.world.root)
        check(not seen, "while the job runs, the secret is in the %s" % seen)
        seen = files_with(needle, fleet.data)
        check(not seen, "while the job runs, the secret is in the ledger: %s" % seen)
    shown = fleet.wait_job(job, 90)
    fleet.check_scored_once(job, shown)
    fleet.berth("job", "results", job, "-o", fleet.jobs)
    kept = files_with(b"[REDACTED]", fleet.jobs)
    check(len(kept) >= 4, "agent's and verifier's output of two trials should say [REDACTED]; it does in %s" % kept)
    time.sleep(1)
    for needle in needles:
        for folder in (fleet.data, fleet.jobs, fleet.folder, os.path.join(stage.world.root, "log")):
            seen = files_with(needle, folder)
            check(not seen, "the secret is in files: %s" % seen[:5])
    stage.figure("copies of 2 secrets in memory after the job's end, with sessions open: coordinator %d, agents %s" % (
        copies(needles, fleet.coordinator), ", ".join("%d" % copies(needles, agent) for agent in fleet.agents)))
    for needle in needles:
        seen = memory_with(needle, fleet.coordinator.pid)
        check(not seen, "after the job's end the secret is in the coordinator's memory, %d times: %s" % (len(seen), seen[:3]))
    at_once([agent.stop for agent in fleet.agents])
    fleet.coordinator.stop()
    fleet.check_nothing_left()


@fleet_test()
def ten_thousand_queued_trials_fit_into_small_memory(stage):
    fleet = Fleet(stage.world, "many", agents=2, slots=2).start()
    begun = time.monotonic()
    job = fleet.submit(fleet.sleepers("tiny", 0), "-n", "2", attempts=10000)
    seconds = time.monotonic() - begun
    fleet.wait_containers(1)
    processes = [fleet.coordinator] + fleet.agents
    counts = fleet.json("job", "list")[0]["counts"]
    check(counts["total"] == 10000 and counts["queued"] > 9900, "counts %s" % counts)
    fleet.berth("job", "show", job, bound=60)
    time.sleep(2)
    peak = [process.rss_mb("VmHWM") for process in processes]
    stage.figure("10,000 trials submitted in %.1f s; peak resident memory: coordinator %.0f MiB, agents %s MiB" % (
        seconds, peak[0], ", ".join("%.0f" % mb for mb in peak[1:])))
    for process, mb in zip(processes, peak):
        check(mb <= RSS_MB, "%s took %.0f MiB, more than %d" % (process.name, mb, RSS_MB))
    begun = time.monotonic()
    fleet.berth("job", "cancel", job)
    fleet.wait_job(job, 30, "JOB_CANCELLED")
    stage.figure("10,000 trials cancelled in %.1f s" % (time.monotonic() - begun))
    fleet.stop()
