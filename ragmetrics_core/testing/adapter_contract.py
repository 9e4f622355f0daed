"""The contract that every adapter keeps.

The same turn gives the same sample and the same score in each framework.
"""

import asyncio
import gc
import html
import inspect
import json
import os
import subprocess
import sys
import textwrap
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock, patch

from pydantic import Field, TypeAdapter

from ragmetrics_core.capture import Document, FrontDoor, Listener, Message, Node
from ragmetrics_core.data import (
    Context,
    Frozen,
    Grade,
    MetricResult,
    Sample,
    SettingError,
)
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.models.judge_work import as_judge_work


class GoldenTurn(Frozen):
    """One turn of a RAG application, to be played through a framework.

    Attributes:
        name: What is special about it.
        question: What the user asks.
        contexts: What the retriever returns, in rank order; () for nothing.
        answer: What the generator answers; None for nothing.
        reference: The expected answer.
    """

    name: str
    question: str = Field(repr=False)
    contexts: tuple[Context, ...]
    answer: str | None = Field(repr=False)
    reference: str | None = Field(default=None, repr=False)

    @property
    def sample(self) -> Sample:
        """The sample that an adapter must capture."""
        return Sample(
            question=self.question,
            contexts=self.contexts,
            answer=self.answer,
            reference=self.reference,
        )


*_TURNS, SHOWN_TURN = TypeAdapter(tuple[GoldenTurn, ...]).validate_json(
    Path(__file__).with_name("golden_turns.json").read_bytes()
)
GOLDEN_TURNS: tuple[GoldenTurn, ...] = tuple(_TURNS)
FRANCE_QUESTION = GOLDEN_TURNS[0].question
FRANCE_WINE, FRANCE_PARIS = (context.text for context in GOLDEN_TURNS[0].contexts)


class ShownCase(Frozen):
    """A prompt that shows documents of ``SHOWN_TURN``, and what must be captured.

    Attributes:
        name: The form.
        prompt: Exactly what the model is handed.
        contexts: Texts of the contexts, in order.
        grade: How sure that is.
    """

    name: str
    prompt: str = Field(repr=False)
    contexts: tuple[str, ...] = Field(repr=False)
    grade: Grade


FRANCE_TRAINS = SHOWN_TURN.contexts[2].text
_ALL = (FRANCE_WINE, FRANCE_PARIS, FRANCE_TRAINS)
_CUT = FRANCE_PARIS[: FRANCE_PARIS.index(". Paris")]


def _shown_case(
    name: str, context: str, contexts: tuple[str, ...] = _ALL, grade: Grade = "exact"
) -> ShownCase:
    prompt = f"Answer from the context alone.\n{context}\n\nQuestion: {FRANCE_QUESTION}"
    return ShownCase(name=name, prompt=prompt, contexts=contexts, grade=grade)


_REVERSED = _ALL[::-1]
_ROWS = [{"text": text, "rank": rank} for rank, text in enumerate(_ALL)]
_TAGGED = [f"<doc>{html.escape(text)}</doc>" for text in _ALL]
_WRAPPED = [
    f"[{number}] {textwrap.fill(text, 40)}" for number, text in enumerate(_ALL, 1)
]
_LINES = "\n".join(_ALL).splitlines()
_QUOTED = [f"> {line}" for line in _LINES]

SHOWN_CASES: tuple[ShownCase, ...] = (
    _shown_case("joined", "\n\n".join(_ALL)),
    _shown_case("in another order", "\n\n".join(_REVERSED), _REVERSED),
    _shown_case("repr of a list", repr(list(_ALL))),
    _shown_case("ascii repr", ascii(list(_ALL))),
    _shown_case("json", json.dumps(_ROWS)),
    _shown_case("json inside json", json.dumps(json.dumps(_ALL))),
    _shown_case("escaped", "".join(_TAGGED)),
    _shown_case("wrapped and numbered", "\n".join(_WRAPPED)),
    _shown_case("quoted lines", "\n".join(_QUOTED)),
    _shown_case("lower case", " | ".join(_ALL).lower()),
    _shown_case("one of three", FRANCE_TRAINS, (FRANCE_TRAINS,)),
    _shown_case("cut", f"{FRANCE_WINE}\n{_CUT}", (FRANCE_WINE, _CUT), "inferred"),
    _shown_case("none", "France is in Europe, they say.", _ALL, "inferred"),
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
        framework: Import name of its framework, e.g. haystack.
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
        """Run a real application over a turn under capture.

        Returns:
            The samples, and what the application returned.
        """
        raise AssertionError("implement play()")

    def play_uncaptured(self, turn: GoldenTurn) -> Any:
        """Run the same application without capture.

        Returns:
            What the application returned, comparable to that of ``play``.
        """
        raise AssertionError("implement play_uncaptured()")

    def play_streamed(self, turn: GoldenTurn) -> list[Sample] | None:
        """Run the same application with a streamed answer.

        Returns:
            The samples; None for a framework without streams.
        """
        raise AssertionError("implement play_streamed()")

    async def play_async(self, turn: GoldenTurn) -> list[Sample] | None:
        """Run the same application through its async API.

        Returns:
            The samples; None for a framework without an async API.
        """
        raise AssertionError("implement play_async()")

    def play_unanswered(self, turn: GoldenTurn) -> list[Sample]:
        """Run the same application with a generator that raises; swallow the error."""
        raise AssertionError("implement play_unanswered()")

    def play_prompt(self, turn: GoldenTurn, prompt: str) -> list[Sample]:
        """Run an application that retrieves a turn's contexts and shows this prompt."""
        raise AssertionError("implement play_prompt()")

    def play_two(self, earlier: GoldenTurn, later: GoldenTurn) -> list[Sample]:
        """Run an application that retrieves the contexts of both turns in order.

        It answers the later one.
        """
        raise AssertionError("implement play_two()")

    def play_reranked(self, turn: GoldenTurn) -> list[Sample] | None:
        """Run an application whose reranker turns a turn's contexts round and drops the last.

        The prompt shows what the reranker returned: of the contexts A, B and C it shows
        B and A.

        Returns:
            The samples; None for a framework without rerankers.
        """
        return None

    def play_changed(self, turn: GoldenTurn) -> list[Sample]:
        """Run an application whose own code changes its chunks afterwards.

        After the run, and before the samples are read, the text of every chunk that was
        retrieved is changed in place.
        """
        raise AssertionError("implement play_changed()")

    def begin(self, turn: GoldenTurn) -> Iterator[object] | None:
        """Begin a run without capture that goes on after this call, such as a stream.

        The contract opens a block around this call. It reads the rest of the run after
        the block, or drops it.

        Returns:
            The rest of the run: reading it ends the run, dropping it abandons the run.
            None for a framework whose runs all end before their call returns.
        """
        raise AssertionError("implement begin()")

    def hooks(self) -> Any:
        """Return what the framework calls at present: its list of hooks, copied.

        By default None, as of a framework that keeps no such list.
        """
        return None

    def to_native_and_back(self, result: MetricResult) -> tuple[float | None, str]:
        """Turn a result into the framework's own, and read score and reason back.

        Where the framework has no result of its own: ``result.value, result.reason``.
        """
        raise AssertionError("implement to_native_and_back()")

    def adapter_module(self) -> Any:
        """Return what holds ``capture``, ``watch`` and ``samples_from``."""
        return import_module(self.module)

    def expected(self, turn: GoldenTurn) -> Sample:
        """Return the sample that a turn must give.

        Chunks lose what the framework cannot carry.
        """
        lost = {} if self.keeps_ids else {"id": None}
        if not self.keeps_scores:
            lost["score"] = None
        contexts = tuple(context.model_copy(update=lost) for context in turn.contexts)
        return Sample(question=turn.question, contexts=contexts, answer=turn.answer)

    def check(self, samples: list[Sample], turn: GoldenTurn) -> None:
        """Assert that there is one sample, and that it is the one expected of a turn.

        It has the same question, answer and contexts: all that metrics read. The
        messages tell the author of an adapter what its record of the run lacks.

        Args:
            samples: What was captured.
            turn: The turn that was played.
        """
        assert len(samples) == 1, (
            f"{turn.name}: {len(samples)} samples; the log says what could not be read"
        )
        (sample,) = samples
        expected = self.expected(turn)
        assert sample.question == expected.question, (
            f"{turn.name}: record the question that the run was asked"
        )
        assert sample.answer == expected.answer, (
            f"{turn.name}: record what the application answered"
        )
        assert sample.error is None, (
            f"{turn.name}: a run that returns has no error, got {sample.error}"
        )
        contexts = _texts_ids_scores(sample.known_contexts)
        assert contexts == _texts_ids_scores(expected.known_contexts), (
            f"{turn.name}: other contexts; chunks without ids or scores say so by"
            " keeps_ids = False, keeps_scores = False"
        )

    def test_golden_turns(self) -> None:
        """Each turn gives exactly its sample."""
        for turn in GOLDEN_TURNS:
            self.check(self.play(turn)[0], turn)

    def test_what_the_prompt_shows(self) -> None:
        """The adapter finds the contexts that each prompt shows, in the prompt's order.

        A retriever returns the three documents of ``SHOWN_TURN``. Each case is a prompt
        that shows some of them, e.g. as JSON or cut, and how sure it is which
        (``grade``). The messages tell the author of an adapter what to mend.
        """
        id_by_text = {context.text: context.id for context in SHOWN_TURN.contexts}
        for case in SHOWN_CASES:
            (sample,) = self.play_prompt(SHOWN_TURN, case.prompt)
            assert sample.capture is not None, f"{case.name}: it was not captured"
            assert sample.question == SHOWN_TURN.question, (
                f"{case.name}: record the question that the run was asked"
            )
            texts = tuple(context.text for context in sample.known_contexts)
            assert texts == case.contexts, (
                f"{case.name}: record in the model's node the prompt as it was sent, and in"
                " the retriever's node its documents"
            )
            assert sample.capture.grade == case.grade, (
                f"{case.name}: warnings are {sample.capture.warnings}"
            )
            for context in sample.known_contexts:
                if self.keeps_ids and context.text in id_by_text:
                    assert context.id == id_by_text[context.text], (
                        f"{case.name}: a context has another id than its chunk; chunks"
                        " without ids say so by keeps_ids = False"
                    )

    def test_ledger(self) -> None:
        """Each retrieval is one call, an empty one too.

        Plain RAG has no steps, tools, agents or earlier turns.
        """
        for turn in GOLDEN_TURNS:
            _check_ledger(self.play(turn)[0], (turn,))
        earlier, later = GOLDEN_TURNS[:2]
        _check_ledger(self.play_two(earlier, later), (earlier, later))

    def test_reranked(self) -> None:
        """A reranker found nothing: it is no retrieval, and dropped what it left out."""
        samples = self.play_reranked(SHOWN_TURN)
        if samples is None:
            return
        (sample,) = samples
        texts = [context.text for context in SHOWN_TURN.contexts]
        assert [context.text for context in sample.known_contexts] == texts[-2::-1], (
            "record in the model's node the prompt as it was sent"
        )
        assert sample.ledger is not None, "a captured sample has a ledger"
        found = [
            [item.text for item in call.items]
            for call in sample.ledger.calls
            if call.kind == "retrieval"
        ]
        assert found == [texts], "a reranker has a node of kind reranker, not retriever"
        assert [context.text for context in sample.retrieved or ()] == texts, (
            "record in the retriever's node all that it returned"
        )
        assert sample.capture is not None, "it was not captured"
        kept = [note.kept for note in sample.capture.passages or ()]
        assert kept == [True] * (len(texts) - 1) + [False], (
            "record in the reranker's node what it was given, and what it returned"
        )

    def test_streamed(self) -> None:
        """A streamed answer is captured whole."""
        for turn in GOLDEN_TURNS:
            samples = self.play_streamed(turn)
            if samples is not None:
                self.check(samples, turn)

    def test_async(self) -> None:
        """The async API gives the same samples."""
        for turn in GOLDEN_TURNS:
            samples = asyncio.run(self.play_async(turn))
            if samples is not None:
                self.check(samples, turn)

    def test_missing_answer_is_reported_not_scored(self) -> None:
        """A run that broke gives a sample without answer that no metric scores."""
        samples = self.play_unanswered(GOLDEN_TURNS[0])
        assert len(samples) == 1, (
            f"a run that broke gave {len(samples)} samples: record its end, too"
        )
        assert samples[0].question == GOLDEN_TURNS[0].question, (
            "a run that broke keeps the question that it was asked"
        )
        assert samples[0].answer is None, "a run that broke has no answer"
        assert samples[0].error, "record the error of a run that broke, in words"
        report = evaluate(
            samples, ["context_adherence"], judge="lexical", progress=False
        )
        status = report.results[0].results["context_adherence"].status
        assert status == "undefined", f"a sample without an answer was {status}"

    def test_same_result_as_the_core(self) -> None:
        """A captured sample has the scores and reasons of the sample written by hand.

        ``turn.sample`` is written by hand. Each lacks a field that only the other can
        have. So the captured sample gets the reference, and the sample written by hand
        gets ``retrieved``, all documents that a retriever returned.
        """
        for turn in GOLDEN_TURNS:
            # runs the framework's application over the turn, and captures the run
            samples, _ = self.play(turn)
            (sample,) = samples
            captured = sample.model_copy(update={"reference": turn.sample.reference})
            if captured.retrieved is not None:
                # in these turns the prompt shows all that the retriever returned
                retrieved_texts = [context.text for context in captured.retrieved]
                texts = [context.text for context in turn.contexts]
                assert retrieved_texts == texts, (
                    f"{turn.name}: record in the retriever's node all that it returned"
                )
            written = turn.sample.model_copy(update={"retrieved": captured.retrieved})
            assert _outcomes_in_short(captured) == _outcomes_in_short(written), (
                f"{turn.name}: the captured sample is judged otherwise than the same"
                " sample written by hand"
            )

    def test_native_result_carries_score_and_reason(self) -> None:
        """The framework's own result has the same score and reason.

        No score stays no score.
        """
        for turn in GOLDEN_TURNS:
            for outcome in _outcomes(turn.sample):
                expected = (outcome.value, outcome.reason)
                assert self.to_native_and_back(outcome) == expected, (
                    f"{turn.name}: the framework's own result must have the same score"
                    " and reason; no score stays None"
                )

    def test_application_is_untouched(self) -> None:
        """What the application returns is the same with and without capture."""
        for turn in GOLDEN_TURNS:
            assert self.play(turn)[1] == self.play_uncaptured(turn), (
                f"{turn.name}: under capture the application returned something else"
            )

    def test_a_fault_of_the_adapter_does_not_reach_the_application(self) -> None:
        """Where a hook raises, the application goes on, and it is counted.

        Faults are planted where hooks meet the core: in keeping a run, and in making
        each single call, document and message.
        """
        no_run_can_be_kept = patch.object(
            Listener, "record", _RaisingRecord(), create=True
        )
        with no_run_can_be_kept, self.adapter_module().capture() as captured:
            self._play_with_a_fault("keeping a run")
        assert _n_problems(captured) >= 1, "a fault of a hook was not counted"
        # Of a run that makes 3 documents, making the first one raises, then making the
        # second, then the third. The fourth time nothing raises.
        for kind in (Node, Document, Message):
            for number in count(1):
                fault_in_making = _fault_in_making(kind, number)
                with fault_in_making as made, self.adapter_module().capture():
                    self._play_with_a_fault(f"making {kind.__name__} {number}")
                if made.total() < number:
                    break

    def _play_with_a_fault(self, fault: str) -> None:
        """Play an application that answers and one that fails, while hooks raise."""
        turn = GOLDEN_TURNS[0]
        try:
            output = self.play_uncaptured(turn)
            self.play_unanswered(turn)
        except Exception as error:  # a fault may lead to others of any kind
            raise AssertionError(
                f"the application gets {type(error).__name__} after a fault in {fault}:"
                " guard every hook with guard_hook"
            ) from error
        with as_judge_work():  # reaches no listener
            assert output == self.play_uncaptured(turn), (
                f"after a fault in {fault} the application returned something else"
            )

    def test_chunks_are_copied(self) -> None:
        """What the application does to its chunks after the run changes no sample."""
        for turn in GOLDEN_TURNS:
            samples = self.play_changed(turn)
            self.check(samples, turn)
            unchanged_samples, _ = self.play(turn)
            metadata, expected = (
                [context.metadata for context in sample.known_contexts]
                for sample in (samples[0], unchanged_samples[0])
            )
            assert metadata == expected, (
                f"{turn.name}: copy the metadata of a chunk when it is returned"
            )

    def test_no_hook_stays_when_nobody_listens(self) -> None:
        """A block puts hooks into the framework, and leaves its list as it was."""
        hooks_before = self.hooks()
        with self.adapter_module().capture():
            self.play_uncaptured(GOLDEN_TURNS[0])
            hooks_inside = self.hooks()
        assert self.hooks() == hooks_before, "a hook was left installed"
        if hooks_before is not None:
            assert hooks_inside != hooks_before, (
                "hooks() is the same inside a block and outside of it: a hook was left"
                " installed by an earlier block"
            )

    def test_a_run_that_goes_on_after_its_block_is_a_sample(self) -> None:
        """A run that began in a block belongs to it, whenever it ends."""
        turn = GOLDEN_TURNS[0]
        hooks_before = self.hooks()
        with self.adapter_module().capture() as captured:
            rest_of_run = self.begin(turn)
        if rest_of_run is None:  # all runs of the framework end inside the block
            return
        assert captured.recorded == 0, "begin() gave a run that has ended already"
        assert "ended without a sample" not in repr(captured.problems), (
            "the block says that nothing ran in it, while a run of it goes on: ask"
            " LISTENERS.begin() when a run begins"
        )
        for _ in rest_of_run:  # such as the tokens of a stream; reading ends the run
            pass
        assert captured.samples, (
            "a run that ended after its block gave no sample: leave the hooks in place"
            " until the last run that goes on has ended"
        )
        self.check(list(captured.samples), turn)
        assert self.hooks() == hooks_before, (
            "a hook was left installed by a run that ended after its block"
        )
        del rest_of_run
        # Once nobody holds the block, it must be gone from memory.
        reference = weakref.ref(captured)
        del captured
        gc.collect()
        assert reference() is None, (
            "the recorder keeps a run that ended after its block"
        )

    def test_runs_come_in_the_order_in_which_they_began(self) -> None:
        """Also where an earlier run ends later, such as one whose stream is read slowly."""
        first, second = GOLDEN_TURNS[:2]
        with self.adapter_module().capture() as captured:
            rest_of_run = self.begin(first)
            if rest_of_run is None:  # no run ends after a later one
                return
            self.play_uncaptured(second)
            for _ in rest_of_run:
                pass
        questions = [sample.question for sample in captured.samples]
        assert questions == [first.question, second.question], (
            "samples do not come in the order in which their runs began: tell it by an"
            " attribute `began` of a run"
        )

    def test_a_block_that_has_ended_is_forgotten(self) -> None:
        """Nothing keeps a capture alive, also if a stream of it was left."""
        with self.adapter_module().capture() as captured:
            self.play_uncaptured(GOLDEN_TURNS[0])
            rest = self.begin(GOLDEN_TURNS[0])
            del rest  # abandons the run
        reference = weakref.ref(captured)
        del captured
        gc.collect()
        assert reference() is None, "the recorder keeps runs of a block that has ended"

    def test_a_judges_own_run_is_no_sample(self) -> None:
        """What a judge does with the framework is not recorded."""
        with self.adapter_module().capture() as captured, as_judge_work():
            self.play_uncaptured(GOLDEN_TURNS[0])
        assert captured.samples == (), (
            "a judge's own run was recorded: ask LISTENERS.begin() when a run begins"
        )

    def test_what_is_no_run_is_refused_in_words(self) -> None:
        """``samples_from`` names what it cannot read."""
        for nothing in (object(), 3):
            try:
                self.adapter_module().samples_from(nothing)
            except SettingError as error:
                assert type(nothing).__name__ in str(error), (  # noqa: PT017  # a contract needs no test runner
                    "samples_from() must name the type of what is no run"
                )
            else:
                raise AssertionError("samples_from() takes what is no run")

    def test_other_frameworks_and_clients_stay_out(self) -> None:
        """Importing the adapter imports no other framework and no client."""
        foreign = [name for name in _FRAMEWORKS if name != self.framework]
        foreign += _CLIENTS
        # of all its names, since a package may import each at its first use
        code = (
            f"import sys; from {self.module} import *; print([name for name in"
            f" {foreign!r} if name in sys.modules])"
        )
        process = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # our own code
        assert process.returncode == 0, (
            f"{self.module} cannot be imported in another process: {process.stderr}"
        )
        assert process.stdout.strip() == "[]", (
            f"importing {self.module} imports {process.stdout.strip()}: import what is"
            " not always needed inside the function that needs it"
        )

    def test_front_door(self) -> None:
        """The front door takes the arguments that all adapters take."""
        adapter = self.adapter_module()
        for name in ("capture", "watch", "samples_from"):
            function = getattr(adapter, name)
            arguments = _arguments(function, self.own_arguments)
            assert arguments == _arguments(getattr(FrontDoor, name)), (
                f"{name}() must take what FrontDoor.{name} takes; what it takes besides"
                " stands in own_arguments"
            )
            assert inspect.getdoc(function), f"give {name}() a docstring"
        try:
            with adapter.capture(question_from=3):
                raise AssertionError("a place of a wrong type is taken")
        except SettingError as error:
            assert "question_from" in str(error), (  # noqa: PT017  # a contract needs no test runner
                "the error must name the argument that is wrong, question_from"
            )

    def test_a_function_of_the_user_that_raises_loses_no_sample(self) -> None:
        """The sample is read by the rules then, and hedged; ``problems`` names the function."""

        def broken(run: Any) -> str:
            return str(run.no_such_name)

        with self.adapter_module().capture(answer_from=broken) as captured:
            self.play_uncaptured(GOLDEN_TURNS[0])
        (sample,) = captured.samples
        assert sample.answer == GOLDEN_TURNS[0].answer, (
            "the answer is not that by the rules"
        )
        assert sample.capture.grade == "inferred", "the sample is not hedged"
        assert "answer_from=broken raised AttributeError" in repr(captured.problems), (
            "problems do not say which function raised what"
        )

    def test_a_block_without_a_run_says_why(self) -> None:
        """A block that saw nothing says what to do."""
        with self.adapter_module().capture() as captured:
            pass
        assert captured.samples == (), "a block that saw no run gave a sample"
        assert "inside the block" in repr(captured.problems), (
            "unseen= of FrontDoor says what to run inside the block"
        )

    def test_requests_of_two_tenants_never_mix(self) -> None:
        """Each of many concurrent captures has its own run alone.

        It goes through the capture's ``redact``, and under its names.
        """

        async def request_of_two_tenants() -> None:
            tenants = [("a", GOLDEN_TURNS[0]), ("b", GOLDEN_TURNS[1])] * 10
            await asyncio.gather(*(self._request(*tenant) for tenant in tenants))

        asyncio.run(request_of_two_tenants())

    async def _request(self, tenant: str, turn: GoldenTurn) -> None:
        """Play a turn as the request of a tenant, and assert that the sample is theirs.

        For a tenant "a" the name is given as metadata, as the conversation and by
        ``redact``, which makes the question "a: Who lit the lamp?" and the answer "a".
        All three must arrive in the sample, with the contexts of the turn.
        """
        with self.adapter_module().capture(
            metadata={"tenant": tenant},
            conversation=tenant,
            redact=partial(_mask, tenant),
        ) as captured:
            if await self.play_async(turn) is None:
                await asyncio.to_thread(self.play_uncaptured, turn)
        assert len(captured.samples) == 1, (
            f"a block gave {len(captured.samples)} samples for one run, while other"
            " blocks were open: give a run to the listeners that begin() named"
        )
        (sample,) = captured.samples
        mixed = "the sample of another block came: keep what is recorded in its run"
        assert sample.question == f"{tenant}: {turn.question}", mixed
        assert sample.answer == tenant, mixed
        assert sample.metadata == {"tenant": tenant}, mixed
        texts = [context.text for context in sample.contexts]
        assert texts == [context.text for context in turn.contexts], mixed
        assert sample.ledger is not None, "a captured sample has a ledger"
        assert sample.ledger.conversation == tenant, mixed

    def test_nothing_gets_a_sample_before_redact(self) -> None:
        """Whoever listens gets what ``redact`` returned, and nothing where it raises.

        The turn is played twice. Two watches listen both times, and a block the second
        time. One watch masks the sample; the other watch and the block have a
        ``redact`` that raises.
        """
        adapter = self.adapter_module()
        turn = GOLDEN_TURNS[0]
        results: list[Any] = []
        mask = partial(_mask, "x")  # makes the answer "x"
        masking = adapter.watch([], redact=mask, on_result=results.append)
        failing = adapter.watch([], redact=_fail_to_redact, on_result=results.append)
        try:
            self.play(turn)
            with adapter.capture(redact=_fail_to_redact) as captured:
                self.play(turn)
        finally:
            assert masking.stop(60), "the watch did not end within 60 seconds"
            assert failing.stop(60), "the watch did not end within 60 seconds"
        answers = [result.sample.answer for result in results]
        assert answers == ["x", "x"], (
            "the turn was played twice: on_result must get what redact returned, and"
            " nothing where redact raised"
        )
        assert captured.samples == (), "a sample came through a redact that raised"
        assert _n_problems(masking) == 0, "a redact that worked counts as a problem"
        refused = "each sample that redact refused is one problem"
        assert _n_problems(failing) == 2, refused
        assert _n_problems(captured) == 1, refused


def _check_ledger(samples: list[Sample], golden_turns: Sequence[GoldenTurn]) -> None:
    """Assert that a sample's ledger has a retrieval for each golden example.

    The model was shown all that each of them found. The ledger is the sample's list of
    calls that brought texts: for three golden examples, three retrievals.
    """
    assert len(samples) == 1, f"one run gave {len(samples)} samples"
    (sample,) = samples
    assert sample.ledger is not None, "a captured sample has a ledger"
    n_calls = len(sample.ledger.calls)
    assert n_calls == len(golden_turns), (
        f"{len(golden_turns)} retrievals were made, and {n_calls} recorded: give each"
        " a node of kind retriever, also where it found nothing"
    )
    for call, golden in zip(sample.ledger.calls, golden_turns, strict=True):
        texts = [context.text for context in golden.contexts]
        indices_of_all = tuple(range(len(texts)))
        assert [context.text for context in call.items] == texts, (
            f"{golden.name}: record in the retriever's node all that it returned"
        )
        assert call.shown == indices_of_all, (
            f"{golden.name}: record in the model's node the prompt as it was sent"
        )
        assert call.kind == "retrieval", f"{golden.name}: its node is a retriever"
        # one run makes all retrievals, outside of any agent or tool
        places = (call.turn, call.step, call.name, call.agent)
        assert places == (1, 0, None, None), (
            f"{golden.name}: a retrieval of plain RAG stands in the first turn, before"
            " any reply of a model, and in no tool or agent"
        )
        assert call.error is None, (
            f"{golden.name}: a retrieval that worked has no error"
        )


def _texts_ids_scores(contexts: Sequence[Context]) -> list[tuple[Any, ...]]:
    """What is compared of contexts: all but their metadata."""
    return [(context.text, context.id, context.score) for context in contexts]


def _arguments(
    function: Callable[..., object], adapters_own: tuple[str, ...] = ()
) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each argument, without those of one adapter alone."""
    left_out = ("self", *adapters_own)
    parameters = inspect.signature(function).parameters.values()
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in parameters
        if parameter.name not in left_out
    ]


def _n_problems(capture: Any) -> int:
    """How many problems a block or a watch counted, of all kinds together."""
    return sum(capture.problems.counts.values())


def _mask(tenant: str, sample: Sample) -> Sample:
    """The ``redact`` of a tenant: its name stands before the question, and as answer."""
    question = f"{tenant}: {sample.question}"
    return sample.model_copy(update={"question": question, "answer": tenant})


class _PlantedFault(Exception):
    """Raised inside of hooks; the application must not get it."""


@contextmanager
def _fault_in_making(kind: Any, number: int) -> Iterator[Counter[str]]:
    """Have one of the objects of a class raise when it is made: the one of this number.

    Yields how many were made since then. They are numbered from 1, in the order in which
    they are made.
    """
    made = Counter[str]()
    make = kind.__init__

    def make_or_fail(new: object, *args: object, **kwargs: object) -> None:
        made[kind.__name__] += 1
        if made.total() == number:
            raise _PlantedFault
        make(new, *args, **kwargs)

    with patch.object(kind, "__init__", make_or_fail):
        yield made


class _RaisingRecord:
    """Stands in for the ``record`` of every listener, and raises."""

    def __get__(self, listener: object, kind: type) -> Callable[[object], None]:
        return Mock(side_effect=_PlantedFault)

    def __set__(self, listener: object, record: object) -> None:
        """Whatever is set, it raises."""


def _fail_to_redact(sample: Sample) -> Sample:
    raise LookupError(sample.question)


def _outcomes_in_short(sample: Sample) -> list[tuple[str, str, float | None, str]]:
    """Return what every metric says of a sample: its name, status, value and reason."""
    return [
        (outcome.metric, outcome.status, outcome.value, outcome.reason)
        for outcome in _outcomes(sample)
    ]


def _outcomes(sample: Sample) -> list[MetricResult]:
    metrics = (
        "context_utilization",
        "context_adherence",
        "context_recall",
        "retrieval_accuracy",
    )
    report = evaluate([sample], metrics, judge="lexical", progress=False)
    return list(report.results[0].results.values())
