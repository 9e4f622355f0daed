"""What a capture saw: runs as they were recorded, samples as they are asked for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Unpack

from ragmetrics_core.capture.hooks import Lock, Problems, Run, guard_hook
from ragmetrics_core.data import Ledger, Sample
from ragmetrics_core.engine.arguments import EvaluateSettings
from ragmetrics_core.engine.evaluation import aevaluate, evaluate
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics
from ragmetrics_core.models.framework_model import as_judge_work
from ragmetrics_core.reporting.report import Report

Redact = Callable[[Sample], Sample]
_TEXTS = (
    "question",
    "contexts",
    "answer",
    "retrieved",
    "standalone_question",
    "history",
    "reference",
)


@dataclass(frozen=True)
class Given:
    """Values that the user gives for what is captured; see ``FrontDoor.capture``."""

    question: str | None = None
    reference: str | tuple[str, ...] | list[str] | None = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    conversation: str | None = None

    def apply_to(self, sample: Sample, number: int) -> Sample:
        """Put these values into a captured sample.

        Args:
            sample: The sample.
            number: How many samples the same capture gave before; it makes the id
                another one.
        """
        stated = {"question": self.question, "reference": self.reference}
        update: dict[str, Any] = {
            name: value for name, value in stated.items() if value is not None
        }
        if self.id is not None:
            update["id"] = self.id if number == 0 else f"{self.id}#{number}"
        if self.metadata:
            update["metadata"] = {**sample.metadata, **self.metadata}
        if self.conversation is not None:
            ledger = sample.ledger or Ledger()
            update["ledger"] = ledger.model_copy(
                update={"conversation": ledger.conversation or self.conversation}
            )
        return sample_with(sample, update)


def sample_with(sample: Sample, update: Mapping[str, Any]) -> Sample:
    """A validated sample with other values in some fields.

    Contexts are shared, not copied.
    """
    if not update:
        return sample
    return Sample(
        **{**{name: getattr(sample, name) for name in Sample.model_fields}, **update}
    )


@dataclass(frozen=True)
class Redaction:
    """Applies the user's function to each sample as it is made.

    Where the function changes texts and leaves the ledger, which repeats them, as it
    was, the ledger loses its calls.
    """

    function: Redact | None
    problems: Problems

    @guard_hook
    def redact(self, sample: Sample) -> Sample | None:
        """The sample to keep; None if it must be dropped.

        It is dropped where the function raises or gives no sample. That is counted as a
        problem.
        """
        if self.function is None:
            return sample
        redacted: object = self.function(sample)
        if not isinstance(redacted, Sample):
            self.problems.note(
                f"redact= must return a Sample and returned {type(redacted).__name__}:"
                " the sample is dropped"
            )
            return None
        ledger = redacted.ledger
        if ledger is None or ledger != sample.ledger:
            return redacted
        changes_texts = any(
            getattr(redacted, name) != getattr(sample, name) for name in _TEXTS
        )
        if not changes_texts:
            return redacted
        # the calls of the ledger repeat the texts that were hidden
        without_calls = ledger.model_copy(update={"calls": ()})
        return sample_with(redacted, {"ledger": without_calls})


class Captured(Generic[Run]):
    """Samples of the runs that a capture saw.

    Recording a run only keeps it; samples are assembled when they are first asked for,
    in the thread that asks.

    ``FrontDoor.capture`` makes it.

    Args:
        build: Makes the samples of a recorded run.
        given: What the caller says of all samples.
        max_samples: How many runs are kept; None for all.
        redact: The user's function that hides texts of a sample.
        samples_that_wait: Makes the samples that still wait for a further run, and
            forgets none.
        revise_sample: Says what a sample is once all runs so far are known.
        as_judge: Makes a judge of a framework's own model object.
        problems: Where internal errors are counted.

    Attributes:
        problems: Internal errors, and why there is no sample; an application's own
            error is ``Sample.error``.
        recorded: Runs kept so far.
        dropped: Runs not kept because of ``max_samples``.
    """

    def __init__(
        self,
        build: Callable[[Run], Iterable[Sample]],
        *,
        given: Given | None = None,
        max_samples: int | None = None,
        redact: Redact | None = None,
        samples_that_wait: Callable[[], Iterable[Sample]] = tuple,
        revise_sample: Callable[[Sample], Sample] = lambda sample: sample,
        # resolve_judge says what it cannot take
        as_judge: Callable[[Any], JudgeLike] = lambda judge: judge,
        problems: Problems | None = None,
    ) -> None:
        self.problems = Problems() if problems is None else problems
        self.recorded = 0
        self.dropped = 0
        self._n_assembled = 0  # samples made so far, dropped ones included
        self._build = build
        self._samples_that_wait = samples_that_wait
        self._revise_sample = revise_sample
        self._as_judge = as_judge
        self._given = given or Given()
        self._redaction = Redaction(redact, self.problems)
        self._max_samples = max_samples
        self._pending: list[Run] = []
        self._samples: list[Sample] = []
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show how many runs were kept, and no text of them."""
        return (
            f"Captured({self.recorded} runs, {len(self.problems)} problems,"
            f" {self.dropped} dropped)"
        )

    def record(self, run: Run) -> None:
        """Keep a finished run; cheap, from any thread."""
        with self._lock:
            if self._max_samples is not None and self.recorded >= self._max_samples:
                self.dropped += 1
                self.problems.note(
                    f"more than max_samples={self._max_samples} runs ended; later ones"
                    " are dropped"
                )
                return
            self.recorded += 1
            self._pending.append(run)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of all runs so far, in the order in which they ended.

        Those that wait for a further run last.
        """
        with self._lock:
            pending = self._pending
            self._pending = []
            assembled: list[Sample] = []
            for run in pending:
                assembled += self._assemble(run) or ()
            for sample in assembled:
                self._keep(self._revise_sample(sample))
            samples = list(self._samples)
            for place, sample in enumerate(self._samples_that_wait()):
                finished = self._finish(sample, self._n_assembled + place)
                if finished is not None:
                    samples.append(finished)
            return tuple(samples)

    @guard_hook
    def _assemble(self, run: Run) -> list[Sample]:
        """Make the samples of a run; None, counted, where that raises."""
        return list(self._build(run))

    @guard_hook
    def _keep(self, sample: Sample) -> None:
        """Keep a sample for good, with what the caller says of it."""
        finished = self._finish(sample, self._n_assembled)
        self._n_assembled += 1
        if finished is not None:
            self._samples.append(finished)

    def _finish(self, sample: Sample, number: int) -> Sample | None:
        """A sample with what the caller says of it, redacted; None if it is dropped.

        Args:
            sample: The sample.
            number: How many samples were made before it.
        """
        return self._redaction.redact(self._given.apply_to(sample, number))

    def evaluate(
        self,
        metrics: Metrics = None,
        *,
        judge: object = None,
        progress: Show = None,
        **settings: Unpack[EvaluateSettings],
    ) -> Report:
        """Score what was captured, as ``ragmetrics_core.evaluate`` does.

        The judge may be the framework's own model.
        """
        samples = self.samples
        with as_judge_work():
            return evaluate(
                samples,
                metrics,
                judge=self._as_judge(judge),
                progress=progress,
                **settings,
            )

    async def aevaluate(
        self,
        metrics: Metrics = None,
        *,
        judge: object = None,
        progress: Show = False,
        **settings: Unpack[EvaluateSettings],
    ) -> Report:
        """Score what was captured, without blocking the event loop.

        See ``evaluate``.
        """
        samples = self.samples
        with as_judge_work():
            return await aevaluate(
                samples,
                metrics,
                judge=self._as_judge(judge),
                progress=progress,
                **settings,
            )
