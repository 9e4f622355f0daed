"""Limits of a run: calls, money, time, rate; slowing down together and speeding up again."""

import asyncio
import itertools
import json
import math
import re
import selectors
import time
from collections.abc import Callable
from typing import Any

import pytest
from chat_models import PolledModel
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import crossed, examples

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Limits,
    LLMJudge,
    aevaluate,
    evaluate,
)
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    JudgeError,
    JudgeUnavailable,
    LimitReached,
    RateLimited,
    RequestRejected,
    TransientJudgeError,
)
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
)
from ragmetrics_core.models.limits import (
    Budget,
    Patience,
    RateLimiter,
    Slots,
    late_error,
)
from ragmetrics_core.models.session import Session

ROWS = [
    {"question": f"q {number}", "contexts": ["a", "b", "c"], "answer": "a"}
    for number in range(40)
]


class Priced(PolledModel):
    """A model whose calls cost something, or take as long as they may."""

    name = "toy"

    def __init__(self, cost: float | None = 0.01, hang_from: int | None = None) -> None:
        self.calls = 0
        self._cost = cost
        self._hang_from = hang_from

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self._hang_from is not None and self.calls > self._hang_from:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return ChatReply(
            (Choice('{"useful": 1, "reason": "r"}'),),
            Usage(calls=1, prompt_tokens=10, cost=self._cost),
        )


class Singly(Priced):
    """One that gives a single reply per call."""

    def capabilities(self) -> Capabilities:
        return Capabilities(n=False, logprobs=False, json_schema=True, temperature=True)


class Clock:
    """A clock that moves only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def wait(self, seconds: float) -> None:
        self.now += seconds


async def called(
    model: ChatModel, count: int, concurrency: int, budget: Budget | None = None
) -> list[Any]:
    """What became of so many calls in one run, one after the other."""
    run = Session(model, attempts=1).during(
        store=None, concurrency=concurrency, budget=budget
    )
    return [
        (await run.ask(ChatRequest((Message("user", str(n)),)), str)).outcomes[0]
        for n in range(count)
    ]


def utilization(model: ChatModel, limits: Limits, **options: Any) -> Any:
    return evaluate(
        ROWS,
        [ContextUtilization()],
        judge=LLMJudge(model),
        limits=limits,
        concurrency=4,
        **options,
    )


@pytest.mark.parametrize("limit", [1, 2, 7, 30])
def test_max_calls_is_kept_to_the_call_and_what_is_done_is_reported(limit):
    model = Priced()
    report = utilization(model, Limits(max_calls=limit))
    assert model.calls == limit
    calls = "1 call and" if limit == 1 else f"{limit} calls and"
    assert f"max_calls={limit} was reached, after {calls}" in report.run.stopped
    statuses = [list(row.results.values()) for row in report.results]
    assert sum(map(len, statuses)) == (
        limit // 3 if limit != 7 else len([s for s in statuses if s])
    )
    assert all(outcome.status == "scored" for row in statuses for outcome in row)
    assert report.summary().not_judged == statuses.count([])
    assert report.usage.calls == report.summary().usage.calls == limit, (
        "what was paid for nothing is told too"
    )
    assert len(report.results) < len(ROWS)


def test_max_calls_that_suffices_changes_nothing():
    report = utilization(Priced(), Limits(max_calls=120))
    assert report.run.stopped == ""
    assert report.summary().judged == 40


def test_a_deadline_gives_up_calls_in_flight():
    model = Priced(hang_from=6)
    report = utilization(model, Limits(deadline=1))
    assert "deadline of 1 s" in report.run.stopped
    assert report.summary().judged >= 1
    assert model.calls <= 6 + 4


def test_limits_hold_in_async_runs():
    report = asyncio.run(
        aevaluate(
            ROWS,
            [ContextUtilization()],
            judge=LLMJudge(Priced()),
            limits=Limits(max_calls=5),
        )
    )
    assert "max_calls=5" in report.run.stopped


def test_each_setting_says_what_it_is():
    """Signatures, help texts and editors show it."""
    assert all(setting.description for setting in Limits.model_fields.values())


# Rate


@given(
    limit=st.integers(1, 6000), gaps=st.lists(st.floats(0, 5), min_size=1, max_size=400)
)
@settings(max_examples=examples(60), deadline=None)
def test_no_minute_holds_more_than_the_limit(limit, gaps):
    clock, sent = Clock(), []
    limiter = RateLimiter(Budget(Limits(requests_per_minute=limit), clock, clock.wait))

    async def run() -> None:
        for gap in gaps:
            clock.now += gap
            await limiter.acquire()
            sent.append(clock.now)

    asyncio.run(run())
    assert sent == sorted(sent)
    for first, start in enumerate(sent):
        assert (
            sum(start <= moment < start + 60 - 1e-6 for moment in sent[first:]) <= limit
        )


@pytest.mark.parametrize(
    ("per_minute", "expected"),
    [
        (60, [0.0, 1.0, 2.0, 3.0]),  # one a second
        (20, [0.0, 3.0, 6.0, 9.0]),
        (120, [0.0, 0.5, 1.0, 1.5]),
    ],
)
def test_calls_are_spread_over_the_minute(per_minute, expected):
    clock, sent = Clock(), []
    limiter = RateLimiter(
        Budget(Limits(requests_per_minute=per_minute), clock, clock.wait)
    )

    async def run() -> None:
        for _ in range(4):
            await limiter.acquire()
            sent.append(round(clock.now, 3))

    asyncio.run(run())
    assert sent == expected


def test_silence_lasts_from_the_last_reply_and_over_calls_that_fail():
    now = 0.0
    budget = Budget(clock=lambda: now)

    async def run() -> list[float]:
        nonlocal now
        silent = [budget.seconds_silent]
        first, second = await budget.acquire(), await budget.acquire()
        for time_of_end, number, usage in (
            (40.0, first, Usage(calls=1)),  # it is waited for the other
            (50.0, second, None),
            (60.0, await budget.acquire(), None),  # sent again
            (70.0, await budget.acquire(), Usage(calls=1)),
        ):
            now = time_of_end
            silent.append(budget.seconds_silent)
            budget.observe(number, usage)
        now = 99.0
        return [*silent, budget.seconds_silent]

    assert asyncio.run(run()) == [0.0, 40.0, 10.0, 20.0, 30.0, 0.0]


def test_an_endpoint_that_breaks_off_each_reply_is_silent_and_its_replies_are_paid():
    clock = Clock()
    budget = Budget(clock=clock)

    class Broken(Priced):
        async def complete(self, request: ChatRequest) -> ChatReply:
            clock.now += 40.0
            usage = Usage(calls=1, prompt_tokens=10, cost=0.01)
            return ChatReply((), usage, (TransientJudgeError("broken off"),))

    session = Session(Broken(), attempts=1)
    run = session.during(store=None, concurrency=1, budget=budget)
    request = ChatRequest((Message("user", "?"),))
    for _ in range(2):
        answers = asyncio.run(run.ask(request, str))
        assert answers.usage == Usage(calls=1, prompt_tokens=10, cost=0.01)
    assert (budget.seconds_silent, budget.spent) == (80.0, 0.02)

    # where a limit lets no second attempt leave
    run = Session(Broken()).during(
        store=None, concurrency=1, budget=Budget(Limits(max_calls=1))
    )
    answers = asyncio.run(run.ask(request, str))
    assert isinstance(answers.outcomes[0], LimitReached)
    assert answers.usage == Usage(calls=1, prompt_tokens=10, cost=0.01)


class Late(Priced):
    """A model that moves a clock while it stays silent, and answers from some time on."""

    def __init__(self, clock: Clock, timeout: float, answers_from: float) -> None:
        super().__init__()
        self._clock, self._timeout, self._from = clock, timeout, answers_from

    @property
    def timeout(self) -> float:
        return self._timeout

    async def complete(self, request: ChatRequest) -> ChatReply:
        if self._clock.now >= self._from:
            return await super().complete(request)
        self._clock.now += 20.0
        raise late_error("m", 20.0)


def kinds_of_outcomes(session: Session, n_rows: int) -> list[type]:
    """What became of the questions of so many rows, one after the other."""

    async def work() -> list[type]:
        requests = [ChatRequest((Message("user", str(n)),)) for n in range(n_rows)]
        answers = [
            await session.ask(request, lambda it: it.text) for request in requests
        ]
        return [type(answer.outcomes[0]) for answer in answers]

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("timeout", "answers_from", "expected", "ends_by"),
    [
        (2.0, math.inf, [JudgeUnavailable] * 3, 84.0),  # of three rows as of one
        (60.0, math.inf, [JudgeUnavailable] * 3, 680.0),
        (60.0, 500.0, [str] * 3, 580.0),  # a cold server
    ],
)
def test_an_endpoint_that_never_answers_ends_the_run(
    timeout, answers_from, expected, ends_by
):
    clock = Clock()
    run = Session(Late(clock, timeout, answers_from), attempts=99).during(
        store=None, concurrency=1, budget=Budget(clock=clock, sleep=clock.wait)
    )
    assert kinds_of_outcomes(run, 3) == expected
    assert clock.now <= ends_by


class Failing(Priced):
    """A model that fails at once, after some answers, and answers from some time on."""

    def __init__(
        self,
        clock: Clock,
        error: type[JudgeError],
        n_answers: int,
        answers_from: float,
    ) -> None:
        super().__init__()
        self._clock, self._error, self._from = clock, error, answers_from
        self._n_answers = n_answers
        self.n_asked = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.n_asked += 1
        if self.n_asked <= self._n_answers or self._clock.now >= self._from:
            return await super().complete(request)
        raise self._error("m failed")


@pytest.mark.parametrize(
    ("error", "n_answers", "answers_from", "first", "last", "most_calls"),
    [
        # of many rows as of one
        (TransientJudgeError, 0, math.inf, JudgeUnavailable, JudgeUnavailable, 9),
        (TransientJudgeError, 0, 60.0, str, str, 58),  # it loads its model
        # one that answered may fail for one row's texts
        (TransientJudgeError, 1, math.inf, str, TransientJudgeError, 400),
        (RateLimited, 0, math.inf, RateLimited, RateLimited, 400),  # it answers others
    ],
)
def test_an_endpoint_that_never_answered_and_fails_for_a_minute_ends_the_run(
    error, n_answers, answers_from, first, last, most_calls
):
    clock = Clock()
    model = Failing(clock, error, n_answers, answers_from)
    run = Session(model).during(
        store=None, concurrency=1, budget=Budget(clock=clock, sleep=clock.wait)
    )
    kinds = kinds_of_outcomes(run, 50)
    assert (kinds[0], kinds[-1]) == (first, last)
    assert model.n_asked <= most_calls


def test_of_an_endpoint_that_never_answers_the_time_set_and_the_time_waited_are_told(
    monkeypatch,
):
    """A call gets longer than the time that was set, and the run waits for several."""
    waits = Waits()
    monkeypatch.setattr(time, "monotonic", lambda: waits.now)
    model = Queued(1, math.inf, timeout=3.0)

    async def ask() -> Any:
        budget = Budget(clock=lambda: waits.now)
        run = Session(model).during(store=None, concurrency=1, budget=budget)
        return await run.ask(ChatRequest((Message("user", "q"),)), str)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(waits)) as loop:
        (error,) = loop.run(ask()).outcomes
    assert isinstance(error, JudgeUnavailable)
    waited = re.fullmatch(
        r".* within 81 s \(timeout 3 at first, then longer\): raise --timeout .*; it never"
        r" answered, in (\d+) s: check that it runs",
        str(error),
    )
    assert int(waited[1]) == math.ceil(waits.now)


def test_a_run_that_may_not_call_any_more_waits_no_longer():
    clock = Clock()
    limiter = RateLimiter(
        Budget(Limits(deadline=10, requests_per_minute=1), clock, clock.wait)
    )

    async def run() -> list[object]:
        return await asyncio.gather(
            *(limiter.acquire() for _ in range(3)), return_exceptions=True
        )

    outcomes = asyncio.run(run())
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        LimitReached,
        LimitReached,
    ]


def test_requests_per_minute_are_kept():
    async def run(limits: Limits) -> float:
        clock = Clock()
        await called(Priced(), 100, 8, Budget(limits, clock, clock.wait))
        return clock.now

    assert asyncio.run(run(Limits())) == 0
    assert 49 <= asyncio.run(run(Limits(requests_per_minute=120))) <= 52


def test_calls_that_wait_for_one_model_to_be_ready_share_one_limiter():
    class Slow(Priced):
        async def prepare(self) -> None:
            for _ in range(self.calls + 3):
                await asyncio.sleep(0)
            self.calls += 1

    async def run() -> float:
        clock = Clock()
        budget = Budget(Limits(requests_per_minute=60), clock, clock.wait)
        session = Session(Slow(), attempts=1).during(
            store=None, concurrency=8, budget=budget
        )
        await asyncio.gather(
            *(
                session.ask(ChatRequest((Message("user", str(n)),)), str)
                for n in range(5)
            )
        )
        return clock.now

    assert asyncio.run(run()) == pytest.approx(4)


# Slowing down


REFUSED = RateLimited("slow down")
LATE = late_error("m", 1.0)
ANSWERED = ChatReply((Choice("x"),))


async def taken(most: int) -> tuple[Slots, list[int]]:
    """All slots, taken."""
    slots = Slots(most)
    return slots, [await slots.acquire() for _ in range(most)]


def test_slots_narrow_once_for_calls_sent_together_and_widen_again():
    async def run() -> None:
        slots, sent = await taken(32)
        for ticket in [*sent[:9], sent[-1]]:
            slots.observe(ticket, REFUSED)  # all sent before the first was refused
        assert slots.width == 20
        for ticket in sent[9:-1]:
            slots.observe(ticket, None)
        again = [await slots.acquire() for _ in range(20)]
        for ticket in again:
            slots.observe(ticket, REFUSED)
        assert slots.width == 14
        for _ in range(500):
            slots.observe(await slots.acquire(), ANSWERED)
        assert slots.width == 32

    asyncio.run(run())


def test_a_late_call_halves_the_slots_and_slow_answers_add_none():
    async def run() -> None:
        slots, sent = await taken(32)
        for ticket in sent[:16]:
            slots.observe(ticket, LATE)  # all sent before the first was late
        assert slots.width == 16
        slots.observe(sent.pop(), ANSWERED, seconds=1.0, time_of_a_call=60.0)
        for ticket in sent[16:]:
            slots.observe(ticket, ANSWERED, seconds=31.0, time_of_a_call=60.0)
        assert slots.width == 17
        for _ in range(4):
            slots.observe(await slots.acquire(), ANSWERED)
        assert slots.width == 21

    asyncio.run(run())


def test_slots_rise_slowly_after_a_late_call_that_later_ones_overtook():
    """It wants several free places at once, as five choices of llama.cpp do."""

    async def run() -> None:
        slots = Slots(32, first=4)
        for _ in range(4):
            slots.observe(await slots.acquire(), ANSWERED)
        assert slots.width == 8
        first, *others = [await slots.acquire() for _ in range(8)]
        slots.observe(others.pop(), ANSWERED, seconds=31.0, time_of_a_call=60.0)
        slots.observe(first, LATE)
        assert slots.width == 3
        for ticket in others:
            slots.observe(ticket, None)
        for _ in range(5):
            slots.observe(await slots.acquire(), ANSWERED)
        assert slots.width == 4

    asyncio.run(run())


def test_on_this_machine_a_call_takes_a_slot_for_each_of_its_replies():
    """Five choices of llama.cpp wait until five places are free."""

    async def run() -> None:
        slots = Slots(32, first=4)
        alone = await slots.acquire()
        of_five = asyncio.ensure_future(slots.acquire(5))
        behind = asyncio.ensure_future(slots.acquire())
        await asyncio.sleep(0)
        assert not of_five.done()  # one call is in flight, and there are four slots
        assert not behind.done()  # no later call overtakes it
        slots.observe(alone, ANSWERED)
        ticket = await of_five
        await asyncio.sleep(0)
        assert (slots.taken, slots.width, behind.done()) == (5, 5, False)
        slots.observe(ticket, LATE, n_replies=5)  # it was alone: nothing narrows
        slots.observe(await behind, ANSWERED)
        assert (slots.taken, slots.width) == (0, 6)

        first = Slots(32, first=4)  # it wants more than there are, and is sent alone
        await asyncio.wait_for(first.acquire(5), 1)
        assert first.taken == 5

        elsewhere = Slots(32)
        await elsewhere.acquire(5)
        assert elsewhere.taken == 1

    asyncio.run(run())


class Waits(selectors.DefaultSelector):
    """Moves a clock in place of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0 if timeout is None or timeout > 0 else timeout)
        if not events and timeout:
            self.now += timeout
        return events


class Queued(Singly):
    """A server of this machine that works on few calls at once; its client is patient."""

    address = "http://127.0.0.1:1/v1"

    def __init__(
        self, width: int, seconds: float, timeout: float, n_short: int = 0
    ) -> None:
        super().__init__()
        self.width, self.seconds, self.n_short = width, seconds, n_short
        self.patience = Patience(timeout)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        seconds = self.seconds if self.calls > self.n_short else self.seconds / 20
        async with self.patience.during_call(self.name), self.workers:
            await asyncio.sleep(seconds)
        return ANSWERED

    @property
    def timeout(self) -> float:
        return self.patience.least

    async def prepare(self) -> None:
        self.workers = asyncio.Semaphore(self.width)


CALLS = [
    (0.2, 0),
    (0.9, 0),
    (1.1, 0),
    (1.9, 0),
    (2.2, 0),
    (2.2, 1),
    (7.0, 9),
    (30.0, 0),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("calls", "width"), crossed(CALLS, [1, 4, 16]))
def test_a_server_is_kept_busy_however_long_its_calls_take(calls, width, monkeypatch):
    """Also where only the first short ones are answered in the first time of a call, 2 s."""
    seconds, n_short = calls
    n_requests, waits = 400, Waits()
    monkeypatch.setattr(time, "monotonic", lambda: waits.now)
    model = Queued(width, seconds, timeout=2.0, n_short=n_short)

    async def ask() -> list[Any]:
        run = Session(model).during(store=None, concurrency=32)
        questions = [
            ChatRequest((Message("user", str(number)),)) for number in range(n_requests)
        ]
        return await asyncio.gather(*(run.ask(each, str) for each in questions))

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(waits)) as loop:
        answers = loop.run(ask())
    assert [answer.outcomes for answer in answers] == [(str(Choice("x")),)] * n_requests
    # the first call is sent alone, and the time that it may take is found by doubling
    ideal = n_requests * seconds / width
    assert waits.now <= 1.05 * ideal + 4 * seconds
    assert model.calls <= 1.05 * n_requests + 4


def test_single_refusals_narrow_nothing():
    async def run() -> None:
        slots, sent = await taken(32)
        for ticket in sent:
            slots.observe(ticket, None)
        for outcome in (REFUSED, REFUSED, REFUSED, ANSWERED) * 9:
            slots.observe(await slots.acquire(), outcome)
        assert slots.width == 32

    asyncio.run(run())


def test_a_slot_is_never_lost_to_one_who_gave_up():
    async def run() -> None:
        slots, (sent,) = await taken(1)
        waiting = [asyncio.ensure_future(slots.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        slots.observe(sent, ANSWERED)
        waiting[1].cancel()  # it was just given the slot
        await asyncio.wait_for(waiting[2], 1)
        assert slots.taken == 1

    asyncio.run(run())


@pytest.mark.nightly
@pytest.mark.parametrize(
    "error",
    [RateLimited("429", retry_after=60.0), RateLimited("429")],
    ids=["pause", "backoff"],
)
def test_no_wait_goes_beyond_the_deadline(error):
    """Neither for a place while all workers pause, nor before the next attempt."""

    class Busy(Priced):
        async def complete(self, request: ChatRequest) -> ChatReply:
            self.calls += 1
            if self.calls > 3:
                raise error
            return await super().complete(request)

    started = time.monotonic()
    report = utilization(Busy(), Limits(deadline=1.0))
    assert time.monotonic() - started < 30
    assert "deadline of 1 s was reached" in report.run.stopped


def test_a_refused_poll_of_the_first_sample_ends_no_run():
    class Refusing(Singly):
        async def complete(self, request: ChatRequest) -> ChatReply:
            self.calls += 1
            if self.calls == 5:
                raise AuthenticationFailed("blocked by a firewall")
            text = json.dumps(
                {"reason": "r", "supported": 1, "claims": 1, "unsupported": []}
            )
            return ChatReply((Choice(text),), Usage(calls=1))

    report = evaluate(ROWS[:1], "adherence", judge=LLMJudge(Refusing()), concurrency=1)
    outcome = report.results[0].results["context_adherence"]
    assert (outcome.status, outcome.error.type) == ("failed", "AuthenticationFailed")


class Ailing(Singly):
    """A model that answers row after row until it does what it is told instead."""

    def __init__(self, answer: Callable[[int], object]) -> None:
        super().__init__()
        self._answer, self.rows = answer, set[int]()

    async def complete(self, request: ChatRequest) -> ChatReply:
        text = "\n".join(message.content for message in request.messages)
        (row,) = re.findall(r"\bq (\d+)", text)[:1]
        answer = self._answer(int(row))
        if answer is None:
            return await super().complete(request)
        self.calls += 1
        self.rows.add(int(row))
        if isinstance(answer, JudgeError):
            raise answer
        usage = Usage(calls=1, prompt_tokens=10)
        return ChatReply((Choice(str(answer)),), usage)


FAULTS = [
    TransientJudgeError,
    RateLimited,
    RequestRejected,
    AuthenticationFailed,
    lambda _: "Yes, it is.",
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize(
    ("fails_for", "stops"),
    # the last: every second row is answered
    [
        (range(5, 40), True),
        (range(1, 20), False),
        ([5], False),
        (range(1, 40, 2), False),
    ],
)
def test_a_judge_that_answers_none_of_many_rows_ends_the_run(fault, fails_for, stops):
    stops &= fault is not RequestRejected  # after answers, it is for the rows' texts
    model = Ailing(lambda row: fault("m failed") if row in fails_for else None)
    judge = LLMJudge(model, attempts=1)
    for _ in range(2):  # each run begins anew; in the second, replies are stored
        model.rows.clear()
        report = evaluate(ROWS, [ContextUtilization()], judge=judge, concurrency=1)
        words = r"(m failed|cannot be used: .*); it answered none of the last 2\d rows$"
        assert (re.search(words, report.run.stopped) is not None) is stops
        assert model.rows <= set(range(5, 30) if stops else fails_for)
    n_scored = report.summary()["context_utilization"].count
    assert n_scored == 40 - len(fails_for) or stops


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_judge_that_answers_no_row_ends_the_run(fault):
    model = Ailing(lambda _: fault("m failed"))
    judge, stopped = LLMJudge(model, attempts=1), ""
    try:
        report = evaluate(ROWS, [ContextUtilization()], judge=judge, concurrency=4)
        stopped = report.run.stopped
    except JudgeUnavailable as error:
        stopped = str(error)
    assert ("none of the last" in stopped) is not (
        fault is AuthenticationFailed  # it says so itself
    )
    assert model.calls < 160


def test_a_run_that_has_ended_sends_no_call_whatever_is_answered():
    """Neither replies to calls in flight revive it, nor those to a run beside it."""

    class Rambling(Singly):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(0.001)
            if "q good" in request.messages[-1].content:
                return await super().complete(request)
            calls.append(request)
            return ChatReply((Choice("Yes, it is."),), Usage(calls=1, prompt_tokens=10))

    calls: list[ChatRequest] = []
    judge, metrics = LLMJudge(Rambling()), [ContextUtilization()]
    bad, good = (
        [{**ROWS[0], "question": f"q {kind} {number}"} for number in range(200)]
        for kind in ("bad", "good")
    )

    async def both() -> Any:
        runs = (aevaluate(rows, metrics, judge=judge) for rows in (bad, good))
        return await asyncio.gather(*runs)

    ended, done = asyncio.run(both())
    assert "; it answered none of the last 2" in ended.run.stopped
    assert (done.run.stopped, done.summary().judged) == ("", len(good))
    assert len(calls) < 300


@pytest.mark.parametrize("n_fails", [math.inf, 60])
def test_while_an_endpoint_is_in_doubt_one_request_probes_it(n_fails, monkeypatch):
    """It breaks down while 64 rows are judged, for ever or for a while."""
    monkeypatch.setattr("ragmetrics_core.models.attempts._FIRST_LONGEST_WAIT", 0.01)
    n_calls = itertools.count()

    class Broken(Singly):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(0.001)
            if 50 <= next(n_calls) < 50 + n_fails:
                raise TransientJudgeError("the engine died")
            text = '{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
            return ChatReply((Choice(text),), Usage(calls=1, prompt_tokens=10))

    rows = [{**ROWS[0], "question": f"q {number}"} for number in range(120)]
    report = evaluate(rows, [ContextAdherence()], judge=LLMJudge(Broken()))
    if n_fails == math.inf:
        assert "it answered none of the last 2" in report.run.stopped
        assert next(n_calls) < 50 + 250
    else:
        assert (report.run.stopped, report.summary().judged) == ("", len(rows))


def test_rows_that_a_limit_cut_off_are_not_judged_whatever_else_they_lack():
    report = evaluate(
        ROWS,
        [ContextUtilization(), ContextRecall()],
        judge=LLMJudge(Priced()),
        limits=Limits(max_calls=30),
    )
    assert "not judged" in str(report)
    assert "input missing" not in str(report)


def test_calls_given_up_at_the_deadline_are_counted():
    model = Priced(hang_from=8)
    report = utilization(model, Limits(deadline=1))
    assert report.usage.calls == model.calls == 12
    assert "after 12 calls" in report.run.stopped


def test_a_limit_amid_early_stopped_polls_leaves_no_score():
    verdicts = iter(["yes", "no"])

    class Polled(Singly):
        async def complete(self, request: ChatRequest) -> ChatReply:
            text = json.dumps(
                {"reason": "r", "verdict": next(verdicts), "unsupported": []}
            )
            return ChatReply((Choice(text),), Usage(calls=1))

    metric = ContextAdherence(polls=3, early_stop=True, cause=False)
    report = evaluate(
        ROWS[:1], [metric], judge=LLMJudge(Polled()), limits=Limits(max_calls=2)
    )
    assert report.results[0].results == {}
    assert report.usage.calls == 2


def overloaded(most: int) -> tuple[ChatModel, Callable[[], int]]:
    """An endpoint that serves only so many calls at the same time.

    With the number of its refusals.
    """

    class Overloaded(Priced):
        in_flight = refused = 0

        async def complete(self, request: ChatRequest) -> ChatReply:
            if self.in_flight >= most:
                self.refused += 1
                raise RateLimited("slow down")
            self.in_flight += 1
            for _ in range(5):
                await asyncio.sleep(0)
            self.in_flight -= 1
            return ChatReply((Choice("x"),))

    model = Overloaded()
    return model, lambda: model.refused


@pytest.mark.nightly
def test_workers_adapt_to_what_the_endpoint_can_take():
    """Retried at once, most of 64 callers would be refused each time.

    Together they settle near the 8 places.
    """
    model, refused = overloaded(8)

    async def run() -> list[Any]:
        run = Session(model, attempts=99).during(
            store=None, concurrency=64, budget=Budget(sleep=lambda _: asyncio.sleep(0))
        )
        asked = (
            run.ask(ChatRequest((Message("user", str(number)),)), str)
            for number in range(2000)
        )
        return [
            outcome
            for answer in await asyncio.gather(*asked)
            for outcome in answer.outcomes
        ]

    assert not any(isinstance(outcome, RateLimited) for outcome in asyncio.run(run()))
    assert refused() < 1000


@pytest.mark.parametrize("n_too_long", [0, 20])
def test_of_requests_that_share_a_window_only_the_too_long_are_lost(n_too_long):
    """The slots of llama.cpp may share one: where it is full, all are refused."""
    n_rows = 200

    class Sharing(Priced):
        in_flight = calls = 0

        async def complete(self, request: ChatRequest) -> ChatReply:
            self.calls += 1
            self.in_flight += 1
            for _ in range(5):
                await asyncio.sleep(0)
            is_full = self.in_flight > 3
            self.in_flight -= 1
            if is_full or int(request.messages[0].content) < n_too_long:
                error = ContextWindowExceeded("the window is full")
                error.may_be_shared = True
                raise error
            return ChatReply((Choice("x"),))

    async def run() -> list[Any]:
        run = Session(model).during(
            store=None, concurrency=32, budget=Budget(sleep=lambda _: asyncio.sleep(0))
        )
        asked = (
            run.ask(ChatRequest((Message("user", str(number)),)), str)
            for number in range(n_rows)
        )
        answers = await asyncio.gather(*asked)
        return [outcome for answer in answers for outcome in answer.outcomes]

    model = Sharing()
    outcomes = asyncio.run(run())
    lost = [each for each in outcomes if isinstance(each, JudgeError)]
    assert len(lost) == n_too_long
    assert all(isinstance(each, ContextWindowExceeded) for each in lost)
    assert model.calls < 3 * n_rows


@pytest.mark.parametrize("max_calls", [None, 1])
def test_an_interrupt_ends_a_run_and_leaves_the_reason_that_it_already_had(max_calls):
    async def reason() -> str:
        budget = Budget(Limits(max_calls=max_calls))
        budget.calls = 1
        if max_calls:
            with pytest.raises(LimitReached, match="max_calls=1"):
                budget.check()
        budget.interrupt()
        with pytest.raises(LimitReached):
            budget.check()
        return str(budget.reached)

    said = asyncio.run(reason())
    assert ("max_calls=1 was reached" if max_calls else "it was interrupted") in said
