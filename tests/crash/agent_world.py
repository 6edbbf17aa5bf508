# SPDX-License-Identifier: Apache-2.0
"""A real coordinator and real agents on one Docker Engine of this machine, and what must be true of them at the end."""
import atexit
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
import tasks  # pylint: disable=wrong-import-position

WAIT_SECONDS = 600  # no measure: what is still not there then never comes, however busy the machine is
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
WORLDS = threading.local()
NUMBERS = iter(range(1, 10 ** 9))  # of agents, backups, fleets: each name once in a process
POLICY = {"study_id": "s", "manifest_digest": "sha256:" + "a" * 64, "hard_limit_nano_usd": 10 ** 12,
          "phase_limits_nano_usd": {"search": 10 ** 12},
          "rates": [{"backend": "local", "role": "task_environment", "cpu_count": 1, "memory_mb": 128,
                     "nano_usd_per_second": 10, "billing_quantum_seconds": 60}]}


class Broken(Exception):
    """What must never be seen, and was."""


def check(condition, text):
    if not condition:
        raise Broken(text)


def wait_until(what, look, seconds=WAIT_SECONDS, every=0.05):
    limit = time.monotonic() + seconds
    while not (value := look()):
        check(time.monotonic() < limit, "waited %d s for this: %s" % (seconds, what))
        time.sleep(every)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program that may be killed and started again, with its log in one file over all of its lives."""

    def __init__(self, name, log, arguments, ready):
        self.name, self.log, self.arguments, self.ready = name, log, arguments, ready
        self.child, self.lives, self.begun, self.before, self.recovery_ms = None, 0, 0, 0, []

    def start(self, variables=None):
        self.lives += 1
        self.begun = time.monotonic()
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=dict(ENVIRONMENT, **(variables or {})))

    def alive(self):
        return self.child.poll() is None

    def readies(self):
        try:
            with open(self.log, errors="replace") as log:
                return log.read().count(self.ready)
        except FileNotFoundError:
            return 0

    def wait_ready(self, before):
        """False when it died first; the time of the start counts when it is not the first."""
        wait_until(self.name + " is ready", lambda: self.readies() > before or not self.alive(), every=0.02)
        if self.readies() <= before:
            return False
        if self.lives > 1:
            self.recovery_ms.append((time.monotonic() - self.begun) * 1000)
        return True

    def kill(self):
        if self.child and self.alive():
            self.child.send_signal(signal.SIGKILL)
        if self.child:
            self.child.wait()

    def stop(self):
        """SIGTERM; the wait status as Python gives it."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(WAIT_SECONDS)

    def last_words(self):
        with open(self.log, errors="replace") as log:
            return log.read()[-400:].replace("\n", " | ").replace("\t", " ")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class World:
    def __init__(self, flags, folder, fleet):
        self.flags, self.folder, self.fleet = flags, folder, fleet
        self.credentials, self.data = folder + "/cred", folder + "/data"
        self.port, self.blobs = free_port(), free_port()
        self.agents, self.kept = {}, False
        self.coordinator = Process("the coordinator", folder + "/coordinator.log", [
            flags.coordinator, "serve", "--data", self.data, "--credentials", self.credentials + "/coordinator", "--listen",
            "127.0.0.1:%d" % self.port, "--blobs-listen", "127.0.0.1:%d" % self.blobs, "--disk-free-min-mb", "16",
            "--checkpoint-ms", "200", "--max-generations", "100", "--heartbeat-ms", "500", "--hold-ms", "600000"],
                                   "msg=\"serving\"")

    def open(self):
        os.makedirs(self.folder, exist_ok=True)
        subprocess.run([self.flags.coordinator, "init", "--fleet", self.fleet, "--out", self.credentials], check=True)
        self.coordinator.start()
        check(self.coordinator.wait_ready(0), "the coordinator does not serve: " + self.coordinator.last_words())
        policy = self.folder + "/policy.json"
        with open(policy, "w") as file:
            json.dump(POLICY, file)
        self.berth("budget", "create", "tide", policy)
        self.task = tasks.sleeper(self.folder + "/tasks", "nop", 0)
        return self

    def close(self):
        for agent in self.agents.values():
            agent.kill()
        self.coordinator.kill()

    def keep(self, name):
        """Its folder is worth a look."""
        self.kept = True
        print("kept for a look: %s of %s" % (name, self.folder), flush=True)

    def discard(self):
        self.close()
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- the command ---
    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.folder, "BERTH_COORDINATOR": "127.0.0.1:%d" % self.port, "NO_COLOR": "1",
                "BERTH_BLOBS": "127.0.0.1:%d" % self.blobs, "BERTH_CREDENTIALS": self.credentials + "/operator"}

    def command(self, *arguments, **variables):
        return subprocess.run([self.flags.berth] + list(arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(self.environment(), **variables), timeout=WAIT_SECONDS)

    def berth(self, *arguments):
        """Standard output of a command that must succeed; asked again while the coordinator is away."""
        def once():
            done = self.command(*arguments)
            check(done.returncode in (0, 7, 9, 124), "berth %s ended with %d: %s" % (
                " ".join(arguments), done.returncode, done.stderr[-400:]))
            return done if done.returncode == 0 else None
        return wait_until("berth " + " ".join(arguments), once, every=0.1).stdout

    def json(self, *arguments):
        return json.loads(self.berth(*arguments, "--output", "json"))

    def submit(self, key, trials=2):
        """A paid job of nop trials; the same key is the same job."""
        return self.berth("job", "submit", "-p", self.task, "-a", "nop", "-k", str(trials), "-y", "--budget", "tide", "--phase",
                          "search", "--client-key", key).strip()

    # --- agents ---
    def add_agent(self, name, slots=2):
        self.berth("agent", "enroll", name, "--out", self.credentials + "/" + name)
        self.agents[name] = Process(name, "%s/%s.log" % (self.folder, name), [
            self.flags.agent, "--coordinator", "127.0.0.1:%d" % self.port, "--blobs", "127.0.0.1:%d" % self.blobs, "--credentials",
            self.credentials + "/" + name, "--state", "%s/%s" % (self.folder, name), "--docker", self.flags.docker, "--slots",
            str(slots), "--cpus", str(slots), "--memory-mb", "4096", "--disk-free-min-mb", "64"], "msg=\"agent is ready\"")
        return self.agents[name]

    # --- what must hold ---
    def engine(self, path, method="GET"):
        connection = UnixConnection(self.flags.docker.replace("unix://", ""))
        try:
            connection.request(method, path)
            return json.loads(connection.getresponse().read() or "null")
        finally:
            connection.close()

    def filters(self, agent=None):
        labels = ["dev.berth.fleet=" + self.fleet] + (["dev.berth.agent=" + agent] if agent else [])
        return urllib.parse.quote(json.dumps({"label": labels}))

    def remove_bridges(self, agent):
        for each in self.engine("/networks?filters=" + self.filters(agent)):
            self.engine("/networks/" + each["Id"], "DELETE")

    def labelled(self, agent=None):
        """Containers, networks (but one of each agent, which it keeps) and volumes of this fleet, or of one agent of it."""
        filters = self.filters(agent)
        found = [each["Id"][:12] for each in self.engine("/containers/json?all=1&filters=" + filters)]
        owners = [each["Labels"]["dev.berth.agent"] for each in self.engine("/networks?filters=" + filters)]
        found += ["a network of " + owner for owner in set(owners) for _ in range(owners.count(owner) - (owner in self.agents))]
        return found + [each["Name"] for each in self.engine("/volumes?filters=" + filters)["Volumes"] or []]

    def wait_job(self, job, meanwhile):
        """Calls meanwhile() again and again until the job has ended, which one watching command tells."""
        with subprocess.Popen([self.flags.berth, "job", "watch", job], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            try:
                limit = time.monotonic() + WAIT_SECONDS
                while child.poll() is None:
                    check(time.monotonic() < limit, "job %s does not end in %d s" % (job, WAIT_SECONDS))
                    meanwhile()
                    time.sleep(0.05)
            finally:
                child.kill()
            said = child.stderr.read()
        mine = [each for each in self.json("job", "list") if each["job_id"] == job]
        check(mine, "job %s was acknowledged and is gone" % job)
        check(mine[0]["state"] == "JOB_COMPLETED", "job %s ended as %s; the watch ended with %d: %s" % (
            job, mine[0]["state"], child.returncode, said[-300:]))

    def check_job(self, job, trials=2):
        """Each trial is scored exactly once, by its newest run; every lease is retired."""
        shown = self.json("job", "show", job)["trials"]
        leases = self.json("lease", "list", "--all", "--job", job, "--limit", "100000")
        check(len(shown) == trials and all(trial["state"] == "TRIAL_SCORED" for trial in shown), "trials of job %s: %s" % (
            job, [(trial["state"], trial["notes"]) for trial in shown]))
        for trial in shown:
            newest = max(lease["generation"] for lease in leases if lease["trial_index"] == trial["key"]["index"])
            check(trial["key"]["generation"] == newest, "trial %s is scored by run %d of %d" % (
                trial["trial_name"], trial["key"]["generation"], newest))
        still = [lease for lease in leases if lease["state"] != "LEASE_RETIRED"]
        check(not still, "leases of the ended job %s are open: %s" % (
            job, [(lease["lease_id"], lease["state"], lease["agent"]) for lease in still[:3]]))
        return sum(trial["key"]["generation"] - 1 for trial in shown)

    def check_money(self, idle=True):
        totals = self.json("budget", "show", "tide")
        totals = totals.get("budget", totals)["totals"]
        used = sum(int(totals[name]) for name in ("settled_nano_usd", "forfeited_nano_usd", "reserved_nano_usd"))
        check(used <= int(totals["limit_nano_usd"]), "the budget is over its limit: %s" % totals)
        check(not idle or int(totals["reserved_nano_usd"]) == 0, "money is still reserved at the end: %s" % totals)
        return totals

    def verify(self):
        """At rest: the ledger's own proof."""
        done = subprocess.run([self.flags.berth, "ledger", "verify", self.data], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        check(done.returncode == 0, "ledger verify: " + done.stdout.strip()[-300:])


def world_of(flags):
    """This thread's coordinator, which serves many runs."""
    if not hasattr(WORLDS, "world"):
        WORLDS.world = World(flags, tempfile.mkdtemp(prefix="berth-crash-"), "crash-%d-%d" % (os.getpid(), next(NUMBERS))).open()
        atexit.register(WORLDS.world.discard)
    return WORLDS.world
