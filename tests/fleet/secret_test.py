# SPDX-License-Identifier: Apache-2.0
"""A job's secrets: they reach the one script that needs them, and are found nowhere else."""
import mmap
import os
import secrets
import threading

from fleet import Fleet
from runner import Skip, fleet_test
from world import World, check, marked, run

CORE_SECONDS = 120
ARGV_PAUSE_SECONDS = 0.1
SHADOW_BYTES = 4 << 30  # a larger mapping is a sanitizer's shadow, with none of the program's bytes


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


def environments_with(needle, root):
    """Programs of this world whose environment holds it."""
    found = []
    for pid in marked(root):
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                if needle in file.read():
                    found.append(comm(pid))
        except OSError:
            pass
    return found


def comm(pid):
    with open("/proc/%d/comm" % pid) as file:
        return file.read().strip()


class Arguments(threading.Thread):
    """Looks at the arguments of every program of the machine, over and over."""

    def __init__(self, needles):
        super().__init__(daemon=True)
        self.needles, self.found, self.looks, self.over = needles, set(), 0, threading.Event()

    def run(self):
        while not self.over.wait(ARGV_PAUSE_SECONDS):
            self.looks += 1
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/cmdline" % pid, "rb") as file:
                        arguments = file.read()
                    if any(needle in arguments for needle in self.needles):
                        self.found.add("%s: %s" % (comm(int(pid)), arguments.replace(b"\0", b" ").decode(errors="replace")[:200]))
                except OSError:
                    pass

    def end(self):
        self.over.set()
        self.join()


def core_of(process, path):
    """A core file of a process that goes on: a debugger attaches as root, which a process that is not dumpable permits,
    and writes all of its memory, also what a core file leaves out by itself (-a)."""
    out = run(["gcore", "-a", "-o", path, str(process.pid)], bound=CORE_SECONDS)
    core = "%s.%d" % (path, process.pid)
    check(os.path.exists(core), "gcore made no core file: " + out[-500:])
    return core


def places(needle, core):
    """Where it stands in a core file, with what is around it."""
    found = []
    with open(core, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = -1
        while (at := content.find(needle, at + 1)) >= 0:
            found.append("%x: %r" % (at, content[max(0, at - 40):at + 60]))
    return found


def memory_with(needle, pid):
    """Places in a process's memory, as a core dump would show them."""
    found = []
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            first, last = (int(part, 16) for part in fields[0].split("-"))
            shadow = World.sanitizer and last - first > SHADOW_BYTES
            if "r" not in fields[1] or fields[-1] in ("[vvar]", "[vsyscall]") or shadow:
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


def check_core(stage, fleet, needles):
    core = core_of(fleet.coordinator, stage.world.root + "/core")
    check(places(b"leaky-1", core), "the core file lacks even the name of a task")
    stage.figure("copies of 2 secrets after the job's end, with sessions open: in a core file of %d MiB of the coordinator %d, "
                 "in the memory of agents %s" % (os.path.getsize(core) >> 20, sum(len(places(needle, core)) for needle in needles),
                                                 ", ".join("%d" % copies(needles, agent) for agent in fleet.agents)))
    for needle in needles:
        seen = places(needle, core)
        check(not seen, "after the job's end the secret is in the coordinator's core file, %d times: %s" % (len(seen), seen[:3]))
    os.unlink(core)


def check_memory(fleet, needles):
    """Instead of a core file, which would hold the terabytes of a sanitizer's shadow."""
    check(memory_with(b"leaky-1", fleet.coordinator.pid), "the memory lacks even the name of a task")
    for needle in needles:
        seen = memory_with(needle, fleet.coordinator.pid)
        check(not seen, "after the job's end the secret is in the coordinator's memory, %d times: %s" % (len(seen), seen[:3]))


@fleet_test()
def a_planted_secret_is_found_nowhere(stage):
    fleet = Fleet(stage.world, "secret", agents=2, slots=2).start()
    verifier = "planted" + secrets.token_hex(12)
    agent = "planted" + secrets.token_hex(12)
    needles = [text.encode() for text in (verifier, agent)]
    arguments = Arguments(needles)
    arguments.start()
    folder = fleet.sleepers("leaky", 3, 2, verifier='\n[verifier.env]\nJUDGE_KEY = "${BERTH_FLEET_KEY}"\n',
                            solve='echo "token $AGENT_TOKEN"\n', test='echo "key $JUDGE_KEY"; [ -n "$JUDGE_KEY" ] || exit 1\n')
    job = fleet.submit(folder, "--ae", "AGENT_TOKEN=${BERTH_FLEET_TOKEN}",
                       environment={"BERTH_FLEET_KEY": verifier, "BERTH_FLEET_TOKEN": agent})
    fleet.wait_containers(2)
    for needle in needles:
        seen = environments_with(needle, stage.world.root)
        check(not seen, "while the job runs, the secret is in the environment of %s" % seen)
        seen = files_with(needle, fleet.data)
        check(not seen, "while the job runs, the secret is in the ledger: %s" % seen)
    shown = fleet.wait_job(job, 90)
    fleet.check_scored_once(job, shown)
    fleet.berth("job", "results", job, "-o", fleet.jobs)
    arguments.end()
    check(arguments.looks > 5 and not arguments.found, "%d looks at all programs' arguments saw the secret: %s" % (
        arguments.looks, sorted(arguments.found)[:5]))
    kept = files_with(b"[REDACTED]", fleet.jobs)
    check(len(kept) >= 4, "agent's and verifier's output of two trials should say [REDACTED]; it does in %s" % kept)
    fleet.wait_retired(job)
    if not World.sanitizer:
        check_core(stage, fleet, needles)
    elif World.sanitizer == "address":
        check_memory(fleet, needles)
    for needle in needles:
        for folder in (fleet.data, fleet.jobs, fleet.folder, os.path.join(stage.world.root, "log")):
            seen = files_with(needle, folder)
            check(not seen, "the secret is in files: %s" % seen[:5])
    fleet.stop()
    if World.sanitizer == "thread":
        raise Skip("all but the memory was searched: ThreadSanitizer's allocator keeps freed memory as it was")
