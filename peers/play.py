"""A real program, set up in a folder of its own and run once: with `punctual why` or `punctual run`, or without."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from turns import HERE, punctual

LIMIT_S, WATCHED_S = "120", "100s"
# A server has to serve within this time.
PATIENCE_S = 20
# The command has opened the kernel's events by then.
ATTACHED_S = 0.6
LIBRARY = "libpunctual_preload.so"

# How a program is started: alone, behind `why --`, watched by `why --pid`; a list: behind `run` with these flags.
ALONE, STARTED, ATTACHED = "alone", "why --", "why --pid"


@dataclass
class Outcome:
    """What one run of a program shows."""

    # stdout, stderr and the exit status of what is compared.
    said: list
    # How long the program took, or the load of a server; and the same with the start, the end and the report.
    took: float
    whole: float
    # CPU time of the program, or of the server with its start.
    cpu: float = 0.0
    figures: list = field(default_factory=list)
    causes: dict = None


def chosen(args, belongs=lambda program: True):
    """The programs that are asked for. Where only their packages are, it prints these and ends."""
    programs = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    named = lambda program: not args.only or any(part in program["name"] for part in args.only)
    programs = [program for program in programs if belongs(program) and named(program)]
    if args.packages:
        print(" ".join(program["packages"] for program in programs))
        sys.exit()
    return programs


def add_choice(parser):
    parser.add_argument("only", nargs="*", help="only those whose names contain one of these")
    parser.add_argument("--packages", action="store_true", help="print the Debian packages, and measure nothing")


def figures(program):
    """What a program is judged by, each with whether less of it is a gain."""
    less = [(name, True) for name in program.get("less", [])]
    return less + [(name, False) for name in program.get("more", [])] or [("time, s", True)]


def version_in(said):
    """The first word that looks like a version.

    >>> [version_in(said) for said in ("Redis server v=7.0.15 sha=0:0", "nginx version: nginx/1.22.1", "sh: 1: x: not found")]
    ['7.0.15', '1.22.1', None]
    >>> version_in("cc (Debian 12.2.0-14+deb12u1) 12.2.0"), version_in('openjdk version "17.0.15" 2025-04-15')
    ('12.2.0-14+deb12u1', '17.0.15')
    """
    words = (re.sub(r"^\D+|\D+$", "", word) for word in said.split())
    return next((word for word in words if "." in word), None)


class Place:
    """An empty folder in which a program is set up. `version` is None where it is not installed."""

    def __init__(self, program):
        self.program, self.punctual = program, punctual()
        self.folder = Path(tempfile.mkdtemp(prefix="punctual-program"))
        # Servers that change their user have to enter it.
        self.folder.chmod(0o755)
        self.environment = os.environ | {
            "P": str(HERE / "programs"), "PYTHON": sys.executable, "LC_ALL": "C.UTF-8", "PUNCTUAL_LOCK_NAMESPACE": "",
            "FIGURES": str(self.folder / "figures"), "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        }  # fmt: skip
        self.version = version_in(self.shell(program["version"]).stdout)

    def __enter__(self):
        if self.version:
            setup = self.shell("set -e; " + self.program.get("setup", ""))
            if setup.returncode:
                raise RuntimeError(f"its setup: {setup.stderr}")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, words, **streams):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, text=True, errors="replace", **streams)

    def run(self, words):
        process = self.start(words)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def shell(self, script):
        return self.run(["sh", "-c", script])

    def why(self, *words):
        """`why`, which writes its record to why.json."""
        kept = ["-q", "--no-keep", "--json", "why.json", "-o", "why.txt"]
        return ["timeout", "-k", "5", LIMIT_S, str(self.punctual), "why", *kept, *words]

    def behind(self, mode, script):
        """The command line of the program, behind a command or not."""
        if mode == STARTED:
            return self.why("--", "sh", "-c", script)
        command = [] if isinstance(mode, str) else [str(self.punctual), "run", *mode, "--"]
        return ["timeout", "-k", "5", LIMIT_S, *command, "sh", "-c", script]

    def play(self, mode):
        """Runs the program once."""
        for left in ("why.json", "figures"):
            (self.folder / left).unlink(missing_ok=True)
        outcome = self.play_server(mode) if "server" in self.program else self.play_to_its_end(mode)
        if mode in (STARTED, ATTACHED):
            outcome.causes = json.loads((self.folder / "why.json").read_text())["causes"]
        wanted = figures(self.program)
        outcome.figures = [outcome.took]
        if wanted[0][0] != "time, s":
            outcome.figures = [float(line) for line in (self.folder / "figures").read_text().split()]
        if len(outcome.figures) != len(wanted):
            raise RuntimeError(f"it wrote {len(outcome.figures)} figures, where {len(wanted)} are expected")
        return outcome

    def play_to_its_end(self, mode):
        script = self.program["run"]
        if mode != ATTACHED:
            # The program's own time, without that of opening and closing the kernel's events.
            timed = f"date +%s%N > begin\n(\n{script}\n)\nstatus=$?\ndate +%s%N > end\nexit $status"
            before, begin = cpu_of_children(), time.monotonic()
            done = self.run(self.behind(mode, timed))
            whole, cpu = time.monotonic() - begin, cpu_of_children() - before
            stamp = lambda file: int((self.folder / file).read_text())
            return Outcome(said(done), (stamp("end") - stamp("begin")) / 1e9, whole, cpu)
        # It begins when it is watched.
        program = self.start(["sh", "-c", 'read go; eval "$0"', script], stdin=subprocess.PIPE)
        watcher = self.watch(program.pid)
        begin = time.monotonic()
        stdout, stderr = program.communicate("go\n")
        took = time.monotonic() - begin
        ended_well(watcher)
        return Outcome([stdout, stderr, program.returncode], took, took)

    def play_server(self, mode):
        server = self.start(self.behind(mode, self.program["server"]), stdout=subprocess.DEVNULL)
        try:
            begin = time.monotonic()
            while self.shell(self.program["ready"]).returncode:
                if time.monotonic() - begin > PATIENCE_S:
                    raise RuntimeError("the server does not serve")
                time.sleep(0.03)
            # The child of timeout(1), or of the command in between.
            pid = child(server.pid)
            if mode not in (ALONE, ATTACHED):
                pid = child(pid)
            if not isinstance(mode, str):
                ensure_loaded(pid, mode)
            served = child(pid) if self.program.get("worker") else pid
            watcher = self.watch(served) if mode == ATTACHED else None
            begin = time.monotonic()
            done = self.shell(self.program["load"])
            took = time.monotonic() - begin
            # SIGTERM to the server, which ends in its own way; the watcher goes with it.
            before = cpu_of_children()
            os.kill(pid, 15)
            server.communicate()
            outcome = Outcome([*said(done), server.returncode], took, took, cpu_of_children() - before)
            if watcher:
                ended_well(watcher)
            return outcome
        finally:
            server.kill()
            server.wait()

    def watch(self, pid):
        watcher = self.start(self.why("--pid", str(pid), "--duration", WATCHED_S))
        time.sleep(ATTACHED_S)
        return watcher


def said(done):
    return [done.stdout, done.stderr, done.returncode]


def cpu_of_children():
    """CPU time of all children that were waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ensure_loaded(pid, flags):
    """A server that cannot read the library would show the figures of none."""
    expected = any(flag.startswith("--") and not flag.startswith("--timer-slack") for flag in flags)
    if (LIBRARY in Path(f"/proc/{pid}/maps").read_text()) != expected:
        raise RuntimeError(f"process {pid} has {LIBRARY} loaded: {not expected}")


def ended_well(watcher):
    _, stderr = watcher.communicate()
    if watcher.returncode:
        raise RuntimeError(f"why --pid: {watcher.returncode}: {stderr}")


def child(pid):
    """The child of a process that has one."""
    pids = [one for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    if len(pids) != 1:
        raise RuntimeError(f"process {pid} has {len(pids)} children, where one is expected")
    return int(pids[0])
