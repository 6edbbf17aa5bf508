# SPDX-License-Identifier: Apache-2.0
"""One run of two nop trials on a real agent with a real Engine, killed at one point of its first life, or of the second,
which settles what the first left. Each run has an agent of its own; a coordinator serves many runs."""
import os
import shutil
import time

from agent_world import NUMBERS, Broken, check, wait_until, world_of

PHASE_SIZE = 32
FAULT_SECONDS = 60  # after which an agent whose disk fails is started again


class Life:
    """An agent, the script around it, and its phase file."""

    def __init__(self, flags, faults=False):
        self.world, self.faults = world_of(flags), faults
        self.ends, self.refusals, self.begun = [], 0, time.monotonic()
        self.name = "agent-%d" % next(NUMBERS)
        self.agent = self.world.add_agent(self.name)
        self.points = "%s/%s.points" % (self.world.folder, self.name)
        self.phase_path = "%s/%s.phase" % (self.world.folder, self.name)
        self.phase("start")
        self.plan = {"LD_PRELOAD": flags.preload, "BERTH_FAILPOINT_ROOT": "%s/%s" % (self.world.folder, self.name),
                     "BERTH_FAILPOINT_LOG": self.points, "BERTH_FAILPOINT_PHASE": self.phase_path}

    def phase(self, text):
        mode = "r+b" if os.path.exists(self.phase_path) else "wb"
        with open(self.phase_path, mode) as file:
            file.write(text.encode().ljust(PHASE_SIZE, b"\0"))

    def take_end(self):
        """Notes how the agent ended: killed, or, where the disk fails, by itself."""
        code = self.agent.child.returncode
        self.ends.append(code)
        check(code == -9 or self.faults, "the agent ended with %s: %s" % (code, self.agent.last_words()))

    def start_until_ready(self, variables=None):
        """The first start gets the variables; what dies is started again without."""
        while True:
            before = self.agent.readies()
            self.agent.start(variables)
            if self.agent.wait_ready(before):
                return
            self.take_end()
            variables = None

    def keep_alive(self):
        if self.faults and not self.ends and time.monotonic() - self.begun > FAULT_SECONDS:
            self.refusals += 1  # it lives and gets nowhere: started again as an operator would
            self.agent.kill()
        if not self.agent.alive():
            self.take_end()
            self.start_until_ready()

    def run(self, plan, second):
        world = self.world
        if not second:
            self.start_until_ready(plan)
        else:
            self.start_until_ready()
        self.phase("job" if not second else "first-life")
        job = world.submit(self.name)
        if second:
            wait_until("a container is there", lambda: world.labelled(self.name), every=0.02)
            time.sleep(0.3)
            self.agent.kill()
            self.phase("settle")
            self.start_until_ready(plan)
            self.phase("job")
        world.wait_job(job, self.keep_alive)
        self.phase("stop")
        self.keep_alive()
        code = self.agent.stop()
        if code:
            self.take_end()
            self.start_until_ready()
            code = self.agent.stop()
        check(code == 0, "the agent ended with %d: %s" % (code, self.agent.last_words()))
        runs_again = world.check_job(job)
        left = world.labelled(self.name)
        check(not left, "the agent left %s" % left)
        world.check_money()
        return runs_again

    def forget(self):
        self.world.agents.pop(self.name).kill()
        self.world.remove_bridges(self.name)
        shutil.rmtree("%s/%s" % (self.world.folder, self.name), ignore_errors=True)


class Run:
    def __init__(self, life):
        self.second = life == 2

    def record(self, flags):
        life = Life(flags)
        life.run(life.plan, self.second)
        life.forget()
        with open(life.points) as file:
            return file.read()

    def kill(self, flags, plan):
        life = Life(flags)
        row = {"verdict": "not reached"}
        try:
            life.run(dict(life.plan, **plan), self.second)
            if os.path.exists(life.points) and os.path.getsize(life.points):
                row["verdict"] = "ok"
        except Broken as broken:
            row["verdict"] = str(broken).replace("\t", " ").replace("\n", " ")
            life.world.keep(life.name)
        if os.path.exists(life.points) and os.path.getsize(life.points):
            with open(life.points) as file:
                row.update(zip(("call", "kind", "phase", "met"), file.readline().rstrip("\n").split("\t")[1:]))
        row["recovery_ms"] = round(max(life.agent.recovery_ms or [0])) or ""
        if row["verdict"] in ("ok", "not reached"):
            life.forget()
        return row
