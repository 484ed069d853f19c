"""Many tasks in one thread."""
import asyncio


async def fetch(number):
    block = bytearray(200_000 + number)
    await asyncio.sleep(0)
    return len(block)


async def main():
    print(sum(await asyncio.gather(*(fetch(number) for number in range(200)))))


asyncio.run(main())
