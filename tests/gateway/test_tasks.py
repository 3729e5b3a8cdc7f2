from __future__ import annotations

import asyncio

from gateway import tasks


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    swallowed = 0

    async def deaf() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 3:
                    raise

    task = tasks.spawn(deaf(), "deaf")
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await tasks.cancel(task, None)
    assert task.cancelled()
    assert swallowed == 3


async def test_a_task_that_fails_while_it_ends_does_not_break_the_stop() -> None:
    async def brittle() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("while closing")

    task = tasks.spawn(brittle(), "brittle")
    await asyncio.sleep(0)
    await tasks.cancel(task)
    assert isinstance(task.exception(), ValueError)
