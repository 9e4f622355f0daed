"""A chat model of one's own: what it must have, what it costs, and how its faults are told."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ragmetrics_core import ContextUtilization, Limits, LLMJudge, Report, evaluate
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.endpoints.store import SqliteStore

ROWS = [{"question": f"q {number}", "contexts": ["c"], "answer": "a"} for number in range(5)]
GOOD = Choice('{"useful": 1, "reason": "r"}')
TEXT = "a secret text"


class Own(ChatModel):
    """Replies, or raises, what it is given."""

    name = "my-gateway"

    def __init__(self, given: Any = None, prices: tuple[float, float] | None = None) -> None:
        self.calls = 0
        self._given, self._prices = ChatReply((GOOD,)) if given is None else given, prices

    def prices(self) -> tuple[float, float] | None:
        return self._prices

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if isinstance(self._given, BaseException):
            raise self._given
        reply: ChatReply = self._given
        return reply


def run(model: ChatModel, **settings: Any) -> Report:
    return evaluate(ROWS, ContextUtilization(), judge=LLMJudge(model, attempts=1), progress=False, **settings)


@pytest.mark.parametrize(
    ("usage", "prices", "cost"),
    [
        (Usage(prompt_tokens=10, completion_tokens=2), (0.01, 0.1), 0.3),  # 10 × 0.01 + 2 × 0.1
        (Usage(prompt_tokens=10, completion_tokens=2, cost=None), (0.01, 0.1), 0.3),
        (Usage(prompt_tokens=10, completion_tokens=2, cost=0.5), (0.01, 0.1), 0.5),
        (Usage(prompt_tokens=10, completion_tokens=2, cost=0.5), None, 0.5),
        (Usage(prompt_tokens=10, completion_tokens=2), (0.0, 0.0), 0.0),
        (Usage(), (0.0, 0.0), 0.0),
        (Usage(), (0.01, 0.1), None),
        (Usage(prompt_tokens=10, completion_tokens=2), None, None),
        (Usage(), None, None),
    ],
)
def test_what_a_call_costs(usage: Usage, prices: tuple[float, float] | None, cost: float | None) -> None:
    model = Own(ChatReply((GOOD,), usage), prices)
    assert run(model).usage.cost == (None if cost is None else pytest.approx(5 * cost))


def test_a_cap_on_money_holds_by_its_prices() -> None:
    model = Own(ChatReply((GOOD,), Usage(prompt_tokens=10, completion_tokens=2)), (0.01, 0.1))
    report = run(model, limits=Limits(max_cost=0.7))
    assert model.calls == 2
    assert "max_cost=0.7 was reached, after 2 calls and $0.6000" in report.run.stopped


def test_a_cap_on_money_without_a_price_ends_after_one_call() -> None:
    model = Own()
    assert "the price of the judge's model is not known" in run(model, limits=Limits(max_cost=1.0)).run.stopped
    assert model.calls == 1


def test_two_endpoints_of_a_class_share_no_stored_replies(tmp_path: Any) -> None:
    store = SqliteStore(tmp_path / "replies.sqlite")
    one, other = Own(), Own(ChatReply((Choice('{"useful": 0, "reason": "r"}'),)))
    scores = [run(model, store=store).scores("context_utilization") for model in (one, other)]
    assert scores == [[1.0] * 5, [0.0] * 5]
    judge = LLMJudge(Own())
    for _ in range(2):
        evaluate(ROWS, ContextUtilization(), judge=judge, store=store, progress=False)
    assert isinstance(judge.model, Own)
    assert judge.model.calls == 5  # kept for the process


class Keyed(Own):
    cache_key = "http://127.0.0.1/a"


def test_with_a_key_its_replies_are_stored(tmp_path: Any) -> None:
    models = [Keyed(), Keyed()]
    for model in models:
        run(model, store=SqliteStore(tmp_path / "replies.sqlite"))
    assert [model.calls for model in models] == [5, 0]


class Nameless(ChatModel):
    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


class Mute(ChatModel):
    name = "mute"


class Blocking(ChatModel):
    name = "blocking"

    def complete(self, request: ChatRequest) -> ChatReply:  # type: ignore[override]
        return ChatReply((GOOD,))


class Duck:
    name = "duck"

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Nameless(), "Nameless has no name"),
        (Mute(), "Mute has no method complete"),
        (Blocking(), "complete that is no 'async def'"),
        (Duck(), "Duck must inherit from ChatModel"),
        (Own, "Own is a class"),
        ("gpt-4o-mini", "str must inherit"),
    ],
)
def test_what_a_model_lacks_is_said_when_the_judge_is_made(model: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        LLMJudge(model)


class Enough(ChatModel):
    name = "enough"

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


def test_a_name_and_complete_are_enough() -> None:
    assert run(Enough()).scores("context_utilization") == [1.0] * 5


def responded(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:9")
    return httpx.HTTPStatusError(TEXT, request=request, response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ('{"useful": 1}', "JudgeError"),
        ({"choices": []}, "JudgeError"),
        (ChatReply(GOOD), "JudgeError"),  # type: ignore[arg-type]  # as without the comma of a tuple
        (ChatReply((GOOD.text,)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice(None),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice("x", "max_tokens"),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice("x", tokens=("x",)),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), None), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(prompt_tokens=None)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(cost="0.1")), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(cost=float("nan"))), "JudgeError"),
        (ChatReply(()), "EmptyReply"),
        (KeyError(TEXT), "JudgeError"),
        (RuntimeError(TEXT), "JudgeError"),
        (StopIteration(TEXT), "JudgeError"),
        (SystemExit(TEXT), "JudgeError"),
        (NotImplementedError(TEXT), "UnsupportedParameter"),
        (TimeoutError(TEXT), "JudgeTimeout"),
        (httpx.ReadTimeout(TEXT), "JudgeTimeout"),
        (responded(400), "RequestRejected"),
        (responded(429), "RateLimited"),
        (responded(500), "JudgeServerError"),
    ],
)
def test_what_goes_wrong_in_a_model_is_typed_and_names_it(given: Any, kind: str) -> None:
    report = run(Own(given))
    results = [row.results["context_utilization"] for row in report.results]
    assert {result.error.type for result in results if result.status == "failed"} == {kind}
    assert len([result for result in results if result.status == "failed"]) == 5
    assert kind == "EmptyReply" or "my-gateway" in results[0].reason
    assert TEXT not in results[0].model_dump_json()


class Unready(Own):
    async def prepare(self) -> None:
        raise LookupError(TEXT)


def test_what_goes_wrong_before_the_first_call_is_typed_too() -> None:
    result = ContextUtilization().score(**ROWS[0], judge=LLMJudge(Unready()))
    assert result.error is not None
    assert result.error.type == "JudgeError"
    assert "my-gateway could not answer: its client raised LookupError in prepare" in result.reason
