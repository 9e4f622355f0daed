"""A server that works on few calls at once, while the others wait: for tests and benchmarks."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from aiohttp import web
from loopback import LoopbackServer


class SlowServer(LoopbackServer):
    """Works on so many calls at once, each for some time.

    Args:
        width: Calls that it works on at once.
        seconds: Time that a call takes.
        drops: Whether it forgets a call whose client has left; else it works on that
            call, too, and nobody gets the answer.

    Attributes:
        n_received: How many calls came, also those that were given up.
    """

    def __init__(
        self, *, width: int, seconds: float, drops: bool, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.seconds = seconds
        self.drops = drops
        self.n_received = 0
        self._workers = asyncio.Semaphore(width)

    async def _serve(self, port: Future[int]) -> None:
        app = web.Application()
        app.add_routes(self.routes())
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=256).start()
        port.set_result(runner.addresses[0][1])
        await asyncio.to_thread(self.stopped.wait)
        with suppress(asyncio.CancelledError):
            await runner.cleanup()

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/{path:.*}", self._answer_in_turn)]

    async def _answer_in_turn(self, request: web.Request) -> web.Response:
        await request.read()
        self.n_received += 1
        work = asyncio.ensure_future(self._work())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if self.drops:
                work.cancel()
            raise
        return await self._answer(request)

    async def _work(self) -> None:
        async with self._workers:
            await asyncio.sleep(self.seconds)
