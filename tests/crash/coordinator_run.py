# SPDX-License-Identifier: Apache-2.0
"""One run of the scripted job (pilot) whose coordinator is killed at one point of its first life, or of the second, which
recovers."""
import os
import shutil
import subprocess
import tempfile

SECONDS_MOST = 120


class Run:
    def __init__(self, life):
        self.life = life

    def start(self, flags, folder, *variables):
        """The pilot's last line."""
        try:
            done = subprocess.run([
                flags.pilot, "run", "--coordinator", flags.coordinator, "--folder", folder, "--preload", flags.preload,
                "--life", str(self.life)] + list(variables), stdout=subprocess.PIPE, text=True, timeout=SECONDS_MOST)
        except subprocess.TimeoutExpired:
            return "broken\tthe script does not end in %d s" % SECONDS_MOST
        return (done.stdout.splitlines() or ["broken\tended with %d" % done.returncode])[-1]

    def record(self, flags):
        """The points of a run without a kill, a line each."""
        folder = tempfile.mkdtemp(prefix="berth-points-")
        try:
            last = self.start(flags, folder)
            if not last.startswith("ok"):
                raise SystemExit("the recording run failed: " + last)
            with open(folder + "/points") as file:
                return file.read()
        finally:
            shutil.rmtree(folder)

    def kill(self, flags, plan):
        """A row of points.tsv: what was met and what was seen."""
        folder = tempfile.mkdtemp(prefix="berth-points-")
        last = self.start(flags, folder, *("%s=%s" % item for item in plan.items()))
        row = {"verdict": "not reached", "recovery_ms": last.split("\t")[3] if last.startswith("ok") else ""}
        points = folder + "/points"
        if os.path.exists(points) and os.path.getsize(points):
            with open(points) as file:
                row.update(zip(("call", "kind", "phase", "met"), file.readline().rstrip("\n").split("\t")[1:]), verdict="ok")
        if not last.startswith("ok"):
            row["verdict"] = last.replace("\t", " ")
        else:
            verified = subprocess.run([flags.berth, "ledger", "verify", folder + "/data"], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
            if verified.returncode:
                row["verdict"] = "ledger verify: " + verified.stdout.strip()[-200:].replace("\t", " ")
        if row["verdict"] in ("ok", "not reached"):
            shutil.rmtree(folder)
        else:
            print("kept for a look: " + folder, flush=True)
        return row
