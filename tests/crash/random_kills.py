#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_kills.py --coordinator PROGRAM --berth PROGRAM --pilot PROGRAM --results FILE

Kills coordinators at random moments until the results file counts N kills, a chunk at a time: each has a fleet of its own,
a seed of its own, and appends one line when it is whole. Run it again to go on."""
import argparse
import concurrent.futures
import shutil
import subprocess
import tempfile
import threading
import time

import rows

FIELDS = ["kind", "seed", "kills", "kills_serving", "lives", "served", "jobs", "trials", "cancels", "amendments", "checks", "acks", "heads",
          "events", "audits", "median_ms", "p99_ms", "worst_ms", "over_2s", "seconds", "verdict"]


def chunk(flags, seed, kills):
    folder = tempfile.mkdtemp(prefix="berth-kills-")
    begun = time.monotonic()
    done = subprocess.run([flags.pilot, "chaos", "--coordinator", flags.coordinator, "--berth", flags.berth, "--folder", folder,
                           "--seed", str(seed), "--kills", str(kills), "--audit-every", "250"], stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    row = {"kind": "coordinator", "seed": seed, "seconds": round(time.monotonic() - begun),
           "audits": sum(line.startswith("chaos") for line in lines)}
    for line in lines:
        if line.startswith("chaos"):
            row.update(part.split(" ") for part in line.split("\t")[1:])
    row.update(rows.recoveries(folder + "/recoveries"))
    row["verdict"] = "ok" if done.returncode == 0 and lines[-1].startswith("end") else (lines or ["no output"])[-1].replace("\t", " ")
    if row["verdict"] == "ok":
        shutil.rmtree(folder)
    else:
        print("kept for a look: " + folder)
    return row


class Campaign:
    """Chunks side by side, until the results count enough kills."""

    def __init__(self, flags):
        self.flags, self.lock, self.limit = flags, threading.Lock(), time.monotonic() + flags.seconds
        found = [row for row in rows.read(flags.results) if row["kind"] == "coordinator"]
        self.claimed = sum(int(row["kills"] or 0) for row in found)
        self.seed = max([int(row["seed"]) for row in found], default=0)
        self.broken = False

    def claim(self):
        """The next seed and its kills; None when there is nothing to do."""
        with self.lock:
            kills = min(self.flags.chunk, self.flags.kills - self.claimed)
            if kills <= 0 or self.broken or time.monotonic() > self.limit:
                return None
            self.claimed += kills
            self.seed += 1
            return self.seed, kills

    def lane(self, _):
        while (mine := self.claim()):
            row = chunk(self.flags, *mine)
            with self.lock:
                rows.append(self.flags.results, FIELDS, row)
                self.broken |= row["verdict"] != "ok"
                print("seed %s: %s kills, worst recovery %s ms: %s" % (
                    row["seed"], row.get("kills"), row.get("worst_ms"), row["verdict"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("coordinator", "berth", "pilot", "results"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--kills", type=int, default=8000, help="in all of the results")
    parser.add_argument("--chunk", type=int, default=500, help="kills of one fleet")
    parser.add_argument("--jobs", type=int, default=1, help="fleets side by side")
    parser.add_argument("--seconds", type=int, default=86400, help="no chunk begins later")
    flags, _ = parser.parse_known_args()
    campaign = Campaign(flags)
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        list(pool.map(campaign.lane, range(flags.jobs)))
    raise SystemExit(1 if campaign.broken else 0)


if __name__ == "__main__":
    main()
