"""An asyncio server, and four clients in the same process that pause for 5 ms between requests, for 3 s."""

import asyncio
import time


async def answer(reader, writer):
    while await reader.readline():
        writer.write(b"x" * 1000 + b"\n")
        await writer.drain()
    writer.close()


async def ask(port, end):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < end:
        writer.write(b"?\n")
        await reader.readline()
        await asyncio.sleep(0.005)
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(ask(port, time.monotonic() + 3) for _ in range(4)))
    server.close()


asyncio.run(main())
