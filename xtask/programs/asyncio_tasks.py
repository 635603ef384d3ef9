import asyncio


async def ticks():
    for _ in range(40):
        await asyncio.sleep(0.01)
    return 40


async def main():
    print(sum(await asyncio.gather(*(ticks() for _ in range(50)))), "sleeps")


asyncio.run(main())
