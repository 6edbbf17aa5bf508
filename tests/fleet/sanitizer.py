# SPDX-License-Identifier: Apache-2.0
"""What a sanitizer, or a crash, says about the programs of a test: a verdict that stands above the test's own."""
import os
import re

VARIABLES = ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
REPORT = re.compile(r"^.*(?:(?:WARNING|ERROR|FATAL): (?:Address|Leak|Thread)Sanitizer|runtime error:).*$", re.MULTILINE)
EXIT_CODES = {66: "ThreadSanitizer's", 23: "LeakSanitizer's"}
SLOWNESS = {"": 1.0, "address": 2.0, "thread": 4.0}  # how much longer our programs may take
MEMORY = {"": 1, "address": 12, "thread": 24}  # how many times the memory
KILL = -9  # the tests' own
SHOWN = 4000


def options():
    """A sanitizer's settings, for the programs that a test starts."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def of_binary(path):
    """thread, address, or nothing."""
    with open(path, "rb") as file:
        content = file.read()
    return "thread" if b"__tsan_init" in content else "address" if b"__asan_init" in content else ""


def fault(name, code, text):
    """What is wrong with a program that ended with this code, or runs yet (None), and wrote this; empty when nothing is."""
    report = REPORT.search(text)
    if report:
        return "%s: %s" % (name, text[report.start():report.start() + SHOWN])
    if code in EXIT_CODES:
        return "%s ended with %d, which is %s" % (name, code, EXIT_CODES[code])
    if code is not None and code < 0 and code != KILL:
        return "%s ended by signal %d" % (name, -code)
    return ""


def faults(processes):
    return [text for text in (fault(p.name, p.child.poll(), p.text()) for p in processes) if text]
