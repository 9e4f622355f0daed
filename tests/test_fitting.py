"""Requests fitted to what an endpoint can do, and what is learned on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ragmetrics_core.data.errors import (
    ConnectionFailed,
    ContextWindowExceeded,
    JudgeError,
    RequestRejected,
    UnsupportedParameter,
)
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    TokenAlternatives,
)
from ragmetrics_core.models.session import Answers, Session


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
        self._reply = reply or (
            lambda request, number: ChatReply((Choice(f"reply {number}"),) * request.n)
        )
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


def failing(*failures: Exception | None) -> Callable[[ChatRequest, int], ChatReply]:
    def reply(request: ChatRequest, number: int) -> ChatReply:
        failure = failures[number] if number < len(failures) else None
        if failure is not None:
            raise failure
        return ChatReply((Choice(f"reply {number}"),) * request.n)

    return reply


FULL = ChatRequest(
    (Message("user", "hello"),),
    schema={"type": "object"},
    temperature=1.0,
    top_logprobs=5,
    max_tokens=100,
)
TOKENS = (TokenAlternatives("x", 0.0, ()),)


def session_of(toy: Toy) -> Session:
    return Session(toy, attempts=1)


def ask(session: Session, request: ChatRequest = FULL, polls: int = 3) -> Answers[str]:
    """Ask in a run of its own."""
    return asyncio.run(
        session.during(store=None, concurrency=8).ask(
            request, lambda choice: choice.text, polls=polls
        )
    )


def texts(answers: Answers[str]) -> list[str]:
    return [
        outcome for outcome in answers.outcomes if not isinstance(outcome, JudgeError)
    ]


def failures(answers: Answers[str]) -> list[JudgeError]:
    return [outcome for outcome in answers.outcomes if isinstance(outcome, JudgeError)]


def learned(session: Session) -> set[str]:
    """Features that the model lacks.

    Toys state nothing, so that all of it was learned.
    """
    return session.lacking()


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
                raise UnsupportedParameter(
                    f"rejected (param {name})" if helpful else "rejected"
                )
        count = 1 if "n" in ignored else request.n
        tokens = TOKENS if request.top_logprobs and "logprobs" not in ignored else ()
        return ChatReply((Choice("x", tokens=tokens),) * count)

    return reply


def test_a_capable_endpoint_gets_the_request_as_it_is() -> None:
    toy = Toy(endpoint())
    answers = ask(session_of(toy))
    assert [
        (request.n, request.schema, request.top_logprobs) for request in toy.asked
    ] == [(3, FULL.schema, 5)]
    assert answers.usage.fallbacks == ()


def test_what_is_rejected_only_one_by_one_is_given_up_too() -> None:
    """As with models of frameworks that leave the schema out where several replies are asked for."""

    def reply(request: ChatRequest, number: int) -> ChatReply:
        if request.n == 1 and request.schema is not None:
            raise UnsupportedParameter("rejected (response_format)")
        return ChatReply((Choice(f"{number}", tokens=TOKENS),))

    toy = Toy(reply)
    session = session_of(toy)
    answers = ask(session)
    assert texts(answers)[0] == "0"
    assert len(texts(answers)) == 3
    assert set(answers.usage.fallbacks) == {"n", "json_schema"}
    assert learned(session) == {"n", "json_schema", "schema_form"}
    assert answers.usage.calls == len(toy.asked)


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
def test_rejected_features_are_learned(
    rejected: tuple[str, ...], helpful: bool
) -> None:
    toy = Toy(endpoint(*rejected, helpful=helpful))
    session, names = session_of(toy), {"response_format": "json_schema"}
    for _ in range(4):
        answers = ask(session)
        assert len(texts(answers)) == 3
        assert {names.get(name, name) for name in rejected} <= set(
            answers.usage.fallbacks
        )
    # what is lacking with it
    follows = {"temperature": {"n"}, "response_format": {"schema_form"}}
    lacked = {names.get(name, name) for name in rejected}
    assert learned(session) == lacked.union(
        *(follows.get(name, set()) for name in rejected)
    )
    before = len(toy.asked)
    ask(session)
    assert len(toy.asked) - before == (3 if {"n", "temperature"} & set(rejected) else 1)


def test_a_model_that_knows_only_the_newer_name_of_the_limit_gets_it() -> None:
    def reply(request: ChatRequest, number: int) -> ChatReply:
        if request.max_tokens is not None and not request.newer_limit:
            raise UnsupportedParameter(
                "does not support a parameter of the request (HTTP 400, max_tokens)"
            )
        return ChatReply((Choice("x", tokens=TOKENS),) * request.n)

    toy = Toy(reply)
    session = session_of(toy)
    for _ in range(2):
        answers = ask(session)
        assert len(texts(answers)) == 3
        assert answers.usage.fallbacks == ()
    assert [request.newer_limit for request in toy.asked] == [False, True, True]
    assert {
        (request.max_tokens, request.n, request.top_logprobs) for request in toy.asked
    } == {(100, 3, 5)}


def test_the_limit_is_not_renamed_for_another_fault() -> None:
    toy = Toy(failing(*(RequestRejected("rejected the request (HTTP 400)"),) * 20))
    ask(session_of(toy))
    assert not any(request.newer_limit for request in toy.asked)


def test_ignored_n_is_topped_up_and_remembered() -> None:
    toy = Toy(endpoint(ignored=("n",)))
    session = session_of(toy)
    answers = ask(session)
    assert len(texts(answers)) == 3
    assert answers.usage.fallbacks == ("n",)
    assert [request.n for request in toy.asked] == [3, 1, 1]
    ask(session)
    assert [request.n for request in toy.asked[3:]] == [1, 1, 1]
    assert "n" in session.lacking()


@pytest.mark.parametrize(
    ("given", "sent"), [(1, [2, 1]), (2, [3, 1]), (2, [5, 1, 1, 1])]
)
def test_replies_left_out_are_asked_once_each(given: int, sent: list[int]) -> None:
    toy = Toy(lambda request, _: ChatReply((Choice("x"),) * min(given, request.n)))
    answers = ask(session_of(toy), ChatRequest(FULL.messages), polls=sent[0])
    assert len(texts(answers)) == sent[0]
    assert [request.n for request in toy.asked] == sent


def test_ignored_log_probabilities_are_remembered() -> None:
    toy = Toy(endpoint(ignored=("logprobs",)))
    session = session_of(toy)
    assert ask(session).usage.fallbacks == ("logprobs",)
    ask(session)
    assert toy.asked[1].top_logprobs == 0
    assert "logprobs" in session.lacking()


def test_reasoning_models_get_no_temperature_no_n_and_more_room() -> None:
    toy = Toy(capabilities=Capabilities(temperature=False))
    ask(session_of(toy))
    assert {
        (request.temperature, request.n, request.max_tokens) for request in toy.asked
    } == {(None, 1, 1600)}


def test_what_is_stated_is_not_tried() -> None:
    toy = Toy(endpoint(), Capabilities(logprobs=False, json_schema=False, n=True))
    ask(session_of(toy))
    (request,) = toy.asked
    assert (request.top_logprobs, request.schema, request.n) == (0, None, 3)


def test_a_request_that_is_rejected_anyway_teaches_nothing() -> None:
    toy = Toy(failing(*(RequestRejected(f"no {number}") for number in range(99))))
    session = session_of(toy)
    answers = ask(session)
    assert len(failures(answers)) == 3
    assert not learned(session)
    # as it is, and without each of five features
    assert answers.usage.calls == len(toy.asked) == 6


def test_a_request_without_features_is_rejected_once() -> None:
    toy = Toy(
        failing(*(RequestRejected("no") for _ in range(9))),
        Capabilities(False, False, False, False),
    )
    ask(session_of(toy))
    assert len(toy.asked) == 3  # singly, and none of them in another form


def test_too_long_is_no_question_of_features() -> None:
    toy = Toy(failing(ContextWindowExceeded("long")))
    answers = ask(session_of(toy))
    assert len(toy.asked) == 1
    assert isinstance(failures(answers)[0], ContextWindowExceeded)


def test_one_failed_poll_does_not_lose_the_others() -> None:
    toy = Toy(failing(None, ConnectionFailed("x"), None), Capabilities(n=False))
    answers = ask(session_of(toy))
    assert len(texts(answers)) == 2
    assert [type(error) for error in failures(answers)] == [ConnectionFailed]
