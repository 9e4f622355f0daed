"""What people look for first in a report, in one order on the page and the terminal.

That is which run it is, the verdict, the largest loss and how sure it is, the stage to
mend first with examples, and in which group each row stands.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import inf

from ragmetrics_core.data import (
    Sample,
    SampleResult,
    Scored,
    caution_about,
    clean,
    judges_in_words,
)
from ragmetrics_core.page.counts import Counted, sentence_of, verdict_on
from ragmetrics_core.page.row_groups import (
    JUDGE_FAILED,
    LOSSES,
    MENDINGS,
    NOT_JUDGED,
    NOT_SCORED,
    TITLES,
    Mending,
    group_of_row,
)
from ragmetrics_core.reporting.pairing import GroupBy, numbering
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import Summary, counted
from ragmetrics_core.statistics.means import Interval, mean_interval
from ragmetrics_core.statistics.repeats import n_repeats
from ragmetrics_core.statistics.stopping import Outcome

_N_EXAMPLES = 3
_LONGEST_QUESTION = 160
_LONGEST_REASON = 300
_MOST_FILES = 3
_CODES = tuple(TITLES)
_SCORED = {*LOSSES, "no_loss"}  # groups of rows of which losses are known
_WORST_FIRST: tuple[Outcome, ...] = ("failed", "undecided", "passed")
_SCORE_UNIT = 10_000  # the page holds scores with four decimals


@dataclass(frozen=True, slots=True)
class Example:
    """A row to look at, with its lowest score; None and "" where none is scored."""

    score: float | None
    index: int
    metric: str
    question: str
    rank: tuple[float, ...]  # the lowest first: as the page sorts its table

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
    def mending(self) -> Mending | None:
        """What to mend, and how; None where the group names nothing."""
        return MENDINGS.get(self.code)


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen in words; see the module."""

    title: str
    origin: str  # judge and date
    verdicts: tuple[str, ...]
    outcome: str  # of all gates together; "" without gates
    loss: str
    how_sure: str
    warnings: tuple[str, ...]  # what makes the numbers speak for less
    mend_first: Group | None
    groups: tuple[Group, ...]
    rows: int  # of the whole run; the groups may be those of rows drawn of it
    worst: tuple[Example, ...]
    sentences: Mapping[str, str]  # what each metric found
    why_first: str  # why the stage to mend is named

    @property
    def how_found(self) -> str:
        """How the stage to mend was found; "" where no rule guessed it."""
        if self.mend_first is None or self.mend_first.code not in LOSSES:
            return ""
        return " A rule guessed this from the scores."

    @property
    def groups_in_words(self) -> str:
        """How many rows stand in each group; the counts add up to all rows."""
        total = sum(group.count for group in self.groups)
        parts = [f"{group.count:,} {group.title}" for group in self.groups]
        rows = counted(total, "row")
        if total < self.rows:
            rows += f" drawn at random of {self.rows:,}"
        once = " Each row counts once, under its first loss." if len(parts) > 1 else ""
        return f"{rows}: {', '.join(parts) or 'none'}.{once}"


class ScreenTally:
    """The first screen of rows that come one by one; keeps 17 bytes per row.

    ``cluster`` says which samples belong together, as in ``Report.summary``: the
    interval of a share counts them as such.
    """

    def __init__(self, cluster: GroupBy = "auto") -> None:
        self._number_of = numbering(cluster)
        self._groups = bytearray()  # of each row, by its place in _CODES
        self._clusters = array("q")
        self._hashes_of_contents = array("q")
        self._verdicts: dict[str, Counter[bool]] = {}  # by metric
        self._examples: dict[str, list[Example]] = {code: [] for code in _CODES}

    def add(self, row: SampleResult) -> str:
        """Count one row; returns its group."""
        code = group_of_row(row)
        self._groups.append(_CODES.index(code))
        self._clusters.append(self._number_of(row.sample))
        self._count_verdicts(row)
        content = _content_of(row.sample)
        if any(content):
            self._hashes_of_contents.append(hash(content))
        if row.sample is not None:
            examples = [*self._examples[code], _example_of(row, row.sample)]
            self._examples[code] = _worst(examples)
        return code

    def _count_verdicts(self, row: SampleResult) -> None:
        """Count whether the sentence of each metric holds for the row."""
        for name, result in row.results.items():
            verdict = verdict_on(name, result) if isinstance(result, Scored) else None
            if verdict is not None:
                self._verdicts.setdefault(name, Counter())[verdict] += 1

    def _sentences(self, summary: Summary) -> dict[str, str]:
        """What each metric found, by metric."""
        sentences = {}
        for numbers in summary.metrics:
            verdicts = self._verdicts.get(numbers.metric, Counter())
            rows = Counted(verdicts[True], verdicts.total())
            sentences[numbers.metric] = sentence_of(numbers, rows)
        return sentences

    def screen(
        self,
        summary: Summary,
        run: RunFacts,
        decisions: Sequence[Decision] = (),
        warnings: Sequence[str] = (),
    ) -> FirstScreen:
        """Everything counted so far, with the verdict of the gates.

        Args:
            summary: The numbers of the same rows.
            run: The facts of the run.
            decisions: What was decided of each gate.
            warnings: What else makes the numbers speak for less than they seem to.
        """
        groups = self._all_groups()
        losses = _largest_first(group for group in groups if group.code in LOSSES)
        to_mend = _largest_first(group for group in groups if group.mending)
        scored = [
            example
            for examples in self._examples.values()
            for example in examples
            if example.score is not None
        ]
        return FirstScreen(
            title=title_of(run),
            origin=_origin(run),
            verdicts=_verdicts(decisions),
            outcome=_outcome(decisions),
            loss=self._verdict_on_losses(losses, summary),
            how_sure=self._how_sure(losses, run),
            warnings=(*_failures(summary), *self._copies(), *warnings),
            mend_first=to_mend[0] if to_mend else None,
            groups=tuple(groups),
            rows=summary.rows,
            worst=tuple(_worst(scored)),
            sentences=self._sentences(summary),
            why_first=_why_first(to_mend),
        )

    def _all_groups(self) -> list[Group]:
        """The groups in which rows stand, in the order in which they are tried."""
        return [
            Group(code, title, count, tuple(self._examples[code]))
            for place, (code, title) in enumerate(TITLES.items())
            if (count := self._groups.count(place))
        ]

    def _verdict_on_losses(self, losses: Sequence[Group], summary: Summary) -> str:
        """The largest loss, and the rows without a score by reason; the larger first.

        Rows without a score are no evidence that all is well, so they are said here.
        """
        drawn = " drawn at random" if self._n_rows < summary.rows else ""
        n_not_scored = self._n_not_scored
        n_scored = self._n_rows - n_not_scored
        if not n_not_scored:
            return f"{_loss_in_words(losses, counted(n_scored, 'row') + drawn)}."
        reasons = self._reasons_of_no_score()
        verb = "was" if n_not_scored == 1 else "were"
        if n_not_scored <= sum(group.count for group in losses):
            loss = _loss_in_words(losses, counted(n_scored, "row") + drawn)
            more = counted(n_not_scored, "more row")
            return f"{loss}; {more} {verb} not scored: {reasons}."
        rows = counted(self._n_rows, "row") + drawn
        sentence = f"{n_not_scored:,} of {rows} {verb} not scored: {reasons}."
        if n_scored:
            others = f"the other {counted(n_scored, 'row')}"
            sentence += f" {_loss_in_words(losses, others)}."
        return sentence

    @property
    def _n_not_scored(self) -> int:
        """The rows whose outcomes do not say whether anything was lost."""
        return self._count_of(*NOT_JUDGED, *NOT_SCORED)

    def _reasons_of_no_score(self) -> str:
        """Why rows have no score, with counts."""
        reasons = [
            f"{count:,} {title}"
            for code, title in (*NOT_JUDGED.items(), *NOT_SCORED.items())
            if (count := self._count_of(code))
        ]
        return ", ".join(reasons)

    def _how_sure(self, losses: Sequence[Group], run: RunFacts) -> str:
        """How far the share of the largest loss may lie from that of rows like these.

        "" where no row tells. Rows that were chosen by their scores, as by a run until
        decided, have no interval. Rows on which the judge failed may have the loss or
        not: the interval holds for both.
        """
        n_silent = self._n_not_scored
        if n_silent == self._n_rows:
            return ""
        any_loss = self._range_of([group.code for group in losses])
        if not any_loss or run.decisions:
            words = "a judge that is wrong in the same way each time is not covered."
            caution = caution_about(run.judges, has_range=False)
        else:
            is_of_all = n_silent == self._count_of(JUDGE_FAILED)
            these = "rows like these" if is_of_all else "rows like the scored ones"
            words = f"with 95 % confidence, {any_loss} of {these} went wrong"
            if len(losses) > 1:
                ranges = [
                    f"{group.title}: {self._range_of([group.code])}"
                    for group in _equal_largest(losses)
                ]
                words += f" ({'; '.join(ranges)})"
            words += "."
            caution = caution_about(run.judges)
        return f"How sure: {words} {caution}".rstrip()

    def _copies(self) -> Iterable[str]:
        """That rows repeat others, if any do."""
        n_copies = n_repeats(self._hashes_of_contents)
        if n_copies:
            verb = "repeats" if n_copies == 1 else "repeat"
            yield (
                f"{counted(n_copies, 'row')} {verb} the question, the retrieved texts"
                " and the answer of an earlier row. If these are copies, the ranges"
                " are too narrow: they count each as new evidence."
            )

    @property
    def _n_rows(self) -> int:
        """The rows counted: all, or those drawn of them for the page."""
        return len(self._groups)

    def _count_of(self, *codes: str) -> int:
        """How many rows stand in these groups."""
        places = map(_CODES.index, codes)
        return sum(map(self._groups.count, places))

    def _range_of(self, codes: Sequence[str]) -> str:
        """How far the share of these groups may reach; "" if that cannot be said."""
        at_best, at_worst = self._share_of(codes, 0.0), self._share_of(codes, 1.0)
        if at_best is None or at_worst is None:
            return ""
        return f"{round(100 * at_best.low)} to {round(100 * at_worst.high)} %"

    def _share_of(
        self, codes: Sequence[str], if_judge_failed: float
    ) -> Interval | None:
        """The interval of the share of groups among the scored rows.

        A row on which the judge failed counts as it is given: 1 is in the group.
        """
        shares, clusters = array("d"), array("q")
        for place, cluster in zip(self._groups, self._clusters, strict=True):
            group = _CODES[place]
            if group not in _SCORED and group != JUDGE_FAILED:
                continue
            is_in = float(group in codes)
            shares.append(if_judge_failed if group == JUDGE_FAILED else is_in)
            clusters.append(cluster)
        return mean_interval(shares, clusters)


def _equal_largest(losses: Sequence[Group]) -> list[Group]:
    """The largest loss, and those that are as large."""
    return [group for group in losses if group.count == losses[0].count]


def _loss_in_words(losses: Sequence[Group], rows: str) -> str:
    """The largest loss, and in how many of these rows it occurs."""
    if not losses:
        return f"No loss found in {rows}"
    n_lost = sum(group.count for group in losses)
    verb = "has" if n_lost == 1 else "have"
    words = f"{n_lost:,} of {rows} {verb} a loss"
    if len(losses) == 1:
        return f"{words}: {losses[0].title}"
    largest = [f"{group.title} ({group.count:,})" for group in _equal_largest(losses)]
    return f"{words}. Largest: {'; '.join(largest)}"


def screen_of(
    rows: Iterable[SampleResult],
    summary: Summary,
    run: RunFacts,
    decisions: Sequence[Decision] = (),
    cluster: GroupBy = "auto",
    warnings: Sequence[str] = (),
) -> FirstScreen:
    """The first screen of these rows; see ``ScreenTally``."""
    tally = ScreenTally(cluster)
    for row in rows:
        tally.add(row)
    return tally.screen(summary, run, decisions, warnings)


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


def _example_of(row: SampleResult, sample: Sample) -> Example:
    """The row by its lowest score."""
    scores = [
        (result.value, name)
        for name, result in row.results.items()
        if isinstance(result, Scored)
    ]
    score, metric = min(scores, default=(None, ""))
    return Example(
        score=score,
        index=row.index,
        metric=metric,
        question=short_question(sample),
        rank=_rank([value for value, _ in scores]),
    )


def _content_of(sample: Sample | None) -> tuple[object, ...]:
    """By what a copy of a row is known; empty where there is nothing to compare."""
    if sample is None:
        return ()
    contexts = tuple(context.text for context in sample.contexts)
    return (sample.question, contexts, sample.answer)


def _rank(scores: Sequence[float]) -> tuple[float, ...]:
    """By what rows are sorted, the worst first: the lowest score, then the mean.

    Rows without a score come last.

    The page sorts by the same rule. So both round scores before they compare them.
    """
    if not scores:
        return (inf,)
    units = [round(score * _SCORE_UNIT) for score in scores]
    return (min(units), sum(units) / len(units))


def _worst(examples: Iterable[Example]) -> list[Example]:
    """The worst three, of equal ones the earlier rows."""
    return nsmallest(
        _N_EXAMPLES, examples, key=lambda example: (example.rank, example.index)
    )


def _why_first(to_mend: Sequence[Group]) -> str:
    """In how many rows the stage to mend shows, and why it is named before its equals."""
    if not to_mend:
        return ""
    words = counted(to_mend[0].count, "row")
    if len(_equal_largest(to_mend)) > 1:
        words += ", as many as another; this comes first in the pipeline"
    return words


def _largest_first(groups: Iterable[Group]) -> list[Group]:
    """Of equal counts the earlier stage first: later ones inherit what it lost."""
    return sorted(groups, key=lambda group: -group.count)


def short_question(sample: Sample) -> str:
    """The question on one line, cut if it is long; else the answer, or ""."""
    return _shortened(sample.question or sample.answer or "", _LONGEST_QUESTION)


def _shortened(text: str, longest: int) -> str:
    """The text on one line, cut if it is longer than so many characters."""
    words = " ".join(str(clean(text))[: 10 * longest].split())
    return words if len(words) <= longest else words[:longest] + "…"


def _outcome(decisions: Sequence[Decision]) -> str:
    """What all gates decide together: the worst of their outcomes."""
    outcomes = {decision.outcome for decision in decisions}
    return next((outcome for outcome in _WORST_FIRST if outcome in outcomes), "")


def _verdicts(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """What each gate decides, those that failed first; without gates, that none is set.

    A loss alone never makes a run good or bad: only a threshold of the user's does.
    """
    if not decisions:
        return (
            "No gate is set, so nothing says whether this is good enough; --fail-under"
            " sets one.",
        )
    ordered = sorted(
        decisions, key=lambda decision: _WORST_FIRST.index(decision.outcome)
    )
    return tuple(map(str, ordered))


def _failures(summary: Summary) -> Iterable[str]:
    """How often metrics failed, and why the first did: no mean speaks for that."""
    failed = [numbers for numbers in summary.metrics if numbers.failed]
    if not failed:
        return
    counts = [
        f"{numbers.metric} {sum(numbers.failed.values()):,}" for numbers in failed
    ]
    why = _shortened(failed[0].failure, _LONGEST_REASON)
    yield f"Failed, and left out of the means: {', '.join(counts)}. For example: {why}"
