"""The cap on money where calls differ in price: what may be sent beside what is in flight, and when a run ends."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from chat_models import PolledModel
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import ContextUtilization, Limits, LLMJudge, evaluate
from ragmetrics_core.data.errors import LimitReached, TransientJudgeError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
)
from ragmetrics_core.models.endpoint_errors import Fault, judge_error
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.openai_form import add_price, chat_reply, reply_of
from ragmetrics_core.models.session import Session

ROUNDING = 1e-9
OPENING = ChatRequest((Message("user", "of an earlier run"),))
ROWS = [
    {"question": f"q {number}", "contexts": ["a", "b", "c"], "answer": "a"}
    for number in range(40)
]


class Shop(PolledModel):
    """A model whose calls have prices, one after the other and from the start again.

    None is a call that fails.

    Attributes:
        open: Calls in flight.
        most: Most calls in flight.
        spent: US dollars for the calls that ended.
        dearest: The dearest of them; None before the first.
        promised: For each call, what it and those in flight with it would bring the
            bill to, each as dear as the dearest so far; infinite for a call beside
            others while no price is known.
        above: How much dearer than that the calls in flight when the last was sent
            turned out, all together.
    """

    name = "shop"

    def __init__(self, prices: Sequence[float | None], turns: Sequence[int]) -> None:
        self.open: list[float] = []
        self.most = 0
        self.spent = 0.0
        self.dearest: float | None = None
        self.promised: list[float] = []
        self.above = 0.0
        self._prices = prices
        self._turns = turns

    def prices(self) -> tuple[float, float]:
        return (0.0, 0.0)  # so that calls of no cost are free

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request == OPENING:
            return ChatReply((Choice("free"),), Usage(calls=1, cost=0.0))
        number = len(self.promised)
        price = self._prices[number % len(self._prices)]
        self.open.append(price or 0.0)
        self.most = max(self.most, len(self.open))
        unknown = 0.0 if len(self.open) == 1 else float("inf")
        self.promised.append(
            unknown
            if self.dearest is None
            else self.spent + len(self.open) * self.dearest
        )
        self.above = sum(max(cost - (self.dearest or 0.0), 0.0) for cost in self.open)
        await asyncio.sleep(self._turns[number % len(self._turns)] / 1000)
        self.open.remove(price or 0.0)
        if price is None:
            raise TransientJudgeError("down")
        self.spent += price
        self.dearest = max(self.dearest or 0.0, price)
        return ChatReply(
            (Choice('{"useful": 1, "reason": "r"}'),), Usage(calls=1, cost=price)
        )


def bought(
    shop: Shop, limits: Limits, concurrency: int, calls: int, *, opened: bool = False
) -> Budget:
    """Make that many calls, as far as the limits allow them.

    Args:
        opened: Whether an earlier run of the session got through.
    """

    async def run() -> Budget:
        session, budget = Session(shop, attempts=1), Budget(limits)
        await session.prepare()
        if opened:
            await session.during(store=None, concurrency=1).ask(OPENING, str)
        this = session.during(store=None, concurrency=concurrency, budget=budget)
        asked = (
            this.ask(ChatRequest((Message("user", str(number)),)), str)
            for number in range(calls)
        )
        answers = await asyncio.wait_for(asyncio.gather(*asked), 60)
        assert {type(outcome) for answer in answers for outcome in answer.outcomes} <= {
            str,
            TransientJudgeError,
            LimitReached,
        }
        return budget

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("turns", "prices"),
    [((20,), (0.01, 0.05, 0.2)), ((30, 2, 2, 12), (0.2, 0.01, 0.05))],
)
def test_what_is_in_flight_together_fits_by_the_dearest_so_far(prices, turns):
    cap = 3.0
    shop = Shop(prices, turns)
    report = evaluate(
        ROWS,
        [ContextUtilization()],
        judge=LLMJudge(shop),
        limits=Limits(max_cost=cap),
        concurrency=4,
    )
    assert shop.most > 1
    assert max(shop.promised) <= cap
    assert shop.spent <= cap  # by then the dearest was known
    assert shop.spent + 0.2 > cap
    assert (
        f"max_cost=3 was reached, after {len(shop.promised)} calls"
        in report.run.stopped
    )


def test_a_price_never_seen_before_may_exceed_the_cap_by_what_it_is_dearer():
    """Nobody knows it before: it is sent where one more at 0.01 would fit."""
    shop = Shop((0.01, 0.01, 0.01, 0.01, 0.2, 0.01), (1,))
    bought(shop, Limits(max_cost=0.055), 4, 99)
    assert len(shop.promised) == 5
    assert shop.spent == pytest.approx(0.24)
    assert shop.spent <= 0.055 + shop.above


@pytest.mark.parametrize("opened", [False, True])
def test_until_a_price_is_known_calls_go_one_by_one(opened):
    """Also where an earlier run has opened the gate, and where the first calls fail."""
    shop = Shop((None, None, 0.2, *(0.01,) * 20), (4,))
    bought(shop, Limits(max_cost=0.3), 8, 99, opened=opened)
    assert shop.promised[:3] == [0.0] * 3
    assert max(shop.promised) <= 0.3
    assert shop.most == 1  # 0.2 + 0.2 is above the cap


def test_a_second_run_of_a_judge_starts_with_one_call():
    shop = Shop((0.2,), (4,))
    judge = LLMJudge(shop)
    for _ in range(2):
        shop.spent, shop.dearest = 0.0, None
        evaluate(
            ROWS,
            [ContextUtilization()],
            judge=judge,
            limits=Limits(max_cost=0.25),
            concurrency=8,
        )
        assert shop.spent == 0.2


def test_free_calls_are_not_held_up():
    shop = Shop((0.0,), (30,))
    budget = bought(shop, Limits(max_cost=0.01), 8, 50)
    assert (len(shop.promised), shop.most, budget.reached) == (50, 8, None)


@pytest.mark.nightly
@given(
    prices=st.lists(
        st.none() | st.sampled_from([0.0, 0.01, 0.05, 0.2]) | st.floats(0.001, 1),
        min_size=1,
        max_size=30,
    ),
    turns=st.lists(st.integers(0, 6), min_size=1, max_size=7),
    cap=st.floats(0.01, 5),
    concurrency=st.integers(1, 8),
    opened=st.booleans(),
)
@settings(max_examples=examples(50), deadline=None)
def test_the_bill_keeps_to_the_cap(prices, turns, cap, concurrency, opened):
    """Whatever the prices, their order, how long calls take and which of them fail."""
    shop = Shop(prices, turns)
    budget = bought(shop, Limits(max_cost=cap), concurrency, 60, opened=opened)
    assert budget.spent == pytest.approx(shop.spent)
    assert max(shop.promised) <= cap + ROUNDING
    assert shop.spent <= cap + shop.above + ROUNDING
    if budget.reached is None:
        assert len(shop.promised) == 60
    else:
        # nor does it end before it must
        assert shop.spent + (shop.dearest or 0.0) > cap - ROUNDING


@pytest.mark.parametrize(
    ("usage", "text", "cost"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 10}, "a", 1.2),
        ({"completion_tokens": 10}, "a", None),
        ({"prompt_tokens": 100}, "a", None),
        ({"prompt_tokens": 100}, "", 1.0),
        ({"prompt_tokens": True, "completion_tokens": True}, "a", None),
        ({}, "a", None),
    ],
)
def test_a_cost_is_known_where_all_that_is_paid_was_told(usage, text, cost):
    reply = reply_of("m", [Choice(text)], usage=usage, models=())
    assert add_price(reply, (0.01, 0.02)).usage.cost == (
        None if cost is None else pytest.approx(cost)
    )
    assert add_price(reply, (0.0, 0.0)).usage.cost == 0.0
    assert add_price(reply, None).usage.cost is None


class BrokenOnce(ChatModel):
    """One whose first reply an error breaks off."""

    name = "broken"

    def __init__(self, usage: Any) -> None:
        self.usage, self.calls = usage, 0

    def prices(self) -> tuple[float, float]:
        return 0.01, 0.02

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        counted = {"prompt_tokens": 100, "completion_tokens": 10}
        reason, usage = ("error", self.usage) if self.calls == 1 else ("stop", counted)
        choice = {"message": {"content": "yes"}, "finish_reason": reason}
        body = {"choices": [choice], "usage": usage}
        return chat_reply(self.name, body, self.prices())


@pytest.mark.parametrize(
    ("usage", "cost"),
    [({"prompt_tokens": 50}, 1.7), ({"completion_tokens": 5}, 1.2), (None, 1.2)],
)
def test_a_reply_that_an_error_broke_off_ends_no_run_with_a_cap(usage, cost):
    model, budget = BrokenOnce(usage), Budget(Limits(max_cost=9))
    run = Session(model).during(store=None, concurrency=1, budget=budget)
    asked = asyncio.run(run.ask(OPENING, lambda choice: choice.text))
    assert asked.outcomes == ("yes",)
    assert asked.usage.cost == budget.spent == pytest.approx(cost)
    assert (asked.usage.calls, asked.usage.faults) == (2, 1)
    assert budget.reached is None


@pytest.mark.parametrize(
    ("variable", "value", "is_named"),
    [
        ("SHOP_API_KEY", "sk-1234567", False),
        ("SHOP_API_KEY", "sk-1", True),  # too short for a secret
        ("SHOP_MODEL", "sk-7654321", True),
    ],
)
def test_a_model_whose_name_holds_a_secret_is_not_named(
    variable, value, is_named, monkeypatch
):
    monkeypatch.setenv(variable, value)
    name = f"tiny-{value}"
    reply = reply_of("m", [Choice("text")], usage=None, models=[name])
    assert reply.usage.models == ((name,) if is_named else ())


@pytest.mark.parametrize("status", [[1], {}, "500", None, True, 1.5])
def test_a_status_of_any_type_is_a_typed_fault(status):
    fault = Fault.from_reply(status, "{}", None)  # type: ignore[arg-type]
    assert isinstance(judge_error(fault, "m"), TransientJudgeError)
