#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_kills.py --coordinator PROGRAM --berth PROGRAM --pilot PROGRAM --results FILE [--kills N] [--chunk N] [--seconds N]

Kills coordinators at random moments until the results file counts N kills, a chunk at a time: each has a fleet of its own,
a seed of its own, and appends one line when it is whole. Run it again to go on."""
import argparse
import shutil
import subprocess
import tempfile
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("coordinator", "berth", "pilot", "results"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=86400)
    flags, _ = parser.parse_known_args()
    limit = time.monotonic() + flags.seconds
    while time.monotonic() < limit:
        found = [row for row in rows.read(flags.results) if row["kind"] == "coordinator"]
        counted = sum(int(row["kills"] or 0) for row in found)
        if counted >= flags.kills:
            break
        row = chunk(flags, len(found) + 1, min(flags.chunk, flags.kills - counted))
        rows.append(flags.results, FIELDS, row)
        print("seed %s: %s kills, worst recovery %s ms: %s" % (row["seed"], row.get("kills"), row.get("worst_ms"), row["verdict"]),
              flush=True)
        if row["verdict"] != "ok":
            raise SystemExit(1)


if __name__ == "__main__":
    main()
