# SPDX-License-Identifier: Apache-2.0
"""What a benchmark ran on, and whether it was alone."""
import os
import platform
import subprocess
import time

PACKAGES = ["redis-server", "etcd-server", "postgresql-15", "libgrpc29", "librocksdb7.8", "libsodium23"]
SYNCS = 500
SYNC_BYTES = 512
REST_SECONDS = 0.005  # as long as the idle row's agent thinks
RESTS = 200
QUIET_LOAD = 0.3
QUIET_SECONDS = 45


def quantile(values, fraction):
    return sorted(values)[min(len(values) - 1, int(fraction * len(values)))]


def sync_us(folder, syncs=SYNCS, rest_seconds=0):
    """fdatasync after each append of 512 bytes; with a rest before each, what a commit of an idle coordinator waits
    for, whose processor and disk have gone to sleep."""
    path, taken = os.path.join(folder, "sync"), []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(syncs):
        time.sleep(rest_seconds)
        os.write(fd, b"x" * SYNC_BYTES)
        began = time.perf_counter()
        os.fdatasync(fd)
        taken.append((time.perf_counter() - began) * 1e6)
    os.close(fd)
    os.remove(path)
    return {"p50": quantile(taken, 0.5), "p99": quantile(taken, 0.99)}


def version_of(package):
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return shown.stdout or "not installed"


def wait_until_quiet():
    """True when the load of the last minute fell below a third of a core in time."""
    end = time.monotonic() + float(os.environ.get("QUIET", QUIET_SECONDS))
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < end:
        time.sleep(1)
    return os.getloadavg()[0] < QUIET_LOAD


def describe(folder):
    quiet = wait_until_quiet()
    file_system = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {"cores": os.cpu_count(), "cpu": models[0] if models else platform.machine(), "kernel": platform.release(),
            "file_system": file_system, "fdatasync_us": sync_us(folder),
            "fdatasync_rested_us": sync_us(folder, RESTS, REST_SECONDS), "load_average": os.getloadavg()[0],
            "quiet": quiet, "packages": {name: version_of(name) for name in PACKAGES},
            "date": time.strftime("%Y-%m-%d", time.gmtime())}


def show(found):
    print("%d cores (%s), Linux %s, %s; fdatasync of 512 bytes p50 %.0f us, p99 %.0f us, after 5 ms of rest %.0f and "
          "%.0f us; load average %.2f%s" % (
        found["cores"], found["cpu"], found["kernel"], found["file_system"], found["fdatasync_us"]["p50"],
        found["fdatasync_us"]["p99"], found["fdatasync_rested_us"]["p50"], found["fdatasync_rested_us"]["p99"],
        found["load_average"], "" if found["quiet"] else " (NOT QUIET)"))
    print(", ".join("%s %s" % item for item in found["packages"].items()), flush=True)
