"""What is known of a run as a whole, beside its results."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Literal, Self

from pydantic import Field

from ragmetrics_core.data import Frozen, Sample, Share, Signature

GateOutcome = Literal["passed", "failed", "undecided"]


def texts_of(sample: Sample | None) -> str:
    """Question, contexts, answer and reference of a sample as JSON.

    A bad row, which is no sample, gives ``null``.
    """
    if not sample:
        return json.dumps(None)
    contexts = [context.text for context in sample.known_contexts]
    return json.dumps([sample.question, contexts, sample.answer, sample.reference])


def digest_of_texts(sample: Sample | None) -> str:
    """Return a short digest of a sample's texts, which tells whether they were changed."""
    return hashlib.sha256(texts_of(sample).encode()).hexdigest()[:16]


class Input(Frozen):
    """Where samples came from.

    Attributes:
        name: Name of the file; "" for samples that a program gave.
        sha256: Of the file's bytes; for samples that a program gave, of their texts, in
            order.
        rows: Rows, also those that are no sample; None as long as the run goes on.
    """

    name: str = ""
    sha256: str
    rows: int | None = None

    @classmethod
    def of_samples(cls, samples: Iterable[Sample | None]) -> Self:
        """Return an input that is known by the texts of its samples.

        Args:
            samples: The samples in the order of the run; None stands for a bad row.

        Returns:
            An input without a name. Its digest is made of all ``texts_of``, one after
            the other, so that equal texts in the same order give the same digest.
        """
        digest = hashlib.sha256()
        n_rows = 0
        for sample in samples:
            digest.update(texts_of(sample).encode())
            n_rows += 1
        return cls(sha256=digest.hexdigest(), rows=n_rows)


class Decision(Frozen):
    """What was decided of one metric; true if the gate passed.

    Attributes:
        metric: Its name.
        outcome: ``passed``, ``failed`` or ``undecided``.
        sentence: Why, with the numbers.
        at_least: The mean to reach; None: that of an earlier run less a margin.
    """

    metric: str
    outcome: GateOutcome
    sentence: str
    at_least: Share | None = None

    def __bool__(self) -> bool:
        return self.outcome == "passed"

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


class RunFacts(Frozen):
    """Facts of one run.

    Attributes:
        name: What the user calls it; "" for no name.
        version: Version of ragmetrics that made the run.
        packages: Versions of Python and of packages that change replies.
        inputs: The files that the samples came from, or the samples.
        judges: Names of the judges asked.
        judge_chosen: Whether somebody chose a judge for each metric; false where the
            embedded one answers because nobody did; None if that is not known.
        addresses: By judge, host and path that its calls went to, without user, query
            or key, and " through " a proxy on the way.
        details: By judge, its settings that change replies.
        models: Names of the models as their endpoints returned them.
        metrics: The signature of each metric, in the order of the report.
        questions: By metric, the first line of its docstring.
        started: When the run began, ISO 8601 in UTC.
        seconds: How long it took.
        concurrency: Calls to the judge that could run at the same time.
        interrupted: True if the run ended before every sample was judged.
        stopped: Why the results are incomplete, in words; "" if they are not.
        left_out: Which rows were left out, and why, in words; each gate says so.
        notes: What else the reader should know, e.g. that a metric was left out.
    """

    name: str = ""
    version: str = ""
    packages: dict[str, str] = Field(default={})
    inputs: tuple[Input, ...] = ()
    judges: tuple[str, ...] = ()
    judge_chosen: bool | None = None
    addresses: dict[str, tuple[str, ...]] = Field(default={})
    details: dict[str, dict[str, str]] = Field(default={})
    models: tuple[str, ...] = ()
    metrics: dict[str, Signature] = Field(default={})
    questions: dict[str, str] = Field(default={}, repr=False)
    started: str = ""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    concurrency: int = 1
    interrupted: bool = False
    stopped: str = ""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def endpoints(self, judge: str) -> tuple[str, ...]:
        """Return the addresses that a judge was asked at, without a proxy on the way.

        Sorted; empty where none is known.
        """
        addresses = self.addresses.get(judge, ())
        return tuple(sorted({each.partition(" through ")[0] for each in addresses}))

    def has_other_endpoints(self, judge: str, endpoints: tuple[str, ...]) -> bool:
        """Whether a judge was asked elsewhere: what is not known contradicts nothing.

        At another address another model may answer.
        """
        own = self.endpoints(judge)
        return bool(own and endpoints) and own != endpoints

    @property
    def key(self) -> str:
        """What tells the run from others: when it began, and the digests of its inputs."""
        return " ".join([self.started, *(each.sha256 for each in self.inputs)])

    @property
    def ended_early(self) -> str:
        """Why the run ended before all rows were read; "" if it did not."""
        return self.stopped or ("it was interrupted" if self.interrupted else "")

    @property
    def why_part(self) -> str:
        """Why the rows of this run are only a part of its samples; "" if they are all.

        A part may be one that was chosen by its scores, so no gate is decided on it.
        """
        if self.ended_early:
            return f"the run that judged these samples before is incomplete: {self.ended_early}"
        return ""


def date_of(run: RunFacts) -> str:
    """When the run began, to the minute; "" if that is not known."""
    day, _, time = run.started.partition("T")
    return f"{day} {time[:5]} UTC" if time else day


_QUESTIONS = {
    "retrieval_accuracy": "Was the answer retrieved?",
    "context_utilization": "Are useful texts ranked first?",
    "context_sufficiency": "Was enough text shown?",
    "retrieval_ranking": "Are expected texts high up?",
    "context_adherence": "Does it keep to the text?",
    "context_recall": "Is it the expected answer?",
    "answer_relevance": "Does it answer the question?",
    "citation_quality": "Do its citations hold?",
}
_QUESTIONS_OF_WORDS = {
    "retrieval_accuracy": "Are the expected words in the text?",
    "context_adherence": "Are the answer's words in the text?",
    "context_recall": "Are the expected words in the answer?",
}
"""What a judge of words can say; it cannot see more."""
_LONGEST_QUESTION = 40


def question_of(metric: str, questions: Mapping[str, str], *, by_words: bool) -> str:
    """What a metric asks, in a few words; "" where its own question is longer.

    Args:
        metric: Its name.
        questions: The metrics' own questions, by their names.
        by_words: Whether only a judge of words judged, which sees less.
    """
    own = questions.get(metric, "")
    asks = _QUESTIONS.get(metric, own if len(own) <= _LONGEST_QUESTION else "")
    return _QUESTIONS_OF_WORDS.get(metric, asks) if by_words else asks
