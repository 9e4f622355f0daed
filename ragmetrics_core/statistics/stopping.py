"""A gate, decided as soon as the scores allow at an error rate valid at any time.

Evidence against *the mean is at most m* is the wealth of five gamblers who bet against
it. If it is true they cannot expect to win, so that wealth ever reaches 1/alpha with
probability alpha at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

MIN_ANSWERED = 0.5
"""Share of the answers that must not decline for a gate to be decided."""

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
    """Evidence against the claim that a mean is at most ``claimed_mean``.

    The evidence grows like winnings. Five imaginary gamblers start with a wealth of 1,
    and bet that each score is higher than the claim lets expect. If the claim is true,
    they cannot expect to win. The evidence is their mean wealth at its highest so far;
    it is infinite where the claim is impossible.

    Attributes:
        highest: The evidence so far.
    """

    def __init__(
        self, claimed_mean: float, population: int | None, largest_unit: int
    ) -> None:
        self._claimed_mean = claimed_mean
        self._population = population  # units there are; None: as many as one likes
        self._largest_unit = largest_unit  # in scores
        self._wealth = [1.0] * len(_BETS)  # of each gambler
        self._n_units = 0  # on which was bet so far
        # how far the means of these units lie over the claimed mean, summed up
        self._total_excess = 0.0
        self.highest = 1.0 if claimed_mean >= 0 else inf

    def add(self, unit: _Unit) -> None:
        """Add to the evidence (``highest``) what the next unit says against the claim.

        Imaginary gamblers bet that the unit's mean is higher than the claim allows. The
        evidence is their mean wealth at its highest so far. Example: the claimed mean is
        .8. A unit of one score, 1.0, is a gain of 1.0 / .8 - 1 = .25 of what each
        gambler stakes. A score of .6 is a loss of .25.

        Args:
            unit: What is drawn at once: a score, or the scores of a cluster. A score
                that is not known counts as its lowest possible value.
        """
        # a small cluster is filled up with the claimed mean, so that it weighs less
        mean_of_unit = self._filled_up_mean(unit)
        allowed_mean = self._mean_allowed_for_units_left()
        # At 0 or less the claim is false already; from 1 on no score can refute it.
        if 0 < allowed_mean < 1:
            self._bet(mean_of_unit, allowed_mean)
        self._n_units += 1
        self._total_excess += mean_of_unit - self._claimed_mean
        if self._is_claim_impossible():  # whatever the units left score
            self.highest = inf
        mean_wealth = sum(self._wealth) / len(_BETS)
        self.highest = max(self.highest, mean_wealth)

    def _filled_up_mean(self, unit: _Unit) -> float:
        """The mean of a unit that is filled up with the claimed mean to the largest size.

        So a smaller unit weighs less. Example: the claimed mean is .8, the largest unit
        has 2 scores. A unit with the one score 1.0 counts as 1.0 and .8: .9.
        """
        n_lacking = self._largest_unit - unit.n_scores
        filled_up_sum = unit.lowest_sum + n_lacking * self._claimed_mean
        return filled_up_sum / self._largest_unit

    def _mean_allowed_for_units_left(self) -> float:
        """The highest mean that the units left may have if the claim is true.

        What earlier units of a population had over the claimed mean, later units must
        have under it. Example: at most .8 is claimed of 3 units. If the first one is
        1.0, the other two have at most .7 on average.
        """
        if self._population is None:
            return self._claimed_mean
        n_left = self._population - self._n_units
        return self._claimed_mean - self._total_excess / n_left

    def _is_claim_impossible(self) -> bool:
        """Whether the mean exceeds the claim even if all units left score 0."""
        if self._population is None:
            return False
        n_left = self._population - self._n_units
        return self._total_excess > n_left * self._claimed_mean

    def _bet(self, mean_of_unit: float, allowed_mean: float) -> None:
        """Let each gambler win or lose by a stake, which is a share of the wealth.

        They stake more if few units are left, and if the mean that the claim allows is
        high: the gain is small then, at .9 no more than 1 / .9 - 1 = .11 of the stake.
        """
        gain = mean_of_unit / allowed_mean - 1
        units_per_unit_left = 1.0
        if self._population is not None:
            units_per_unit_left = self._population / (self._population - self._n_units)
        stake_factor = units_per_unit_left / (1 - allowed_mean)
        wealth = self._wealth
        for index, bet in enumerate(_BETS):
            stake = bet * stake_factor
            if stake > _HIGHEST_STAKE:  # faster than min(), in the innermost loop
                stake = _HIGHEST_STAKE
            wealth[index] *= 1 + stake * gain


def check_share(name: str, value: float) -> None:
    """Raise ``SettingError`` unless the setting of this name lies in [0, 1]."""
    if not 0 <= value <= 1:
        raise SettingError(f"{name} is a share from 0 to 1; got {value}")


def _check_count(name: str, value: int | None) -> None:
    """Raise ``SettingError`` unless the setting of this name is None or at least 1."""
    if value is not None and value < 1:
        raise SettingError(f"{name} is a number of at least 1; got {value}")


def _check_alpha(alpha: float) -> None:
    """Raise ``SettingError`` unless a risk lies between 0 and 0.5."""
    if not 0 < alpha < 0.5:
        raise SettingError(f"alpha lies between 0 and 0.5, e.g. 0.05; got {alpha}")


def _refuse_clusters_of_population(
    population: int | None, largest_cluster: int
) -> None:
    """Raise ``SettingError`` for a population that is drawn in clusters."""
    if population is not None and largest_cluster > 1:
        raise SettingError(
            "largest_cluster needs population=None: in a population each sample is a"
            " unit"
        )


class _Unit(NamedTuple):
    """A unit of the random order: its lowest and highest sum, and how many scores.

    Attributes:
        lowest_sum: Of the lowest possible scores.
        highest_sum: Of the highest possible scores.
        n_scores: How many scores it has, failed rows included.
        n_known: How many of them are known: the lowest and highest is the same.
    """

    lowest_sum: float
    highest_sum: float
    n_scores: int
    n_known: int

    @property
    def mirrored(self) -> _Unit:
        """The unit with 1 − score for each score: high where the scores are low."""
        return self._replace(
            lowest_sum=self.n_scores - self.highest_sum,
            highest_sum=self.n_scores - self.lowest_sum,
        )


def _unit_of(ranges: Sequence[tuple[float, float]]) -> _Unit:
    """Add up the scores of a unit, each given by its lowest and highest value."""
    lowest_sum = 0.0
    highest_sum = 0.0
    n_known = 0
    for low, high in ranges:
        lowest_sum += low
        highest_sum += high
        if low == high:
            n_known += 1
    return _Unit(lowest_sum, highest_sum, len(ranges), n_known)


class SequentialGate:
    """Decides whether a mean score reaches a threshold, unit by unit.

    It may be asked after each unit.

    Wrongly *passed* has probability ``alpha`` at most if the mean is below ``threshold
    − margin``, wrongly *failed* if it reaches ``threshold``. Units must come in random
    order; without ``population`` clusters must be random.

    Attributes:
        decision: ``passed``, ``failed`` or ``undecided``; what is decided stays so.
        decided_at: Units seen then; None while undecided.
        rows: Rows seen.
        scored: Those with a score.

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
        """Check the settings, and start without any evidence.

        The gate takes scores in units: a unit is one row, or the rows of a cluster. It
        passes by evidence against "the mean is too low", and fails by evidence against
        "the mean is high enough". Example: threshold .8, margin .05 and alpha .05. It
        passes by evidence of 1 / .05 = 20 against "the mean is at most .75". It fails by
        evidence of 20 against "the mean is at least .8".

        Args:
            threshold: The mean to reach, in [0, 1].
            alpha: Risk of either error.
            population: How many units there are, if the gate decides on the mean of
                exactly these, drawn without replacement. None if it decides on the mean
                of all samples like these.
            margin: Between ``threshold − margin`` and ``threshold`` either answer is
                right.
            largest_cluster: Most rows that a unit can have, known before the first
                score. In a population each unit is one row.
            gates: How many gates decide one run together. As one that fails is enough
                to fail the run, each may fail wrongly with the risk ``alpha / gates``.
            min_samples: Scored samples before which nothing is decided, unless the
                population ends.
            min_scored: Share of the rows seen that must be scored for a decision.

        Raises:
            SettingError: If a setting is out of its range, or if ``largest_cluster`` is
                above 1 with a population.
        """
        check_share("threshold", threshold)
        check_share("margin", margin)
        check_share("min_scored", min_scored)
        _check_count("population", population)
        _check_count("largest_cluster", largest_cluster)
        _check_count("gates", gates)
        _check_alpha(alpha)
        _refuse_clusters_of_population(population, largest_cluster)
        self.population = population
        self._largest_cluster = largest_cluster
        self._min_samples = min_samples
        self._min_scored = min_scored
        self._needed_to_pass = 1 / alpha
        self._needed_to_fail = gates / alpha  # any gate fails the run (Bonferroni)
        self._begin_without_evidence(threshold, margin)
        self._units: list[_Unit] = []  # taken so far: a row, or the rows of a cluster
        self.decision: Outcome = "undecided"
        self.decided_at: int | None = None
        self.rows = 0
        self.scored = 0
        self._evidence_at_decision = 0.0

    def _begin_without_evidence(self, threshold: float, margin: float) -> None:
        """Begin to gather evidence against two claims about the mean.

        Evidence against "the mean is at most ``threshold − margin``" speaks for a high
        mean. Evidence against "the mean is at least ``threshold``" speaks for a low one.
        The second claim is the same as "the mean of 1 − score is at most 1 −
        ``threshold``", so units are mirrored (1 − score) before they are added there.
        """
        # a mean that misses the threshold by rounding alone has reached it
        rounded_threshold = threshold - ROUNDING
        self._evidence_of_high_mean = self._evidence_against(rounded_threshold - margin)
        self._evidence_of_low_mean = self._evidence_against(1 - rounded_threshold)

    def update(self, *scores: Score, undefined: int = 0) -> Outcome:
        """Take the next unit of the random order, and return the decision.

        A unit is one row, or the rows of one cluster. Example: at a threshold of .5
        seven scores of 1.0 return "passed".

        Args:
            scores: The unit's scores, one per row for which the metric is defined. The
                score of a failed row is a range, or None for 0 to 1.
            undefined: How many further rows it has, for which the metric is undefined.

        Raises:
            InputError: If a score is not in [0, 1], the unit has more rows than the
                largest cluster, or there are more units than the population has.
        """
        ranges = [_ends(score) for score in scores]
        n_rows = len(ranges) + undefined
        if n_rows == 0:
            n_rows = 1  # without arguments: one row, for which the metric is undefined
        self._check_unit(ranges, n_rows)
        unit = _unit_of(ranges)
        self._units.append(unit)
        self.rows += n_rows
        self.scored += unit.n_known
        self._evidence_of_high_mean.add(unit)
        # a low mean is a high mean of 1 − score, which mirrored units have
        self._evidence_of_low_mean.add(unit.mirrored)
        if self.decision == "undecided" and self._may_decide():
            self._decide_by_evidence()
        return self.decision

    def _evidence_against(self, claimed_mean: float) -> _Evidence:
        """Begin to gather evidence against "the mean is at most ``claimed_mean``"."""
        return _Evidence(claimed_mean, self.population, self._largest_cluster)

    def _check_unit(self, ranges: Sequence[tuple[float, float]], n_rows: int) -> None:
        """Raise ``InputError`` for scores out of range, or too many rows or units."""
        for low, high in ranges:
            if not 0 <= low <= high <= 1:
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
        n_needed_by_share = self._min_scored * self.rows
        if self.scored < n_needed_by_share - ROUNDING:
            return False
        is_population_done = len(self._units) == self.population
        return is_population_done or self.scored >= self._min_samples

    def _decide_by_evidence(self) -> None:
        """Pass or fail if there is enough evidence for it."""
        if self._evidence_of_high_mean.highest >= self._needed_to_pass:
            self._decide("passed", self._evidence_of_high_mean.highest)
        elif self._evidence_of_low_mean.highest >= self._needed_to_fail:
            self._decide("failed", self._evidence_of_low_mean.highest)

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
        return max(
            self._evidence_of_high_mean.highest, self._evidence_of_low_mean.highest
        )

    @property
    def interval(self) -> Interval:
        """Bounds of the mean. A gate with a threshold outside of them is decided.

        Each bound holds at all times together with a probability of 1 − alpha.
        """
        low = self._highest_refuted(self._units, self._needed_to_pass)
        # an upper bound of the mean is a lower bound of the mean of 1 − score
        mirrored_units = [unit.mirrored for unit in self._units]
        low_mirrored = self._highest_refuted(mirrored_units, self._needed_to_fail)
        return Interval(low, 1 - low_mirrored, "betting, valid whenever one stops")

    def _highest_refuted(self, units: Sequence[_Unit], needed: float) -> float:
        """Return the highest mean that units refute.

        The evidence against a mean falls as the mean rises, so halving the range finds
        it.

        Args:
            units: The units, as they are or mirrored.
            needed: The evidence that refutes a mean.
        """
        refuted = 0.0
        possible = 1.0
        for _ in range(_HALVINGS):
            middle = (refuted + possible) / 2
            if self._is_refuted(middle, units, needed):
                refuted = middle
            else:
                possible = middle
        return refuted

    def _is_refuted(
        self, claimed_mean: float, units: Sequence[_Unit], needed: float
    ) -> bool:
        """Whether bets on units ever bring the evidence needed against a mean."""
        evidence = self._evidence_against(claimed_mean)
        for unit in units:
            evidence.add(unit)
            if evidence.highest >= needed:
                return True
        return False


def join_outcomes(outcomes: Iterable[Outcome]) -> Outcome:
    """What several gates decide of one run: failed if any has, passed if all have."""
    different = set(outcomes)
    if "failed" in different:
        return "failed"
    if different == {"passed"}:
        return "passed"
    return "undecided"


def draw_order(
    contents: Sequence[str], *, seed: int = 0, clusters: Sequence[object] = ()
) -> list[list[int]]:
    """Draw a random order of rows that does not depend on their order in the file.

    Rows are sorted by a digest of the seed and their content. Rows of one cluster stay
    together, as a unit; any other row is a unit by itself.
    Example: ["a", "b", "c"] gives [[2], [0], [1]], and ["c", "a", "b"] gives [[0], [1],
    [2]]: both times the order is c, a, b.

    Args:
        contents: What each row says.
        seed: Another one gives another order.
        clusters: For each row the key of its cluster, None for a row that stands alone;
            empty if all do.

    Returns:
        The units in their order; each holds the indices of its rows.
    """
    cluster_keys = clusters or [None] * len(contents)
    indices_by_digest: dict[bytes, list[int]] = {}
    for row_index, name in enumerate(_unit_names(contents, cluster_keys)):
        seeded_name = f"{seed}\0{name}"
        digest = sha256(seeded_name.encode(errors="surrogatepass")).digest()
        indices_by_digest.setdefault(digest, []).append(row_index)
    return [indices_by_digest[digest] for digest in sorted(indices_by_digest)]


def _unit_names(
    contents: Sequence[str], cluster_keys: Sequence[object]
) -> Iterator[str]:
    """Yield the name of each row's unit: its cluster, else its content.

    Rows of equal content are numbered, since they would become one unit.
    """
    n_equal_before: Counter[str] = Counter()
    for content, cluster_key in zip(contents, cluster_keys, strict=True):
        if cluster_key is not None:
            yield f"cluster\0{cluster_key!s}"
            continue
        yield f"row {n_equal_before[content]}\0{content}"
        n_equal_before[content] += 1
