#!/usr/bin/env python3
"""The same wait by punctual, by cyclictest and in a bare C loop.

All three wait for 1 ms with clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), under SCHED_FIFO, with locked memory and without
idle states. The median of cyclictest is up to 1 us too low, since it truncates to whole microseconds: half of one is added.
Debian: apt-get install rt-tests gcc libc6-dev.
"""

import argparse

from turns import compiled, in_turns, median, output, percentile, punctual, run_of

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--turns", type=int, default=10, help="turns of each")
parser.add_argument("--waits", type=int, default=1000, help="waits of 1 ms in each turn")
parser.add_argument("--priority", type=int, default=40, help="SCHED_FIFO priority of all three")
args = parser.parse_args()
command, bare = punctual(), compiled("absolute_sleep")


def percentiles(values):
    return percentile(values, 0.5), percentile(values, 0.99)


def by_punctual():
    wait = ["wait", "clock_nanosleep_abs", "--for", "1ms", "--lock-memory", "--dma-latency", "0us", "--require"]
    run = run_of(command, *wait, "--policy", f"fifo:{args.priority}", "--samples", args.waits)
    return run["series"][0]["p50"], run["series"][0]["p99"]


def by_cyclictest():
    fixed = ["--quiet", "--mlockall", "--threads=1", "--policy=fifo", "--histogram=5000", "--interval=1000"]
    text = output("cyclictest", *fixed, f"--priority={args.priority}", f"--loops={args.waits}")
    buckets = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return percentiles([int(us) * 1000 + 500 for us, count in buckets for _ in range(int(count))])


def by_bare_loop():
    return percentiles([int(line) for line in output(bare, args.waits, 1_000_000, args.priority).split()])


contestants = {"punctual": by_punctual, "cyclictest": by_cyclictest, "bare C loop": by_bare_loop}
figures = in_turns(args.turns, list(contestants.values()))
print(f"clock_nanosleep to an absolute time 1 ms ahead, SCHED_FIFO {args.priority}, {args.turns} turns of {args.waits}; us late")
print(f"{'':<12} {'median of p50':>14} {'lowest..highest':>18} {'median of p99':>14}")
middles = []
for name, turns in zip(contestants, figures):
    p50, p99 = ([ns / 1e3 for ns in column] for column in zip(*turns))
    middles.append(median(p50))
    print(f"{name:<12} {middles[-1]:>14.2f} {f'{min(p50):.2f}..{max(p50):.2f}':>18} {median(p99):>14.2f}")
print(f"punctual / cyclictest {middles[0] / middles[1]:.3f}, punctual / bare C loop {middles[0] / middles[2]:.3f}")
