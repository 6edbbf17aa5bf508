# SPDX-License-Identifier: Apache-2.0
"""Partitions, bad lines and a twin: at most one run of a cell is alive, and it is scored once."""
import shutil
import time

from fleet import Fleet, Scores, fencing_seconds, killed_seconds
from runner import fleet_test
from world import Failure, Process, check, pause, run, wait_until

LOSS_SECONDS = 30  # an agent may be lost for so long before a test gives up


class Watch:
    """While agents are cut off: a cell's new run starts only after its old container is dead, and never before the
    fencing wait is over."""

    def __init__(self, fleet, job, cut):
        self.fleet, self.job, self.cut = fleet, job, cut
        self.old = {n: {c["Id"]: int(c["Labels"]["dev.berth.trial"]) for c in fleet.containers(n) if c["State"] == "running"}
                    for n in cut}
        self.dead_ns, self.silence = {}, {}
        self.scores = Scores(fleet, job)

    def cells(self, n):
        return sorted(self.old[n].values())

    def look(self):
        """True once the cut hosts' containers are dead and their trials are taken from them."""
        alive = {}
        for n in range(len(self.fleet.agents)):
            running = [c for c in self.fleet.containers(n) if c["State"] == "running"]
            for container in running:
                alive.setdefault(container["Labels"]["dev.berth.trial"], set()).add(container["Labels"]["dev.berth.generation"])
            if n in self.cut and not self.old[n].keys() & {c["Id"] for c in running}:
                self.dead_ns.setdefault(n, time.time_ns())
        for trial, generations in alive.items():
            check(len(generations) == 1, "generations %s of cell %s are alive at once" % (sorted(generations), trial))
        shown = self.scores.look()
        moved_ns = time.time_ns()
        moved = {t["key"]["index"] for t in shown["trials"] if t["notes"] or t["key"]["generation"] > 1}
        for n in self.cut:
            if n not in self.silence and set(self.cells(n)) <= moved:
                self.silence[n] = self.fleet.silence(n, moved_ns)
        return len(self.silence) == len(self.cut) == len(self.dead_ns)

    def check_end(self):
        """That nothing moves early is never widened, nor is the hold; the time to kill what is over is."""
        for n, silence in self.silence.items():
            died = (self.dead_ns[n] - silence.seen_ns) / 1e9
            check(died <= killed_seconds(self.fleet.hold_ms), "containers of agent-%d died %.2f s after its last heartbeat" % (n + 1, died))
            for cell in self.cells(n):
                check(self.fleet.generations(self.job, cell) == [1, 2], "the leases of cell %d are of generations %s" % (
                    cell, self.fleet.generations(self.job, cell)))
            self.fleet.check_fenced(self.job, self.cells(n), silence)


def cut_in_the_middle(stage, name, cuts):
    fleet = Fleet(stage.world, name, slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 9, 6))
    fleet.wait_containers(6)
    watch = Watch(fleet, job, list(cuts))
    for n, way in cuts.items():
        fleet.links[n].cut(way)
    cut_ns = time.time_ns()
    wait_until("the trials of %s move" % sorted(cuts), fencing_seconds() + LOSS_SECONDS, watch.look, 0.1)
    stage.figure("%s: %s (hold %.1f s, fencing wait %.2f s)" % (name, "; ".join(
        "%s: containers dead %.1f s after the cut, trials moved after %.2f s of silence" % (
            way, (watch.dead_ns[n] - cut_ns) / 1e9, watch.silence[n].seconds) for n, way in cuts.items()),
        fleet.hold_ms / 1000, fencing_seconds()))
    for n in cuts:
        fleet.links[n].cut("none")
    shown = watch.scores.wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.wait_agents()
    fleet.wait_retired(job)
    watch.check_end()
    fleet.check_nothing_left()
    fleet.stop()


# Some hosts go on, so that a new run could begin beside an old one.
@fleet_test()
def trials_behind_a_partition_die_in_their_hold_and_run_elsewhere(stage):
    cut_in_the_middle(stage, "two-way-cut", {0: "both"})


@fleet_test()
def trials_of_hosts_that_hear_nothing_or_are_not_heard_move_too(stage):
    cut_in_the_middle(stage, "one-way-cut", {0: "deaf", 1: "mute"})


@fleet_test(long=True)
def trials_of_hosts_that_are_cut_off_in_every_way_die_in_their_hold_and_run_again(stage):
    cut_in_the_middle(stage, "every-way-cut", {0: "both", 1: "deaf", 2: "mute"})


@fleet_test(long=True)
def a_short_cut_moves_nothing(stage):
    fleet = Fleet(stage.world, "short-cut", slots=1).start()
    job = fleet.submit(fleet.sleepers("rest", 6, 3))
    before = {c["Id"] for c in fleet.wait_containers(3)}
    fleet.links[0].cut("both")
    pause(2)
    fleet.links[0].cut("none")
    fleet.wait_agents()
    after = {c["Id"] for c in fleet.containers()}
    check(after <= before, "new containers %s after a cut of 2 s" % sorted(after - before))
    shown = fleet.wait_job(job, 60)
    fleet.check_scored_once(job, shown)
    check({t["key"]["generation"] for t in shown["trials"]} == {1}, "a cut of 2 s made trials run again")
    fleet.stop()


@fleet_test()
def twenty_trials_end_over_slow_and_lossy_lines(stage):
    fleet = Fleet(stage.world, "bad-lines", slots=4, hold_ms=20000).start()
    for n, link in enumerate(fleet.links):
        link.degrade(stage.seed + n, ["delay 75 50", "loss 5", "duplicate 1", "reorder 5"])
    begun = time.monotonic()
    job = fleet.submit(fleet.sleepers("far", 2), attempts=20)
    shown = Scores(fleet, job).wait_end(180)
    seconds = time.monotonic() - begun
    fleet.check_scored_once(job, shown)
    stage.figure("20 trials of 2 s over lines of 75±50 ms with 5 %% loss: %.1f s" % seconds)
    lost = [link.tell("stats") for link in fleet.links]
    check(all("lost=0 " not in text for text in lost), "a relay lost nothing: %s" % lost)
    fleet.check_retired(job)
    fleet.stop()


# --- the twin ---
def copy_ledger(fleet, folder):
    """A copy of the data folder while its owner goes on; files may vanish under the copy, which is then made again."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            run(["cp", "-a", fleet.data, folder])
            return
        except Failure:
            time.sleep(0.2)
    raise Failure("the ledger could not be copied")


def start_twin(fleet):
    """A second coordinator with the same credentials and address, on a copy of the ledger in mid-job."""
    folder, ready = fleet.folder + "/twin", fleet.folder + "/ready-twin"
    for _ in range(5):
        copy_ledger(fleet, folder)
        twin = Process(fleet.world, fleet.world.w, fleet.name + "-twin", fleet.coordinator_command(folder, ready), may_end=True)
        try:
            fleet.await_ready(twin, ready)
            return twin
        except Failure as failure:
            twin.kill()
            last = failure
    raise Failure("no copy of the ledger opens: %s" % last)


def line_with(text, *words):
    """The first line of a log that has all words; None without one."""
    return next((line for line in text.splitlines() if all(word in line for word in words)), None)


def wait_refusal(twin, agent, since_twin, since_agent):
    """Both sides must say who refused whom, and why."""
    words = ("saw event", "does not hold", "older copy")
    said = wait_until("the twin says why it refuses", 60, lambda: line_with(
        twin.text()[since_twin:], "session refused", "agent=agent-1", "code=FENCED", *words))
    wait_until("the agent says why it is refused", 30, lambda: line_with(
        agent.text()[since_agent:], "no session", *words))
    return said


@fleet_test()
def nothing_obeys_a_twin(stage):
    fleet = Fleet(stage.world, "twin", agents=2, slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 5), attempts=10)
    fleet.wait_containers(4)
    twin = start_twin(fleet)
    seen_by_twin = fleet.show(job, host=stage.world.w)
    # What follows the copy must have reached the agent before it meets the twin.
    wait_until("the first coordinator goes on", 60, lambda: fleet.show(job)["job"]["counts"]["scored"] > 0)
    pause(1)
    link, agent = fleet.links[0], fleet.agents[0]
    scored = fleet.show(job)["job"]["counts"]["scored"]
    link.to(stage.world.w)
    said = wait_refusal(twin, agent, 0, 0)
    agent.kill()
    marks = len(twin.text()), len(agent.text())
    fleet.start_agent(0)
    wait_refusal(twin, fleet.agents[0], *marks)
    wait_until("the first coordinator commits beside its twin", 60, lambda: fleet.show(job)["job"]["counts"]["scored"] > scored)
    twins = fleet.show(job, host=stage.world.w)
    check(twins["job"]["counts"]["scored"] == seen_by_twin["job"]["counts"]["scored"], "the twin scored: %s" % twins["job"]["counts"])
    states = {a["name"]: a["state"] for a in fleet.json("agent", "list", host=stage.world.w)}
    check("AGENT_UP" not in states.values(), "an agent is up for the twin: %s" % states)
    check(all(c["Labels"]["dev.berth.agent"] != "agent-1" for c in fleet.containers(0) if c["State"] == "running"),
          "agent-1 runs containers for the twin")
    stage.figure("a twin is told: " + said.split("reason=", 1)[-1])
    link.to(stage.world.c)
    twin.stop()
    fleet.wait_agents()
    shown = Scores(fleet, job).wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.wait_retired(job)
    fleet.stop()
