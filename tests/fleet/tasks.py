# SPDX-License-Identifier: Apache-2.0
"""Tasks that are made for a test: they sleep, then prove that they ran once in their container."""
import os

INSTRUCTION = "Append one line to /app/ran after a rest.\n"
TOML = """schema_version = "1.4"

[task]
name = "berth-fleet/{name}"
description = "Sleeps {seconds} s and appends a line to a file"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 60.0
{verifier}
[environment]
build_timeout_sec = 120.0
cpus = 1
memory_mb = 128
{environment}"""
SOLVE = "#!/bin/bash\n{extra}sleep {seconds}\nmkdir -p /app\necho ran >> /app/ran\n"
TEST = "#!/bin/bash\n{extra}[ \"$(cat /app/ran)\" = ran ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"


def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def sleeper(folder, name, seconds, verifier="", dockerfile=None, solve="", test=""):
    """A task folder below `folder`; its path. Without a Dockerfile nothing has to be built."""
    task = os.path.join(folder, name)
    image = "" if dockerfile else 'docker_image = "debian:bookworm-slim"\n'
    put(task + "/instruction.md", INSTRUCTION)
    put(task + "/task.toml", TOML.format(name=name, seconds=seconds, verifier=verifier, environment=image))
    put(task + "/solution/solve.sh", SOLVE.format(seconds=seconds, extra=solve), 0o755)
    put(task + "/tests/test.sh", TEST.format(extra=test), 0o755)
    if dockerfile:
        put(task + "/environment/Dockerfile", dockerfile)
    else:
        put(task + "/environment/readme.txt", "Nothing to build.\n")
    return task
