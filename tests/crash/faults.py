#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the disk fail below RocksDB: each class of write meets ENOSPC and EIO, each sync EIO, each open also EMFILE, once and
for ever, in the first life of a coordinator's and of an agent's scripted run. Appends to RESULTS/faults.tsv; run it again to go
on."""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import agent_run
import points
import rows

FIELDS = ["process", "error", "call", "kind", "nth", "times", "met", "end", "refusals", "recovery_ms", "seconds", "verdict"]
ERRORS = {"write": ("ENOSPC", "EIO"), "pwrite": ("ENOSPC", "EIO"), "writev": ("ENOSPC", "EIO"), "open": ("ENOSPC", "EMFILE"),
          "fallocate": ("ENOSPC",), "posix_fallocate64": ("ENOSPC",), "rename": ("ENOSPC", "EIO"), "ftruncate": ("EIO",),
          "ftruncate64": ("EIO",), "unlink": ("EIO",), "unlinkat": ("EIO",), "sync_file_range": ("EIO",), "fsync": ("EIO",),
          "fdatasync": ("EIO",), "syncfs": ("EIO",)}
NETWORK = ("socket", "engine")
# Whose failed write or sync leaves an unknown outcome: the process must end.
FATAL = {("write", "WAL"), ("fdatasync", "WAL"), ("fsync", "WAL")}
WORDS = re.compile("No space left|Input/output error|IO error|Too many open files|cannot write|could not be written|cannot sync|cannot make|free", re.I)
ASSERTION = "Assertion `"
STALL_MS = 10000

Case = collections.namedtuple("Case", "process error call kind nth times")


def cases(process, recorded):
    """Each class of call and file met in the recorded run, at its first and its middle occurrence."""
    counts = collections.Counter((point.call, point.kind) for point in recorded if point.kind not in NETWORK)
    found = []
    for (call, kind), count in sorted(counts.items()):
        for error in ERRORS.get(call, ()):
            for nth in sorted({1, count // 2 + 1}):
                found += [Case(process, error, call, kind, nth, times) for times in (1, 0)]
    syncs = counts["fdatasync", "WAL"]
    return found + [Case(process, "stall", "fdatasync", "WAL", nth, 1) for nth in (syncs // 2, syncs - 3)]


def variables(case):
    return {"BERTH_FAILPOINT_ERROR": case.error, "BERTH_FAILPOINT_STALL_MS": str(STALL_MS), "BERTH_FAILPOINT_CALL": case.call,
            "BERTH_FAILPOINT_KIND": case.kind, "BERTH_FAILPOINT_FROM": str(case.nth), "BERTH_FAILPOINT_TIMES": str(case.times)}


def how(code):
    return "exit %d" % code if code >= 0 else signal.Signals(-code).name


def met(path):
    """Phases in which the fault was met, and how often."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        phases = [line.split("\t")[3] for line in file]
    return "%s x%d" % (phases[0], len(phases)) if phases else ""


def judge(case, row, log):
    """What the run must have shown beyond its own checks."""
    ended = row["end"] not in ("went on", "")
    if case.error == "stall":
        return "ok" if not ended else "a slow disk ended the process: " + row["end"]
    if row["met"] and (case.call, case.kind) in FATAL and not ended:
        return "it served on after a failed %s of the %s" % (case.call, case.kind)
    # Debian's RocksDB is built with its assertions, which are met before an error comes up to us: that is a crash.
    aborted = row["end"] == "SIGABRT" and ASSERTION in log
    if ended and not aborted and not WORDS.search(log):
        return "it ended with %s without naming the disk: %s" % (row["end"], clean(log[-300:]))
    return "ok"


def clean(text):
    return text.replace("\t", " ").replace("\n", " | ")


def on_coordinator(flags, case):
    folder = tempfile.mkdtemp(prefix="berth-faults-")
    # A hold that is over before a stall is: nothing may be taken from an agent that was heard meanwhile.
    hold = "4000" if case.error == "stall" else "600000"
    done = subprocess.run(
        [flags.pilot, "run", "--coordinator", flags.coordinator, "--folder", folder, "--preload", flags.preload, "--hold-ms", hold,
         "--faults"] + ["%s=%s" % item for item in variables(case).items()], stdout=subprocess.PIPE, text=True, timeout=300)
    fields = (done.stdout.splitlines() or ["broken\tended with %d" % done.returncode])[-1].split("\t")
    row = {"met": met(folder + "/points")}
    with open(folder + "/coordinator.log", errors="replace") as file:
        log = file.read()
    if fields[0] != "ok":
        return folder, dict(row, verdict=clean(" ".join(fields)))
    status = int(fields[5])
    code = -(status & 0x7f) if status & 0x7f else status >> 8
    row.update(recovery_ms=fields[3], refusals=fields[4], end="went on" if code in (0, -signal.SIGKILL) else how(code))
    verified = subprocess.run([flags.berth, "ledger", "verify", folder + "/data"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    row["verdict"] = judge(case, row, log) if verified.returncode == 0 else "ledger verify: " + clean(verified.stdout[-300:])
    return folder, row


def on_agent(flags, case):
    life = agent_run.Life(flags, faults=True)
    row = {}
    try:
        life.run(dict(life.plan, **variables(case)), False)
        row["verdict"] = "ok"
    except agent_run.Broken as broken:
        row["verdict"] = clean(str(broken))
    # One that lives and gets nowhere is killed by the script, as by an operator, who must know why.
    own = life.ends and not life.refusals
    row.update(met=met(life.points), end=how(life.ends[0]) if own else "went on", refusals=life.refusals,
               recovery_ms=round(max(life.agent.recovery_ms or [0])) or "")
    with open(life.agent.log, errors="replace") as file:
        log = file.read()
    if row["verdict"] == "ok":
        row["verdict"] = judge(case, row, log)
    if row["verdict"] == "ok" and life.refusals and not WORDS.search(log):
        row["verdict"] = "it got nowhere without naming the disk: " + clean(log[-300:])
    if row["verdict"] == "ok":
        life.forget()
    else:
        life.world.keep(life.name)
    return None, row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("coordinator", "berth", "agent", "pilot", "preload", "results"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--docker", help="unix:///PATH of an Engine that has debian:bookworm-slim; without it no agent's disk fails")
    parser.add_argument("--process", choices=("coordinator", "agent"), action="append", help="default: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only one case of so many")
    parser.add_argument("--seconds", type=int, default=86400)
    flags = parser.parse_args()
    path = os.path.join(flags.results, "faults.tsv")
    done = {tuple(row[field] for field in FIELDS[:6]) for row in rows.read(path)}
    chosen = flags.process or ["coordinator"] + (["agent"] if flags.docker else [])
    tasks = [case for process in chosen for case in cases(process, points.recorded(flags, process + "-start"))]
    tasks = [case for case in tasks[::flags.every] if tuple(map(str, case)) not in done]
    tasks.sort(key=lambda case: (case.call, case.kind) not in FATAL)  # what says most comes first
    limit, lock, bad = time.monotonic() + flags.seconds, threading.Lock(), []
    print("%d faults to do" % len(tasks), flush=True)

    def one(case):
        if time.monotonic() > limit:
            return
        begun = time.monotonic()
        folder, row = (on_coordinator if case.process == "coordinator" else on_agent)(flags, case)
        row.update(case._asdict(), seconds="%.1f" % (time.monotonic() - begun))
        with lock:
            rows.append(path, FIELDS, row)
            if row["verdict"] != "ok":
                bad.append(row)
                print("%s %s: %s" % (case, folder or "", row["verdict"]), flush=True)
            elif folder:
                shutil.rmtree(folder)
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        list(pool.map(one, tasks))
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
