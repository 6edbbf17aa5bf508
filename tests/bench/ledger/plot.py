# SPDX-License-Identifier: Apache-2.0
"""The distribution of lease latencies at half of each system's most, as a picture (SVG) without a library."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 60, 20, 20, 50
COLOURS = ["#0b6e4f", "#c84630", "#3a4e8c"]


def across(us, least, most):
    share = (math.log10(us) - least) / (most - least)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def up(fraction):
    return HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="middle"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>' % (x, y, anchor, words)


def line(points, colour, width=2):
    return '<polyline fill="none" stroke="%s" stroke-width="%d" points="%s"/>' % (
        colour, width, " ".join("%.1f,%.1f" % point for point in points))


def draw(curves, path):
    """curves: (label, [[us, fraction], ...])."""
    every = [max(us, 1) for _, curve in curves for us, _ in curve]
    least, most = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (
        WIDTH, HEIGHT), '<rect width="100%" height="100%" fill="white"/>']
    for power in range(least, most + 1):
        x = across(10 ** power, least, most)
        parts += [line([(x, up(0)), (x, up(1))], "#dddddd", 1), text(x, HEIGHT - 30, "%g ms" % (10 ** power / 1000))]
    for tenths in range(0, 11, 2):
        y = up(tenths / 10)
        parts += [line([(LEFT, y), (WIDTH - RIGHT, y)], "#dddddd", 1), text(LEFT - 8, y + 4, "%d %%" % (10 * tenths), "end")]
    for (label, curve), colour in zip(curves, COLOURS):
        parts.append(line([(across(max(us, 1), least, most), up(fraction)) for us, fraction in curve], colour))
    for number, ((label, _), colour) in enumerate(zip(curves, COLOURS)):
        y = TOP + 16 + 18 * number
        parts += [line([(LEFT + 10, y - 4), (LEFT + 34, y - 4)], colour), text(LEFT + 40, y, label, "start")]
    parts += [text(WIDTH / 2, HEIGHT - 10, "lease latency at half of the most, from when it was due"), "</svg>"]
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")
