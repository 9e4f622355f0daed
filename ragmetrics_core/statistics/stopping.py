"""A gate that is decided as soon as the scores allow.

Its error rate holds however often one looks.

Evidence against *the mean is at most m* is the wealth of five gamblers who bet against
it. If it is true they cannot expect to win, so that wealth ever reaches 1/alpha with
probability alpha at most.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from math import inf
from typing import Literal

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.statistics.means import Interval

Outcome = Literal["passed", "failed", "undecided"]
On = Literal["interval", "point"]
"""What a gate speaks of: samples like these, or the rows of this run."""

Score = float | tuple[float, float] | None
"""A score: a number, a range or None.

A range is the lowest and highest score that it may be. None is for a sample that
failed, which may be anything from 0 to 1.
"""

MIN_SCORED = 0.95
"""Share of all rows that must be scored for a gate to be decided."""

ROUNDING = 1e-9
"""Means such as (0.6 + 1 + 0.8) / 3 miss 0.8 by rounding alone."""

_BETS = (0.016, 0.04, 0.1, 0.25, 0.625)
_HIGHEST_STAKE = 0.95
_HALVINGS = 20  # of [0, 1], to find a bound


def _ends(score: Score) -> tuple[float, float]:
    """Lowest and highest score that is possible."""
    if score is None:
        return 0.0, 1.0
    low, high = score if isinstance(score, tuple) else (score, score)
    return float(low), float(high)


class _Evidence:
    """Evidence against *mean ≤ m*: the highest mean wealth of the five so far.

    It is infinite where m is impossible.
    """

    def __init__(self, m: float, population: int | None, largest: int) -> None:
        self._m, self._population, self._largest = m, population, largest
        self._wealth = [1.0] * len(_BETS)
        self._seen, self._above = 0, 0.0  # units, and their sum of x − m
        self.most = 1.0 if m >= 0 else inf

    def see(self, total: float, count: int) -> float:
        """Bet on a unit of so many scores with this sum.

        One without scores has x = m.
        """
        left = self._population - self._seen if self._population else 0
        above = (total - self._m * count) / self._largest
        # what is left has a mean of at most this
        now = self._m - self._above / left if left else self._m
        if 0 < now < 1:
            gain = (self._m + above) / now - 1
            odds = (self._population / left if self._population else 1.0) / (1 - now)
            for place, bet in enumerate(_BETS):
                stake = bet * odds
                self._wealth[place] *= (
                    1 + (stake if stake < _HIGHEST_STAKE else _HIGHEST_STAKE) * gain
                )
        self._seen, self._above = self._seen + 1, self._above + above
        if left and self._above > (left - 1) * self._m:  # the sum exceeds N·m
            self.most = inf
        self.most = max(self.most, sum(self._wealth) / len(_BETS))
        return self.most


def check_shares(**shares: float) -> None:
    """Raise ``SettingError`` unless these settings lie in [0, 1]."""
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise SettingError(f"{name} is a share from 0 to 1; got {value}")


class SequentialGate:
    """Decides whether a mean score reaches a threshold, unit by unit.

    It may be asked after each unit.

    Wrongly *passed* has probability ``alpha`` at most if the mean is below ``threshold
    − margin``, wrongly *failed* if it reaches ``threshold``. Units must come in random
    order; without ``population`` clusters must be random.

    Args:
        threshold: The mean to reach, in [0, 1].
        alpha: Risk of either error.
        population: The mean of these N units, drawn without replacement, is meant;
            None: of samples like these.
        margin: Between ``threshold − margin`` and ``threshold`` either answer is right.
        largest_cluster: Most rows that a unit can have, known before the first score.
        gates: Gates that decide one run together; one of them fails it at ``alpha /
            gates``.
        min_samples: Scored samples before which nothing is decided, unless the
            population ends.
        min_scored: Share of the rows seen that must be scored for a decision.

    Attributes:
        decision: ``passed``, ``failed`` or ``undecided``; what is decided stays so.
        decided_at: Units seen then; None while undecided.
        rows: Rows seen.
        scored: Those with a score.

    Raises:
        SettingError: If a setting is out of its range, or clusters are given with a
            population, of which a random order of single samples says more.

    Source:
        Betting on means, also without replacement: Waudby-Smith & Ramdas (2024), JRSS-B
        86(1); Ville (1939). The five fixed bets and their mean are ours:
        ``benchmarks/sequential.py``.
    """

    def __init__(
        self,
        threshold: float,
        *,
        alpha: float = 0.05,
        population: int | None = None,
        margin: float = 0.0,
        largest_cluster: int = 1,
        gates: int = 1,
        min_samples: int = 0,
        min_scored: float = MIN_SCORED,
    ) -> None:
        check_shares(threshold=threshold, margin=margin, min_scored=min_scored)
        for name, value in (
            ("population", population),
            ("largest_cluster", largest_cluster),
            ("gates", gates),
        ):
            if value is not None and value < 1:
                raise SettingError(f"{name} is a number of at least 1; got {value}")
        if not 0 < alpha < 0.5:
            raise SettingError(f"alpha lies between 0 and 0.5, e.g. 0.05; got {alpha}")
        if population is not None and largest_cluster > 1:
            raise SettingError(
                "largest_cluster needs population=None: in a population each sample is"
                " a unit"
            )
        self.population, self._largest = population, largest_cluster
        self._levels = 1 / alpha, gates / alpha
        self._min_samples, self._min_scored = min_samples, min_scored
        self._passing = _Evidence(
            threshold - margin - ROUNDING, population, largest_cluster
        )
        self._failing = _Evidence(1 - threshold + ROUNDING, population, largest_cluster)
        # lowest and highest sum, scores
        self._units: list[tuple[float, float, int]] = []
        self.decision: Outcome = "undecided"
        self.decided_at: int | None = None
        self.rows = self.scored = 0
        self._evidence = 0.0

    def update(self, *scores: Score, undefined: int = 0) -> Outcome:
        """Take the next unit of the random order, and return the decision.

        Args:
            scores: Its scores, one per row that is not undefined; none for a unit that
                is undefined.
            undefined: Its other rows, if it has several.

        Raises:
            InputError: If a score is not in [0, 1], the unit has more rows than the
                largest cluster, or there are more units than the population has.
        """
        ends = [_ends(score) for score in scores]
        count, rows = len(ends), max(1, len(ends) + undefined)
        if not all(0 <= low <= high <= 1 for low, high in ends):
            raise InputError("scores lie in [0, 1]; at least one value does not")
        if rows > self._largest:
            raise InputError(
                f"a unit of {rows} rows; largest_cluster is {self._largest}"
            )
        if len(self._units) == self.population:
            raise InputError(
                f"more units than the population has, which is {self.population}"
            )
        self.rows, self.scored = (
            self.rows + rows,
            self.scored + sum(low == high for low, high in ends),
        )
        low, high = sum(low for low, _ in ends), sum(high for _, high in ends)
        self._units.append((low, high, count))
        passing = self._passing.see(low, count) >= self._levels[0]
        failing = self._failing.see(count - high, count) >= self._levels[1]
        many = self.scored >= self._min_samples or len(self._units) == self.population
        enough = many and self.scored >= self._min_scored * self.rows - ROUNDING
        if enough and (passing or failing) and self.decision == "undecided":
            self.decision, self.decided_at = (
                "passed" if passing else "failed",
                len(self._units),
            )
            self._evidence = (self._passing if passing else self._failing).most
        return self.decision

    @property
    def e_value(self) -> float:
        """Evidence when it was decided, else the stronger of both; *passed* needs 1/alpha, *failed* gates/alpha."""
        return self._evidence or max(self._passing.most, self._failing.most)

    @property
    def interval(self) -> Interval:
        """Bounds of the mean; each holds at all times together with 1 − alpha.

        A gate outside them is decided.
        """
        low = self._refuted(
            [(low, count) for low, _, count in self._units], self._levels[0]
        )
        high = 1 - self._refuted(
            [(count - high, count) for _, high, count in self._units], self._levels[1]
        )
        return Interval(low, high, "betting, valid whenever one stops")

    def _refuted(self, units: Sequence[tuple[float, int]], level: float) -> float:
        """Return the highest mean that the units refute.

        Evidence falls in m, so the mean is found by halving.
        """
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            evidence = _Evidence(
                middle := (low + high) / 2, self.population, self._largest
            )
            refuted = any(evidence.see(total, count) >= level for total, count in units)
            low, high = (middle, high) if refuted else (low, middle)
        return low


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """What several gates decide of one run: failed if any has, passed if all have."""
    found = set(outcomes)
    return (
        "failed"
        if "failed" in found
        else "passed"
        if found == {"passed"}
        else "undecided"
    )


def difference(after: Score, before: Score) -> tuple[float, float]:
    """Lowest and highest score of a pair, (after − before + 1) / 2.

    A pair with an undefined score is left out.
    """
    (low, high), (least, most) = _ends(after), _ends(before)
    return (low - most + 1) / 2, (high - least + 1) / 2


def drawn_order(
    contents: Sequence[str], *, seed: int = 0, clusters: Sequence[object] = ()
) -> list[list[int]]:
    """A random order of rows that does not depend on their order in the file.

    It depends on what rows say, and on the ``seed``; ``clusters`` are keys of rows that
    belong together, None for a row of its own. Given are units, each the places of its
    rows. Equal rows are told apart by a count, else they would be neighbours; which of
    them comes first makes no difference to what is read.
    """
    units: dict[bytes, list[int]] = {}
    seen: Counter[str] = Counter()
    for place, (content, key) in enumerate(
        zip(contents, clusters or [None] * len(contents), strict=True)
    ):
        name = f"row {seen[content]}\0{content}" if key is None else f"cluster\0{key!s}"
        seen[content] += key is None
        units.setdefault(
            sha256(f"{seed}\0{name}".encode(errors="surrogatepass")).digest(), []
        ).append(place)
    return [units[digest] for digest in sorted(units)]


def samples_needed(
    gate: Callable[[], SequentialGate], mean: float, rows: int, *, runs: int = 30
) -> float:
    """Return how many samples a gate will look at on average if the mean is this.

    The gate is simulated with scores of 0 and 1.

    Of all scores with one mean these let evidence grow most slowly (Jensen's
    inequality), so that graded scores need fewer. The average, over so many simulated
    ``runs`` of so many rows, errs by about a seventh.
    """
    draw = random.Random(0)  # noqa: S311  # a simulation is no cryptography
    taken = 0
    for _ in range(runs):
        own, ones = gate(), round(mean * rows)
        for left in range(rows, 0, -1):
            score = draw.random() < (ones / left if own.population else mean)
            ones, taken = ones - score, taken + 1
            if own.update(float(score)) != "undecided":
                break
    return taken / runs
