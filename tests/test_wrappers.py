"""Wrappers around chat models: limits, retries, store, single flight, adapting."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextWindowExceeded,
    JudgeTimeout,
    JudgeUnavailable,
    RateLimited,
    RequestRejected,
    UnsupportedParameter,
)
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.adapting import Adapting, Learned
from ragmetrics_core.endpoints.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    TokenAlternatives,
)
from ragmetrics_core.endpoints.limited import Limited
from ragmetrics_core.endpoints.store import MemoryStore
from ragmetrics_core.endpoints.stored import Stored
from ragmetrics_core.endpoints.wrappers import Retrying

REQUEST = ChatRequest((Message("user", "hello"),))


class Toy(ChatModel):
    """A model that replies as told and records what it was asked."""

    def __init__(
        self,
        reply: Callable[[ChatRequest, int], ChatReply] | None = None,
        capabilities: Capabilities = Capabilities(),  # noqa: B008 - frozen
        wait: float = 0.0,
    ) -> None:
        self.asked: list[ChatRequest] = []
        self.in_flight = 0
        self.most = 0
        self._reply = reply or (lambda request, number: ChatReply((Choice(f"reply {number}"),) * request.n))
        self._capabilities = capabilities
        self._wait = wait

    @property
    def name(self) -> str:
        return "toy"

    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        number = len(self.asked) - 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self._wait)
            return self._reply(request, number)
        finally:
            self.in_flight -= 1


class Waits:
    """Stands in for sleeping; records how long."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def failing(*failures: Exception | None) -> Callable[[ChatRequest, int], ChatReply]:
    def reply(request: ChatRequest, number: int) -> ChatReply:
        failure = failures[number] if number < len(failures) else None
        if failure is not None:
            raise failure
        return ChatReply((Choice(f"reply {number}"),) * request.n)

    return reply


def poll(number: int, n: int = 1) -> ChatRequest:
    return ChatRequest(REQUEST.messages, n=n, first_poll=number)


# Limited


async def _together(model: ChatModel, count: int) -> list[ChatReply | BaseException]:
    return await asyncio.gather(*(model.complete(poll(number)) for number in range(count)), return_exceptions=True)


def test_the_first_call_runs_alone_and_then_at_most_the_limit() -> None:
    async def run() -> None:
        toy = Toy()
        gate = asyncio.Event()
        model = Limited(toy, 3, None)

        async def wait(request: ChatRequest) -> ChatReply:
            toy.asked.append(request)
            toy.in_flight += 1
            toy.most = max(toy.most, toy.in_flight)
            await gate.wait()
            toy.in_flight -= 1
            return ChatReply((Choice("x"),))

        toy.complete = wait
        task = asyncio.ensure_future(_together(model, 10))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(toy.asked) == 1
        gate.set()
        assert all(isinstance(reply, ChatReply) for reply in await task)
        assert toy.most <= 3
        assert len(toy.asked) == 10

    asyncio.run(run())


def test_an_unavailable_judge_is_called_once() -> None:
    toy = Toy(failing(*(AuthenticationFailed("no key"),) * 10))
    replies = asyncio.run(_together(Limited(toy, 8, None), 10))
    assert len(toy.asked) == 1
    assert all(isinstance(reply, AuthenticationFailed) for reply in replies)


def test_a_judge_that_answers_may_refuse_single_calls() -> None:
    """A firewall may take offence at one text; a key that is revoked refuses all that follow."""
    toy = Toy(failing(None, *(AuthenticationFailed("blocked"),) * 31, None, AuthenticationFailed("blocked")))
    replies = asyncio.run(_together(Limited(toy, 1, None), 40))
    assert len(toy.asked) == 40
    assert sum(isinstance(reply, AuthenticationFailed) for reply in replies) == 32


def test_refusals_in_a_row_end_the_session() -> None:
    toy = Toy(failing(None, *(AuthenticationFailed("revoked"),) * 100))
    replies = asyncio.run(_together(Limited(toy, 1, None), 100))
    assert len(toy.asked) == 1 + 32
    assert sum(isinstance(reply, AuthenticationFailed) for reply in replies) == 99


def test_a_passing_fault_of_the_first_call_opens_the_gate() -> None:
    toy = Toy(failing(RateLimited("slow")))
    replies = asyncio.run(_together(Limited(toy, 4, None), 5))
    assert [type(reply) for reply in replies] == [RateLimited] + [ChatReply] * 4


def test_a_call_times_out_but_queueing_does_not_count() -> None:
    toy = Toy(wait=60)
    with pytest.raises(JudgeTimeout):
        asyncio.run(Limited(toy, 1, 0.01).complete(REQUEST))
    with pytest.raises(JudgeTimeout, match="in time"):
        asyncio.run(Limited(Toy(failing(TimeoutError())), 1, None).complete(REQUEST))
    quick = Toy(wait=0.03)  # all together longer than the timeout, each on its own far shorter
    replies = asyncio.run(_together(Limited(quick, 1, 1.0), 40))
    assert all(isinstance(reply, ChatReply) for reply in replies)


def test_a_cancelled_first_call_leaves_its_place_to_the_next() -> None:
    async def run() -> None:
        toy = Toy(wait=60)
        model = Limited(toy, 4, None)
        first = asyncio.ensure_future(model.complete(REQUEST))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        toy._wait = 0
        assert all(isinstance(reply, ChatReply) for reply in await _together(model, 3))

    asyncio.run(run())


# Retrying


def test_passing_faults_are_retried_with_growing_waits() -> None:
    waits = Waits()
    toy = Toy(failing(*(ConnectionFailed("x"),) * 4))
    reply = asyncio.run(Retrying(toy, 5, waits).complete(REQUEST))
    assert reply.choices[0].text == "reply 4"
    assert (reply.usage.calls, reply.usage.faults) == (5, 4)
    assert all(0 <= wait <= 0.5 * 2**attempt for attempt, wait in enumerate(waits.seconds))
    assert len(set(waits.seconds)) == 4, "without jitter, workers that failed together come back together"


def test_no_request_is_repeated_beyond_its_deadline() -> None:
    toy = Toy(failing(ConnectionFailed("x")))
    reply = asyncio.run(Retrying(toy, 5, Waits(), deadline=0.0).complete(REQUEST))
    assert len(toy.asked) == 1
    assert isinstance(reply.failures[0], ConnectionFailed)


def test_to_come_back_at_once_is_no_reason_not_to_back_off() -> None:
    waits = Waits()
    asyncio.run(Retrying(Toy(failing(*(RateLimited("x", retry_after=0.0),) * 7)), 8, waits).complete(REQUEST))
    assert max(waits.seconds) > 0.5


def test_retry_after_is_honoured() -> None:
    waits = Waits()
    toy = Toy(failing(RateLimited("x", retry_after=7.0)))
    asyncio.run(Retrying(toy, 5, waits).complete(REQUEST))
    (wait,) = waits.seconds
    assert 7.0 < wait <= 7.5


def test_more_than_a_minute_is_waited_for() -> None:
    waits = Waits()
    asyncio.run(Retrying(Toy(failing(RateLimited("x", retry_after=61.0))), 5, waits).complete(REQUEST))
    assert 61.0 < waits.seconds[0] <= 61.5


def test_a_long_retry_after_is_not_waited_for() -> None:
    waits = Waits()
    toy = Toy(failing(RateLimited("x", retry_after=3600.0)))
    reply = asyncio.run(Retrying(toy, 5, waits).complete(REQUEST))
    assert not waits.seconds
    assert isinstance(reply.failures[0], RateLimited)


def test_the_last_fault_is_a_value() -> None:
    toy = Toy(failing(*(JudgeTimeout("x"),) * 9))
    reply = asyncio.run(Retrying(toy, 3, Waits()).complete(poll(0, 2)))
    assert not reply.choices
    assert [type(error) for error in reply.failures] == [JudgeTimeout] * 2
    assert (reply.usage.calls, reply.usage.faults) == (3, 2)


def test_lasting_errors_are_not_retried() -> None:
    toy = Toy(failing(RequestRejected("x")))
    reply = asyncio.run(Retrying(toy, 5, Waits()).complete(REQUEST))
    assert len(toy.asked) == 1
    assert isinstance(reply.failures[0], RequestRejected)
    with pytest.raises(JudgeUnavailable):
        asyncio.run(Retrying(Toy(failing(AuthenticationFailed("x"))), 5, Waits()).complete(REQUEST))


# Stored


def test_equal_requests_are_asked_once() -> None:
    async def run() -> None:
        toy = Toy()
        model = Stored(toy, MemoryStore())
        together = await asyncio.gather(*(model.complete(REQUEST) for _ in range(5)))
        later = await model.complete(REQUEST)
        assert len(toy.asked) == 1
        assert {reply.choices for reply in (*together, later)} == {(Choice("reply 0"),)}
        assert sum(reply.usage.stored for reply in together) == 4
        assert later.usage == Usage(stored=1)

    asyncio.run(run())


def test_polls_are_kept_one_by_one() -> None:
    async def run() -> None:
        toy = Toy(lambda request, number: ChatReply(tuple(Choice(f"{number}.{i}") for i in range(request.n))))
        model = Stored(toy, MemoryStore())
        await model.complete(poll(1, 2))
        reply = await model.complete(poll(0, 5))
        assert [choice.text for choice in reply.choices] == ["1.0", "0.0", "0.1", "1.1", "1.2"]
        assert reply.usage.stored == 2
        assert [request.n for request in toy.asked] == [2, 3]

    asyncio.run(run())


def test_what_changes_a_reply_is_in_the_key() -> None:
    async def run() -> None:
        toy = Toy()
        model = Stored(toy, MemoryStore())
        variants = [
            REQUEST,
            ChatRequest((Message("user", "hello!"),)),
            ChatRequest((Message("system", "hello"),)),
            ChatRequest(REQUEST.messages, schema={"type": "object"}),
            ChatRequest(REQUEST.messages, temperature=1.0),
            ChatRequest(REQUEST.messages, top_logprobs=5),
            ChatRequest(REQUEST.messages, max_tokens=5),
            poll(1),
        ]
        for request in variants:
            await model.complete(request)
        assert len(toy.asked) == len(variants)

    asyncio.run(run())


@pytest.mark.parametrize(("name", "endpoint"), [("other", "here"), ("toy", "there")])
def test_models_and_endpoints_have_replies_of_their_own(name: str, endpoint: str) -> None:
    class Placed(Toy):
        def __init__(self, name: str, endpoint: str) -> None:
            super().__init__()
            self._place = (name, endpoint)

        @property
        def name(self) -> str:
            return self._place[0]

        @property
        def endpoint(self) -> str:
            return self._place[1]

    async def run() -> None:
        store = MemoryStore()
        models = Placed("toy", "here"), Placed(name, endpoint), Placed("toy", "here")
        for model in models:
            await Stored(Adapting(Retrying(Limited(model, 1, None), 1), Learned()), store).complete(REQUEST)
        assert [len(model.asked) for model in models] == [1, 1, 0]

    asyncio.run(run())


def test_a_rejected_reply_is_asked_again() -> None:
    async def run() -> None:
        toy = Toy()
        model = Stored(toy, MemoryStore())
        await model.complete(REQUEST)
        model.reject(REQUEST)
        assert (await model.complete(REQUEST)).choices[0].text == "reply 1"

    asyncio.run(run())


def test_failures_are_not_kept_and_reach_everyone_who_waits() -> None:
    async def run() -> None:
        toy = Toy(failing(RequestRejected("x")))
        model = Stored(Retrying(toy, 1), MemoryStore())
        replies = await asyncio.gather(model.complete(REQUEST), model.complete(REQUEST))
        assert all(isinstance(reply.failures[0], RequestRejected) for reply in replies)
        assert len(toy.asked) == 1
        assert (await model.complete(REQUEST)).choices

    asyncio.run(run())


def test_who_waits_for_a_cancelled_call_asks_again() -> None:
    async def run() -> None:
        toy = Toy(wait=0.01)
        model = Stored(toy, MemoryStore())
        owner = asyncio.ensure_future(model.complete(REQUEST))
        await asyncio.sleep(0)
        waiter = asyncio.ensure_future(model.complete(REQUEST))
        await asyncio.sleep(0)
        owner.cancel()
        assert (await waiter).choices[0].text == "reply 1"

    asyncio.run(run())


def test_who_is_cancelled_while_waiting_leaves_the_call_to_its_owner() -> None:
    async def run() -> None:
        toy = Toy(wait=0.01)
        model = Stored(toy, MemoryStore())
        owner, waiter = (asyncio.ensure_future(model.complete(REQUEST)) for _ in range(2))
        await asyncio.sleep(0)
        waiter.cancel()
        assert (await owner).choices[0].text == "reply 0"
        assert waiter.cancelled()
        assert len(toy.asked) == 1

    asyncio.run(run())


def test_a_memory_store_is_bounded() -> None:
    store = MemoryStore(2)
    for key in "abc":
        store.put({key: Choice(key)}, Usage())
    assert store.get("a") is None
    assert len(store) == 2


# Adapting

FULL = ChatRequest(REQUEST.messages, schema={"type": "object"}, n=3, temperature=1.0, top_logprobs=5, max_tokens=100)
TOKENS = (TokenAlternatives("x", 0.0, ()),)


def adapting(toy: Toy, learned: Learned | None = None) -> Adapting:
    return Adapting(Retrying(toy, 1), learned or Learned())


def endpoint(
    *rejected: str, ignored: tuple[str, ...] = (), helpful: bool = True
) -> Callable[[ChatRequest, int], ChatReply]:
    """An endpoint that rejects or ignores features."""

    def reply(request: ChatRequest, number: int) -> ChatReply:
        used = {
            "n": request.n > 1,
            "logprobs": request.top_logprobs > 0,
            "response_format": request.schema is not None,
            "temperature": request.temperature is not None,
        }
        for name in rejected:
            if used[name]:
                raise UnsupportedParameter(f"rejected (param {name})" if helpful else "rejected")
        count = 1 if "n" in ignored else request.n
        tokens = TOKENS if request.top_logprobs and "logprobs" not in ignored else ()
        return ChatReply((Choice("x", tokens=tokens),) * count)

    return reply


def test_a_capable_endpoint_gets_the_request_as_it_is() -> None:
    toy = Toy(endpoint())
    reply = asyncio.run(adapting(toy).complete(FULL))
    assert toy.asked == [FULL]
    assert reply.usage.fallbacks == ()


def test_what_is_rejected_only_one_by_one_is_given_up_too() -> None:
    """As with models of frameworks that leave the schema out where several replies are asked for."""

    def reply(request: ChatRequest, number: int) -> ChatReply:
        if request.n == 1 and request.schema is not None:
            raise UnsupportedParameter("rejected (response_format)")
        return ChatReply((Choice(f"{request.first_poll}", tokens=TOKENS),))

    arrived: dict[int, str] = {}
    toy, learned = Toy(reply), Learned()
    request = replace(FULL, first_poll=2, arrived=lambda at, one: arrived.update({at: one.choices[0].text}))
    got = asyncio.run(adapting(toy, learned).complete(request))
    assert [choice.text for choice in got.choices] == ["2", "3", "4"]
    assert arrived == {0: "2", 1: "3", 2: "4"}
    assert set(got.usage.fallbacks) == learned.missing == {"n", "json_schema"}
    assert got.usage.calls == len(toy.asked)


@pytest.mark.parametrize("helpful", [True, False])
@pytest.mark.parametrize(
    "rejected",
    [
        ("n",),
        ("logprobs",),
        ("response_format",),
        ("temperature",),
        ("n", "logprobs"),
        ("temperature", "response_format"),
    ],
)
def test_rejected_features_are_learned(rejected: tuple[str, ...], helpful: bool) -> None:
    toy = Toy(endpoint(*rejected, helpful=helpful))
    learned = Learned()
    for _ in range(4):
        reply = asyncio.run(adapting(toy, learned).complete(FULL))
        assert len(reply.choices) == 3
        names = {"response_format": "json_schema"}
        assert {names.get(name, name) for name in rejected} <= set(reply.usage.fallbacks)
    assert learned.missing == {names.get(name, name) for name in rejected}
    before = len(toy.asked)
    asyncio.run(adapting(toy, learned).complete(FULL))
    assert len(toy.asked) - before == (3 if {"n", "temperature"} & set(rejected) else 1)


def test_a_model_that_knows_only_the_newer_name_of_the_limit_gets_it() -> None:
    def reply(request: ChatRequest, number: int) -> ChatReply:
        if request.max_tokens is not None and not request.newer_limit:
            raise UnsupportedParameter("does not support a parameter of the request (HTTP 400, max_tokens)")
        return ChatReply((Choice("x", tokens=TOKENS),) * request.n)

    toy = Toy(reply)
    learned = Learned()
    for _ in range(2):
        found = asyncio.run(adapting(toy, learned).complete(FULL))
        assert len(found.choices) == 3
        assert found.usage.fallbacks == ()
    assert [request.newer_limit for request in toy.asked] == [False, True, True]
    assert {(request.max_tokens, request.n, request.top_logprobs) for request in toy.asked} == {(100, 3, 5)}


def test_the_limit_is_not_renamed_for_another_fault() -> None:
    toy = Toy(failing(*(RequestRejected("rejected the request (HTTP 400)"),) * 20))
    asyncio.run(adapting(toy).complete(FULL))
    assert not any(request.newer_limit for request in toy.asked)


def test_ignored_n_is_topped_up_and_remembered() -> None:
    toy = Toy(endpoint(ignored=("n",)))
    model = adapting(toy)
    reply = asyncio.run(model.complete(FULL))
    assert len(reply.choices) == 3
    assert reply.usage.fallbacks == ("n",)
    assert [request.n for request in toy.asked] == [3, 1, 1]
    asyncio.run(model.complete(FULL))
    assert [request.n for request in toy.asked[3:]] == [1, 1, 1]
    assert model.capabilities().n is False


@pytest.mark.parametrize(("given", "sent"), [(1, [2, 1]), (2, [3, 1]), (2, [5, 1, 1, 1])])
def test_replies_left_out_are_asked_once_each(given: int, sent: list[int]) -> None:
    toy = Toy(lambda request, _: ChatReply((Choice("x"),) * min(given, request.n)))
    model = Stored(adapting(toy), MemoryStore())
    reply = asyncio.run(model.complete(ChatRequest(REQUEST.messages, n=sent[0])))
    assert len(reply.choices) == sent[0]
    assert [request.n for request in toy.asked] == sent


def test_ignored_log_probabilities_are_remembered() -> None:
    toy = Toy(endpoint(ignored=("logprobs",)))
    model = adapting(toy)
    assert asyncio.run(model.complete(FULL)).usage.fallbacks == ("logprobs",)
    asyncio.run(model.complete(FULL))
    assert toy.asked[1].top_logprobs == 0
    assert model.capabilities().logprobs is False


def test_reasoning_models_get_no_temperature_no_n_and_more_room() -> None:
    toy = Toy(capabilities=Capabilities(temperature=False))
    asyncio.run(adapting(toy).complete(FULL))
    assert {(request.temperature, request.n, request.max_tokens) for request in toy.asked} == {(None, 1, 1600)}


def test_what_is_stated_is_not_tried() -> None:
    toy = Toy(endpoint(), Capabilities(logprobs=False, json_schema=False, n=True))
    asyncio.run(adapting(toy).complete(FULL))
    (request,) = toy.asked
    assert (request.top_logprobs, request.schema, request.n) == (0, None, 3)


def test_a_request_that_is_rejected_anyway_teaches_nothing() -> None:
    toy = Toy(failing(*(RequestRejected(f"no {number}") for number in range(99))))
    learned = Learned()
    reply = asyncio.run(adapting(toy, learned).complete(FULL))
    assert str(reply.failures[0]) == "no 0"
    assert not learned.missing
    assert reply.usage.calls == len(toy.asked)


def test_a_request_without_features_is_rejected_once() -> None:
    toy = Toy(failing(*(RequestRejected("no") for _ in range(9))), Capabilities(False, False, False, False))
    asyncio.run(adapting(toy, Learned()).complete(FULL))
    assert len(toy.asked) == FULL.n  # singly, and none of them in another form


def test_too_long_is_no_question_of_features() -> None:
    toy = Toy(failing(ContextWindowExceeded("long")))
    reply = asyncio.run(adapting(toy).complete(FULL))
    assert len(toy.asked) == 1
    assert isinstance(reply.failures[0], ContextWindowExceeded)


def test_one_failed_poll_does_not_lose_the_others() -> None:
    toy = Toy(failing(None, ConnectionFailed("x"), None), Capabilities(n=False))
    reply = asyncio.run(adapting(toy).complete(FULL))
    assert len(reply.choices) == 2
    assert [type(error) for error in reply.failures] == [ConnectionFailed]
