"""Code of somebody else (models, judges, metrics, replies, endpoints): one failure of it is one failed result.

Whatever it raises or says, all other rows are judged, the run ends, and what left and
was paid is counted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from collections.abc import Callable
from typing import Any

import pytest
from loopback import Fault
from pydantic import BaseModel, PrivateAttr, field_validator

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    Limits,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    Question,
    Report,
    Sample,
    ScriptedJudge,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.data.asking import Instructions, Part
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    JudgeUnavailable,
    QuestionNotSupported,
    SettingError,
    TransientJudgeError,
)
from ragmetrics_core.data.replies import Answer, Asked, Usage
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice

ROWS = [
    {
        "question": "Who?",
        "contexts": [f"Anna lit lamp {n}."],
        "answer": f"Anna lit lamp {n}.",
    }
    for n in range(6)
]
SAYS_YES = ScriptedJudge({Useful: {"useful": True}})
VERDICT = '{"useful": 1, "reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
COST = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=0.5)


class Unspeakable(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class TooMany(Unspeakable):
    """Says how it is by its status alone."""

    status_code = 429


RAISED: list[BaseException] = [
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    KeyboardInterrupt(),
    SystemExit(),
    GeneratorExit(),
    StopAsyncIteration(),
    TimeoutError(),
    ZeroDivisionError(),
    ExceptionGroup("several", [ValueError("a")]),
    Unspeakable(),
    TooMany(),
]


class Model(ChatModel):
    """Answers, but for the call with the text of one row, which raises."""

    name = "foreign"
    cache_key = None

    def __init__(
        self,
        error: BaseException | None = None,
        *,
        prices: Any = None,
        reply: Any = None,
    ) -> None:
        self.calls, self._error, self._prices, self._reply = 0, error, prices, reply

    def prices(self) -> Any:
        return self._prices

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        await asyncio.sleep(0)
        if self._error is not None and any(
            "lamp 3" in message.content for message in request.messages
        ):
            raise self._error
        return self._reply or ChatReply((Choice(VERDICT),) * request.n, COST)


class Raising(Judge):
    """A judge that raises at one row, or whose own task does."""

    name = "raising"

    def __init__(self, error: BaseException, *, in_task: bool) -> None:
        self._error, self._in_task = error, in_task

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        if self._in_task:
            return await asyncio.ensure_future(self._answer(question))
        return await self._answer(question)

    async def _answer(self, question: Question[Any]) -> Answer[Any]:
        await asyncio.sleep(0)
        if any(
            "lamp 3" in text for part in question.parts.values() for text in part.texts
        ):
            raise self._error
        return await SAYS_YES.answer(question)


class RaisingMetric(Metric):
    """Raises at one row, where it is told to."""

    name: str = "foreign"
    where: str
    _error: BaseException = PrivateAttr()

    @classmethod
    def at(cls, where: str, error: BaseException) -> RaisingMetric:
        made = cls(where=where)
        made._error = error
        return made

    def _raise_at(self, where: str, sample: Sample) -> None:
        if where == self.where and "lamp 3" in (sample.answer or ""):
            raise self._error

    def gap(self, sample: Sample) -> Any:
        self._raise_at("gap", sample)
        return super().gap(sample)

    def plan(self, sample: Sample) -> Any:
        self._raise_at("plan", sample)
        yield from ask([next(ContextUtilization().plan(sample))[0]])
        self._raise_at("end of plan", sample)
        return self.scored(1.0, "")


def plain(error: BaseException) -> Metric:
    @metric(name="foreign")
    def raises(sample: Sample) -> float:
        if "lamp 3" in (sample.answer or ""):
            raise error
        return 1.0

    return raises


PLACES: dict[str, Callable[[BaseException], tuple[Metric, Judge]]] = {
    "model": lambda error: (ContextUtilization(), LLMJudge(Model(error), attempts=1)),
    "model, several polls": lambda error: (
        ContextAdherence(polls=3),
        LLMJudge(Model(error), attempts=1),
    ),
    "judge": lambda error: (ContextUtilization(), Raising(error, in_task=False)),
    "judge, in a task of its own": lambda error: (
        ContextUtilization(),
        Raising(error, in_task=True),
    ),
    "function": lambda error: (plain(error), SAYS_YES),
    **{
        where: lambda error, where=where: (RaisingMetric.at(where, error), SAYS_YES)  # type: ignore[misc]
        for where in ("gap", "plan", "end of plan")
    },
}


@pytest.mark.parametrize(
    "error",
    RAISED,
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
@pytest.mark.parametrize("place", PLACES)
def test_whatever_is_raised_fails_one_row_and_all_others_are_judged(place, error):
    own, judge = PLACES[place](error)
    report = evaluate(ROWS, own, judge=judge, concurrency=2)
    statuses = [row.results[own.name].status for row in report.results]
    assert statuses == ["scored"] * 3 + ["failed"] + ["scored"] * 2
    assert report.run.stopped == ""
    assert own.name == "foreign" or report.results[3].usage.calls or "judge" in place
    assert wait_for(asyncio.sleep(0, "the loop goes on")) == "the loop goes on"


def test_a_client_without_words_is_known_by_its_status():
    """It asked to slow down: the call is repeated, as with any other client."""

    class Once(Model):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if self.calls == 3:
                self.calls += 1
                raise TooMany
            return await super().complete(request)

    report = evaluate(ROWS, "utilization", judge=LLMJudge(Once()))
    assert [row.results["context_utilization"].status for row in report.results] == [
        "scored"
    ] * 6
    assert report.usage.faults == 1


# What a reply costs is counted also if it cannot be read.


class Politeness(BaseModel):
    useful: int
    reason: str

    @field_validator("reason")
    @classmethod
    def _known(cls, reason: str) -> str:
        return {"please": reason}[reason]


class Polite(Question[Politeness]): ...


class ReadByOwnCode(Metric):
    name: str = "polite"

    def plan(self, sample: Sample) -> Any:
        told = Instructions(template="Is it polite?\n{answer}")
        parts = {"answer": Part("Answer", sample.answer)}
        yield from ask([Polite(parts=parts, instructions=told, Reply=Politeness)])
        return self.scored(1.0, "")


def test_a_reply_that_crashes_its_reader_is_paid_and_told():
    model = Model()
    report = evaluate(ROWS, ReadByOwnCode(), judge=LLMJudge(model))
    assert [row.results["polite"].status for row in report.results] == ["failed"] * 6
    assert (
        (report.usage.calls, report.usage.cost)
        == (model.calls, 0.5 * model.calls)
        == (6, 3.0)
    )


# Numbers that are none.


@pytest.mark.parametrize(
    "digits", [17, 400, 4_299], ids=["no float", "no number of C", "no text"]
)
@pytest.mark.parametrize(
    "limits", [None, Limits(requests_per_minute=1_000_000)], ids=["free", "per minute"]
)
def test_a_count_that_no_reply_has_is_no_count(
    digits, limits, loopback_server, tmp_path
):
    body = {
        "choices": [{"message": {"content": VERDICT}, "finish_reason": "stop"}],
        "model": "m",
    }
    told = json.dumps(
        {**body, "usage": {"prompt_tokens": 12345, "completion_tokens": 2}}
    )
    server = loopback_server(
        faults=lambda number: Fault(200, body=told.replace("12345", "9" * digits))
    )
    model = OpenAICompatibleModel(server.base_url, "m", prices=(1e-6, 1e-6))
    report = evaluate(
        ROWS, "utilization", judge=LLMJudge(model), limits=limits, concurrency=2
    )
    assert [row.results["context_utilization"].status for row in report.results] == [
        "scored"
    ] * 6
    usage = report.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost) == (
        6,
        0,
        12,
        None,
    )
    report.to_jsonl(tmp_path / "r.jsonl")
    assert "calls=6" in repr(usage)


NO_PRICES: list[Any] = [
    ("1e-6", "2e-6"),
    (float("nan"), 0.0),
    (-1.0, 0.0),
    (1.0,),
    3.0,
    (True, 1.0),
    (float("inf"), 0),
]


@pytest.mark.parametrize("prices", NO_PRICES, ids=repr)
def test_prices_that_are_none_are_refused_and_nothing_is_paid(prices):
    with pytest.raises(SettingError, match="must be two numbers of at least 0"):
        OpenAICompatibleModel("http://127.0.0.1:1/v1", "m", prices=prices)
    model = Model(prices=prices)
    with pytest.raises(
        SettingError, match="the prices of foreign must be two numbers of at least 0"
    ):
        evaluate(ROWS, "utilization", judge=LLMJudge(model), concurrency=2)
    assert model.calls == 0


class NoCause(Judge):
    """Judges answers, and raises at the further questions for the cause of a low score."""

    name = "no cause"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        if not isinstance(question, Adherent):
            raise self._error
        verdict = {"claims": 1, "unsupported": ["it"], "reason": "r"}
        return Answer(Asked((question.read(verdict),)))


def refused_alone() -> JudgeUnavailable:
    """As of an endpoint that has answered before, and refuses this question."""
    error = JudgeUnavailable("refused access")
    error.single = True
    return error


@pytest.mark.parametrize(
    "error",
    [
        QuestionNotSupported("no cause"),
        TransientJudgeError("no cause"),
        ValueError("no cause"),
        refused_alone(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_cause_that_is_not_told_costs_no_score(error):
    """Else a gate would be decided without the rows that scored low."""
    report = evaluate(ROWS, ["adherence"], judge=NoCause(error))
    assert report.scores("context_adherence") == [0.0] * len(ROWS)
    (note, *_) = {
        row.results["context_adherence"].evidence.cause_note for row in report.results
    }
    assert note.startswith("no cause was determined: ")


def test_a_key_that_is_refused_at_a_cause_costs_no_score_and_ends_the_run():
    judge = NoCause(AuthenticationFailed("the key has expired"))
    report = evaluate(ROWS, ["adherence"], judge=judge, concurrency=1)
    scores = report.scores("context_adherence")
    assert (scores[0], *{*scores[1:]} - {0.0}) in [(0.0,), (0.0, None)]
    assert "the key has expired" in report.run.stopped


class Answering(Judge):
    """Answers with whatever it is given."""

    name = "answering"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def answer(self, question: Question[Any]) -> Any:
        return self._answer


ABOUT = next(ContextUtilization().plan(Sample.from_row(ROWS[0])))[0]
GOOD: Any = Asked((ABOUT.read({"useful": 1, "reason": "r"}),))
NO_ANSWERS: list[tuple[Any, str]] = [
    (None, "answer must return an Answer, from an 'async def'; got NoneType"),
    (GOOD, "answer must return an Answer, from an 'async def'; got Asked"),
    (Answer("yes"), "an Answer holds Asked replies or NotAnswered; got str"),  # type: ignore[arg-type]
    (Answer(Asked(())), "Asked holds at least one reply"),
    (Answer(Asked(({"useful": 1},))), "got dict"),  # type: ignore[arg-type]
    (Answer(GOOD, usage=None), "its usage must be a Usage"),  # type: ignore[arg-type]
    (Answer(GOOD, Usage(calls=-5)), "finite and at least 0"),
    (Answer(GOOD, Usage(cost=float("nan"))), "finite and at least 0"),
]


@pytest.mark.parametrize(
    ("answer", "words"), NO_ANSWERS, ids=[case[1][-30:] for case in NO_ANSWERS]
)
def test_what_no_judge_may_answer_is_told_in_words(answer, words):
    report = evaluate(ROWS, "utilization", judge=Answering(answer))
    outcomes = [row.results["context_utilization"] for row in report.results]
    assert {outcome.status for outcome in outcomes} == {"failed"}
    assert all(
        words in outcome.reason and "the judge answering" in outcome.reason
        for outcome in outcomes
    )
    assert report.usage == Usage()


# What metric and judge say of themselves is asked for before the first call.


class OfAFunction(Metric):
    name: str = "similar"
    embed: Callable[[str], float] = len

    def plan(self, sample: Sample) -> Any:
        yield from ask([next(ContextUtilization().plan(sample))[0]])
        return self.scored(1.0, "")


class OfNumbers(OfAFunction):
    embed: Any = 1

    def settings(self) -> Any:
        return {"a": 1}


class OfNoSettings(OfAFunction):
    embed: Any = 1

    def settings(self) -> Any:
        raise KeyError("a")


class OfNoPrompts(OfAFunction):
    embed: Any = 1

    def prompts(self) -> Any:
        raise KeyError("a")


class Called(Answering):
    """Has a name, models or a session that are none."""

    def __init__(self, name: Any = "called", models: Any = (), **changed: Any) -> None:
        super().__init__(Answer(GOOD, COST))
        self.name, self.models = name, models
        vars(self).update(changed)


class Detailed(Answering):
    """Says what it is given of its settings."""

    def __init__(self, details: Any) -> None:
        super().__init__(Answer(GOOD, COST))
        self._details = details

    @property
    def details(self) -> Any:
        return self._details()


UNTOLD: dict[str, tuple[Callable[[], Metric], Judge, str]] = {
    "a function as a setting": (
        OfAFunction,
        Answering(Answer(GOOD, COST)),
        "the setting 'embed' of the metric",
    ),
    "settings that are numbers": (
        OfNumbers,
        Answering(Answer(GOOD, COST)),
        "the metric similar cannot say",
    ),
    "settings that raise": (
        OfNoSettings,
        Answering(Answer(GOOD, COST)),
        r"settings\(\), .* raised KeyError",
    ),
    "prompts that raise": (
        OfNoPrompts,
        Answering(Answer(GOOD, COST)),
        "the metric similar cannot say",
    ),
    "a judge named by a number": (ContextUtilization, Called(5), "Called has no name"),
    "a judge without a name": (ContextUtilization, Called(" "), "Called has no name"),
    "a judge with models that are none": (
        ContextUtilization,
        Called(models=None),
        "its models raised TypeError",
    ),
    "a judge with models that are texts": (
        ContextUtilization,
        Called(models=("m",)),
        "must be chat models",
    ),
    "a judge without a session": (
        ContextUtilization,
        Called(session=lambda **settings: None),
        "the session of a judge must be a Judge",
    ),
    "details that are numbers": (
        ContextUtilization,
        Detailed(lambda: {"a": 1}),
        "details of the judge answering",
    ),
    "details that raise": (
        ContextUtilization,
        Detailed(lambda: {}["a"]),
        "details raised KeyError",
    ),
    "details that are none": (
        ContextUtilization,
        Detailed(lambda: 3),
        "details raised TypeError",
    ),
}


@pytest.mark.parametrize(("made", "judge", "words"), UNTOLD.values(), ids=UNTOLD)
def test_who_cannot_say_what_it_is_ends_the_run_before_the_first_call(
    made, judge, words
):
    asked: list[Any] = []
    answering = judge.answer

    async def answer(question: Any) -> Any:
        asked.append(question)
        return await answering(question)

    judge.answer = answer  # type: ignore[method-assign]
    with pytest.raises(SettingError, match=words):
        evaluate(ROWS, [made()], judge=judge)
    assert asked == []
    if "session" not in words:  # what a dry run never opens
        with pytest.raises(SettingError, match=words):
            estimate(map(Sample.from_row, ROWS), [made()], judge)


def test_a_dry_run_counts_a_row_at_which_a_gap_raises_as_any_other():
    found = estimate(
        map(Sample.from_row, ROWS), [RaisingMetric.at("gap", KeyError("a"))], SAYS_YES
    )
    assert (found.samples, found.left_out) == (len(ROWS), {})


class Plain(Judge):
    """Forgot the ``async``."""

    name = "plain"

    def answer(self, question: Any) -> Any:
        return Answer(GOOD, COST)


class PlainWithSession(Plain):
    def session(self, **settings: Any) -> Judge:
        return self


@pytest.mark.parametrize("judge", [Plain(), PlainWithSession()])
def test_a_judge_that_forgot_its_async_is_told_so(judge):
    result = (
        evaluate(ROWS, "utilization", judge=judge)
        .results[0]
        .results["context_utilization"]
    )
    assert (result.status, result.reason) == (
        "failed",
        "the judge plain gave no answer: its answer must be an 'async def'",
    )


class OfSets(OfAFunction):
    embed: Any = 1
    words: frozenset[int]


def test_the_signature_of_equal_sets_is_one_whatever_their_order():
    # of one hash modulo the size of a table
    first, second = frozenset([0, 8]), frozenset([8, 0])
    assert [*first] != [*second]
    metrics = [OfSets(words=own) for own in (first, second)]
    assert metrics[0].signature == metrics[1].signature
    assert OfSets(words=frozenset([0, 16])).signature != OfSets(words=first).signature


class Wordless:
    """A value of somebody's metadata, which cannot be written as a text."""

    def __repr__(self) -> str:
        raise RuntimeError("Zanzibar")


class BrokenList(list[object]):
    def __iter__(self) -> Any:
        raise OSError("Zanzibar")


@pytest.mark.parametrize("value", [Wordless(), BrokenList([1])], ids=type)
def test_a_value_that_cannot_be_written_costs_no_report(value, tmp_path):
    sample = Sample(contexts=["Anna."], answer="Anna.", metadata={"x": value, "y": 7})
    report = evaluate([sample, sample], ["adherence"], judge="lexical")
    report.to_jsonl(tmp_path / "out.jsonl")
    report.to_html(tmp_path / "out.html")
    report.to_csv(tmp_path / "out.csv")
    again = Report.from_jsonl(tmp_path / "out.jsonl")
    assert again.scores("adherence") == report.scores("adherence")
    for result in again.results:
        assert result.sample.metadata["y"] == 7
        assert ", left out: " in str(result.sample.metadata["x"])
    assert "Zanzibar" not in (tmp_path / "out.jsonl").read_text()
