"""The largest faults of a run in a sentence, and the words that belong to it."""

from collections.abc import Iterable, Sequence

from ragmetrics_core.page.row_groups import LOSSES
from ragmetrics_core.page.screen_groups import Group, largest_first
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.paired import mcnemar

_CHANCE = 0.05  # the largest p of what chance does not explain


def count_bad_answers(fault_groups: Iterable[Group]) -> int:
    """How many rows with a fault have no good answer."""
    return sum(group.n_bad_answers for group in fault_groups)


def count_good_answers(fault_groups: Iterable[Group]) -> int:
    """How many rows with a fault have a good answer all the same."""
    return sum(group.n_good_answers for group in fault_groups)


def largest_fault_groups(fault_groups: Sequence[Group]) -> list[Group]:
    """The largest fault, and any other faults of the same size."""
    n_largest = _n_rows_that_count(fault_groups[0], fault_groups)
    return [
        group
        for group in fault_groups
        if _n_rows_that_count(group, fault_groups) == n_largest
    ]


def _n_rows_that_count(group: Group, fault_groups: Sequence[Group]) -> int:
    """How large a group of rows with a fault is: the number of its bad answers.

    If no row with a fault has a bad answer, it is the number of its rows.

    Args:
        group: The group.
        fault_groups: All groups of rows with a fault.
    """
    return group.n_bad_answers if count_bad_answers(fault_groups) else group.count


def count_rows(groups: Iterable[Group]) -> int:
    """How many rows stand in these groups."""
    return sum(group.count for group in groups)


def faults_in_words(
    fault_groups: Sequence[Group], all_rows: str, n_scored: int, summary: Summary
) -> str:
    """Say how many rows have a fault, and which fault is the largest.

    Example: "3 of 20 rows have a fault: …" with the title of the only group. If some
    rows with a fault have a good answer and some a bad one, they are counted apart.

    Args:
        fault_groups: The groups of rows with a fault.
        all_rows: The phrase for all rows, with and without a fault: "20 rows".
        n_scored: How many rows were scored.
        summary: The numbers of the run, which say how many rows are wanted.
    """
    if not fault_groups:
        return _no_fault_in_words(all_rows, n_scored, summary)
    n_bad_answers = count_bad_answers(fault_groups)
    n_good_answers = count_good_answers(fault_groups)
    if n_bad_answers and n_good_answers:
        return _faults_by_answer_in_words(fault_groups, all_rows)
    # By now the answers of these rows are all bad, or all good.
    words = _n_faulty_rows_in_words(count_rows(fault_groups), all_rows)
    if n_good_answers == 1:
        words += ", and its answer holds up"
    elif n_good_answers:
        words += ", and all their answers hold up"
    if len(fault_groups) == 1:
        return f"{words}: {fault_groups[0].title}"
    return f"{words}. Largest: {_largest_in_words(fault_groups)}"


def _no_fault_in_words(all_rows: str, n_scored: int, summary: Summary) -> str:
    """Say that no row has a fault: "No fault found in 20 rows"; or too few to say so."""
    if n_scored < n_rows_wanted(summary):
        sentence = too_few_in_words(n_scored, summary)
        return f"{sentence[:1].upper()}{sentence[1:]}"
    return f"No fault found in {all_rows}"


def _n_faulty_rows_in_words(n_faulty_rows: int, all_rows: str) -> str:
    """For example "3 of 20 rows have a fault"."""
    if all_rows == "the other row":  # "1 of the other row has" would be no English
        return "The other row has a fault"
    verb = "has" if n_faulty_rows == 1 else "have"
    return f"{n_faulty_rows:,} of {all_rows} {verb} a fault"


def _faults_by_answer_in_words(fault_groups: Sequence[Group], all_rows: str) -> str:
    """Say how many rows with a fault have a bad answer, and how many a good one.

    Example: "5 of 20 rows have a fault and no answer that holds up; 3 more have a fault
    and one that does. Largest among the 5: the search found too little (4)". Where all
    bad answers have the same fault, it is named at once: "5 of 20 rows … (the search
    found too little); 3 more …".

    Args:
        fault_groups: The rows with a fault, in a group for each kind of fault. Some of
            their answers are bad, and some are good.
        all_rows: The phrase for all rows, with and without a fault: "20 rows".
    """
    n_bad_answers = count_bad_answers(fault_groups)
    n_good_answers = count_good_answers(fault_groups)
    verb = "has" if n_bad_answers == 1 else "have"
    bad = f"{n_bad_answers:,} of {all_rows} {verb} a fault and no answer that holds up"
    verb = "has" if n_good_answers == 1 else "have"
    good = f"{n_good_answers:,} more {verb} a fault and one that does"
    groups_with_bad_answers = [group for group in fault_groups if group.n_bad_answers]
    if len(groups_with_bad_answers) == 1:
        only_fault = groups_with_bad_answers[0].title
        return f"{bad} ({only_fault}); {good}"
    # the fault with the most bad answers
    largest = _largest_in_words(fault_groups)
    return f"{bad}; {good}. Largest among the {n_bad_answers:,}: {largest}"


def _largest_in_words(fault_groups: Sequence[Group]) -> str:
    """Name the largest fault with its number of rows, or several of equal size.

    The next smaller fault is named as well if the difference may be due to chance.
    McNemar's test of both numbers tells (``_CHANCE`` is 5 %). Example: "the search
    found too little (9); the answer left facts out (7) is not surely smaller".
    """
    largest = largest_fault_groups(fault_groups)
    # Only rows with a bad answer count, unless all answers of all groups are good.
    n_largest = _n_rows_that_count(largest[0], fault_groups)
    words = "; ".join(f"{group.title} ({n_largest:,})" for group in largest)
    smaller = [group for group in fault_groups if group not in largest]
    if smaller:
        next_group = smaller[0]  # groups with a fault come in the order of their size
        n_next = _n_rows_that_count(next_group, fault_groups)
        if n_next and mcnemar(n_largest, n_next) > _CHANCE:
            words += f"; {next_group.title} ({n_next:,}) is not surely smaller"
    return words


def groups_with_fault(groups: Iterable[Group]) -> list[Group]:
    """The groups of rows that have a fault, the largest first."""
    return largest_first(group for group in groups if group.code in LOSSES)


def n_rows_wanted(summary: Summary) -> int:
    """How many scored rows say something; 0 where there is no such limit."""
    return max((numbers.limits.count for numbers in summary.metrics), default=0)


def too_few_in_words(n_scored: int, summary: Summary) -> str:
    """That the scored rows are too few."""
    return (
        f"too few rows to say: {n_scored:,} scored, {n_rows_wanted(summary):,} wanted"
    )
