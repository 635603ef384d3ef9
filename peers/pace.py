#!/usr/bin/env python3
"""The highest rate of datagrams over the loopback: punctual's pacing at a rate that is impossible, and a bare C loop of send().

Pacing is to reach nine tenths of the bare loop's rate. Debian: apt-get install gcc libc6-dev.
"""

import argparse
import math

from turns import compiled, in_turns, median, output, punctual, ratio, run_of

SIZE, LEAST = 64, 0.9
WAYS = ["spin", "hybrid", "hybrid_batch"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--turns", type=int, default=9, help="turns of each")
parser.add_argument("--datagrams", type=int, default=100_000, help="datagrams in each turn")
parser.add_argument("--cpus", type=int, nargs=2, default=[1, 0], metavar="CPU", help="sender, receiver of the C program")
args = parser.parse_args()
command, bare = punctual(), compiled("send_loop")
sender, receiver = args.cpus


def by_punctual(way):
    fixed = ["pace", "--rate", "4M", "--to", "127.0.0.1:9999", "--size", SIZE, "--by", way]
    run = run_of(command, *fixed, "--samples", args.datagrams, "--cpu", sender)
    return run["series"][0]["metrics"]["rate_reached"]


def by_bare_loop():
    return 1e9 / float(output(bare, args.datagrams, SIZE, sender, receiver))


theirs, *all_of_ours = in_turns(args.turns, [by_bare_loop, *(lambda way=way: by_punctual(way) for way in WAYS)])
print(f"datagrams a second, {SIZE} bytes, medians of {args.turns} turns of {args.datagrams}; CPU {sender} sends")
print(f"bare C loop of send(): {median(theirs):.0f} ({1e6 / median(theirs):.2f} us each)")
for way, ours in zip(WAYS, all_of_ours):
    share = ratio(ours, theirs)
    verdict = share.within(LEAST, math.inf)
    print(f"{way}: {median(ours):.0f}, {share.value:.3f} of the bare loop ({share.interval('{:.3f}')}); at least {LEAST}: {verdict}")
