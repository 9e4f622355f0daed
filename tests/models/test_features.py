"""What an endpoint refuses is left out of requests, and learned on the way."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragmetrics_core import LLMJudge, OpenAICompatibleModel, evaluate
from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    JudgeError,
    RequestRejected,
    TransientJudgeError,
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
from ragmetrics_core.models.features import topics_of
from ragmetrics_core.models.session import Answers, Session
from ragmetrics_core.testing.chat_model_contract import REFUSED_FEATURES


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
    *rejected: str, ignored: tuple[str, ...] = ()
) -> Callable[[ChatRequest, int], ChatReply]:
    """An endpoint that rejects or ignores features."""

    def reply(request: ChatRequest, number: int) -> ChatReply:
        used = {
            "n": request.n > 1,
            "logprobs": request.top_logprobs > 0,
            "response_format": request.schema is not None or request.json_mode,
            "temperature": request.temperature is not None,
        }
        for name in rejected:
            if used[name]:
                raise RequestRejected(f"rejected (param {name})")
        count = 1 if "n" in ignored else request.n
        tokens = TOKENS if request.top_logprobs and "logprobs" not in ignored else ()
        return ChatReply((Choice("x", tokens=tokens),) * count)

    return reply


def test_a_capable_endpoint_gets_the_request_as_it_is():
    toy = Toy(endpoint())
    answers = ask(session_of(toy))
    assert [
        (request.n, request.schema, request.top_logprobs) for request in toy.asked
    ] == [(3, FULL.schema, 5)]
    assert answers.usage.fallbacks == ()


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
def test_rejected_features_are_learned(rejected, caplog):
    toy = Toy(endpoint(*rejected))
    session, names = session_of(toy), {"response_format": "json_schema"}
    lacked = {names.get(name, name) for name in rejected}
    for _ in range(4):
        answers = ask(session)
        assert len(texts(answers)) == 3
        assert set(answers.usage.fallbacks) == lacked
    without_json = {"json_mode"} if "response_format" in rejected else set()
    assert learned(session) == lacked | without_json
    before = len(toy.asked)
    ask(session)
    assert len(toy.asked) - before == (3 if "n" in rejected else 1)
    said = [record for record in caplog.records if record.name == "ragmetrics_core"]
    assert len(said) == len(rejected), "each is said once"


def test_a_refusal_that_names_no_feature_teaches_nothing():
    toy = Toy(failing(*(RequestRejected("rejected") for _ in range(4))))
    session = session_of(toy)
    run = session.during(store=None, concurrency=8)

    async def ask_thrice() -> list[Answers[str]]:
        questions = [replace(FULL, messages=(Message("user", it),)) for it in "abc"]
        return [
            await run.ask(each, lambda choice: choice.text, polls=3)
            for each in questions
        ]

    *rejected, answered = asyncio.run(ask_thrice())
    for answers in rejected:
        assert [str(failure) for failure in failures(answers)] == ["rejected"] * 3
    assert len(texts(answered)) == 3
    last = toy.asked[-1]
    assert (last.n, last.top_logprobs, last.schema) == (3, 5, FULL.schema)
    assert learned(session) == {"logprobs"}  # as the toy sends none
    # once without all features, and once more as it was
    assert [answers.usage.calls for answers in (*rejected, answered)] == [3, 1, 1]


@pytest.mark.parametrize("polls", [1, 3])
@pytest.mark.parametrize(
    ("is_refused", "lacked"),
    [
        (lambda request: request.n > 1, {"n"}),
        (lambda request: request.top_logprobs, {"logprobs"}),
        (lambda request: request.schema, {"json_schema"}),
        (lambda request: request.schema or request.json_mode, {"json_schema", "json_mode"}),
        (lambda request: request.max_tokens and not request.newer_limit, {"max_tokens"}),
        (lambda request: request.temperature == 0, {"temperature"}),
        (lambda request: request.messages[0].role == "system", {"system_role"}),
        (lambda request: request.top_logprobs or request.schema, {"logprobs", "json_schema"}),
    ],
)  # fmt: skip
def test_a_feature_that_a_rejection_does_not_name_is_found_and_learnt_once(
    is_refused, lacked, polls
):
    def reply(request: ChatRequest, number: int) -> ChatReply:
        if is_refused(request):
            raise RequestRejected("rejected the request (HTTP 400)")
        tokens = TOKENS if request.top_logprobs else ()
        return ChatReply((Choice("x", tokens=tokens),) * request.n)

    messages = (Message("system", "be short"), Message("user", "hello"))
    request = replace(FULL, messages=messages, temperature=0.0)
    if lacked == {"temperature"}:  # beside log-probabilities it is 1
        request = replace(request, top_logprobs=0)
    toy = Toy(reply)
    session = session_of(toy)
    for _ in range(2):
        answers = ask(session, request, polls)
        assert len(texts(answers)) == polls
    assert learned(session) == (lacked if lacked != {"n"} or polls > 1 else set())
    n_calls = polls if lacked == {"n"} else 1
    assert answers.usage.calls == n_calls


@pytest.mark.parametrize("n_rejected", [1, 2])
def test_a_rejection_that_passes_by_itself_teaches_nothing(n_rejected):
    """Some servers send a 400 while they load a model."""

    def reply(request: ChatRequest, number: int) -> ChatReply:
        if number < n_rejected:
            raise RequestRejected("the model is still loading, please try again")
        tokens = TOKENS if request.top_logprobs else ()
        return ChatReply((Choice(f"{request.n}", tokens=tokens),) * request.n)

    toy = Toy(reply)
    session = session_of(toy)
    answers = ask(session)
    assert texts(answers) == ["3"] * 3  # those of the whole request
    assert learned(session) == set()
    assert answers.usage.fallbacks == ()
    assert answers.usage.calls == len(toy.asked)


def test_log_probabilities_alone_are_not_given_up_for_another_cause():
    def reply(request: ChatRequest, number: int) -> ChatReply:
        raise RequestRejected("rejected the request (HTTP 400)")

    answers = ask(session_of(Toy(reply)), replace(FULL, needs_logprobs=True))
    assert {type(failure) for failure in failures(answers)} == {RequestRejected}


def test_words_of_the_prompt_in_a_refusal_teach_nothing():
    """The temperature that it names was not what it refused."""
    toy = Toy(
        failing(*(RequestRejected("of your temperature I know no") for _ in range(9)))
    )
    session = session_of(toy)
    run = session.during(store=None, concurrency=8)

    async def ask_twice() -> list[Answers[str]]:
        return [await run.ask(FULL, lambda choice: choice.text) for _ in range(2)]

    for answers in asyncio.run(ask_twice()):
        assert len(failures(answers)) == 1
    assert not learned(session)
    assert [request.temperature for request in toy.asked] == [1.0, None] * 2


def test_a_model_that_knows_only_the_newer_name_of_the_limit_gets_it():
    def reply(request: ChatRequest, number: int) -> ChatReply:
        if request.max_tokens is not None and not request.newer_limit:
            raise RequestRejected(
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


def test_ignored_n_is_topped_up_and_remembered():
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
def test_replies_left_out_are_asked_once_each(given, sent):
    toy = Toy(lambda request, _: ChatReply((Choice("x"),) * min(given, request.n)))
    answers = ask(session_of(toy), ChatRequest(FULL.messages), polls=sent[0])
    assert len(texts(answers)) == sent[0]
    assert [request.n for request in toy.asked] == sent


def test_ignored_log_probabilities_are_remembered():
    toy = Toy(endpoint(ignored=("logprobs",)))
    session = session_of(toy)
    assert ask(session).usage.fallbacks == ("logprobs",)
    ask(session)
    assert toy.asked[1].top_logprobs == 0
    assert "logprobs" in session.lacking()


def test_reasoning_models_get_no_temperature_and_more_room():
    toy = Toy(capabilities=Capabilities(temperature=False))
    ask(session_of(toy))
    assert {
        (request.temperature, request.n, request.max_tokens) for request in toy.asked
    } == {(None, 3, 1600)}


def test_what_is_stated_is_not_tried():
    toy = Toy(endpoint(), Capabilities(logprobs=False, json_schema=False, n=True))
    ask(session_of(toy))
    (request,) = toy.asked
    assert (request.top_logprobs, request.schema, request.n) == (0, None, 3)


def test_too_long_is_no_question_of_features():
    toy = Toy(failing(ContextWindowExceeded("long")))
    answers = ask(session_of(toy))
    assert len(toy.asked) == 1
    assert isinstance(failures(answers)[0], ContextWindowExceeded)


def test_one_failed_poll_does_not_lose_the_others():
    toy = Toy(failing(None, TransientJudgeError("x"), None), Capabilities(n=False))
    answers = ask(session_of(toy))
    assert len(texts(answers)) == 2
    assert [type(error) for error in failures(answers)] == [TransientJudgeError]


# Every feature, refused with every status, by an endpoint.

ROWS = [
    {
        "id": str(number),
        "question": f"When was tower {number} built?",
        "contexts": [f"Tower {number} was built in 1889.", "It is tall."],
        "answer": f"Tower {number} was built in 1889.",
        "citations": [{"start": 0, "end": 14, "contexts": [0]}],
        "reference": f"Tower {number} was built in 1889.",
    }
    for number in range(12)
]
METRICS = [
    "context_utilization",
    "context_adherence",
    "context_recall",
    "retrieval_accuracy",
    "context_sufficiency",
    "answer_relevance",
    "citation_quality",
]
FIELDS = {
    "n": "n",
    "logprobs": "logprobs",
    "json_schema": "response_format",
    "temperature": "temperature",
}


@pytest.mark.nightly
@pytest.mark.parametrize(("feature", "status"), REFUSED_FEATURES[4:])
def test_all_metrics_score_without_a_feature_and_ask_for_it_once(
    feature, status, loopback_server, caplog
):
    """Whatever the status of the refusal, which is said once."""
    server = loopback_server(status=status, **{feature: "reject"})
    model = OpenAICompatibleModel(server.base_url, "m", api_key="k")
    report = evaluate(ROWS, METRICS, judge=LLMJudge(model))
    statuses = {
        result.status for row in report.results for result in row.results.values()
    }
    assert "failed" not in statuses
    for metric in METRICS:
        assert any(score is not None for score in report.scores(metric)), metric
    asked_otherwise = [
        "Asked once for each context" in row.results["retrieval_accuracy"].reason
        for row in report.results
    ]
    assert asked_otherwise == [feature == "logprobs"] * len(ROWS)
    refused = [request for request in server.requests if server.rejection(request.body)]
    # a schema is refused as a schema, and as JSON mode
    assert len(refused) == (2 if feature == "json_schema" else 1)
    assert refused[0].body[FIELDS[feature]] is not None
    # LiteLLM, which other tests load, may log at any time
    ours = [each for each in caplog.records if each.name.startswith("ragmetrics_core")]
    said = [record.getMessage() for record in ours]
    assert said == [
        f"openai-compatible/m does not take {feature}, and is asked without"
    ]


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        ("guided decoding is not available for this model", "schema"),
        ("n must be 1 when using greedy sampling", "n"),
        ("You are not allowed to request logprobs from this model", "logprobs"),
        ("n: Extra inputs are not permitted", "n"),
        ("top_logprobs: Extra inputs are not permitted", "logprobs"),
    ],
)
def test_words_of_real_endpoints_name_a_feature(words, topic):
    assert topics_of(words) == (topic,)
