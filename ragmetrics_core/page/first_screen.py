"""What people look for first in a report, in one order on the page and the terminal.

That is which run it is, the verdict, the largest loss and how sure it is, the stage to
mend first with examples, and in which group each row stands.
"""

from array import array
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.data import (
    Sample,
    SampleResult,
    Scored,
    caution_about,
    judges_in_words,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.metric_evidence import Sufficed
from ragmetrics_core.page.counts import MetricCounts, is_good_answer
from ragmetrics_core.page.diagnosis import RULES
from ragmetrics_core.page.losses import (
    count_bad_answers,
    count_good_answers,
    count_rows,
    faults_in_words,
    groups_with_fault,
    largest_fault_groups,
    n_rows_wanted,
    too_few_in_words,
)
from ragmetrics_core.page.mending import (
    GateAtRisk,
    MendFirst,
    gate_in_words,
    groups_to_mend,
    how_found,
    why_first,
)
from ragmetrics_core.page.row_groups import (
    FAILED_GROUPS,
    LOSSES,
    NOT_JUDGED,
    NOT_SCORED,
    TITLES,
    group_of_row,
)
from ragmetrics_core.page.screen_groups import (
    Example,
    Group,
    GroupTally,
    example_of,
    shorten,
)
from ragmetrics_core.page.stage_losses import (
    OF_UNKNOWN_STAGE,
    STAGE_TITLES,
    code_of_stage,
    journey_in_words,
    stages_of_row,
)
from ragmetrics_core.reporting.answering import Answering, AnsweringTally
from ragmetrics_core.reporting.gates import all_in_words
from ragmetrics_core.reporting.journey import Journey, JourneyTally
from ragmetrics_core.reporting.pairing import GroupBy, numbering
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.means import mean_interval, n_repeats
from ragmetrics_core.statistics.stopping import ROUNDING, Outcome

_LONGEST_REASON = 300
_MOST_FILES = 3
_CODES = tuple(TITLES)
_SCORED = {
    *LOSSES,
    "no_loss",
}  # groups of rows of which is known whether they have a fault
_NEVER_FIRST = ("bad_row", "no_loss")  # neither has a question to look at, or a loss
_WORST_FIRST: tuple[Outcome, ...] = ("failed", "undecided", "passed")


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen in words; see the module."""

    title: str
    origin: str  # judge and date
    verdicts: tuple[str, ...]
    outcome: str  # of all gates together; "" without gates
    all_gates: str  # in one line; "" where their verdicts say as much
    loss: str
    how_sure: str
    warnings: tuple[str, ...]  # what makes the numbers speak for less
    to_mend: MendFirst
    groups: tuple[Group, ...]
    rows: int  # of the whole run; the groups may be those of rows drawn of it
    worst: tuple[Example, ...]
    sentences: Mapping[str, str]  # what each metric found, in a sentence
    # by metric: below 1 where the judge cannot give these rows a higher mean
    highest_means: Mapping[str, float]
    unscored_first: tuple[str, ...]  # groups whose rows without a score come first
    answered_or_declined: tuple[Answering, ...]  # of each metric of sufficiency
    journey: Journey
    stage_losses: str  # what each stage of the journey lost; "" if nothing is known

    @property
    def mend_first(self) -> Group | None:
        """The rows of the stage to mend first; None where no stage is named."""
        return self.to_mend.group

    @property
    def to_look_at(self) -> tuple[Example, ...]:
        """The rows to open first: those of the stage to mend, else the worst."""
        if self.mend_first is not None and self.mend_first.examples:
            return self.mend_first.examples
        return self.worst

    @property
    def groups_in_words(self) -> str:
        """How many rows stand in each group; the counts add up to all rows."""
        total = sum(group.count for group in self.groups)
        parts = [f"{group.count:,} {group.title}" for group in self.groups]
        rows = count_in_words(total, "row")
        if total < self.rows:
            rows += f" drawn at random of {self.rows:,}"
        return f"{rows}: {', '.join(parts) or 'none'}."

    @property
    def order_in_words(self) -> str:
        """How rows are sorted, the worst first."""
        unscored = "rows that went wrong without a score"
        others = "; other rows without a score come last"
        if set(NOT_SCORED) <= set(self.unscored_first):
            unscored = "rows without a score, which most rows are"
            others = ""
        return (
            f"Worst first: {unscored}, then by the lowest score of a row, then by the"
            f" mean of its scores{others}."
        )


class ScreenTally:
    """The first screen of rows that come one by one; keeps some 200 bytes per row.

    ``cluster`` says which samples belong together, as in ``Report.summary``: the
    interval of a share counts them as such.
    """

    def __init__(self, cluster: GroupBy = "auto") -> None:
        # gives a sample the number of its cluster
        self._number_cluster_of = numbering(cluster)
        self._group_indices = bytearray()  # of each row, by its place in _CODES
        self._cluster_numbers = array("q")  # of each row, the number of its cluster
        self._hashes_of_contents = array("q")  # equal for rows that are copies
        # by metric what it counts of the rows that it scored
        self._counts_by_metric: defaultdict[str, MetricCounts] = defaultdict(
            MetricCounts
        )
        # by metric of sufficiency what the application did
        self._answering_by_metric: dict[str, AnsweringTally] = {}
        self._good_answer_flags = bytearray()  # of each row, 1 if its answer is good
        self._rows_by_group = GroupTally()  # each row stands in one
        self._rows_by_stage = GroupTally()  # of the journey; a row may stand in several
        self._journey = JourneyTally()

    def add(self, row: SampleResult) -> str:
        """Count one row, and return the code of its group, such as "retrieval".

        Each row stands in one group, which says what became of the row: the first thing
        that went wrong, or that nothing did. It may be counted for several stages: the
        steps of the pipeline, such as the search, that lost something of the row.
        """
        group_code = group_of_row(row)
        is_answer_good = is_good_answer(row)
        cluster_number = self._number_cluster_of(row.sample)
        self._group_indices.append(_CODES.index(group_code))
        self._good_answer_flags.append(is_answer_good)
        self._cluster_numbers.append(cluster_number)
        self._add_to_group(row, group_code, is_answer_good)
        stage_codes = self._add_to_stages(row, group_code, is_answer_good)
        self._add_to_metrics(row, [group_code, *stage_codes], cluster_number)
        self._hash_texts_to_find_copies(row.sample)
        return group_code

    def _add_to_metrics(
        self, row: SampleResult, codes: Sequence[str], cluster_number: int
    ) -> None:
        """Count a row for each metric that scored it.

        Args:
            row: The row.
            codes: The codes of the row's group and stages.
            cluster_number: The number of its cluster.
        """
        for name, result in row.results.items():
            if not isinstance(result, Scored):
                continue
            self._counts_by_metric[name].add(name, result, codes)
            # The metric says whether the contexts were enough for the question. Counted
            # are the cases, such as "declined, though they were enough".
            if isinstance(result.evidence, Sufficed):
                self._answering_tally_of(name).add(row, cluster_number)

    def _hash_texts_to_find_copies(self, sample: Sample | None) -> None:
        """Keep a hash of a row's texts: rows of equal hashes are copies."""
        content = _content_of(sample)
        if any(content):  # rows without any text are no copies of each other
            self._hashes_of_contents.append(hash(content))

    def _add_to_group(
        self, row: SampleResult, group_code: str, is_answer_good: bool
    ) -> None:
        """Count the row in its group."""
        # the groups of rules, unlike others, each name a stage of the pipeline
        is_of_stage = group_code in RULES
        example = example_of(row, TITLES[group_code], is_of_stage=is_of_stage)
        self._rows_by_group.add(group_code, example, is_answer_good=is_answer_good)

    def _add_to_stages(
        self, row: SampleResult, group_code: str, is_answer_good: bool
    ) -> Sequence[str]:
        """Count the row for each stage of the pipeline that lost something of it.

        A row's journey is what became of its facts from retrieval to the answer; a
        stage, such as the search, may have lost some.

        Args:
            row: The row.
            group_code: The code of its group.
            is_answer_good: Whether its answer is good.

        Returns:
            The codes of these stages; none if nothing is known of the journey.
        """
        row_journey = self._journey.add(row)
        if row_journey is None:
            return ()
        stage_codes = stages_of_row(row_journey, group_code)
        for stage_code in stage_codes:
            example = example_of(row, STAGE_TITLES[stage_code], is_of_stage=True)
            self._rows_by_stage.add(stage_code, example, is_answer_good=is_answer_good)
        return stage_codes

    def screen(
        self,
        summary: Summary,
        run: RunFacts,
        decisions: Sequence[Decision] = (),
        warnings: Sequence[str] = (),
        exit_code: int | None = None,
    ) -> FirstScreen:
        """Put together what a person should see first of the rows counted so far.

        Example: "3 of 20 rows have a fault: …" as its ``loss``, and as ``worst`` the
        rows to open first.

        Args:
            summary: The numbers of the same rows.
            run: The facts of the run.
            decisions: What each gate decides.
            warnings: Further caveats about the numbers.
            exit_code: The exit code of the command; None if no command shows the
                screen.
        """
        # Each row stands in one group, such as "a low score" or "no fault found".
        groups = self._groups_of_rows()
        fault_groups = groups_with_fault(groups)
        # how many facts each step, from the search to the answer, lost
        journey = self._journey.journey()
        # A run that stopped early chose its rows by their scores: no interval holds.
        has_intervals = _are_rows_a_random_choice(run)
        # The table of rows on the HTML page begins with the lowest score. Above it stand
        # rows without any score, such as those on which the judge failed, if they are of
        # these groups.
        groups_with_unscored_on_top = self._groups_with_unscored_on_top(fault_groups)
        return FirstScreen(
            title=title_of(run),
            origin=_origin(run),
            verdicts=self._verdicts(decisions),
            outcome=_outcome(decisions),
            all_gates=all_in_words(decisions, exit_code),
            loss=self._faults_and_unscored_in_words(fault_groups, summary),
            how_sure=self._how_sure(fault_groups, summary, run),
            warnings=self._warnings(summary, decisions, warnings),
            # the step of the application to repair first, such as the search
            to_mend=self._to_mend(groups, journey, decisions, has_intervals),
            groups=tuple(groups),
            rows=summary.rows,
            worst=tuple(self._rows_by_group.worst(groups_with_unscored_on_top)),
            # by metric: what it found; the highest mean that its judge could give
            sentences=_sentence_by_metric(self._counts_by_metric, summary),
            highest_means=self._highest_means(summary),
            journey=journey,
            stage_losses=self._stage_losses(journey, summary, has_intervals),
            unscored_first=groups_with_unscored_on_top,
            answered_or_declined=self._answered_or_declined(has_intervals),
        )

    def _highest_means(self, summary: Summary) -> dict[str, float]:
        """By metric, the highest mean that the judge could give to these rows."""
        return {
            numbers.metric: self._counts_by_metric[numbers.metric].highest_mean
            for numbers in summary.metrics
        }

    def _stage_losses(
        self, journey: Journey, summary: Summary, has_intervals: bool
    ) -> str:
        """Word what each stage of the journey lost; "" if nothing is known."""
        are_drawn = self._n_rows < summary.rows
        return journey_in_words(
            journey, has_intervals=has_intervals, are_drawn=are_drawn
        )

    def _to_mend(
        self,
        groups: Sequence[Group],
        journey: Journey,
        decisions: Sequence[Decision],
        has_intervals: bool,
    ) -> MendFirst:
        """The stage to mend first, in words."""
        gate = self._gate_at_risk(decisions)
        candidates = groups_to_mend(groups, self._stage_to_mend(journey), gate)
        return MendFirst(
            group=candidates[0] if candidates else None,
            why=why_first(candidates, gate, journey, has_intervals=has_intervals),
            how_found=how_found(candidates, journey),
            at_risk=gate_in_words(gate, candidates),
        )

    def _answered_or_declined(self, has_intervals: bool) -> tuple[Answering, ...]:
        """What the application did, by each metric that says if contexts were enough."""
        return tuple(
            tally.answering(self._n_rows, has_intervals=has_intervals)
            for tally in self._answering_by_metric.values()
        )

    def _answering_tally_of(self, metric: str) -> AnsweringTally:
        """Return the counts of a metric that says whether the contexts were enough."""
        if metric not in self._answering_by_metric:
            self._answering_by_metric[metric] = AnsweringTally(metric, "context_recall")
        return self._answering_by_metric[metric]

    def _warnings(
        self,
        summary: Summary,
        decisions: Sequence[Decision],
        further_warnings: Sequence[str],
    ) -> tuple[str, ...]:
        """Collect all caveats about the numbers: failures, gates out of reach, copies."""
        highest_means = self._highest_means(summary)
        return (
            *_failures(summary),
            *_out_of_reach(decisions, highest_means),
            *self._copies(),
            *further_warnings,
        )

    def _groups_with_unscored_on_top(
        self, fault_groups: Sequence[Group]
    ) -> tuple[str, ...]:
        """The codes of groups whose unscored rows are listed before all scored rows.

        These are the groups of rows with a fault, because a row that went wrong without
        a score is worse than a low score. If more rows are without a score than with a
        fault, they are all groups but ``_NEVER_FIRST``.
        """
        if self._n_not_scored <= count_rows(fault_groups):
            return tuple(LOSSES)
        return tuple(code for code in _CODES if code not in _NEVER_FIRST)

    def _groups_of_rows(self) -> list[Group]:
        """The groups that have a row, in the order in which a row's group is sought."""
        groups = (self._rows_by_group.group(*of) for of in TITLES.items())
        return [group for group in groups if group.count]

    def _stage_to_mend(self, journey: Journey) -> Group | None:
        """The rows in which the stage to mend first lost something that they needed.

        None where the journey names no stage, or no row needed what the stage lost.
        """
        if journey.mend is None or journey.mend_by is None:
            return None
        if journey.mend == OF_UNKNOWN_STAGE:
            return None
        code = code_of_stage(journey.mend_by, journey.mend)
        stage = self._rows_by_stage.group(code, STAGE_TITLES[code])
        return stage if stage.count else None

    def _gate_at_risk(self, decisions: Sequence[Decision]) -> GateAtRisk | None:
        """The first gate that did not pass; None where all did, or there is none."""
        ordered = _worst_gates_first(decisions)
        if not ordered or ordered[0].outcome == "passed":
            return None
        counts = self._counts_by_metric[ordered[0].metric]
        return GateAtRisk(
            ordered[0].metric, counts.verdicts[False], counts.groups_against
        )

    def _faults_and_unscored_in_words(
        self, fault_groups: Sequence[Group], summary: Summary
    ) -> str:
        """Say how many rows have a fault, and how many have no score, and why.

        Example: "3 of 18 rows have a fault: the search found too little; 2 more rows
        were not scored: 2 failed." If rows without a score are more than rows with a
        fault, they come first: "9 of 20 rows were not scored: 9 failed. 3 of the other
        11 rows have a fault: …"

        Args:
            fault_groups: The rows with a fault, in a group for each kind of fault.
            summary: The numbers of the run.
        """
        n_scored = self._n_scored
        n_not_scored = self._n_not_scored
        drawn = " drawn at random" if self._n_rows < summary.rows else ""
        scored_rows = count_in_words(n_scored, "row") + drawn
        if not n_not_scored:
            return f"{faults_in_words(fault_groups, scored_rows, n_scored, summary)}."
        do_faults_come_first = n_not_scored <= count_rows(fault_groups)
        if do_faults_come_first:
            faults = faults_in_words(fault_groups, scored_rows, n_scored, summary)
            more_rows = count_in_words(n_not_scored, "more row")
            return f"{faults}; {more_rows} {self._were_not_scored_and_why()}"
        all_rows = count_in_words(self._n_rows, "row") + drawn
        # a whole sentence with its full stop
        not_scored = f"{n_not_scored:,} of {all_rows} {self._were_not_scored_and_why()}"
        if not n_scored:  # nothing is known of any fault
            return not_scored
        other_rows = _other_rows_in_words(n_scored)
        faults = faults_in_words(fault_groups, other_rows, n_scored, summary)
        return f"{not_scored} {faults}."

    def _were_not_scored_and_why(self) -> str:
        """Return the end of a sentence: "were not scored: 2 failed, 1 declined."."""
        verb = "was" if self._n_not_scored == 1 else "were"
        return f"{verb} not scored: {self._reasons_of_no_score()}."

    @property
    def _n_scored(self) -> int:
        """The rows whose outcomes say whether anything was lost."""
        return self._n_rows - self._n_not_scored

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

    def _how_sure(
        self, fault_groups: Sequence[Group], summary: Summary, run: RunFacts
    ) -> str:
        """Say how sure the share of rows with a fault is.

        Example: "How sure: only 12 rows are scored …; with 95 % confidence, 5 to 36 % of
        rows like these have a fault." The share says nothing of rows whose answer
        declines ("I do not know"), as they have no score. If these are many, the
        sentence has their share as well.

        Args:
            fault_groups: The groups of rows with a fault; none if no row has one.
            summary: The numbers of all rows.
            run: The facts of the run.

        Returns:
            The sentence; "" if no row was scored, and no share of declining rows is
            known either.
        """
        range_of_declined = ""
        ranges_of_faults = ""
        if _are_rows_a_random_choice(run):  # of other rows no range is known
            range_of_declined = self._range_of_declined()
            ranges_of_faults = self._ranges_of_faults(fault_groups)
        if self._n_scored == 0 and not range_of_declined:
            return ""
        are_few_scored = self._n_scored < n_rows_wanted(summary)
        if are_few_scored and not fault_groups and range_of_declined:
            # Of 1 scored row without a fault the range is "0 to 97 % … have a fault".
            # That says nothing, and the range of declining rows is enough.
            ranges_of_faults = ""
        phrases = []
        if fault_groups and are_few_scored:
            phrases.append(too_few_in_words(self._n_scored, summary))
        if range_of_declined:
            phrases.append(range_of_declined)
        elif self._most_are_not_scored:
            phrases.append("whether rows without a score have a fault is not known")
        if ranges_of_faults:
            phrases.append(ranges_of_faults)
        has_range = bool(range_of_declined or ranges_of_faults)
        return f"How sure: {_with_caution(phrases, run, has_range=has_range)}"

    @property
    def _most_are_not_scored(self) -> bool:
        """Whether more rows are without a score than with one."""
        return 2 * self._n_not_scored > self._n_rows

    def _range_of_declined(self) -> str:
        """Word the 95 % range of the share of rows that only decline to answer.

        "" where these rows are no more than the scored rows.
        """
        if self._count_of("abstained") <= self._n_scored:
            return ""
        judged_groups = {*_SCORED, *NOT_SCORED}
        share_range = self._share_range(["abstained"], denominator=judged_groups)
        which_rows = "rows like the judged ones"
        if not self._count_of(*NOT_JUDGED):
            which_rows = "rows like these"
        return (
            f"with 95 % confidence, {share_range} of {which_rows} decline and have no"
            " score; whether declining was right is not known"
        )

    def _ranges_of_faults(self, fault_groups: Sequence[Group]) -> str:
        """Word the 95 % range of the share of rows with a fault, and of the commonest.

        For example "with 95 % confidence, 12 to 25 % of rows like these have a fault".
        If some of the rows have a good answer all the same, the share counts only the
        rows with a bad answer. "" if no range is known.
        """
        codes = [group.code for group in fault_groups]
        range_of_any_fault = self._share_range(codes)
        if not range_of_any_fault:
            return ""
        if not _is_some_answer_good_and_some_bad(fault_groups):
            return self._range_and_commonest(
                fault_groups, range_of_any_fault, "have a fault"
            )
        range_of_bad_answers = self._share_range(codes, only_bad_answers=True)
        words = self._range_and_commonest(
            fault_groups,
            range_of_bad_answers,
            "have a fault and no answer that holds up",
            only_bad_answers=True,
        )
        return f"{words}, {range_of_any_fault} any fault"

    def _range_and_commonest(
        self,
        fault_groups: Sequence[Group],
        share_range: str,
        what_they_have: str,
        *,
        only_bad_answers: bool = False,
    ) -> str:
        """Word a range, with the ranges of the commonest faults in parentheses.

        Example: "with 95 % confidence, 5 to 36 % of rows like these have a fault (…)".
        A single fault has no parentheses: its range is the range.
        """
        which_rows = "rows like these"
        if not self._do_ranges_hold_for_all_rows:
            which_rows = "rows like the scored ones"
        words = f"with 95 % confidence, {share_range} of {which_rows} {what_they_have}"
        if len(fault_groups) < 2:
            return words
        commonest_ranges = []
        for group in largest_fault_groups(fault_groups):
            range_of_group = self._share_range(
                [group.code], only_bad_answers=only_bad_answers
            )
            commonest_ranges.append(f"{group.title}: {range_of_group}")
        return f"{words} ({'; '.join(commonest_ranges)})"

    @property
    def _do_ranges_hold_for_all_rows(self) -> bool:
        """Whether each row without a score is a row on which the judge or a metric failed.

        These count in the ranges, as rows that may have a fault; other rows without a
        score, such as answers that decline, do not.
        """
        return self._n_not_scored == self._count_of(*FAILED_GROUPS)

    def _copies(self) -> Iterable[str]:
        """Warn that rows repeat others, if any do."""
        n_copies = n_repeats(self._hashes_of_contents)
        if n_copies:
            verb = "repeats" if n_copies == 1 else "repeat"
            yield (
                f"{count_in_words(n_copies, 'row')} {verb} the question, the retrieved texts"
                " and the answer of an earlier row. If these are copies, the ranges"
                " are too narrow: they count each as new evidence."
            )

    @property
    def _n_rows(self) -> int:
        """The rows counted: all, or those drawn of them for the page."""
        return len(self._group_indices)

    def _count_of(self, *codes: str) -> int:
        """How many rows stand in these groups."""
        places = map(_CODES.index, codes)
        return sum(map(self._group_indices.count, places))

    def _share_range(
        self,
        codes: Sequence[str],
        *,
        only_bad_answers: bool = False,
        denominator: Container[str] = _SCORED,
    ) -> str:
        """Word the 95 % range of the share of rows in some groups, as "12 to 25 %".

        Example: of 20 scored rows 4 have a fault, and on 1 more row the judge failed.
        For the low end of the range it is a row without a fault, for the high end a row
        with one: the share is 4 of 21, or 5 of 21. "" if there is no row.

        Args:
            codes: The groups whose share is wanted, such as the two groups of faults
                that were found.
            only_bad_answers: Whether a row of these groups counts only if its answer is
                bad.
            denominator: All groups that the share is a share of, such as those of all
                scored rows. Rows on which the judge or a metric failed are added.
        """
        surely_in_groups = array("d")  # for each row 1.0 if it counts, else 0.0
        perhaps_in_groups = array("d")  # the same, with the failed rows
        cluster_numbers = array("q")
        for code, is_answer_good, cluster_number in self._counted_rows():
            if code in FAILED_GROUPS:
                surely_in_groups.append(0.0)
                perhaps_in_groups.append(1.0)
            elif code in denominator:
                does_row_count = code in codes
                if only_bad_answers and is_answer_good:
                    does_row_count = False
                surely_in_groups.append(does_row_count)
                perhaps_in_groups.append(does_row_count)
            else:
                continue
            cluster_numbers.append(cluster_number)
        lower = mean_interval(surely_in_groups, cluster_numbers)
        upper = mean_interval(perhaps_in_groups, cluster_numbers)
        if lower is None or upper is None:
            return ""
        return f"{round(100 * lower.low)} to {round(100 * upper.high)} %"

    def _counted_rows(self) -> Iterable[tuple[str, bool, int]]:
        """Yield each row's group code, whether its answer is good, and its cluster."""
        rows = zip(
            self._group_indices,
            self._good_answer_flags,
            self._cluster_numbers,
            strict=True,
        )
        for group_index, is_answer_good, cluster_number in rows:
            yield _CODES[group_index], bool(is_answer_good), cluster_number

    def _verdicts(self, decisions: Sequence[Decision]) -> tuple[str, ...]:
        """Say what each gate decides, failed gates first; or that no gate is set.

        Only a threshold of the user's makes a run good or bad. If most rows were not
        scored, no threshold could.
        """
        if decisions:
            return tuple(map(str, _worst_gates_first(decisions)))
        if self._most_are_not_scored:
            return ("This cannot be called good enough: most rows were not scored.",)
        return (
            "No gate is set: only a threshold of your own (--fail-under) can say whether"
            " this is good enough.",
        )


def _are_rows_a_random_choice(run: RunFacts) -> bool:
    """Whether intervals may be shown, since they assume a random choice of rows.

    A run with decisions of its own stopped because of the scores of its rows.
    """
    return not run.decisions


def _is_some_answer_good_and_some_bad(fault_groups: Sequence[Group]) -> bool:
    """Whether only some of the rows with a fault have a good answer all the same."""
    return count_bad_answers(fault_groups) > 0 and count_good_answers(fault_groups) > 0


def _other_rows_in_words(n_rows: int) -> str:
    """For example "the other 12 rows"."""
    return "the other row" if n_rows == 1 else f"the other {n_rows:,} rows"


def _with_caution(phrases: Sequence[str], run: RunFacts, *, has_range: bool) -> str:
    """Join the phrases of a sentence, and add the caution about the judges.

    The caution says that a judge may be wrong in the same way each time. Where no range
    is named (``has_range``), it does not, so that another phrase says it.
    """
    caution = caution_about(run.judges, has_range=has_range)
    if not has_range:
        wrong_judge = "a judge that is wrong in the same way each time is not covered"
        phrases = [*phrases, wrong_judge]
    return f"{'; '.join(phrases)}. {caution}".rstrip()


def _sentence_by_metric(
    counts: Mapping[str, MetricCounts], summary: Summary
) -> dict[str, str]:
    """Word what each metric found, in a sentence by metric."""
    return {
        numbers.metric: counts[numbers.metric].sentences(numbers)
        for numbers in summary.metrics
    }


def screen_of(
    rows: Iterable[SampleResult],
    summary: Summary,
    run: RunFacts,
    decisions: Sequence[Decision] = (),
    cluster: GroupBy = "auto",
    warnings: Sequence[str] = (),
    exit_code: int | None = None,
) -> FirstScreen:
    """The first screen of these rows; see ``ScreenTally``."""
    tally = ScreenTally(cluster)
    for row in rows:
        tally.add(row)
    return tally.screen(summary, run, decisions, warnings, exit_code)


def title_of(run: RunFacts) -> str:
    """Which run it is: the name that it was given, else the files that it read."""
    names = [file.name for file in run.inputs if file.name]
    file_names = ", ".join(names[:_MOST_FILES])
    if len(names) > _MOST_FILES:
        file_names += f" and {len(names) - _MOST_FILES} more"
    if run.name:
        return f"{run.name} ({file_names})" if file_names else run.name
    return file_names or "Samples of a program"


def date_of(run: RunFacts) -> str:
    """When the run began, to the minute; "" if that is not known."""
    day, _, time = run.started.partition("T")
    return f"{day} {time[:5]} UTC" if time else day


def _origin(run: RunFacts) -> str:
    """Who judged, and when, as far as it is known."""
    judges = judges_in_words(run.judges, run.addresses)
    # results of earlier versions do not say whether anybody chose it
    if run.judges == ("lexical",) and run.judge_chosen is None:
        judges += ", used where --judge chooses none"
    elif run.judge_chosen is False:
        judges += ", because nobody chose a judge (--judge)"
    by_nobody = "no judge was asked" if run.judge_chosen else "judge not recorded"
    parts = [f"judged by {judges}" if judges else by_nobody, date_of(run)]
    return ", ".join(part for part in parts if part)


def _content_of(sample: Sample | None) -> tuple[object, ...]:
    """Return the texts that are equal in all copies of a row; empty for a bad row."""
    if sample is None:
        return ()
    contexts = tuple(context.text for context in sample.contexts)
    return (sample.question, contexts, sample.answer)


def _outcome(decisions: Sequence[Decision]) -> str:
    """What all gates decide together: the worst of their outcomes."""
    outcomes = {decision.outcome for decision in decisions}
    return next((outcome for outcome in _WORST_FIRST if outcome in outcomes), "")


def _worst_gates_first(decisions: Sequence[Decision]) -> list[Decision]:
    """Gates that failed, then undecided gates, then gates that passed."""
    return sorted(decisions, key=lambda decision: _WORST_FIRST.index(decision.outcome))


def _out_of_reach(
    decisions: Sequence[Decision], highest: Mapping[str, float]
) -> Iterable[str]:
    """Name the gates that no run can pass with this judge, one sentence for each."""
    for decision in decisions:
        reachable = highest.get(decision.metric, 1.0)
        threshold = decision.at_least
        if threshold is not None and threshold > reachable + ROUNDING:
            yield (
                f"The gate {decision.metric}={threshold:g} cannot be passed with this"
                f" judge: {reachable:.3f} is the highest mean that it can give to these"
                " rows. Lower the gate, or take another judge."
            )


def _failures(summary: Summary) -> Iterable[str]:
    """Say how often metrics failed, which no mean shows, and why the first one did."""
    failed = [numbers for numbers in summary.metrics if numbers.failed]
    if not failed:
        return
    counts = [
        f"{numbers.metric} {sum(numbers.failed.values()):,}" for numbers in failed
    ]
    why = shorten(failed[0].failure, _LONGEST_REASON)
    yield f"Failed, and left out of the means: {', '.join(counts)}. For example: {why}"
