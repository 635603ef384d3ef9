"""redis-server, loaded by a client, under an ailment: `quota`, `script` (a script blocks its loop), `stopped`, `hog`, `nice`, or
`asleep`, where nothing ails it."""

import socket
import subprocess
import sys
import time

from culprit import draws
from injected import Stops, WORK, begin, end, hog, hogs, kept_by_hog, schedstat, since, some_cpu, throttled, victim

kind = sys.argv[1]
cpu = some_cpu()
path = str(WORK / "redis.sock")
pinned = kind in ("hog", "nice")
server = victim("redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", WORK, "--appendonly", "no",
                grouped=kind == "quota", cpu=cpu if pinned else None, nice=19 if kind == "nice" else 0, stdout=subprocess.DEVNULL)
client = socket.socket(socket.AF_UNIX)
for _ in range(200):
    try:
        client.connect(path)
        break
    except OSError:
        time.sleep(0.02)
answers = client.makefile("rb")


def ask(*words):
    """Asks one thing, and returns the first line of the answer."""
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(each).encode() for each in words))
    client.sendall(request)
    return answers.readline()


def load(seconds):
    """Sorts lists for the client, which costs the server a millisecond or so each; returns how many."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        ask("SORT", "numbers", "STORE", "sorted")
        count += 1
    return count


ask("EVAL", "for i = 1, 4000 do redis.call('RPUSH', 'numbers', (i * 7919) % 4001) end return 1", 0)
thief = f"thief-{draws.randint(10, 99)}"
if pinned:
    hog(thief, cpu, fifo=kind == "hog")
started = begin(server.pid)
if kind == "quota":
    before, queued = throttled(), schedstat(server.pid)
    load(3)
    lost, times = (now - then for now, then in zip(throttled(), before))
    end(started, lost, times, server, waited_ns=since(server.pid, queued)[1] - lost)
elif kind == "script":
    lost = times = 0
    before = schedstat(server.pid)
    long, until = draws.randint(300, 900), time.monotonic() + 2.5
    while time.monotonic() < until:
        at = time.monotonic_ns()
        ask("EVAL", f"local sum = 0 for i = 1, {long} * 10000 do sum = sum + i end return 1", 0)
        lost, times = lost + time.monotonic_ns() - at, times + 1
        load(0.02)
    end(started, lost, times, server, cpu_ns=since(server.pid, before)[0])
elif kind == "stopped":
    stops, until = Stops(server.pid), time.monotonic() + 2.5
    while time.monotonic() < until:
        stops.once()
    end(started, stops.lost, stops.times, server, culprit="python3")
elif kind == "hog":
    before, hog_before = schedstat(server.pid), schedstat(hogs[0])
    count = load(2.5)
    end(started, kept_by_hog(server.pid, before, hog_before), count, server, culprit=thief)
elif kind == "nice":
    before, hog_before = schedstat(server.pid), schedstat(hogs[0])
    count = load(2.5)
    end(started, since(server.pid, before)[1], count, server, culprit=thief, culprit_ns=since(hogs[0], hog_before)[0])
elif kind == "asleep":
    time.sleep(2)
    end(started, time.monotonic_ns() - started, 1, server)
