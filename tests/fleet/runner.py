# SPDX-License-Identifier: Apache-2.0
"""Runs the fleet tests: some worlds side by side, a fresh fleet for each test. See README.md for use."""
import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback

import sanitizer
import world as worlds
from world import Failure, World

TESTS = []
LONG = os.environ.get("BERTH_FLEET_LONG") == "1"
LOG_LINES = 25
WORLDS = 2  # one a CPU of the smallest machine; most tests wait more than they work
PR_SET_PDEATHSIG = 1


class Skip(Exception):
    pass


class Interrupted(BaseException):
    pass


class Stage:
    """What a test gets: the world, and a place for figures."""

    def __init__(self, world, seed):
        self.world, self.seed, self.long = world, seed, LONG
        self.figures = []

    def figure(self, text):
        self.figures.append(text)


def fleet_test(engines=True, long=False):
    """Marks a test; its name is the function's, read as a sentence. A long one runs with BERTH_FLEET_LONG=1 only."""
    def add(function):
        if LONG or not long:
            TESTS.append((function.__name__, function, engines))
        return function
    return add


def sentence(name):
    return name.replace("_", " ")


def say(*lines):
    """In one piece, as other worlds speak too."""
    text = ("\n".join(lines) + "\n").encode(errors="replace")
    while text:
        text = text[os.write(1, text):]


# --- one test ---
def logs(world):
    """The ends of all logs; whole ones go to the folder that was asked for."""
    folder, told = os.path.join(world.root, "log"), []
    keep = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or os.environ.get("BERTH_FLEET_LOGS")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), errors="replace") as file:
            lines = file.read().splitlines()
        told.append("    --- %s, last of %d lines" % (name, len(lines)))
        told += ["    " + line[:400] for line in lines[-LOG_LINES:]]
        if keep:
            os.makedirs(keep, exist_ok=True)
            with open(os.path.join(keep, "%d-%s" % (time.time(), name)), "w") as file:
                file.write("\n".join(lines))
    return told


def clear_logs(world):
    folder = os.path.join(world.root, "log")
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def place(failure):
    return " < ".join("%s:%d" % (os.path.basename(frame.filename), frame.lineno)
                      for frame in reversed(traceback.extract_tb(failure.__traceback__)))


def run_one(stage, name, function):
    """passed, failed or skipped; and the seconds that it took."""
    begun = time.monotonic()
    verdict, why, stage.figures = "passed", "", []
    try:
        function(stage)
        worlds.check_running()
    except Skip as skip:
        verdict, why = "skipped", str(skip)
    except Failure as failure:
        verdict, why = "failed", "%s (%s)" % (failure, place(failure))
    except Exception:
        verdict, why = "failed", traceback.format_exc()
    faults = stage.world.faults + sanitizer.faults(stage.world.processes)
    if faults:
        verdict, why = "failed", "\n".join([why] + faults)
    seconds = time.monotonic() - begun
    say("%s: %s (%.1f s)%s" % (verdict, sentence(name), seconds, ": " + why if why else ""),
        *["    figure: " + figure for figure in stage.figures], *(logs(stage.world) if verdict == "failed" else []))
    stage.world.reset()
    clear_logs(stage.world)
    return verdict, seconds


# --- one world, in a process of its own ---
def interrupt(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted(number)


def catch_signals():
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)


def take(queue, chosen):
    """The next test that no world has taken; None when none is left."""
    number = os.read(queue, 1)
    return chosen[number[0]] if number else None


def report(pipe, **what):
    os.write(pipe, (json.dumps(what) + "\n").encode())


def work(flags, chosen, queue, pipe):
    """Takes tests and reports on them, one short line each."""
    begun = time.monotonic()
    binaries = {name: os.path.abspath(getattr(flags, name.replace("-", "_")))
                for name in ("berth-coordinator", "berth-agent", "berth", "relay")}
    world = World(binaries, os.path.abspath(flags.source))
    stage = Stage(world, flags.seed)
    try:
        world.build()
        if any(engines for _, _, engines in chosen):
            world.start_engines()
        say("world %s: hosts and Engines are up after %.1f s" % (world.root, time.monotonic() - begun))
        while test := take(queue, chosen):
            verdict, seconds = run_one(stage, test[0], test[1])
            report(pipe, test=test[0], verdict=verdict, seconds=seconds, figures=stage.figures)
    except Interrupted as signal_number:
        say("world %s: interrupted by signal %s" % (world.root, signal_number))
    except Exception:
        say(traceback.format_exc())
    left = world.close()
    if left:
        say("failed: nothing is left behind: %s" % left)
        report(pipe, test="nothing_is_left_behind", verdict="failed", seconds=0, figures=[])


def start_world(flags, chosen, queue, pipe):
    """Its pid. It ends with this process, and sweeps."""
    parent, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:
            work(flags, chosen, queue, pipe)
            code = 0
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(code)


# --- all of them ---
def run_all(flags, chosen):
    """What the worlds report, test by test."""
    queue, pipe = os.pipe(), os.pipe()
    os.write(queue[1], bytes(range(len(chosen))))
    os.close(queue[1])
    pids = [start_world(flags, chosen, queue[0], pipe[1]) for _ in range(max(1, min(flags.worlds, len(chosen))))]
    os.close(queue[0])
    os.close(pipe[1])
    reports = []
    try:
        with os.fdopen(pipe[0]) as lines:
            for line in lines:
                reports.append(json.loads(line))
    except Interrupted as signal_number:
        say("interrupted by signal %s" % signal_number)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)
    return reports


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for binary in ("berth-coordinator", "berth-agent", "berth", "relay"):
        parser.add_argument("--" + binary, required=True)
    parser.add_argument("--source", required=True, help="the checkout")
    parser.add_argument("--only", default=os.environ.get("BERTH_FLEET_ONLY", ""), help="tests whose names hold this; a|b for two")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("BERTH_FLEET_SEED") or time.time()))
    parser.add_argument("--worlds", type=int, default=int(os.environ.get("BERTH_FLEET_WORLDS") or WORLDS))
    return parser.parse_args()


def close(chosen, reports, seconds):
    """Figures and counts; a test of which no world reported has failed."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for one in reports:
        counts[one["verdict"]] += 1
    missing = {name for name, _, _ in chosen} - {one["test"] for one in reports}
    for name in sorted(missing):
        say("failed: %s: it was not run" % sentence(name))
    counts["failed"] += len(missing)
    say(*["figure: " + figure for one in reports for figure in one["figures"]])
    say(*["%6.1f s  %s" % (one["seconds"], sentence(one["test"])) for one in sorted(reports, key=lambda one: -one["seconds"])])
    say("all in %.0f s" % seconds, "%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


def main():
    flags = arguments()
    chosen = [test for test in TESTS if any(part in test[0] for part in flags.only.replace(" ", "_").split("|"))]
    if not chosen:
        say("failed: no test's name holds %r" % flags.only)
        return 1
    if os.getuid() != 0:
        say("skipped: fleet tests need root, for namespaces and Engines", "0 passed, 0 failed, %d skipped" % len(chosen))
        return 0
    catch_signals()
    say("seed %d" % flags.seed)
    begun = time.monotonic()
    return close(chosen, run_all(flags, chosen), time.monotonic() - begun)
