#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a process at each of its enumerated failpoints: records a run's points once, then kills at each, before and after the
call, and after half of a write. Appends to RESULTS/points.tsv; run it again to go on.

A point is found again as the n-th call of its kind in its phase. Threads race, so what a kill met is what the library logged."""
import argparse
import collections
import concurrent.futures
import os
import random
import signal
import threading
import time

import agent_run
import backup_run
import coordinator_run
import rows

FIELDS = ["scenario", "number", "moment", "met", "call", "kind", "phase", "recovery_ms", "seconds", "verdict"]
LINGER_MS = 20  # before a death: enough for an acknowledgement that is sent too early to leave
TORN = ("write", "pwrite", "writev", "send", "sendmsg")
SCENARIOS = {"coordinator-start": coordinator_run.Run(life=1), "coordinator-recovery": coordinator_run.Run(life=2),
             "agent-start": agent_run.Run(life=1), "agent-recovery": agent_run.Run(life=2),
             "backup-first": backup_run.Run(backup_run.Making(again=False)),
             "backup-next": backup_run.Run(backup_run.Making(again=True)), "restore": backup_run.Run(backup_run.Restoring())}


class Point(collections.namedtuple("Point", "number call kind phase nth")):
    """nth: of its call, kind and phase, from 1 on, by which a kill finds it again; the number is its place in the whole run."""

    def moments(self):
        return ("before", "after", "torn") if self.call in TORN else ("before", "after")


    def plan(self, moment):
        """What kills there, as failpoint.h has it."""
        return {"BERTH_FAILPOINT_ERROR": "kill", "BERTH_FAILPOINT_CALL": self.call, "BERTH_FAILPOINT_KIND": self.kind,
                "BERTH_FAILPOINT_DURING": self.phase, "BERTH_FAILPOINT_FROM": str(self.nth), "BERTH_FAILPOINT_TIMES": "1",
                "BERTH_FAILPOINT_MOMENT": moment, "BERTH_FAILPOINT_LINGER_MS": str(LINGER_MS)}


def read_points(path):
    counts, points = collections.Counter(), []
    with open(path) as file:
        for number, *group in (line.rstrip("\n").split("\t")[:4] for line in file):
            counts[tuple(group)] += 1
            points.append(Point(int(number), *group, counts[tuple(group)]))
    return points


def recorded(flags, scenario):
    """The points of the run that the campaign counts by; made once and kept beside the results."""
    path = os.path.join(flags.results, scenario + ".points")
    os.makedirs(flags.results, exist_ok=True)
    if not os.path.exists(path):
        with open(path + ".new", "w") as file:
            file.write(SCENARIOS[scenario].record(flags))
        os.rename(path + ".new", path)
    return read_points(path)


def ordered(points, done, seed):
    """Kills that are not in the results yet: one of each class first, then the others, at random."""
    tasks = [(point, moment) for point in points for moment in point.moments() if (str(point.number), moment) not in done]
    random.Random(seed).shuffle(tasks)
    seen, first, rest = set(), [], []
    for point, moment in tasks:
        key = (point.call, point.kind, point.phase, moment)
        (rest if key in seen else first).append((point, moment))
        seen.add(key)
    return first + rest


def classes(points):
    return {(p.call, p.kind, p.phase, moment) for p in points for moment in p.moments()}


def campaign(flags, scenario):
    path = os.path.join(flags.results, "points.tsv")
    done = {(row["number"], row["moment"]) for row in rows.read(path) if row["scenario"] == scenario}
    points = recorded(flags, scenario)
    tasks = ordered(points, done, flags.seed)[:flags.sample]
    lock, bad = threading.Lock(), []
    print("%s: %d points in %d classes, %d kills to do" % (scenario, len(points), len(classes(points)), len(tasks)), flush=True)

    def one(task):
        point, moment = task
        if time.monotonic() > flags.until or bad:
            return
        begun = time.monotonic()
        row = SCENARIOS[scenario].kill(flags, point.plan(moment))
        row.update(scenario=scenario, number=point.number, moment=moment, seconds="%.1f" % (time.monotonic() - begun))
        with lock:
            rows.append(path, FIELDS, row)
            if row["verdict"] not in ("ok", "not reached"):
                bad.append(row)
                print("%s %d %s: %s" % (scenario, point.number, moment, row["verdict"]), flush=True)
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        list(pool.map(one, tasks))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("coordinator", "berth", "agent", "pilot", "preload", "results"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--docker", help="unix:///PATH of an Engine that has debian:bookworm-slim; without it no agent is killed")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append", help="default: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--sample", type=int, help="at most so many kills of a scenario")
    parser.add_argument("--seconds", type=int, default=86400, help="no run begins later; SIGTERM and SIGINT say so too")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    flags.until = time.monotonic() + flags.seconds
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(flags, "until", 0))
    chosen = flags.scenario or [name for name in sorted(SCENARIOS) if flags.docker or not name.startswith("agent")]
    bad = [row for scenario in chosen for row in campaign(flags, scenario)]
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
