"""Judging one sample: sessions of a run, the order of samples and questions, and what a cut-off metric leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from said import covered, poll, polls, useful

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    LexicalJudge,
    Limits,
    LLMJudge,
    Metric,
    Question,
    RetrievalAccuracy,
    Sample,
    evaluate,
    metric,
)
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    JudgeError,
    LimitReached,
    RowError,
    SettingError,
)
from ragmetrics_core.data.replies import Answer, Asked, NotAnswered, Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.loop import run as wait_for
from ragmetrics_core.engine.sample_judging import (
    SampleJudging,
    addresses_of,
    judges_by_metric,
    refuse_unknown_prices,
)
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import MemoryStore

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
    """Answers every question, and counts those that are open at the same time."""

    name = "answering"

    def __init__(self, usage: Usage | None = None) -> None:
        self.usage = usage or Usage(calls=1)
        self.open = 0
        self.most_open = 0
        self.asked: list[Question[Any]] = []

    def session(self, **settings: Any) -> Judge:
        """Keep the limits by itself, so that nobody else holds it back."""
        return self

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        self.asked.append(question)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self.wait(question)
            return Answer(fitting(question), self.usage)
        finally:
            self.open -= 1

    async def wait(self, question: Question[Any]) -> None:
        """Wait as long as the test wants."""
        await asyncio.sleep(0)


class Refusing(Answering):
    """Answers so many questions, and then no more."""

    name = "refusing"

    def __init__(self, error: JudgeError, *, after: int = 0) -> None:
        super().__init__()
        self.error = error
        self.n_answered_before = after

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        if len(self.asked) >= self.n_answered_before:
            return Answer(NotAnswered(self.error), Usage(calls=1))
        return await super().answer(question)


class Opening(Answering):
    """A judge that has a session of its own for each run."""

    def __init__(self, session: object = None) -> None:
        super().__init__()
        self.opened: list[dict[str, Any]] = []
        self.made = session

    def session(self, **settings: Any) -> Any:
        self.opened.append(settings)
        return self if self.made is None else self.made


class Model(ChatModel):
    """A chat model of a user's own that is never called here."""

    def __init__(
        self, prices: object = None, *, name: str = "own", address: str = ""
    ) -> None:
        self.name = name
        self.told = prices
        self.is_prepared = False
        self.where = address

    @property
    def address(self) -> str:
        return self.where

    async def prepare(self) -> None:
        self.is_prepared = True

    def prices(self) -> Any:
        if isinstance(self.told, Exception) and not self.is_prepared:
            raise self.told
        return (0.0, 0.0) if isinstance(self.told, Exception) else self.told

    async def complete(self, request: Any) -> Any:
        raise AssertionError


def judging_by(
    judges: dict[str, Judge], *, concurrency: int = 4, budget: Budget | None = None
) -> SampleJudging:
    return SampleJudging(
        judges,
        concurrency=concurrency,
        store=MemoryStore(),
        budget=budget or Budget(),
    )


def judged(
    judging: SampleJudging, metrics: list[Metric], *samples: Sample | RowError
) -> list[SampleResult]:
    """The results of samples that are all given to it at once."""

    async def all_of_them() -> list[SampleResult]:
        rows = enumerate(samples)
        return await asyncio.gather(*(judging.judge(*row, metrics) for row in rows))

    return wait_for(all_of_them())


# Which judge judges


def test_one_judge_for_all_is_that_judge_for_each_metric() -> None:
    judge = Answering()
    metrics = [ContextUtilization(model="lexical"), ContextAdherence()]
    judges = judges_by_metric(metrics, judge)
    assert list(judges) == ["context_utilization", "context_adherence"]
    assert all(found is judge for found in judges.values())


def test_metrics_that_name_one_model_share_a_judge_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    metrics = [
        ContextAdherence(name="first", model="openai-compatible/a"),
        ContextAdherence(name="second", model="openai-compatible/b"),
        ContextAdherence(name="third", model="openai-compatible/a"),
        ContextAdherence(name="unnamed"),
    ]
    monkeypatch.setenv("RAGMETRICS_API_BASE", "http://127.0.0.1:9/v1")
    judges = judges_by_metric(metrics, None)
    assert judges["first"] is judges["third"]
    assert judges["first"] is not judges["second"]
    assert judges["second"].name == "openai-compatible/b"
    assert isinstance(judges["unnamed"], LexicalJudge)


def test_what_is_no_judge_or_has_no_name_is_refused() -> None:
    nameless = Answering()
    nameless.name = " "
    with pytest.raises(SettingError, match="Answering has no name"):
        judges_by_metric(BOTH, nameless)


@pytest.mark.parametrize("prices", [3, (1.0,), (-1.0, 0.0), ("a", "b")])
def test_prices_of_a_users_model_that_are_none_are_refused(prices: object) -> None:
    model = Model(prices, name="shop")
    with pytest.raises(SettingError, match="the prices of shop must be two numbers"):
        judges_by_metric(BOTH, LLMJudge(model))


def test_prices_that_a_users_model_does_not_know_yet_are_asked_for_later() -> None:
    model = Model(LookupError("not before prepare"))
    assert judges_by_metric(BOTH, LLMJudge(model))
    refuse_unknown_prices([model])
    assert model.is_prepared


def test_a_cap_on_money_needs_the_price_of_each_model() -> None:
    known, unknown = Model((0.0, 0.0), name="known"), Model(None, name="unknown")
    refuse_unknown_prices([known])
    with pytest.raises(SettingError, match="the price of unknown is not known") as told:
        refuse_unknown_prices([known, unknown])
    assert "max_calls" in str(told.value)
    assert unknown.is_prepared


def test_addresses_are_those_that_are_known_once_each_in_order() -> None:
    judge = Answering()
    places = ["b.example/v1", "", "a.example/v1", "b.example/v1"]
    judge.models = tuple(Model(address=place) for place in places)
    assert addresses_of(judge) == ("b.example/v1", "a.example/v1")


# Sessions of a run


def test_a_judge_has_one_session_in_a_run_and_is_told_what_the_run_may_use() -> None:
    judge, other = Opening(), Opening()
    budget, store = Budget(), MemoryStore()
    judging = SampleJudging(
        {"a": judge, "b": judge, "c": other}, concurrency=7, store=store, budget=budget
    )
    assert judge.opened == [{"concurrency": 7, "store": store, "budget": budget}]
    assert len(other.opened) == 1
    assert judging.sessions == [judge, other]


def test_a_session_that_is_no_judge_is_refused() -> None:
    with pytest.raises(SettingError, match="returned int"):
        judging_by({"a": Opening(3)})


def test_settings_that_cannot_be_told_end_a_run_before_anything_is_asked() -> None:
    class Broken(Answering):
        @property
        def details(self) -> dict[str, str]:
            raise ValueError("no settings")

    good, broken = Answering(), Broken()
    judging = judging_by({"context_utilization": good, "context_adherence": broken})
    judging.check_signatures(BOTH[:1])
    with pytest.raises(SettingError, match="details"):
        judging.check_signatures(BOTH)
    assert good.asked == broken.asked == []


# One sample


def test_a_row_that_is_no_sample_has_its_error_said_and_asks_nothing() -> None:
    judge = Answering()
    judging = judging_by(dict.fromkeys(("context_utilization",), judge))
    [fine, bad] = judged(judging, BOTH[:1], SAMPLE, RowError("row 2 is a number"))
    assert (bad.index, bad.sample, bad.results) == (1, None, {})
    assert bad.problem == "row 2 is a number"
    assert (fine.index, fine.sample, fine.problem) == (0, SAMPLE, "")
    assert len(judge.asked) == 1


def test_metrics_of_one_sample_go_on_side_by_side() -> None:
    class Together(Answering):
        """Answers none before two questions are open."""

        def __init__(self) -> None:
            super().__init__()
            self.are_two = asyncio.Event()

        async def wait(self, question: Question[Any]) -> None:
            if self.open == 2:
                self.are_two.set()
            await asyncio.wait_for(self.are_two.wait(), 20)

    report = evaluate([SAMPLE], BOTH, judge=Together(), concurrency=1, progress=False)
    outcomes = report.results[0].results
    assert list(outcomes) == ["context_utilization", "context_adherence"]
    assert {outcome.status for outcome in outcomes.values()} == {"scored"}


def test_the_first_questions_of_a_sample_stand_before_those_of_the_next() -> None:
    """So replies are needed in the order of the input, and prompts that begin alike follow each other."""
    judge = Answering()
    judging = judging_by({metric.name: judge for metric in BOTH}, concurrency=400)
    samples = [
        Sample(question="q", contexts=[f"c{number}"], answer=f"a{number}")
        for number in range(20)
    ]
    results = judged(judging, BOTH, *samples)
    assert [result.sample for result in results] == samples
    answers = [str(question["answer"]) for question in judge.asked]
    assert answers == [f"a{number}" for number in range(20) for _ in BOTH]


@pytest.mark.parametrize(
    ("concurrency", "open_questions"), [(1, 33), (16, 48), (256, 288), (400, 450)]
)
def test_so_many_questions_are_open_as_slots_need(
    concurrency: int, open_questions: int
) -> None:
    """The slots, and 32 or an eighth of them ahead, whichever is more; one sample alone fills them."""

    class Holding(Answering):
        def __init__(self) -> None:
            super().__init__()
            self.are_all_open = asyncio.Event()

        async def wait(self, question: Question[Any]) -> None:
            if self.open == open_questions:
                # whoever may come beside them has come by then
                asyncio.get_running_loop().call_later(0.05, self.are_all_open.set)
            await asyncio.wait_for(self.are_all_open.wait(), 20)

    judge = Holding()
    judging = judging_by({"retrieval_accuracy": judge}, concurrency=concurrency)
    facts = [f"Fact {number}." for number in range(open_questions + 40)]
    sample = Sample(facts=facts, contexts=["c"])
    [result] = judged(judging, [RetrievalAccuracy()], sample)
    assert result.results["retrieval_accuracy"].status == "scored"
    assert len(judge.asked) == open_questions + 40
    assert judge.most_open == open_questions


def test_no_sample_comes_in_while_questions_of_earlier_ones_wait() -> None:
    """A sample that comes in opens its questions at once: those that wait come first."""

    class Slow(Answering):
        async def wait(self, question: Question[Any]) -> None:
            await asyncio.sleep(0.001)

    judge = Slow()
    judging = judging_by({"retrieval_accuracy": judge}, concurrency=1)
    many = [f"Fact {number}." for number in range(60)]
    samples = [
        Sample(facts=many, contexts=["c"]),
        Sample(facts=["the next"], contexts=["c"]),
    ]
    judged(judging, [RetrievalAccuracy()], *samples)
    facts = [str(question["fact"]) for question in judge.asked]
    assert facts.index("the next") >= 60 - 1


def test_models_that_replied_are_those_of_all_metrics_and_samples() -> None:
    judges = {
        metric.name: Answering(Usage(calls=1, models=(model,)))
        for metric, model in zip(BOTH, ["one-2025", "two-2025"], strict=True)
    }
    judging = judging_by(dict(judges))
    assert judging.models == set()
    judged(judging, BOTH, SAMPLE, SAMPLE)
    assert judging.models == {"one-2025", "two-2025"}


# What a run is told by its judges


def test_what_was_paid_answers_or_is_refused_is_known_of_each_judge() -> None:
    no_key = AuthenticationFailed("the key was refused")
    good, bad = Answering(), Refusing(no_key)
    judging = judging_by({"context_utilization": good, "context_adherence": bad})
    assert (judging.was_paid, judging.unavailable, judging.refused) == (
        False,
        None,
        None,
    )
    [result] = judged(judging, BOTH[1:], SAMPLE)
    assert result.results["context_adherence"].status == "failed"
    assert (judging.was_paid, judging.unavailable, judging.refused) == (
        False,
        no_key,
        no_key,
    )
    judged(judging, BOTH[:1], SAMPLE)
    assert judging.was_paid


def test_a_judge_that_answered_once_has_not_always_refused() -> None:
    no_key = AuthenticationFailed("the key was refused")
    judging = judging_by({"context_adherence": Refusing(no_key, after=1)})
    judged(judging, BOTH[1:], SAMPLE)
    assert judging.unavailable is None
    judged(judging, BOTH[1:], SAMPLE)
    assert (judging.unavailable, judging.refused) == (no_key, None)


def test_a_cap_of_the_run_is_no_refusal_by_a_judge() -> None:
    limit = LimitReached("max_calls=1 was reached")
    judging = judging_by({"context_adherence": Refusing(limit)})
    [result] = judged(judging, BOTH[1:], SAMPLE)
    assert judging.refused is None
    assert result.results == {}
    assert result.unfinished == Usage(calls=1)


def test_a_metric_that_is_cut_off_is_not_judged_and_the_others_are() -> None:
    class CutOff(Answering):
        """Answers what is useful; a cap of the run keeps it from the other question."""

        async def answer(self, question: Question[Any]) -> Answer[Any]:
            if isinstance(question, Adherent):
                cost = Usage(calls=2, cost=0.5)
                return Answer(NotAnswered(LimitReached("enough")), cost)
            return await super().answer(question)

    judge = CutOff()
    judging = judging_by({metric.name: judge for metric in BOTH})
    [result] = judged(judging, BOTH, SAMPLE)
    assert list(result.results) == ["context_utilization"]
    assert result.results["context_utilization"].status == "scored"
    assert result.unfinished == Usage(calls=2, cost=0.5)
    [result] = judged(judging, BOTH[:1], SAMPLE)
    assert result.unfinished is None


def test_an_interrupt_ends_what_is_in_flight_and_what_comes_later() -> None:
    class Waiting(Answering):
        async def wait(self, question: Question[Any]) -> None:
            judges_loop.call_soon_threadsafe(judging.interrupt)
            await asyncio.Event().wait()

    async def running_loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    judges_loop = wait_for(running_loop())
    budget, judge = Budget(), Waiting()
    judging = judging_by({metric.name: judge for metric in BOTH}, budget=budget)
    results = judged(judging, BOTH[:1], SAMPLE, SAMPLE)
    assert [(result.results, result.unfinished) for result in results] == [
        ({}, None),
        ({}, None),
    ]
    assert budget.interrupted
    assert str(budget.reached) == "it was interrupted"
    n_asked = len(judge.asked)
    judged(judging, BOTH, SAMPLE)
    assert len(judge.asked) == n_asked


def unfinished_after(n_answered: int) -> Callable[[], Usage | None]:
    """What a sample is told to have cost whose questions are cut off after so many answers."""

    def usage() -> Usage | None:
        judge = Refusing(LimitReached("the end"), after=n_answered)
        judging = judging_by({"context_utilization": judge})
        sample = Sample(question="q", contexts=["c", "d", "e"], answer="a")
        [result] = judged(judging, BOTH[:1], sample)
        assert result.results == {}
        return result.unfinished

    return usage


def test_all_that_a_cut_off_metric_cost_is_counted() -> None:
    for n_answered in (0, 1, 2):
        unfinished = unfinished_after(n_answered)()
        assert unfinished is not None
        assert unfinished.calls == 3


def test_a_run_under_a_cap_tells_what_each_cut_off_row_cost() -> None:
    """Through the public interface: rows, judged or cut off, cost what was spent."""
    judge = Refusing(LimitReached("enough"), after=5)
    report = evaluate(
        [SAMPLE] * 9,
        BOTH[1:],
        judge=judge,
        limits=Limits(max_calls=1000),
        progress=False,
    )
    scored = [row for row in report.results if row.results]
    cut_off = [row for row in report.results if row.unfinished is not None]
    assert (len(scored), len(cut_off)) == (5, 4)
    assert report.usage.calls == 9


def test_a_function_that_is_a_metric_needs_no_judge_to_be_paid() -> None:
    @metric(requires=["answer"])
    def fine(sample: Sample) -> bool:
        return True

    judge = Answering()
    judging = judging_by({"fine": judge})
    [result] = judged(judging, [fine], SAMPLE)
    assert (result.results["fine"].value, judging.was_paid, judge.asked) == (
        1.0,
        False,
        [],
    )
