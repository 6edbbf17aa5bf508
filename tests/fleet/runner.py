# SPDX-License-Identifier: Apache-2.0
"""Runs the fleet tests: one world for all, a fresh fleet for each. See README.md for use."""
import argparse
import os
import signal
import sys
import time
import traceback

from world import Failure, World

TESTS = []
LONG = os.environ.get("BERTH_FLEET_LONG") == "1"
LOG_LINES = 25


class Skip(Exception):
    pass


class Interrupted(BaseException):
    pass


class Stage:
    """What a test gets: the world, a fleet of its own, and a place for figures."""

    def __init__(self, world, seed):
        self.world, self.seed, self.long = world, seed, LONG
        self.figures = []

    def figure(self, text):
        self.figures.append(text)
        print("    figure: " + text, flush=True)


def fleet_test(engines=True, long=False):
    """Marks a test; its name is the function's, read as a sentence. A long one runs with BERTH_FLEET_LONG=1 only."""
    def add(function):
        if LONG or not long:
            TESTS.append((function.__name__, function, engines))
        return function
    return add


def sentence(name):
    return name.replace("_", " ")


def show_logs(world):
    folder = os.path.join(world.root, "log")
    keep = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or os.environ.get("BERTH_FLEET_LOGS")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), errors="replace") as file:
            lines = file.read().splitlines()
        print("    --- %s, last of %d lines" % (name, len(lines)))
        print("\n".join("    " + line[:400] for line in lines[-LOG_LINES:]), flush=True)
        if keep:
            os.makedirs(keep, exist_ok=True)
            with open(os.path.join(keep, "%d-%s" % (time.time(), name)), "w") as file:
                file.write("\n".join(lines))


def clear_logs(world):
    folder = os.path.join(world.root, "log")
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def run_one(stage, name, function):
    """passed, failed or skipped."""
    begun = time.monotonic()
    verdict, why = "passed", ""
    try:
        function(stage)
    except Skip as skip:
        verdict, why = "skipped", str(skip)
    except Failure as failure:
        verdict, why = "failed", "%s (%s)" % (failure, " < ".join(
            "%s:%d" % (os.path.basename(f.filename), f.lineno) for f in reversed(traceback.extract_tb(failure.__traceback__))))
    except Exception:
        verdict, why = "failed", traceback.format_exc()
    print("%s: %s (%.1f s)%s" % (verdict, sentence(name), time.monotonic() - begun, ": " + why if why else ""), flush=True)
    if verdict == "failed":
        show_logs(stage.world)
    stage.world.reset()
    clear_logs(stage.world)
    return verdict


def run_all(stage, chosen):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, function, _ in chosen:
        counts[run_one(stage, name, function)] += 1
    return counts


def interrupt(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted(number)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for binary in ("berth-coordinator", "berth-agent", "berth", "relay"):
        parser.add_argument("--" + binary, required=True)
    parser.add_argument("--source", required=True, help="the checkout")
    parser.add_argument("--only", default=os.environ.get("BERTH_FLEET_ONLY", ""), help="tests whose names hold this; a|b for two")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("BERTH_FLEET_SEED") or time.time()))
    return parser.parse_args()


def main():
    flags = arguments()
    chosen = [test for test in TESTS if any(part in test[0] for part in flags.only.replace(" ", "_").split("|"))]
    if os.getuid() != 0:
        print("skipped: fleet tests need root, for namespaces and Engines")
        print("0 passed, 0 failed, %d skipped" % len(chosen))
        return 0
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    binaries = {name: os.path.abspath(getattr(flags, name.replace("-", "_")))
                for name in ("berth-coordinator", "berth-agent", "berth", "relay")}
    world = World(binaries, os.path.abspath(flags.source))
    print("seed %d, world %s" % (flags.seed, world.root), flush=True)
    counts, left, begun = {"passed": 0, "failed": 1, "skipped": 0}, [], time.monotonic()
    stage = Stage(world, flags.seed)
    try:
        world.build()
        if any(engines for _, _, engines in chosen):
            world.start_engines()
        print("hosts and Engines are up after %.1f s" % (time.monotonic() - begun), flush=True)
        counts = run_all(stage, chosen)
    except Interrupted as signal_number:
        print("interrupted by signal %s" % signal_number, flush=True)
    except Exception:
        traceback.print_exc(file=sys.stdout)
    finally:
        left = world.close()
    if left:
        print("failed: nothing is left behind: %s" % left)
        counts["failed"] += 1
    for figure in stage.figures:
        print("figure: " + figure)
    print("all in %.0f s" % (time.monotonic() - begun))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0
