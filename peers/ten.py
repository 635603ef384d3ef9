#!/usr/bin/env python3
"""Ten real programs: the first screen of `punctual why`, beside what perf sched, strace and an off-CPU profile say of a run of their own.

    peers/ten.py [NAME...]       prints Markdown; run it as root on a machine that does nothing else: some four minutes

Debian: apt-get install git sqlite3 redis-server postgresql nodejs golang default-jdk ffmpeg linux-perf strace bpftrace; and cargo. A program that is
absent is said, and left out.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turns import HERE, punctual

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("only", nargs="*", help="only those whose names contain one of these")
args = parser.parse_args()

FOLDER = Path(tempfile.mkdtemp(prefix="ten-", dir="/var/tmp"))
FOLDER.chmod(0o755)
WATCHED_S = 3
SOURCES = HERE / "ten"


def sh(command, **more):
    return subprocess.run(["sh", "-ec", command], cwd=FOLDER, stdin=subprocess.DEVNULL, **more)


def quiet(command):
    sh(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Program:
    """A program that runs by itself, or a server under a load, of which one process is watched."""

    def __init__(self, name, needs, prepare, command, comms, server=None, load=None, watched=None):
        self.name, self.needs, self.prepare, self.command, self.comms = name, needs, prepare, command, comms
        self.server, self.load, self.watched = server, load, watched

    def observed(self, by_command, by_pid):
        """What an observer prints: it starts the program, or is attached to the process while the load runs."""
        if self.prepare:
            quiet(self.prepare)
        if self.watched is None:
            return sh(f"{by_command} {self.command}", capture_output=True, text=True)
        own = {"cwd": FOLDER, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        started = []
        try:
            for command in filter(None, [self.server, self.load]):
                started.append(subprocess.Popen(["sh", "-c", f"exec {command}"], **own))
                time.sleep(2)
            pid = sh(self.watched, capture_output=True, text=True, check=True).stdout.split()[0]
            return sh(by_pid.replace("PID", pid), capture_output=True, text=True)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


SQL = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);" + "INSERT INTO t(b) VALUES(hex(randomblob(50)));" * 800
POSTGRES = "postgres -D data -c unix_socket_directories=/tmp -c listen_addresses= -p 55555"
AS_POSTGRES = "setpriv --reuid postgres --regid postgres --clear-groups"
PROGRAMS = [
    Program("git gc", ["git"], f"rm -rf r; git clone -q --no-hardlinks --bare {HERE.parent} r", "git -C r gc -q --aggressive --prune=now", {"git"}),
    Program("sqlite3", ["sqlite3"], f"rm -f s.db; printf '{SQL}' > s.sql", "sqlite3 s.db '.read s.sql'", {"sqlite3"}),
    Program("redis-server (redis-benchmark, append-only file)", ["redis-server", "redis-benchmark"], None, None, {"redis-server"},
            "redis-server --port 6399 --appendonly yes --save ''", "redis-benchmark -q -p 6399 -t set,get -n 10000000", "pgrep -f 'redis-server.*6399'"),
    Program("PostgreSQL (one backend, pgbench)", ["postgres", "pgbench", "initdb"],
            f"rm -rf data; install -d -o postgres data; {AS_POSTGRES} $(dirname $(readlink -f $(command -v postgres)))/initdb -D data",
            None, {"postgres"}, f"{AS_POSTGRES} {POSTGRES}",
            f"{AS_POSTGRES} sh -c 'pgbench -i -q -h /tmp -p 55555 postgres; exec pgbench -h /tmp -p 55555 -c 2 -T 60 postgres'",
            "sleep 2; pgrep -f '[p]ostgres: postgres postgres' | tail -1"),
    Program("node (an HTTP server and its four clients)", ["node"], None, f"node {SOURCES}/server.js", {"node", "MainThread"}),
    Program("Go (net/http, eight clients)", ["go"], f"test -x goserver || go build -o goserver {SOURCES}/server.go", "./goserver", {"goserver"}),
    Program("Java (HttpServer, one client)", ["java", "javac"], f"test -f Server.class || javac -d . {SOURCES}/Server.java", "java -cp . Server", {"java", "main", "HTTP-Dispatcher"}),
    Program("ffmpeg (mpeg4, 20 s of a test picture)", ["ffmpeg"], None, "ffmpeg -v error -y -f lavfi -i testsrc=d=20:s=640x480 -c:v mpeg4 o.mp4", {"ffmpeg"}),
    Program("Python asyncio (a server, four clients, 5 ms between requests)", ["python3"], None, f"python3 {SOURCES}/server.py", {"python3"}),
    Program("cargo build (one small crate)", ["cargo"], f"rm -rf c; cargo init -q --name c c; cp {SOURCES}/main.rs c/src/main.rs", "cargo build -q --release --manifest-path c/Cargo.toml", {"cargo", "rustc"}),
]


def first_screen(program):
    """The sentence and the longest rows of `why`, as they are printed."""
    tool = f"{punctual()} why --no-keep"
    if not program.watched:
        # Once before, so that its files are in memory for all observers.
        program.observed("env", "true")
    ran = program.observed(f"COLUMNS=100 {tool} --", f"COLUMNS=100 {tool} --pid PID --duration {WATCHED_S}s")
    return (ran.stdout if program.watched else ran.stderr).rstrip()


def perf(program):
    """The three threads with the longest time on a CPU, by `perf sched latency`."""
    record = "perf sched record -o perf.data"
    program.observed(f"{record} --", f"{record} sleep {WATCHED_S}")
    said = sh("perf sched latency -i perf.data", capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*(\S.*?):\(?\S*\)?\s*\|\s*([\d.]+) ms \|\s*(\d+) \| avg:\s*([\d.]+) ms \| max:\s*([\d.]+) ms", said, re.M)
    mine = [row for row in rows if any(row[0].startswith(comm) for comm in program.comms)]
    return "; ".join(f"{name} {float(ran):.0f} ms on a CPU, {times} switches, mean delay {average} ms" for name, ran, times, average, _ in mine[:3])


def strace(program):
    """The three calls with the most wall time."""
    program.observed("strace -f -c -w -o calls --", f"timeout -s INT {WATCHED_S} strace -f -c -w -o calls -p PID || true")
    rows = [line.split() for line in (FOLDER / "calls").read_text().splitlines()[2:-2]]
    return ", ".join(f"{row[-1]} {float(row[0]):.0f} %" for row in rows[:3])


PATH = re.compile(r"__schedule|schedule|schedule_timeout|schedule_hrtimeout\w*|io_schedule\w*|do_syscall_64|entry_SYSCALL\w*|ret_from_fork\w*|x64_sys_\w+")


def off_cpu(program):
    """The three longest sums of time away from a CPU, by thread name and what the kernel's stack says."""
    script = f"unshare -m sh -c 'mountpoint -q /sys/kernel/tracing || mount -t tracefs t /sys/kernel/tracing; exec bpftrace -q -f json -o away {HERE}/off_cpu.bt"
    (FOLDER / "play").write_text(f"#!/bin/sh\nexec {program.command}\n")
    program.observed(f"{script} -c \"/bin/sh {FOLDER}/play\"' true", f"{script} -c \"/usr/bin/sleep {WATCHED_S}\"'")
    sums = {}
    for line in (FOLDER / "away").read_text().splitlines():
        for key, us in (json.loads(line).get("data", {}).get("@away", {}) if line.startswith("{") else {}).items():
            comm, stack = key.split(",", 1)
            if not any(comm.startswith(name) for name in program.comms):
                continue
            frames = [frame for frame in re.findall(r"(\w[\w.]*)\+\d+", stack) if not PATH.fullmatch(frame)]
            place = f"{comm}: {' < '.join(frames[:3])}"
            sums[place] = sums.get(place, 0) + us
    longest = sorted(sums.items(), key=lambda entry: -entry[1])[:3]
    return "; ".join(f"{place} {us / 1e6:.2f} s" for place, us in longest)


def main():
    for program in PROGRAMS:
        if args.only and not any(part in program.name for part in args.only):
            continue
        print(f"\n## {program.name}\n")
        absent = [need for need in program.needs if not shutil.which(need) and need != "initdb"]
        if absent:
            print(f"Not here: {', '.join(absent)}.")
            continue
        print(f"```text\n{first_screen(program)}\n```\n")
        for name, observer in [("perf sched", perf), ("strace -f -c -w", strace), ("off-CPU", off_cpu)]:
            try:
                print(f"- {name}: {observer(program) or 'nothing'}", flush=True)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                print(f"- {name}: {error}", flush=True)


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
