#!/usr/bin/env python3
"""What being watched costs a program: `punctual why`, perf sched record, an off-CPU profile by perf record, strace -f, and nothing, by turns.

Three programs have their own figures: a futex ping-pong of two processes on one CPU (round trips, the 99th percentile of one), redis
(requests a second of redis-benchmark, which is not watched), and a loop that wakes up each millisecond (lateness at p50 and p99). A turn is one
run of each, in direct succession. Run it as root on a machine that does nothing else.
Debian: apt-get install redis-server linux-perf strace. A tool that is absent is left out. It prints Markdown, and takes some five minutes.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time

from turns import compiled, difference, in_turns, median, percentile, punctual, ratio

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--turns", type=int, default=15, help="runs of each program under each tool")
parser.add_argument("--trips", type=int, default=300_000, help="round trips of a run; strace has a thirtieth of them")
parser.add_argument("--program", default="", help="only the programs whose names have this word")
args = parser.parse_args()

SCRATCH = tempfile.TemporaryDirectory()
DATA = f"{SCRATCH.name}/perf.data"
TOOLS = {
    "nothing": [],
    "punctual why": [str(punctual()), "why", "--"],
    "perf sched record": ["perf", "sched", "record", "-o", DATA, "--"],
    "off-CPU: perf record -g -e sched:sched_switch": ["perf", "record", "-q", "-g", "-e", "sched:sched_switch", "-o", DATA, "--"],
    "strace -f": ["strace", "-f", "-o", "/dev/null"],
}
TOOLS = {name: command for name, command in TOOLS.items() if not command or shutil.which(command[0])}


def numbers(tool, *command):
    """The numbers that a program prints, one a line, under a tool."""
    run = subprocess.run([*TOOLS[tool], *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return [int(line) for line in run.stdout.split() if line.isdigit()]


def ping_pong(tool):
    """Round trips a second, the 99th percentile of one in us."""
    trips = args.trips // 30 if tool.startswith("strace") else args.trips
    took = numbers(tool, PING_PONG, "memfd-futex", 8, trips, 0, 0)
    return 1e9 * len(took) / sum(took), percentile(took, 0.99) / 1e3


def loop(tool):
    """Lateness at p50 and p99, in us."""
    late = numbers(tool, LOOP, 1000, 1_000_000, 0)
    return percentile(late, 0.5) / 1e3, percentile(late, 0.99) / 1e3


def redis(tool):
    """Requests a second, the 99th percentile of one in ms."""
    socket = f"{SCRATCH.name}/redis.sock"
    server = [*TOOLS[tool], "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", SCRATCH.name]
    process = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not os.path.exists(socket):
            time.sleep(0.01)
        time.sleep(0.3)
        benchmark = ["redis-benchmark", "-s", socket, "-t", "get", "-c", "20", "-n", "40000", "--csv"]
        lines = subprocess.run(benchmark, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        keys, values = ([word.strip('"') for word in line.split(",")] for line in lines[-2:])
        figures = dict(zip(keys, values))
        subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], check=True)
    finally:
        process.wait(timeout=20)
        if os.path.exists(socket):
            os.unlink(socket)
    return float(figures["rps"]), float(figures["p99_latency_ms"])


PING_PONG, LOOP = compiled("ping_pong"), compiled("absolute_sleep")
PROGRAMS = {"futex ping-pong, round trips": ping_pong, "1 ms loop": loop}
if shutil.which("redis-server"):
    PROGRAMS["redis, requests"] = redis

print("| program | watched by | turns | speed or p50, bare | watched | watched / bare | p99, watched / bare |")
print("|---|---|---:|---:|---:|---|---|")
for program, run in ((name, run) for name, run in PROGRAMS.items() if args.program in name):
    bare, *watched = in_turns(args.turns, [lambda tool=tool: run(tool) for tool in TOOLS])
    for tool, figures in zip(list(TOOLS)[1:], watched):
        columns = [[turn[at] for turn in figures] for at in (0, 1)]
        bare_columns = [[turn[at] for turn in bare] for at in (0, 1)]
        if run is loop:
            first = difference(columns[0], bare_columns[0])
            said = f"{first.value:+.2f} us ({first.interval('{:+.2f}')})"
        else:
            first = ratio(columns[0], bare_columns[0])
            said = f"{first.value:.2f} ({first.interval()})"
        tail = ratio(columns[1], bare_columns[1])
        middles = " | ".join(f"{median(column):.0f}" if run is not loop else f"{median(column):.1f} us" for column in (bare_columns[0], columns[0]))
        print(f"| {program} | {tool} | {args.turns} | {middles} | {said} | {tail.value:.2f} ({tail.interval()}) |", flush=True)
