"""The session: what is shared, kept, repaired, repeated, limited and given up, against a server on this machine."""

import asyncio
import copy
import itertools
import json
import pickle
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from loopback import Fault, LoopbackServer
from slow_server import SlowServer

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models import attempts, compatible_model, features
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
)
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.judge_work import JudgedRow, judged_row, note_spending
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.models.session import Answers, Session

GOOD = '{"good": 1}'
Serve = Callable[..., LoopbackServer]


def asked(text: str = "q", **settings: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), **settings)


def read(choice: Choice) -> int:
    if choice.finish == "refused":
        raise errors.ContentRefused("refused", raw=choice.text)
    if not choice.text:
        raise errors.UnusableReply("empty")
    if choice.finish == "length":
        raise errors.UnusableReply("cut off", raw=choice.text)
    try:
        return int(json.loads(choice.text)["good"])
    except (ValueError, KeyError):
        raise errors.UnusableReply("no number", raw=choice.text) from None


def session_of(server: LoopbackServer, **settings: Any) -> Session:
    return Session(
        OpenAICompatibleModel(server.base_url, "test", api_key="k"), **settings
    )


def run_of(session: Session, **settings: Any) -> Session:
    return session.during(**{"store": None, "concurrency": 32, **settings})


def outcomes(answers: Answers[int]) -> list[Any]:
    return [
        type(it).__name__ if isinstance(it, errors.JudgeError) else it
        for it in answers.outcomes
    ]


def in_loop(work: Callable[[], Any], session: Session) -> Any:
    async def go() -> Any:
        try:
            return await work()
        finally:
            await session.model.aclose()

    return asyncio.run(go())


def ask_all(session: Session, *requests: ChatRequest, **settings: Any) -> list[Any]:
    """Ask all at once, in one run."""

    async def work() -> list[Any]:
        run = run_of(session, **settings)
        return await asyncio.gather(
            *(run.ask(request, read) for request in requests), return_exceptions=True
        )

    return in_loop(work, session)


def test_what_is_noted_of_calls_is_what_their_answer_says(loopback_server):
    """Of a question that is cut off nothing but the notes is known."""
    server = loopback_server(
        lambda body: GOOD if len(body["messages"]) > 1 else "no number",
        n="reject",
        faults={0: Fault(503)}.get,
    )
    model = OpenAICompatibleModel(
        server.base_url, "test", api_key="k", prices=(0.25, 0.5)
    )

    async def work() -> tuple[Answers[int], Usage]:
        with note_spending() as spending:
            answers = await run_of(Session(model)).ask(asked(), read, polls=2)
        return answers, sum(spending, Usage())

    answers, noted = in_loop(work, Session(model))
    assert outcomes(answers) == [1, 1]
    # a fault, a refusal of n, two replies, and a repair of each
    assert (answers.usage.calls, answers.usage.faults) == (6, 1)
    assert answers.usage.repairs == 2
    # only the answer knows which calls were repairs, and what was left out
    assert noted == replace(answers.usage, repairs=0, fallbacks=())


# Stored replies and single flight.


def test_equal_requests_share_one_call_in_a_run_and_between_runs(loopback_server):
    server = loopback_server(lambda _: GOOD, latency=0.05)
    session, stores = session_of(server), [MemoryStore(), MemoryStore()]

    async def work() -> list[Answers[int]]:
        runs = [run_of(session, store=store) for store in (*stores, stores[0])]
        return await asyncio.gather(*(run.ask(asked(), read) for run in runs))

    answers = in_loop(work, session)
    assert len(server.requests) == 1
    assert [outcomes(answer) for answer in answers] == [[1]] * 3
    assert sorted((answer.usage.calls, answer.usage.stored) for answer in answers) == [
        (0, 1),
        (0, 1),
        (1, 0),
    ]
    # who waited names the model that answered, like who asked
    assert [answer.usage.models for answer in answers] == [("test",)] * 3
    assert [len(store) for store in stores] == [1, 1]


def test_only_the_polls_that_are_missing_are_asked(loopback_server):
    server, store = loopback_server(lambda _: GOOD), MemoryStore()
    session = session_of(server)

    async def work() -> None:
        run = run_of(session, store=store)
        await run.ask(asked(), read, polls=2)
        answers = await run.ask(asked(), read, polls=5)
        assert outcomes(answers) == [1] * 5
        assert (answers.usage.calls, answers.usage.stored) == (1, 2)
        await run.ask(asked(), read, polls=1, first_poll=5)

    in_loop(work, session)
    assert [recorded.body.get("n", 1) for recorded in server.requests] == [2, 3, 1]


def test_who_waits_for_a_run_that_leaves_or_is_stopped_asks_itself(loopback_server):
    answering = threading.Event()
    server = loopback_server(lambda _: GOOD if answering.wait(20) else "not let go")
    session = session_of(server)

    async def work() -> None:
        await run_of(session).ask(asked("the first is sent alone"), read)
        answering.clear()
        leaving = asyncio.ensure_future(run_of(session).ask(asked("q"), read))
        stopped = asyncio.ensure_future(
            run_of(session, budget=Budget(Limits(deadline=0.05))).ask(asked("r"), read)
        )
        await asyncio.sleep(0.02)
        others = [
            asyncio.ensure_future(run_of(session).ask(asked(text), read))
            for text in "qr"
        ]
        await asyncio.sleep(0.01)
        leaving.cancel()
        assert outcomes(await stopped) == ["LimitReached"]
        answering.set()
        assert [outcomes(answer) for answer in await asyncio.gather(*others)] == [
            [1],
            [1],
        ]

    answering.set()
    in_loop(work, session)


# Repairs.


@pytest.mark.parametrize(
    ("first", "outcome", "repaired"),
    [
        ("no JSON", 1, True),
        ({"message": {"content": '{"goo'}, "finish_reason": "length"}, 1, True),
        ({"message": {"content": ""}}, 1, True),
        (
            {
                "message": {"content": "no", "refusal": "I cannot"},
                "finish_reason": "content_filter",
            },
            "ContentRefused",
            False,
        ),
    ],
)
def test_an_unusable_reply_is_repaired_once_and_kept_repaired(
    first, outcome, repaired, loopback_server
):
    server = loopback_server(lambda _: first if len(server.requests) == 1 else GOOD)
    calls = 2 if repaired else 1
    store = MemoryStore()
    answers = ask_all(
        session_of(server), asked(max_tokens=10), asked(max_tokens=10), store=store
    )
    assert [outcomes(answer) for answer in answers] == [[outcome]] * 2
    assert len(server.requests) == calls
    assert sum(answer.usage.repairs for answer in answers) == calls - 1
    if repaired:
        (again,) = ask_all(session_of(server), asked(max_tokens=10), store=store)
        assert outcomes(again) == [1]
        assert len(server.requests) == calls


REFUSAL = {
    "message": {"content": "no", "refusal": "I cannot"},
    "finish_reason": "content_filter",
}


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        (("no JSON", "{"), "UnusableReply"),
        (("no JSON", REFUSAL), "ContentRefused"),
        (("a", GOOD), 1),
    ],
)
def test_a_repair_holds_the_reply_and_what_is_wrong_with_it(
    replies, outcome, loopback_server
):
    server = loopback_server(lambda _: replies[len(server.requests) - 1])
    store = MemoryStore()
    (answer,) = ask_all(
        session_of(server), asked(schema={"type": "object"}), store=store
    )
    assert len(store) == (2 if outcome == 1 else 0), "nothing unusable is kept"
    sent = [request.body["messages"] for request in server.requests]
    assert [len(messages) for messages in sent] == [1, 3]
    assert [messages[1]["content"] for messages in sent[1:]] == [
        *replies[: len(replies) - 1]
    ]
    assert outcomes(answer) == [outcome]


def test_a_poll_is_repaired_on_its_own(loopback_server):
    server = loopback_server(
        lambda body: [GOOD, "no", GOOD] if body.get("n") == 3 else GOOD
    )
    session = session_of(server)
    answers = in_loop(lambda: run_of(session).ask(asked(), read, polls=3), session)
    assert outcomes(answers) == [1, 1, 1]
    assert (answers.usage.calls, answers.usage.repairs) == (2, 1)


def test_polls_with_equal_unusable_replies_are_each_repaired(loopback_server):
    """Equal repair requests of several polls are several polls, not one shared call."""
    replies = iter(range(1, 6))

    def reply(body: dict[str, Any]) -> Any:
        if len(body["messages"]) == 1:
            return ["Yes."] * body.get("n", 1)
        return json.dumps({"good": next(replies)})

    server = loopback_server(reply)
    session, store = session_of(server), MemoryStore()
    answers = in_loop(
        lambda: run_of(session, store=store).ask(asked(), read, polls=5), session
    )
    assert sorted(outcomes(answers)) == [1, 2, 3, 4, 5]
    assert answers.usage.repairs == 5


def test_a_poll_of_a_later_round_has_a_repair_of_its_own(loopback_server):
    replies = iter(range(1, 3))

    def reply(body: dict[str, Any]) -> Any:
        is_repair = len(body["messages"]) > 1
        return json.dumps({"good": next(replies)}) if is_repair else "Yes."

    session, store = session_of(loopback_server(reply)), MemoryStore()

    async def two_rounds() -> list[Any]:
        run = run_of(session, store=store)
        first = await run.ask(asked(), read)
        second = await run.ask(asked(), read, first_poll=1)
        return [*outcomes(first), *outcomes(second)]

    assert in_loop(two_rounds, session) == [1, 2]


# Fit to what the endpoint can do.


def test_no_two_requests_at_temperature_0_are_equal(loopback_server):
    """Whatever was wrong with the reply: an equal request would bring an equal one."""
    for reply in (
        "",
        "no JSON",
        {"message": {"content": "cut"}, "finish_reason": "length"},
        {"message": {"content": ""}, "finish_reason": "length"},
    ):
        for limit in (None, 10):
            server = loopback_server(lambda _, reply=reply: reply)
            ask_all(session_of(server), asked(temperature=0.0, max_tokens=limit))
            first, second = (request.body for request in server.requests)
            assert first != second


# Attempts.


def test_a_rate_limited_request_waits_by_itself(loopback_server):
    server = loopback_server(
        lambda _: GOOD,
        faults=lambda n: Fault(429, {"Retry-After": "1"}) if n == 3 else None,
    )
    session, done = session_of(server), []

    async def one(run: Session, number: int) -> None:
        await run.ask(asked(str(number)), read)
        done.append(number)

    async def work() -> None:
        run = run_of(session, concurrency=2)
        await asyncio.gather(*(one(run, number) for number in range(30)))

    started = time.monotonic()
    in_loop(work, session)
    assert time.monotonic() - started > 1
    assert len(done) == 30
    assert sorted(done) == list(range(30))
    refused = int(server.requests[3].body["messages"][0]["content"])
    answered_before = done[: done.index(refused)]
    # they were asked while it waited
    assert len([number for number in answered_before if number > refused]) >= 3


@pytest.mark.parametrize(("headers", "least"), [({}, 60), ({"Retry-After": "9"}, 63)])
def test_a_rate_that_names_no_wait_is_waited_out_for_a_minute(
    headers, least, loopback_server, monkeypatch
):
    waits = list[float]()
    monkeypatch.setattr("random.uniform", lambda least_wait, longest_wait: least_wait)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    server = loopback_server(
        lambda _: GOOD,
        faults=lambda n: Fault(429, headers) if 1 <= n <= 7 else None,
    )
    session = session_of(server, attempts=8)

    async def work() -> Any:
        run = run_of(session, budget=Budget(sleep=sleep))
        await run.ask(asked("first"), read)
        return await run.ask(asked("second"), read)

    assert outcomes(in_loop(work, session)) == [1]
    assert len(waits) == 7
    assert least <= sum(waits) < least + 1


def test_refusals_among_answers_are_no_attempts(loopback_server):
    """One request met with 429 again and again, while others are answered, is answered in the end, and soon."""
    session = session_of(server := loopback_server(lambda _: GOOD), attempts=2)
    refused, waits = 0, list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def work() -> Any:
        run = run_of(session, budget=Budget(sleep=sleep))
        await run.ask(asked("first"), read)
        model = copy.copy(run.model)

        async def complete(request: ChatRequest) -> Any:
            nonlocal refused
            if request.messages[0].content == "unlucky" and refused < 5:
                refused += 1
                await run.ask(asked(f"other {refused}"), read)
                raise errors.RateLimited("slow down", retry_after=0.001)
            return await model.complete(request)

        run.model.complete = complete  # type: ignore[method-assign]
        return await run.ask(asked("unlucky"), read)

    assert outcomes(in_loop(work, session)) == [1]
    assert len(server.requests) == 7
    assert len(waits) == 5
    assert max(waits) <= 0.51


@pytest.mark.parametrize("listens", [False, True])
def test_an_address_without_a_server_is_given_up_after_ten_seconds(
    listens, monkeypatch
):
    """A refused port, and a queue that is full: it takes no connection and refuses none. One second stands for ten."""
    for module in (attempts, compatible_model):
        assert module.CONNECTING_SECONDS == 10.0
        monkeypatch.setattr(module, "CONNECTING_SECONDS", 1.0)
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(5)]
        sockets[0].bind(("127.0.0.1", 0))
        address = sockets[0].getsockname()
        if listens:
            sockets[0].listen(0)
            for one in sockets[1:]:
                one.setblocking(False)
                one.connect_ex(address)
        session = Session(
            OpenAICompatibleModel(
                f"http://127.0.0.1:{address[1]}/v1", "test", api_key="k"
            )
        )
        started = time.monotonic()
        kinds = {
            kind
            for answer in ask_all(session, *(asked(str(n)) for n in range(20)))
            for kind in outcomes(answer)
        }
        # one after the other they would take twenty
        assert time.monotonic() - started < 10
    assert kinds == {"JudgeUnavailable"}


class Toy(ChatModel):
    """A model that raises what it is told to, and then replies."""

    name = cache_key = "toy"

    def __init__(self, *faults: Exception | None, wait: float = 0.0) -> None:
        self.asked: list[ChatRequest] = []
        self.waits: list[float] = []
        self._faults = faults
        self._wait = wait

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        number = len(self.asked) - 1
        await asyncio.sleep(self._wait)
        fault = self._faults[number] if number < len(self._faults) else None
        if fault is not None:
            raise fault
        return ChatReply((Choice(GOOD),) * request.n)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def of_toy(
    toy: Toy, request: ChatRequest | None = None, polls: int = 1, **settings: Any
) -> Answers[int]:
    run = Session(toy, **settings).during(
        store=None, concurrency=8, budget=Budget(sleep=toy.sleep)
    )
    return asyncio.run(run.ask(request or asked(), read, polls=polls))


def test_passing_faults_are_retried_with_growing_waits():
    toy = Toy(*(errors.TransientJudgeError("x"),) * 4)
    answers = of_toy(toy, attempts=5)
    assert outcomes(answers) == [1]
    assert (answers.usage.calls, answers.usage.faults) == (5, 4)
    assert all(0 <= wait <= 0.5 * 2**attempt for attempt, wait in enumerate(toy.waits))
    assert len(set(toy.waits)) == 4, (
        "without jitter, calls that failed together come back together"
    )


@pytest.mark.parametrize(
    ("retry_after", "low", "high"),
    [(7.0, 7.0, 7.5), (61.0, 61.0, 61.5), (0.0, 0.0, 0.5), (3600.0, None, None)],
)
def test_retry_after_is_honoured(retry_after, low, high):
    toy = Toy(errors.RateLimited("x", retry_after=retry_after))
    answers = of_toy(toy)
    if low is None or high is None:
        assert (toy.waits, outcomes(answers)) == ([], ["RateLimited"])
    else:
        (wait,) = toy.waits
        assert low <= wait <= high
        assert outcomes(answers) == [1]


def test_to_come_back_at_once_is_no_reason_not_to_back_off():
    toy = Toy(*(errors.RateLimited("x", retry_after=0.0),) * 7)
    of_toy(toy)
    assert max(toy.waits) > 0.5


def test_the_last_fault_is_a_value():
    answers = of_toy(Toy(*(errors.TransientJudgeError("x"),) * 9), polls=2, attempts=3)
    assert outcomes(answers) == ["TransientJudgeError"] * 2
    assert (answers.usage.calls, answers.usage.faults) == (3, 2)


def test_lasting_errors_are_not_retried():
    toy = Toy(errors.ContentRefused("x"))
    assert outcomes(of_toy(toy)) == ["ContentRefused"]
    assert len(toy.asked) == 1
    refused = of_toy(Toy(errors.AuthenticationFailed("x")))
    assert (outcomes(refused), refused.usage.calls) == (["AuthenticationFailed"], 1)


def test_a_call_times_out_but_queueing_does_not_count():
    assert outcomes(of_toy(Toy(wait=60), timeout=0.01, attempts=1)) == ["NoReplyInTime"]
    assert outcomes(of_toy(Toy(TimeoutError()), timeout=None, attempts=1)) == [
        "NoReplyInTime"
    ]
    # all together longer than the timeout, each on its own far shorter
    quick = Toy(wait=0.03)
    run = Session(quick, timeout=1.0, attempts=1).during(store=None, concurrency=1)

    async def work() -> list[Answers[int]]:
        return await asyncio.gather(
            *(run.ask(asked(str(number)), read) for number in range(40))
        )

    assert [outcomes(answers) for answers in asyncio.run(work())] == [[1]] * 40


@pytest.mark.parametrize(("refusals", "calls"), [(19, 40), (99, 21)])
def test_a_judge_that_answers_may_refuse_single_rows(refusals, calls):
    """A firewall may take offence at one text.

    A key that is revoked refuses all that follow.
    """
    toy = Toy(None, *(errors.AuthenticationFailed("blocked"),) * refusals)
    run = Session(toy).during(store=None, concurrency=1)

    async def ask(row: int) -> Answers[int]:
        judged_row.set(JudgedRow())
        return await run.ask(asked(str(row)), read)

    async def work() -> list[Answers[int]]:
        return await asyncio.gather(*map(ask, range(40)))

    answers = asyncio.run(work())
    assert len(toy.asked) == calls == sum(answer.usage.calls for answer in answers)
    n_answered = [outcomes(answer) for answer in answers].count([1])
    assert n_answered == 40 - min(refusals, 39)


@pytest.mark.parametrize(
    ("are_together", "is_readable"), [(False, True), (True, True), (True, False)]
)
def test_a_row_that_is_answered_is_none_that_its_judge_cannot_answer(
    are_together, is_readable
):
    """Of a verdict and its cause a small model may write the first one readably."""

    may_answer = asyncio.Event()

    class Small(Toy):
        async def complete(self, request: ChatRequest) -> ChatReply:
            is_verdict = request.messages[0].content.startswith("verdict")
            if is_verdict and are_together:
                await may_answer.wait()
            return ChatReply((Choice(GOOD if is_verdict and is_readable else "well"),))

    run = Session(Small()).during(store=None, concurrency=100)
    causes: list[Answers[int]] = []

    async def ask(number: int) -> list[Answers[int]]:
        judged_row.set(JudgedRow())
        verdict = asyncio.create_task(run.ask(asked(f"verdict {number}"), read))
        await (asyncio.sleep(0) if are_together else verdict)
        causes.append(await run.ask(asked(f"cause {number}"), read))
        if len(causes) >= 30:
            may_answer.set()
        return [await verdict, causes[-1]]

    async def work() -> list[list[Answers[int]]]:
        first = await asyncio.gather(*map(ask, range(30)))
        return [*first, *await asyncio.gather(*map(ask, range(30, 40)))]

    said = [outcomes(answers) for row in asyncio.run(work()) for answers in row]
    assert said.count([1]) == (40 if is_readable else 0)
    assert (["JudgeUnavailable"] in said) is not is_readable


# Slots, and the first call.


def test_a_run_that_has_ended_answers_for_no_other_run():
    class Failing(Toy):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(0)
            if request.messages[-1].content != "shared":
                raise errors.TransientJudgeError("m failed")
            return await super().complete(request)

    session = Session(Failing(), attempts=1)
    ended, other = run_of(session, concurrency=1), run_of(session)

    async def row(run: Session, number: int, text: str) -> Answers[int]:
        judged_row.set(JudgedRow())
        return await run.ask(asked(text), read)

    async def both() -> Any:
        rows = (row(ended, number, f"q {number}") for number in range(20))
        shared = (row(run, 20, "shared") for run in (ended, other))
        return await asyncio.gather(*rows, *shared)

    *_, of_ended, of_other = in_loop(both, session)
    assert "none of the last 20 rows" in str(of_ended.outcomes[0])
    assert outcomes(of_other) == [1]


def test_at_most_concurrency_are_in_flight_over_all_callers(loopback_server):
    six_in_flight = threading.Event()
    begun = itertools.count(1)

    def reply(_: Any) -> str:
        if server.most_in_flight >= 6:
            six_in_flight.set()
        # A server on this machine gets more calls at once when it has answered a few.
        is_early = next(begun) <= 4
        return GOOD if is_early or six_in_flight.wait(20) else "fewer were in flight"

    server = loopback_server(reply)
    session = session_of(server)

    async def work() -> list[Answers[int]]:
        runs = [run_of(session, concurrency=6) for _ in range(8)]
        return await asyncio.gather(
            *(
                run.ask(asked(f"{i} {j}"), read)
                for i, run in enumerate(runs)
                for j in range(8)
            )
        )

    assert [outcomes(answers) for answers in in_loop(work, session)] == [[1]] * 64
    assert len(server.requests) == 64
    assert server.most_in_flight == 6


@pytest.mark.nightly
@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("width", [1, 4])
def test_a_slow_server_of_this_machine_loses_no_request(width, drops):
    """The whole run takes longer than a call may take; nobody gives up."""
    with SlowServer(
        width=width, seconds=0.1, drops=drops, reply=lambda _: GOOD
    ) as server:
        model = OpenAICompatibleModel(
            server.base_url, "m", timeout=0.8, capabilities=Capabilities()
        )
        answers = ask_all(Session(model), *(asked(str(i)) for i in range(40)))
        assert [outcomes(answer) for answer in answers] == [[1]] * 40
        # each once, though a busy machine may stumble
        assert server.n_received <= 46


def test_a_server_slower_than_a_call_may_take_is_waited_for_longer():
    """Nothing is answered in the time of a call, so the time doubles."""
    with SlowServer(width=1, seconds=0.5, drops=True, reply=lambda _: GOOD) as server:
        model = OpenAICompatibleModel(server.base_url, "m", timeout=0.3)
        answers = ask_all(Session(model), *(asked(str(i)) for i in range(3)))
        assert [outcomes(answer) for answer in answers] == [[1]] * 3


def test_a_run_keeps_to_its_own_concurrency_beside_a_larger_one(loopback_server):
    server = loopback_server(lambda _: GOOD, latency=0.02)
    session = session_of(server)
    small_in_flight = most = 0

    async def small(run: Session, number: int) -> None:
        await run.ask(asked(f"small {number}"), read)

    async def work() -> None:
        nonlocal small_in_flight, most
        model = copy.copy(session.model)

        async def complete(request: ChatRequest) -> Any:
            nonlocal small_in_flight, most
            small_in_flight += request.messages[0].content.startswith("small")
            most = max(most, small_in_flight)
            try:
                return await model.complete(request)
            finally:
                small_in_flight -= request.messages[0].content.startswith("small")

        session.model.complete = complete  # type: ignore[method-assign]
        few, many = run_of(session, concurrency=2), run_of(session, concurrency=16)
        await asyncio.gather(
            *(small(few, number) for number in range(20)),
            *(many.ask(asked(str(n)), read) for n in range(60)),
        )

    in_loop(work, session)
    assert most == 2
    assert server.most_in_flight <= 16


def test_a_wrong_key_costs_one_request_over_all_runs_at_once(loopback_server):
    server = loopback_server(faults=lambda _: Fault(401, code="invalid_api_key"))
    session = session_of(server)

    async def work() -> list[Answers[int]]:
        runs = [run_of(session) for _ in range(200)]
        return await asyncio.gather(
            *(run.ask(asked(str(n)), read) for n, run in enumerate(runs))
        )

    assert [outcomes(answer) for answer in in_loop(work, session)] == [
        ["AuthenticationFailed"]
    ] * 200
    assert len(server.requests) == 1


def test_a_first_reply_that_takes_long_holds_nobody_up(loopback_server, monkeypatch):
    """It comes once others have been asked.

    Who waited for it first would wait for ever.
    """
    monkeypatch.setattr(features, "_PATIENCE_SECONDS", 0.1)
    others = threading.Event()

    def reply(_: Any) -> str:
        if len(server.requests) > 3:
            others.set()
        return GOOD if others.wait(20) else "nobody else was asked"

    server = loopback_server(reply)
    answers = ask_all(
        session_of(server), *(asked(str(number)) for number in range(40)), concurrency=6
    )
    assert [outcomes(answer) for answer in answers] == [[1]] * 40
    assert len(server.requests) == 40
    assert server.most_in_flight <= 6


@pytest.mark.parametrize("status", [400, 500, 501])
def test_requests_that_start_together_learn_once_what_is_refused(
    loopback_server, status
):
    """Also where they ask for different features: the second half asks for more."""
    server = loopback_server(
        lambda _: GOOD,
        **dict.fromkeys(("logprobs", "json_schema", "temperature"), "reject"),
        status=status,
    )
    few = [asked(str(number), schema={"type": "object"}) for number in range(12)]
    more = [replace(request, top_logprobs=5) for request in few]
    answers = ask_all(session_of(server), *few, *more)
    assert [outcomes(answer) for answer in answers] == [[1]] * 24
    refused = [server.rejection(request.body) for request in server.requests]
    # a schema is refused as a schema, and as JSON mode
    assert sorted(filter(None, refused)) == [
        "logprobs",
        "response_format",
        "response_format",
        "temperature",
    ]


def test_what_is_refused_is_learnt_once_though_the_first_answer_takes_long(
    loopback_server, monkeypatch
):
    """It comes once others have been asked, so that they cannot wait for it."""
    monkeypatch.setattr(features, "_PATIENCE_SECONDS", 1.5)
    others = threading.Event()

    def reply(_: Any) -> str:
        if len(server.requests) >= 2 + 3:
            others.set()
        return GOOD if others.wait(20) else "no others were asked"

    server = loopback_server(reply, json_schema="reject")
    requests = [asked(str(number), schema={"type": "object"}) for number in range(24)]
    answers = ask_all(session_of(server), *requests)
    assert [outcomes(answer) for answer in answers] == [[1]] * 24
    assert len(server.requests) == 2 + 24


@pytest.mark.parametrize("fault", [Fault(401), Fault(reset=True)])
def test_as_long_as_no_call_got_through_one_is_sent_at_a_time(loopback_server, fault):
    server = loopback_server(
        lambda _: GOOD,
        latency=0.02,
        faults=lambda number: fault if number < 3 else None,
    )
    ask_all(
        session_of(server, attempts=1), *(asked(str(number)) for number in range(3))
    )
    assert server.most_in_flight == 1


def test_after_an_outage_one_call_is_sent_alone(loopback_server, monkeypatch):
    server = loopback_server(
        lambda _: GOOD,
        latency=0.01,
        faults=lambda n: Fault(401) if n in (0, 1) else None,
    )
    session, offset = session_of(server), 0.0
    clock = time.monotonic
    monkeypatch.setattr(
        "ragmetrics_core.models.attempts.time.monotonic", lambda: clock() + offset
    )

    run = run_of(session)  # a long one, as of the background: a new one asks at once

    async def round_of(count: int) -> set[Any]:
        answers = await asyncio.gather(
            *(run.ask(asked(f"{offset} {n}"), read) for n in range(count))
        )
        return {outcome for answer in answers for outcome in outcomes(answer)}

    async def work() -> None:
        nonlocal offset
        assert await round_of(9) == {"AuthenticationFailed"}
        offset += 29
        assert await round_of(9) == {"AuthenticationFailed"}
        assert len(server.requests) == 1
        offset += 2
        assert await round_of(9) == {"AuthenticationFailed"}
        assert len(server.requests) == 2
        offset += 31
        assert await round_of(9) == {1}
        assert len(server.requests) == 11

    in_loop(work, session)


# Leaving.


def test_who_leaves_leaves_no_call_running(loopback_server):
    server = loopback_server(lambda _: GOOD, latency=0.05)
    session = session_of(server)

    async def work() -> int:
        run = run_of(session, concurrency=4)
        asking = [
            asyncio.ensure_future(run.ask(asked(str(n)), read, polls=3))
            for n in range(40)
        ]
        await asyncio.sleep(0.2)
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        sent = len(server.requests)
        await asyncio.sleep(0.2)
        assert len(server.requests) <= sent + 4  # what had left may arrive late
        answers = await asyncio.gather(
            *(run.ask(asked(f"more {n}"), read) for n in range(8))
        )
        return len(answers)

    assert in_loop(work, session) == 8
    assert server.most_in_flight <= 8  # the four given up may still be on the server


def test_a_session_is_pickled_without_what_it_shares(loopback_server):
    server = loopback_server(lambda _: GOOD)
    session = session_of(server)
    ask_all(session, asked())
    other: Session = pickle.loads(pickle.dumps(Session(_Plain(), attempts=3)))
    assert other.model.name == "plain"
    assert ask_all(session, asked("again"))[0].usage.calls == 1  # on a new loop


class _Plain:
    name = "plain"
