"""A thread needs the interpreter's lock that another one, which computes, gives up every switch interval only."""

import sys
import threading
import time
from pathlib import Path

from culprit import draws, name, tell

over = False


# Most programs in Python name no thread: then all are called python3.
named = draws.random() < 0.5


def compute():
    if named:
        name("number-cruncher")
    while not over:
        sum(range(5000))


sys.setswitchinterval(draws.uniform(0.004, 0.010))
threading.Thread(target=compute, daemon=True).start()
begin, lost, times = time.monotonic_ns(), 0, 0
while time.monotonic_ns() - begin < 2_500_000_000:
    at = time.monotonic_ns()
    time.sleep(0.001)
    lost += time.monotonic_ns() - at - 1_000_000
    times += 1
over = True
# Beside other programs it waits for its CPU in that time too.
queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
tell(begin, lost, times, queued_ns=queued, culprit="number-cruncher" if named else Path("/proc/self/comm").read_text().strip())
