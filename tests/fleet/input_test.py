# SPDX-License-Identifier: Apache-2.0
"""What people and machines get wrong: each error names the thing and the way out, and nothing is lost by it."""
import os
import signal

import tasks
from fleet import Fleet
from runner import fleet_test
from world import check, pause, run, wait_until

TMPFS_MB, WATERMARK_MB, FILLER_MB = 256, 96, 100


def bad_inputs(fleet):
    """name, arguments, exit code, words of the message"""
    folder = fleet.folder + "/bad"
    good = tasks.sleeper(folder + "/good", "good", 0)
    broken = tasks.sleeper(folder + "/broken", "broken", 0)
    tasks.put(broken + "/task.toml", 'schema_version = "1.4"\n[agent]\ntimeout_sec = \n')
    wrong = tasks.sleeper(folder + "/wrong", "wrong", 0)
    tasks.put(wrong + "/task.toml", 'schema_version = "1.4"\n[agent]\ntimeout_sec = "soon"\n')
    bare = tasks.sleeper(folder + "/bare", "bare", 0)
    os.unlink(bare + "/instruction.md")
    variable = tasks.sleeper(folder + "/variable", "variable", 0, verifier='\n[verifier.env]\nKEY = "${BERTH_FLEET_UNSET}"\n')
    large = tasks.sleeper(folder + "/large", "large", 0)
    tasks.put(large + "/environment/blob", "x" * (3 << 20))
    greedy = tasks.sleeper(folder + "/greedy", "greedy", 0)
    with open(greedy + "/task.toml") as file:
        text = file.read()
    tasks.put(greedy + "/task.toml", text.replace("cpus = 1", "cpus = 64"))
    tasks.put(folder + "/job.yaml", "job_name: typo\nn_atempts: 2\nagents:\n  - name: oracle\ntasks:\n  - path: %s\n" % good)
    tasks.put(folder + "/cut.yaml", "job_name: [\n")
    submit = ["job", "submit", "-y", "-a", "oracle", "-p"]
    return [
        ("a task.toml that is no TOML", submit + [broken], 2, ["task.toml", "3"]),
        ("a task.toml with a wrong type", submit + [wrong], 2, ["task.toml", "timeout_sec"]),
        ("a task without an instruction", submit + [bare], 2, ["instruction.md"]),
        ("a variable that is not set", submit + [variable], 2, ["BERTH_FLEET_UNSET", "set it"]),
        ("a task folder over the limit", submit + [large, "--task-size-limit", "1"], 2, ["large", "--task-size-limit"]),
        ("a task that no host could hold", submit + [greedy], 2, ["greedy", "64"]),
        ("an unknown agent", ["job", "submit", "-y", "-a", "oracl", "-p", good], 2, ["oracl", "oracle"]),
        ("a job file with a typo", ["job", "submit", "-y", "-c", folder + "/job.yaml"], 2, ["n_atempts", "n_attempts"]),
        ("a job file that is no YAML", ["job", "submit", "-y", "-c", folder + "/cut.yaml"], 2, ["cut.yaml"]),
        ("a folder that is not there", submit + [folder + "/none"], 3, [folder + "/none"]),
        ("a mistyped flag", ["job", "submit", "--n-atempts", "2", "-p", good], 2, ["n-atempts", "n-attempts"]),
        ("a job that is not there", ["job", "show", "00000000000000000000000000000000"], 3, ["job list"]),
        ("an agent that is not there", ["agent", "show", "nobody"], 3, ["nobody", "agent list"]),
        ("a coordinator that is not there", ["job", "list", "--coordinator", "127.0.0.1:9", "--timeout", "2"], 7,
         ["127.0.0.1:9", "--coordinator"]),
        ("credentials that are not there", ["job", "list", "--credentials", folder + "/nothing"], 3, [folder + "/nothing", "enroll"]),
    ]


@fleet_test()
def bad_input_is_named_with_its_fix_and_loses_nothing(stage):
    fleet = Fleet(stage.world, "bad-input", agents=1).start()
    faults = []
    for name, arguments, wanted, words in bad_inputs(fleet):
        code, out, err = fleet.command(*arguments, bound=30)
        missing = [word for word in words if word not in err]
        if code != wanted or missing:
            faults.append("%s: exit code %d (not %d), without %s, says: %s" % (name, code, wanted, missing, (err or out).strip()[-400:]))
    check(not faults, "\n      ".join(["%d messages:" % len(faults)] + faults))
    check(not fleet.json("job", "list"), "a bad job was taken")
    job = fleet.submit(fleet.sleepers("good", 0))
    fleet.check_scored_once(job, fleet.wait_job(job, 60))
    fleet.stop()


@fleet_test()
def a_coordinator_short_of_disk_refuses_new_jobs_by_name_and_goes_on_later(stage):
    data = os.path.join(stage.world.root, "small-disk")
    os.mkdir(data)
    run(["mount", "-t", "tmpfs", "-o", "size=%dm" % TMPFS_MB, "tmpfs", data])
    fleet = Fleet(stage.world, "small-disk", agents=1, data=data + "/data", flags=["--disk-free-min-mb", str(WATERMARK_MB)]).start()
    running = fleet.submit(fleet.sleepers("running", 8, 2))
    fleet.wait_containers(2)
    statvfs = os.statvfs(data)
    free_mb = statvfs.f_bavail * statvfs.f_frsize >> 20
    with open(data + "/filler", "wb") as filler:
        filler.write(b"\0" * max(0, free_mb - WATERMARK_MB + 8 << 20))
    pause(2)
    code, _, err = fleet.command("job", "submit", "-y", "-p", fleet.sleepers("refused", 0), "-a", "oracle", "--timeout", "5", bound=60)
    check(code != 0, "a job was taken with %d MB under the watermark" % 8)
    check("disk" in err or "space" in err, "the refusal does not name the disk: " + err[-500:])
    check("free" in err and data in err, "the refusal names neither the folder nor the fix: " + err[-500:])
    # What runs may end: its leases are retired in the ledger, and its results wait for room.
    wait_until("the running trials end on the short disk", 60, lambda: not fleet.containers())
    fleet.wait_retired(running)
    check(fleet.coordinator.alive(), "the coordinator ended")
    os.unlink(data + "/filler")
    fleet.check_scored_once(running, fleet.wait_job(running, 90))
    later = fleet.submit(fleet.sleepers("later", 0))
    fleet.check_scored_once(later, fleet.wait_job(later, 60))
    fleet.stop()
    run(["umount", data])


def wait_trouble(fleet, n, word):
    def look():
        agent = fleet.json("agent", "show", fleet.agent_name(n))["agent"]
        check(not agent["accepting"] and word in agent["trouble"].lower(), "accepting %s, trouble %r" % (
            agent["accepting"], agent["trouble"]))
        return agent["trouble"]
    return wait_until("agent-%d says that %s is in trouble" % (n + 1, word), 40, look, 0.5)


def wait_accepting(fleet, n):
    wait_until("agent-%d takes trials again" % (n + 1), 60, lambda: fleet.json(
        "agent", "show", fleet.agent_name(n))["agent"]["accepting"], 0.5)


@fleet_test()
def an_engine_that_is_down_or_hangs_or_dies_is_named_and_costs_no_score(stage):
    fleet = Fleet(stage.world, "engine", agents=2, slots=2).start()
    engine = fleet.engines[0]
    # Down: the other host works on.
    engine.kill()
    trouble = wait_trouble(fleet, 0, "docker")
    check(engine.socket in trouble and "start it" in trouble, "trouble names neither socket nor fix: " + trouble)
    job = fleet.submit(fleet.sleepers("one-host", 0, 2))
    shown = fleet.wait_job(job, 90)
    fleet.check_scored_once(job, shown)
    check({t["agent_host"] for t in shown["trials"]} == {"agent-2"}, "a trial went to a host without an Engine")
    # An agent that starts before its Engine waits for it, and says so.
    fleet.agents[0].kill()
    fleet.start_agent(0)
    wait_until("the agent's log says what it waits for", 20, lambda: "docker is needed (start it" in fleet.agents[0].text())
    engine.start()
    fleet.wait_agents()
    wait_accepting(fleet, 0)
    # Hanging, under running trials.
    job = fleet.submit(fleet.sleepers("hang", 6, 4))
    fleet.wait_containers(4)
    engine.signal(signal.SIGSTOP)
    wait_trouble(fleet, 0, "docker")
    engine.signal(signal.SIGCONT)
    wait_accepting(fleet, 0)
    fleet.check_scored_once(job, fleet.wait_job(job, 120))
    fleet.wait_retired(job)
    # Dying in the middle of a build.
    job = fleet.submit(fleet.sleepers("build", 0, 2, dockerfile="FROM debian:bookworm-slim\nRUN sleep 12 && date +%N > /built\n"))
    wait_until("a build runs on agent-1", 60, lambda: [
        t for t in fleet.running_on(fleet.show(job), 0) if t["phase"] in ("build", "environment_setup")])
    pause(3)
    engine.kill()
    pause(1)
    engine.start()
    shown = fleet.wait_job(job, 180)
    fleet.check_scored_once(job, shown)
    fleet.wait_retired(job)
    fleet.stop()
