"""What was measured of passages, over many rows and beside a judge's word. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ragmetrics_core.data import JudgedChunks, MeasuredUse, SampleResult
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
        self._n_changing = 0.0
        self._n_unknown = 0
        self._most = 0  # passages of a row
        # how many of the first passages a row needs for its answer
        self._needed: Counter[int] = Counter()

    def add(self, use: MeasuredUse) -> None:
        """Count one row."""
        if use.why_not is not None:
            self._n_not_measured += 1
            return
        verdicts = [each.verdict for each in use.passages]
        self.n_rows += 1
        self._n_passages += len(verdicts)
        self._n_changing += verdicts.count("used") + len(use.redundant)
        self._n_unknown += verdicts.count("cannot tell")
        self._most = max(self._most, len(verdicts))
        # a passage of which nobody can tell may be needed; of a pair one is enough
        places = [min(pair) for pair in use.redundant]
        for place, verdict in enumerate(verdicts):
            if verdict in ("used", "cannot tell"):
                places.append(place)
        self._needed[max(places, default=-1) + 1] += 1

    @property
    def sentence(self) -> str:
        """What the rows say together; "" where nothing was measured.

        Example: "Measured on 40 rows: 1.8 of 5.0 passages change the answer; k = 3 would
        have kept 96 % of the answers."
        """
        if not self.n_rows:
            return ""
        rows = count_in_words(self.n_rows, "row")
        words = (
            f"Measured on {rows}: {self._n_changing / self.n_rows:.1f} of"
            f" {self._n_passages / self.n_rows:.1f} passages change the answer"
        )
        for k in range(1, self._most):
            n_kept = sum(n for needed, n in self._needed.items() if needed <= k)
            if n_kept >= _KEPT_ENOUGH * self.n_rows:
                share = n_kept / self.n_rows
                words += f"; k = {k} would have kept {share:.0%} of the answers"
                break
        if self._n_unknown:
            passages = count_in_words(self._n_unknown, "passage")
            words += f"; of {passages} nobody can tell"
        if self._n_not_measured:
            rows = count_in_words(self._n_not_measured, "row")
            words += f"; {rows} could not be measured"
        return f"{words}."


def use_in_one_line(rows: Iterable[SampleResult]) -> str:
    """Return what was measured of all rows in one line; "" where nothing was."""
    tally = UseTally()
    for row in rows:
        if row.sample is not None and row.sample.use is not None:
            tally.add(row.sample.use)
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
            if isinstance(result.evidence, JudgedChunks):
                pairs = _pairs(use, result.evidence)
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


def _pairs(use: MeasuredUse, evidence: JudgedChunks) -> Pairs:
    pairs = []
    for chunk in evidence.chunks:
        is_measured = 0 < chunk.rank <= len(use.passages)
        if not is_measured or chunk.useful is None:
            continue
        verdict = use.passages[chunk.rank - 1].verdict
        if verdict != "cannot tell":
            pairs.append((chunk.useful, verdict in _CHANGING))
    return pairs


def _kappa(pairs_of_rows: Sequence[Pairs]) -> float | None:
    return kappa([pair for pairs in pairs_of_rows for pair in pairs])


def passages_behind(claim: str, use: MeasuredUse) -> tuple[int, ...] | None:
    """Return the passages, from 0, without which a claim leaves the answer.

    () says that it stays without any passage: it comes from the model itself. None: it
    cannot be told, as where the repeats differ in it.
    """
    words = _words(claim)
    if use.why_not is not None or not words:
        return None

    def is_said(answer: str | None) -> bool:
        return answer is not None and words <= _words(answer)

    if not all(map(is_said, use.answers)):
        return None
    behind = tuple(
        place
        for place, each in enumerate(use.passages)
        if each.verdict == "used" and not is_said(each.answer)
    )
    if behind or is_said(use.answer_without_any):
        return behind
    return None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
