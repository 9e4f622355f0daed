"""An OpenAI-compatible server on this machine, for tests without a network."""

import asyncio
import json
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self

from aiohttp import web

Body = dict[str, Any]
Support = bool | Literal["ignore", "reject", "json_mode"]

_TOKEN = re.compile(r"\s?\w+|\s+|[^\w\s]{1,2}")
_RARE = 1e-6
# Parameters with the setting of the server that says whether it takes other values of
# them than these.
_USUAL_VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "n": ("n", (None, 1)),
    "logprobs": ("logprobs", (None, False)),
    "response_format": ("json_schema", ()),
    "temperature": ("temperature", (None, 1)),
}


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
    """A request that the server got."""

    path: str
    headers: Mapping[str, str] = field(repr=False)  # names in lower case
    body: Body = field(repr=False)


@dataclass(eq=False, repr=False)
class LoopbackServer:
    """An OpenAI-compatible chat endpoint on 127.0.0.1, for tests of judges.

    Args:
        reply: Makes the reply of a request's body: a text, one text for each choice, or
            a whole choice object (``{"message": …, "finish_reason": …}``). By default
            "yes", as to a question of Context Adherence.
        n: Whether several choices per request work, are ignored, or are rejected.
        logprobs: The same for log-probabilities.
        json_schema: The same for ``response_format``; with ``json_mode`` only the type
            ``json_object`` works.
        temperature: The same for temperatures other than 1.
        status: The status with which parameters are rejected.
        probability: The probability of "1", of the two labels 0 and 1, which
            log-probabilities show; None: 0.98 for the label in the reply.
        mass: The probability that the labels 0 and 1 have together.
        latency: Seconds before each reply.
        faults: Gives for a request's number, counted from 0, what goes wrong with it;
            None for nothing.
        to_openai: Turns the body of a request into that of OpenAI, if the server is to
            speak another protocol.
        from_openai: Turns the body of OpenAI's reply into that of the protocol.

    Attributes:
        requests: Every request, in order of arrival.
        most_in_flight: Most requests that were open at the same time.
        stopped: Set when the server is to end.

    Examples:
        >>> with LoopbackServer() as server:
        ...     server.base_url.startswith("http://127.0.0.1:")
        True
    """

    reply: Callable[[Body], str | list[str] | Body] = lambda _: (
        '{"reason": "", "supported": 1, "claims": 1, "unsupported": []}'
    )
    _: KW_ONLY
    n: Support = True
    logprobs: Support = True
    json_schema: Support = True
    temperature: Support = True
    status: int = 400
    probability: float | None = 0.9
    mass: float = 0.995
    latency: float = 0.0
    faults: Callable[[int], Fault | None] | None = None
    to_openai: Callable[[Body], Body] = dict
    from_openai: Callable[[Body], Body] = dict
    requests: list[Recorded] = field(default_factory=list, init=False)
    most_in_flight: int = field(default=0, init=False)
    stopped: threading.Event = field(default_factory=threading.Event, init=False)
    _n_in_flight: int = field(default=0, init=False)  # that wait for their reply now
    _port: int | None = field(default=None, init=False)  # None while it does not run

    @property
    def base_url(self) -> str:
        """Address to give as ``api_base``.

        Raises:
            RuntimeError: If the server does not run.
        """
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
        """Serve on a port that the system chooses, until ``stopped`` is set.

        Args:
            port: Gets the port as soon as the server answers there.
        """
        # Functions of a test run in these threads, and may wait.
        pool = ThreadPoolExecutor(256, "loopback-server")
        asyncio.get_running_loop().set_default_executor(pool)
        app = web.Application(client_max_size=2**30)
        app.add_routes(self.routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        any_free_port = 0
        site = web.TCPSite(runner, "127.0.0.1", any_free_port, backlog=256)
        await site.start()
        _, chosen_port = runner.addresses[0][:2]
        port.set_result(chosen_port)
        await asyncio.to_thread(self.stopped.wait)
        await site.stop()
        for _ in range(3):  # a connection of the last moment is made, and then closed
            await asyncio.sleep(0)
        await runner.cleanup()

    def routes(self) -> list[web.RouteDef]:
        """Return what is served; the first that fits decides."""
        return [web.post("/{path:.*}", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        """Record a request, and answer it as the settings of the server say.

        A body that is no JSON counts as an empty one. Example: with a fault of status
        429 for request 0, the first request gets 429 and the second the usual reply.
        """
        try:
            body = self.to_openai(json.loads(await request.read()))
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in request.headers.items()}
        number = len(self.requests)
        self.requests.append(Recorded(request.path_qs, headers, body))
        self._n_in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._n_in_flight)
        try:
            outcome = await asyncio.to_thread(self._outcome, number, body)
        finally:
            self._n_in_flight -= 1
        sends_no_reply = outcome.reset or outcome.hang
        connection = request.transport
        if sends_no_reply and connection is not None:
            # without a word, as a server does that dies
            linger_no_time = struct.pack("ii", 1, 0)
            connection.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger_no_time
            )
            connection.abort()
        # where the connection is broken, nobody gets this
        return web.Response(
            status=outcome.status,
            text=outcome.body,
            headers={"Content-Type": "application/json", **outcome.headers},
        )

    def _outcome(self, number: int, body: Body) -> Fault:
        """Make the reply to a request: a fault, a rejection, or a completion.

        All three are given as a ``Fault``, which has the status and the body of a
        reply.
        """
        time.sleep(self.latency)
        fault = self.faults(number) if self.faults else None
        if fault is not None:
            if fault.hang:  # no reply while the server runs
                self.stopped.wait()
            if fault.body is not None:
                return fault
            return replace(fault, body=_error("It failed as told to.", fault.code))
        parameter = self.rejection(body)
        if parameter:
            message = f"Unsupported parameter: '{parameter}' is not supported."
            error = _error(message, "unsupported_parameter", parameter)
            return Fault(self.status, body=error)
        reply = self.from_openai(self.completion(body))
        return Fault(200, body=json.dumps(reply))

    def rejection(self, body: Body) -> str:
        """Return the first parameter that this server rejects; "" if there is none."""
        form = body.get("response_format") or {}
        if self.json_schema == "json_mode" and form.get("type") == "json_schema":
            return "response_format"
        for name, (setting, usual_values) in _USUAL_VALUES.items():
            is_usual = name not in body or body[name] in usual_values
            if not is_usual and getattr(self, setting) == "reject":
                return name
        return ""

    def completion(self, body: Body) -> Body:
        """Return the body of the reply to a request, in OpenAI's form.

        It has as many choices as were asked for (``{"n": 3}``), if the server supports
        that, else one.
        """
        n_choices = (body.get("n") or 1) if self.n is True else 1
        asked = body
        if self.json_schema not in (True, "json_mode"):
            asked = {**body, "response_format": None}
        reply = self.reply(asked)
        replies = reply[:n_choices] if isinstance(reply, list) else [reply] * n_choices
        choices = [
            self._choice(index, each, body) for index, each in enumerate(replies)
        ]
        prompt_tokens = _n_tokens(body.get("messages", ()))
        completion_tokens = _n_tokens(choice["message"] for choice in choices)
        return {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "loopback"),
            "choices": choices,
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        }

    def _choice(self, index: int, reply: str | Body, body: Body) -> Body:
        """Make one choice of a reply, in OpenAI's form.

        It has log-probabilities if they were asked for and the server supports them:
        ``{"index": 0, "message": …, "finish_reason": "stop", "logprobs": …}``.
        """
        if isinstance(reply, str):
            reply = {"message": {"role": "assistant", "content": reply}}
        choice: Body = {
            "index": index,
            "finish_reason": "stop",
            "logprobs": None,
            **reply,
        }
        gives_logprobs = self.logprobs is True and body.get("logprobs")
        if gives_logprobs and choice["logprobs"] is None:
            text = str(choice["message"].get("content") or "")
            content = tokens(text, self.probability, self.mass)
            choice["logprobs"] = {"content": content, "refusal": None}
        return choice


def _n_tokens(messages: Iterable[Body]) -> int:
    """Tokens of messages, nearly: one for four characters, and one more."""
    n_characters = sum(len(str(message.get("content"))) for message in messages)
    return n_characters // 4 + 1


def _error(message: str, code: str, parameter: str | None = None) -> str:
    error = {
        "message": message,
        "type": "invalid_request_error" if parameter else "error",
        "param": parameter,
        "code": code,
    }
    return json.dumps({"error": error})


def tokens(text: str, probability: float | None, mass: float) -> list[dict[str, Any]]:
    """Split a reply into tokens with log-probabilities, as OpenAI returns them.

    A token that is 0 or 1 has the other label, and "maybe", as alternatives. Example:
    with a share of .9 and a mass of .99, 1 has .891, 0 has .099 and "maybe" about .01.

    Args:
        text: The reply.
        probability: The share of label 1 in the probability of both labels. None: the
            label that the reply has gets 0.98, the other 0.02.
        mass: The probability of both labels together, such as 0.99; "maybe" has the
            rest, 0.01.
    """
    entries = []
    for token in _TOKEN.findall(text):
        probability_by_text = _alternatives(token, probability, mass)
        entry_by_text = {
            alternative: {
                "token": alternative,
                "logprob": math.log(max(chance, _RARE)),
                "bytes": list(alternative.encode()),
            }
            for alternative, chance in probability_by_text.items()
        }
        likeliest_first = sorted(
            probability_by_text, key=probability_by_text.__getitem__, reverse=True
        )
        top_entries = [entry_by_text[alternative] for alternative in likeliest_first]
        entries.append({**entry_by_text[token], "top_logprobs": top_entries})
    return entries


def _alternatives(
    token: str, probability: float | None, mass: float
) -> dict[str, float]:
    """Return the tokens that may stand in a token's place, with their probabilities."""
    label = token.strip()
    if label not in ("0", "1"):
        return {token: 1 - _RARE}
    if probability is None:
        probability = 0.98 if label == "1" else 0.02
    space = token.removesuffix(label)
    return {
        f"{space}1": mass * probability,
        f"{space}0": mass * (1 - probability),
        "maybe": (1 - mass) * 0.9,
    }
