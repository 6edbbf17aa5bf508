# SPDX-License-Identifier: Apache-2.0
"""Partitions, bad lines and a twin: at most one run of a cell is alive, and it is scored once."""
import shutil
import time

from fleet import Fleet, Scores, fencing_seconds
from runner import fleet_test
from world import Failure, Process, check, patience, run, wait_until

LOSS_SECONDS = 30  # an agent may be lost for so long before a test gives up


class Watch:
    """While agents are cut off: a cell's new run starts only after its old container is dead."""

    def __init__(self, fleet, job, cut):
        self.fleet, self.job, self.cut = fleet, job, cut
        self.begun = time.monotonic()
        self.before = {c["Id"]: c for n in cut for c in fleet.containers(n) if c["State"] == "running"}
        self.dead_after = self.moved_after = None
        self.scores = Scores(fleet, job)

    def generations(self):
        alive = {}
        for container in self.fleet.containers():
            if container["State"] == "running":
                alive.setdefault(container["Labels"]["dev.berth.trial"], set()).add(container["Labels"]["dev.berth.generation"])
        return alive

    def look(self):
        """True once the cut hosts' containers are dead and their trials are given to others."""
        for trial, generations in self.generations().items():
            check(len(generations) == 1, "generations %s of cell %s are alive at once" % (sorted(generations), trial))
        left = [c["Id"] for n in self.cut for c in self.fleet.containers(n) if c["Id"] in self.before and c["State"] == "running"]
        if not left and not self.dead_after:
            self.dead_after = time.monotonic() - self.begun
        shown = self.scores.look()
        cells = {int(c["Labels"]["dev.berth.trial"]) for c in self.before.values()}
        moved = [t for t in shown["trials"] if t["key"]["index"] in cells and (t["notes"] or t["key"]["generation"] > 1)]
        if len(moved) == len(cells) and not self.moved_after:
            self.moved_after = time.monotonic() - self.begun
        return self.dead_after and self.moved_after

    def cells(self):
        return sorted(int(c["Labels"]["dev.berth.trial"]) for c in self.before.values())


def cut_in_the_middle(stage, name, cuts):
    fleet = Fleet(stage.world, name, slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 12, 6))
    fleet.wait_containers(6)
    watch = Watch(fleet, job, list(cuts))
    for n, way in cuts.items():
        fleet.links[n].cut(way)
    wait_until("the trials of %s move" % sorted(cuts), fencing_seconds() + LOSS_SECONDS, watch.look, 0.2)
    hold = fleet.hold_ms / 1000
    check(watch.dead_after < hold + 4 * patience(), "containers behind the cut died %.1f s after it; the hold is %.1f s" % (watch.dead_after, hold))
    check(watch.moved_after >= fencing_seconds() - 1.5, "trials moved after %.1f s, before the fencing wait of %.2f s" % (
        watch.moved_after, fencing_seconds()))
    stage.figure("%s: containers dead %.1f s and trials moved %.1f s after the cut (hold %.1f s, fencing wait %.2f s)" % (
        name, watch.dead_after, watch.moved_after, hold, fencing_seconds()))
    for n in cuts:
        fleet.links[n].cut("none")
    shown = watch.scores.wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.wait_agents()
    fleet.wait_retired(job)
    for cell in watch.cells():
        check(fleet.generations(job, cell) == [1, 2], "the leases of cell %d are of generations %s" % (
            cell, fleet.generations(job, cell)))
    fleet.check_nothing_left()
    fleet.stop()


@fleet_test()
def trials_of_hosts_that_are_cut_off_in_every_way_die_in_their_hold_and_run_again(stage):
    cut_in_the_middle(stage, "every-way-cut", {0: "both", 1: "deaf", 2: "mute"})


# The same with hosts that go on, so that a new run could begin beside an old one.
@fleet_test(long=True)
def trials_behind_a_partition_die_in_their_hold_and_run_elsewhere(stage):
    cut_in_the_middle(stage, "two-way-cut", {0: "both"})


@fleet_test(long=True)
def trials_of_hosts_that_hear_nothing_or_are_not_heard_move_too(stage):
    cut_in_the_middle(stage, "one-way-cut", {0: "deaf", 1: "mute"})


@fleet_test(long=True)
def a_short_cut_moves_nothing(stage):
    fleet = Fleet(stage.world, "short-cut", slots=1).start()
    job = fleet.submit(fleet.sleepers("rest", 6, 3))
    before = {c["Id"] for c in fleet.wait_containers(3)}
    fleet.links[0].cut("both")
    time.sleep(2)
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
        twin = Process(fleet.world, fleet.world.w, fleet.name + "-twin", fleet.coordinator_command(folder, ready))
        try:
            fleet.await_ready(twin, ready)
            return twin
        except Failure as failure:
            twin.kill()
            last = failure
    raise Failure("no copy of the ledger opens: %s" % last)


@fleet_test()
def nothing_obeys_a_twin(stage):
    fleet = Fleet(stage.world, "twin", agents=2, slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 6), attempts=8)
    fleet.wait_containers(4)
    twin = start_twin(fleet)
    seen_by_twin = fleet.show(job, host=stage.world.w)
    # What follows the copy must have reached the agent before it meets the twin.
    wait_until("the first coordinator goes on", 60, lambda: fleet.show(job)["job"]["counts"]["scored"] > 0)
    time.sleep(2)
    link, agent = fleet.links[0], fleet.agents[0]
    link.to(stage.world.w)
    wait_until("the agent refuses the twin or is refused", 40, lambda: "is not obeyed" in agent.text() or
               "session refused" in twin.text())
    wait_until("the twin's log says why", 20, lambda: "session refused" in twin.text() or "another" in twin.text())
    agent.kill()
    fleet.start_agent(0)
    mark = len(twin.text())
    wait_until("the twin is met again after the agent's restart", 60, lambda: "session refused" in twin.text()[mark:])
    time.sleep(2)
    twins = fleet.show(job, host=stage.world.w)
    check(twins["job"]["counts"]["scored"] == seen_by_twin["job"]["counts"]["scored"], "the twin scored: %s" % twins["job"]["counts"])
    states = {a["name"]: a["state"] for a in fleet.json("agent", "list", host=stage.world.w)}
    check("AGENT_UP" not in states.values(), "an agent is up for the twin: %s" % states)
    check(all(c["Labels"]["dev.berth.agent"] != "agent-1" for c in fleet.containers(0) if c["State"] == "running"),
          "agent-1 runs containers for the twin")
    check(fleet.coordinator.alive(), "the first coordinator ended: " + fleet.coordinator.text()[-500:])
    link.to(stage.world.c)
    twin.stop()
    fleet.wait_agents()
    shown = Scores(fleet, job).wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.wait_retired(job)
    fleet.stop()
