"""Runs until decided.

Rows come in a drawn order, and gates take their scores. The run ends as soon as nothing
is open.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import isfinite
from pathlib import Path
from typing import Literal

from ragmetrics_core.data import (
    InputError,
    MetricResult,
    RowError,
    Sample,
    SampleResult,
    SettingError,
)
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.gates import VERBS, Gate, UntilDecided, parse_gate
from ragmetrics_core.reporting.pairing import (
    KeysSought,
    Pair,
    asked_otherwise,
    differences,
    group_of,
    group_pairs,
    judges_elsewhere,
    match,
)
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import SequentialDecision, texts_of
from ragmetrics_core.statistics.stopping import (
    Outcome,
    Score,
    SequentialGate,
    difference,
    drawn_order,
    together,
)

Item = Sample | RowError

logger = logging.getLogger("ragmetrics_core")


class Decider:
    """The gates of one run.

    They draw the order of its rows, take their results in it, and say when all is
    decided.

    Gates are means to reach, and with ``against`` every metric that the earlier run
    has. Judges are names with the addresses that they ask. ``samples`` are those of all
    rows, None for a row that is none; None for rows that come from an iterator.

    Raises:
        SettingError: If there is no gate, or one on a metric that the run does not
            have.
        InputError: If the earlier run cannot be read, ended early, or was measured in
            another way.
    """

    def __init__(
        self,
        until: UntilDecided | Literal["decided"],
        gates: Sequence[Gate | str] | str,
        metrics: Sequence[Metric],
        judges: Mapping[str, Sequence[str]],
    ) -> None:
        self.until = UntilDecided() if until == "decided" else until
        if not isinstance(self.until, UntilDecided):
            raise SettingError(
                f'until= is "decided", or settings: UntilDecided(…); got {until!r}'
            )
        gates = [gates] if isinstance(gates, str) else gates or ()
        asked = [
            parse_gate(str(gate), [metric.name for metric in metrics]) for gate in gates
        ]
        if sliced := next((gate for gate in asked if gate.by), None):
            raise SettingError(
                f"{sliced} is held for each slice after a whole run; leave out until="
                " (--until-decided)"
            )
        self._before = _finished(self.until.against, metrics, judges)
        both = (
            []
            if self._before is None
            else [it.name for it in metrics if it.name in self._before.run.metrics]
        )
        self._asked = [
            *((gate.metric, gate.at_least) for gate in asked),
            *((name, None) for name in both),
        ]
        if not self._asked:
            told = (
                'gates=["adherence=0.8"] (--fail-under) or against= (--against) a run'
                " with one of its metrics"
            )
            raise SettingError(f"a run until decided needs something to decide: {told}")
        self.samples: list[Sample | None] | None = None
        # rows of the earlier run, by place in this one
        self._partners: dict[int, SampleResult] = {}
        self._pairs: list[Pair] = []
        # rows of the earlier run without a partner; most rows that may be judged
        self._alone = self._reach = 0
        # scores for each gate, of the next unit's judged rows
        self._unit: list[list[tuple[Score, bool]]] = []
        self._scored = [0] * len(self._asked)
        self._texts: list[str] = []  # of all rows
        self._read: set[str] = set()  # those of judged rows
        self._sizes: list[int] = []  # of units, in order
        self._seen: set[str] = set()  # clusters of an iterator
        self._units = self._judged = self._calls = 0
        self._arriving = False  # rows of an iterator
        self._cut = ""  # why no more rows count
        self._gates = self._made(1, 1)
        self._found: tuple[int, tuple[SequentialDecision, ...]] = (-1, ())

    def _made(self, rows: int, largest: int) -> list[SequentialGate]:
        how = {"rows": rows, "gates": len(self._asked), "largest_cluster": largest}
        least = [
            {"min_scored": min(1.0, self._needed(place))}
            for place in range(len(self._asked))
        ]
        own = zip(least, self._asked, strict=True)
        return [
            self.until.model_copy(update=it).gate(at_least, **how)
            for it, (_, at_least) in own
        ]

    def _needed(self, place: int) -> float:
        """Return the share of the rows that a gate needs scored.

        The rows are those of either run, of which some may have no partner.
        """
        more = (
            self._alone / max(1, len(self._texts))
            if self._asked[place][1] is None
            else 0.0
        )
        return self.until.min_scored * (1 + more)

    def _lost(self, place: int) -> bool:
        """True if so many rows have no score that the gate will not be decided."""
        return (
            self._reach - self._judged + self._scored[place]
            < self._needed(place) * self._reach - 1e-9
        )

    def _few(self, place: int) -> bool:
        return self._scored[place] < self._needed(place) * self._judged - 1e-9

    def _outcome(self, place: int) -> Outcome:
        """Return what a gate decided.

        It is undecided if too few were scored with all that was judged since.
        """
        return "undecided" if self._few(place) else self._gates[place].decision

    @property
    def done(self) -> bool:
        """True if no further row needs to start.

        That is so if what the gates decide together is settled, or never will be.
        """
        outcomes = [self._outcome(place) for place in range(len(self._asked))]
        settled = all(
            own != "undecided" or self._lost(place)
            for place, own in enumerate(outcomes)
        )
        return bool(self._cut) or settled or together(outcomes) != "undecided"

    @property
    def note(self) -> str:
        """In which order rows were taken."""
        if self._arriving:
            return (
                "Rows were taken in order of arrival: what was decided holds only if"
                " that is random."
            )
        return (
            f"Rows were taken in an order drawn with seed {self.until.seed}; another"
            " seed is another look."
        )

    def drawn(
        self, items: Iterable[Item], *, listed: bool
    ) -> Iterator[tuple[int, Item]]:
        """Yield rows with their places, in the order in which they are to start.

        The order is drawn, or that of arrival if not ``listed``.

        Raises:
            SettingError: If ``on="point"`` or ``against`` is asked of rows whose number
                is not known.
            InputError: If the rows are not those of the earlier run.
        """
        if not listed:
            if self.until.on == "point" or self._before is not None:
                raise SettingError(
                    'on="point" and against= need a list of rows, not an iterator'
                )
            self._arriving = True
            yield from islice(enumerate(items), self.until.max_samples)
            return
        rows = list(items)
        self.samples = [None if isinstance(item, RowError) else item for item in rows]
        self._match(self.samples)
        earlier = [row.sample for row in self._partners.values()]
        keys = KeysSought(cluster=self.until.cluster)
        for sample in filter(None, (*self.samples, *earlier)):
            keys.look(sample)
        keys.check()
        self._texts = [texts_of(sample) for sample in self.samples]
        units = drawn_order(
            self._texts, seed=self.until.seed, clusters=self._clusters(self.samples)
        )
        self._sizes = [len(unit) for unit in units]
        self._gates = self._made(max(1, len(rows)), max(self._sizes, default=1))
        most, ends = self.until.max_samples or len(rows), accumulate(self._sizes)
        places = [
            place
            for unit, end in zip(units, ends, strict=True)
            if end <= most
            for place in unit
        ]
        self._reach = len(places)
        yield from ((place, rows[place]) for place in places)

    def _clusters(self, samples: Sequence[Sample | None]) -> list[str | None]:
        """The cluster of each row, None for one that stands alone.

        Those of one cluster in either run are together.
        """
        if self.until.on != "interval":
            return [None] * len(samples)
        partners = [self._partners.get(place) for place in range(len(samples))]
        before = [None if row is None else row.sample for row in partners]
        return group_pairs(zip(before, samples, strict=True), self.until.cluster)

    def _key(self, sample: Sample | None) -> str | None:
        return (
            group_of(sample, self.until.cluster)
            if self.until.on == "interval"
            else None
        )

    def _match(self, samples: Sequence[Sample | None]) -> None:
        if self._before is None:
            return
        found = match(
            self._before.results,
            [SampleResult(index=n, sample=it) for n, it in enumerate(samples)],
        )
        self._partners = {row.index: before for before, row in found.pairs}
        # bad rows too: comparing two finished runs counts them as well
        self._alone = len(found.first_only)
        strangers = [
            row
            for row in (*found.first_only, *found.second_only)
            if row.sample is not None
        ]
        questions = {row.sample.question for _, row in found.pairs if row.sample}
        if found.by == "question" and (strangers or len(questions) < len(found.pairs)):
            told = (
                "both runs must hold the same questions, none of them twice, or each"
                " sample an id of its own"
            )
            raise InputError(f"rows cannot be told apart: {told}")
        if others := asked_otherwise(found.pairs):
            raise InputError(
                f"{others:,} of {len(found.pairs):,} rows have the id of an earlier row"
                " with another question or reference; give the ids that the same"
                " samples had in the earlier run"
            )
        all_rows = len(samples) + self._alone
        if len(found.pairs) < self.until.min_scored * all_rows - 1e-9:
            bad_rows = sum(row.sample is None for row in found.first_only)
            advice = "compare runs of the same rows"
            if bad_rows:
                advice = (
                    f"{bad_rows:,} rows of the earlier run are no samples; mend them,"
                    f" or {advice}"
                )
            raise InputError(
                f"only {len(found.pairs):,} of the {all_rows:,} rows of either run have"
                f" a partner, fewer than {100 * self.until.min_scored:g} %: {advice}"
            )

    def take(self, row: SampleResult) -> None:
        """Count a result, in the order in which rows were started.

        A limit that cut one ends what counts.
        """
        before = self.done
        if row.sample is not None and any(
            name not in row.results for name, _ in self._asked
        ):
            self._cut = self._cut or "a limit was reached"
        if self.samples is None and (key := self._key(row.sample)) is not None:
            if key in self._seen:
                told = (
                    f"row {row.index + 1} shares its cluster with an earlier one; give"
                    " a list, not an iterator"
                )
                self._cut = self._cut or told
            self._seen.add(key)
        if self._cut:
            return
        self._judged, self._calls = self._judged + 1, self._calls + row.usage.calls
        self._read.update(self._texts[row.index : row.index + 1])
        self._unit.append(
            [self._score(row, place) for place in range(len(self._asked))]
        )
        if not self._sizes or len(self._unit) == self._sizes[self._units]:
            self._units += 1
            for gate, scores in zip(
                self._gates, zip(*self._unit, strict=True), strict=True
            ):
                known = [score for score, defined in scores if defined]
                gate.update(*known, undefined=len(scores) - len(known))
            self._unit.clear()
        if self.done and not before:
            for decision in self.decisions:
                logger.info("%s", decision)

    def _score(self, row: SampleResult, place: int) -> tuple[Score, bool]:
        """A row's score for a gate, None where it failed.

        And False where it is undefined.
        """
        name, at_least = self._asked[place]
        own, defined = _score_of(row.results.get(name))
        if at_least is not None:
            self._scored[place] += own is not None
            return own, defined
        before = self._partners.get(row.index) or SampleResult(
            index=row.index, sample=None
        )
        self._pairs.append((before, row))
        earlier, was_defined = _score_of(before.results.get(name))
        self._scored[place] += None not in (own, earlier)
        return difference(own, earlier), defined and was_defined

    @property
    def decisions(self) -> tuple[SequentialDecision, ...]:
        """What is decided so far, gate by gate."""
        if self._found[0] != self._judged or self._cut:
            self._found = (
                self._judged,
                tuple(self._decision(place) for place in range(len(self._asked))),
            )
        return self._found[1]

    def _decision(self, place: int) -> SequentialDecision:
        (metric, at_least), gate, outcome = (
            self._asked[place],
            self._gates[place],
            self._outcome(place),
        )
        interval, paired, units = gate.interval, at_least is None, gate.decided_at or 0
        # what is asked twice is called for once
        left = len(set(self._texts) - self._read)
        found = SequentialDecision(
            metric=metric,
            outcome=outcome,
            sentence="",
            at_least=at_least,
            on=self.until.on,
            alpha=self.until.alpha,
            e_value=gate.e_value if isfinite(gate.e_value) else None,
            decided_at=(
                None if outcome == "undecided" else sum(self._sizes[:units]) or units
            ),
            bounds=(
                (1 + paired) * interval.low - paired,
                (1 + paired) * interval.high - paired,
            ),
            saved=(
                None
                if self.samples is None
                else round(left * self._calls / max(1, len(self._read)))
            ),
        )
        if paired and (differing := differences(self._pairs, metric)):
            told = f"{metric}: the runs are not comparable: {'; '.join(differing)}."
            return found.model_copy(update={"outcome": "undecided", "sentence": told})
        return found.model_copy(
            update={
                "sentence": (
                    f"{metric} {self._claim(found)}; {self._numbers(found, place)}"
                )
            }
        )

    def _claim(self, found: SequentialDecision) -> str:
        margin = self.until.margin
        if found.at_least is None:
            verb = {
                "passed": "loses no",
                "failed": "loses",
                "undecided": "may or may not lose",
            }[found.outcome]
            return f"{verb} more than {margin:g} against the earlier run"
        less = f" less the margin of {margin:g}" * bool(
            margin and found.outcome == "passed" and not self._before
        )
        return f"{VERBS[found.outcome]} {found.at_least:g}{less}"

    def _numbers(self, found: SequentialDecision, place: int) -> str:
        """When it was decided, or why it was not, and the evidence."""
        rows, scored = (
            self._judged if self.samples is None else len(self.samples),
            self._scored[place],
        )
        of, left = f" of {rows:,}" * (self.samples is not None), rows - self._judged
        about = "about " * bool(self._calls % max(1, len(self._read)))
        saved = (
            f", {about}{found.saved:,} calls saved"
            if found.saved
            else f", {left:,} not judged"
            if left
            else ""
        )
        if found.at_least is None and self._alone:
            saved += f", {self._alone:,} rows of the earlier run have no partner"
        level = (
            f"≥ {len(self._asked) ** (found.outcome == 'failed') / self.until.alpha:g}"
        )
        after, flight, why = (
            f"decided after {found.decided_at or 0:,}",
            " with those in flight",
            "",
        )
        if found.decided_at is None:
            least = f"{100 * self.until.min_scored:g} %"
            why = (
                f"fewer than {least} of those looked at were scored"
                if self._few(place)
                else self._cut
            )
            why = (
                f"so many have no score that {least} of all rows cannot be scored"
                if self._lost(place)
                else why
            )
            after, flight, level = (
                f"undecided after {self._judged:,}",
                "",
                f"{level} needed",
            )
        e_value = (
            "over 1,000"
            if found.e_value is None or found.e_value > 1_000
            else f"{found.e_value:.3g}"
        )
        low, high = (
            f"{bound:{'+' * (found.at_least is None)}.3f}" for bound in found.bounds
        )
        return (
            f"{after}{of} samples ({scored:,}"
            f" scored{flight}{saved}){why and f', because {why}'}, e-value {e_value}"
            f" ({level}), bounds"
            f" {low}{' to ' if found.at_least is None else '–'}{high}, each valid with"
            f" {100 * (1 - found.alpha):g} % whenever one stops."
        )


def _score_of(result: MetricResult | None) -> tuple[float | None, bool]:
    """The score, None if it is not known; and False if it is undefined."""
    return (
        (None, True) if result is None else (result.value, result.status != "undefined")
    )


def _finished(
    against: Report | Path | str | None,
    metrics: Sequence[Metric],
    judges: Mapping[str, Sequence[str]],
) -> Report | None:
    """Return the earlier run; None if there is none.

    ``InputError`` unless it was judged to its end, by the same judges, with the same
    settings.
    """
    before = Report.from_jsonl(against) if isinstance(against, (str, Path)) else against
    if before is None:
        return None
    if why := before.run.ended_early or (
        "its gates were decided" if before.decisions else ""
    ):
        raise InputError(
            f"the earlier run was not judged to its end: {why}; judge all of its rows"
        )
    now = {metric.name: metric.signature for metric in metrics}
    wrong = [
        f"{own} against {it}"
        for name, it in before.run.metrics.items()
        if (own := now.get(name, it)) != it
    ]
    if not set(judges) <= set(before.run.judges):
        wrong.append(
            f"judge {', '.join(judges)} against {', '.join(before.run.judges)}"
        )
    wrong += judges_elsewhere(judges, before.run.addresses).values()
    if wrong:
        raise InputError(
            f"the runs are not comparable: {'; '.join(wrong)}; measure both in the"
            " same way"
        )
    return before
