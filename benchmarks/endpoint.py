"""An OpenAI-compatible endpoint in a process of its own, fast enough not to be what is measured."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint.

    Args:
        base_url: Address to give as ``api_base``.
    """

    base_url: str

    def calls(self) -> int:
        """Calls that it got so far."""
        return int(self.counts()["calls"])

    def counts(self) -> dict[str, int]:
        """Calls, and different prompts among them."""
        with urlopen(self.base_url.removesuffix("/v1") + "/count") as reply:
            return dict(json.loads(reply.read()))


@contextmanager
def endpoint(latency: float = 0.0) -> Iterator[Endpoint]:
    """Run an endpoint until the block ends.

    Args:
        latency: Seconds before each reply.
    """
    command = [sys.executable, __file__, "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Endpoint(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def serve(latency: float) -> None:
    """Serve until killed; prints the address first.

    Replies depend on the prompt alone.
    """
    from aiohttp import web

    sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
    from plausible import plausible_reply

    prompts: set[int] = set()
    counts = {"calls": 0}

    async def chat(request: web.Request) -> web.Response:
        counts["calls"] += 1
        body = json.loads(await request.read())
        prompt = sum(len(message["content"]) for message in body["messages"]) // 4
        prompts.add(hash(json.dumps(body["messages"])))
        await asyncio.sleep(latency)
        text = plausible_reply(body)
        choice = {
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4 * body.get("n", 1),
        }
        choices = [{"index": index, **choice} for index in range(body.get("n", 1))]
        return web.json_response(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": "m",
                "choices": choices,
                "usage": usage,
            }
        )

    async def count(_: web.Request) -> web.Response:
        return web.json_response({**counts, "prompts": len(prompts)})

    async def main() -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/v1/chat/completions", chat)
        app.router.add_get("/count", count)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port = runner.addresses[0][1]
        print(f"http://127.0.0.1:{port}/v1", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    serve(parser.parse_args().latency)
