"""Judging one sample: which judge, in which order questions are asked, and what a metric that is cut off leaves."""

import asyncio
import logging
import platform
from typing import Any

import pytest
from judge_replies import covered, poll, polls, useful

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    Limits,
    Question,
    Report,
    Sample,
    evaluate,
)
from ragmetrics_core.data.errors import AuthenticationFailed, JudgeError, LimitReached
from ragmetrics_core.data.replies import Answer, Asked, NotAnswered, Usage
from ragmetrics_core.engine.resolve import announce_embedded_judge, resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent

SAMPLE = Sample(question="q", contexts=["c"], answer="a")
BOTH = [ContextUtilization(), ContextAdherence(polls=1)]


def fitting(question: Question[Any]) -> Asked[Any]:
    """A reply of the kind that a question asks for."""
    if isinstance(question, Adherent):
        return polls((poll("yes", "r"),))
    if isinstance(question, FactInContext):
        return covered(1.0)
    return useful(True)


class Answering(Judge):
    """Answers so many questions, then refuses; counts those that are open at the same time."""

    name = "answering"

    def __init__(
        self,
        usage: Usage | None = None,
        error: JudgeError | None = None,
        after: int = 0,
    ) -> None:
        self.usage, self.error, self.after = usage or Usage(calls=1), error, after
        self.open = self.most_open = 0
        self.asked: list[Question[Any]] = []
        self.opened: list[dict[str, Any]] = []

    def session(self, **settings: Any) -> Judge:
        """Keep the limits by itself, so that nobody else holds it back."""
        self.opened.append(settings)
        return self

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        self.asked.append(question)
        if self.error is not None and len(self.asked) > self.after:
            return Answer(NotAnswered(self.error), Usage(calls=1))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await asyncio.sleep(0.001)
        self.open -= 1
        return Answer(fitting(question), self.usage)


def judged(
    judge: Any, metrics: Any = BOTH, rows: Any = (SAMPLE,), **how: Any
) -> Report:
    return evaluate(list(rows), metrics, judge=judge, **how)


def test_metrics_that_name_one_model_share_a_session_and_others_do_not(monkeypatch):
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    monkeypatch.setattr(f"{__name__}.SHARED", Answering(), raising=False)
    metrics = [
        ContextAdherence(name="first", model=f"{__name__}:SHARED"),
        ContextAdherence(name="second", model=f"{__name__}:SHARED"),
        ContextAdherence(name="third"),
    ]
    results = judged(None, metrics).results[0].results
    assert [outcome.judge for outcome in results.values()] == [
        "answering",
        "answering",
        "lexical",
    ]
    shared: Answering = globals()["SHARED"]
    assert len(shared.opened) == 1


def test_questions_are_asked_in_the_order_of_the_samples():
    """So prompts that begin alike follow each other."""
    judge = Answering()
    rows = [
        Sample(question="q", contexts=[f"c{number}"], answer=f"a{number}")
        for number in range(20)
    ]
    judged(judge, rows=rows, concurrency=400)
    answers = [str(question["answer"]) for question in judge.asked]
    assert answers == [f"a{number}" for number in range(20) for _ in BOTH]


@pytest.mark.parametrize(
    ("concurrency", "open_questions"), [(1, 33), (16, 48), (404, 454)]
)
def test_so_many_questions_are_open_as_slots_need(concurrency, open_questions):
    """The slots, and 32 or an eighth of them ahead; one sample alone fills them."""
    judge = Answering()
    facts = [f"Fact {number}." for number in range(open_questions + 40)]
    report = judged(
        judge,
        "accuracy",
        [Sample(facts=facts, contexts=["c"])],
        concurrency=concurrency,
    )
    assert report.scores("retrieval_accuracy") == [1.0]
    assert judge.most_open == open_questions


@pytest.mark.parametrize("after", [0, 1, 5])
def test_what_a_cap_cut_off_is_not_judged_and_its_cost_is_told(after):
    judge = Answering(error=LimitReached("enough"), after=after)
    report = judged(judge, BOTH[1:], [SAMPLE] * 9, limits=Limits(max_calls=1000))
    scored = [row for row in report.results if row.results]
    cut_off = [row for row in report.results if row.unfinished is not None]
    assert (len(scored), len(cut_off)) == (after, 9 - after)
    assert report.usage.calls == 9


def test_a_judge_that_answered_before_it_refused_leaves_its_results():
    no_key = AuthenticationFailed("the key was refused")
    with pytest.raises(AuthenticationFailed):
        judged(Answering(error=no_key), BOTH[1:])
    report = judged(Answering(error=no_key, after=1), BOTH[1:], [SAMPLE] * 3)
    assert report.run.stopped.startswith("the key was refused")
    first, *later = report.scores("context_adherence")
    assert first == 1.0
    assert set(later) == {None}  # the last row may not have begun


def test_what_the_embedded_judge_answers_is_no_payment_that_a_refusal_would_lose(
    monkeypatch,
):
    refusing = Answering(error=AuthenticationFailed("the key was refused"))
    monkeypatch.setattr(f"{__name__}.REFUSING", refusing, raising=False)
    metrics = [
        ContextAdherence(name="first", model="lexical"),
        ContextAdherence(name="second", model=f"{__name__}:REFUSING"),
    ]
    with pytest.raises(AuthenticationFailed):
        judged(None, metrics)


def test_models_that_replied_are_told():
    judge = Answering(Usage(calls=1, models=("one-2025",)))
    assert judged(judge).run.models == ("one-2025",)


# Which judge


def test_the_order_in_which_a_judge_is_chosen(monkeypatch):
    monkeypatch.setenv("RAGMETRICS_JUDGE", "openai/from-env")
    monkeypatch.setenv("RAGMETRICS_API_BASE", "http://127.0.0.1:9/v1")
    chosen = resolve_judge("openai/argument", metric_model="openai/metric")
    assert chosen.name == "openai/argument"
    assert isinstance(chosen, LLMJudge)
    assert chosen.model.base_url == "http://127.0.0.1:9/v1"
    assert resolve_judge(None, metric_model="openai/metric").name == "openai/metric"
    assert resolve_judge(None).name == "openai/from-env"
    assert resolve_judge(chosen) is chosen
    assert resolve_judge(chosen.model).model is chosen.model
    assert resolve_judge("lexical").name == "lexical"


def test_without_a_choice_the_embedded_judge_says_so_once(caplog):
    announce_embedded_judge.cache_clear()
    with caplog.at_level(logging.INFO, logger="ragmetrics_core"):
        assert resolve_judge(None).name == "lexical"
        assert resolve_judge(None).name == "lexical"
    (record,) = caplog.records
    assert record.name == "ragmetrics_core"
    assert record.getMessage().startswith("No judge named")


@pytest.mark.parametrize(
    ("judge", "models", "in_environment", "is_chosen"),
    [
        ("lexical", (None, None), None, True),
        (None, (None, None), "lexical", True),
        (None, ("lexical", "lexical"), None, True),
        (None, ("lexical", None), None, False),
        (None, (None, None), None, False),
    ],
)
def test_a_run_tells_whether_its_judge_was_chosen(
    judge, models, in_environment, is_chosen, monkeypatch
):
    if in_environment:
        monkeypatch.setenv("RAGMETRICS_JUDGE", in_environment)
    metrics = [ContextAdherence(name=f"m{n}", model=m) for n, m in enumerate(models)]
    run = judged(judge, metrics).run
    assert run.judge_chosen is is_chosen
    assert run.packages["python"] == platform.python_version()
    assert 0 <= run.seconds < 3600
