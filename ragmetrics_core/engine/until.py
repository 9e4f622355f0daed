"""Runs until decided: rows in a drawn order, gates that take their scores, and the end as soon as nothing is open."""

import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Literal

from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.results import MetricResult, SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.gates import VERBS, Gate, parse_gate
from ragmetrics_core.reporting.grouping import group_of
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.matching import Pair, differences, match
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import SequentialDecision
from ragmetrics_core.statistics.drawing import drawn_order
from ragmetrics_core.statistics.sequential import Score, SequentialGate, UntilDecided, difference, together

Until = UntilDecided | Literal["decided"] | None
Item = Sample | RowError

logger = logging.getLogger("ragmetrics_core")

_NONE = SampleResult(index=0, sample=None)


class Decider:
    """The gates of one run: draws the order of its rows, takes their results in it, and says when all is decided.

    Gates are means to reach, and with ``against`` every metric that the earlier run has; judges are names.
    ``samples`` are those of all rows, None for a row that is none; None for rows that come from an iterator.

    Raises:
        SettingError: If there is no gate, or one on a metric that the run does not have.
        InputError: If the earlier run cannot be read, ended early, or was measured in another way.
    """

    def __init__(
        self, until: UntilDecided | Literal["decided"], gates: Sequence[Gate | str], metrics: Sequence[Metric],
        judges: Sequence[str],
    ) -> None:  # fmt: skip
        self.until = UntilDecided() if until == "decided" else until
        asked = [parse_gate(str(gate), [metric.name for metric in metrics]) for gate in gates]
        self._before = _finished(self.until.against, metrics, judges)
        both = [] if self._before is None else [it.name for it in metrics if it.name in self._before.run.metrics]
        self._asked = [*((gate.metric, gate.at_least) for gate in asked), *((name, None) for name in both)]
        if not self._asked:
            told = 'gates=["adherence=0.8"] (--fail-under) or against= (--against) a run with one of its metrics'
            raise SettingError(f"a run until decided needs something to decide: {told}")
        self.samples: list[Sample | None] | None = None
        self._partners: dict[int, SampleResult] = {}  # rows of the earlier run, by place in this one
        self._pairs: list[Pair] = []
        self._unit: list[SampleResult] = []  # rows of the next unit that are judged
        self._sizes: list[int] = []  # of units, in order
        self._seen: set[Hashable] = set()  # clusters of an iterator
        self._units = self._judged = self._calls = 0
        self._arriving = False  # rows of an iterator
        self._cut = ""  # why no more rows count
        self._gates = self._made(1, 1)
        self._found: tuple[int, tuple[SequentialDecision, ...]] = (-1, ())

    def _made(self, rows: int, largest: int) -> list[SequentialGate]:
        how = {"rows": rows, "gates": len(self._asked), "largest_cluster": largest}
        return [self.until.gate(at_least, **how) for _, at_least in self._asked]

    @property
    def done(self) -> bool:
        """True if no further row needs to start: what the gates decide together is settled, or never will be."""
        return bool(self._cut) or together(gate.decision for gate in self._gates) != "undecided"

    @property
    def note(self) -> str:
        """In which order rows were taken."""
        if self._arriving:
            return "Rows were taken in order of arrival: what was decided holds only if that is random."
        return f"Rows were taken in an order drawn with seed {self.until.seed}; another seed is another look."

    def drawn(self, items: Iterable[Item], *, listed: bool) -> Iterator[tuple[int, Item]]:
        """Rows with their places in the order in which they are to start: drawn, or of arrival if not ``listed``.

        Raises:
            SettingError: If ``on="point"`` or ``against`` is asked of rows whose number is not known.
            InputError: If the rows are not those of the earlier run.
        """
        if not listed:
            if self.until.on == "point" or self._before is not None:
                raise SettingError('on="point" and against= need a list of rows, not an iterator')
            self._arriving = True
            yield from islice(enumerate(items), self.until.max_samples)
            return
        rows = list(items)
        self.samples = [None if isinstance(item, RowError) else item for item in rows]
        self._match(self.samples)
        contents = ["" if sample is None else json_line(sample) for sample in self.samples]
        keys = [None if (key := self._key(sample)) is None else str(key) for sample in self.samples]
        units = drawn_order(contents, seed=self.until.seed, clusters=keys)
        self._sizes = [len(unit) for unit in units]
        self._gates = self._made(max(1, len(rows)), max(self._sizes, default=1))
        left = self.until.max_samples or len(rows)
        for unit in units:
            if (left := left - len(unit)) < 0:
                return
            yield from ((place, rows[place]) for place in unit)

    def _key(self, sample: Sample | None) -> Hashable | None:
        return group_of(sample, self.until.cluster) if self.until.on == "interval" else None

    def _match(self, samples: Sequence[Sample | None]) -> None:
        if self._before is None:
            return
        found = match(self._before.results, [SampleResult(index=n, sample=it) for n, it in enumerate(samples)])
        self._partners = {row.index: before for before, row in found.pairs}
        alone = any(row.sample is not None for row in (*found.first_only, *found.second_only))
        questions = {row.sample.question for _, row in found.pairs if row.sample}
        if found.by == "question" and (alone or len(questions) < len(found.pairs)):
            told = "both runs must hold the same questions, none of them twice, or each sample an id of its own"
            raise InputError(f"rows cannot be told apart: {told}")

    def take(self, row: SampleResult) -> None:
        """Count a result, in the order in which rows were started; a limit that cut one ends what counts."""
        self._judged, self._calls = self._judged + 1, self._calls + row.usage.calls + row.usage.stored
        if row.sample is not None and any(name not in row.results for name, _ in self._asked):
            self._cut = self._cut or "a limit was reached"
        if self.samples is None and (key := self._key(row.sample)) is not None:
            if key in self._seen:
                told = f"row {row.index + 1} shares its cluster with an earlier one; give a list, not an iterator"
                self._cut = self._cut or told
            self._seen.add(key)
        self._unit.append(row)
        if self._cut or (self._sizes and len(self._unit) < self._sizes[self._units]):
            return
        self._units += 1
        before = self.done
        for (name, at_least), gate in zip(self._asked, self._gates, strict=True):
            scores = [self._score(own, name, paired=at_least is None) for own in self._unit]
            known = [score for score, defined in scores if defined]
            gate.update(*known, undefined=len(scores) - len(known))
        self._unit.clear()
        if self.done and not before:
            for decision in self.decisions:
                logger.info("%s: %s", decision.outcome, decision.sentence)

    def _score(self, row: SampleResult, name: str, *, paired: bool) -> tuple[Score, bool]:
        """A row's score, None where it failed; and False where it is undefined."""
        own, defined = _score_of(row.results.get(name))
        if not paired:
            return own, defined
        before = self._partners.get(row.index, _NONE)
        self._pairs.append((before, row))
        earlier, was_defined = _score_of(before.results.get(name))
        return difference(own, earlier), defined and was_defined

    @property
    def decisions(self) -> tuple[SequentialDecision, ...]:
        """What is decided so far, gate by gate."""
        if self._found[0] != self._judged:
            gates = zip(self._asked, self._gates, strict=True)
            self._found = self._judged, tuple(self._decision(*asked, gate) for asked, gate in gates)
        return self._found[1]

    def _decision(self, metric: str, at_least: float | None, gate: SequentialGate) -> SequentialDecision:
        interval, paired = gate.interval, at_least is None
        left = None if self.samples is None else len(self.samples) - self._judged
        found = SequentialDecision(
            metric=metric, outcome=gate.decision, sentence="", at_least=at_least, on=self.until.on,
            alpha=self.until.alpha, e_value=gate.e_value if isfinite(gate.e_value) else None,
            decided_at=gate.decided_at and (sum(self._sizes[: gate.decided_at]) or gate.decided_at),
            bounds=((1 + paired) * interval.low - paired, (1 + paired) * interval.high - paired),
            saved=None if left is None else round(left * self._calls / max(1, self._judged)),
        )  # fmt: skip
        if paired and (differing := differences(self._pairs, metric)):
            told = f"{metric}: the runs are not comparable: {'; '.join(differing)}."
            return found.model_copy(update={"outcome": "undecided", "sentence": told})
        return found.model_copy(update={"sentence": f"{metric} {self._claim(found)}; {self._numbers(found, gate)}"})

    def _claim(self, found: SequentialDecision) -> str:
        margin = self.until.margin
        if found.at_least is None:
            verb = {"passed": "loses no", "failed": "loses", "undecided": "may or may not lose"}[found.outcome]
            return f"{verb} more than {margin:g} against the earlier run"
        less = f" less the margin of {margin:g}" if margin and found.outcome == "passed" else ""
        return f"{VERBS[found.outcome]} {found.at_least:g}{less}"

    def _numbers(self, found: SequentialDecision, gate: SequentialGate) -> str:
        """When it was decided, or why it was not, and the evidence."""
        rows = self._judged if self.samples is None else len(self.samples)
        of, left = "" if self.samples is None else f" of {rows:,}", rows - self._judged
        about = "about " * bool(self._calls % max(1, self._judged))
        saved = f", {about}{found.saved:,} calls saved" if found.saved else f", {left:,} not judged" if left else ""
        level = f"≥ {len(self._asked) ** (found.outcome == 'failed') / self.until.alpha:g}"
        after, flight, why = f"decided after {found.decided_at or 0:,}", " with those in flight", ""
        if found.decided_at is None:
            few = f"fewer than {100 * self.until.min_scored:g} % of those looked at were scored"
            why = few if gate.scored < self.until.min_scored * gate.rows else self._cut
            after, flight, level = f"undecided after {gate.rows:,}", "", f"{level} needed"
        e_value = "over 1,000" if found.e_value is None or found.e_value > 1_000 else f"{found.e_value:.3g}"
        low, high = (f"{bound:{'+' * (found.at_least is None)}.3f}" for bound in found.bounds)
        return (
            f"{after}{of} samples ({gate.scored:,} scored{flight}{saved}){why and f', because {why}'}, "
            f"e-value {e_value} ({level}), bounds {low}{' to ' if found.at_least is None else '–'}{high}, "
            f"each valid with {100 * (1 - found.alpha):g} % whenever one stops."
        )


def _score_of(result: MetricResult | None) -> tuple[float | None, bool]:
    """The score, None if it is not known; and False if it is undefined."""
    return (None, True) if result is None else (result.value, result.status != "undefined")


def _finished(
    against: Report | Path | str | None, metrics: Sequence[Metric], judges: Sequence[str]
) -> Report | None:  # fmt: skip
    """The earlier run; ``InputError`` unless it was judged to its end, by the same judges, with the same settings."""
    before = Report.from_jsonl(against) if isinstance(against, (str, Path)) else against
    if before is None:
        return None
    if why := before.run.ended_early or ("its gates were decided" if before.decisions else ""):
        raise InputError(f"the earlier run was not judged to its end: {why}; judge all of its rows")
    now = {metric.name: metric.signature for metric in metrics}
    wrong = [f"{own} against {it}" for name, it in before.run.metrics.items() if (own := now.get(name, it)) != it]
    if not set(judges) <= set(before.run.judges):
        wrong.append(f"judge {', '.join(judges)} against {', '.join(before.run.judges)}")
    if wrong:
        raise InputError(f"the runs are not comparable: {'; '.join(wrong)}; measure both in the same way")
    return before
