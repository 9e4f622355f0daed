"""The contract that every adapter keeps: the same turn gives the same sample and the same score in each framework."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

from ragmetrics_core.capture import FrontDoor
from ragmetrics_core.data import MetricResult, Sample, SettingError
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.testing.golden_turns import (
    GOLDEN_TURNS,
    SHOWN_CASES,
    SHOWN_TURN,
    GoldenTurn,
)

_FRAMEWORKS = ("langchain_core", "llama_index", "haystack")
_CLIENTS = (
    "openai",
    "anthropic",
    "cohere",
    "mistralai",
    "google.genai",
    "boto3",
    "litellm",
)


class AdapterContract:
    """Tests that hold for every adapter.

    Subclass it as ``class TestContract(AdapterContract)`` and implement the methods
    that raise here.

    Attributes:
        module: Import name of the adapter.
        framework: Import name of its framework, one of langchain_core, llama_index,
            haystack.
        keeps_ids: Whether the framework's chunks carry ids.
        keeps_scores: Whether the framework's chunks carry scores.
        own_arguments: What ``capture``, ``watch`` and ``samples_from`` take besides
            what all adapters take.
    """

    module: ClassVar[str]
    framework: ClassVar[str]
    keeps_ids: ClassVar[bool] = True
    keeps_scores: ClassVar[bool] = True
    own_arguments: ClassVar[tuple[str, ...]] = ()

    def play(self, turn: GoldenTurn) -> tuple[list[Sample], Any]:
        """Run a real application over a turn under capture: the samples, and what the application returned."""
        raise AssertionError("implement play()")

    def play_uncaptured(self, turn: GoldenTurn) -> Any:
        """The same application without capture.

        What it returned, comparable to that of ``play``.
        """
        raise AssertionError("implement play_uncaptured()")

    def play_streamed(self, turn: GoldenTurn) -> list[Sample]:
        """The same application with a streamed answer."""
        raise AssertionError("implement play_streamed()")

    async def play_async(self, turn: GoldenTurn) -> list[Sample]:
        """The same application through its async API."""
        raise AssertionError("implement play_async()")

    def play_unanswered(self, turn: GoldenTurn) -> list[Sample]:
        """The same application, failing after retrieval: its generator raises.

        The error is swallowed here.
        """
        raise AssertionError("implement play_unanswered()")

    def play_prompt(self, turn: GoldenTurn, prompt: str) -> list[Sample]:
        """A real application that retrieves the contexts of a turn and hands its model exactly this prompt."""
        raise AssertionError("implement play_prompt()")

    def play_two(self, one: GoldenTurn, two: GoldenTurn) -> list[Sample]:
        """A real application that retrieves the contexts of both turns, one after the other, and answers the second."""
        raise AssertionError("implement play_two()")

    def to_native_and_back(self, result: MetricResult) -> tuple[float | None, str]:
        """Turn a result into the framework's own result type and read score and reason back from it."""
        raise AssertionError("implement to_native_and_back()")

    def door(self) -> Any:
        """What holds ``capture``, ``watch`` and ``samples_from``: the adapter's module."""
        return import_module(self.module)

    def expected(self, turn: GoldenTurn) -> Sample:
        """The sample that a turn must give.

        Chunks lose what the framework cannot carry.
        """
        lost = {
            name: None
            for name, kept in (("id", self.keeps_ids), ("score", self.keeps_scores))
            if not kept
        }
        contexts = tuple(context.model_copy(update=lost) for context in turn.contexts)
        return Sample(question=turn.question, contexts=contexts, answer=turn.answer)

    def check(self, samples: list[Sample], turn: GoldenTurn) -> None:
        """One sample, equal to the expected one in everything that metrics read."""
        assert len(samples) == 1, f"{turn.name}: {len(samples)} samples"
        sample, expected = samples[0], self.expected(turn)
        assert (sample.question, sample.answer, sample.error) == (
            expected.question,
            expected.answer,
            None,
        ), turn.name
        found, wanted = (
            [(c.text, c.id, c.score) for c in one.contexts]
            for one in (sample, expected)
        )
        assert found == wanted, turn.name

    def test_golden_turns(self) -> None:
        """Each turn gives exactly its sample."""
        for turn in GOLDEN_TURNS:
            self.check(self.play(turn)[0], turn)

    def test_what_the_prompt_shows(self) -> None:
        """The same prompt gives the same contexts, in its order, as much of each as it shows."""
        for case in SHOWN_CASES:
            (sample,) = self.play_prompt(SHOWN_TURN, case.prompt)
            assert sample.capture is not None
            assert sample.question == SHOWN_TURN.question, case.name
            assert (
                tuple(context.text for context in sample.contexts) == case.contexts
            ), case.name
            assert sample.capture.grade == case.grade, case.name
            ids = {context.text: context.id for context in SHOWN_TURN.contexts}
            if self.keeps_ids:
                assert all(
                    one.id == ids.get(one.text, one.id) for one in sample.contexts
                ), case.name

    def test_ledger(self) -> None:
        """Each retrieval is one call, an empty one too.

        Plain RAG has no steps, tools, agents or earlier turns.
        """
        one, two = GOLDEN_TURNS[0], GOLDEN_TURNS[1]
        runs = [(self.play(turn)[0], (turn,)) for turn in GOLDEN_TURNS]
        for samples, turns in (*runs, (self.play_two(one, two), (one, two))):
            (sample,) = samples
            assert sample.ledger is not None
            for call, turn in zip(sample.ledger.calls, turns, strict=True):
                items = [context.text for context in turn.contexts]
                assert [item.text for item in call.items] == items, turn.name
                told = (
                    call.kind,
                    call.turn,
                    call.step,
                    call.name,
                    call.agent,
                    call.error,
                    call.shown,
                )
                assert told == (
                    "retrieval",
                    1,
                    0,
                    None,
                    None,
                    None,
                    tuple(range(len(items))),
                ), turn.name

    def test_streamed(self) -> None:
        """A streamed answer is captured whole."""
        for turn in GOLDEN_TURNS:
            self.check(self.play_streamed(turn), turn)

    def test_async(self) -> None:
        """The async API gives the same samples."""
        for turn in GOLDEN_TURNS:
            self.check(asyncio.run(self.play_async(turn)), turn)

    def test_missing_answer_is_reported_not_scored(self) -> None:
        """A run that broke gives a sample without answer that no metric scores."""
        samples = self.play_unanswered(GOLDEN_TURNS[0])
        assert len(samples) == 1
        assert samples[0].question == GOLDEN_TURNS[0].question
        assert samples[0].answer is None
        assert samples[0].error
        report = evaluate(
            samples, ["context_adherence"], judge="lexical", progress=False
        )
        assert report.results[0].results["context_adherence"].status == "undefined"

    def test_same_result_as_the_core(self) -> None:
        """Scores, reasons and verdicts are those of the core on the hand-written sample."""
        for turn in GOLDEN_TURNS:
            captured = self.play(turn)[0][0].model_copy(
                update={"reference": turn.sample.reference}
            )
            if captured.retrieved is not None:
                assert [c.text for c in captured.retrieved] == [
                    c.text for c in turn.contexts
                ], turn.name
            written = turn.sample.model_copy(update={"retrieved": captured.retrieved})
            found, wanted = (
                [
                    (one.metric, one.status, one.value, one.reason)
                    for one in _outcomes(sample)
                ]
                for sample in (captured, written)
            )
            assert found == wanted, turn.name

    def test_native_result_carries_score_and_reason(self) -> None:
        """The framework's own result has the same score and reason.

        No score stays no score.
        """
        for turn in GOLDEN_TURNS:
            for outcome in _outcomes(turn.sample):
                assert self.to_native_and_back(outcome) == (
                    outcome.value,
                    outcome.reason,
                ), turn.name

    def test_application_is_untouched(self) -> None:
        """What the application returns is the same with and without capture."""
        for turn in GOLDEN_TURNS:
            assert self.play(turn)[1] == self.play_uncaptured(turn), turn.name

    def test_other_frameworks_and_clients_stay_out(self) -> None:
        """Importing the adapter imports no other framework and no client of a model's provider."""
        others = [name for name in (*_FRAMEWORKS, *_CLIENTS) if name != self.framework]
        code = (
            f"import sys, {self.module}; print([name for name in {others!r} if name in"
            " sys.modules])"
        )
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )  # our own code
        assert done.stdout.strip() == "[]"

    def test_front_door(self) -> None:
        """``capture``, ``watch`` and ``samples_from`` have the names, order and defaults of every adapter."""
        door, shared = self.door(), FrontDoor
        for name in ("capture", "watch", "samples_from"):
            found, expected = getattr(door, name), getattr(shared, name)
            assert _arguments(found, self.own_arguments) == _arguments(expected)
            assert inspect.getdoc(found), "a front door without a word"
        try:
            with door.capture(question_from=3):
                raise AssertionError("a place of a wrong type is taken")
        except SettingError as error:
            assert "question_from" in str(error)  # noqa: PT017  # a contract needs no test runner

    def test_a_block_without_a_run_says_why(self) -> None:
        """A block that saw nothing says what to do."""
        with self.door().capture() as captured:
            pass
        assert captured.samples == ()
        assert "inside the block" in repr(captured.problems)

    def test_requests_of_two_tenants_never_mix(self) -> None:
        """Concurrent requests: each capture has its own run alone, through its own ``redact``, under its own names."""
        door = self.door()

        async def request(tenant: str, turn: GoldenTurn) -> None:
            masked = partial(_masked, tenant)
            with door.capture(
                metadata={"tenant": tenant}, conversation=tenant, redact=masked
            ) as captured:
                await self.play_async(turn)
            (sample,) = captured.samples
            assert sample.question == f"{tenant}: {turn.question}"
            assert (sample.answer, sample.metadata) == (tenant, {"tenant": tenant})
            assert [context.text for context in sample.contexts] == [
                context.text for context in turn.contexts
            ]
            assert sample.ledger is not None
            assert sample.ledger.conversation == tenant

        async def requests() -> None:
            turns = [GOLDEN_TURNS[0], GOLDEN_TURNS[1]] * 10
            await asyncio.gather(
                *(request("ab"[place % 2], turn) for place, turn in enumerate(turns))
            )

        asyncio.run(requests())

    def test_nothing_gets_a_sample_before_redact(self) -> None:
        """A watch hands on what ``redact`` gave.

        Where it raises, nothing is handed on and it is counted.
        """
        door, seen = self.door(), list[Any]()
        fine = door.watch([], redact=partial(_masked, "x"), on_result=seen.append)
        broken = door.watch([], redact=_broken, on_result=seen.append)
        try:
            self.play(GOLDEN_TURNS[0])
            with door.capture(redact=_broken) as captured:
                self.play(GOLDEN_TURNS[0])
        finally:
            assert fine.stop(60)
            assert broken.stop(60)
        assert [result.sample.answer for result in seen] == ["x", "x"]
        assert captured.samples == ()
        assert [
            sum(one.problems.counts.values()) for one in (fine, broken, captured)
        ] == [0, 2, 1]


def _arguments(
    door: Callable[..., object], own: tuple[str, ...] = ()
) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each argument, without those of one adapter alone."""
    found = inspect.signature(door).parameters.values()
    return [
        (one.name, one.kind, one.default)
        for one in found
        if one.name not in ("self", *own)
    ]


def _masked(tenant: str, sample: Sample) -> Sample:
    return sample.model_copy(
        update={"question": f"{tenant}: {sample.question}", "answer": tenant}
    )


def _broken(sample: Sample) -> Sample:
    raise LookupError(sample.question)


def _outcomes(sample: Sample) -> list[MetricResult]:
    metrics = (
        "context_utilization",
        "context_adherence",
        "context_recall",
        "retrieval_accuracy",
    )
    report = evaluate([sample], metrics, judge="lexical", progress=False)
    return list(report.results[0].results.values())
