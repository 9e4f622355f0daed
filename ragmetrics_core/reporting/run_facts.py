"""What is known of a run as a whole, beside its results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from pydantic import Field

from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.intervals import wilson
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.signature import Signature


class Audit(Frozen):
    """What judging samples again with their chunks shuffled showed.

    Args:
        samples: Samples judged again.
        chunks: Chunks with a verdict in both judgings.
        changed: Those whose verdict changed.
        failed: Samples that could not be judged again.
        seed: Seed of the choice of samples and of the shuffling.
        by_place: Per place in the shuffled order, from the first: chunks judged useful, chunks judged.
    """

    samples: int
    chunks: int
    changed: int
    failed: int = 0
    seed: int = 0
    by_place: tuple[tuple[int, int], ...] = ()

    @property
    def sentence(self) -> str:
        """The audit in words, with a Wilson interval for the share of changed verdicts."""
        if not self.chunks:
            return "Audit: no sample with at least two judged chunks could be judged again."
        low, high = wilson(self.changed, self.chunks)
        failed = f" {self.failed} samples could not be judged again." if self.failed else ""
        return (
            f"Audit: {self.samples} samples judged again with their chunks shuffled: {self.changed} of {self.chunks} "
            f"verdicts changed ({self.changed / self.chunks:.1%}, 95 % interval {low:.1%}–{high:.1%}). A judge that "
            f"reads chunks and not places changes none but by its own noise.{failed}"
        )


class Input(Frozen):
    """Where samples came from.

    Args:
        name: Name of the file; "" for samples that a program gave.
        sha256: Of the file's bytes; for samples that a program gave, of their texts, in order.
        rows: Rows that were read, those that are no sample included; None as long as the run goes on.
    """

    name: str = ""
    sha256: str
    rows: int | None = None

    @classmethod
    def of_samples(cls, samples: Iterable[Sample | None]) -> Input:
        """Digest the texts of samples: question, contexts, answer and references; None stands for a bad row."""
        found, count = hashlib.sha256(), 0
        for sample in samples:
            count += 1
            contexts = [context.text for context in sample.contexts] if sample else []
            texts = [sample.question, contexts, sample.answer, sample.reference] if sample else None
            found.update(json.dumps(texts).encode())
        return cls(sha256=found.hexdigest(), rows=count)


class RunFacts(Frozen):
    """Facts of one run.

    Args:
        version: Version of ragmetrics that made the run.
        packages: Versions of Python and of the packages at work that change replies.
        inputs: The files that the samples came from, or the samples.
        judges: Names of the judges asked.
        models: Names of the models as their endpoints returned them.
        metrics: For each metric asked for, by name, its signature; the order is that of the report.
        started: When the run began, ISO 8601 in UTC.
        seconds: How long it took.
        concurrency: Calls to the judge that could run at the same time.
        interrupted: True if the run ended before every sample was judged.
        stopped: Why the run ended early, in words; "" if it did not.
        notes: What else the reader should know, e.g. that a metric was left out.
        audit: Shuffled re-judging, if it was asked for.
    """

    version: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    judges: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    metrics: dict[str, Signature] = Field(default_factory=dict)
    started: str = ""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    concurrency: int = 1
    interrupted: bool = False
    stopped: str = ""
    notes: tuple[str, ...] = ()
    audit: Audit | None = None

    @property
    def ended_early(self) -> str:
        """Why the run ended before all rows were read; "" if it did not."""
        return self.stopped or ("it was interrupted" if self.interrupted else "")
