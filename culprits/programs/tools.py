"""Tools under an ailment: dd writes to the `disk` synchronously, xz has a `quota`, gzip is `stopped`."""

import subprocess
import sys
import time

from culprit import draws
from injected import Stops, WORK, begin, end, schedstat, since, throttled, victim

kind = sys.argv[1]
file = f"image-{draws.randint(100, 999)}"
commands = {
    "disk": ["dd", "if=/dev/zero", f"of={WORK / file}", f"bs={draws.randint(16, 64)}k", "count=1000000", "oflag=dsync"],
    "quota": ["xz", "-9", "--threads=1"],
    "stopped": ["gzip", "-9"],
}
with open("/dev/urandom" if kind != "disk" else "/dev/null") as source:
    tool = victim(*commands[kind], grouped=kind == "quota", stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
started = begin(tool.pid)
before, stops = schedstat(tool.pid), Stops(tool.pid)
if kind == "quota":
    stopped = throttled()
until = time.monotonic() + 2.5
while time.monotonic() < until:
    if kind == "stopped":
        stops.once()
    else:
        time.sleep(0.02)
ran, waited = since(tool.pid, before)
if kind == "disk":
    end(started, time.monotonic_ns() - started - ran - waited, 1, tool, file=file, waited_ns=waited)
elif kind == "quota":
    lost, times = (now - then for now, then in zip(throttled(), stopped))
    end(started, lost, times, tool, waited_ns=waited - lost)
else:
    end(started, stops.lost, stops.times, tool, culprit="python3")
