import asyncio
import statistics
import time

import figures

late = []


async def ticks():
    for _ in range(25):
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        late.append(time.monotonic() - begin - 0.01)
    return 25


async def main():
    print(sum(await asyncio.gather(*(ticks() for _ in range(20)))), "sleeps")


asyncio.run(main())
figures.write(statistics.median(late) * 1e6)
