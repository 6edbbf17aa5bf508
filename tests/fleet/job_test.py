# SPDX-License-Identifier: Apache-2.0
"""Jobs on a healthy fleet: cancelling, memory."""
import time

import sanitizer
from fleet import Fleet
from runner import fleet_test
from world import World, check, pause, wait_until

RSS_MB = 64
CANCEL_SECONDS = 15


@fleet_test()
def cancelling_a_job_removes_every_container_in_time(stage):
    fleet = Fleet(stage.world, "cancel", slots=2).start()
    job = fleet.submit(fleet.sleepers("long", 100, 6))
    fleet.wait_containers(6)
    wait_until("all six agents' scripts run", 60, lambda: all(
        trial["phase"] == "agent_execution" for trial in fleet.show(job)["trials"]))
    begun = time.monotonic()
    fleet.berth("job", "cancel", job, "--reason", "test")
    wait_until("every container is gone", CANCEL_SECONDS, lambda: not fleet.containers())
    seconds = time.monotonic() - begun
    fleet.wait_job(job, 15, "JOB_CANCELLED")
    stage.figure("cancelling 6 running trials: last container gone after %.1f s, job cancelled after %.1f s" % (
        seconds, time.monotonic() - begun))
    shown = fleet.show(job)
    check(shown["job"]["counts"]["cancelled"] == 6, "counts after cancelling: %s" % shown["job"]["counts"])
    fleet.check_retired(job)
    fleet.stop()


@fleet_test()
def ten_thousand_queued_trials_fit_into_small_memory(stage):
    fleet = Fleet(stage.world, "many", agents=2, slots=2).start()
    begun = time.monotonic()
    job = fleet.submit(fleet.sleepers("tiny", 0), "-n", "2", attempts=10000)
    seconds = time.monotonic() - begun
    fleet.wait_containers(1)
    processes = [fleet.coordinator] + fleet.agents
    counts = fleet.json("job", "list")[0]["counts"]
    check(counts["total"] == 10000 and counts["queued"] > 9900, "counts %s" % counts)
    fleet.berth("job", "show", job, bound=60)
    pause(2)
    peak = [process.rss_mb("VmHWM") for process in processes]
    stage.figure("10,000 trials submitted in %.1f s; peak resident memory: coordinator %.0f MiB, agents %s MiB" % (
        seconds, peak[0], ", ".join("%.0f" % mb for mb in peak[1:])))
    for process, mb in zip(processes, peak):
        bound = RSS_MB * sanitizer.MEMORY[World.sanitizer]
        check(mb <= bound, "%s took %.0f MiB, more than %d" % (process.name, mb, bound))
    begun = time.monotonic()
    fleet.berth("job", "cancel", job)
    fleet.wait_job(job, 30, "JOB_CANCELLED")
    stage.figure("10,000 trials cancelled in %.1f s" % (time.monotonic() - begun))
    fleet.stop()
