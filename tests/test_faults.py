"""Hundreds of samples through an endpoint that fails in every way: each gets a score, none is scored twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from loopback import Fault, LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import ContextUtilization, Limits, LLMJudge, OpenAICompatibleModel, evaluate
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.endpoints.chat import ChatReply, ChatRequest

SHARES: Mapping[str, float] = {"429": 0.10, "500": 0.05, "reset": 0.03, "malformed": 0.02, "hang": 0.01}
FAULTS = {
    "429": Fault(429, {"Retry-After": "0.02"}),
    "500": Fault(500),
    "reset": Fault(reset=True),
    "malformed": Fault(200, body='{"choices": [{"mess'),
    "hang": Fault(hang=True),
}


def drawn(seed: int) -> tuple[Callable[[int], Fault | None], Counter[str]]:
    """Faults at random, at the shares above; and how many there were."""
    chance, counts = random.Random(seed), Counter[str]()
    names = [chance.choices([*SHARES, ""], [*SHARES.values(), 1 - sum(SHARES.values())])[0] for _ in range(9_999)]

    def fault(number: int) -> Fault | None:
        counts[names[number]] += 1
        return FAULTS.get(names[number])

    return fault, counts


def test_samples_are_scored_once_each_whatever_fails(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    faults, counts = drawn(7)
    server = loopback_server(faults=faults)
    rows = [{"id": str(n), "question": f"q {n}", "contexts": [f"c {n}"], "answer": "a"} for n in range(400)]
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test", timeout=1.0), attempts=12)
    seen: list[SampleResult] = []
    report = evaluate(rows, [ContextUtilization()], judge=judge, concurrency=128, progress=False)
    seen += report.results
    assert [row.sample.id for row in seen if row.sample] == [row["id"] for row in rows]
    assert {outcome.status for row in seen for outcome in row.results.values()} == {"scored"}
    survived = sum(counts[name] for name in SHARES)
    assert all(counts[name] for name in SHARES)
    assert report.usage.faults >= survived  # on a busy machine a call may take too long as well
    assert report.usage.calls == len(rows) + report.usage.faults
    assert f"Calls repeated after faults of the judge's endpoint: {report.usage.faults}." in report.table()


CONTENT: list[tuple[str, Any, str]] = [
    ("refused", {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}, "ContentRefused"),
    ("filtered", {"message": {"content": ""}, "finish_reason": "content_filter"}, "ContentRefused"),
    ("empty", "", "EmptyReply"),
    ("cut off", {"message": {"content": '{"useful": 1, "rea'}, "finish_reason": "length"}, "CutOffReply"),
    ("wrong type", '{"useful": "perhaps", "reason": "r"}', "MalformedReply"),
    ("NaN", '{"useful": NaN, "reason": "r"}', "MalformedReply"),
    ("repeated key", '{"useful": 1, "useful": 0, "reason": "r"}', "MalformedReply"),
    ("contradiction", '{"useful": 1, "reason": "r"} {"useful": 0, "reason": "r"}', "ConflictingVerdicts"),
    ("no JSON", "Yes, it is.", "MalformedReply"),
]


@pytest.mark.parametrize(("reply", "kind"), [case[1:] for case in CONTENT], ids=[case[0] for case in CONTENT])
def test_replies_that_cannot_be_used_are_typed_and_asked_again_in_the_next_run(
    reply: Any, kind: str, loopback_server: Callable[..., LoopbackServer], tmp_path: Any
) -> None:
    server = loopback_server(lambda body: reply)
    rows = [{"question": "q", "contexts": ["c"], "answer": "a"}]

    def run() -> Any:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
        report = evaluate(rows, [ContextUtilization()], judge=judge, store=tmp_path / "s.sqlite", progress=False)
        return report.results[0].results["context_utilization"]

    outcome = run()
    assert (outcome.status, outcome.error.type) == ("failed", kind)
    first = len(server.requests)
    if kind == "CutOffReply":
        assert [request.body["max_tokens"] for request in server.requests] == [1024, 4096, 4096]
    server.reply = lambda body: '{"useful": 1, "reason": "r"}'
    assert run().status == "scored"
    assert len(server.requests) == first + 1
    assert run().usage.stored == 1
    assert len(server.requests) == first + 1


# Every request that left is counted.

COUNTED: list[tuple[str, dict[str, Any]]] = [
    ("refused parameters", {"n": "reject", "logprobs": "reject", "json_schema": "reject", "temperature": "reject"}),
    ("ignored parameters", {"n": "ignore", "logprobs": "ignore"}),
    ("nothing but refusals", {"faults": lambda number: Fault(400, code="invalid_request")}),
    ("a key that is revoked", {"faults": lambda number: Fault(401) if number > 3 else None}),
    ("texts that are refused", {"faults": lambda number: Fault(403) if number % 4 == 3 else None}),
    ("an outage", {"faults": lambda number: Fault(503) if number > 5 else None}),
    ("slow replies", {"faults": lambda number: Fault(hang=True) if number % 5 == 2 else None}),
    ("every third fails", {"faults": lambda number: Fault(500) if number % 3 else None}),
    ("replies that cannot be used", {"reply": lambda body: "no JSON"}),
    ("replies that are cut off", {"reply": lambda body: {"message": {"content": "{"}, "finish_reason": "length"}}),
]


class Counting(OpenAICompatibleModel):
    """Counts the requests that leave."""

    calls = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return await super().complete(request)


@pytest.mark.parametrize("limits", [None, Limits(max_calls=9), Limits(deadline=0.6)], ids=["all", "calls", "deadline"])
@pytest.mark.parametrize(("name", "server"), COUNTED, ids=[case[0] for case in COUNTED])
def test_the_usage_counts_every_request_that_left(
    name: str, server: dict[str, Any], limits: Limits | None, loopback_server: Callable[..., LoopbackServer]
) -> None:
    endpoint = loopback_server(**{"reply": plausible_reply, **server})
    rows = [
        {"question": f"Who lit lamp {n}?", "contexts": [f"Anna lit lamp {n}."], "answer": "Anna.", "reference": "Anna."}
        for n in range(8)
    ]
    gives_up = "slow" in name or (limits is not None and limits.deadline is not None)
    model = Counting(endpoint.base_url, "test", timeout=0.3 if "slow" in name else 60.0)
    report = evaluate(rows, judge=LLMJudge(model, attempts=2), limits=limits, concurrency=4, progress=False)
    if limits is None or limits.deadline is None:  # on a busy machine a deadline may come before the first request
        assert len(endpoint.requests) > 2
    assert report.usage.calls == model.calls
    if gives_up:  # a request that is given up may not have arrived yet
        assert len(endpoint.requests) <= model.calls
    else:
        assert len(endpoint.requests) == model.calls
