"""Typed evidence behind each score: what the judge said, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, prod
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.questions import Mode, PollVerdict
from ragmetrics_core.data.sample import Fact

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ChunkEvidence(Frozen):
    """One chunk's verdict.

    Args:
        rank: 1 for the first context.
        id: The context's own id, if it has one.
        useful: The verdict; None if the judge did not answer.
        probability: p(useful), where the judge gives one.
        grade: 0 to 3, where grades were asked for.
        precision: Precision among the first ``rank`` chunks (P@k).
        reason: The judge's explanation.
        duplicate_of: Rank of the identical chunk whose verdict this is.
        mode: How the probability was obtained.
        windows: In how many windows a text too long for the judge was judged; None: as a whole.
    """

    rank: int
    id: str | None = None
    useful: bool | None = None
    probability: Share | None = None
    grade: int | None = Field(default=None, ge=0, le=3)
    precision: Share | None = None
    reason: str = ""
    duplicate_of: int | None = None
    mode: Mode = "verdict"
    windows: int | None = None


class UtilizationEvidence(Frozen):
    """Evidence of Context Utilization.

    Args:
        formula: The formula of the score, in words.
        chunks: One entry per chunk, in rank order.
        useful: Number of useful chunks.
        noise_share: Share of chunks that are not useful.
        duplicates: Number of chunks identical to an earlier one.
        random_order: Average precision expected if the same verdicts stood in random order.
        lift: Score minus ``random_order``.
        ideal: Best value any order of the same verdicts reaches.
        ndcg: Normalised discounted cumulative gain, for graded relevance.
        changed_verdicts: Share of verdicts that changed when the list was shown reversed (``orders=2``).
    """

    kind: Literal["context_utilization"] = "context_utilization"
    formula: str
    chunks: tuple[ChunkEvidence, ...]
    useful: int | None = None
    noise_share: Share | None = None
    duplicates: int = 0
    random_order: Share | None = None
    lift: float | None = None
    ideal: Share | None = None
    ndcg: Share | None = None
    changed_verdicts: Share | None = None


class SentenceEvidence(Frozen):
    """How far one sentence of the answer is found in the contexts, by word overlap.

    Args:
        sentence: The answer's sentence.
        rank: Rank of the best matching context; None if nothing matches.
        evidence: The best matching sentence of that context.
        coverage: Share of the sentence's content terms found in the contexts.
        uncovered: Content terms found nowhere.
        numbers: Numbers of two or more digits found nowhere.
    """

    sentence: str
    rank: int | None
    evidence: str
    coverage: Share
    uncovered: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class PollEvidence(Frozen):
    """One poll: its verdict, its explanation, and the claims it found unsupported."""

    verdict: PollVerdict
    reason: str = ""
    unsupported: tuple[str, ...] = ()


Combination = Literal["or", "noisy_or", "soft"]
"""How a fact's cells become one number: 1 if any is above one half, 1 − Π(1 − p), or the highest probability."""

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]


class AdherenceEvidence(Frozen):
    """Evidence of Context Adherence.

    Args:
        asked: Polls asked; 1 for a deterministic judge, which is polled once.
        yes: Polls that found the answer grounded.
        no: Polls that found it not grounded.
        abstained: Polls that found no claim in the answer.
        missing: Polls that were not answered.
        polls: Every answered poll.
        probability: p(yes) of a deterministic judge; None for polls.
        bounds: Lowest and highest share of yes and no that the missing polls could have led to.
        repeatability: Wilson interval over the polls: repeatability of this judge, not the probability that
            it is right. None for a deterministic judge.
        early_stopped: True if polling stopped at a decided majority.
        explanation: Explanation from the majority side (a tie surfaces the "no" side).
        dissent: The strongest explanation of the other side; "" if there is none.
        unsupported: Claims that the "no" polls found unsupported.
        cause: Hypothesis why a low score came about.
        remedy: What to do about that cause.
        cause_note: Why the judge thinks so, or why no cause could be determined.
        sentences: Per sentence of the answer, the evidence of a lexical judge.
        windows: In how many windows contexts too long for the judge were judged, claim by claim; None: as a whole.
    """

    kind: Literal["context_adherence"] = "context_adherence"
    asked: int
    yes: int
    no: int
    abstained: int = 0
    missing: int = 0
    polls: tuple[PollEvidence, ...] = ()
    probability: Share | None = None
    bounds: tuple[Share, Share] | None = None
    repeatability: tuple[Share, Share] | None = None
    early_stopped: bool = False
    explanation: str = ""
    dissent: str = ""
    unsupported: tuple[str, ...] = ()
    cause: Cause | None = None
    remedy: str = ""
    cause_note: str = ""
    sentences: tuple[SentenceEvidence, ...] = ()
    windows: int | None = None


class ReferenceRating(Frozen):
    """The rating against one reference."""

    score: Share | None = None
    band: str = ""
    reason: str = ""


class RecallEvidence(Frozen):
    """Evidence of Context Recall.

    Args:
        band: Band of the rubric that the score lies in.
        best: Index of the reference that matched best.
        ratings: One rating per reference.
        with_contexts: False if it was rated against the reference alone.
    """

    kind: Literal["context_recall"] = "context_recall"
    band: str
    best: int
    ratings: tuple[ReferenceRating, ...]
    with_contexts: bool


class Cell(Frozen):
    """One fact × context: how probable it is that the context fully discusses the fact.

    Args:
        probability: In [0, 1]; None if the judge did not answer.
        mode: How it was obtained.
        mass: Probability that the label tokens cover, for log-probabilities.
        reason: The judge's explanation, where it gives one.
        windows: In how many windows a context too long for the judge was judged; None: as a whole.
    """

    probability: Share | None
    mode: Mode = "verdict"
    mass: float | None = None
    reason: str = ""
    windows: int | None = None

    @property
    def covered(self) -> bool:
        """True if the probability is above one half."""
        return self.probability is not None and self.probability > 0.5


class AccuracyEvidence(Frozen):
    """Evidence of Retrieval Accuracy: the facts × contexts matrix.

    Args:
        facts: The facts, in order.
        facts_from: Where they came from: the sample, or the reference by direct or chain-of-thought prompt.
        evaluated: Which field was judged: ``retrieved`` where known, else ``contexts``.
        context_ids: The contexts' own ids, by column.
        cells: One row per fact, one column per context.
        soft: Mean over the facts of the highest probability in each row.
        contexts_value: Value over the contexts that reached the generator, where ``retrieved`` was judged and
            all of them stand in it; the difference to the score is what reranking or cutting lost.
        control: Share of facts "found" in a foreign context: the judge's false-positive floor.
        matrix_calls: Questions asked for the matrix, as published: facts × contexts (or contexts).
        extraction_calls: Questions asked to extract facts.
        combination: How the cells of a fact are combined over contexts.
        duplicate_of: For ``noisy_or``, by column, that of the identical context before it; None for all others.
    """

    kind: Literal["retrieval_accuracy"] = "retrieval_accuracy"
    facts: tuple[Fact, ...]
    facts_from: Literal["sample", "io", "cot"]
    evaluated: Literal["retrieved", "contexts"]
    context_ids: tuple[str | None, ...]
    cells: tuple[tuple[Cell, ...], ...]
    soft: Share | None = None
    contexts_value: Share | None = None
    control: Share | None = None
    matrix_calls: int = 0
    extraction_calls: int = 0
    combination: Combination = "or"
    duplicate_of: tuple[int | None, ...] = ()

    def combine(self, subset: Iterable[int]) -> float:
        """Value that the metric takes on some of the contexts; no call is made.

        Args:
            subset: Indices of contexts, from 0.

        Returns:
            Weighted mean over the facts, in [0, 1], of the logical OR over these contexts, of 1 − Π(1 − p) over
            those with different texts, or of the highest probability; as ``combination`` says.

        Raises:
            IndexError: If an index is not that of a context.
        """
        columns = sorted(set(subset))
        if any(not 0 <= column < len(self.context_ids) for column in columns):
            raise IndexError(f"contexts are numbered 0 to {len(self.context_ids) - 1}, got {columns}")
        if self.duplicate_of:  # a copy shares its original's verdict, errors included
            originals = {column: self.duplicate_of[column] for column in columns}
            columns = sorted({column if original is None else original for column, original in originals.items()})
        found = (
            fact.weight * self._found([row[column] for column in columns])
            for fact, row in zip(self.facts, self.cells, strict=True)
        )
        return fsum(found) / fsum(fact.weight for fact in self.facts)

    def _found(self, cells: Sequence[Cell]) -> float:
        if self.combination == "noisy_or":
            return 1.0 - prod(1.0 - (cell.probability or 0.0) for cell in cells)
        if self.combination == "soft":
            return max((cell.probability or 0.0 for cell in cells), default=0.0)
        return float(any(cell.covered for cell in cells))


class OtherEvidence(Frozen):
    """Evidence of a metric that the core does not know: any fields.

    Args:
        kind: A name of the metric's own.
    """

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    kind: str = "other"


_KNOWN = ("context_utilization", "context_adherence", "context_recall", "retrieval_accuracy")


def _kind(value: Any) -> str:
    kind = value.get("kind", "other") if isinstance(value, dict) else getattr(value, "kind", "other")
    return kind if kind in _KNOWN else "other"


Evidence = Annotated[
    Annotated[UtilizationEvidence, Tag("context_utilization")]
    | Annotated[AdherenceEvidence, Tag("context_adherence")]
    | Annotated[RecallEvidence, Tag("context_recall")]
    | Annotated[AccuracyEvidence, Tag("retrieval_accuracy")]
    | Annotated[OtherEvidence, Tag("other")],
    Discriminator(_kind),
]
