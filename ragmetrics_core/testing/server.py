"""An OpenAI-compatible server on this machine, for tests without a network."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from ragmetrics_core.testing.replies import plausible_reply, tokens

Body = dict[str, Any]
Support = bool | Literal["ignore", "reject", "in_object"]


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
    """A request that the server got.

    Args:
        path: Path of the address.
        headers: Headers, names in lower case.
        body: The parsed body.
    """

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Body = field(repr=False)


class LoopbackServer:
    """An OpenAI-compatible chat endpoint on 127.0.0.1, for tests of judges.

    Args:
        reply: From the request's body to the reply's text, or to one text per choice, or to a whole choice object
            (``{"message": …, "finish_reason": …}``). By default plausible replies to every question of ours.
        n: Whether several choices per request work, are ignored, or are rejected.
        logprobs: The same for log-probabilities.
        json_schema: The same for ``response_format``; ``in_object`` takes a schema only beside the type
            ``json_object``, as the Python server of llama.cpp does.
        temperature: The same for temperatures other than 1.
        probability: p(1) at every 0/1 token, for log-probabilities; None: high for the token that is there.
        mass: Probability that the two labels cover.
        latency: Seconds before each reply.
        faults: For the number of a request, from 0, what goes wrong with it; None for nothing.

    Attributes:
        requests: Every request, in order of arrival.
        most_in_flight: Most requests that were open at the same time.

    Example:
        >>> with LoopbackServer() as server:
        ...     server.base_url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        reply: Callable[[Body], str | list[str] | Body] = plausible_reply,
        *,
        n: Support = True,
        logprobs: Support = True,
        json_schema: Support = True,
        temperature: Support = True,
        probability: float | None = 0.9,
        mass: float = 0.995,
        latency: float = 0.0,
        faults: Callable[[int], Fault | None] | None = None,
    ) -> None:
        self.requests: list[Recorded] = []
        self.most_in_flight = self._in_flight = 0
        self.reply, self.latency, self.faults = reply, latency, faults
        self.supports = {"n": n, "logprobs": logprobs, "response_format": json_schema, "temperature": temperature}
        self.probability, self.mass = probability, mass
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._http: _Server | None = None

    @property
    def base_url(self) -> str:
        """Address to give as ``api_base``.

        Raises:
            RuntimeError: If the server does not run.
        """
        if self._http is None:
            raise RuntimeError("the server does not run; use it in a with statement")
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self.stopped.clear()
        self._http = _Server(self)
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self._http is not None:
            self._http.stop()
            self._http = None

    def enter_request(self, recorded: Recorded) -> int:
        """Record a request; returns its number."""
        with self._lock:
            self.requests.append(recorded)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            return len(self.requests) - 1

    def leave_request(self) -> None:
        """Note that a request was answered."""
        with self._lock:
            self._in_flight -= 1

    def rejection(self, body: Body) -> str:
        """Name of the first parameter that this server rejects; "" if there is none."""
        if self.supports["response_format"] == "in_object":
            form = body.get("response_format") or {}
            return "response_format" if form.get("type") == "json_schema" else ""
        usual = {"n": (None, 1), "logprobs": (None, False), "response_format": (), "temperature": (None, 1)}
        asked = [name for name, values in usual.items() if name in body and body[name] not in values]
        return next((name for name in asked if self.supports[name] == "reject"), "")

    def completion(self, body: Body) -> Body:
        """The body of the reply to a request."""
        count = body.get("n") or 1 if self.supports["n"] is True else 1
        seen = body if self.supports["response_format"] in (True, "in_object") else {**body, "response_format": None}
        given = self.reply(seen)
        replies = given if isinstance(given, list) else [given] * count
        wants_tokens = bool(body.get("logprobs")) and self.supports["logprobs"] is True
        choices = [self._choice(index, reply, wants_tokens) for index, reply in enumerate(replies[:count])]
        prompt = sum(len(str(message.get("content"))) for message in body.get("messages", ())) // 4 + 1
        written = sum(len(str(choice["message"].get("content"))) for choice in choices) // 4 + 1
        return {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "loopback"),
            "choices": choices,
            "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
        }

    def _choice(self, index: int, reply: str | Body, wants_tokens: bool) -> Body:
        own = {"message": {"role": "assistant", "content": reply}} if isinstance(reply, str) else reply
        choice: Body = {"index": index, "finish_reason": "stop", "logprobs": None, **own}
        if wants_tokens and choice["logprobs"] is None:
            text = str(choice["message"].get("content") or "")
            choice["logprobs"] = {"content": tokens(text, self.probability, self.mass), "refusal": None}
        return choice


class _Server(ThreadingHTTPServer):
    """The HTTP side; one thread per connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, loopback: LoopbackServer) -> None:
        self.loopback = loopback
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, to close it at the end."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that ends."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients of tests may hang up at any time."""

    def stop(self) -> None:
        """End all connections and the server."""
        self.shutdown()
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client was faster
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Log nothing."""

    def do_POST(self) -> None:
        """Answer a chat request."""
        loopback = self.server.loopback
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(content)
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        number = loopback.enter_request(Recorded(self.path, headers, body))
        try:
            self._answer(loopback, number, body)
        finally:
            loopback.leave_request()

    def _answer(self, loopback: LoopbackServer, number: int, body: Body) -> None:
        if loopback.latency:
            time.sleep(loopback.latency)
        fault = loopback.faults(number) if loopback.faults else None
        if fault is not None:
            self._fail(fault)
        elif name := loopback.rejection(body):
            self._send(400, _error(f"Unsupported parameter: '{name}' is not supported.", "unsupported_parameter", name))
        else:
            self._send(200, json.dumps(loopback.completion(body)))

    def _fail(self, fault: Fault) -> None:
        if fault.hang:
            self.server.loopback.stopped.wait()
            self.close_connection = True
        elif fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        else:
            body = _error("The server failed as it was told to.", fault.code) if fault.body is None else fault.body
            self._send(fault.status, body, fault.headers)

    def _send(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def _error(message: str, code: str, parameter: str | None = None) -> str:
    kind = "invalid_request_error" if parameter else "error"
    return json.dumps({"error": {"message": message, "type": kind, "param": parameter, "code": code}})
