# SPDX-License-Identifier: Apache-2.0
"""Checks fleet.pml: no claim breaks in the model, and each planted fault breaks one.

model.py [--whole] MODEL: --whole adds the runs that take minutes. Judged by what the verifier prints: spin and pan exit
0 on a broken claim.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile


def bounds(coordinator_crashes, agent_crashes, breaks):
    return [
        f"-DCOORDINATOR_CRASHES={coordinator_crashes}",
        f"-DAGENT_CRASHES={agent_crashes}",
        f"-DBREAKS={breaks}",
    ]


CALM = bounds(0, 0, 0)
CRASHES = bounds(1, 1, 0)
BREAKS = bounds(0, 1, 1)
# One agent and two generations: whom to obey is each agent's own matter.
TWIN = ["-DTWIN", "-DALONE", "-DGENERATIONS=2"]

RUNS = [
    ("crashes", CRASHES),
    ("a broken line", BREAKS),
    ("a twin", TWIN + bounds(0, 0, 1)),
]
WHOLE = [
    ("crashes and a broken line", bounds(1, 1, 1)),
    ("a twin, crashes and a broken line", TWIN + bounds(1, 1, 1)),
    ("a twin and two agents", ["-DTWIN", "-DGENERATIONS=2"] + CALM),
]
# What is planted, and the claim that must break.
PLANTS = [
    ("HOLD_FROM_RECEIPT", CALM, "hold["),
    ("NO_FENCE", BREAKS, "hold["),
    ("NO_FENCE_AFTER_START", CRASHES, "hold["),
    ("ANY_GENERATION", CALM, "accepted["),
    ("REFUND", CALM, "bill["),
    ("NO_LIMIT", CALM, "charged["),
    ("CREATE_BEFORE_MARK", BREAKS, "alive["),
    ("REPLY_BEFORE_SYNC", CRASHES, "money["),
    ("OBEY_ANYBODY", TWIN + bounds(0, 0, 1), "saw_"),
]


def verify(model, flags, folder):
    """Returns (errors, the broken claim or "", states)."""
    shutil.copy(model, os.path.join(folder, "fleet.pml"))
    build = subprocess.run(["spin", "-a", *flags, "fleet.pml"], cwd=folder, capture_output=True, text=True)
    if build.returncode or "error" in build.stdout.lower():
        raise SystemExit("spin: " + build.stdout + build.stderr)
    subprocess.run(
        ["gcc", "-O1", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=8000", "-w", "-o", "pan", "pan.c"], cwd=folder, check=True
    )
    # -E: an end where nothing is left to do is no error; -m: depth.
    out = subprocess.run(["./pan", "-m1000000", "-E"], cwd=folder, capture_output=True, text=True).stdout
    errors = re.search(r"errors: (\d+)", out)
    states = re.search(r"(\d+) states, stored", out)
    if not errors or not states or "max search depth too small" in out or "out of memory" in out:
        raise SystemExit("the search was not whole:\n" + out)
    claim = re.search(r"assertion violated (.*) \(at depth", out)
    return int(errors.group(1)), claim.group(1) if claim else "", int(states.group(1))


def main():
    whole = "--whole" in sys.argv
    model = sys.argv[-1]
    right = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in RUNS + (WHOLE if whole else []):
            errors, claim, states = verify(model, flags, folder)
            print(f"{'ok' if not errors else 'BROKEN'}: {name}: {states} states {claim}", flush=True)
            right += not errors
            wrong += errors != 0
        for name, flags, wanted in PLANTS:
            errors, claim, states = verify(model, [f"-DPLANT_{name}", *flags], folder)
            found = errors > 0 and wanted in claim
            print(f"{'ok' if found else 'NOT FOUND'}: planted {name}: {states} states {claim}", flush=True)
            right += bool(found)
            wrong += not found
    print(f"{right} passed, {wrong} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
