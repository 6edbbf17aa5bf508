#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py RESULTS PAGE: puts what the results say between the page's marks."""
import collections
import os
import sys

import rows

BEGIN, END = "<!-- begin: crash.sh table -->\n", "<!-- end -->\n"
MOMENTS = ("before", "after", "torn")


def thousands(number):
    return format(int(number), ",")


def enumerated(folder, scenario):
    """How many points, classes and kills there are to do."""
    with open(os.path.join(folder, scenario + ".points")) as file:
        points = [line.rstrip("\n").split("\t") for line in file]
    torn = [point for point in points if point[1] in ("write", "pwrite", "writev", "send", "sendmsg")]
    classes = {tuple(point[1:4]) + (moment,) for point in points for moment in MOMENTS if moment != "torn" or point in torn}
    return len(points), len(classes), 2 * len(points) + len(torn)


def median(values):
    return sorted(values)[len(values) // 2] if values else 0


def scenario_rows(folder, found):
    yield "| run | points | kills done, of | classes met, of | bad | recovery: median, worst |"
    yield "|---|---|---|---|---|---|"
    for scenario in sorted(name[:-7] for name in os.listdir(folder) if name.endswith(".points")):
        mine = [row for row in found if row["scenario"] == scenario]
        met = {(row["call"], row["kind"], row["phase"], row["met"]) for row in mine if row["met"]}
        points, classes, kills = enumerated(folder, scenario)
        times = [float(row["recovery_ms"]) for row in mine if row["recovery_ms"]]
        bad = sum(row["verdict"] not in ("ok", "not reached") for row in mine)
        recovery = "%.1f s, %.1f s" % (median(times) / 1000, max(times) / 1000) if times else "none: a command"
        yield "| %s | %d | %d of %d | %d of %d | %d | %s |" % (
            scenario, points, sum(row["verdict"] != "not reached" for row in mine), kills, len(met), classes, bad, recovery)


def class_rows(found):
    yield "| run | call | file | kills before / after the call / torn, in each phase | seen |"
    yield "|---|---|---|---|---|"
    groups = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    bad = collections.Counter()
    for row in found:
        if row["met"]:
            key = (row["scenario"], row["call"], row["kind"])
            groups[key][row["phase"]][row["met"]] += 1
            bad[key] += row["verdict"] != "ok"
    for key in sorted(groups):
        phases = ", ".join("%s %s" % (phase, "/".join(str(counts[moment]) for moment in MOMENTS if counts[moment] or moment != "torn"))
                           for phase, counts in sorted(groups[key].items()))
        yield "| %s | %s | %s | %s | %s |" % (*key, phases, "%d bad" % bad[key] if bad[key] else "whole")


def fault_rows(found):
    yield "| process | error | call | file | how the life with the fault ended | bad |"
    yield "|---|---|---|---|---|---|"
    groups = collections.defaultdict(list)
    for row in found:
        groups[row["process"], row["error"], row["call"], row["kind"]].append(row)
    for key in sorted(groups):
        ends = collections.Counter(row["end"] if row["met"] else "not met" for row in groups[key])
        yield "| %s | %s | %s | %s | %s | %d |" % (*key, ", ".join("%s: %d" % item for item in sorted(ends.items())),
                                                sum(row["verdict"] != "ok" for row in groups[key]))


def random_rows(found):
    yield "| killed at random | kills | of serving lives | jobs, trials | lives asked for what was acknowledged | ledger proven | bad |"
    yield "|---|---|---|---|---|---|---|"
    for kind in sorted({row["kind"] for row in found}):
        mine = [row for row in found if row["kind"] == kind]

        def total(field):
            return sum(int(row[field] or 0) for row in mine)  # pylint: disable=cell-var-from-loop
        yield "| %s | %s | %s | %s, %s | %s | %d times | %d |" % (
            kind, thousands(total("kills")), thousands(total("kills_serving")), thousands(total("jobs")), thousands(total("trials")),
            thousands(total("checks")), total("audits"), sum(row["verdict"] != "ok" for row in mine))


def main():
    folder, page = sys.argv[1:]
    points = rows.read(folder + "/points.tsv")
    parts = [scenario_rows(folder, points), random_rows(rows.read(folder + "/random-kills.tsv")),
             fault_rows(rows.read(folder + "/faults.tsv")), class_rows(points)]
    with open(page) as file:
        text = file.read()
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    with open(page, "w") as file:
        file.write(text[:before] + "\n" + "\n\n".join("\n".join(part) for part in parts) + "\n\n" + text[after:])


if __name__ == "__main__":
    main()
