#!/usr/bin/env python3
"""The overhead of `punctual ipc` over the bare calls, and the figures of pmqtest and perf.

Each mechanism makes round trips between two processes, under punctual and in a C program of the same calls (c/ping_pong.c), on
the same CPUs. The ring, with both sides polling, is compared with two processes that only change a flag each: the fastest
exchange between two CPUs. Debian: apt-get install gcc libc6-dev rt-tests linux-perf.
"""

import argparse
import subprocess
import sys

from turns import compiled, in_turns, median, output, percentile, punctual, ratio, run_of

RING, RING_LIMIT = "ring", 1.3
# Mechanisms with a C counterpart, and their message sizes.
MECHANISMS = dict.fromkeys(
    "memfd-spin memfd-futex memfd-sem memfd-sysv-sem memfd-cond memfd-eventfd posix-mq sysv-mq pipe fifo unix-stream "
    "unix-dgram unix-seqpacket tcp udp".split(), 64,
) | dict.fromkeys(["eventfd", "sigqueue", "signalfd"], 8)  # fmt: skip

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("only", nargs="*", choices=[[], RING, *MECHANISMS], help="default: all, with pmqtest and perf")
parser.add_argument("--turns", type=int, default=21, help="turns of each")
parser.add_argument("--messages", type=int, default=2000, help="round trips in each turn")
parser.add_argument("--cpus", type=int, nargs=2, default=[0, 0], metavar="CPU", help="of the two processes")
parser.add_argument("--limit", type=float, default=1.05, help="fail if a mechanism surely takes more than this, times the C program")
args = parser.parse_args()
command, bare = punctual(), compiled("ping_pong")
first, second = args.cpus


def by_punctual(size, *what):
    fixed = ["ipc", *what, "--mode", "ping-pong", "--warmup", "100", "--size", size]
    run = run_of(command, *fixed, "--cpus", f"{first},{second}", "--samples", args.messages)
    return run["series"][0]["p50"]


def by_bare_calls(name, size):
    return percentile([int(line) for line in output(bare, name, size, args.messages, first, second).split()], 0.5)


def compare(name, size, limit, ours, theirs):
    """Prints a row, and returns whether the mechanism is surely above its limit."""
    ours, theirs = in_turns(args.turns, [ours, theirs])
    share = ratio(ours, theirs)
    verdict = share.within(0, limit)
    print(f"{name:<16} {size:>5} {median(ours) / 1e3:>9.3f} us {median(theirs) / 1e3:>9.3f} us {share.value:>7.3f} "
          f"({share.interval('{:.3f}')})  {verdict}", flush=True)  # fmt: skip
    return verdict == "no"


def peer(name, package, *words):
    try:
        print(f"{name}:\n{output(*words).rstrip()}")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: not compared: {error}; Debian: apt-get install {package}")


print(f"round trip, {args.turns} turns of {args.messages} messages, CPUs {first} and {second}; medians of the turns' p50, and of "
      "the turns' ratios with their 95 % interval")  # fmt: skip
print(f"{'':<16} {'bytes':>5} {'punctual':>12} {'bare C':>12} {'ratio':>24}  at most {args.limit}?")
over = []
for name, size in MECHANISMS.items():
    # On one CPU, each side of memfd-spin would wait for the end of the other's time slice.
    if (args.only and name not in args.only) or (first == second and name == "memfd-spin"):
        continue
    if compare(name, size, args.limit, lambda: by_punctual(size, name), lambda: by_bare_calls(name, size)):
        over.append(name)
if first != second and (not args.only or RING in args.only):
    print("the ring, both sides polling, compared with two flags (both with two clock readings):")
    polling = [RING, "--receive", "poll", "--verify=never"]
    compare(RING, 8, RING_LIMIT, lambda: by_punctual(8, *polling), lambda: by_bare_calls("flag", 8))
if not args.only:
    where = f"--affinity={first}" if first == second else "--smp"
    peer("pmqtest, one way, FIFO 80, whole us", "rt-tests", "pmqtest", "--quiet", "--prio=80", "--interval=500", "--loops=2000", where)
    cpus = str(first) if first == second else f"{first},{second}"
    pipe = ["perf", "bench", "-f", "simple", "sched", "pipe", "-l", args.messages]
    peer(f"perf bench sched pipe: seconds for {args.messages} exchanges, 4 bytes there and back", "linux-perf", "taskset", "-c", cpus, *pipe)
if over:
    sys.exit(f"above {args.limit} times the bare calls: {', '.join(over)}")
