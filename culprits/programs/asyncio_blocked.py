"""An event loop of asyncio that one of its tasks, drawn, blocks: it sleeps by time.sleep instead of asyncio.sleep."""

import asyncio
import time

from culprit import draws, tell

long, bad = draws.uniform(0.03, 0.06), draws.randrange(5)
blocked, late, times = 0, 0, 0


async def task(number, end):
    global blocked, late, times
    while time.monotonic() < end:
        at = time.monotonic_ns()
        await asyncio.sleep(0.02)
        late += time.monotonic_ns() - at - 20_000_000
        if number == bad:
            at = time.monotonic_ns()
            time.sleep(long)
            blocked += time.monotonic_ns() - at
            times += 1


async def tasks():
    await asyncio.gather(*(task(number, time.monotonic() + 2.5) for number in range(5)))


begin = time.monotonic_ns()
asyncio.run(tasks())
tell(begin, blocked, times, late_ns=late, task=bad)
