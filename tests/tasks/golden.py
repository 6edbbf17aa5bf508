#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden.py FOLDER [TASK...] - prints the rows of GOLDEN.tsv for the task folders of FOLDER, or for TASK... in it.

Written from the description of the hashes alone, so that the C code has something independent to agree with.
Run it on a folder whose odd-names was finished by odd-names.make.sh.
"""
import fnmatch
import hashlib
import os
import pathlib
import re
import sys
import tomllib

LEFT_OUT = {".DS_Store", ".git", "__pycache__"}
DEFAULT_IGNORED = ["__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def checksum(folder):
    """The dirhash of a folder, or None when nothing below it counts."""
    parts = []
    for entry in folder.iterdir():
        if entry.is_dir():
            inner = checksum(entry)
            if inner is None:
                continue
            kind = "dirhash:" + inner
        else:
            kind = "data:" + sha256(entry.read_bytes())
        parts.append(f"{kind}\0name:{entry.name}")
    return sha256("\0\0".join(sorted(parts)).encode()) if parts else None


def ignored(relative, patterns):
    """Only the forms that this folder uses: *.suffix, name/ and name."""
    for pattern in patterns:
        folders = pathlib.PurePosixPath(relative).parts[:-1]
        names = folders if pattern.endswith("/") else pathlib.PurePosixPath(relative).parts
        if any(fnmatch.fnmatchcase(name, pattern.rstrip("/")) for name in names):
            return True
    return False


def walk(folder):
    """Files below a folder, links to files too, without going through links to folders."""
    for root, folders, files in os.walk(folder):
        for name in files:
            path = pathlib.Path(root, name)
            if path.is_file():
                yield path


def lock_digest(task):
    names = ["task.toml", "instruction.md", "README.md", "trajectory.json"]
    files = [task / name for name in names if (task / name).is_file()]
    for part in ("environment", "tests", "solution", "steps"):
        files.extend(walk(task / part))
    patterns = DEFAULT_IGNORED
    if (task / ".gitignore").exists():
        lines = (task / ".gitignore").read_text().splitlines()
        patterns = [line for line in lines if line and not line.startswith("#")]
    relative = sorted(path.relative_to(task).as_posix() for path in files)
    outer = hashlib.sha256()
    for name in relative:
        if not ignored(name, patterns):
            outer.update(f"{name}\0{sha256((task / name).read_bytes())}\n".encode())
    return outer.hexdigest()


def environment_id(task, config):
    folder = task / "environment"
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in walk(folder)
        if not path.is_symlink() and not LEFT_OUT & set(path.relative_to(folder).parts)
    )
    if not names:
        image = config.get("environment", {}).get("docker_image")
        return sha256((image or folder.name).encode())[:32]
    digest = hashlib.sha256()
    for name in names:
        for data in (name.encode(), (folder / name).read_bytes()):
            digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()[:32]


def row(task):
    config = tomllib.loads((task / "task.toml").read_text())
    name = config.get("task", {}).get("name", task.name).rpartition("/")[2]
    environment = environment_id(task, config)
    alias = re.sub(r"\.", "-", f"{name}__{environment[:12]}".replace("/", "__"))
    return "\t".join([task.name, checksum(task), lock_digest(task), environment, name, alias])


def main():
    folder = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or sorted(path.parent.name for path in folder.glob("*/task.toml"))
    print("task\ttask_checksum\tlock_digest\tenvironment_id\tenvironment_name\te2b_alias")
    for name in names:
        print(row(folder / name))


main()
