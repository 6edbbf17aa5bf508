# SPDX-License-Identifier: Apache-2.0
"""Result files of campaigns: a head line, then a line a result, fields separated by tabs. Only ever appended to."""
import os


def read(path):
    """Lines as dictionaries, by the names in the head line."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def append(path, fields, row):
    fresh = not os.path.exists(path)
    with open(path, "a") as file:
        if fresh:
            file.write("\t".join(fields) + "\n")
        file.write("\t".join(str(row.get(field, "")) for field in fields) + "\n")


def recoveries(path):
    """Figures of a file with a time in ms a line."""
    if not os.path.exists(path):
        return {"served": 0}
    with open(path) as file:
        times = sorted(float(line) for line in file)
    return {"served": len(times), "median_ms": round(times[len(times) // 2]), "p99_ms": round(times[len(times) * 99 // 100]),
            "worst_ms": round(times[-1]), "over_2s": sum(each > 2000 for each in times)}
