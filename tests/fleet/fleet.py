# SPDX-License-Identifier: Apache-2.0
"""One fleet in the world: a coordinator, agents, and the `berth` command to ask them."""
import json
import os
import subprocess
import time

import sanitizer
import tasks
from world import ADDRESS, Failure, Process, at_once, check, check_running, patience, run, wait_until

HOLD_MS = 5000
PORT, BLOBS = 7311, 7312
ENDED = ("JOB_COMPLETED", "JOB_CANCELLED")


def fencing_seconds(hold_ms=HOLD_MS):
    """How long the coordinator waits before it gives a silent agent's trials to others."""
    return hold_ms * 1.05 / 1000 + 5


def killed_seconds(hold_ms=HOLD_MS):
    """When what an agent held is dead: within the fencing wait. A busy machine gets longer for the kill, not for the hold."""
    return hold_ms / 1000 + (fencing_seconds(hold_ms) - hold_ms / 1000) * patience()


class Silence:
    """From the last heartbeat of an agent to the moment when its trials were seen to move."""

    def __init__(self, seen_ns, moved_ns):
        self.seen_ns, self.seconds = seen_ns, (moved_ns - seen_ns) / 1e9


class Fleet:
    def __init__(self, world, name, agents=3, slots=4, hold_ms=HOLD_MS, data=None, flags=()):
        self.world, self.name, self.slots, self.hold_ms, self.flags = world, name, slots, hold_ms, list(flags)
        self.folder = os.path.join(world.root, "fleet-" + name)
        self.credentials = self.folder + "/credentials"
        self.data = data or self.folder + "/data"
        self.jobs = self.folder + "/jobs"
        self.links = world.links[:agents]
        self.engines = world.engines[:agents]
        self.agents = [None] * agents
        self.coordinator = None
        self.lives = 0

    # --- parts ---
    def start(self):
        os.makedirs(self.folder)
        run([self.world.binaries["berth-coordinator"], "init", "--fleet", self.name, "--out", self.credentials,
             "--hosts", ADDRESS + ",localhost"])
        self.start_coordinator()
        at_once([lambda n=n: self.enroll(n) for n in range(len(self.agents))])
        for n in range(len(self.agents)):
            self.start_agent(n)
        self.wait_agents()
        return self

    def agent_name(self, n):
        return "agent-%d" % (n + 1)

    def enroll(self, n):
        self.berth("agent", "enroll", self.agent_name(n), "--out", "%s/%s" % (self.credentials, self.agent_name(n)))

    def coordinator_command(self, data, ready):
        return [self.world.binaries["berth-coordinator"], "serve", "--data", data, "--credentials",
                self.credentials + "/coordinator", "--listen", "0.0.0.0:%d" % PORT, "--blobs-listen", "0.0.0.0:%d" % BLOBS,
                "--hold-ms", str(self.hold_ms), "--checkpoint-ms", "200", "--ready-file", ready] + self.flags

    def start_coordinator(self, wait=True):
        self.lives += 1
        ready = "%s/ready-%d" % (self.folder, self.lives)
        self.coordinator = Process(self.world, self.world.c, self.name + "-coordinator",
                                   self.coordinator_command(self.data, ready))
        if wait:
            self.await_ready(self.coordinator, ready)

    def await_ready(self, process, ready):
        def look():
            check(process.alive(), "%s ended with %s: %s" % (process.name, process.child.returncode, process.text()[-800:]))
            return os.path.exists(ready)
        wait_until(process.name + " serves", 60, look, 0.05)

    def start_agent(self, n, docker=None, flags=()):
        name = self.agent_name(n)
        self.agents[n] = Process(self.world, self.links[n].agent, "%s-%s" % (self.name, name), [
            self.world.binaries["berth-agent"], "--coordinator", "%s:%d" % (ADDRESS, PORT), "--blobs",
            "%s:%d" % (ADDRESS, BLOBS), "--credentials", "%s/%s" % (self.credentials, name), "--state",
            "%s/%s" % (self.folder, name), "--docker", docker or self.engines[n].url, "--slots", str(self.slots),
            "--cpus", str(self.slots)] + list(flags))

    def wait_agents(self, *names, state="AGENT_UP", seconds=60):
        names = names or [self.agent_name(n) for n in range(len(self.agents)) if self.agents[n]]

        def look():
            states = {agent["name"]: agent["state"] for agent in self.json("agent", "list")}
            check(all(states.get(name) == state for name in names), str(states))
            return True
        wait_until("agents are " + state, seconds, look, 0.2)

    def stop(self):
        """Everything ends in order, and nothing of the fleet is left on any Engine."""
        codes = at_once([agent.stop for agent in self.agents if agent]) + [self.coordinator.stop()]
        check(not any(codes), "orderly ends with exit codes %s, agents first" % codes)
        self.check_nothing_left()

    # --- the command ---
    def command(self, *arguments, bound=120, host=None, environment=None):
        """Exit code, standard output, standard error."""
        variables = dict(self.world.environment, BERTH_COORDINATOR="%s:%d" % (ADDRESS, PORT),
                         BERTH_BLOBS="%s:%d" % (ADDRESS, BLOBS), BERTH_CREDENTIALS=self.credentials + "/operator",
                         NO_COLOR="1")
        variables.update(environment or {})
        limit = time.monotonic() + bound * patience()
        with subprocess.Popen((host or self.world.c).enter + [self.world.binaries["berth"]] + list(arguments), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables) as child:
            try:
                while True:
                    try:
                        out, err = child.communicate(timeout=0.5)
                        fault = sanitizer.fault("berth " + " ".join(arguments[:2]), child.returncode, err)
                        if fault:
                            self.world.faults.append(fault)  # also when the caller only asks again
                        if child.returncode != 0:
                            check_running()  # the deeper reason, when there is one
                        return child.returncode, out, err
                    except subprocess.TimeoutExpired:
                        check_running()
                        check(time.monotonic() < limit, "berth %s did not end in %d s" % (" ".join(arguments), bound))
            finally:
                child.kill()

    def berth(self, *arguments, **options):
        code, out, err = self.command(*arguments, **options)
        check(code == 0, "berth %s ended with %d: %s" % (" ".join(arguments), code, (err or out)[-900:]))
        return out

    def json(self, *arguments, **options):
        return json.loads(self.berth(*arguments, "--output", "json", **options))

    def submit(self, path, *flags, attempts=1, agent="oracle", **options):
        return self.berth("job", "submit", "-p", path, "-a", agent, "-k", str(attempts), "-y", *flags, **options).strip()

    def sleepers(self, name, seconds, count=1, **task):
        """A folder of `count` tasks that sleep."""
        folder = "%s/tasks-%s" % (self.folder, name)
        for n in range(count):
            tasks.sleeper(folder, "%s-%d" % (name, n + 1), seconds, **task)
        return folder

    # --- asking ---
    def show(self, job, **options):
        return self.json("job", "show", job, **options)

    def leases(self, job):
        return self.json("lease", "list", "--all", "--job", job, "--limit", "100000")

    def containers(self, n=None, **labels):
        engines = self.engines if n is None else [self.engines[n]]
        return [container for engine in engines for container in engine.containers(fleet=self.name, **labels)]

    def running_on(self, shown, n):
        return [trial for trial in shown["trials"]
                if trial["state"] == "TRIAL_RUNNING" and trial["agent_host"] == self.agent_name(n)]

    def wait_containers(self, count, n=None, seconds=60):
        """At least `count` task containers that run."""
        def look():
            up = [container for container in self.containers(n) if container["State"] == "running"]
            check(len(up) >= count, "%d run" % len(up))
            return up
        return wait_until("%d containers run" % count, seconds, look, 0.1)

    def wait_job(self, job, seconds, state="JOB_COMPLETED"):
        def look():
            shown = self.json("job", "list")
            mine = next(each for each in shown if each["job_id"] == job)
            check(mine["state"] in ENDED, "%s %s" % (mine["state"], mine["counts"]))
            return mine
        ended = wait_until("job %s ends" % job, seconds, look, 0.3)
        check(ended["state"] == state, "the job ended as %s" % ended["state"])
        return self.show(job)

    # --- what must hold ---
    def check_scored_once(self, job, shown):
        """Every cell has one accepted result with reward 1, whose generation is its newest; no generation shares a lease."""
        trials, counts = shown["trials"], shown["job"]["counts"]
        bad = [(t["trial_name"], t["state"], t["notes"], t["result"] and t["result"].get("exception"))
               for t in trials if t["state"] != "TRIAL_SCORED"]
        check(not bad, "cells without a score: %s" % bad[:5])
        check(counts["scored"] == counts["total"] == len(trials), "counts %s for %d trials" % (counts, len(trials)))
        check(counts["reward_sum"] == len(trials), "the rewards' sum is %s for %d trials" % (counts["reward_sum"], len(trials)))
        check(sorted(t["key"]["index"] for t in trials) == list(range(len(trials))), "cells are missing or double")
        owners = {}
        for lease in self.leases(job):
            key = (lease["trial_index"], lease["generation"])
            check(owners.setdefault(lease["lease_id"], key) == key, "lease %s has two owners" % lease["lease_id"])
        for trial in trials:
            newest = max(generation for index, generation in owners.values() if index == trial["key"]["index"])
            check(trial["key"]["generation"] == newest, "cell %s is scored by generation %s of %d" % (
                trial["trial_name"], trial["key"]["generation"], newest))

    def silence(self, n, moved_ns):
        """How long this agent was not heard before its trials were seen to move."""
        agent = next(agent for agent in self.json("agent", "list") if agent["name"] == self.agent_name(n))
        return Silence(agent["seen_at_ns"], moved_ns)

    def check_fenced(self, job, cells, silence):
        """A silent agent's trials are never taken from it, nor run again, before the fencing wait is over."""
        fence = fencing_seconds(self.hold_ms)
        check(silence.seconds >= fence, "trials moved after %.3f s of silence, before the fencing wait of %.3f s" % (
            silence.seconds, fence))
        for lease in self.leases(job):
            if lease["trial_index"] in cells and lease["generation"] == 2:
                began = (lease["created_at_ns"] - silence.seen_ns) / 1e9
                check(began >= fence, "cell %d ran again after %.3f s of silence, before the fencing wait of %.3f s" % (
                    lease["trial_index"], began, fence))

    def generations(self, job, index):
        return sorted({lease["generation"] for lease in self.leases(job) if lease["trial_index"] == index})

    def check_retired(self, job):
        open_leases = [lease for lease in self.leases(job) if lease["state"] != "LEASE_RETIRED"]
        check(not open_leases, "leases that are not retired: %s" % open_leases[:3])

    def wait_retired(self, job, seconds=30):
        def look():
            self.check_retired(job)
            return True
        wait_until("every lease of the job is retired", seconds, look, 0.3)

    def check_nothing_left(self, n=None):
        left = self.containers(n)
        check(not left, "containers are left: %s" % [(c["Names"], c["State"], c["Labels"]) for c in left[:4]])


class Scores:
    """Follows a job while faults happen: a cell that is scored stays so, by the same generation."""

    def __init__(self, fleet, job):
        self.fleet, self.job, self.scored = fleet, job, {}

    def look(self):
        shown = self.fleet.show(self.job)
        now = {t["key"]["index"]: t["key"]["generation"] for t in shown["trials"] if t["state"] == "TRIAL_SCORED"}
        for index, generation in self.scored.items():
            check(now.get(index) == generation, "cell %d was scored by generation %d, then is %s" % (
                index, generation, now.get(index, "not scored")))
        self.scored.update(now)
        return shown

    def wait_end(self, seconds):
        def look():
            shown = self.look()
            check(shown["job"]["state"] in ENDED, str(shown["job"]["counts"]))
            return shown
        return wait_until("job %s ends" % self.job, seconds, look, 0.5)
