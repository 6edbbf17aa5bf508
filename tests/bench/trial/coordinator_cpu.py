#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a coordinator's share of a trial costs: CPU time by thread while a job runs, less what it takes when idle.

coordinator_cpu.py PID TRIALS COMMAND...: PID is the coordinator's; COMMAND runs a job of TRIALS trials to its end, for
example on the fleet of `deploy/quickstart.sh --keep`:

    tests/bench/trial/coordinator_cpu.py PID 40 berth run -p deploy/samples/hello-harbor -a nop -k 40

The machine must be idle otherwise: a thread that is woken on a busy one costs up to twice as much.
"""

import os
import re
import subprocess
import sys
import time

IDLE_SECONDS = 20


def threads(pid):
    """CPU nanoseconds and voluntary switches of each thread, by its id."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}"
        try:
            with open(f"{folder}/schedstat") as file:
                ns = int(file.read().split()[0])
            with open(f"{folder}/comm") as file:
                name = file.read().strip()
            with open(f"{folder}/status") as file:
                switches = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M).group(1))
        except OSError:
            continue  # it has ended
        found[thread] = (name, ns, switches)
    return found


def spent(before, after):
    """CPU milliseconds and switches between the two, by thread name."""
    sums = {}
    for thread, (name, ns, switches) in after.items():
        _, old_ns, old_switches = before.get(thread, (name, 0, 0))
        ms, count = sums.get(name, (0.0, 0))
        sums[name] = (ms + (ns - old_ns) / 1e6, count + switches - old_switches)
    return sums


def main():
    pid, trials, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    print("load before:", *os.getloadavg())
    before, start = threads(pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    idle = sum(ms for ms, _ in spent(before, threads(pid)).values()) / (time.monotonic() - start)
    before, start = threads(pid), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    sums = spent(before, threads(pid))
    whole = sum(ms for ms, _ in sums.values())
    print(f"idle: {idle:.2f} ms a second")
    print(
        f"{trials} trials in {seconds:.1f} s: {(whole - idle * seconds) / trials:.2f} ms a trial "
        f"({whole / trials:.2f} with what idling takes)"
    )
    for name, (ms, switches) in sorted(sums.items(), key=lambda item: -item[1][0]):
        print(f"  {name:<16} {ms / trials:6.2f} ms {switches / trials:6.1f} switches")


if __name__ == "__main__":
    main()
