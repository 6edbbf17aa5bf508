# SPDX-License-Identifier: Apache-2.0
"""docs/BENCH.md's tables from the raw results: report.py RESULTS DOCS writes them anew between their marks, and
bench-latency.svg beside it."""
import json
import os
import statistics
import sys

import plot

BEGIN, END = "<!-- figures: begin, made by tests/bench/ledger/report.py -->", "<!-- figures: end -->"
NAMES = {"berth": "Berth, one lease a message", "redis": "Redis, appendfsync always", "etcd": "etcd, Txn + Delete",
         "postgres": "PostgreSQL, SKIP LOCKED", "berth-batched": "Berth, up to 16 leases a message",
         "redis-pipelined": "Redis, pipelines of 16"}
WIDTHS = ["1", "8", "64", "256"]


def kilo(value):
    return "%.1fk" % (value / 1000) if value < 100000 else "%.0fk" % (value / 1000)


def spread(runs, key="cycles_per_s"):
    values = [run[key] for run in runs]
    return "%s (%s-%s)" % (kilo(statistics.median(values)), kilo(min(values)), kilo(max(values)))


def median(runs, *path):
    values = []
    for run in runs:
        for key in path:
            run = run[key]
        values.append(run)
    return statistics.median(values)


def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(line) + " |" for line in lines]


def of_machine(results):
    found = results["machine"]
    quiet = "alone on it" if found["quiet"] else "NOT alone on it: figures are lower than they could be"
    return ["Measured %s on %d cores (%s), Linux %s, %s; fdatasync of 512 bytes p50 %.0f µs, p99 %.0f µs, "
            "after 5 ms of rest %.0f and %.0f µs; %s (load average %.2f). %s. Medians of %d rounds of %g s, least and most in brackets; the whole took %.0f s." % (
                found["date"], found["cores"], found["cpu"], found["kernel"], found["file_system"],
                found["fdatasync_us"]["p50"], found["fdatasync_us"]["p99"], found["fdatasync_rested_us"]["p50"],
                found["fdatasync_rested_us"]["p99"], quiet, found["load_average"],
                ", ".join("%s %s" % item for item in found["packages"].items()), results["rounds"],
                results["seconds"], results["took_s"])]


def of_closed(closed):
    lines = []
    for name, label in NAMES.items():
        runs = closed[name]
        at_64 = runs["64"]
        lines.append([label] + [spread(runs[width]) for width in WIDTHS] + [
            "%.1f / %.1f" % (median(at_64, "grant", "p50_us") / 1000, median(at_64, "grant", "p99_us") / 1000),
            "%.1f" % median(at_64, "server_us_per_durable_op"), "%.2f" % median(at_64, "load_cpu_share")])
    return table(["durable cycles/s", "W = 1", "8", "64", "256", "lease p50 / p99 at 64, ms",
                  "server CPU, µs an op at 64", "load, cores at 64"], lines)


def of_ratios(closed):
    def best(name):
        return max(1, statistics.median(run["cycles_per_s"] for run in closed[name]["64"]))
    lines = []
    for ours, peers in (("berth", ("redis", "etcd", "postgres")), ("berth-batched", ("redis-pipelined",))):
        for peer in peers:
            cpu = median(closed[peer]["64"], "server_us_per_durable_op") / max(
                0.1, median(closed[ours]["64"], "server_us_per_durable_op"))
            lines.append([NAMES[ours], NAMES[peer], "%.2f" % (best(ours) / best(peer)), "%.2f" % cpu])
    return table(["at W = 64", "against", "cycles/s, ours ÷ theirs", "server CPU an op, theirs ÷ ours"], lines)


def of_open(results):
    lines = []
    for share in sorted(results["berth"], key=float):
        line = ["%.0f %%" % (100 * float(share))]
        for name in ("berth", "berth-batched", "redis"):
            run = results[name][share]
            line.append("%s/s: %.1f / %.1f" % (
                kilo(run["rate"]), run["grant"]["p50_us"] / 1000, run["grant"]["p99_us"] / 1000))
        lines.append(line)
    return table(["Poisson, of the most", NAMES["berth"], NAMES["berth-batched"], NAMES["redis"]], lines)


def of_kills(results):
    lines = []
    for name, label in NAMES.items():
        kept = [run["after_kill"] for runs in results["closed"][name].values() for run in runs]
        lines.append([label, "%d" % len(kept), "%d" % sum(run["completions"] for run in kept),
                      "%d" % sum(run["lost_completions"] for run in kept), "%d" % sum(run["grants"] for run in kept),
                      "%d" % sum(run["lost_grants"] for run in kept),
                      "%d" % sum(run.get("lost_tasks", 0) for run in kept)])
    for name, run in results["defaults"].items():
        kept = run["after_kill"]
        lines.append([NAMES[name].split(",")[0] + ", without the sync (%s cycles/s at 64%s)" % (
            kilo(run["cycles_per_s"]), ", pipelines of 16" if "pipelined" in name else ""), "1",
            "%d" % kept["completions"], "%d" % kept["lost_completions"], "%d" % kept["grants"],
            "%d" % kept["lost_grants"], "%d" % kept.get("lost_tasks", 0)])
    return table(["killed in mid-load, started again", "kills", "acknowledged completions", "came back as ready",
                  "acknowledged leases", "lost", "waiting tasks lost"], lines)


def verdict(value, floor, goal, more):
    def reached(bound):
        return value >= bound if more else value <= bound
    return "goal" if reached(goal) else "floor" if reached(floor) else "**missed**"


def of_rows(results):
    closed, rows = results["closed"], results["rows"]
    batched = statistics.median(run["cycles_per_s"] for run in closed["berth-batched"]["64"])
    single = statistics.median(run["cycles_per_s"] for run in closed["berth"]["64"])
    cpu = median(closed["berth-batched"]["64"], "server_us_per_durable_op")
    grant, rested = rows["idle_grant"]["grant"], rows["idle_grant"]["rested"]
    half, half_single = (results["open"][name]["0.5"]["grant"] for name in ("berth-batched", "berth"))
    million, job = rows["million_queued"], rows["large_job"]
    lines = [
        ("durable cycles/s, 64 agents, up to 16 a message", "%.0f" % batched, 16000, 32000, batched, True),
        ("the same, one lease a message", "%.0f" % single, 8000, 16000, single, True),
        ("server CPU a durable operation, batched, µs", "%.1f" % cpu, 25, 25, cpu, False),
        ("lease latency when idle, one agent, p50 ms", "%.2f" % (grant["p50_us"] / 1000), 0.6, 0.4,
         grant["p50_us"] / 1000, False),
        ("the same, p99 ms", "%.2f" % (grant["p99_us"] / 1000), 2, 1, grant["p99_us"] / 1000, False),
        ("the same after 5 ms of rest each, p50 / p99 ms", "%.2f / %.2f" % (
            rested["p50_us"] / 1000, rested["p99_us"] / 1000), None, None, None, False),
        ("lease latency at half of the most, one lease a message, p99 ms", "%.1f" % (half_single["p99_us"] / 1000), 8, 4,
         half_single["p99_us"] / 1000, False),
        ("the same, up to 16 a message, p99 ms", "%.1f" % (half["p99_us"] / 1000), 8, 4, half["p99_us"] / 1000, False),
        ("submit to first lease, a job of 100,000 tasks, s", "%.2f" % (job["first_grant_ms"] / 1000), 2, 0.5,
         job["first_grant_ms"] / 1000, False),
        ("tasks made durable by submits, a second", "%.0f" % job["tasks_per_s"], 100000, 300000, job["tasks_per_s"], True),
        ("idle agents held", "%d" % rows["idle_agents"]["agents"], 1000, 5000, rows["idle_agents"]["agents"], True),
        ("heartbeats/s of them", "%.0f" % rows["idle_agents"]["beats_per_s"], 1000, 10000,
         rows["idle_agents"]["beats_per_s"], True),
        ("resident memory for a million queued trials, MB", "%.0f" % million["rss_mb_per_million"], 300, 300,
         million["rss_mb_per_million"], False),
        ("start with a million queued trials and 10,000 live leases, s", "%.2f" % million["start_s"], 2, 2,
         million["start_s"], False),
        ("the same, at once after the kill, s", "%.2f" % million["start_after_kill_s"], 5, 2,
         million["start_after_kill_s"], False),
        ("start with %d ended trials behind, ms" % rows["history"]["ended_trials"],
         "%.0f; without %.0f" % (rows["history"]["start_s"] * 1000, rows["history"]["start_without_s"] * 1000), 2000,
         1000, rows["history"]["start_s"] * 1000, False),
        ("from the end of the fencing wait to the next lease of the trial, most of 8, ms",
         "%.1f" % rows["regrant"]["max_ms"], 1000, 200, rows["regrant"]["max_ms"], False),
        ("`berth job list`, p50 ms", "%.0f" % million["job_list_ms"]["p50"], 50, 20, million["job_list_ms"]["p50"], False),
        ("size of berth-coordinator, stripped, MB", "%.1f" % (rows["binary"]["bytes_stripped"] / 1e6), 5, 2,
         rows["binary"]["bytes_stripped"] / 1e6, False),
        ("start to serving, small ledger, ms", "%.0f" % rows["binary"]["start_ms"], 50, 20, rows["binary"]["start_ms"],
         False),
        ("coordinator's share of a core at 1,000 running trials, %", "%.2f" % (
            100 * rows["thousand_running"]["share_of_a_core"]), 1, 0.3, 100 * rows["thousand_running"]["share_of_a_core"],
         False),
    ]
    return table(["figure", "measured", "floor", "goal", "reached"], [
        [name, text, "%g" % floor, "%g" % goal, verdict(value, floor, goal, more)] if floor is not None
        else [name, text, "", "", ""]
        for name, text, floor, goal, value, more in lines])


def make(results):
    parts = [of_machine(results), ["### Bounds"] + [""] + of_rows(results),
             ["### Closed loops, everything durable before it is answered", ""] + of_closed(results["closed"]),
             ["### Ratios", ""] + of_ratios(results["closed"]),
             ["### Lease latency at a given rate, p50 / p99 in ms, from when it was due", ""] + of_open(results["open"]) +
             ["", "![distribution of lease latencies](bench-latency.svg)"],
             ["### What a kill leaves", ""] + of_kills(results)]
    return "\n\n".join("\n".join(part) for part in parts)


def write(results, docs):
    with open(docs) as file:
        text = file.read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(docs, "w") as file:
        file.write(head + BEGIN + "\n" + make(results) + "\n" + END + tail)
    plot.draw([("%s, %s/s" % (NAMES[name], kilo(runs["0.5"]["rate"])), runs["0.5"]["grant"]["cdf"])
               for name, runs in results["open"].items()], os.path.join(os.path.dirname(docs), "bench-latency.svg"))


if __name__ == "__main__":
    with open(sys.argv[1]) as raw:
        write(json.load(raw), sys.argv[2])
