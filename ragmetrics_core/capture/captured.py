"""What a ``capture`` block saw: it keeps runs, and makes samples when asked for them."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    Unpack,
    runtime_checkable,
)

from ragmetrics_core.capture.hooks import Lock, Problems, Run, guard_hook
from ragmetrics_core.data import CaptureNotes, Ledger, Sample, import_deferred
from ragmetrics_core.models.judge_work import as_judge_work

if TYPE_CHECKING:
    from ragmetrics_core.engine.evaluation import RunSettings
    from ragmetrics_core.engine.progress import Show
    from ragmetrics_core.engine.resolve import JudgeLike
    from ragmetrics_core.engine.run import Metrics
    from ragmetrics_core.models.limits import Limits
    from ragmetrics_core.models.reply_store import StoreLike
    from ragmetrics_core.reporting.report import Report

Redact = Callable[[Sample], Sample]
_TEXT_FIELDS = (
    "question",
    "contexts",
    "answer",
    "retrieved",
    "standalone_question",
    "history",
    "reference",
)


def sample_with(sample: Sample, update: Mapping[str, Any]) -> Sample:
    """Return a validated copy of a sample with other values in some fields.

    Contexts are shared, not copied.
    """
    if not update:
        return sample
    return Sample(**{**dict(sample), **update})


@dataclass(frozen=True)
class Redaction:
    """Applies the user's function to each sample as it is made.

    The ledger and a kept prompt repeat texts of the sample. Where the function changes
    texts and leaves the ledger as it was, its calls are taken out; so is a prompt that is
    as it was where anything changed. Then no judge is shown metadata either.
    """

    function: Redact | None
    problems: Problems

    @guard_hook
    def redact(self, sample: Sample) -> Sample | None:
        """Apply the user's function, which hides texts of a sample.

        Example: the function writes "[name]" for "Ada" in the answer, and leaves "Ada"
        in the ledger's calls: the ledger loses its calls.

        Returns:
            The sample to keep; None if the function raises or gives no sample, which is
            counted as a problem.
        """
        if self.function is None:
            return sample  # the user hides nothing
        redacted: object = self.function(sample)
        if not isinstance(redacted, Sample):
            self.problems.note(
                f"redact= must return a Sample and returned {type(redacted).__name__}:"
                " the sample is dropped"
            )
            return None
        new_values: dict[str, object] = {}
        ledger = redacted.ledger
        changes_texts = any(
            getattr(redacted, name) != getattr(sample, name) for name in _TEXT_FIELDS
        )
        if changes_texts and ledger is not None and ledger == sample.ledger:
            new_values["ledger"] = ledger.model_copy(update={"calls": ()})
        if changes_texts and redacted.contexts:
            new_values["contexts"] = tuple(
                context.model_copy(update={"shown_metadata": None})
                for context in redacted.contexts
            )
        notes = redacted.capture or CaptureNotes()
        notes_before = sample.capture or CaptureNotes()
        is_prompt_as_before = notes.prompt == notes_before.prompt
        if notes.prompt is not None and is_prompt_as_before and redacted != sample:
            new_values["capture"] = notes.model_copy(update={"prompt": None})
        return sample_with(redacted, new_values)


# The blocks that ended and were perhaps not read. A turn of a conversation gets the
# calls of the turns in earlier blocks: so their samples are made first.
_ended_blocks: weakref.WeakSet[Captured[Any]] = weakref.WeakSet()
# those of named conversations, of which a later turn may come although nobody kept them
_unread_blocks: deque[Captured[Any]] = deque(maxlen=100)
_numbers = itertools.count()
_lock_of_blocks = Lock()


@runtime_checkable
class BegunRun(Protocol):
    """A recorded run that says when it began, by a number that rises over all runs."""

    @property
    def began(self) -> float:
        """When it began."""


class Captured(Generic[Run]):
    """Samples of the runs that a capture saw.

    Recording a run only keeps it; samples are assembled when they are first asked for,
    in the thread that asks.

    ``FrontDoor.capture`` makes it.

    Args:
        make_samples: Makes the samples of a recorded run.
        reference: As for ``FrontDoor.capture``; so are the three that follow.
        id: The id of the first sample; "q7" gives the second one "q7#1".
        metadata: Data of the user.
        conversation: The name of the conversation.
        redact: The user's function that hides texts of a sample.
        samples_that_wait: Makes the samples of runs that were not made into samples
            yet, because a further run may belong to the same question. These runs are
            kept for the next call.
        as_judge: Makes a judge of a framework's own model object.
        problems: Where internal errors are counted.

    Attributes:
        problems: Internal errors, and why there is no sample; an application's own
            error is ``Sample.error``.
        recorded: Runs kept so far.
        number: The block's number among those that ended; infinite until it ends.
    """

    def __init__(
        self,
        make_samples: Callable[[Run], Iterable[Sample]],
        *,
        reference: str | tuple[str, ...] | list[str] | None = None,
        id: str | None = None,  # noqa: A002  # the name of the sample's field
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        redact: Redact | None = None,
        samples_that_wait: Callable[[], Iterable[Sample]] = tuple,
        as_judge: Callable[[Any], JudgeLike] = lambda judge: judge,
        problems: Problems | None = None,
    ) -> None:
        """Begin without any run; runs become samples when ``samples`` is first read.

        The arguments are explained in the class's docstring. Example: ``with capture()
        as captured: chain.invoke("When did it open?")`` makes such an object, and
        ``captured.samples`` then holds one sample.
        """
        self.problems = Problems() if problems is None else problems
        self.recorded = 0  # number of runs kept
        self._n_samples_made = 0  # also counts samples that ``redact`` dropped
        self._make_samples = make_samples
        # makes the samples of runs that ``make_samples`` keeps for a later run of the same
        # question, such as a search by itself; ``tuple`` makes none
        self._samples_that_wait = samples_that_wait
        # makes a judge of a framework's own model object
        self._as_judge = as_judge
        # what the user says of the samples
        self._reference = reference
        self._id = id
        self._metadata = dict(metadata or {})
        self._conversation = conversation
        self._redaction = Redaction(redact, self.problems)
        self._runs_without_samples: list[Run] = []  # recorded since the last reading
        self._samples: list[Sample] = []
        self.number = float("inf")
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show how many runs were kept, and no text of them."""
        return f"Captured({self.recorded} runs, {len(self.problems)} problems)"

    def record(self, run: Run) -> None:
        """Keep a finished run; cheap, from any thread."""
        with self._lock:
            self.recorded += 1
            self._runs_without_samples.append(run)

    def end(self) -> None:
        """Note that the block ended: blocks that are read later may go on from it."""
        with _lock_of_blocks:
            self.number = next(_numbers)
            _ended_blocks.add(self)
            if self._conversation is not None:
                _unread_blocks.append(self)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of all runs so far, in the order in which the runs began.

        Runs that end after a reading stand behind those that were read, and runs that
        wait for a further run, such as a search by itself, after all others, as they are
        now: pair samples with your questions by ``question``, not by place. The samples
        of blocks that ended before are made first: a turn of a conversation gets the
        calls of its earlier turns.
        """
        with _lock_of_blocks:
            blocks = [each for each in _ended_blocks if each.number < self.number]
            _ended_blocks.difference_update(blocks)
            for block in {*blocks, self}.intersection(_unread_blocks):
                _unread_blocks.remove(block)
        for block in sorted(blocks, key=lambda each: each.number):
            block._assemble_runs()  # noqa: SLF001  # of the same class
        return self._assemble_runs()

    def _assemble_runs(self) -> tuple[Sample, ...]:
        """Make and keep the samples of the runs that ended since the last reading.

        Those of runs that wait for a further run are made as well, and not kept: later
        blocks of a conversation learn of them, too.
        """
        with self._lock:
            # runs that do not say when they began come first, as they ended
            runs = sorted(
                self._runs_without_samples,
                key=lambda run: run.began if isinstance(run, BegunRun) else 0.0,
            )
            self._runs_without_samples = []
            for run in runs:
                self._assemble(run)
            return (*self._samples, *(self._fill_in_waiting_samples() or ()))

    @guard_hook
    def _fill_in_waiting_samples(self) -> list[Sample]:
        """Make the samples of runs that a further run may change; nothing is kept.

        What that raises is counted, and None returned.
        """
        waiting_samples = enumerate(self._samples_that_wait(), self._n_samples_made)
        filled_in = [
            self._fill_in(sample, number) for number, sample in waiting_samples
        ]
        return [sample for sample in filled_in if sample is not None]

    @guard_hook
    def _assemble(self, run: Run) -> None:
        """Make and keep the samples of a run; what that raises is counted."""
        for sample in self._make_samples(run):
            filled_in = self._fill_in(sample, self._n_samples_made)
            self._n_samples_made += 1
            if filled_in is not None:
                self._samples.append(filled_in)

    def _fill_in(self, sample: Sample, number: int) -> Sample | None:
        """Return a sample with the user's values, redacted; None if it is dropped.

        Args:
            sample: The sample.
            number: How many samples were made before it.
        """
        new_values: dict[str, Any] = {}
        if self._reference is not None:
            new_values["reference"] = self._reference
        if self._id is not None:
            new_values["id"] = self._id if number == 0 else f"{self._id}#{number}"
        if self._metadata:
            new_values["metadata"] = {**sample.metadata, **self._metadata}
        if self._conversation is not None:
            # the ledger lists the searches and tool calls of the conversation so far
            ledger = sample.ledger or Ledger()
            named = {"conversation": self._conversation}
            new_values["ledger"] = ledger.model_copy(update=named)
        return self._redaction.redact(sample_with(sample, new_values))

    def evaluate(
        self,
        metrics: Metrics = None,
        *,
        judge: object = None,
        progress: Show = None,
        **settings: Unpack[RunSettings],
    ) -> Report:
        """Score what was captured, as ``ragmetrics_core.evaluate`` does.

        The judge may be the framework's own model.
        """
        # A program that only captures does not need the engine.
        from ragmetrics_core.engine.evaluation import evaluate

        samples = self.samples
        with as_judge_work():
            report = evaluate(
                samples,
                metrics,
                judge=self._as_judge(judge),
                progress=progress,
                **settings,
            )
        return self._with_reason(report)

    async def aevaluate(
        self,
        metrics: Metrics = None,
        *,
        judge: object = None,
        progress: Show = False,
        **settings: Unpack[RunSettings],
    ) -> Report:
        """Score what was captured, without blocking the event loop.

        See ``evaluate``.
        """
        from ragmetrics_core.engine.evaluation import aevaluate

        samples = self.samples
        with as_judge_work():
            report = await aevaluate(
                samples,
                metrics,
                judge=self._as_judge(judge),
                progress=progress,
                **settings,
            )
        return self._with_reason(report)

    def measure_use(
        self,
        *,
        model: object,
        judge: object = None,
        repeats: int = 3,
        concurrency: int = 8,
        store: StoreLike = None,
        limits: Limits | None = None,
    ) -> list[Sample]:
        """Measure what each passage did to the answers, by asking without it.

        Example: ``with capture(keep_prompts=True) as captured: chain.invoke("When?")``,
        then ``captured.measure_use(model=model)[0].use`` tells which passages the model
        read. The application is not called, nor does its tracing see the calls.

        Args:
            model: The application's own model object, or a model's name.
            judge: Who is asked whether two answers say the same, where their words leave
                a doubt; None for the model itself.
            repeats: How often the whole prompt is asked, to see how much the answer
                varies by itself.
            concurrency: Most calls in flight.
            store: As for ``evaluate``.
            limits: As for ``evaluate``.

        Returns:
            The samples, with ``use``; ``evaluate`` takes them as they are.

        Raises:
            SettingError: If a setting is invalid, or the model is none.
        """
        measure_use = import_deferred(
            "measured_use.measuring:measure_use", "measuring what passages did"
        )
        samples = self.samples
        with as_judge_work():
            measured: list[Sample] = measure_use(
                samples,
                model=self._as_judge(model),
                judge=self._as_judge(judge),
                repeats=repeats,
                concurrency=concurrency,
                store=store,
                limits=limits,
            )
        return measured

    def _with_reason(self, report: Report) -> Report:
        """Return a report that says why it has no row, if it has none."""
        if report.results:
            return report
        why = self.problems.why_no_sample
        run = report.run.model_copy(update={"stopped": why})
        return type(report)(report.results, run)
