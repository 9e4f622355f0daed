"""What people look for first in a report, in one order on the page and the terminal.

That is which run it is, the verdict, the largest loss and how sure it is, the stage to
mend first with examples, and in which group each row stands.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from ragmetrics_core.data import (
    EMBEDDED,
    Sample,
    SampleResult,
    Scored,
    clean,
    judges_in_words,
)
from ragmetrics_core.page.diagnosis import RULES
from ragmetrics_core.page.row_groups import LOSSES, TITLES, group_of_row
from ragmetrics_core.reporting.pairing import GroupBy, numbering
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import Summary, counted
from ragmetrics_core.statistics.means import Interval, mean_interval

_N_EXAMPLES = 3
_LONGEST_QUESTION = 160
_MOST_FILES = 3
_CODES = tuple(TITLES)
_MEASURED = {*LOSSES, "no_loss"}  # groups of samples of which something is known
_JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True, order=True, slots=True)
class Example:
    """A row to look at, with its lowest score."""

    score: float
    index: int
    metric: str
    question: str

    @property
    def row(self) -> int:
        """The number of the row as people count, from 1."""
        return self.index + 1


@dataclass(frozen=True, slots=True)
class Group:
    """One of the groups, with how many rows stand in it and its worst rows."""

    code: str
    title: str
    count: int
    examples: tuple[Example, ...]

    @property
    def remedy(self) -> str:
        """What to try; "" where no rule speaks of the group."""
        rule = next((rule for code, rule in RULES.items() if code == self.code), None)
        return "" if rule is None else rule.remedy

    @property
    def stage(self) -> str:
        """The stage of the pipeline to mend; "" where no rule speaks of the group."""
        rule = next((rule for code, rule in RULES.items() if code == self.code), None)
        return "" if rule is None else rule.stage


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen in words; see the module."""

    title: str
    origin: str  # judge and date
    verdicts: tuple[str, ...]
    outcome: str  # of all gates together; "" without gates
    loss: str
    how_sure: str
    failures: tuple[str, ...]
    mend_first: Group | None
    groups: tuple[Group, ...]
    rows: int  # of the whole run; the groups may be those of rows drawn of it
    worst: tuple[Example, ...]

    @property
    def groups_in_words(self) -> str:
        """How many rows stand in each group; the counts add up to all rows."""
        total = sum(group.count for group in self.groups)
        parts = [f"{group.count:,} {group.title}" for group in self.groups]
        rows = counted(total, "row")
        if total < self.rows:
            rows += f" drawn at random of {self.rows:,}"
        return f"{rows}: {', '.join(parts) or 'none'}."


class ScreenTally:
    """The first screen of rows that come one by one; keeps 9 bytes per row.

    ``cluster`` says which samples belong together, as in ``Report.summary``: the
    interval of a share counts them as such.
    """

    def __init__(self, cluster: GroupBy = "auto") -> None:
        self._number_of = numbering(cluster)
        self._groups = bytearray()  # of each row, by its place in _CODES
        self._clusters = array("q")
        self._examples: dict[str, list[Example]] = {code: [] for code in _CODES}

    def add(self, row: SampleResult) -> str:
        """Count one row; returns its group."""
        code = group_of_row(row)
        self._groups.append(_CODES.index(code))
        self._clusters.append(self._number_of(row.sample))
        example = _example_of(row)
        if example is not None:
            examples = [*self._examples[code], example]
            self._examples[code] = nsmallest(_N_EXAMPLES, examples)
        return code

    def screen(
        self, summary: Summary, run: RunFacts, decisions: Sequence[Decision] = ()
    ) -> FirstScreen:
        """Everything counted so far, with the verdict of the gates.

        Args:
            summary: The numbers of the same rows.
            run: The facts of the run.
            decisions: What was decided of each gate.
        """
        groups = self._all_groups()
        losses = [group for group in groups if group.code in LOSSES]
        # of equal counts the earlier stage: later ones inherit what it lost
        by_size = sorted(losses, key=lambda group: -group.count)
        diagnosed = [group for group in by_size if group.stage]
        examples = [example for own in self._examples.values() for example in own]
        return FirstScreen(
            title=title_of(run),
            origin=_origin(run),
            verdicts=_verdicts(decisions),
            outcome=_outcome(decisions),
            loss=self._loss(by_size, summary),
            how_sure=self._how_sure(by_size, summary, run),
            failures=tuple(_failures(summary)),
            mend_first=diagnosed[0] if diagnosed else None,
            groups=tuple(groups),
            rows=summary.rows,
            worst=tuple(nsmallest(_N_EXAMPLES, examples)),
        )

    def _all_groups(self) -> list[Group]:
        """The groups in which rows stand, in the order in which they are tried."""
        return [
            Group(code, title, count, tuple(self._examples[code]))
            for place, (code, title) in enumerate(TITLES.items())
            if (count := self._groups.count(place))
        ]

    def _loss(self, losses: Sequence[Group], summary: Summary) -> str:
        """The largest loss, and how often it occurs."""
        if not any(numbers.count for numbers in summary.metrics):
            return "Nothing was scored."
        n_measured = sum(self._count_of(code) for code in _MEASURED)
        samples = counted(n_measured, "measured sample")
        if self._is_part(summary):
            samples += " drawn at random"
        if n_failed := self._count_of(_JUDGE_FAILED):
            samples += f"; the judge failed on {n_failed:,} more"
        if not losses:
            n_without = self._count_of("no_loss")
            return f"No loss found in {n_without:,} of {samples}."
        count = losses[0].count
        equal = [group.title for group in losses if group.count == count]
        each = ", each" if len(equal) > 1 else ","
        return f"Largest loss: {' and '.join(equal)}{each} in {count:,} of {samples}."

    def _how_sure(
        self, losses: Sequence[Group], summary: Summary, run: RunFacts
    ) -> str:
        """How far the share of the largest loss may lie from that of samples like these.

        "" where nothing was scored. Rows that were chosen by their scores, as by a run
        until decided, have no interval. Samples on which the judge failed may have the
        loss or not: the interval holds for both.
        """
        if not any(numbers.count for numbers in summary.metrics):
            return ""
        words = "How sure: "
        code = losses[0].code if losses else ""
        at_best, at_worst = self._share_of(code, 0.0), self._share_of(code, 1.0)
        if at_best is not None and at_worst is not None and not run.decisions:
            low, high = round(100 * at_best.low), round(100 * at_worst.high)
            words += f"{low} to {high} % of samples like these, with 95 % confidence"
            words += "" if losses else ", have a loss"
            words += ". "
        if any(judge in EMBEDDED for judge in run.judges):
            words += "The judge compares words: it sees gross failures only. "
        return f"{words}A bias of the judge is not covered."

    def _is_part(self, summary: Summary) -> bool:
        """Whether these rows are drawn of many, as a page shows a large table."""
        return len(self._groups) < summary.rows

    def _count_of(self, code: str) -> int:
        """How many rows stand in a group."""
        return self._groups.count(_CODES.index(code))

    def _share_of(self, code: str, if_judge_failed: float) -> Interval | None:
        """The interval of a group's share of the measured samples; "" is no group.

        A sample on which the judge failed counts as it is given: 1 is in the group.
        """
        shares, clusters = array("d"), array("q")
        for place, cluster in zip(self._groups, self._clusters, strict=True):
            group = _CODES[place]
            if group not in _MEASURED and group != _JUDGE_FAILED:
                continue
            is_in = float(group == code)
            shares.append(if_judge_failed if group == _JUDGE_FAILED else is_in)
            clusters.append(cluster)
        return mean_interval(shares, clusters)


def screen_of(
    rows: Iterable[SampleResult],
    summary: Summary,
    run: RunFacts,
    decisions: Sequence[Decision] = (),
    cluster: GroupBy = "auto",
) -> FirstScreen:
    """The first screen of these rows; see ``ScreenTally``."""
    tally = ScreenTally(cluster)
    for row in rows:
        tally.add(row)
    return tally.screen(summary, run, decisions)


def title_of(run: RunFacts) -> str:
    """Which run it is: the name that it was given, else the files that it read."""
    names = [own.name for own in run.inputs if own.name]
    shown = ", ".join(names[:_MOST_FILES])
    if len(names) > _MOST_FILES:
        shown += f" and {len(names) - _MOST_FILES} more"
    if run.name:
        return f"{run.name} ({shown})" if shown else run.name
    return shown or "Samples of a program"


def date_of(run: RunFacts) -> str:
    """When the run began, to the minute; "" if that is not known."""
    day, _, time = run.started.partition("T")
    return f"{day} {time[:5]} UTC" if time else day


def _origin(run: RunFacts) -> str:
    """Who judged, and when, as far as it is known."""
    judges = judges_in_words(run.judges, run.addresses)
    parts = [f"judged by {judges}" if judges else "judge not recorded", date_of(run)]
    return ", ".join(part for part in parts if part)


def _example_of(row: SampleResult) -> Example | None:
    """The row by its lowest score; None where nothing was scored."""
    scores = [
        (result.value, name)
        for name, result in row.results.items()
        if isinstance(result, Scored)
    ]
    if not scores or row.sample is None:
        return None
    score, metric = min(scores)
    return Example(score, row.index, metric, short_question(row.sample))


def short_question(sample: Sample) -> str:
    """The question on one line, cut if it is long; else the answer, or ""."""
    question = str(clean(sample.question or sample.answer or ""))
    words = " ".join(question[: 10 * _LONGEST_QUESTION].split())
    if len(words) > _LONGEST_QUESTION:
        words = words[:_LONGEST_QUESTION] + "…"
    return words


def _outcome(decisions: Sequence[Decision]) -> str:
    """What all gates decide together: the worst of their outcomes."""
    outcomes = {decision.outcome for decision in decisions}
    worst_first = ("failed", "undecided", "passed")
    return next((outcome for outcome in worst_first if outcome in outcomes), "")


def _verdicts(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """What each gate decides, those that failed first; without gates, that none is set.

    A loss alone never makes a run good or bad: only a threshold of the user's does.
    """
    if not decisions:
        return ("No gate is set, so nothing says whether this is good enough.",)
    order = ["failed", "undecided", "passed"]
    ordered = sorted(decisions, key=lambda decision: order.index(decision.outcome))
    return tuple(map(str, ordered))


def _failures(summary: Summary) -> Iterable[str]:
    """Metrics that failed, with how often: no mean speaks for those rows."""
    for numbers in summary.metrics:
        n_failed = sum(numbers.failed.values())
        if n_failed:
            times = "once" if n_failed == 1 else f"{n_failed:,} times"
            yield f"{numbers.metric} failed {times}; its mean does not speak for that."
