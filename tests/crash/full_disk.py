#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""full_disk.py --coordinator PROGRAM: a data disk that is full to its last byte when the coordinator starts. Needs root: it mounts a
small tmpfs in a mount namespace of its own."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

SIZE_MB, WATERMARK_MB = 160, 16
EXIT_EXHAUSTED = 1


def start(flags, folder):
    """The process, and whether it serves: else it has ended."""
    ready = folder + "/ready"
    if os.path.exists(ready):
        os.unlink(ready)
    with open(folder + "/log", "ab") as log:
        child = subprocess.Popen([
            flags.coordinator, "serve", "--data", folder + "/disk/data", "--credentials", folder + "/cred/coordinator", "--listen",
            "127.0.0.1:0", "--blobs-listen", "127.0.0.1:0", "--disk-free-min-mb", str(WATERMARK_MB), "--ready-file", ready],
            stdout=log, stderr=log)
    limit = time.monotonic() + 60
    while child.poll() is None and not os.path.exists(ready):
        if time.monotonic() > limit:
            child.kill()
            raise SystemExit("the coordinator neither serves nor ends in 60 s")
        time.sleep(0.05)
    return child, child.poll() is None


def fill(path):
    """To the last byte."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass


def text(folder):
    with open(folder + "/log", errors="replace") as file:
        return file.read()


def check(condition, what, folder):
    if not condition:
        raise SystemExit("%s\nthe log ends with: %s" % (what, text(folder)[-600:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coordinator", required=True)
    flags, _ = parser.parse_known_args()
    if os.environ.get("BERTH_FULL_DISK") != "inside":
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B"] + sys.argv,
                   dict(os.environ, BERTH_FULL_DISK="inside"))
    folder = tempfile.mkdtemp(prefix="berth-full-")
    os.mkdir(folder + "/disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % SIZE_MB, "tmpfs", folder + "/disk"], check=True)
    child = None
    try:
        subprocess.run([flags.coordinator, "init", "--fleet", "full", "--out", folder + "/cred"], check=True)
        child, serves = start(flags, folder)
        check(serves, "no start on an empty disk", folder)
        child.kill()
        child.wait()
        fill(folder + "/disk/filler")
        begun = text(folder)
        child, serves = start(flags, folder)
        said = text(folder)[len(begun):]
        check(not serves, "it serves on a full disk", folder)
        check(child.returncode == EXIT_EXHAUSTED, "it ended with %d on a full disk" % child.returncode, folder)
        named = folder + "/disk/data" in said and "free" in said and "remove other files" in said
        check(named, "it names neither the folder nor the fix", folder)
        os.unlink(folder + "/disk/filler")
        child, serves = start(flags, folder)
        check(serves, "no start after room was made", folder)
        child.terminate()
        check(child.wait() == 0, "no orderly end after room was made", folder)
    finally:
        if child and child.poll() is None:
            child.kill()
            child.wait()
        subprocess.run(["umount", "-l", folder + "/disk"], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print("full-disk: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
