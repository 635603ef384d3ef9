"""git packs a repository, in one process: it `computes`, or is kept from it by a `quota`, a `hog` at SCHED_FIFO, or the `freezer`."""

import os
import subprocess
import sys
import time

from culprit import draws
from injected import Stops, WORK, begin, end, hog, hogs, kept_by_hog, schedstat, since, some_cpu, throttled, victim

kind = sys.argv[1]
folder = WORK / "repository"
quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "check": True}
folder.mkdir()
subprocess.run(["git", "init", "--quiet"], **quiet)
for number in range(80):
    words = [str(draws.random()) for _ in range(12000)]
    (folder / f"file-{number}").write_text("\n".join(words))
subprocess.run(["git", "add", "."], **quiet)
cpu, thief = some_cpu(), f"thief-{draws.randint(10, 99)}"
objects = subprocess.run(["git", "ls-files", "--stage"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
names = WORK / "names"
names.write_text("".join(line.split()[1] + "\n" for line in objects.splitlines()))
gate, into = os.pipe()
# git reads the names from its stdin once the gate is open.
script = f'read -r _ <&{gate}; exec git pack-objects --threads=1 --window=1500 --no-reuse-delta --no-reuse-object --stdout <"$0" >/dev/null'
git = victim("sh", "-c", script, names, cwd=folder, pass_fds=[gate], grouped=kind in ("quota", "freezer"), stderr=subprocess.DEVNULL,
             cpu=cpu if kind == "hog" else None)
time.sleep(0.2)
if kind == "hog":
    hog(thief, cpu, fifo=True)
before = schedstat(git.pid)
if kind == "quota":
    stopped = throttled()
stops = Stops(git.pid, freezer=True)
started = begin(git.pid)
hog_before = schedstat(hogs[0]) if kind == "hog" else {}
os.write(into, b"go\n")
until = time.monotonic() + 3
while time.monotonic() < until and git.poll() is None:
    if kind == "freezer":
        stops.once()
    else:
        time.sleep(0.02)
if git.poll() is not None:
    sys.exit("git had too little to do")
ran, waited = since(git.pid, before)
if kind == "quota":
    lost, times = (now - then for now, then in zip(throttled(), stopped))
    end(started, lost, times, git, waited_ns=waited - lost)
elif kind == "freezer":
    end(started, stops.lost, stops.times, git)
elif kind == "hog":
    end(started, kept_by_hog(git.pid, before, hog_before), 1, git, culprit=thief)
else:
    end(started, ran, 1, git)
