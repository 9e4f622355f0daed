"""Retrieval Ranking: how high does the retriever rank the passages that are expected?

No judge is asked: the caller knows the right passages by their ids or texts. Average
precision stands here, too, exact, for verdicts and probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import fsum, log2
from typing import ClassVar, Literal

from pydantic import Field

from ragmetrics_core.data import Evidence, Sample, SilentData, Undefined
from ragmetrics_core.data.sample import why_undivided
from ragmetrics_core.data.scalars import composed_text
from ragmetrics_core.metrics.metric import Metric, Plan

Measure = Literal["ndcg", "hit_rate", "recall", "precision", "mrr"]


class RetrievalRanking(Metric):
    """How high does the retriever rank the passages that are expected?

    Passages are compared by ``expected_ids`` (1 and 1.0 are one id), else by the texts
    of ``expected_contexts``, without regard to white space and to how letters are
    composed. A passage that was retrieved twice counts at its first rank. What was
    retrieved is ``retrieved``; where only ``contexts`` are known, it is these.

    Args:
        k: Ranks that count; None for all.
        measure: What is computed.

    Returns:
        A score in [0, 1], higher is better; 0 where nothing was retrieved.

    Undefined when:
        Nothing is expected; it is not known what was retrieved; or ids are expected and
        a retrieved passage has none.

    Raises:
        SettingError: If ``k`` is below 1, or the measure is none of the five.

    Source:
        Järvelin & Kekäläinen (2002), ACM TOIS 20(4), for nDCG; the others as in TREC.

    Examples:
        >>> ranking = RetrievalRanking(k=2, measure="recall")
        >>> retrieved = [{"id": "a", "text": "A."}, {"id": "b", "text": "B."}]
        >>> ranking.score(retrieved=retrieved, expected_ids=["b", "c"]).value
        0.5
    """

    version: ClassVar[str] = "4"
    asks_judge: ClassVar[bool] = False
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("expected_ids", "expected_contexts"),
        ("retrieved", "contexts"),
    )

    name: str = Field(default="retrieval_ranking", min_length=1)
    k: int | None = Field(default=None, ge=1)
    measure: Measure = "ndcg"

    def gap(self, sample: Sample) -> Undefined | None:
        """Return why the metric is undefined for a sample; None if it applies.

        A retrieval that found nothing leaves no gap: it scores 0.
        """
        compared = ["contexts" if sample.retrieved is None else "retrieved"]
        if not sample.expected_ids:
            compared.append("expected_contexts")
        reasons = [why_undivided(sample, field) for field in compared]
        undivided = next(filter(None, reasons), "")
        return super().gap(sample) or (
            self.undefined(undivided, "undivided") if undivided else None
        )

    def plan(self, sample: Sample) -> Plan:
        """Compare the retrieved passages with the expected ones; nobody is asked."""
        yield from ()
        retrieved = sample.retrieved
        if retrieved is None:  # then what reached the generator
            retrieved = sample.contexts or ()
        matched_by: Literal["id", "text"] = "text"
        if sample.expected_ids:
            matched_by = "id"
            keys = [context.id for context in retrieved]
            expected = set(sample.expected_ids)
            plain_keys = [key and _plain_id(key) for key in keys]
            if len(set(plain_keys)) == len(set(keys)):  # else two ids would become one
                keys = plain_keys
                expected = {_plain_id(key) for key in expected}
        else:
            keys = [composed_text(context.text) for context in retrieved]
            expected = {
                composed_text(context.text)
                for context in sample.expected_contexts or ()
            }
        if None in keys:
            return self.undefined(
                f"rank {keys.index(None) + 1} of what was retrieved has no single id"
                " (none, or several that differ) to compare with expected_ids; give one"
                " id each, or expected_contexts",
                "missing",
            )
        distinct_keys = list(dict.fromkeys(keys))
        hits = [key in expected for key in distinct_keys]
        value = ranking_score(self.measure, hits, n_expected=len(expected), k=self.k)
        id_by_key = dict(
            zip(reversed(keys), (each.id for each in reversed(retrieved)), strict=True)
        )
        passages = [
            RankedPassage(rank=rank, id=id_by_key[key], expected=is_hit)
            for rank, (key, is_hit) in enumerate(
                zip(distinct_keys, hits, strict=True), start=1
            )
        ]
        evidence = RankingEvidence(
            passages=tuple(passages), n_expected=len(expected), matched_by=matched_by
        )
        ranks = [str(rank) for rank, hit in enumerate(hits[: self.k], start=1) if hit]
        place = f"the first {self.k}" if self.k else f"the {len(hits)} retrieved"
        reason = f"{len(ranks)} of {len(expected)} expected passages are among {place}"
        if ranks:
            reason += f", at rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
        if matched_by == "text" and retrieved and not any(hits):
            reason += (
                "; a part of a chunk, or its text in another case, is no match: write"
                " whole chunks as they are stored, or expected_ids"
            )
        if matched_by == "id" and retrieved and not any(hits):
            # ids of two forms, such as 7 and doc-7, never match: both are shown
            reason += (
                f"; expected is e.g. {(sample.expected_ids or ('',))[0]!r}, and retrieved"
                f" {retrieved[0].id!r}"
            )
            numbers = [_number(each.id or "") for each in retrieved]
            if not set(map(_number, expected)).isdisjoint(numbers):
                reason += "; some are equal as numbers: write ids as text, alike"
        return self.scored(value, reason, evidence)


def ranking_score(
    measure: Measure, hits: Sequence[bool], *, n_expected: int, k: int | None = None
) -> float:
    """Compute a measure of a ranking whose passages are expected or not.

    Args:
        measure: ``ndcg`` (binary gains), ``hit_rate``, ``recall``, ``precision`` or
            ``mrr`` (the reciprocal rank of the first expected passage).
        hits: Whether the passage at each rank is expected, rank 1 first.
        n_expected: How many passages are expected, at least 1.
        k: The ranks that count; None for all.

    Returns:
        In [0, 1], higher is better. Precision is over ``k`` ranks, also where fewer
        passages were retrieved.

    Source:
        Järvelin & Kekäläinen (2002), ACM TOIS 20(4), for nDCG; the others as in TREC.

    Examples:
        >>> ranking_score("recall", [False, True], n_expected=2, k=2)
        0.5
    """
    hits_that_count = hits[:k]
    n_hits = sum(hits_that_count)
    if n_hits == 0:
        return 0.0
    if measure == "hit_rate":
        return 1.0
    if measure == "recall":
        return n_hits / n_expected
    if measure == "precision":
        return n_hits / (k or len(hits))
    if measure == "mrr":
        return 1 / (hits_that_count.index(True) + 1)
    ideal = _discounted_gain([True] * min(n_expected, k or n_expected))
    return min(1.0, _discounted_gain(hits_that_count) / ideal)


def _discounted_gain(gains: Sequence[float]) -> float:
    """Sum gains in order of rank, each discounted by the logarithm of its rank."""
    return fsum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def average_precision(verdicts: Sequence[bool]) -> float:
    """Return the mean of the precision at the ranks of useful chunks.

    ``verdicts`` say whether the chunk at each rank is useful, rank 1 first.

    Returns:
        In [0, 1], higher is better; 0.0 if none is useful.

    Source:
        Buckley & Voorhees (2000), SIGIR; as in TREC, over the retrieved useful chunks.

    Examples:
        >>> average_precision([False, True]), average_precision([True, False])
        (0.5, 1.0)
    """
    useful_ranks = [
        rank for rank, is_useful in enumerate(verdicts, start=1) if is_useful
    ]
    precisions = [
        Fraction(n_useful, rank) for n_useful, rank in enumerate(useful_ranks, start=1)
    ]
    return float(sum(precisions, Fraction(0)) / (len(precisions) or 1))


class RankedPassage(SilentData, extra="ignore"):
    """One passage that was retrieved.

    Attributes:
        rank: 1 for the first one; a repeat has none of its own.
        id: Its id, if it has one.
        expected: Whether it is one of the expected passages.
    """

    rank: int
    id: str | None = None
    expected: bool


class RankingEvidence(Evidence):
    """Which of the retrieved passages were expected.

    Attributes:
        kind: Ranks of hits.
        passages: The distinct passages that were retrieved, by rank.
        n_expected: How many distinct passages are expected.
        matched_by: How passages are compared.
    """

    kind: str = "retrieval_ranking"
    passages: tuple[RankedPassage, ...] = ()
    n_expected: int
    matched_by: Literal["id", "text"]

    def verdicts(self) -> list[str]:
        """Return a line on each passage that was retrieved."""
        return [
            f"{passage.rank}. {passage.id or 'a passage without an id'}:"
            f" {'expected' if passage.expected else 'not expected'}"
            for passage in self.passages
        ]


def _plain_id(identifier: str) -> str:
    """Return an id as it is compared.

    A whole number has no decimals: tables write 1.0 where a column of ids has gaps.
    """
    identifier = composed_text(identifier)
    whole = identifier.removesuffix(".0")
    return whole if whole.isdecimal() else identifier


def _number(identifier: str) -> float | str:
    """Return an id as a number, such as 7 for "007", if it is one."""
    try:
        return float(identifier)
    except ValueError:
        return identifier
