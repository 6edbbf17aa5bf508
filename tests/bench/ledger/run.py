#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the ledger and its peers: run.py [--quick] [--only PART] [--bin DIR] [--results FILE] [--docs FILE].

Builds what it needs (with --bin DIR it takes Bazel's bin folder as it is), prints what it runs on, measures within
twelve minutes, writes the raw results and the tables of docs/BENCH.md. The peers:
    apt-get install redis-server etcd-server postgresql libpq-dev
Their services need not run; each is started here from its own configuration. Nothing else should run on the machine.

--quick: less than a minute, ours alone, correctness only (nothing lost, nothing doubled); figures are printed and
judged by nobody, and no file is written.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import report
import rows
from systems import Berth, Etcd, Postgres, Redis

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TARGETS = {"coordinator": "coordinator/berth-coordinator", "berth": "coordinator/cli/berth",
           "load": "tests/bench/ledger/ledger_load", "peer": "tests/bench/ledger/peer_load"}
ROUNDS = 3
WIDTHS = [1, 8, 64, 256]
RATES = [0.25, 0.5, 0.75, 0.9]
BATCH = 16
LOAD_SECONDS = 120
WHOLE_SECONDS = 690
REST_SECONDS = 180  # of what comes after the closed loops


def say(text):
    print(text, flush=True)


def measure(server, flags, journal=None):
    """One run. With a journal the server is killed in mid-load afterwards, started again, and asked what it kept."""
    command = server.load() + flags + (["journal=" + journal] if journal else [])
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = load.stdout.readline()
    if not line:
        raise RuntimeError("%s\n%s" % (load.communicate(timeout=LOAD_SECONDS)[1], server.log()))
    result = json.loads(line)
    if journal:
        server.kill()
    load.communicate(timeout=LOAD_SECONDS)
    if journal:
        server.start()
        check = subprocess.run(server.load("check") + [flag for flag in flags if flag.startswith("tasks=")] +
                               ["journal=" + journal], capture_output=True, text=True, timeout=LOAD_SECONDS)
        if not check.stdout:
            raise RuntimeError(check.stderr + server.log())
        result["after_kill"] = json.loads(check.stdout)
    return result


def again(run, *arguments):
    """A run that failed is tried once more: one that hung must not cost all others."""
    try:
        return run(*arguments)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        say("tried again after: %s" % error)
        return run(*arguments)


class Bench:
    def __init__(self, binaries, folder, seconds):
        self.binaries, self.folder, self.seconds = binaries, folder, seconds
        self.postgres = {}
        self.more = 1  # times as many tasks, since a peer was faster than anybody had thought

    def at(self, name):
        return os.path.join(self.folder, name)

    def timing(self):
        return ["warm-ms=%d" % (self.seconds * 350), "measure-ms=%d" % (self.seconds * 1000)]

    def berth(self, width, batch, rate=0, journal=True):
        server = Berth(self.binaries, self.at("berth"))
        server.make()
        server.start()
        # Poisson arrivals need leases that wait for them.
        slots = batch if not rate else max(4 * batch, 1024 // width)
        cells = {1: 4, 8: 8}.get(width, 14) * (2 if batch > 1 else 1)
        try:
            return measure(server, ["agents=%d" % width, "slots=%d" % slots, "batch=%d" % batch, "paid=1",
                                    "tasks=%d" % cells, "attempts=10000", "rate=%f" % rate] + self.timing(),
                           self.at("journal") if journal else None)
        finally:
            server.kill()

    def peer(self, server, width, tasks, depth=1, rate=0, journal=True):
        try:
            return measure(server, ["connections=%d" % width, "depth=%d" % depth, "tasks=%d" % (self.more * tasks),
                                    "rate=%f" % rate] + self.timing(), self.at("journal") if journal else None)
        except RuntimeError as error:
            self.more *= 1 + ("no task left" in str(error))
            raise
        finally:
            server.kill()

    def redis(self, width, depth=1, durable=True, rate=0, journal=True):
        server = Redis(self.binaries, self.at("redis"), durable)
        server.make()
        server.start()
        tasks = int((40000 if depth == 1 else 150000) * self.seconds * 1.6)
        return self.peer(server, width, tasks, depth, rate, journal)

    def etcd(self, width, journal=True):
        server = Etcd(self.binaries, self.at("etcd"))
        server.make()
        server.start()
        return self.peer(server, width, int(15000 * self.seconds * 1.6), journal=journal)

    def postgresql(self, width, durable=True, journal=True):
        server = self.postgres.get(durable)
        if not server:
            server = self.postgres[durable] = Postgres(self.binaries, self.at("postgres-%d" % durable), durable)
            server.make()
        server.start()
        return self.peer(server, width, int(10000 * self.seconds * 1.6), journal=journal)


def closed_loops(bench, results, rounds, widths):
    """Interleaved: every system once a round. Gives how many rounds there was time for."""
    began = time.monotonic()
    systems = [("berth", lambda w: bench.berth(w, 1)), ("redis", lambda w: bench.redis(w)),
               ("etcd", lambda w: bench.etcd(w)), ("postgres", lambda w: bench.postgresql(w)),
               ("berth-batched", lambda w: bench.berth(w, BATCH)),
               ("redis-pipelined", lambda w: bench.redis(w, BATCH))]
    for number in range(rounds):
        for width in widths:
            for name, run in systems:
                result = again(run, width)
                results.setdefault(name, {}).setdefault(str(width), []).append(result)
                say("round %d %-16s W=%-4d %9.0f cycles/s  %7.1f us/op  grant p50 %.0f p99 %.0f us  lost %d+%d" % (
                    number + 1, name, width, result["cycles_per_s"], result["server_us_per_durable_op"],
                    result["grant"]["p50_us"], result["grant"]["p99_us"], result["after_kill"]["lost_grants"],
                    result["after_kill"]["lost_completions"]))
        taken = time.monotonic() - began
        if taken / (number + 1) * (number + 2) + REST_SECONDS > WHOLE_SECONDS:
            break
    return number + 1


def open_loops(bench, closed, results):
    most = {name: statistics.median(run["cycles_per_s"] for run in closed[name]["64"])
            for name in ("berth", "berth-batched", "redis")}
    for share in RATES:
        for name, run in (("berth", lambda rate: bench.berth(64, 1, rate, False)),
                          ("berth-batched", lambda rate: bench.berth(64, BATCH, rate, False)),
                          ("redis", lambda rate: bench.redis(64, rate=rate, journal=False))):
            result = again(run, share * most[name])
            results.setdefault(name, {})[str(share)] = dict(result, rate=share * most[name])
            say("open loop %-16s %2.0f %% = %6.0f/s  grant p50 %.0f p99 %.0f us" % (
                name, 100 * share, share * most[name], result["grant"]["p50_us"], result["grant"]["p99_us"]))


def defaults(bench, results):
    """The peers as they come, or with the sync that can be left out: they lose what they answered last."""
    for name, run in (("redis", lambda: bench.redis(64, durable=False)),
                      ("redis-pipelined", lambda: bench.redis(64, BATCH, durable=False)),
                      ("postgres", lambda: bench.postgresql(64, durable=False))):
        results[name] = again(run)
        say("without the sync: %-16s %9.0f cycles/s, lost %d+%d" % (
            name, results[name]["cycles_per_s"], results[name]["after_kill"]["lost_grants"],
            results[name]["after_kill"]["lost_completions"]))


def quick(bench):
    failed = 0
    for batch in (1, BATCH):
        result = bench.berth(8, batch)
        kept = result["after_kill"]
        say("batch %2d: %.0f cycles/s, %.1f us of CPU a durable operation, after a kill: %s" % (
            batch, result["cycles_per_s"], result["server_us_per_durable_op"], kept))
        lost = kept["lost_grants"] + kept["lost_completions"] + kept["doubled"]
        failed += lost > 0 or kept["completions"] == 0
    say("%d passed, %d failed, 0 skipped" % (2 - failed, failed))
    return 1 if failed else 0


def build():
    command = os.environ.get("BERTH_BAZEL", "bazel").split()
    labels = ["//" + path[::-1].replace("/", ":", 1)[::-1] for path in TARGETS.values()]
    subprocess.run(command + ["build"] + labels, cwd=TREE, check=True)
    return os.path.join(TREE, "out", "bin")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["closed", "rows"], help="one part, for work on it; writes the results only")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--bin")
    parser.add_argument("--results", default=os.path.join(HERE, "results", "bench.json"))
    parser.add_argument("--docs", default=os.path.join(TREE, "docs", "BENCH.md"))
    arguments = parser.parse_args()
    root = arguments.bin or build()
    binaries = {name: os.path.abspath(os.path.join(root, path)) for name, path in TARGETS.items()}
    folder = tempfile.mkdtemp(prefix="berth-bench-")
    os.chmod(folder, 0o755)  # postgres runs as another user
    bench = Bench(binaries, folder, arguments.seconds)
    try:
        if arguments.quick:
            return quick(bench)
        began = time.monotonic()
        results = {"machine": machine.describe(folder), "seconds": arguments.seconds, "rounds": arguments.rounds,
                   "closed": {}, "open": {}, "defaults": {}, "rows": {}}
        machine.show(results["machine"])
        if arguments.only != "rows":
            results["rounds"] = closed_loops(bench, results["closed"], arguments.rounds, WIDTHS)
        if not arguments.only:
            open_loops(bench, results["closed"], results["open"])
            defaults(bench, results["defaults"])
        if arguments.only != "closed":
            rows.measure_all(bench, results["rows"], say, again)
        results["took_s"] = time.monotonic() - began
        os.makedirs(os.path.dirname(arguments.results), exist_ok=True)
        with open(arguments.results, "w") as file:
            json.dump(results, file, separators=(",", ":"))
            file.write("\n")
            file.write("\n")
        if not arguments.only:
            report.write(results, arguments.docs)
        say("took %.0f s" % results["took_s"])
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
