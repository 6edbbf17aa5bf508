# SPDX-License-Identifier: Apache-2.0
"""A coordinator whose disk is lost: the fleet goes on from a backup, and what agents did since then counts."""
import json
import os
import shutil
import time

from fleet import Fleet, Scores
from runner import fleet_test
from world import check, wait_until

RATE = {"backend": "local", "role": "task_environment", "cpu_count": 1, "memory_mb": 512, "nano_usd_per_second": 10,
        "billing_quantum_seconds": 1}


def open_budget(fleet, usd_nano):
    path = fleet.folder + "/policy.json"
    with open(path, "w") as file:
        json.dump({"study_id": "s", "manifest_digest": "sha256:" + 64 * "a", "hard_limit_nano_usd": usd_nano,
                   "phase_limits_nano_usd": {"search": usd_nano}, "rates": [RATE]}, file)
    fleet.berth("budget", "create", "tide", path)


def wait_scored(fleet, scores, count, seconds=90):
    def look():
        counts = scores.look()["job"]["counts"]
        check(counts["scored"] >= count, str(counts))
        return True
    wait_until("%d trials are scored" % count, seconds, look, 0.3)


@fleet_test()
def a_fleet_goes_on_from_a_backup_and_runs_nothing_twice(stage):
    fleet = Fleet(stage.world, "restored", agents=2, slots=3, hold_ms=30000).start()
    open_budget(fleet, 10 ** 9)
    job = fleet.submit(fleet.sleepers("short", 1), "--override-cpus", "1", "--override-memory-mb", "512", "--budget", "tide",
                       "--phase", "search", attempts=24)
    scores, backup = Scores(fleet, job), fleet.folder + "/backup"
    wait_scored(fleet, scores, 3)
    fleet.berth("ledger", "backup", backup)
    covered = len(scores.scored)
    wait_scored(fleet, scores, covered + 8)
    fleet.wait_containers(2)
    fleet.coordinator.kill()
    lost = dict(scores.scored)
    shutil.rmtree(fleet.data)
    begun = time.monotonic()
    fleet.berth("ledger", "restore", backup, fleet.data, "--reason", "its disk was lost")
    check(os.path.exists(fleet.data + "/restored.json"), "the data folder is not marked")
    fleet.start_coordinator()
    fleet.wait_agents()
    wait_until("every agent has resent", 60, lambda: not fleet.json("ledger", "show").get("resending"), 0.2)
    back = time.monotonic() - begun
    # What was scored in the part that is lost is scored by the same generation: Scores sees to it from here on.
    wait_until("what was lost is there again", 30, lambda: lost.keys() <= {
        t["key"]["index"] for t in fleet.show(job)["trials"] if t["state"] == "TRIAL_SCORED"}, 0.3)
    shown = scores.wait_end(240)
    fleet.check_scored_once(job, shown)
    again = [t["trial_name"] for t in shown["trials"] if t["key"]["generation"] != 1]
    fleet.wait_retired(job)
    budget = fleet.json("budget", "show", "tide")["totals"]
    check(int(budget["reserved_nano_usd"]) == 0 and int(budget["settled_nano_usd"]) > 0, "the budget's sums are %s" % budget)
    stage.figure("restored from a backup of %d scored trials while %d were: all agents had resent %.1f s after the loss, %d of %d "
                 "trials ran again" % (covered, len(lost), back, len(again), len(shown["trials"])))
    fleet.stop()
    fleet.berth("ledger", "verify", fleet.data)
