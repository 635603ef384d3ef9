"""What the scenes with existing programs have in common: victims in a cgroup, hogs, stops, and the kernel's own figures.

A scene prints {"pid": N}, waits for a line, lets the victim work under the ailment, and prints the figures. It ends, with the victim,
when its stdin does.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from culprit import draws

GROUP = Path(os.environ.get("CULPRIT_CGROUP", "/nowhere"))
# The processes that `hog` started, and the queues of the threads of the victim at the begin.
hogs, begun = [], {}
WORK = Path(os.environ.get("CULPRIT_WORK", "."))


def in_group():
    (GROUP / "cgroup.procs").write_text("0\n")


def dies_with_the_scene():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    signal.alarm(25)


def victim(*command, grouped=False, cpu=None, nice=0, **options):
    """Starts the program that `why` watches."""

    def prepare():
        dies_with_the_scene()
        if grouped:
            in_group()
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        if nice:
            os.setpriority(os.PRIO_PROCESS, 0, nice)

    return subprocess.Popen([str(word) for word in command], preexec_fn=prepare, **options)


def some_cpu():
    return draws.choice(sorted(os.sched_getaffinity(0)))


def forked(named, run):
    """A process of its own, with this name."""
    child = os.fork()
    if child == 0:
        dies_with_the_scene()
        ctypes.CDLL(None).prctl(15, named.encode(), 0, 0, 0)
        try:
            run()
        finally:
            os._exit(0)
    return child


def hog(named, cpu, fifo=False):
    """A process that wants this CPU: always, or at SCHED_FIFO in bursts that the kernel bounds."""

    def run():
        os.sched_setaffinity(0, {cpu})
        if fifo:
            import resource

            resource.setrlimit(resource.RLIMIT_RTTIME, (500_000, 500_000))
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
        while True:
            end = time.thread_time() + (draws.uniform(0.010, 0.020) if fifo else 1)
            while time.thread_time() < end:
                sum(range(300))
            if fifo:
                time.sleep(draws.uniform(0.015, 0.025))

    hogs.append(forked(named, run))


class Stops:
    """Stops a process for a time again and again: by signals, or through the freezer."""

    def __init__(self, pid, freezer=False):
        self.pid, self.freezer, self.lost, self.times = pid, freezer, 0, 0

    def set(self, stop):
        if not self.freezer:
            os.kill(self.pid, signal.SIGSTOP if stop else signal.SIGCONT)
        elif (GROUP / "freezer.state").exists():
            (GROUP / "freezer.state").write_text("FROZEN" if stop else "THAWED")
        else:
            (GROUP / "cgroup.freeze").write_text("1" if stop else "0")

    def once(self):
        begin = time.monotonic_ns()
        self.set(True)
        time.sleep(draws.uniform(0.03, 0.07))
        self.set(False)
        self.lost += time.monotonic_ns() - begin
        self.times += 1
        time.sleep(draws.uniform(0.04, 0.08))


def schedstat(pid):
    """The CPU time of each thread of a process, and the time that it waited for a CPU."""
    found = {}
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            ran, waited, _ = file.read_text().split()
        except OSError:
            continue
        found[file.parent.name] = int(ran), int(waited)
    return found


def since(pid, before):
    """CPU time, and time waited for a CPU, since `before`, of the thread that ran most."""
    passed = []
    for thread, now in schedstat(pid).items():
        then = before.get(thread, (0, 0))
        passed.append((now[0] - then[0], now[1] - then[1]))
    return max(passed)


def kept_by_hog(pid, before, hog_before):
    """How long the thread waited for its CPU since then, at most as long as the hog ran: beside others, it waits for them too."""
    return min(since(pid, before)[1], since(hogs[0], hog_before)[0])


def throttled():
    """How long, in ns, and how often the quota stopped the cgroup."""
    figures = dict(line.split() for line in (GROUP / "cpu.stat").read_text().splitlines())
    ns = int(figures["throttled_time"]) if "throttled_time" in figures else int(figures["throttled_usec"]) * 1000
    return ns, int(figures["nr_throttled"])


def begin(pid):
    """Says which process is to be watched, and waits until it is."""
    print(json.dumps({"pid": pid}), flush=True)
    sys.stdin.readline()
    begun.update(schedstat(pid))
    return time.monotonic_ns()


def end(started, lost, times, *victims, **further):
    """Prints the figures, with what the first victim waited for its CPU; the victims end once they have been read."""
    figures = {"ran_ns": time.monotonic_ns() - started, "lost_ns": int(lost), "times": times, **further}
    if victims and victims[0].poll() is None:
        figures["queued_ns"] = since(victims[0].pid, begun)[1]
    if GROUP.exists():
        figures["cgroup"] = str(GROUP)
    print(json.dumps(figures), flush=True)
    sys.stdin.read()
    for each in victims:
        each.kill()
        each.wait()
