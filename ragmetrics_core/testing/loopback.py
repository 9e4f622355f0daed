"""An OpenAI-compatible server on this machine, for tests without a network."""

import asyncio
import json
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from aiohttp import web

Body = dict[str, Any]
Support = bool | Literal["ignore", "reject", "in_object"]

_TOKEN = re.compile(r"\s?\w+|\s+|[^\w\s]{1,2}")
_RARE = 1e-6


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request.

    Args:
        status: HTTP status of the reply.
        headers: Headers of the reply, e.g. ``{"Retry-After": "1"}``.
        body: Body of the reply; None for an error object in OpenAI's form.
        code: Its ``code``.
        reset: Break the connection instead of replying.
        hang: Never reply.
    """

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    code: str = "server_error"
    reset: bool = False
    hang: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that the server got: path of the address, headers with names in lower case, the parsed body."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Body = field(repr=False)


class LoopbackServer:
    """An OpenAI-compatible chat endpoint on 127.0.0.1, for tests of judges.

    Args:
        reply: From the request's body to the reply's text, or to one text per choice,
            or to a whole choice object (``{"message": …, "finish_reason": …}``). By
            default "yes", as to a question of Context Adherence.
        n: Whether several choices per request work, are ignored, or are rejected.
        logprobs: The same for log-probabilities.
        json_schema: The same for ``response_format``; ``in_object`` takes a schema only
            beside the type ``json_object``, as the Python server of llama.cpp does.
        temperature: The same for temperatures other than 1.
        probability: p(1) at every 0/1 token, for log-probabilities; None: high for the
            token that is there.
        mass: Probability that the two labels cover.
        latency: Seconds before each reply.
        faults: For the number of a request, from 0, what goes wrong with it; None for
            nothing.
        heard: From the body of a request to that of OpenAI, where the server is to
            speak another protocol.
        said: From the body of OpenAI's reply to its own.

    Attributes:
        requests: Every request, in order of arrival.
        most_in_flight: Most requests that were open at the same time.

    Examples:
        >>> with LoopbackServer() as server:
        ...     server.base_url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        reply: Callable[[Body], str | list[str] | Body] = lambda _: (
            '{"reason": "", "verdict": "yes"}'
        ),
        *,
        n: Support = True,
        logprobs: Support = True,
        json_schema: Support = True,
        temperature: Support = True,
        probability: float | None = 0.9,
        mass: float = 0.995,
        latency: float = 0.0,
        faults: Callable[[int], Fault | None] | None = None,
        heard: Callable[[Body], Body] = dict,
        said: Callable[[Body], Body] = dict,
    ) -> None:
        self.requests: list[Recorded] = []
        self.most_in_flight = self._in_flight = 0
        self.reply, self.latency, self.faults, self.heard, self.said = (
            reply,
            latency,
            faults,
            heard,
            said,
        )
        self.supports = {
            "n": n,
            "logprobs": logprobs,
            "response_format": json_schema,
            "temperature": temperature,
        }
        self.probability, self.mass = probability, mass
        self.stopped = threading.Event()
        self._port: int | None = None

    @property
    def base_url(self) -> str:
        """Address to give as ``api_base``; ``RuntimeError`` if the server does not run."""
        if self._port is None:
            raise RuntimeError("the server does not run; use it in a with statement")
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self.stopped.clear()
        port: Future[int] = Future()
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._serve(port),), daemon=True
        )
        self._thread.start()
        self._port = port.result()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()
        self._port = None

    async def _serve(self, port: Future[int]) -> None:
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(256, "loopback-server")
        )
        app = web.Application(client_max_size=2**30)
        app.add_routes(self.routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=256).start()
        port.set_result(runner.addresses[0][1])
        await asyncio.to_thread(self.stopped.wait)
        await runner.cleanup()

    def routes(self) -> list[web.RouteDef]:
        """What is served; the first that fits decides."""
        return [web.post("/{path:.*}", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            body = self.heard(json.loads(await request.read()))
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(Recorded(request.path_qs, headers, body))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            # a test's functions may wait
            said = await asyncio.to_thread(self._outcome, len(self.requests) - 1, body)
        finally:
            self._in_flight -= 1
        if (said.reset or said.hang) and (connection := request.transport):
            told = struct.pack("ii", 1, 0)
            connection.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, told
            )
            connection.abort()
        return web.Response(
            status=said.status,
            text=said.body,
            headers={"Content-Type": "application/json", **said.headers},
        )

    def _outcome(self, number: int, body: Body) -> Fault:
        """What a request ends with, be it a fault or not."""
        time.sleep(self.latency)
        if fault := self.faults(number) if self.faults else None:
            if fault.hang:
                self.stopped.wait()
            return (
                fault
                if fault.body is not None
                else replace(fault, body=_error("It failed as told to.", fault.code))
            )
        if name := self.rejection(body):
            said = f"Unsupported parameter: '{name}' is not supported."
            return Fault(400, body=_error(said, "unsupported_parameter", name))
        return Fault(200, body=json.dumps(self.said(self.completion(body))))

    def rejection(self, body: Body) -> str:
        """Name of the first parameter that this server rejects; "" if there is none."""
        if self.supports["response_format"] == "in_object":
            form = body.get("response_format") or {}
            return "response_format" if form.get("type") == "json_schema" else ""
        usual = {
            "n": (None, 1),
            "logprobs": (None, False),
            "response_format": (),
            "temperature": (None, 1),
        }
        asked = [
            name
            for name, values in usual.items()
            if name in body and body[name] not in values
        ]
        return next((name for name in asked if self.supports[name] == "reject"), "")

    def completion(self, body: Body) -> Body:
        """The body of the reply to a request."""
        count = body.get("n") or 1 if self.supports["n"] is True else 1
        seen = (
            body
            if self.supports["response_format"] in (True, "in_object")
            else {**body, "response_format": None}
        )
        given = self.reply(seen)
        replies = given if isinstance(given, list) else [given] * count
        wants_tokens = bool(body.get("logprobs")) and self.supports["logprobs"] is True
        choices = [
            self._choice(index, reply, wants_tokens)
            for index, reply in enumerate(replies[:count])
        ]
        prompt = (
            sum(
                len(str(message.get("content"))) for message in body.get("messages", ())
            )
            // 4
            + 1
        )
        written = (
            sum(len(str(choice["message"].get("content"))) for choice in choices) // 4
            + 1
        )
        return {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "loopback"),
            "choices": choices,
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": written,
                "total_tokens": prompt + written,
            },
        }

    def _choice(self, index: int, reply: str | Body, wants_tokens: bool) -> Body:
        own = (
            {"message": {"role": "assistant", "content": reply}}
            if isinstance(reply, str)
            else reply
        )
        choice: Body = {
            "index": index,
            "finish_reason": "stop",
            "logprobs": None,
            **own,
        }
        if wants_tokens and choice["logprobs"] is None:
            text = str(choice["message"].get("content") or "")
            choice["logprobs"] = {
                "content": tokens(text, self.probability, self.mass),
                "refusal": None,
            }
        return choice


def _error(message: str, code: str, parameter: str | None = None) -> str:
    kind = "invalid_request_error" if parameter else "error"
    return json.dumps(
        {"error": {"message": message, "type": kind, "param": parameter, "code": code}}
    )


def tokens(text: str, probability: float | None, mass: float) -> list[dict[str, Any]]:
    """Split a reply into plausible tokens with log-probabilities, as OpenAI returns them.

    Args:
        text: The reply.
        probability: p(1) / (p(0) + p(1)) at every token that is 0 or 1; None: 0.98 for
            the token that is there.
        mass: p(0) + p(1) there.
    """
    listed = []
    for token in _TOKEN.findall(text):
        label = token.strip()
        if label not in ("0", "1"):
            alternatives = {token: 1 - _RARE}
        else:
            before = token.removesuffix(label)
            one = (
                probability
                if probability is not None
                else 0.98
                if label == "1"
                else 0.02
            )
            alternatives = {
                f"{before}1": mass * one,
                f"{before}0": mass * (1 - one),
                "maybe": (1 - mass) * 0.9,
            }
        ranked = sorted(alternatives.items(), key=lambda item: -item[1])
        top = [
            {
                "token": it,
                "logprob": math.log(max(p, _RARE)),
                "bytes": list(it.encode()),
            }
            for it, p in ranked
        ]
        chosen = next(entry for entry in top if entry["token"] == token)
        listed.append({**chosen, "top_logprobs": top})
    return listed
