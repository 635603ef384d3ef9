#!/usr/bin/env python3
"""punctual under cyclictest's name and cyclictest itself, with the same command line, by turns: medians, tails, CPU time, first sample.

A pair is a run of each, in random order. Of each pair the ratio ours / theirs is taken at p50 and at p99, of the samples of all CPUs, and at
p50 of each CPU, in ns (-N, by single values). The median ratio of all pairs has a 95 % interval by ranks. CPU time is that of the measuring
threads alone, by /proc/TID/schedstat, from the first line to half of the cycles: what a start costs is not in it. The first sample is the
time from the start of the process to its first line, which stdbuf(1) lets out at once. --beside runs a command meanwhile, as a load. Run it as
root on a machine that does nothing else.
Debian: apt-get install rt-tests. It prints Markdown, and takes some seven minutes with the defaults.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import time

from turns import punctual

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", type=int, default=40, help="pairs in each case")
parser.add_argument("--seconds", type=float, default=0.8, help="time of each run; real-time threads never run for longer")
parser.add_argument("--beside", metavar="COMMAND", help="a load for the shell, which SIGTERM ends")
parser.add_argument("--keep", metavar="FILE", help="keep the pairs in FILE, and go on with those that are there")
args = parser.parse_args()

CPUS = len(os.sched_getaffinity(0))
CASES = [(policy, interval) for policy in ("fifo", "other") for interval in (1000, 200)]


def link():
    """A link to the command under cyclictest's name."""
    folder = tempfile.mkdtemp()
    os.symlink(os.path.abspath(punctual()), f"{folder}/cyclictest")
    return f"{folder}/cyclictest"


PROGRAMS = {"ours": link(), "theirs": "cyclictest"}


def measuring_ns(pid):
    """CPU time of the threads of a process but its first."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        if int(tid) != pid:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as file:
                total += int(file.read().split()[0])
    return total


def run(program, policy, interval):
    """p50, p99 in ns, CPU time of the measuring threads as a share of one CPU, first line after the start in ms."""
    loops = int(args.seconds * 1e6 / interval)
    options = ["-S", "-m", "-v", "-N", f"-i{interval}", f"-l{loops}"] + (["-p80"] if policy == "fifo" else [])
    half = loops * len(os.sched_getaffinity(0)) // 2
    began = time.monotonic()
    process = subprocess.Popen(["stdbuf", "-oL", program, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        values, of_cpus, first, started, cpu = [], {}, None, 0, 0.0
        for line in process.stdout:
            fields = line.split(":")
            if len(fields) == 3 and all(field.strip().isdigit() for field in fields):
                if first is None:
                    first, started = time.monotonic(), measuring_ns(process.pid)
                values.append(int(fields[2]))
                of_cpus.setdefault(int(fields[0]), []).append(int(fields[2]))
                if len(values) >= half and cpu == 0.0:
                    cpu = (measuring_ns(process.pid) - started) / 1e9 / (time.monotonic() - first)
        if process.wait(timeout=10) != 0:
            raise SystemExit(f"{program} {' '.join(options)}: status {process.returncode}")
    finally:
        process.kill()
    values.sort()
    of_cpus = [sorted(of_cpus[cpu])[len(of_cpus[cpu]) // 2] for cpu in sorted(of_cpus)]
    return [values[len(values) // 2], values[len(values) * 99 // 100], cpu, (first - began) * 1e3, *of_cpus]


def middle(values):
    """The median with its 95 % interval by ranks."""
    values = sorted(values)
    n = len(values)
    reach = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - reach)), min(n - 1, int(n / 2 + reach))
    return values[n // 2], values[low], values[high]


def shown(values, form):
    return "{} ({} to {})".format(*(format(value, form) for value in middle(values)))


kept = []
if args.keep and os.path.exists(args.keep):
    with open(args.keep) as file:
        kept = [json.loads(line) for line in file]
if any(one.get("beside") != args.beside for one in kept):
    raise SystemExit(f"{args.keep} has pairs beside another load: name another file")
load = args.beside and subprocess.Popen(args.beside, shell=True, start_new_session=True, stdout=subprocess.DEVNULL)
try:
    for pair in range(args.pairs):
        for case in CASES:
            if sum(one["case"] == list(case) for one in kept) > pair:
                continue
            order = random.sample(sorted(PROGRAMS), 2)
            kept.append({"case": list(case), "beside": args.beside, **{name: run(PROGRAMS[name], *case) for name in order}})
            if args.keep:
                with open(args.keep, "a") as file:
                    file.write(json.dumps(kept[-1]) + "\n")
finally:
    if load:
        os.killpg(load.pid, signal.SIGTERM)
        load.wait()

print("| case | pairs | p50 ours / theirs | of each CPU | p99 ours / theirs | p50, us: ours, theirs | CPU, %: ours, theirs | first sample, ms: ours, theirs |")
print("|---|---|---|---|---|---|---|---|")
for case in CASES:
    pairs = [one for one in kept if one["case"] == list(case)]
    ratio = lambda at: shown([one["ours"][at] / one["theirs"][at] for one in pairs], ".3f")
    each = lambda at, by, form: ", ".join(format(middle([one[who][at] * by for one in pairs])[0], form) for who in PROGRAMS)
    name = f"{'FIFO 80' if case[0] == 'fifo' else 'SCHED_OTHER'}, {case[1]} us"
    print(f"| {name} | {len(pairs)} | {ratio(0)} | {'; '.join(ratio(4 + cpu) for cpu in range(CPUS))} | {ratio(1)} | {each(0, 1e-3, '.1f')} | {each(2, 100, '.2f')} | {each(3, 1, '.0f')} |")
