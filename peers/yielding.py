#!/usr/bin/env python3
"""What each way of yielding costs alone on its CPU: punctual, and a bare C loop of the same call.

The loop runs in a process of one thread, and once more with a second thread that sleeps. punctual has such threads, and blocking
calls cost more in a process of several, so it is compared with the second. Debian: apt-get install gcc libc6-dev.
"""

import argparse

from turns import compiled, difference, in_turns, median, output, punctual, run_of

# Ways to yield with a C counterpart, and the calls per turn: some milliseconds.
METHODS = {
    "nothing": 3_000_000, "nop": 3_000_000, "pause": 200_000, "sched_yield": 10_000, "sleep0": 200, "usleep0": 200,
    "nanosleep0": 200, "nanosleep1": 200, "clock_nanosleep_past": 500, "select0": 15_000, "poll0": 30_000, "ppoll0": 20_000,
    "epoll_wait0": 20_000, "futex_changed": 20_000,
}  # fmt: skip

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--turns", type=int, default=51, help="turns of each")
parser.add_argument("--cpu", type=int, default=1)
args = parser.parse_args()
command, bare = punctual(), compiled("yield_calls")


def by_bare_loop(name, company):
    return float(output(bare, name, METHODS[name], args.cpu, company))


def by_punctual(name):
    fixed = ["yield", name, "--competitors", "0", "--cpu", args.cpu]
    run = run_of(command, *fixed, "--samples", min(METHODS[name], 300_000))
    costs = [series for series in run["series"] if series["quantity"] == "call_cost"]
    return costs[0]["metrics"]["bare_ns"]


print(f"ns per call, medians of {args.turns} turns on CPU {args.cpu}; difference: median of the turns' and its 95 % interval")
print("| method | bare C loop | beside a second thread | punctual | difference | of it | within 3 ns or 2 % |")
print("|---|---:|---:|---:|---:|---:|---|")
outside = 0
for name in METHODS:
    contestants = [lambda: by_bare_loop(name, 0), lambda: by_bare_loop(name, 1), lambda: by_punctual(name)]
    alone, theirs, ours = in_turns(args.turns, contestants)
    middle, base = difference(ours, theirs), median(theirs)
    allowed = max(3, base * 0.02)
    verdict = middle.within(-allowed, allowed)
    outside += verdict == "no"
    share = [end / base * 100 for end in (middle.value, middle.low, middle.high)]
    print(f"| {name} | {median(alone):.1f} | {base:.1f} | {median(ours):.1f} | {middle.value:+.1f} "
          f"| {share[0]:+.1f} % ({share[1]:+.1f} to {share[2]:+.1f}) | {verdict} |", flush=True)  # fmt: skip
print(f"{outside} of {len(METHODS)} outside")
