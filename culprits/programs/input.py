"""A program that waits for its input, which comes seldom: nothing delays it. Its input is its own pipe, filled by a timer."""

import os
import time

from culprit import draws, tell

out, into = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(5):
        time.sleep(draws.uniform(0.3, 0.6))
        os.write(into, b"a line\n")
    os._exit(0)
os.close(into)
begin, lost, times = time.monotonic_ns(), 0, 0
while True:
    at = time.monotonic_ns()
    line = os.read(out, 100)
    lost += time.monotonic_ns() - at
    if not line:
        break
    times += 1
tell(begin, lost, times)
os.waitpid(child, 0)
