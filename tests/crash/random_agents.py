#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a coordinator, two agents, or all of them at random moments, while nop trials run under a paid budget on a real Engine.
Appends a line to the results for each chunk of kills that is whole; run it again to go on."""
import argparse
import atexit
import os
import random
import shutil
import tempfile
import time

import rows
from agent_world import Broken, World, check
from random_kills import FIELDS

AGENTS, SLOTS, TRIALS = 2, 2, 4
KINDS = ["coordinator"] * 5 + ["agent"] * 4 + ["both"]


class Chunk:
    def __init__(self, flags, seed):
        self.random = random.Random(seed)
        self.world = World(flags, tempfile.mkdtemp(prefix="berth-chaos-"), "chaos-%d-%d" % (os.getpid(), seed)).open()
        atexit.register(self.world.close)
        for n in range(AGENTS):
            self.world.add_agent("agent-%d" % (n + 1), SLOTS).start()
        self.jobs, self.kills, self.next = [], {"coordinator": 0, "agent": 0}, 0

    def victims(self):
        kind = self.random.choice(KINDS)
        agents = [("agent", self.random.choice(list(self.world.agents.values())))] if kind != "coordinator" else []
        return ([("coordinator", self.world.coordinator)] if kind != "agent" else []) + agents

    def kill_some(self):
        """Kills, and starts again at once; how far the next life comes before its own end is the next kill's chance."""
        for kind, process in self.victims():
            check(process.alive(), "%s ended by itself with %s: %s" % (process.name, process.child.returncode, process.last_words()))
            process.kill()
            process.before = process.readies()
            process.start()
            self.kills[kind] += 1

    def rest(self):
        """Until every process works, all jobs are over, and what must hold is looked at."""
        world = self.world
        for process in [world.coordinator] + list(world.agents.values()):
            if process.readies() <= process.before:
                check(process.wait_ready(process.before), "%s ended by itself: %s" % (process.name, process.last_words()))
        for job in self.jobs:
            world.wait_job(job, lambda: None)
            world.check_job(job, TRIALS)
        world.check_money()
        check(not world.labelled(), "nothing runs, and this is left: %s" % world.labelled())

    def run(self, kills):
        while sum(self.kills.values()) < kills:
            if self.next % 12 == 0:
                self.jobs.append(self.world.submit("chaos-%d" % self.next, TRIALS))
            self.next += 1
            time.sleep(self.random.choice((self.random.uniform(0, 0.5), self.random.uniform(0, 3))))
            self.kill_some()
        self.rest()
        for agent in self.world.agents.values():
            check(agent.stop() == 0, "%s did not end in order: %s" % (agent.name, agent.last_words()))
        self.world.coordinator.kill()
        self.world.verify()


def one(flags, seed):
    begun = time.monotonic()
    chunk = Chunk(flags, seed)
    row = {"seed": seed, "verdict": "ok"}
    try:
        chunk.run(flags.chunk)
    except Broken as broken:
        row["verdict"] = str(broken).replace("\t", " ").replace("\n", " ")
        print("kept for a look: " + chunk.world.folder, flush=True)
    row.update(jobs=len(chunk.jobs), trials=len(chunk.jobs) * TRIALS, audits=1, seconds=round(time.monotonic() - begun))
    for kind, kills in chunk.kills.items():
        rows.append(flags.results, FIELDS, dict(row, kind=kind + ", with an Engine", kills=kills))
    print("seed %d: %s: %s" % (seed, chunk.kills, row["verdict"]), flush=True)
    chunk.world.close()
    if row["verdict"] == "ok":
        for agent in chunk.world.agents:
            chunk.world.remove_bridges(agent)
        shutil.rmtree(chunk.world.folder, ignore_errors=True)
    return row["verdict"] == "ok"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("coordinator", "berth", "agent", "results", "docker"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--kills", type=int, default=2000, help="of agents, in all of the results")
    parser.add_argument("--chunk", type=int, default=60, help="kills between two looks at everything")
    parser.add_argument("--seconds", type=int, default=86400, help="no chunk begins later")
    flags, _ = parser.parse_known_args()
    limit = time.monotonic() + flags.seconds
    while time.monotonic() < limit:
        found = [row for row in rows.read(flags.results) if row["kind"] == "agent, with an Engine"]
        if sum(int(row["kills"] or 0) for row in found) >= flags.kills:
            break
        if not one(flags, max([int(row["seed"]) for row in found], default=0) + 1):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
