"""What was measured of passages, over many rows and beside a judge's word. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ragmetrics_core.data import JudgedChunks, Sample, SampleResult
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.statistics.rater_agreement import bootstrap, kappa

_KEPT_ENOUGH = 0.95
_CHANGING = ("used", "redundant")
_DRAWS = 1000

Pairs = list[tuple[bool, bool]]
"""Of passages: whether a judge calls them useful, and whether they are used."""


class UseTally:
    """Counts what was measured of rows that come one by one."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._n_not_measured = 0
        self._n_passages = 0
        self._n_changing = 0
        self._n_unknown = 0
        # rows by the k that their answers need, surely and at most
        self._needed: Counter[int] = Counter()
        self._needed_at_most: Counter[int] = Counter()
        self._largest_k = 0

    def add(self, sample: Sample) -> None:
        """Count one row; one that nobody measured does not count."""
        use = sample.use
        if use is None:
            return
        if use.why_not is not None:
            self._n_not_measured += 1
            return
        verdicts = [each.verdict for each in use.passages]
        self.n_rows += 1
        self._n_passages += len(verdicts)
        self._n_changing += verdicts.count("used") + len(use.redundant)
        self._n_unknown += verdicts.count("cannot tell")
        ranks = _ranks(sample)
        if ranks is None:
            return
        ranks_used = [
            ranks[place] for place, each in enumerate(verdicts) if each == "used"
        ]
        # of a pair one is enough
        ranks_used += [min(ranks[place] for place in pair) for pair in use.redundant]
        ranks_unknown = [
            ranks[place] for place, each in enumerate(verdicts) if each == "cannot tell"
        ]
        self._needed[max(ranks_used, default=0)] += 1
        self._needed_at_most[max(ranks_used + ranks_unknown, default=0)] += 1
        self._largest_k = max(self._largest_k, len(ranks))

    @property
    def sentence(self) -> str:
        """What the rows say together; "" where nothing was measured.

        Example: "Measured on 40 rows: 1.8 of 5.0 passages change the answer; k = 3 would
        have kept 96% of the answers."
        """
        if not self.n_rows:
            return ""
        rows = count_in_words(self.n_rows, "row")
        changing = f"{self._n_changing / self.n_rows:.1f}"
        if self._n_unknown:
            changing += f" to {(self._n_changing + self._n_unknown) / self.n_rows:.1f}"
        words = (
            f"Measured on {rows}: {changing} of"
            f" {self._n_passages / self.n_rows:.1f} passages change the answer"
            f"{self._enough}"
        )
        if self._n_unknown:
            passages = count_in_words(self._n_unknown, "passage")
            words += f"; of {passages} nobody can tell"
        if self._n_not_measured:
            rows = count_in_words(self._n_not_measured, "row")
            words += f"; {rows} could not be measured"
        return f"{words}."

    @property
    def _enough(self) -> str:
        """Which k keeps nearly all answers; "" where that cannot be told.

        It is told of the rows whose contexts are all that one search found.
        """
        n_rows = self._needed.total()
        answers = "of the answers"
        if n_rows < self.n_rows:
            answers += f" to {count_in_words(n_rows, 'row')} of one search each"

        def share(needed: Counter[int], k: int) -> float:
            return sum(n for each, n in needed.items() if each <= k) / n_rows

        for k in range(1, self._largest_k):
            kept = share(self._needed_at_most, k)
            if kept >= _KEPT_ENOUGH:
                least = "at least " if kept < share(self._needed, k) else ""
                return f"; k = {k} would have kept {least}{kept:.0%} {answers}"
        k = self._largest_k
        if k > 1 and share(self._needed, k - 1) < _KEPT_ENOUGH:
            return f"; every k below {k} would have changed more than 5% {answers}"
        return ""


def _ranks(sample: Sample) -> list[int] | None:
    """Return the rank that a search gave each context, from 1.

    None if the contexts are not just what one search found: without some of that, others
    could have come into the prompt, and what these do was not measured.
    """
    notes = (sample.capture and sample.capture.passages) or ()
    ranks = {note.context: note.rank for note in notes}
    n_contexts = len(sample.context_texts)
    is_one_search = len({note.retriever for note in notes}) == 1 and [
        note.rank for note in notes
    ] == [*range(1, n_contexts + 1)]
    if not is_one_search or ranks.keys() != set(range(n_contexts)):
        return None
    return [ranks[place] or 0 for place in range(n_contexts)]


def use_in_one_line(rows: Iterable[SampleResult]) -> str:
    """Return what was measured of all rows in one line; "" where nothing was."""
    tally = UseTally()
    for row in rows:
        if row.sample is not None:
            tally.add(row.sample)
    return tally.sentence


def agreement_lines(rows: Iterable[SampleResult]) -> Iterator[str]:
    """Yield how far a judge's word on usefulness agrees with what was measured.

    The interval of kappa resamples rows. Passages of which the measurement or the judge
    tells nothing are left out.
    """
    pairs_by_metric: dict[str, list[Pairs]] = {}
    for row in rows:
        use = row.sample.use if row.sample else None
        if use is None or use.why_not is not None:
            continue
        for name, result in row.results.items():
            if not isinstance(result.evidence, JudgedChunks):
                continue
            pairs = []
            for chunk in result.evidence.chunks:
                is_measured = 0 < chunk.rank <= len(use.passages)
                if not is_measured or chunk.useful is None:
                    continue
                verdict = use.passages[chunk.rank - 1].verdict
                if verdict != "cannot tell":
                    pairs.append((chunk.useful, verdict in _CHANGING))
            pairs_by_metric.setdefault(name, []).append(pairs)
    for name, pairs_of_rows in pairs_by_metric.items():
        counts = Counter(pair for pairs in pairs_of_rows for pair in pairs)
        if not counts:
            continue
        yield f"{name}, {counts.total()} passages:    used  not used"
        for is_useful, words in ((True, "useful"), (False, "not useful")):
            n_used, n_unused = counts[is_useful, True], counts[is_useful, False]
            yield f"  judged {words:<10} {n_used:>8} {n_unused:>9}"
        value = _kappa(pairs_of_rows)
        if value is None:
            yield "  kappa unknown: one of the two says the same of all"
            continue
        bounds = bootstrap([pairs_of_rows], _kappa, draws=_DRAWS)
        inside = f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""
        yield f"  kappa {value:.2f}{inside}: how far judge and measurement agree"


def _kappa(pairs_of_rows: Sequence[Pairs]) -> float | None:
    return kappa([pair for pairs in pairs_of_rows for pair in pairs])
