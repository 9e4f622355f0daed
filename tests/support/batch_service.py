"""A loopback service that takes batches, with the field names of OpenAI's reference of files and batches."""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import web
from loopback import Body, LoopbackServer

_PAGE = 2  # most batches of one page, however many are asked for
_STEPS = ("validating", "in_progress", "finalizing")
Handled = tuple[int, Any]  # status, and JSON or bytes


class BatchService(LoopbackServer):
    """An OpenAI-compatible endpoint with ``/v1/files`` and ``/v1/batches``.

    Each look at a batch moves it on a step.

    Args:
        ends: From the number of a batch, from 0, to the status it ends with.
        share: Of its requests, how many a batch executes that expires or is cancelled.
        wrong: From a request's body to a status and an error code, where it is to fail.
        steps: Looks at a batch before it ends.
        silent: From a request's body to whether it is never answered, in neither file.
        answers: From the lines of a batch's answers to those that are told.
        described: What is said of each batch in place of what is so.
        most: Most requests of a batch.
        key: The one that is taken; "" for any.
        around: Told of each call before and after it is carried out: its name, the key,
            ``before`` or ``after``.

    Attributes:
        batches: Every batch, in order.
        files: Contents by name.
        unreadable: What the next looks at a file's content get instead.
        refused: Statuses that the next uploads get.
        busy: Statuses that the next calls that would make a batch get.
        executed: How often each request was executed, by its name.
    """

    def __init__(
        self,
        reply: Callable[[Body], Any],
        *,
        ends: Callable[[int], str] = lambda _: "completed",
        share: float = 0.5,
        wrong: Callable[[Body], tuple[int, str] | None] = lambda _: None,
        steps: int = 3,
        silent: Callable[[Body], bool] = lambda _: False,
        answers: Callable[[list[Body]], list[Body]] = lambda lines: lines,
        described: Body | None = None,
        most: int = 50_000,
        key: str = "",
        around: Callable[[str, str, str], None] = lambda *_: None,
        **settings: Any,
    ) -> None:
        super().__init__(reply, **settings)
        self.ends, self.share, self.wrong, self.steps, self.most = (
            ends,
            share,
            wrong,
            steps,
            most,
        )
        self.key, self.around = key, around
        self.silent, self.answers, self.described = silent, answers, described or {}
        self.unreadable: list[Handled] = []
        self.refused: list[int] = []
        self.busy: list[int] = []
        self.batches: list[Body] = []
        self.files: dict[str, bytes] = {}
        self.executed: Counter[str] = Counter()

    def routes(self) -> list[web.RouteDef]:
        """Files and batches before the chat."""
        own = [
            web.post("/v1/files", self._around("upload", self._upload)),
            web.get("/v1/files/{id}/content", self._around("content", self._content)),
            web.post("/v1/batches", self._around("create", self._create)),
            web.get("/v1/batches", self._around("list", self._list)),
            web.get("/v1/batches/{id}", self._around("retrieve", self._retrieve)),
            web.post("/v1/batches/{id}/cancel", self._around("cancel", self._cancel)),
        ]
        return [*own, *super().routes()]

    def _around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        async def handle(request: web.Request) -> web.Response:
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            self.around(name, key, "before")
            if self.key and key != self.key:
                return web.json_response(
                    {"error": {"code": "invalid_api_key"}}, status=401
                )
            try:
                status, body = await work(request)
            except ConnectionResetError:  # the caller was killed
                return web.Response(status=500)
            self.around(name, key, "after")
            return web.Response(
                status=status,
                body=body if isinstance(body, bytes) else json.dumps(body).encode(),
            )

        return handle

    def _new_file(self, content: bytes, purpose: str) -> Body:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": 0,
            "purpose": purpose,
        }

    async def _upload(self, request: web.Request) -> Handled:
        form = await request.post()
        assert form["purpose"] == "batch"
        if self.refused:
            return self.refused.pop(), {"error": {"code": "rate_limit_exceeded"}}
        return 200, self._new_file(form["file"].file.read(), "batch")  # type: ignore[union-attr]

    async def _content(self, request: web.Request) -> Handled:
        content = self.files.get(request.match_info["id"])
        if self.unreadable:
            status, instead = self.unreadable.pop()
            return status, (
                content.splitlines(keepends=True)[0]
                if content and instead == "cut"
                else instead
            )
        return (
            (404, {"error": {"code": "not_found"}})
            if content is None
            else (200, content)
        )

    async def _create(self, request: web.Request) -> Handled:
        asked = await request.json()
        assert (asked["endpoint"], asked["completion_window"]) == (
            "/v1/chat/completions",
            "24h",
        )
        assert asked["input_file_id"] in self.files
        if self.busy:
            return self.busy.pop(), {"error": {"code": "server_error"}}
        number = len(self.batches)
        batch = {
            "id": f"batch_{number}",
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": "24h",
            "status": _STEPS[0],
            "output_file_id": None,
            "error_file_id": None,
            "created_at": number,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": asked.get("metadata"),
        }
        self.batches.append({**batch, "looks": 0})
        return 200, batch

    async def _list(self, request: web.Request) -> Handled:
        names = [batch["id"] for batch in reversed(self.batches)]
        start = names.index(after) + 1 if (after := request.query.get("after")) else 0
        size = min(int(request.query["limit"]), _PAGE)
        page = [
            {**self.batches[int(name.split("_")[1])]}
            for name in names[start : start + size]
        ]
        return 200, {
            "object": "list",
            "data": page,
            "has_more": start + size < len(names),
        }

    async def _retrieve(self, request: web.Request) -> Handled:
        batch = self._named(request)
        if batch is None:
            return 404, {"error": {"code": "not_found"}}
        batch["looks"] += 1
        if batch["status"] in _STEPS:
            step = batch["looks"] * len(_STEPS) // max(1, self.steps)
            if batch["looks"] > self.steps:
                batch.update(
                    self._end(self.batches.index(batch), batch["input_file_id"])
                )
            else:
                batch["status"] = _STEPS[min(step, len(_STEPS) - 1)]
        elif batch["status"] == "cancelling":
            batch.update(
                self._end(
                    self.batches.index(batch), batch["input_file_id"], "cancelled"
                )
            )
        return 200, {**batch, **self.described}

    async def _cancel(self, request: web.Request) -> Handled:
        batch = self._named(request)
        batch["status"] = "cancelling"
        return 200, batch

    def _named(self, request: web.Request) -> Body | None:
        return next(
            (
                batch
                for batch in self.batches
                if batch["id"] == request.match_info["id"]
            ),
            None,
        )

    # What becomes of a batch.

    def _end(self, number: int, file: str, status: str = "") -> Body:
        lines = [json.loads(line) for line in self.files[file].splitlines()]
        status = status or self.ends(number)
        if problem := self._problem(lines):
            status = "failed"
        if status == "failed":
            first = {
                "code": problem or "invalid_json_line",
                "message": f"Wrong: {lines[0]}",
                "line": 1,
            }
            return {"status": status, "errors": {"object": "list", "data": [first]}}
        reached = len(lines) if status == "completed" else int(len(lines) * self.share)
        good, bad = self._executed(lines[:reached]), list[Body]()
        code = "batch_expired" if status == "expired" else "batch_cancelled"
        bad = [it for it in good if it["response"]["status_code"] != 200]
        good = [it for it in good if it["response"]["status_code"] == 200]
        counts = {
            "total": len(lines),
            "completed": len(good),
            "failed": len(lines) - len(good),
        }
        bad += [
            self._line(it["custom_id"], None, {"code": code, "message": "too late"})
            for it in lines[reached:]
        ]
        found: Body = {"status": status, "request_counts": counts}
        for name, listed in (
            ("output_file_id", self.answers(good)),
            ("error_file_id", bad),
        ):
            random.Random(number).shuffle(listed)
            text = b"".join(json.dumps(line).encode() + b"\n" for line in listed)
            found[name] = self._new_file(text, "batch_output")["id"] if listed else None
        return found

    def _problem(self, lines: list[Body]) -> str:
        """Why a file is refused; "" if it is not."""
        if len(lines) > self.most:
            return "too_many_requests"
        if len({line["custom_id"] for line in lines}) < len(lines):
            return "duplicate_custom_id"
        if any(
            (line["method"], line["url"]) != ("POST", "/v1/chat/completions")
            for line in lines
        ):
            return "invalid_url"
        return (
            "mismatched_model"
            if len({line["body"]["model"] for line in lines}) > 1
            else ""
        )

    def _executed(self, lines: list[Body]) -> list[Body]:
        done = [self._line("nobody-asked-this", (200, {"choices": []}))]
        for line in lines:
            body, name = line["body"], line["custom_id"]
            self.executed[name] += 1
            if self.silent(body):
                continue
            if found := self.wrong(body):
                done.append(
                    self._line(
                        name,
                        (
                            found[0],
                            {
                                "error": {
                                    "code": found[1],
                                    "message": "It failed at lamp 3.",
                                }
                            },
                        ),
                    )
                )
            elif parameter := self.rejection(body):
                told = {
                    "message": f"Unsupported parameter: '{parameter}'",
                    "param": parameter,
                }
                done.append(
                    self._line(
                        name,
                        (400, {"error": {"code": "unsupported_parameter", **told}}),
                    )
                )
            else:
                done.append(self._line(name, (200, self.completion(body))))
        return done

    def _line(
        self, name: str, response: tuple[int, Body] | None, error: Body | None = None
    ) -> Body:
        told = response and {
            "status_code": response[0],
            "request_id": "req_0",
            "body": response[1],
        }
        return {
            "id": "batch_req_0",
            "custom_id": name,
            "response": told,
            "error": error,
        }
