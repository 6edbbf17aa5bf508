# SPDX-License-Identifier: Apache-2.0
"""Programs that are killed or frozen at any moment."""
import random
import signal
import time

from fleet import Fleet, Scores, fencing_seconds, killed_seconds
from runner import fleet_test
from world import check, pause, wait_until

MOVE_SLACK_SECONDS = 4  # ticks, heartbeats and a busy machine


@fleet_test()
def running_trials_survive_a_coordinator_that_is_killed_five_times(stage):
    random_ = random.Random(stage.seed)
    fleet = Fleet(stage.world, "killed-coordinator", slots=3, hold_ms=20000).start()
    begun = time.monotonic()
    job = fleet.submit(fleet.sleepers("short", 2), attempts=200 if stage.long else 40)
    scores = Scores(fleet, job)
    restarts, back = [], []
    for _ in range(20 if stage.long else 5):
        fleet.wait_containers(4)
        pause(random_.uniform(0, 1.5))
        before = {c["Id"]: c["Labels"]["dev.berth.trial"] for c in fleet.containers() if c["State"] == "running"}
        fleet.coordinator.kill()
        pause(random_.uniform(0, 1))
        down = time.monotonic()
        fleet.start_coordinator()
        restarts.append(time.monotonic() - down)
        fleet.wait_agents()
        back.append(time.monotonic() - down)
        shown = scores.look()
        after = {c["Id"] for c in fleet.containers() if c["State"] == "running"}
        running = {str(t["key"]["index"]) for t in shown["trials"] if t["state"] == "TRIAL_RUNNING"}
        lost = [trial for container, trial in before.items() if container not in after and trial in running
                and shown["trials"][int(trial)]["phase"] not in ("verifier", "cleanup")]
        check(all(shown["trials"][int(trial)]["key"]["generation"] == 1 for trial in lost),
              "containers of cells %s are gone after the restart: %s" % (
                  lost, {note for trial in lost for note in shown["trials"][int(trial)]["notes"]}))
    shown = scores.wait_end(600 if stage.long else 240)
    fleet.check_scored_once(job, shown)
    again = [t["trial_name"] for t in shown["trials"] if t["key"]["generation"] != 1]
    check(not again, "restarts of the coordinator made trials run again: %s, because %s" % (
        again[:3], [t["notes"] for t in shown["trials"] if t["notes"]][:3]))
    stage.figure("%d kills of the coordinator in a job of %d trials: serving again after %s s, all agents back after %s s; "
                 "job %.0f s" % (len(back), len(shown["trials"]), ", ".join("%.2f" % s for s in restarts),
                                 ", ".join("%.1f" % s for s in back), time.monotonic() - begun))
    fleet.wait_retired(job)
    fleet.check_nothing_left()
    fleet.stop()


@fleet_test()
def a_killed_agent_cleans_up_at_its_restart_and_its_trials_run_again(stage):
    fleet = Fleet(stage.world, "killed-agent", agents=2, slots=4).start()
    job = fleet.submit(fleet.sleepers("rest", 8, 8))
    fleet.wait_containers(8)
    old = {c["Id"]: int(c["Labels"]["dev.berth.trial"]) for c in fleet.containers(0)}
    check(len(old) == 4, "%d trials run on agent-1, not 4" % len(old))
    fleet.agents[0].kill()
    begun = time.monotonic()
    fleet.start_agent(0)
    wait_until("the agent is ready", 60, lambda: "agent is ready" in fleet.agents[0].text().rsplit("agent starts", 1)[-1] and
               fleet.agents[0].text().count("agent is ready") == 2)
    left = [c["Id"] for c in fleet.containers(0) if c["Id"] in old]
    check(not left, "the agent says that it is ready, and %d old containers are left" % len(left))
    stage.figure("a killed agent with 4 trials: all settled and ready %.1f s after its restart" % (time.monotonic() - begun))
    shown = Scores(fleet, job).wait_end(120)
    fleet.check_scored_once(job, shown)
    for cell in old.values():
        check(fleet.generations(job, cell) == [1, 2], "cell %d has leases of generations %s" % (cell, fleet.generations(job, cell)))
    fleet.wait_retired(job)
    fleet.check_nothing_left()
    fleet.stop()


@fleet_test()
def trials_of_an_agent_that_stays_dead_move_after_the_documented_time(stage):
    fleet = Fleet(stage.world, "dead-agent", agents=2, slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 8, 4))
    fleet.wait_containers(4)
    cells = [int(c["Labels"]["dev.berth.trial"]) for c in fleet.containers(0)]
    check(len(cells) == 2, "%d trials run on agent-1, not 2" % len(cells))
    fleet.agents[0].kill()

    def moved():
        trials = fleet.show(job)["trials"]
        return all(trials[cell]["notes"] for cell in cells) and time.time_ns()
    silence = fleet.silence(0, wait_until("the dead agent's trials move", fencing_seconds() + MOVE_SLACK_SECONDS, moved, 0.1))
    stage.figure("trials of a dead agent moved after %.2f s of silence; hold_ms x 1.05 + 5 s is %.2f s" % (
        silence.seconds, fencing_seconds()))
    shown = Scores(fleet, job).wait_end(120)
    fleet.check_scored_once(job, shown)
    open_leases = {lease["trial_index"] for lease in fleet.leases(job) if lease["state"] != "LEASE_RETIRED"}
    fleet.check_fenced(job, cells, silence)
    check(open_leases == set(cells), "leases of the dead host stay visible for cells %s, not %s" % (sorted(open_leases), cells))
    fleet.start_agent(0)
    fleet.wait_agents()
    fleet.wait_retired(job)
    fleet.check_nothing_left()
    fleet.stop()


@fleet_test()
def a_frozen_agent_that_wakes_up_late_ends_its_trials_and_scores_nothing(stage):
    fleet = Fleet(stage.world, "frozen-agent", slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 8, 6))
    fleet.wait_containers(6)
    scores = Scores(fleet, job)
    old = {c["Id"]: int(c["Labels"]["dev.berth.trial"]) for c in fleet.containers(0)}
    fleet.agents[0].signal(signal.SIGSTOP)
    begun = time.monotonic()
    # Twice the hold, and past the fencing wait, so that new runs begin while the old containers are still there.
    limit = max(2 * fleet.hold_ms / 1000, fencing_seconds() + 1)
    while time.monotonic() - begun < limit:
        scores.look()
        pause(0.5)
    silence = fleet.silence(0, time.time_ns())
    fleet.agents[0].signal(signal.SIGCONT)
    woke = time.monotonic()
    wait_until("old containers die", 15, lambda: not [c for c in fleet.containers(0) if c["Id"] in old and c["State"] == "running"])
    stage.figure("an agent frozen for %.0f s: its old containers died %.1f s after it woke up" % (limit, time.monotonic() - woke))
    shown = scores.wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.check_fenced(job, list(old.values()), silence)
    for cell in old.values():
        check(shown["trials"][cell]["key"]["generation"] == 2, "cell %d was scored by generation %s" % (
            cell, shown["trials"][cell]["key"]["generation"]))
        check(fleet.generations(job, cell) == [1, 2], "cell %d has leases of generations %s" % (cell, fleet.generations(job, cell)))
    fleet.wait_retired(job)
    fleet.check_nothing_left()
    fleet.stop()


@fleet_test()
def a_coordinator_frozen_past_every_hold_finds_the_fleet_again(stage):
    fleet = Fleet(stage.world, "frozen-coordinator", slots=2).start()
    job = fleet.submit(fleet.sleepers("rest", 8, 6))
    fleet.wait_containers(6)
    fleet.coordinator.signal(signal.SIGSTOP)
    begun = time.monotonic()
    wait_until("agents end their trials when their hold is over", fleet.hold_ms / 1000 + 6, lambda: not [
        c for c in fleet.containers() if c["State"] == "running"])
    seconds = time.monotonic() - begun
    stage.figure("a frozen coordinator: every container was gone %.1f s later (hold %.1f s)" % (seconds, fleet.hold_ms / 1000))
    check(seconds <= killed_seconds(), "agents kept their trials for %.1f s" % seconds)
    # A longer sleep passes its own fencing wait too: then it takes the agents for lost before it hears them.
    rest = fencing_seconds() + 1 if stage.long else fleet.hold_ms / 1000 + 3
    pause(rest - (time.monotonic() - begun))
    fleet.coordinator.signal(signal.SIGCONT)
    shown = Scores(fleet, job).wait_end(120)
    fleet.check_scored_once(job, shown)
    fleet.wait_retired(job)
    fleet.check_nothing_left()
    fleet.stop()
