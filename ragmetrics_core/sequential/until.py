"""Runs until decided.

Rows come in a drawn order, and gates take their scores. The run ends as soon as no gate
is open. The terms:

    claim: what is to be decided: that a metric's mean is reached.
    gate: the sequential test of one claim. It sums up the evidence.
    unit: the rows that a gate takes at once: those of one cluster, else one row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import Literal, NamedTuple

from ragmetrics_core.data import (
    MetricResult,
    RowError,
    Sample,
    SampleResult,
    SettingError,
)
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.gates import Gate, UntilDecided, parse_gate
from ragmetrics_core.reporting.groups import KeysSought, group_of
from ragmetrics_core.reporting.run_facts import SequentialDecision, texts_of
from ragmetrics_core.sequential.decision_sentences import GateProgress, sentence_of
from ragmetrics_core.statistics.stopping import (
    Outcome,
    Score,
    SequentialGate,
    draw_order,
    join_outcomes,
)

Row = Sample | RowError

_ROUNDING = 1e-9


class _Claim(NamedTuple):
    """What a gate decides: that a mean is reached.

    Attributes:
        metric: The metric.
        at_least: The mean to reach.
    """

    metric: str
    at_least: float


class _RowScore(NamedTuple):
    """What one row brings to one gate.

    Attributes:
        score: The score; None if it is not known, as of a failed result.
        is_defined: Whether the metric is defined for the row.
    """

    score: Score
    is_defined: bool


@dataclass
class _ClaimState:
    """A claim, and the evidence for it so far.

    Attributes:
        claim: What is to be decided.
        gate: The sequential test, which sums up the evidence.
        n_scored: How many rows judged so far have a score for it.
        scores_not_counted: Scores of rows whose unit is not complete yet: they are no
            evidence before.
    """

    claim: _Claim
    gate: SequentialGate
    n_scored: int = 0
    scores_not_counted: list[_RowScore] = field(default_factory=list)


@dataclass
class _ListedRows:
    """What is known of the rows of a list before they are judged.

    Of rows from an iterator nothing is known.

    Attributes:
        texts: The text of each row.
        n_drawn: How many rows were drawn, and will be judged unless the run stops.
        unit_sizes: How many rows each unit has, in the order drawn.
    """

    texts: list[str] = field(default_factory=list)
    n_drawn: int = 0
    unit_sizes: list[int] = field(default_factory=list)


@dataclass
class _JudgedRows:
    """The rows that count so far.

    Attributes:
        n_rows: How many they are.
        n_calls: Calls that judging them took.
        texts: The different texts they have; equal ones cost one call.
        n_units: How many units the gates have taken.
        n_rows_of_unit: How many rows of the next unit have come.
    """

    n_rows: int = 0
    n_calls: int = 0
    texts: set[str] = field(default_factory=set)
    n_units: int = 0
    n_rows_of_unit: int = 0

    @property
    def n_texts(self) -> int:
        """How many different texts they have; at least 1."""
        return max(1, len(self.texts))


class Decider:
    """The gates of one run.

    They draw the order of its rows, take their results in it, and say when all is
    decided.

    Args:
        until: How the run stops.
        gates: Means to reach.
        metrics: The metrics of the run.

    Raises:
        SettingError: If there is no gate, or one on a metric that the run does not
            have.

    Attributes:
        samples: Those of all rows, None for a row that is no sample; None for rows that
            come from an iterator.
    """

    def __init__(
        self,
        until: UntilDecided | Literal["decided"],
        gates: Sequence[Gate | str] | str,
        metrics: Sequence[Metric],
    ) -> None:
        """List the claims to be decided, without evidence yet.

        A claim says, for example, that a metric's mean reaches 0.8. The rows come
        later, as a list or from an iterator.

        Args:
            until: The settings, or "decided" for the usual ones.
            gates: The means to reach, as the user wrote them.
            metrics: The metrics of the evaluation.
        """
        self.until = _settings(until)
        claims = _means_to_reach(gates, metrics)
        _refuse_no_claims(claims)
        self.samples: list[Sample | None] | None = None
        self._is_iterator = False  # until the rows come
        # texts and clusters of the rows, where they come as a list
        self._listed = _ListedRows()
        self._judged = _JudgedRows()  # counts of the rows judged so far
        # the clusters so far of an iterator, to notice a cluster that comes back
        self._clusters_of_iterator: set[str] = set()
        self._stop_reason = ""  # why the run is to stop; "" while it goes on
        self._claim_states = self._begin_states(claims)
        # what was decided after so many judged rows; kept until more are judged
        self._latest_decisions: tuple[SequentialDecision, ...] = ()
        self._n_rows_at_latest = -1  # nothing was decided yet

    def _begin_states(
        self, claims: Sequence[_Claim], *, n_rows: int = 1, largest_unit: int = 1
    ) -> list[_ClaimState]:
        """Begin to gather evidence for each claim, with none.

        Args:
            claims: What is to be decided.
            n_rows: Rows of the run; 1 as long as nobody knows.
            largest_unit: Rows of its largest unit, such as a cluster.
        """
        states = []
        for claim in claims:
            gate = self.until.gate(
                claim.at_least,
                rows=n_rows,
                gates=len(claims),
                largest_cluster=largest_unit,
            )
            states.append(_ClaimState(claim, gate))
        return states

    def _cannot_be_scored(self, state: _ClaimState) -> bool:
        """Whether so many rows have no score that the claim will not be decided."""
        n_unscored = self._judged.n_rows - state.n_scored
        n_may_be_scored = self._listed.n_drawn - n_unscored
        n_needed = self.until.min_scored * self._listed.n_drawn
        return n_may_be_scored < n_needed - _ROUNDING

    def _has_too_few_scores(self, state: _ClaimState) -> bool:
        """Whether too few of the rows judged so far have a score."""
        n_needed = self.until.min_scored * self._judged.n_rows
        return state.n_scored < n_needed - _ROUNDING

    def _outcome(self, state: _ClaimState) -> Outcome:
        """Return what is decided of a claim.

        It is undecided while too few of the rows judged so far have a score.
        """
        if self._has_too_few_scores(state):
            return "undecided"
        return state.gate.decision

    @property
    def done(self) -> bool:
        """True if no further row needs to start.

        That is so if results were cut off, if what the gates decide together is
        settled, or if no gate that is open can still be decided.
        """
        if self._stop_reason:
            return True
        outcomes = [self._outcome(state) for state in self._claim_states]
        if join_outcomes(outcomes) != "undecided":
            return True
        for state, outcome in zip(self._claim_states, outcomes, strict=True):
            if outcome == "undecided" and not self._cannot_be_scored(state):
                return False
        return True

    @property
    def note(self) -> str:
        """In which order rows were taken."""
        if self._is_iterator:
            return (
                "Rows were taken in order of arrival: what was decided holds only if"
                " that is random."
            )
        return (
            f"Rows were taken in an order drawn with seed {self.until.seed}; another"
            " seed is another look."
        )

    def rows_in_order(
        self, rows: Iterable[Row], *, listed: bool
    ) -> Iterator[tuple[int, Row]]:
        """Yield the index of each row and the row, in the order of judging.

        The order of a list is drawn at random: ["a", "b", "c"] may yield (2, "c"),
        (0, "a"), (1, "b"). Rows of an iterator keep their order, and at most
        ``max_samples`` of them are taken.

        Args:
            rows: The rows of the run.
            listed: Whether all of them are known now. False for an iterator.

        Raises:
            SettingError: If ``on="point"`` is asked of rows whose number is not known.
        """
        if listed:
            yield from self._draw_rows(list(rows))
        else:
            self._refuse_what_needs_a_list()
            self._is_iterator = True
            yield from islice(enumerate(rows), self.until.max_samples)

    def _draw_rows(self, rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
        """Yield the rows of a list in a random order, each with its index.

        Rows of one cluster are a unit, and stay together. Example: of 10 rows and
        ``max_samples=4`` the first units with 4 rows or fewer in all. The statistical
        tests need to know how many rows there are, and how large the largest unit is:
        that is noted first.
        """
        samples = [None if isinstance(row, RowError) else row for row in rows]
        self.samples = samples
        self._refuse_unknown_cluster_key(samples)
        texts = [texts_of(sample) for sample in samples]
        clusters = self._clusters(samples)
        units = draw_order(texts, seed=self.until.seed, clusters=clusters)
        indices = _first_units(units, max_rows=self.until.max_samples or len(rows))
        self._note_drawn(texts, units, n_drawn=len(indices))
        for index in indices:
            yield index, rows[index]

    def _note_drawn(
        self, texts: list[str], units: Sequence[Sequence[int]], *, n_drawn: int
    ) -> None:
        """Note what is known of a list before judging, and begin its claims with it.

        Args:
            texts: The text of each row.
            units: The indices of the rows of each unit, in the order drawn.
            n_drawn: How many rows will be judged, unless the run stops.
        """
        unit_sizes = [len(unit) for unit in units]
        self._listed = _ListedRows(texts, n_drawn, unit_sizes)
        self._claim_states = self._begin_states(
            [state.claim for state in self._claim_states],
            n_rows=max(1, len(texts)),
            largest_unit=max(unit_sizes, default=1),
        )

    def _refuse_what_needs_a_list(self) -> None:
        """Raise ``SettingError`` for settings that need to know the number of rows."""
        if self.until.on == "point":
            raise SettingError('on="point" needs a list of rows, not an iterator')

    def _refuse_unknown_cluster_key(self, samples: Sequence[Sample | None]) -> None:
        """Raise ``SettingError`` if no sample has the clusters' key."""
        keys = KeysSought(cluster=self.until.cluster)
        for sample in samples:
            if sample is not None:
                keys.look_in(sample)
        keys.check()

    def _clusters(self, samples: Sequence[Sample | None]) -> list[str | None]:
        """The cluster of each row, None for a row that stands alone."""
        if self.until.on != "interval":
            return [None] * len(samples)
        return [group_of(sample, self.until.cluster) for sample in samples]

    def take(self, row: SampleResult) -> None:
        """Take the result of a row, in the order in which rows were started.

        Its scores become evidence once all rows of its unit are there. Example: with
        conversations as units, the first of a conversation's 2 rows is no evidence
        before the second.
        """
        if not self._stop_reason:
            self._stop_reason = self._reason_to_stop(row)
        if self._stop_reason:
            # Such as "a limit was reached": this row and all later ones do not count,
            # so they settle nothing.
            return
        self._count_row(row)
        for state in self._claim_states:  # a claim is e.g. "recall has a mean of .8"
            score = _score_of(row.results.get(state.claim.metric))
            state.n_scored += int(score.score is not None)
            state.scores_not_counted.append(score)  # until the unit is complete
        if self._unit_is_complete():
            self._count_unit_as_evidence()

    def _count_row(self, row: SampleResult) -> None:
        """Count a row, its calls and, if it is of a list, its text."""
        self._judged.n_rows += 1
        self._judged.n_rows_of_unit += 1
        self._judged.n_calls += row.usage.calls
        if self._listed.texts:
            self._judged.texts.add(self._listed.texts[row.index])

    def _reason_to_stop(self, row: SampleResult) -> str:
        """Return the reason to take neither this row nor a later one; "" if it counts."""
        lacks_results = any(
            state.claim.metric not in row.results for state in self._claim_states
        )
        if row.sample is not None and lacks_results:
            return "a limit was reached"
        if self._shares_cluster_with_earlier_row(row):
            return (
                f"row {row.number} shares its cluster with an earlier one; give a"
                " list, not an iterator"
            )
        return ""

    def _shares_cluster_with_earlier_row(self, row: SampleResult) -> bool:
        """Whether a row of an iterator should have been judged with an earlier row.

        Rows of a list come cluster by cluster. The cluster of the row is noted.
        """
        is_from_list = self.samples is not None
        if is_from_list or self.until.on == "point":
            return False
        cluster = group_of(row.sample, self.until.cluster)
        if cluster is None:
            return False
        is_repeated = cluster in self._clusters_of_iterator
        self._clusters_of_iterator.add(cluster)
        return is_repeated

    def _unit_is_complete(self) -> bool:
        """Whether all rows of the next unit were taken.

        Of an iterator each row is a unit.
        """
        if not self._listed.unit_sizes:
            return True
        size_of_unit = self._listed.unit_sizes[self._judged.n_units]
        return self._judged.n_rows_of_unit == size_of_unit

    def _count_unit_as_evidence(self) -> None:
        """Give the test of each claim the scores of a unit whose rows are all there."""
        self._judged.n_units += 1
        self._judged.n_rows_of_unit = 0
        for state in self._claim_states:
            row_scores = state.scores_not_counted
            scores = [row.score for row in row_scores if row.is_defined]
            n_undefined = len(row_scores) - len(scores)
            state.gate.update(*scores, undefined=n_undefined)
            row_scores.clear()

    @property
    def decisions(self) -> tuple[SequentialDecision, ...]:
        """What is decided so far, gate by gate."""
        are_stale = self._n_rows_at_latest != self._judged.n_rows
        # a reason to stop may come without a further row that counts
        if are_stale or self._stop_reason:
            self._latest_decisions = tuple(map(self._decision, self._claim_states))
            self._n_rows_at_latest = self._judged.n_rows
        return self._latest_decisions

    def _decision(self, state: _ClaimState) -> SequentialDecision:
        """Decide a claim by the evidence so far, and say the decision in a sentence.

        Example: context_adherence at least .8, "passed" after 40 rows.
        """
        claim = state.claim  # such as "the mean is at least .8"
        gate = state.gate  # its statistical test, with the scores so far
        outcome = self._outcome(state)  # "passed", "failed" or "undecided"
        decision = SequentialDecision(
            metric=claim.metric,
            outcome=outcome,
            sentence="",
            at_least=claim.at_least,
            # "point": the mean of these rows; "interval": of all samples like these
            on=self.until.on,
            alpha=self.until.alpha,  # risk of a wrong decision
            e_value=gate.e_value if isfinite(gate.e_value) else None,  # the evidence
            decided_at=self._n_rows_at_decision(gate, outcome),
            bounds=(gate.interval.low, gate.interval.high),
            saved=self._calls_saved(),  # since rows need not be judged
        )
        progress = self._progress(state, outcome)
        sentence = sentence_of(decision, progress, self.until)
        return decision.model_copy(update={"sentence": sentence})

    def _n_rows_at_decision(self, gate: SequentialGate, outcome: Outcome) -> int | None:
        """How many rows had been looked at when it was decided; None while undecided."""
        if outcome == "undecided":
            return None
        n_units = gate.decided_at or 0
        if not self._listed.unit_sizes:  # of an iterator each row is a unit
            return n_units
        return sum(self._listed.unit_sizes[:n_units])

    def _calls_saved(self) -> int | None:
        """Calls that the rows not judged would have made; None for an iterator.

        The number is that of their different texts, times the calls that a text took so
        far.
        """
        if self.samples is None:
            return None
        n_texts_left = len(set(self._listed.texts) - self._judged.texts)
        n_calls_left = n_texts_left * self._judged.n_calls / self._judged.n_texts
        return round(n_calls_left)

    def _progress(self, state: _ClaimState, outcome: Outcome) -> GateProgress:
        """Gather how far the run has come with a gate, for the gate's sentence."""
        return GateProgress(
            n_rows=None if self.samples is None else len(self.samples),
            n_judged=self._judged.n_rows,
            n_scored=state.n_scored,
            has_too_few_scores=self._has_too_few_scores(state),
            cannot_be_scored=self._cannot_be_scored(state),
            stop_reason=self._stop_reason,
            is_saving_rounded=self._judged.n_calls % self._judged.n_texts != 0,
            evidence_needed=self._evidence_needed(outcome),
        )

    def _evidence_needed(self, outcome: Outcome) -> float:
        """The e-value that decides a gate.

        One failing gate fails the run, so failing is shared among all (Bonferroni);
        passing needs all of them.
        """
        sharing_gates = len(self._claim_states) if outcome == "failed" else 1
        return sharing_gates / self.until.alpha


def _first_units(units: Iterable[Sequence[int]], *, max_rows: int) -> list[int]:
    """The row indices of the first units, as many as fit into a number of rows.

    Example: of units of 2, 2 and 3 rows with 5 rows at most, two are taken.
    """
    indices: list[int] = []
    for unit in units:
        if len(indices) + len(unit) > max_rows:
            break
        indices += unit
    return indices


def _settings(until: UntilDecided | Literal["decided"]) -> UntilDecided:
    """The settings of a run until decided; ``SettingError`` for anything else."""
    if until == "decided":
        return UntilDecided()
    if isinstance(until, UntilDecided):
        return until
    raise SettingError(
        f'until= is "decided", or settings: UntilDecided(…); got {until!r}'
    )


def _means_to_reach(
    gates: Sequence[Gate | str] | str, metrics: Sequence[Metric]
) -> list[_Claim]:
    """Make a claim of each gate that the caller gave: a mean that a metric is to reach.

    Example: "adherence=0.8" gives the claim that the mean of adherence reaches 0.8.

    Args:
        gates: One gate, or several.
        metrics: The metrics of the run.

    Raises:
        SettingError: If a gate cannot be read, names no metric of the run, or holds for
            each slice of the rows: slices are known only after a whole run.
    """
    metric_names = [metric.name for metric in metrics]
    given_gates = [gates] if isinstance(gates, str) else gates or ()
    claims = []
    for given_gate in given_gates:
        gate = parse_gate(str(given_gate), metric_names)
        if gate.by:  # the field whose values make the slices
            raise SettingError(
                f"{gate} is held for each slice after a whole run; leave out until="
                " (--until-decided)"
            )
        if not gate.is_mean:
            raise SettingError(
                f"{gate} is no mean, and is held after a whole run; leave out until="
                " (--until-decided)"
            )
        claims.append(_Claim(gate.metric, gate.at_least))
    return claims


def _refuse_no_claims(claims: Sequence[_Claim]) -> None:
    """Raise ``SettingError`` if there is nothing to decide."""
    if not claims:
        raise SettingError(
            "a run until decided needs something to decide:"
            ' gates=["adherence=0.8"] (--fail-under)'
        )


def _score_of(result: MetricResult | None) -> _RowScore:
    """Return what a result brings to a gate; it is not known without a result."""
    if result is None:
        return _RowScore(None, is_defined=True)
    return _RowScore(result.value, is_defined=result.status != "undefined")
