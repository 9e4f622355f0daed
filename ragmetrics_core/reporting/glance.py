"""What people see first of a run: one set of data for terminal, page, notebook and comment.

It holds the verdict, the three stages with their faults, the metrics, and the worst rows.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pydantic import Field

from ragmetrics_core.data import (
    EMBEDDED,
    Frozen,
    Sample,
    SampleResult,
    Scored,
    SettingError,
    Usage,
    names_in_words,
)
from ragmetrics_core.data.display import (
    at_addresses,
    count_in_words,
    first_in_words,
    one_line,
    way_to_a_judge,
)
from ragmetrics_core.data.replies import SAID_TWICE
from ragmetrics_core.reporting.diagnosis import (
    NO_ANSWER,
    STAGES,
    Diagnosis,
    Kind,
    Stage,
    diagnose,
    is_foreign,
)
from ragmetrics_core.reporting.groups import Clusters, GroupBy
from ragmetrics_core.reporting.run_facts import (
    Decision,
    GateOutcome,
    RunFacts,
    question_of,
)
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.reporting.use_in_words import UseTally
from ragmetrics_core.statistics.means import mean_interval

FEW_ROWS = 30
"""Fewer rows than this show faults, and decide little."""

_WORST_PER_FAULT = 10
_FEW_FAULTS = 0.1  # the share of rows up to which faults are called few
_FEW_TO_READ = 5  # fewer faults than this say little of what to mend
_SIGN_TEST = 3.84  # the 95 % point of chi-squared with one degree of freedom
_LONGEST_TEXT = 300
_MOST_COLUMNS = 12
_LONGEST_TITLE = 60
_MOST_FILES = 3
_FIELDS_OF_TABLES = ("question", "contexts", "reference", "retrieved", "facts")
_OF_ANSWERS = ("made up", "partial", "not as expected", "off the question", "unsure")
_WHAT_IS_UNSUPPORTED = {"unsupported", "sentences", "claims"}
_WORST_FIRST: tuple[GateOutcome, ...] = ("failed", "undecided", "passed")

_STAGE_BY_METRIC: dict[str, Stage] = {
    "retrieval_accuracy": "search",
    "context_utilization": "search",
    "retrieval_ranking": "search",
    "context_sufficiency": "prompt",
    "context_adherence": "answer",
    "context_recall": "answer",
    "answer_relevance": "answer",
    "citation_quality": "answer",
}
_WEAKEST: dict[Stage, tuple[str, str]] = {
    "search": ("The search", "the right text was not found"),
    "prompt": ("The prompt", "the right text was found, and not shown"),
    "answer": (
        "The generator",
        "the answer {is_wrong} although the right text was there",
    ),
}
"""What is weak, and what its rows show."""


class MetricGlance(Frozen):
    """A metric as it is seen first.

    Attributes:
        numbers: Its numbers.
        stage: The stage that it measures; None for others.
        asks: Its question, in a few words.
    """

    numbers: MetricSummary
    stage: Stage | None = None
    asks: str = ""


class RowGlance(Frozen):
    """A row to look at, with what is wrong in it.

    Attributes:
        row: Its number as people count, from 1.
        label: What to call it, e.g. "row 1 (q-17)".
        name: What became of it, e.g. "made up".
        stage: Where; None: unknown.
        kind: Whether something is wrong, or nobody can say.
        question: Its question.
        answer: What the judge found wrong in its answer, else how that begins.
        quote: Which of the two shows the fault.
        expected: The expected answer, where that matters.
        reason: Why its lowest score is so low.
    """

    row: int
    label: str
    name: str
    stage: Stage | None = None
    kind: Kind = "fault"
    question: str = Field(default="", repr=False)
    answer: str = Field(default="", repr=False)
    quote: str = Field(default="", repr=False)
    expected: str = Field(default="", repr=False)
    reason: str = Field(default="", repr=False)


class StageGlance(Frozen):
    """A stage with its faults.

    Attributes:
        faults: Rows by the name of the fault.
    """

    stage: Stage
    faults: dict[str, int] = Field(default={})

    @property
    def n_faults(self) -> int:
        """Rows that went wrong at this stage."""
        return sum(self.faults.values())


class Glance(Frozen):
    """The first screen as data.

    Attributes:
        title: Which run it is.
        judges: Who judged, with the addresses that were asked.
        by_words: Whether only a judge of words judged.
        rows: Rows of the input.
        seconds: How long it took.
        usage: What it cost.
        decisions: Of the gates, the worst first.
        headline: What to mend first, in a sentence.
        advice: What to do first.
        stages: Search, prompt, answer.
        groups: Rows by what became of them, the most frequent first.
        metrics: In order.
        ranked_low: Rows whose useful texts stand below useless ones.
        way: How to name a judge that reads, where only words judged.
        answered: Answers that do not decline.
        answers: All answers; None where nobody asked if they decline.
        worst: Rows to look at, the worst first.
        n_faults: Rows with a fault.
        n_open: Rows of which nobody can say whether they have one.
        failures: How many results failed, and why the first did.
        notes: What else makes the numbers speak for less.
        sure: How sure that is, and what the judge cannot see.
        use: What was measured of the passages.
    """

    title: str
    judges: tuple[str, ...] = ()
    by_words: bool = False
    rows: int = 0
    seconds: float = 0.0
    usage: Usage
    decisions: tuple[Decision, ...] = ()
    headline: str
    advice: str = ""
    stages: tuple[StageGlance, ...]
    groups: dict[str, int]
    metrics: tuple[MetricGlance, ...] = ()
    ranked_low: int = 0
    way: str = ""
    answered: int = 0
    answers: int | None = None
    worst: tuple[RowGlance, ...] = ()
    n_faults: int = 0
    n_open: int = 0
    failures: str = ""
    notes: tuple[str, ...] = ()
    sure: str = ""
    use: str = ""

    @property
    def weakest(self) -> StageGlance | None:
        """The stage with clearly the most faults, if any; its rows are looked at first.

        Words do not tell.
        """
        return None if self.by_words else _weakest(self.stages)

    def further(self, n_shown: int) -> str:
        """How many rows to look at follow those that are shown; "" for none."""
        n_further = self.n_faults + self.n_open - n_shown
        # rows of a gate need have no fault
        if n_further <= 0 or self.decisions:
            return ""
        return f"and {count_in_words(n_further, 'further row')}"

    @property
    def outcome(self) -> GateOutcome | None:
        """What all gates decide together: the worst of them; None without gates."""
        return self.decisions[0].outcome if self.decisions else None


@dataclass
class _Group:
    """The rows of one diagnosis.

    Attributes:
        diagnosis: What became of them.
        n_rows: How many they are.
        lowest: Those with the lowest scores, by which they are sorted. A number of its
            own stands before each row, which has no order.
    """

    diagnosis: Diagnosis
    n_rows: int = 0
    lowest: list[tuple[float, float, int, int, SampleResult]] = field(
        default_factory=list
    )


class GlanceTally:
    """Counts what became of rows that come one by one; keeps the worst of each fault.

    Args:
        cluster: Which samples belong together.
    """

    def __init__(self, cluster: GroupBy = "auto") -> None:
        self._clusters = Clusters(cluster)
        self._n_rows = 0
        self._groups: dict[tuple[str, Stage | None], _Group] = {}
        # the clusters of the rows with a fault, of those that may have one, of the others
        self._cluster_numbers: dict[Kind, array[int]] = {
            kind: array("q") for kind in ("fault", "unjudged", "fine")
        }
        self._has_references = False
        self._n_foreign = 0  # rows of a language in which the judge decides nothing
        self._n_odd = 0  # rows with a verdict that counts as it was said twice
        self._n_ranked_low = 0
        self._problem = ""  # why the first row that is none could not be read
        # The names of what rows of tables without an answer hold, as the keys.
        self._columns_without_answer: dict[str, None] = {}
        self._use = UseTally()
        # of each metric the rows with the lowest scores, for its gate
        self._lowest: dict[str, list[tuple[float, int, int, SampleResult]]] = {}

    def add(self, row: SampleResult) -> None:
        """Count one row."""
        diagnosis = diagnose(row)
        key = (diagnosis.name, diagnosis.stage)
        group = self._groups.setdefault(key, _Group(diagnosis))
        self._n_rows += 1
        group.n_rows += 1
        cluster_number = self._clusters.number(row.sample)
        self._cluster_numbers[diagnosis.kind].append(cluster_number)
        self._n_ranked_low += diagnosis.ranked_low
        self._problem = self._problem or row.problem
        if row.sample is None:
            return
        self._has_references |= not row.sample.missing("reference")
        self._use.add(row.sample)
        self._n_foreign += is_foreign(row)
        self._n_odd += any(
            SAID_TWICE in result.usage.fallbacks for result in row.results.values()
        )
        is_captured = row.sample.capture is not None and row.sample.capture.grade
        if diagnosis is NO_ANSWER and not is_captured:
            fields = [
                name for name in _FIELDS_OF_TABLES if not row.sample.missing(name)
            ]
            names = (*fields, *map(str, row.sample.metadata))
            self._columns_without_answer.update(dict.fromkeys(names))
        scores: list[float] = []
        for name, result in row.results.items():
            if isinstance(result, Scored):
                scores.append(result.value)
                of_metric = self._lowest.setdefault(name, [])
                _keep_lowest(of_metric, (result.value, row.index, self._n_rows, row))
        lowest = min(scores, default=0.0)
        mean = fmean(scores) if scores else 0.0
        _keep_lowest(group.lowest, (lowest, mean, row.index, self._n_rows, row))

    def glance(
        self,
        summary: Summary,
        run: RunFacts,
        decisions: Sequence[Decision] = (),
        notes: Sequence[str] = (),
    ) -> Glance:
        """Put together what people see first of the rows counted so far.

        Args:
            summary: The numbers of the same rows.
            run: The facts of the run.
            decisions: What each gate decided.
            notes: What else makes the numbers speak for less.
        """
        if not all(isinstance(decision, Decision) for decision in decisions):
            raise SettingError(
                "decisions= is a list of what decide() returned, e.g."
                ' [decide("adherence=0.8", report)]'
            )
        judges = run.judges or summary.judges
        by_words = set(judges) == {EMBEDDED}
        stages = tuple(self._stage(stage) for stage in STAGES)
        ordered = tuple(
            sorted(decisions, key=lambda one: _WORST_FIRST.index(one.outcome))
        )
        weakest = _weakest(stages)
        judges_and_addresses = [
            at_addresses(judge, run.addresses.get(judge, ())) for judge in judges
        ]
        if not judges and run.judge_chosen:  # by a run of metrics that need no judge
            judges_and_addresses = ["none was asked"]
        rows = count_in_words(self._n_rows, "row")
        told = " ".join(decision.sentence for decision in ordered)
        own_notes = [words for words in summary.left_out if words not in told]
        if summary.other_models:
            own_notes.append(summary.other_models)
        if self._n_odd:
            own_notes.append(
                f"In {self._n_odd:,} of {rows} a judge's verdict counts, said twice, that"
                " its own words do not fit: read its reasons."
            )
        if self._n_foreign:
            own_notes.append(
                f"{self._n_foreign:,} of {rows} are not in English: words cannot judge"
                " them."
            )
        failures = ""
        failed = [numbers for numbers in summary.metrics if numbers.failed]
        if failed:
            n_failed = sum(sum(numbers.failed.values()) for numbers in failed)
            why = one_line(failed[0].failure, _LONGEST_TEXT)
            failures = f"{count_in_words(n_failed, 'result')} failed: {why}"
        return Glance(
            title=_title_of(run),
            judges=tuple(judges_and_addresses),
            by_words=by_words,
            rows=summary.rows,
            seconds=run.seconds,
            usage=summary.usage,
            decisions=ordered,
            headline=self._headline(weakest, summary, by_words=by_words),
            advice=self._advice(weakest, summary, by_words=by_words),
            way=way_to_a_judge() if by_words else "",
            ranked_low=self._n_ranked_low,
            stages=stages,
            groups=dict(_names(self._groups.values()).most_common()),
            metrics=tuple(
                MetricGlance(
                    numbers=numbers,
                    stage=_STAGE_BY_METRIC.get(numbers.metric),
                    asks=question_of(numbers.metric, run.questions, by_words=by_words),
                )
                for numbers in summary.shown
            ),
            answered=summary.answered,
            answers=summary.asked or None,
            worst=tuple(self._rows_to_show(weakest, ordered)),
            n_faults=self._count("fault"),
            n_open=self._count("unjudged"),
            failures=failures,
            notes=(*own_notes, *notes, *run.notes),
            sure=self._how_sure(summary, by_words=by_words),
            use=self._use.sentence,
        )

    def _of_kind(self, kind: Kind) -> list[_Group]:
        """The groups of this kind, in the order in which they were met."""
        groups = self._groups.values()
        return [group for group in groups if group.diagnosis.kind == kind]

    def _count(self, kind: Kind) -> int:
        """Rows of this kind, of a known stage or not."""
        return sum(group.n_rows for group in self._of_kind(kind))

    @property
    def _is_mostly_open(self) -> bool:
        """Whether of most rows nobody can say whether they have a fault."""
        return self._count("unjudged") > max(self._count("fault"), self._n_rows // 2)

    def _stage(self, stage: Stage) -> StageGlance:
        """A stage with its faults, the most frequent first."""
        groups = self._groups.values()
        faults = _names(group for group in groups if group.diagnosis.stage == stage)
        return StageGlance(stage=stage, faults=dict(faults.most_common()))

    def _advice(
        self, weakest: StageGlance | None, summary: Summary, *, by_words: bool
    ) -> str:
        """How to mend the largest kind of fault; with few, that they are to be read first.

        Without a fault, and where most rows are open, what to do about the open ones. It
        is told how many rows the advice covers, if it does not cover all.
        """
        columns = self._columns_without_answer
        if columns and self._groups.keys() == {(NO_ANSWER.name, NO_ANSWER.stage)}:
            return (
                "Name the column of the answers by --answer-column (in Python"
                " answer_column=): no row has one. The rows have"
                f" {names_in_words(columns, most=_MOST_COLUMNS)}."
            )
        if by_words:  # they are no ground to change anything
            return ""
        has_faults = bool(self._of_kind("fault"))
        kind: Kind = "fault" if has_faults and not self._is_mostly_open else "unjudged"
        n_rows = self._count(kind)
        are_few = summary.rows < FEW_ROWS or n_rows < _FEW_TO_READ
        if kind == "fault" and are_few:
            rows = count_in_words(n_rows, "row")
            return f"Read the {rows} with a fault before you change anything."
        # of the weakest stage; of no known stage, where these rows are more
        groups = self._of_kind(kind)
        if weakest is not None:
            unknown = [group for group in groups if group.diagnosis.stage is None]
            n_unknown = sum(group.n_rows for group in unknown)
            stage = None if n_unknown > weakest.n_faults else weakest.stage
            groups = [group for group in groups if group.diagnosis.stage == stage]
        largest = max(groups, key=lambda group: group.n_rows, default=None)
        if largest is None or not largest.diagnosis.advice:
            return ""
        diagnosis = largest.diagnosis
        if largest.n_rows == n_rows:
            return diagnosis.advice
        rows = count_in_words(n_rows, "fault" if kind == "fault" else "row")
        # behind other words the sentence begins with a small letter
        advice = diagnosis.advice[:1].lower() + diagnosis.advice[1:]
        return f"For {largest.n_rows:,} of the {rows} ({diagnosis.name}), {advice}"

    def _how_sure(self, summary: Summary, *, by_words: bool) -> str:
        """What other rows would show; or what keeps these from saying it."""
        if summary.stopped and self._n_rows:
            return f"The results are incomplete: {one_line(summary.stopped)}."
        if summary.bad_rows:
            rows = count_in_words(summary.bad_rows, "row")
            return f"{rows} could not be read: {self._problem}."
        for numbers in summary.metrics:
            if numbers.mixed:
                return f"{numbers.metric}: {numbers.mixed}."
        n_rows = self._n_rows
        n_faults, n_open = self._count("fault"), self._count("unjudged")
        if by_words or n_open == n_rows:
            return ""
        # as if none of the open rows had a fault, and as if all had one
        clusters = [
            number for of_kind in self._cluster_numbers.values() for number in of_kind
        ]
        least, most = (
            mean_interval([1.0] * n + [0.0] * (n_rows - n), clusters)
            for n in (n_faults, n_faults + n_open)
        )
        low = least.low if least else 0.0
        high = most.high if most else 1.0
        counts = (
            f"{n_faults:,}" if not n_open else f"{n_faults:,} to {n_faults + n_open:,}"
        )
        verb = "is" if counts == "1" else "are"
        sentence = (
            f"{counts} of {count_in_words(n_rows, 'row')} {verb} faulty. Among new ones"
            f" expect {100 * low:.0f}–{100 * high:.0f} %"
        )
        if n_rows < FEW_ROWS:
            return f"{sentence}: too wide, use {FEW_ROWS} or more."
        return f"{sentence}, if the judge is right."

    def _headline(
        self, weakest: StageGlance | None, summary: Summary, *, by_words: bool
    ) -> str:
        """Say which stage is weakest, and how many rows show it.

        Words show rows to look at, and no more.
        """
        n_rows = self._n_rows
        n_faults, n_open = self._count("fault"), self._count("unjudged")
        if not n_rows:
            why = one_line(summary.stopped, _LONGEST_TEXT)
            return f"There is no row: {why}." if why else "There is no row."
        if by_words:
            return (
                "Only words were compared; this is no evaluation yet."
                f" {n_faults + n_open:,} of {count_in_words(n_rows, 'row')} to look at."
            )
        if self._is_mostly_open:
            name, count = _names(self._of_kind("unjudged")).most_common(1)[0]
            return f"{count:,} of {count_in_words(n_rows, 'row')}: {name}."
        if 2 * summary.declined > n_rows and n_faults < summary.declined:
            return f"{summary.declined:,} of {n_rows:,} answers decline."
        if not n_faults:
            rows = count_in_words(n_rows, "row")
            if n_open:
                return (
                    f"No fault was found in {n_rows - n_open:,} of {rows}; the rest:"
                    f" {self._open_in_words()}."
                )
            sentence = f"No fault was found in {rows}."
            if not self._has_references:
                sentence += (
                    " To see wrong answers, add a column with the expected answer."
                )
            return sentence
        sentence = self._faults_in_words(weakest)
        return f"{sentence} Unclear: {self._open_in_words()}." if n_open else sentence

    def _faults_in_words(self, weakest: StageGlance | None) -> str:
        """Say at which stage most rows went wrong, and how many."""
        n_rows = self._n_rows
        n_faults = self._count("fault")
        n_by_stage = Counter({stage: self._stage(stage).n_faults for stage in STAGES})
        n_unknown = n_faults - sum(n_by_stage.values())
        would_tell = "ContextSufficiency"
        if not self._has_references:
            would_tell = "an expected answer"
        if n_unknown > max(n_by_stage.values()):
            n_unclear = sum(
                group.n_rows
                for group in self._of_kind("fault")
                if group.diagnosis.rule == "unclear"
            )
            if 2 * n_unclear > n_unknown:
                rows = count_in_words(n_rows, "row")
                return f"{n_unclear:,} of {rows} score low, and nothing tells why."
            return (
                f"In {n_unknown:,} of {n_rows:,} rows the answer is wrong;"
                f" {would_tell} would tell whether the search or the generator."
            )
        few = "Few faults. " if n_faults <= _FEW_FAULTS * n_rows else ""
        if weakest is not None:
            is_wrong = "is wrong"
            if any(name.startswith("declined wrongly") for name in weakest.faults):
                is_wrong += ", or declines,"
            subject, what = _WEAKEST[weakest.stage]
            rows = f"{weakest.n_faults:,} of {n_rows:,} rows"
            return f"{few}{subject} is weakest: in {rows} {what.format(is_wrong=is_wrong)}."
        parts = [
            f"{count:,} in the {stage}"
            for stage, count in n_by_stage.most_common()
            if count
        ]
        if n_unknown:
            parts.append(f"{n_unknown:,} in search or answer; {would_tell} would tell")
        rows = f"{n_faults:,} of {count_in_words(n_rows, 'row')}"
        return f"{few}A fault shows in {rows}: {', '.join(parts)}."

    def _open_in_words(self) -> str:
        """What became of the rows of which nobody can say, as "37 unsure, 2 declined"."""
        names = _names(self._of_kind("unjudged")).most_common()
        return ", ".join(f"{count:,} {name}" for name, count in names)

    def _rows_to_show(
        self, weakest: StageGlance | None, decisions: Sequence[Decision]
    ) -> Iterable[RowGlance]:
        """The rows that failed the first gate; else those with faults.

        A gate that is undecided lacks scores: the rows that have one say nothing of it.

        Of each fault the worst row comes first, faults of the weakest stage before
        others and the most frequent first; then the next rows of each. Rows of which nobody can say come last.
        """
        if decisions and decisions[0].outcome == "failed":
            # of a gate on a share, as "share(m>0.5)", the rows up to 0.5 count against it
            gate = decisions[0].metric
            metric, _, above = gate.removeprefix("share(").partition(">")
            threshold = decisions[0].at_least
            below = []
            for score, *_, row in self._lowest.get(metric, []):
                counts_against = threshold is None or score < threshold
                if above:
                    counts_against = score <= float(above.removesuffix(")"))
                if counts_against:
                    below.append(row)
            for row in below:
                yield row_glance(row, diagnose(row), metric=metric)
            if below:
                return
        candidates = []
        for group in (*self._of_kind("fault"), *self._of_kind("unjudged")):
            is_open = group.diagnosis.kind == "unjudged"
            is_elsewhere = (
                weakest is not None and group.diagnosis.stage != weakest.stage
            )
            for place, row_with_scores in enumerate(group.lowest):
                order = (is_open, place, is_elsewhere, -group.n_rows)
                candidates.append((*order, *row_with_scores))
        candidates.sort()
        for candidate in candidates:
            yield row_glance(candidate[-1], diagnose(candidate[-1]))


def _names(groups: Iterable[_Group]) -> Counter[str]:
    """Rows by what became of them, whatever the stage."""
    counts = Counter[str]()
    for group in groups:
        counts[group.diagnosis.name] += group.n_rows
    return counts


def _keep_lowest(kept: list[Any], entry: Sequence[Any]) -> None:
    """Put an entry into its place in a sorted list of the lowest few."""
    insort(kept, entry)
    del kept[_WORST_PER_FAULT:]


def glance_of(
    rows: Iterable[SampleResult],
    summary: Summary,
    run: RunFacts,
    decisions: Sequence[Decision] = (),
    notes: Sequence[str] = (),
) -> Glance:
    """What people see first of these rows; see ``GlanceTally``."""
    tally = GlanceTally(summary.cluster)
    for row in rows:
        tally.add(row)
    return tally.glance(summary, run, decisions, notes)


def row_glance(
    row: SampleResult, diagnosis: Diagnosis, *, metric: str | None = None
) -> RowGlance:
    """A row with what is wrong in it, quoted from the judge's evidence.

    Args:
        row: The row.
        diagnosis: What became of it.
        metric: The metric whose gate it counts against; None without a gate.
    """
    scored = [
        result
        for name, result in row.results.items()
        if isinstance(result, Scored) and metric in (None, name)
    ]
    lowest = min(scored, key=lambda result: result.value, default=None)
    reason = ""
    if lowest is not None:
        reason = one_line(f"{lowest.metric} {lowest.value:.2f}: {lowest.reason}")
    sample = row.sample or Sample()
    question = one_line(sample.question or "", _LONGEST_TEXT)
    is_of_answer = diagnosis.rule in _OF_ANSWERS
    name = diagnosis.name
    if metric is not None and lowest is not None and diagnosis.kind != "fault":
        # it counts against a gate, whether or not a rule finds a fault in it
        name = f"scores {lowest.value:.2f}"
        is_of_answer = True
    words = is_of_answer and _quoted(row)
    answer = one_line(words or sample.answer or "", _LONGEST_TEXT)
    expected = ""
    if diagnosis.rule in ("partial", "not as expected") and sample.reference:
        expected = sample.reference[0]
    return RowGlance(
        row=row.number,
        label=row.label,
        name=name,
        stage=diagnosis.stage,
        kind=diagnosis.kind,
        question=question,
        answer=answer,
        quote=(answer or question) if is_of_answer else (question or answer),
        expected=one_line(expected, _LONGEST_TEXT),
        reason=reason,
    )


def _quoted(row: SampleResult) -> str:
    """What the judge called unsupported: a claim, else the worst sentence; "" for none."""
    for result in row.results.values():
        evidence = result.evidence
        if evidence is None or evidence.kind != "context_adherence":
            continue
        fields = evidence.model_dump(include=_WHAT_IS_UNSUPPORTED)
        unsupported = fields.get("unsupported") or ()
        if unsupported:
            return str(unsupported[0])
        parts = [
            *_with_support(fields.get("sentences"), "sentence", "coverage"),
            *_with_support(fields.get("claims"), "text", "probability"),
        ]
        if parts:
            _, text = min(parts)
            return text
    return ""


def _with_support(
    parts: Sequence[Mapping[str, Any]] | None, text: str, support: str
) -> Iterable[tuple[float, str]]:
    """Each part of an answer with how far it is supported, where that is known."""
    for part in parts or ():
        if part.get(support) is not None:
            yield float(part[support]), str(part[text])


def _weakest(stages: Iterable[StageGlance]) -> StageGlance | None:
    """The stage with the most faults; None where that may be chance.

    This is the sign test at about 5 %. Example: 9 against 2 faults are clearly more, 3
    against 1 are not.
    """
    *_, second, first = sorted(stages, key=lambda stage: stage.n_faults)
    lead, both = first.n_faults - second.n_faults, first.n_faults + second.n_faults
    return first if lead**2 > _SIGN_TEST * both else None


def _title_of(run: RunFacts) -> str:
    """Which run it is: the name that it was given, else the files that it read."""
    if run.name:
        return one_line(run.name, _LONGEST_TITLE)
    names = [file.name for file in run.inputs if file.name]
    title = first_in_words(names, _MOST_FILES)
    return one_line(title or "rows from Python", _LONGEST_TITLE)
