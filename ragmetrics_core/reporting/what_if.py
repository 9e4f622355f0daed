"""What if fewer chunks were shown, or the useful ones came first? From verdicts there.

Nobody is asked again: Context Utilization has judged each chunk by itself, so what a
shorter list would score follows from the verdicts that are known.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from ragmetrics_core.data import SettingError
from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.data.metric_evidence import JudgedChunks
from ragmetrics_core.data.results import SampleResult, Scored

UTILIZATION = "context_utilization"
_ENOUGH = 0.95
"""The share of useful chunks with which the sentence calls a cut harmless."""


class Cut(Frozen):
    """What would be left if each row kept its first ``k`` chunks.

    Attributes:
        k: Chunks that a row keeps at most.
        useful_kept: Share of all useful chunks that stay.
        text_kept: Share of the chunks' characters that stay.
        score: Mean Context Utilization of the rows, cut so.
    """

    k: int
    useful_kept: Share
    text_kept: Share
    score: Share

    @property
    def sentence(self) -> str:
        """For example "The first 4 chunks: 97% of the useful ones stay, …"."""
        chunks = "chunk" if self.k == 1 else f"{self.k} chunks"
        return (
            f"The first {chunks}: {self.useful_kept:.0%} of the useful ones stay, in"
            f" {self.text_kept:.0%} of the text; context_utilization would be"
            f" {self.score:.2f}."
        )


class WhatIf(Frozen):
    """What other numbers and another order of chunks would have scored.

    Attributes:
        rows: Rows with a verdict on each chunk.
        score: Mean Context Utilization of these rows, as it is.
        perfect_order: The same if the useful chunks of each row came first.
        cuts: For k = 1 to the most chunks of a row.
    """

    rows: int
    score: Share
    perfect_order: Share
    cuts: tuple[Cut, ...]

    @property
    def sentence(self) -> str:
        """The shortest cut that keeps nearly all useful chunks, and the perfect order.

        Example: "The first 4 of 10 chunks hold 97 % of the useful ones in 41 % of the
        text; a perfect order would give 0.96."
        """
        cut = next(cut for cut in self.cuts if cut.useful_kept >= _ENOUGH)
        most = self.cuts[-1].k
        return (
            f"The first {cut.k} of {most} chunks hold {cut.useful_kept:.0%} of the useful"
            f" ones in {cut.text_kept:.0%} of the text; a perfect order would give"
            f" {self.perfect_order:.2f}."
        )

    def __str__(self) -> str:
        lines = ["k    useful   text   score"]
        for cut in self.cuts:
            lines.append(
                f"{cut.k:<4} {cut.useful_kept:>6.0%} {cut.text_kept:>6.0%}"
                f"   {cut.score:.3f}"
            )
        return "\n".join([*lines, self.sentence])


class _Chunk(NamedTuple):
    """A judged chunk.

    Args:
        precision: Of a useful chunk the share of useful ones up to it; None for any
            other, and for a copy of an earlier chunk, which counts once.
        characters: How long its text is.
    """

    precision: float | None
    characters: int


def what_if(results: Iterable[SampleResult], metric: str = UTILIZATION) -> WhatIf:
    """Work out what shorter lists, and a perfect order, would have scored.

    Rows count where the metric is scored by bare verdicts (``relevance="binary"``) and
    the sample is there. A cut at k scores what the metric gives for the first k chunks.

    Args:
        results: The rows of a report.
        metric: The name of a ``ContextUtilization`` of the run.

    Raises:
        SettingError: If no row has such verdicts, or no chunk is useful.
    """
    judged = [_chunks_of(row, metric) for row in results]
    rows = [chunks for chunks in judged if chunks]
    if not any(chunk.precision for row in rows for chunk in row):
        raise SettingError(
            f"what if needs rows that {metric} has scored by verdicts, with a useful"
            " chunk in one of them; measure context_utilization with its usual settings"
        )
    n_useful, n_characters = _n_useful(rows), _n_characters(rows)
    cuts: list[Cut] = []
    for k in range(1, max(map(len, rows)) + 1):
        kept = [row[:k] for row in rows]  # each row keeps its first k chunks
        cuts.append(
            Cut(
                k=k,
                useful_kept=_n_useful(kept) / n_useful,
                text_kept=_n_characters(kept) / max(1, n_characters),
                score=fmean(map(_score, kept)),
            )
        )
    return WhatIf(
        rows=len(rows),
        score=fmean(_score(row) for row in rows),
        perfect_order=fmean(
            float(any(chunk.precision for chunk in row)) for row in rows
        ),
        cuts=tuple(cuts),
    )


def what_if_known(results: Iterable[SampleResult]) -> WhatIf | None:
    """The same for the usual metric; None where the rows do not tell, or have one chunk."""
    try:
        found = what_if(results)
    except SettingError:
        return None
    return found if len(found.cuts) > 1 else None


def _chunks_of(row: SampleResult, metric: str) -> list[_Chunk]:
    """The judged chunks of a row in their order; [] where it does not count."""
    result = row.results.get(metric)
    if not isinstance(result, Scored) or row.sample is None:
        return []
    evidence = result.evidence
    is_binary = result.signature.settings.get("relevance") == "binary"
    if not isinstance(evidence, JudgedChunks) or not is_binary:
        return []
    contexts = row.sample.known_contexts
    return [
        _Chunk(
            chunk.precision if chunk.useful and chunk.duplicate_of is None else None,
            len(context.text),
        )
        for chunk, context in zip(evidence.chunks, contexts, strict=False)
    ]


def _score(chunks: Sequence[_Chunk]) -> float:
    """The average precision of the chunks, each text once; 0 if none is useful."""
    at_useful = [chunk.precision for chunk in chunks if chunk.precision is not None]
    return fmean(at_useful) if at_useful else 0.0


def _n_useful(rows: Iterable[Sequence[_Chunk]]) -> int:
    return sum(chunk.precision is not None for row in rows for chunk in row)


def _n_characters(rows: Iterable[Sequence[_Chunk]]) -> int:
    return sum(chunk.characters for row in rows for chunk in row)
