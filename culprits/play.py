"""One play: a culprit runs, alone or under `punctual why`, within a bounded time, and what both say of it is collected."""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import build

# A play takes 2 to 4 s. After LIMIT the program is ended; GRACE more is for the answer.
LIMIT, GRACE = 10, 8


@dataclass
class Play:
    """What a culprit and `why` said."""

    figures: dict = None
    screen: str = ""
    record: dict = field(default_factory=dict)
    problem: str = None

    def sentence(self):
        """The first sentence, on one line."""
        said = self.record.get("answer") or [self.screen.strip().split("\n\n")[0]]
        return " ".join(said[0].split())


def figures_of(text):
    """The last line that is the figures."""
    for line in reversed(text.splitlines()):
        if line.startswith("{") and "lost_ns" in line:
            return json.loads(line)
    return None


def attached(pid):
    """Whether this process has events of the kernel open: perf or BPF."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any("perf_event" in link or "bpf" in link for link in links)


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def play(room, culprit, seed, punctual=None):
    """Plays a culprit under the binary `punctual`, or alone."""
    draws = random.Random(f"{seed}/{culprit.name}")
    words = build.words(culprit)
    work = Path(tempfile.mkdtemp(prefix=f"{room.name}-", dir=build.TARGET))
    environment = {**os.environ, "CULPRIT_SEED": str(draws.getrandbits(32)), "CULPRIT_WORK": str(work), "HOME": str(work)}
    environment["CULPRIT_TOOLS"] = str(build.TARGET)
    if culprit.cgroup:
        environment["CULPRIT_CGROUP"] = str(room.limited(culprit.cgroup, draws))
    options = {"env": environment, "cwd": work}
    started = []
    try:
        acts = {"command": play_command, "pid": play_scene}
        return acts[culprit.how](room, words, punctual, work, options, started)
    finally:
        room.end_play(started)
        shutil.rmtree(work, ignore_errors=True)


def watching(punctual, work, *rest):
    return [punctual, "why", "--no-keep", "--quiet", "--color", "never", "--json", work / "record.json", *rest]


def play_command(room, words, punctual, work, options, started):
    """`punctual why -- PROGRAM`: the program has stdout, and the report goes to stderr."""
    with open(work / "stdout", "w") as out, open(work / "screen", "w") as screen:
        command = watching(punctual, work, "--", *words) if punctual else words
        process = room.start(command, stdout=out, stderr=screen, stdin=subprocess.DEVNULL, **options)
        started.append(process)
        problem = None
        try:
            process.wait(LIMIT + (GRACE if punctual else 0))
        except subprocess.TimeoutExpired:
            problem = f"not over after {LIMIT} s"
    return collected(work, (work / "stdout").read_text(), problem)


def play_scene(room, words, punctual, work, options, started):
    """`punctual why --pid N`, while the scene does to N what it does."""
    with open(work / "screen", "w") as screen, open(work / "complaints", "w") as complaints:
        scene = room.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, **options)
        started.append(scene)
        first = scene.stdout.readline()
        if not first:
            return Play(problem="the scene ended at once: " + (work / "complaints").read_text()[-300:])
        watcher = None
        if punctual:
            watcher = room.start(watching(punctual, work, "--pid", json.loads(first)["pid"], "--duration", "20s"),
                                 stdout=screen, stderr=screen, stdin=subprocess.DEVNULL, **options)
            started.append(watcher)
            wait_for(lambda: attached(watcher.pid) or watcher.poll() is not None, 3)
            time.sleep(0.4)
        scene.stdin.write("go\n")
        scene.stdin.flush()
        lines, end = [], time.monotonic() + LIMIT
        os.set_blocking(scene.stdout.fileno(), False)
        while not figures_of("".join(lines)) and time.monotonic() < end and scene.poll() is None:
            lines += scene.stdout.readlines()
            time.sleep(0.01)
        lines += scene.stdout.readlines()
        problem = None
        if watcher:
            if watcher.poll() is None:
                watcher.send_signal(signal.SIGINT)
            try:
                watcher.wait(GRACE)
            except subprocess.TimeoutExpired:
                problem = f"why did not answer {GRACE} s after SIGINT"
        scene.stdin.close()
        try:
            scene.wait(2)
        except subprocess.TimeoutExpired:
            pass
    return collected(work, "".join(lines), problem or (None if figures_of("".join(lines)) else (work / "complaints").read_text()[-300:]))


def collected(work, out, problem):
    record = {}
    try:
        record = json.loads((work / "record.json").read_text())
    except (OSError, ValueError):
        pass
    screen = (work / "screen").read_text()
    figures = figures_of(out)
    if not figures and not problem:
        problem = "the program printed no figures: " + (screen or out)[-300:]
    return Play(figures, screen, record, problem)
