"""A judge of one's own: limits hold for it, or are refused; a fault of it names it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import run_examples
from pydantic import BaseModel

from ragmetrics_core import (
    ContextUtilization,
    LexicalJudge,
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Question,
    Sample,
    ScriptedJudge,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.data import (
    Answer,
    Asked,
    Bit,
    Instructions,
    LabelProbability,
    LimitReached,
    NotAnswered,
    Part,
    SettingError,
    UnusableReply,
    Usage,
    Weight,
)
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful, UtilizationEvidence
from ragmetrics_core.models.chat import ChatReply, ChatRequest, Choice
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import MemoryStore

ROWS = [
    {"question": "Who?", "contexts": [f"Anna lit {n}."], "answer": f"Anna lit {n}."}
    for n in range(40)
]
USEFUL = "context_utilization"


class Oracle(Judge):
    """Answers every question, and notes how many it answers at a time."""

    name = "oracle"

    def __init__(self, usage: Usage | None = None) -> None:
        self._usage = Usage(calls=1, cost=0.001) if usage is None else usage
        self.asked = 0
        self.in_flight = 0
        self.most_in_flight = 0

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.002)
        self.in_flight -= 1
        reply = question.read({"useful": 1, "reason": "r"})
        return Answer(Asked((reply,)), self._usage)


def judged(judge: Judge, metrics: Any = "utilization", **settings: Any) -> Any:
    return evaluate(ROWS, metrics, judge=judge, **settings)


def test_no_more_questions_are_asked_than_calls_are_allowed():
    judge = Oracle()
    report = judged(judge, limits=Limits(max_calls=10))
    assert judge.asked == 10
    assert report.run.stopped.startswith("max_calls=10 was reached, after 10 calls")
    assert report.usage.calls == 10
    assert report.summary().judged == 10


def test_an_answer_that_took_several_calls_counts_as_many():
    judge = Oracle(Usage(calls=4))
    report = judged(judge, limits=Limits(max_calls=10), concurrency=1)
    assert judge.asked == 3
    assert "after 12 calls" in report.run.stopped


def test_an_answer_that_tells_no_call_counts_as_one():
    judge = Oracle(Usage(cost=0.1))
    judged(judge, limits=Limits(max_calls=10))
    assert judge.asked == 10


def test_no_more_questions_are_in_flight_than_the_run_allows():
    judge = Oracle()
    report = judged(judge, concurrency=4)
    assert judge.most_in_flight == 4
    assert len(report.scores(USEFUL)) == 40


def test_money_is_held_by_what_the_answers_say():
    judge = Oracle()
    report = judged(judge, limits=Limits(max_cost=0.0105))
    assert judge.asked == 10
    assert report.usage.cost == pytest.approx(0.01)
    assert report.run.stopped.startswith("max_cost=0.0105 was reached")


def test_a_judge_that_does_not_say_its_cost_ends_a_run_with_a_cap_on_money():
    judge = Oracle(Usage())
    report = judged(judge, limits=Limits(max_cost=1.0))
    assert judge.asked == 1, "the first goes alone"
    assert "Usage(calls=1, cost=0.001)" in report.run.stopped


def test_requests_per_minute_hold():
    judge = Oracle()
    report = judged(judge, limits=Limits(requests_per_minute=60, deadline=0.5))
    assert judge.asked == 1
    assert "the deadline" in report.run.stopped


@pytest.fixture(scope="module")
def cheap_first() -> type[Judge]:
    """The judge of docs/own_judge.md that asks a cheap one first."""
    path = Path(__file__).parents[2] / "docs" / "own_judge.md"
    if not path.is_file():
        pytest.skip("a checkout without its documentation")
    names: dict[str, Any] = {"__name__": "own_judge"}
    run_examples(path.read_text(encoding="utf-8"), path, names)
    kind: type[Judge] = names["CheapFirst"]
    return kind


@pytest.mark.parametrize(
    ("chance", "decided"),
    [(0.19, "cheap"), (0.2, "strong"), (0.8, "strong"), (0.81, "cheap")],
)
def test_a_cheap_judge_first_decides_outside_the_band(cheap_first, chance, decided):
    def says(name: str, chance: float) -> ScriptedJudge:
        reply = {"useful": int(chance > 0.5), "reason": name}

        def answer(question: Any) -> Any:
            return Asked((question.read(reply),), weights=(Weight(chance),))

        return ScriptedJudge({Useful: answer}, name=name)

    judge = cheap_first(says("cheap", chance), says("strong", 1.0), band=(0.2, 0.8))
    result = ContextUtilization(relevance="probability").score(**ROWS[0], judge=judge)
    value = chance if decided == "cheap" else 1.0
    assert isinstance(result.evidence, UtilizationEvidence)
    assert result.evidence.chunks[0].probability == value
    assert result.usage.calls == (1 if decided == "cheap" else 2)
    assert result.judge == "cheap, then strong"


def test_store_and_limits_of_a_run_hold_for_both_judges_of_a_cheap_one_first(
    cheap_first, loopback_server
):
    server, store = loopback_server(), MemoryStore()
    strong = LLMJudge(OpenAICompatibleModel(server.base_url, "large"))
    judge = cheap_first(LexicalJudge(), strong, band=(0.0, 1.0))
    first = judged(judge, limits=Limits(max_calls=10), store=store)
    assert len(server.requests) == first.usage.calls == 10
    assert "max_calls=10 was reached" in first.run.stopped
    whole = judged(judge, store=store)
    assert (whole.usage.stored, whole.run.stopped) == (10, "")
    assert "'fit'" in str(whole.results[0].results[USEFUL].signature)


class Keeping(Oracle):
    """Keeps the limits of a run by itself."""

    def session(self, **settings: Any) -> Keeping:
        self.settings = settings
        return self


def test_a_session_of_ones_own_is_handed_the_limits_and_trusted(tmp_path):
    judge = Keeping()
    limits = Limits(max_calls=10, requests_per_minute=1000)
    judged(judge, limits=limits, store=tmp_path / "replies.sqlite", concurrency=7)
    assert judge.asked == 40
    assert judge.settings["concurrency"] == 7
    assert judge.settings["budget"].limits == limits


class LimitsOfAJob(Budget):
    """Limits that are kept elsewhere, as those of a job on several machines are."""

    def __init__(self) -> None:
        super().__init__()
        self.usages: list[Usage | None] = []

    async def acquire(self) -> int:
        if len(self.usages) == 3:
            raise LimitReached("the job has no call left")
        return await super().acquire()

    def observe(self, number: int, usage: Usage | None) -> None:
        super().observe(number, usage)
        self.usages.append(usage)


def test_limits_that_are_kept_elsewhere_hold_for_a_judge_of_ones_own():
    judge, limits = Oracle(), LimitsOfAJob()
    run = Run("utilization", judge, 1, None, limits)
    results = list(stream(run, ROWS, progress=False, columns={}))
    assert judge.asked == 3
    assert limits.usages == [Usage(calls=1, cost=0.001)] * 3
    assert sum(result.usage.calls for result in results) == 3


def test_under_a_cap_on_money_as_many_questions_are_in_flight_as_surely_fit():
    judge = Oracle()
    judged(judge, limits=Limits(max_cost=1.0), concurrency=4)
    assert (judge.asked, judge.most_in_flight) == (40, 4)


def test_no_limit_counts_a_judge_that_is_free():
    class Free(Oracle):
        free = True

    judge = Free()
    judged(judge, limits=Limits(max_calls=10, max_cost=0.001))
    assert judge.asked == 40


def test_a_dry_run_counts_the_questions():
    samples = [Sample.from_row(row) for row in ROWS]
    counted = estimate(samples, [ContextUtilization()], Oracle())
    assert counted.usage.calls == 40
    assert counted.usage.cost is None
    text = counted.text()
    assert "40" in text
    assert "price:             unknown" in text
    assert "questions to the judge oracle" in text
    assert "prompt tokens:     unknown" in text


# What a judge must not do.


class Saying(Judge):
    """Answers with what it is given, or raises it."""

    name = "saying"

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        if isinstance(self._reply, Exception):
            raise self._reply
        return Answer(self._reply)


def test_a_crash_of_a_judge_blames_the_judge_and_leaks_no_text(caplog):
    report = judged(Saying(ValueError("SECRET")))
    error = report.results[0].results[USEFUL].error
    assert error.type == "JudgeCrashed"
    assert "the judge saying (Saying) crashed: ValueError in answer" in error.message
    assert "test_own_judge.py" in error.message
    assert "SECRET" in error.raw
    assert "SECRET" not in error.message + caplog.text


def test_a_judge_with_a_session_of_its_own_is_blamed_as_well():
    class WithSession(Saying):
        def session(self, **settings: Any) -> Judge:
            return self

    report = judged(WithSession(KeyError("SECRET")))
    assert report.results[0].results[USEFUL].error.type == "JudgeCrashed"


class Tone(BaseModel):
    polite: Bit
    reason: str = ""


class Polite(Question[Tone]):
    """Is it polite?"""


def polite_question(**fields: Any) -> Polite:
    settings: dict[str, Any] = {
        "parts": {"answer": Part("Answer", "Sit, please.")},
        "instructions": Instructions("Is it polite?\n{answer}"),
        "Reply": Tone,
        "wanted_probability": LabelProbability("polite"),
    }
    return Polite(**{**settings, **fields})


def politeness(**fields: Any) -> Any:
    @metric(name="politeness", requires=["answer"])
    def measured(sample: Sample) -> Any:
        [asked] = yield from ask([polite_question(**fields)])
        return asked.weights[0].p

    return measured


BAD_REPLIES: list[tuple[Any, str]] = [
    (NotAnswered("I cannot"), "NotAnswered holds an error"),  # type: ignore[arg-type]
    (
        Asked((Tone(polite=True),), weights=(Weight(0.9), Weight(0.1))),
        "a Weight for the one verdict",
    ),
    (Asked((Tone(polite=True),), weights=(0.9,)), "its weights are Weight objects"),  # type: ignore[arg-type]
    (Asked((Instructions("x"),)), "replies are objects of question.Reply, Tone"),  # type: ignore[type-var]
]


@pytest.mark.parametrize(("reply", "words"), BAD_REPLIES)
def test_a_bad_reply_names_the_judge_and_what_it_must_return(reply, words):
    failed = politeness().score(answer="Sit, please.", judge=Saying(reply))
    assert failed.error.type == "JudgeError"
    assert "the judge saying (Saying) gave no answer" in failed.reason
    assert words in failed.reason


def test_a_metric_that_does_not_look_for_an_answer_fails_for_the_judges_reason():
    reply = NotAnswered(UnusableReply("no verdict in it"))
    failed = politeness().score(answer="Sit, please.", judge=Saying(reply))
    assert (failed.error.type, failed.reason) == ("UnusableReply", "no verdict in it")


def test_a_bare_verdict_counts_where_a_probability_is_wanted():
    scored = politeness().score(
        answer="Sit, please.", judge=Saying(Asked((Tone(polite=True),)))
    )
    assert scored.value == 1.0


# A decision model of one's own.


class Replying(DecisionModel):
    """Replies with one text to every typed question."""

    name = "mine"

    def __init__(self, text: str) -> None:
        self._text = text

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice(self._text),))


def test_a_decision_model_is_asked_a_question_of_ones_own():
    judge = DecisionJudge(Replying("[0.9]"))
    assert politeness().score(answer="Sit, please.", judge=judge).value == 0.9


@pytest.mark.parametrize("text", ["0.9", '{"p": 0.9}', "yes", '"0.9"', "[0.9, 0.1]"])
def test_a_bad_reply_of_a_decision_model_names_the_model_and_the_form(text):
    judge = DecisionJudge(Replying(text))
    failed = politeness().score(answer="Sit, please.", judge=judge)
    assert failed.error.type == "UnusableReply"
    assert "mine" in failed.reason
    assert "a JSON list of 1 number" in failed.reason


# A question of one's own.


class Tones(BaseModel):
    """Several verdicts in one reply."""

    tones: tuple[Tone, ...]


BAD_QUESTIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"wanted_probability": LabelProbability("polit")},
        "no field 'polit'.*polite, reason",
    ),
    (
        {
            "Reply": Tones,
            "wanted_probability": LabelProbability("polite", item_id_field="labell"),
        },
        "Tone has no field 'labell'",
    ),
    ({"wanted_probability": "polite"}, "wanted_probability must be LabelProbability"),
    ({"parts": {"answer": "Sit."}}, "Part for 'answer'.*got str"),
    ({"parts": "Sit."}, "parts must be a mapping"),
    ({"instructions": "Is it polite?"}, "instructions must be Instructions.*got str"),
    ({"Reply": dict}, "Reply must be a pydantic model.*got dict"),
    ({"if_too_long": "answer"}, "if_too_long must be Windows"),
]


@pytest.mark.parametrize(("fields", "words"), BAD_QUESTIONS)
def test_a_question_says_what_is_wrong_with_it_when_it_is_made(fields, words):
    with pytest.raises(SettingError, match=words):
        polite_question(**fields)
