"""The largest faults of a run in a sentence, and the words that belong to it."""

from collections.abc import Iterable, Sequence

from ragmetrics_core.page.row_groups import LOSSES
from ragmetrics_core.page.screen_groups import Group, largest_first
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.paired import mcnemar

_CHANCE = 0.05  # the largest p of what chance does not explain


def count_spoilt(losses: Iterable[Group]) -> int:
    """How many rows with a loss have no answer that holds up."""
    return sum(group.n_not_holding_up for group in losses)


def count_holding_up(losses: Iterable[Group]) -> int:
    """How many rows with a loss have an answer that holds up all the same."""
    return sum(group.n_holding_up for group in losses)


def equal_largest(losses: Sequence[Group]) -> list[Group]:
    """The largest fault, and those that are as large."""
    n_largest = _size(losses[0], losses)
    return [group for group in losses if _size(group, losses) == n_largest]


def _size(group: Group, losses: Sequence[Group]) -> int:
    """The rows of a loss without an answer that holds up; all, where all answers do."""
    return group.n_not_holding_up if count_spoilt(losses) else group.count


def count_rows(groups: Iterable[Group]) -> int:
    """How many rows stand in these groups."""
    return sum(group.count for group in groups)


def loss_in_words(
    losses: Sequence[Group], rows: str, n_scored: int, summary: Summary
) -> str:
    """The largest fault, and in how many of these rows it occurs.

    Of few rows without a loss nothing is said but that they are few.
    """
    if not losses:
        if n_scored < n_rows_wanted(summary):
            sentence = too_few_in_words(n_scored, summary)
            return f"{sentence[:1].upper()}{sentence[1:]}"
        return f"No fault found in {rows}"
    n_spoilt, n_holding_up = count_spoilt(losses), count_holding_up(losses)
    if n_spoilt and n_holding_up:
        return _losses_by_answer(losses, rows)
    n_lost = count_rows(losses)
    words = f"{n_lost:,} of {rows} {'has' if n_lost == 1 else 'have'} a fault"
    if rows == "the other row":
        words = "The other row has a fault"
    if n_holding_up:
        words += ", and "
        words += "its answer holds up" if n_lost == 1 else "all their answers hold up"
    if len(losses) == 1:
        return f"{words}: {losses[0].title}"
    return f"{words}. Largest: {_largest_in_words(losses)}"


def _losses_by_answer(losses: Sequence[Group], rows: str) -> str:
    """The rows whose answer does not hold up, those whose does, the largest fault.

    The largest is the one with most rows whose answer does not hold up.
    """
    n_spoilt, n_holding_up = count_spoilt(losses), count_holding_up(losses)
    verb = "has" if n_spoilt == 1 else "have"
    words = f"{n_spoilt:,} of {rows} {verb} a fault and no answer that holds up"
    spoilt = [group for group in losses if group.n_not_holding_up]
    if len(spoilt) == 1:
        words += f" ({spoilt[0].title})"
    verb = "has" if n_holding_up == 1 else "have"
    words += f"; {n_holding_up:,} more {verb} a fault and one that does"
    if len(spoilt) == 1:
        return words
    return f"{words}. Largest among the {n_spoilt:,}: {_largest_in_words(losses)}"


def _largest_in_words(losses: Sequence[Group]) -> str:
    """The largest faultes, and the next one where chance may have put it behind."""
    equal = equal_largest(losses)
    n_largest = _size(equal[0], losses)
    words = "; ".join(f"{group.title} ({n_largest:,})" for group in equal)
    smaller = [group for group in losses if group not in equal]
    if smaller:
        n_next = _size(smaller[0], losses)
        if n_next and mcnemar(n_largest, n_next) > _CHANCE:
            words += f"; {smaller[0].title} ({n_next:,}) is not surely smaller"
    return words


def losses_among(groups: Iterable[Group]) -> list[Group]:
    """The groups that went wrong, the largest first."""
    return largest_first(group for group in groups if group.code in LOSSES)


def n_rows_wanted(summary: Summary) -> int:
    """How many scored rows say something; 0 where there is no such limit."""
    return max((numbers.limits.count for numbers in summary.metrics), default=0)


def too_few_in_words(n_scored: int, summary: Summary) -> str:
    """That the scored rows are too few."""
    return (
        f"too few rows to say: {n_scored:,} scored, {n_rows_wanted(summary):,} wanted"
    )
