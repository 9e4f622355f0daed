"""A gate that is decided as soon as the scores allow, at an error rate valid at any time.

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
from typing import Literal, NamedTuple

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
    if isinstance(score, tuple):
        low, high = score
        return float(low), float(high)
    return float(score), float(score)


class _Evidence:
    """Evidence against *mean ≤ m*: the highest mean wealth of the five so far.

    It is infinite where m is impossible.
    """

    def __init__(self, m: float, population: int | None, largest_unit: int) -> None:
        self._m = m
        self._population = population
        self._largest_unit = largest_unit
        self._wealth = [1.0] * len(_BETS)
        self._n_units = 0
        self._excess = 0.0  # sum of x − m over the units
        self.highest = 1.0 if m >= 0 else inf

    def bet_on(self, total: float, count: int) -> float:
        """Bet on a unit of so many scores with this sum; return the highest wealth yet.

        A unit without scores has x = m.
        """
        excess = (total - self._m * count) / self._largest_unit
        mean_left = self._m
        units_per_unit_left = 1.0
        if self._population is not None:
            n_left = self._population - self._n_units
            # If the mean of all is m, that of the units left is at most this.
            mean_left = self._m - self._excess / n_left
            units_per_unit_left = self._population / n_left
        if 0 < mean_left < 1:
            gain = (self._m + excess) / mean_left - 1
            odds = units_per_unit_left / (1 - mean_left)
            self._multiply_wealth(gain, odds)
        self._n_units += 1
        self._excess += excess
        if self._population is not None:
            # The sum may exceed N·m already, whatever the units left are.
            n_left = self._population - self._n_units
            if self._excess > n_left * self._m:
                self.highest = inf
        mean_wealth = sum(self._wealth) / len(_BETS)
        self.highest = max(self.highest, mean_wealth)
        return self.highest

    def _multiply_wealth(self, gain: float, odds: float) -> None:
        """Let each of the five gain on its stake."""
        wealth = self._wealth
        for place, bet in enumerate(_BETS):
            stake = bet * odds
            if stake > _HIGHEST_STAKE:  # faster than min(), in the innermost loop
                stake = _HIGHEST_STAKE
            wealth[place] *= 1 + stake * gain


def check_share(name: str, value: float) -> None:
    """Raise ``SettingError`` unless the setting of this name lies in [0, 1]."""
    if not 0 <= value <= 1:
        raise SettingError(f"{name} is a share from 0 to 1; got {value}")


def _check_count(name: str, value: int | None) -> None:
    """Raise ``SettingError`` unless the setting of this name is None or at least 1."""
    if value is not None and value < 1:
        raise SettingError(f"{name} is a number of at least 1; got {value}")


class _Unit(NamedTuple):
    """A unit of the random order: its lowest and highest sum, and how many scores."""

    lowest_sum: float
    highest_sum: float
    n_scores: int

    @property
    def lowest_mirrored_sum(self) -> float:
        """The lowest sum of 1 − score."""
        return self.n_scores - self.highest_sum


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
        check_share("threshold", threshold)
        check_share("margin", margin)
        check_share("min_scored", min_scored)
        _check_count("population", population)
        _check_count("largest_cluster", largest_cluster)
        _check_count("gates", gates)
        if not 0 < alpha < 0.5:
            raise SettingError(f"alpha lies between 0 and 0.5, e.g. 0.05; got {alpha}")
        if population is not None and largest_cluster > 1:
            raise SettingError(
                "largest_cluster needs population=None: in a population each sample is"
                " a unit"
            )
        self.population = population
        self._largest_cluster = largest_cluster
        # Passing needs all gates; one of them fails the run, so failing is shared.
        self._needed_to_pass = 1 / alpha
        self._needed_to_fail = gates / alpha
        self._min_samples = min_samples
        self._min_scored = min_scored
        # Evidence that the mean is not below the threshold, and that it is: the second
        # bets on 1 − score.
        lowest_passing = threshold - margin - ROUNDING
        lowest_failing = 1 - threshold + ROUNDING
        self._passing = _Evidence(lowest_passing, population, largest_cluster)
        self._failing = _Evidence(lowest_failing, population, largest_cluster)
        self._units: list[_Unit] = []
        self.decision: Outcome = "undecided"
        self.decided_at: int | None = None
        self.rows = 0
        self.scored = 0
        self._evidence_at_decision = 0.0

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
        n_rows = max(1, len(ends) + undefined)
        self._check_unit(ends, n_rows)
        unit = _Unit(
            lowest_sum=sum(low for low, _ in ends),
            highest_sum=sum(high for _, high in ends),
            n_scores=len(ends),
        )
        self._units.append(unit)
        self.rows += n_rows
        for low, high in ends:
            if low == high:
                self.scored += 1

        evidence_for = self._passing.bet_on(unit.lowest_sum, unit.n_scores)
        evidence_against = self._failing.bet_on(unit.lowest_mirrored_sum, unit.n_scores)
        if self.decision == "undecided" and self._may_decide():
            if evidence_for >= self._needed_to_pass:
                self._decide("passed", evidence_for)
            elif evidence_against >= self._needed_to_fail:
                self._decide("failed", evidence_against)
        return self.decision

    def _check_unit(self, ends: Sequence[tuple[float, float]], n_rows: int) -> None:
        """Refuse, by ``InputError``, a unit that cannot be."""
        if not all(0 <= low <= high <= 1 for low, high in ends):
            raise InputError("scores lie in [0, 1]; at least one value does not")
        if n_rows > self._largest_cluster:
            raise InputError(
                f"a unit of {n_rows} rows; largest_cluster is {self._largest_cluster}"
            )
        if len(self._units) == self.population:
            raise InputError(
                f"more units than the population has, which is {self.population}"
            )

    def _may_decide(self) -> bool:
        """Whether enough samples are scored, by number and by share."""
        is_population_done = len(self._units) == self.population
        enough_samples = self.scored >= self._min_samples or is_population_done
        n_needed = self._min_scored * self.rows
        enough_scored = self.scored >= n_needed - ROUNDING
        return enough_samples and enough_scored

    def _decide(self, decision: Outcome, evidence: float) -> None:
        self.decision = decision
        self.decided_at = len(self._units)
        self._evidence_at_decision = evidence

    @property
    def e_value(self) -> float:
        """Evidence when it was decided, else the stronger of both.

        To be *passed* it needs 1/alpha, to be *failed* gates/alpha.
        """
        if self.decision != "undecided":
            return self._evidence_at_decision
        return max(self._passing.highest, self._failing.highest)

    @property
    def interval(self) -> Interval:
        """Bounds of the mean; each holds at all times together with 1 − alpha.

        A gate outside them is decided.
        """
        units = [(unit.lowest_sum, unit.n_scores) for unit in self._units]
        low = self._highest_refuted(units, self._needed_to_pass)
        mirrored = [(unit.lowest_mirrored_sum, unit.n_scores) for unit in self._units]
        high = 1 - self._highest_refuted(mirrored, self._needed_to_fail)
        return Interval(low, high, "betting, valid whenever one stops")

    def _highest_refuted(
        self, units: Sequence[tuple[float, int]], needed: float
    ) -> float:
        """Return the highest mean that the units refute.

        Evidence falls in m, so the mean is found by halving.
        """
        refuted = 0.0
        possible = 1.0
        for _ in range(_HALVINGS):
            middle = (refuted + possible) / 2
            evidence = _Evidence(middle, self.population, self._largest_cluster)
            if any(evidence.bet_on(total, count) >= needed for total, count in units):
                refuted = middle
            else:
                possible = middle
        return refuted


def join_outcomes(outcomes: Iterable[Outcome]) -> Outcome:
    """What several gates decide of one run: failed if any has, passed if all have."""
    different = set(outcomes)
    if "failed" in different:
        return "failed"
    if different == {"passed"}:
        return "passed"
    return "undecided"


def score_of_pair(after: Score, before: Score) -> tuple[float, float]:
    """Lowest and highest score of a pair, (after − before + 1) / 2.

    A pair with an undefined score is left out.
    """
    lowest_after, highest_after = _ends(after)
    lowest_before, highest_before = _ends(before)
    smallest_change = lowest_after - highest_before
    largest_change = highest_after - lowest_before
    return (smallest_change + 1) / 2, (largest_change + 1) / 2


def draw_order(
    contents: Sequence[str], *, seed: int = 0, clusters: Sequence[object] = ()
) -> list[list[int]]:
    """Return a random order of rows that does not depend on their order in the file.

    Equal rows are told apart by a count, else they would be neighbours; which of them
    comes first makes no difference to what is read.

    Args:
        contents: What each row says.
        seed: Another one gives another order.
        clusters: Keys of rows that belong together, None for a row of its own.

    Returns:
        Units in their order: each holds the places of its rows.
    """
    places_by_digest: dict[bytes, list[int]] = {}
    n_equal_before: Counter[str] = Counter()
    keys = clusters or [None] * len(contents)
    for place, (content, key) in enumerate(zip(contents, keys, strict=True)):
        if key is None:
            name = f"row {n_equal_before[content]}\0{content}"
            n_equal_before[content] += 1
        else:
            name = f"cluster\0{key!s}"
        seeded_name = f"{seed}\0{name}"
        digest = sha256(seeded_name.encode(errors="surrogatepass")).digest()
        places_by_digest.setdefault(digest, []).append(place)
    return [places_by_digest[digest] for digest in sorted(places_by_digest)]


def samples_needed(
    gate: Callable[[], SequentialGate], mean: float, rows: int, *, runs: int = 30
) -> float:
    """Return how many samples a gate will look at on average if the mean is this.

    The gate is simulated with scores of 0 and 1. Of all scores with one mean these let
    evidence grow most slowly (Jensen's inequality), so that graded scores need fewer.
    The average errs by about a seventh.

    Args:
        gate: Makes a new gate for each simulated run.
        mean: The mean score.
        rows: How many rows there are.
        runs: How many runs are simulated.
    """
    draw = random.Random(0)  # noqa: S311  # a simulation is no cryptography
    n_samples = 0
    for _ in range(runs):
        n_samples += _n_until_decided(gate(), mean, rows, draw)
    return n_samples / runs


def _n_until_decided(
    gate: SequentialGate, mean: float, rows: int, draw: random.Random
) -> int:
    """How many scores of 0 and 1 with this mean are drawn until the gate is decided."""
    n_ones_left = round(mean * rows)
    for n_drawn in range(rows):
        chance = mean
        if gate.population is not None:
            chance = n_ones_left / (rows - n_drawn)
        is_one = draw.random() < chance
        if is_one:
            n_ones_left -= 1
        if gate.update(float(is_one)) != "undecided":
            return n_drawn + 1
    return rows
