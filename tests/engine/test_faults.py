"""Hundreds of samples through an endpoint that fails in every way: each gets a score, none is scored twice."""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

import pytest
from chat_models import PolledModel
from interrupts import interruptible
from lanes import crossed
from loopback import Fault, LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import (
    ContextUtilization,
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Question,
    evaluate,
    iter_results,
)
from ragmetrics_core.data.errors import JudgeUnavailable
from ragmetrics_core.data.replies import Answer, Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.progress import Progress
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import (
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.reporting.report import Report

VERDICT = '{"useful": 1, "reason": "r"}'
SHARES: Mapping[str, float] = {
    "429": 0.10,
    "500": 0.05,
    "reset": 0.03,
    "malformed": 0.02,
    "hang": 0.01,
}
FAULTS = {
    "429": Fault(429, {"Retry-After": "0.02"}),
    "500": Fault(500),
    "reset": Fault(reset=True),
    "malformed": Fault(200, body='{"choices": [{"mess'),
    "hang": Fault(hang=True),
}


def judged_at(server: LoopbackServer) -> Report:
    """One row, judged by a model at the server."""
    return evaluate(
        [{"question": "q", "contexts": ["c"], "answer": "a"}],
        "utilization",
        judge=LLMJudge(OpenAICompatibleModel(server.base_url, "m")),
    )


def drawn(seed: int) -> tuple[Callable[[int], Fault | None], Counter[str]]:
    """Faults at random, at the shares above; and how many there were."""
    chance, counts = random.Random(seed), Counter[str]()
    names = [
        chance.choices([*SHARES, ""], [*SHARES.values(), 1 - sum(SHARES.values())])[0]
        for _ in range(9_999)
    ]

    def fault(number: int) -> Fault | None:
        counts[names[number]] += 1
        return FAULTS.get(names[number])

    return fault, counts


@pytest.mark.nightly
def test_samples_are_scored_once_each_whatever_fails(loopback_server):
    faults, counts = drawn(7)
    server = loopback_server(lambda _: VERDICT, faults=faults)
    rows = [
        {"id": str(n), "question": f"q {n}", "contexts": [f"c {n}"], "answer": "a"}
        for n in range(160)
    ]
    judge = LLMJudge(
        OpenAICompatibleModel(server.base_url, "test", timeout=1.0), attempts=12
    )
    seen: list[SampleResult] = []
    report = evaluate(rows, [ContextUtilization()], judge=judge, concurrency=32)
    seen += report.results
    assert [row.sample.id for row in seen if row.sample] == [row["id"] for row in rows]
    assert {outcome.status for row in seen for outcome in row.results.values()} == {
        "scored"
    }
    survived = sum(counts[name] for name in SHARES)
    assert all(counts[name] for name in SHARES)
    # on a busy machine a call may take too long as well
    assert report.usage.faults >= survived
    assert report.usage.calls == len(rows) + report.usage.faults
    assert (
        f"Calls repeated after faults of the judge's endpoint: {report.usage.faults}."
        in report.table()
    )


CONTENT: list[tuple[str, Any, str]] = [
    (
        "refused",
        {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"},
        "ContentRefused",
    ),
    (
        "refused beside a verdict",
        {"message": {"content": '{"useful": 1, "reason": "r"}', "refusal": "No."}},
        "ContentRefused",
    ),
    (
        "filtered",
        {"message": {"content": ""}, "finish_reason": "content_filter"},
        "ContentRefused",
    ),
    ("empty", "", "UnusableReply"),
    (
        "cut off",
        {"message": {"content": '{"useful": 1, "rea'}, "finish_reason": "length"},
        "UnusableReply",
    ),
    ("wrong type", '{"useful": "perhaps", "reason": "r"}', "UnusableReply"),
    ("NaN", '{"useful": NaN, "reason": "r"}', "UnusableReply"),
    ("repeated key", '{"useful": 1, "useful": 0, "reason": "r"}', "UnusableReply"),
    (
        "contradiction",
        '{"useful": 1, "reason": "r"} {"useful": 0, "reason": "r"}',
        "UnusableReply",
    ),
    ("no JSON", "Yes, it is.", "UnusableReply"),
]


@pytest.mark.parametrize(
    ("reply", "kind"), [case[1:] for case in CONTENT], ids=[case[0] for case in CONTENT]
)
def test_replies_that_cannot_be_used_are_typed_and_asked_again_in_the_next_run(
    reply, kind, loopback_server, tmp_path
):
    server = loopback_server(lambda body: reply)
    rows = [{"question": "q", "contexts": ["c"], "answer": "a"}]

    def run() -> Any:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
        report = evaluate(
            rows, [ContextUtilization()], judge=judge, store=tmp_path / "s.sqlite"
        )
        return report.results[0].results["context_utilization"]

    outcome = run()
    assert (outcome.status, outcome.error.type) == ("failed", kind)
    first = len(server.requests)
    if isinstance(reply, dict) and reply.get("finish_reason") == "length":
        assert [request.body["max_tokens"] for request in server.requests] == [
            1024,
            4096,
        ]
    server.reply = lambda body: '{"useful": 1, "reason": "r"}'
    assert run().status == "scored"
    assert len(server.requests) == first + 1
    assert run().usage.stored == 1
    assert len(server.requests) == first + 1


# An error that comes as a success is what it says.

ERRORS: dict[str, tuple[Any, str]] = {
    "a key, by its status": (
        {"error": {"message": "No auth credentials found", "code": 401}},
        "AuthenticationFailed",
    ),
    "a key, by its status as a text": (
        {"error": {"message": "No", "code": "401"}},
        "AuthenticationFailed",
    ),
    "a quota, by its status": (
        {"error": {"message": "Buy more", "code": 402}, "choices": []},
        "JudgeUnavailable",
    ),
    "a model": ({"error": {"message": "None", "code": 404}}, "JudgeUnavailable"),
    "a rate": ({"error": {"message": "Slowly", "code": 429}}, "RateLimited"),
    "a failure": ({"error": {"message": "Down", "code": 502}}, "TransientJudgeError"),
    "a request": ({"error": {"message": "No", "code": 400}}, "RequestRejected"),
    "no status": (
        {"error": {"message": "Sorry", "code": "odd"}},
        "TransientJudgeError",
    ),
    "an error beside replies": (
        {"error": None, "choices": [{"message": {"content": VERDICT}}]},
        "",
    ),
}


@pytest.mark.parametrize(("body", "kind"), ERRORS.values(), ids=ERRORS)
def test_an_error_that_comes_as_a_success_is_what_it_says(body, kind, loopback_server):
    server = loopback_server(faults=lambda number: Fault(200, body=json.dumps(body)))
    model = OpenAICompatibleModel(server.base_url, "m", api_key="k")
    rows = [{"question": "q", "contexts": ["c"], "answer": "a"}] * 3
    judge = LLMJudge(model, attempts=2)
    if kind in ("AuthenticationFailed", "JudgeUnavailable", "JudgeUnavailable"):
        with pytest.raises(JudgeUnavailable) as caught:
            evaluate(rows, "utilization", judge=judge)
        assert type(caught.value).__name__ == kind
        assert len(server.requests) == 1  # the others do not pay for it
        return
    outcome = (
        evaluate(rows, "utilization", judge=judge)
        .results[0]
        .results["context_utilization"]
    )
    assert outcome.status == ("failed" if kind else "scored")
    assert not kind or outcome.error.type == kind


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "No."}]},
    {"type": "text", "text": VERDICT},
]


def test_a_reply_in_parts_is_read_without_the_reasoning(loopback_server):
    body = json.dumps(
        {"choices": [{"message": {"content": PARTS}, "finish_reason": "stop"}]}
    )
    server = loopback_server(faults=lambda number: Fault(200, body=body))
    report = judged_at(server)
    assert report.scores("utilization") == [1.0]
    assert len(server.requests) == 1


def test_a_request_larger_than_a_limit_per_minute_is_not_repeated(loopback_server):
    """It never passes; OpenAI tells it as a rate that is exceeded."""
    told = (
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM):"
        " Limit 30000, Requested 41233."
    )
    body = json.dumps(
        {"error": {"message": told, "type": "tokens", "code": "rate_limit_exceeded"}}
    )
    server = loopback_server(faults=lambda number: Fault(429, body=body))
    report = judged_at(server)
    error = report.results[0].results["context_utilization"].error
    assert error.type == "ContextWindowExceeded"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "it answered none of the last"),
        (402, "the quota or budget for"),  # the first says so for all
        (404, "it answered none of the last"),
    ],
)
def test_a_stream_reads_on_no_further_than_its_endpoint_answers(
    status, words, loopback_server
):
    endpoint = loopback_server(
        reply=plausible_reply,
        faults=lambda number: Fault(status) if number >= 4 else None,
    )
    n_read = 0

    def application() -> Iterator[dict[str, Any]]:
        nonlocal n_read
        for n in range(500):
            n_read += 1  # as an answer of the user's application
            yield {"question": f"q{n}", "contexts": [f"text {n}"], "answer": "a"}

    model = OpenAICompatibleModel(endpoint.base_url, "test")
    rows: list[SampleResult] = []
    with pytest.raises(JudgeUnavailable, match=words):
        rows.extend(
            iter_results(application(), "adherence", judge=model, concurrency=2)
        )
    outcomes = [row.results["context_adherence"] for row in rows]
    assert sum(outcome.status == "scored" for outcome in outcomes) > 0
    assert all(outcome.usage.calls for outcome in outcomes), "only what was asked"
    assert n_read < 60


# Every request that left is counted.

COUNTED: dict[str, dict[str, Any]] = {
    "refused parameters": {
        "n": "reject",
        "logprobs": "reject",
        "json_schema": "reject",
        "temperature": "reject",
    },
    "ignored parameters": {"n": "ignore", "logprobs": "ignore"},
    "refusals after an answer": {
        "faults": lambda number: Fault(400, code="invalid_request") if number else None
    },
    "a key that is revoked": {
        "faults": lambda number: Fault(401) if number > 3 else None
    },
    "texts that are refused": {
        "faults": lambda number: Fault(403) if number % 4 == 3 else None
    },
    "an outage": {"faults": lambda number: Fault(503) if number > 5 else None},
    "slow replies": {
        "faults": lambda number: Fault(hang=True) if number % 5 == 2 else None
    },
    "every third fails": {"faults": lambda number: Fault(500) if number % 3 else None},
    "replies that cannot be used": {"reply": lambda body: "no JSON"},
    "replies that are cut off": {
        "reply": lambda body: {
            "message": {"content": "{"},
            "finish_reason": "length",
        }
    },
}


class Counting(OpenAICompatibleModel):
    """Counts the requests that leave."""

    calls = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return await super().complete(request)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "limits"),
    crossed(list(COUNTED), [None, Limits(max_calls=9), Limits(deadline=0.6)]),
)
def test_the_usage_counts_every_request_that_left(name, limits, loopback_server):
    endpoint = loopback_server(**{"reply": plausible_reply, **COUNTED[name]})
    rows = [
        {
            "question": f"Who lit lamp {n}?",
            "contexts": [f"Anna lit lamp {n}."],
            "answer": "Anna.",
            "reference": "Anna.",
        }
        for n in range(8)
    ]
    gives_up = "slow" in name or (limits is not None and limits.deadline is not None)
    model = Counting(endpoint.base_url, "test", timeout=0.3 if "slow" in name else 60.0)
    report = evaluate(
        rows, judge=LLMJudge(model, attempts=2), limits=limits, concurrency=4
    )
    # on a busy machine a deadline may come before the first request
    if limits is None or limits.deadline is None:
        assert len(endpoint.requests) > 2
    if gives_up:  # of the calls in flight some may not have begun, or not arrived yet
        n_in_flight = 4
        assert model.calls <= report.usage.calls <= model.calls + n_in_flight
        assert len(endpoint.requests) <= model.calls
    else:
        assert report.usage.calls == model.calls
        assert len(endpoint.requests) == model.calls


# Also those of questions that are cut off while their judge is still at work, however
# the run ends.


class Toy(PolledModel):
    """Answers at once, and counts its calls.

    From one of them on it does something else.
    """

    name = "toy"
    address = ""

    def __init__(
        self,
        *,
        at: int,
        then: Callable[[], None],
        text: str = '{"useful": 1, "reason": "r"}',
    ) -> None:
        self.calls, self._at, self._then, self._text = 0, at, then, text

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self.calls == self._at:
            self._then()
        await asyncio.sleep(0)  # as a call that waits for its reply
        return ChatReply(
            (Choice(self._text),),
            Usage(calls=1, prompt_tokens=7, completion_tokens=3, cost=0.5),
        )


class Wrapping(Judge):
    """A judge of a user's own, which asks another one and then does something else."""

    name = "wrapping"

    def __init__(self, judge: Judge, *, then: str) -> None:
        self._judge, self._then = judge, then
        self.models = judge.models

    def session(self, **settings: Any) -> Judge:
        mine = copy(self)
        mine._judge = self._judge.session(**settings)
        return mine

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        answer = await self._judge.answer(question)
        if self._then == "waits":
            await asyncio.Event().wait()
        elif self._then == "crashes":
            raise ZeroDivisionError
        return answer


def hold_the_loop() -> None:
    """Keep the loop of all judges busy beyond the deadline, and beyond what a judge has to settle."""
    ends = time.monotonic() + 0.5
    while time.monotonic() < ends:
        pass


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def nothing() -> None:
    """Go on."""


CUT: dict[str, tuple[Callable[[], None], str, Limits | None, str]] = {
    "deadline while the judge works": (
        nothing,
        "waits",
        Limits(deadline=0.3),
        "the deadline of 0.3 s",
    ),
    "deadline while the loop is busy": (
        hold_the_loop,
        "answers",
        Limits(deadline=0.3),
        "the deadline of 0.3 s",
    ),
    "Ctrl-C while the judge works": (press_ctrl_c, "waits", None, "it was interrupted"),
    "Ctrl-C while calls are in flight": (
        press_ctrl_c,
        "answers",
        None,
        "it was interrupted",
    ),
    "a cap while the judge works": (
        nothing,
        "answers",
        Limits(max_calls=6),
        "max_calls=6",
    ),
    "a judge that crashes": (nothing, "crashes", None, ""),
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "text"),
    crossed(list(CUT), ['{"useful": 1, "reason": "r"}', "no JSON"]),
)
def test_what_a_question_cost_that_was_cut_off_is_told(name, text, tmp_path):
    at_the_fourth, then, limits, stopped = CUT[name]
    model = Toy(at=4, then=at_the_fourth, text=text)
    rows = [
        {"question": "q", "contexts": [f"c {n}", f"d {n}"], "answer": f"a {n}"}
        for n in range(40)
    ]
    progress: list[Progress] = []
    with interruptible():
        report = evaluate(
            rows,
            "utilization",
            judge=Wrapping(LLMJudge(model), then=then),
            limits=limits,
            concurrency=1,
            progress=lambda now: progress.append(copy(now)),
        )
    assert report.run.stopped.startswith(stopped)
    assert report.run.interrupted == ("interrupted" in stopped)
    # on a busy machine a deadline may come before the first call
    if limits is None or limits.deadline is None:
        assert model.calls >= 4
    # one that is given up before its thread took it was counted as sent
    n_calls = report.usage.calls
    assert model.calls <= n_calls <= model.calls + (report.run.stopped != "")
    # a call that is given up has no reply to say what it cost
    most_given_up = 0 if at_the_fourth is nothing else 1
    n_told = report.usage.prompt_tokens // 7
    assert model.calls - most_given_up <= n_told <= model.calls
    assert report.usage.prompt_tokens == 7 * n_told
    assert report.usage.cost == 0.5 * n_told
    if "reached" in report.run.stopped:  # it counts what it counts
        money = f" and ${0.5 * n_told:.4f}" if n_told else ""
        reason, _, _ = report.run.stopped.partition(";")
        assert reason.endswith(f", after {n_calls} calls{money}")
    last = progress[-1] if progress else Progress(None)
    assert (last.calls, last.cost) == (report.usage.calls, report.usage.cost)
    report.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl").usage == report.usage


@pytest.mark.parametrize("status", [408, 409, 425])
def test_a_conflict_and_what_came_too_early_are_asked_again(loopback_server, status):
    body = json.dumps(
        {"choices": [{"message": {"content": VERDICT}, "finish_reason": "stop"}]}
    )
    server = loopback_server(
        faults=lambda number: Fault(200, body=body) if number else Fault(status)
    )
    report = judged_at(server)
    assert len(server.requests) == 2
    assert report.scores("utilization") == [1.0]


@pytest.mark.parametrize("status", [None, 500, 429])
def test_a_limit_that_ends_a_run_says_what_calls_failed_with(status):
    def fault(number: int) -> Fault | None:
        return Fault(status, {"Retry-After": "60"}) if status else None

    with LoopbackServer(faults=fault) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        report = evaluate(
            [{"question": q, "contexts": ["x"], "answer": "x"} for q in "abcd"],
            "adherence",
            judge=judge,
            limits=Limits(max_calls=1, deadline=2),
            concurrency=1,
            progress=False,
        )
    told = report.run.stopped.partition("the last that failed: ")[2]
    assert report.run.stopped
    assert (f"HTTP {status}" in told) == bool(status)
