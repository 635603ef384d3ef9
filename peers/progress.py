#!/usr/bin/env python3
"""The effect of the progress line on the figures: the same wait with the line on a terminal, and with --quiet."""

import argparse
import json
import sys

from turns import TARGET, in_turns, median, output, punctual

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--turns", type=int, default=20, help="turns of each")
parser.add_argument("--waits", type=int, default=5000, help="waits of 200 us in each turn")
args = parser.parse_args()
command, file = punctual(), TARGET / "peers-progress.json"


def measured(flag):
    wait = "wait clock_nanosleep_abs --for 200us --policy fifo:40 --rounds 20"
    line = f"{command} {wait} --samples {args.waits} --json {file} {flag}"
    # script(1) gives the command its own terminal; the drawing is looked at and discarded.
    drawn = output("script", "-qec", line, "/dev/null")
    if ("left" in drawn) == bool(flag):
        sys.exit("the progress line must appear without --quiet only")
    series = json.loads(file.read_text())["series"][0]
    return [series[figure] / 1e3 for figure in ("p50", "p99", "p999")]


figures = in_turns(args.turns, [lambda: measured(""), lambda: measured("--quiet")])
print(f"clock_nanosleep to 200 us ahead, SCHED_FIFO 40, {args.turns} turns of {args.waits}, medians over turns; us late")
rows = [[median(column) for column in zip(*turns)] for turns in figures]
for name, row in zip(("drawn", "--quiet"), rows):
    print(f"{name:<8} p50 {row[0]:.2f}   p99 {row[1]:.2f}   p99.9 {row[2]:.2f}")
p50, p99, p999 = (drawn / quiet for drawn, quiet in zip(*rows))
print(f"drawn / quiet: p50 {p50:.3f}, p99 {p99:.3f}, p99.9 {p999:.3f}")
