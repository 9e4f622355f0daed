"""The three functions of every adapter: ``capture``, ``watch`` and ``samples_from``.

All adapters take them from here, so that names, defaults and docstrings are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Generic

from ragmetrics_core.capture.captured import Captured, Redact
from ragmetrics_core.capture.hooks import Listener, Listeners, Problems, Run
from ragmetrics_core.capture.plain_values import FieldPlace, Overrides
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Sample

if TYPE_CHECKING:
    from ragmetrics_core.capture.background import BackgroundEvaluator
    from ragmetrics_core.capture.turns import Turns
    from ragmetrics_core.data import SampleResult
    from ragmetrics_core.engine.resolve import JudgeLike
    from ragmetrics_core.engine.run import Metrics
    from ragmetrics_core.models.limits import Limits
    from ragmetrics_core.reporting.report import Sink

_MISSED = (
    "runs began in threads or tasks that do not carry this block's context, and were"
    " left out: start them with a copy of it (asyncio.to_thread,"
    " contextvars.copy_context().run), or take the whole process by watch()"
)


@dataclass(frozen=True)
class FrontDoor(Generic[Run]):
    """The three functions of an adapter: ``capture``, ``watch`` and ``samples_from``.

    Attributes:
        listeners: The objects that get the runs which the adapter's hooks record.
        trees: Makes the trees of calls of a recorded run.
        as_judge: Makes a judge of the framework's own model object.
        as_run: Makes a recorded run of what an application returned; None if
            ``samples_from`` is given recorded runs only.
        unseen: What the user should do if a block saw no run, in words.
        hint: What the user should do if a block saw runs and none gave a sample.
    """

    listeners: Listeners
    trees: Callable[[Run], Iterable[Tree]]
    as_judge: Callable[[Any], JudgeLike]
    _: KW_ONLY
    as_run: Callable[[Any], Run] | None = None
    unseen: str
    hint: str

    def turns(self, overrides: Overrides, problems: Problems) -> Turns[Run]:
        """Make the object that turns the runs of one listener into samples."""
        # Half of all modules are behind it: a program that only imports the adapter, or
        # scores given texts, needs none. They are loaded before the first run begins.
        from ragmetrics_core.capture.turns import Turns

        return Turns(self.trees, overrides, problems, self.hint)

    @contextmanager
    def capture(
        self,
        *,
        question: str | None = None,
        reference: str | tuple[str, ...] | list[str] | None = None,
        id: str | None = None,  # noqa: A002  # the name of the sample's field
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        question_from: FieldPlace | None = None,
        contexts_from: FieldPlace | None = None,
        answer_from: FieldPlace | None = None,
        context_tools: Collection[str] | None = None,
        redact: Redact | None = None,
        keep_prompts: bool = False,
    ) -> Iterator[Captured[Run]]:
        """Capture the runs of the application inside a ``with`` block as samples.

        ``with capture(reference="In 1874.") as captured: chain.invoke(…)`` gives the
        sample of the call as ``captured.samples[0]``. The application is not changed.

        Args:
            question: The question, instead of the question found in the run.
            reference: The expected answer, one or several.
            id: Id of the sample; further samples of the block get ``id#1``, ``id#2``,
                ….
            metadata: Data of your own.
            conversation: Name of the conversation that the runs are turns of, if the
                framework has no id for it. Blocks of the same name and the same
                ``redact`` are one conversation: the ledger of a sample, its list of
                searches and tool calls, then holds those of the earlier blocks as well.
            question_from: Where the question is: a key or dotted path such as
                ``"inputs.query"``, as the adapter's documentation says, or a callable
                that gets the run; of a turn of several runs one after the other, until it
                returns something. A path may begin with the name of a call inside the
                run: ``"search.hits"`` of a step. In lists, ``"messages[-1].content"``
                leads to the last message's text. A message has ``role`` and ``content``,
                a document ``text``, ``id`` and ``metadata``. Where a place leads to
                nothing, as None, or a callable raises, ``problems`` says so, and the
                rules are used.
            contexts_from: Where the contexts are, in the same way.
            answer_from: Where the answer is, in the same way.
            context_tools: Names of the tools whose text is a context, where they return
                no documents. An empty set says that no tool searches: a turn that calls
                none, before anything else searched, only talks, and gives no sample.
            redact: A function through which each sample goes before anybody else gets
                it: judge, store, file or you. If it raises, the sample is dropped, and
                ``problems`` counts it. The list of searches and tool calls in
                ``Sample.ledger`` repeats texts of the sample: hide them there, too. If
                the function changes other texts and leaves the ledger as it was, the
                calls are removed from the ledger. A kept prompt that it leaves as it was
                is removed if it changes anything; text that stands in no field of the
                sample, such as a system message, it must hide in the prompt itself.
            keep_prompts: Whether ``Sample.capture.prompt`` keeps the prompt that the
                answer was written from, for ``measure_use``.

        Returns:
            A context manager that gives the ``Captured``. Its samples can be read at
            any time; runs that still go on when the block ends are added as they end.
            ``problems`` says why there is no sample. A run belongs to the block if it
            begins in its thread or task, in tasks started from it or in
            ``asyncio.to_thread``, so that concurrent requests never mix; ``watch``
            takes the runs of all threads.

        Raises:
            SettingError: If a place is neither a text nor callable, or the adapter does
                not know a setting.
        """
        overrides = Overrides(
            question_from,
            contexts_from,
            answer_from,
            context_tools,
            question,
            keep_prompts,
        )
        sample_maker = self.turns(overrides, Problems())
        sample_maker.share_with_conversation(conversation, redact)
        captured = Captured(
            sample_maker.add,
            reference=reference,
            id=id,
            metadata=metadata,
            conversation=conversation,
            redact=redact,
            samples_that_wait=sample_maker.samples_that_wait,
            as_judge=self.as_judge,
            problems=sample_maker.problems,
        )
        problems = captured.problems
        listener = Listener(
            problems, captured.record, names_looked_up=overrides.names_looked_up
        )
        self.listeners.add(listener)
        try:
            yield captured
        finally:
            self.listeners.remove(listener)
            captured.end()
            # that runs were missed, or that nothing ran at all, is a problem
            has_seen_anything = captured.recorded or problems or listener.begun
            if listener.missed:
                problems.note(_MISSED)
            elif not has_seen_anything:
                problems.note(f"the block ended without a sample: {self.unseen}")

    def watch(
        self,
        metrics: Metrics = None,
        judge: object = None,
        *,
        sample_rate: float = 1.0,
        max_queue: int | None = 1000,
        on_result: Callable[[SampleResult], None] | None = None,
        sinks: Iterable[Sink] = (),
        concurrency: int = 8,
        limits: Limits | None = None,
        redact: Redact | None = None,
        question_from: FieldPlace | None = None,
        contexts_from: FieldPlace | None = None,
        answer_from: FieldPlace | None = None,
        context_tools: Collection[str] | None = None,
    ) -> BackgroundEvaluator[Run]:
        """Judge the runs of the whole process from now on, in a background thread.

        ``watching = watch(["adherence"], judge="lexical")`` scores each further run, and
        ``watching.aggregates`` has the figures so far. The application never waits.

        Args:
            metrics: Metrics or their names; None for the usual ones. ``[]`` judges
                nothing, and only counts the runs.
            judge: The name of a model, a judge, a chat model, or the framework's own
                model object.
            sample_rate: Share of the samples that are judged, in (0, 1]. A conversation
                that has an id is judged as a whole or not at all.
            max_queue: Most runs waiting; later ones are dropped and counted. None never
                drops.
            on_result: Called in the background thread with each result, in the order in
                which they are done.
            sinks: Where results go, each in a thread of its own: ``JsonlSink``, or
                yours with ``write`` and ``flush``.
            concurrency: Most model calls in flight.
            limits: What judging may spend; see ``ragmetrics_core.evaluate``.
            redact: As for ``capture``.
            question_from: As for ``capture``.
            contexts_from: As for ``capture``.
            answer_from: As for ``capture``.
            context_tools: As for ``capture``.

        Returns:
            The evaluator that watches, until its ``stop()`` is called. Its figures are
            ``aggregates``, ``problems`` and ``dropped``; ``flush(timeout)`` and
            ``report()`` wait for the judge. The report is on the latest 1,000 results;
            a sink gets them all.

        Raises:
            SettingError: If a setting is invalid.
        """
        # It imports the engine, which a program that only captures does not need.
        from ragmetrics_core.capture.background import WatchingEvaluator

        return WatchingEvaluator(
            self,
            metrics,
            judge,
            sample_rate=sample_rate,
            max_queue=max_queue,
            on_result=on_result,
            sinks=sinks,
            concurrency=concurrency,
            limits=limits,
            redact=redact,
            question_from=question_from,
            contexts_from=contexts_from,
            answer_from=answer_from,
            context_tools=context_tools,
        )

    def samples_from(
        self,
        run: Any,
        *,
        question_from: FieldPlace | None = None,
        contexts_from: FieldPlace | None = None,
        answer_from: FieldPlace | None = None,
        context_tools: Collection[str] | None = None,
    ) -> list[Sample]:
        """Make the samples of one finished run, without a ``capture()`` block.

        ``samples_from(pipeline.run(…))`` returns what ``capture`` would have. Nothing is
        recorded or changed.

        Args:
            run: A run as the framework records it, or what an engine, pipeline or agent
                returned.

                - In LangChain a run is a root with its child runs: of a tracer, of
                  ``client.evaluate``, or read back from LangSmith with
                  ``load_child_runs=True``.
                - What an engine or pipeline returned tells less than a recorded run: not
                  what was retrieved before reranking, and in LlamaIndex not the
                  question.
                - A stream is not read, so that its sample has no answer.
            question_from: As for ``capture``. A callable gets ``run``.
            contexts_from: As for ``capture``. A callable gets ``run``.
            answer_from: As for ``capture``. A callable gets ``run``.
            context_tools: As for ``capture``.

        Returns:
            The samples that ``capture`` gives of that run.

        Raises:
            SettingError: If the adapter makes no samples of such an object, or a
                setting is invalid.
        """
        overrides = Overrides(question_from, contexts_from, answer_from, context_tools)
        turns = self.turns(overrides, Problems(logged=False))
        recorded_run = run if self.as_run is None else self.as_run(run)
        # no further run follows: samples that would wait for one are complete as well
        samples_complete_now = turns.add(recorded_run)
        samples_held_back_for_a_further_run = turns.finish()
        return [*samples_complete_now, *samples_held_back_for_a_further_run]
