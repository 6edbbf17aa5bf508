# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/BENCH.md that are not throughput: latencies of an idle coordinator, memory, starts, the command."""
import json
import os
import statistics
import subprocess
import time

from systems import Berth

LOAD_SECONDS = 120
MILLION = ["tasks=100", "attempts=10000"]
LIVE = {"agents": 64, "slots": 157}  # 10,048 leases
LISTS = 20
STARTS = 5
HISTORY_JOBS = 8


def load(server, *flags):
    done = subprocess.run(server.load() + list(flags), capture_output=True, text=True, timeout=LOAD_SECONDS)
    if not done.stdout:
        raise RuntimeError(done.stderr + server.log())
    return json.loads(done.stdout)


def fresh(bench, *options):
    server = Berth(bench.binaries, bench.at("berth"), options)
    server.make()
    return server


def resident_kb(pid):
    with open("/proc/%d/status" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_agent(bench, *flags):
    server = fresh(bench)
    server.start()
    try:
        return load(server, "agents=1", "slots=1", "paid=1", "tasks=4", "attempts=10000", "warm-ms=500",
                    "measure-ms=4000", *flags)["grant"]
    finally:
        server.kill()


def idle_grant(bench):
    """As peers are measured, each lease after the one before; and with a rest between them."""
    return {"grant": one_agent(bench), "rested": one_agent(bench, "think-us=5000")}


def large_job(bench):
    found = []
    for _ in range(3):
        server = fresh(bench)
        server.start()
        found.append(load(server, "agents=8", "slots=1", "hold=1", "paid=1", "tasks=100000", "attempts=1",
                          "warm-ms=0", "measure-ms=300"))
        server.kill()
    submit_ms = statistics.median(run["submit_ms"] for run in found)
    return {"first_grant_ms": statistics.median(run["first_grant_ms"] for run in found), "submit_ms": submit_ms,
            "tasks_per_s": 100000 / submit_ms * 1000}


def idle_agents(bench, agents, beat_ms):
    server = fresh(bench)
    server.start()
    try:
        found = load(server, "agents=%d" % agents, "hold=1", "tasks=0", "beat-ms=%d" % beat_ms, "warm-ms=1500",
                     "measure-ms=3000")
        return {"agents": agents, "beats_per_s": found["beats_per_s"], "server_cpu_share": found["server_cpu_s"] /
                found["seconds"], "rss_mb": found["rss_kb"] / 1024}
    finally:
        server.kill()


def thousand_running(bench):
    server = fresh(bench)
    server.start()
    try:
        found = load(server, "agents=100", "slots=10", "hold=1", "paid=1", "tasks=1", "attempts=2000", "warm-ms=3000",
                     "measure-ms=20000")
        return {"share_of_a_core": found["server_cpu_s"] / found["seconds"]}
    finally:
        server.kill()


def million_queued(bench):
    """Memory, then starts after a kill: at once, and when the records are written."""
    server = fresh(bench, "--checkpoint-ms", "2000")
    first = server.start()
    before_kb = resident_kb(server.process.pid)
    held = load(server, "agents=%d" % LIVE["agents"], "slots=%d" % LIVE["slots"], "hold=1", "paid=1", "warm-ms=4000",
                "measure-ms=500", *MILLION)
    after_kb = resident_kb(server.process.pid)
    server.kill()
    at_once = server.start()
    time.sleep(6)
    server.kill()
    recorded = [server.start()]
    for _ in range(2):
        server.kill()
        recorded.append(server.start())
    job_list = time_lists(bench, server)
    rss_kb = resident_kb(server.process.pid)
    server.kill()
    return {"rss_mb_per_million": (after_kb - before_kb) / 1024, "rss_mb": after_kb / 1024,
            "rss_mb_after_start": rss_kb / 1024, "empty_start_s": first, "start_after_kill_s": at_once,
            "start_s": statistics.median(recorded), "job_list_ms": job_list, "beats_per_s": held["beats_per_s"]}


def time_lists(bench, server):
    environment = dict(os.environ, BERTH_COORDINATOR="127.0.0.1:%d" % server.port,
                       BERTH_BLOBS="127.0.0.1:%d" % server.blobs_port,
                       BERTH_CREDENTIALS=os.path.join(server.credentials, "operator"))
    taken = []
    for _ in range(LISTS):
        began = time.perf_counter()
        subprocess.run([bench.binaries["berth"], "job", "list"], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        taken.append((time.perf_counter() - began) * 1000)
    return {"p50": statistics.median(taken), "max": max(taken)}


def regrant(bench):
    """Agents that fall silent while they hold a trial: how long after the fencing wait another one has it."""
    hold_ms = 2000
    server = fresh(bench, "--hold-ms", "%d" % hold_ms)
    server.start()
    fence_ms = hold_ms * 105 // 100 + 5000
    try:
        found = load(server, "agents=16", "slots=1", "hold=1", "paid=1", "tasks=8", "attempts=1", "warm-ms=0",
                     "measure-ms=%d" % (fence_ms + 2000), "fence-ms=%d" % fence_ms)["regrant"]
    finally:
        server.kill()
    if found["count"] != 8:
        raise RuntimeError("%d of 8 trials were granted again" % found["count"])
    return {"p50_ms": found["p50_us"] / 1000, "max_ms": found["max_us"] / 1000}


def history(bench):
    """Starts with many ended jobs behind, beside starts with none."""
    server = fresh(bench, "--checkpoint-ms", "1000")
    server.start()
    for _ in range(HISTORY_JOBS):
        load(server, "agents=64", "slots=16", "batch=16", "paid=1", "tasks=2", "attempts=10000", "warm-ms=0",
             "measure-ms=2500", "drain=1")
    time.sleep(3)
    server.kill()
    with_history = [server.start()]
    for _ in range(2):
        server.kill()
        with_history.append(server.start())
    rss_kb = resident_kb(server.process.pid)
    server.kill()
    empty = fresh(bench)
    empty.start()
    without = []
    for _ in range(3):
        empty.kill()
        without.append(empty.start())
    empty.kill()
    return {"ended_trials": HISTORY_JOBS * 20000, "start_s": statistics.median(with_history), "rss_mb": rss_kb / 1024,
            "start_without_s": statistics.median(without)}


def binary(bench):
    stripped = bench.at("stripped")
    subprocess.run(["strip", "-o", stripped, bench.binaries["coordinator"]], check=True)
    size = os.path.getsize(stripped)
    server = fresh(bench)
    first = server.start()
    starts = []
    for _ in range(STARTS):
        server.stop()
        starts.append(server.start())
    server.kill()
    began = time.perf_counter()
    subprocess.run([bench.binaries["coordinator"], "--version"], stdout=subprocess.DEVNULL, check=True)
    return {"bytes_stripped": size, "first_start_ms": first * 1000, "start_ms": statistics.median(starts) * 1000,
            "version_ms": (time.perf_counter() - began) * 1000}


def measure_all(bench, results, say, again):
    for name, run in (("binary", binary), ("idle_grant", idle_grant), ("large_job", large_job),
                      ("idle_agents", lambda b: idle_agents(b, 1000, 100)),
                      ("million_queued", million_queued), ("history", history), ("regrant", regrant),
                      ("thousand_running", thousand_running)):
        results[name] = again(run, bench)
        shown = {key: value for key, value in results[name].items() if not isinstance(value, dict)}
        say("%s: %s" % (name, json.dumps(shown)))
