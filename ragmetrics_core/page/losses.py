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
    """How many rows a group of rows with a fault counts for.

    These are the rows whose answer does not hold up; all its rows, if the answers of
    all rows with a fault hold up.
    """
    return group.n_not_holding_up if count_spoilt(losses) else group.count


def count_rows(groups: Iterable[Group]) -> int:
    """How many rows stand in these groups."""
    return sum(group.count for group in groups)


def loss_in_words(
    losses: Sequence[Group], rows: str, n_scored: int, summary: Summary
) -> str:
    """Say in how many rows there is a fault, and which is the largest.

    Args:
        losses: The groups of rows with a fault.
        rows: The rows of which these are some, in words.
        n_scored: How many rows were scored. If they are few and none has a fault, only
            that is said.
        summary: The numbers of the run, which say how many rows are wanted.
    """
    if not losses:
        if n_scored < n_rows_wanted(summary):
            sentence = too_few_in_words(n_scored, summary)
            return f"{sentence[:1].upper()}{sentence[1:]}"
        return f"No fault found in {rows}"
    n_spoilt = count_spoilt(losses)  # rows without an answer that holds up
    n_holding_up = count_holding_up(losses)
    if n_spoilt and n_holding_up:
        return _losses_by_answer(losses, rows)
    n_lost = count_rows(losses)
    words = f"{n_lost:,} of {rows} {'has' if n_lost == 1 else 'have'} a fault"
    if rows == "the other row":  # "1 of the other row has" would be no English
        words = "The other row has a fault"
    if n_holding_up:
        words += ", and "
        words += "its answer holds up" if n_lost == 1 else "all their answers hold up"
    if len(losses) == 1:
        return f"{words}: {losses[0].title}"
    return f"{words}. Largest: {_largest_in_words(losses)}"


def _losses_by_answer(losses: Sequence[Group], rows: str) -> str:
    """Say of rows with a fault how many answers hold up, and which fault is the largest.

    An answer holds up if all that is known of it speaks for it: then the fault did no
    harm. So the largest fault is the one with most rows whose answer does not hold up.
    """
    n_spoilt = count_spoilt(losses)
    n_holding_up = count_holding_up(losses)
    verb = "has" if n_spoilt == 1 else "have"
    words = f"{n_spoilt:,} of {rows} {verb} a fault and no answer that holds up"
    groups_spoilt = [group for group in losses if group.n_not_holding_up]
    has_one_fault = len(groups_spoilt) == 1
    if has_one_fault:
        words += f" ({groups_spoilt[0].title})"
    verb = "has" if n_holding_up == 1 else "have"
    words += f"; {n_holding_up:,} more {verb} a fault and one that does"
    if has_one_fault:
        return words
    return f"{words}. Largest among the {n_spoilt:,}: {_largest_in_words(losses)}"


def _largest_in_words(losses: Sequence[Group]) -> str:
    """Name the largest fault with its number of rows, or several of equal size.

    The next one is named as well if it may be smaller by chance alone, which McNemar's
    test of both numbers says (``_CHANCE`` is 5 %).
    """
    largest = equal_largest(losses)
    n_largest = _size(largest[0], losses)
    words = "; ".join(f"{group.title} ({n_largest:,})" for group in largest)
    smaller = [group for group in losses if group not in largest]
    if smaller:
        next_group = smaller[0]  # groups with a fault come in the order of their size
        n_next = _size(next_group, losses)
        if n_next and mcnemar(n_largest, n_next) > _CHANCE:
            words += f"; {next_group.title} ({n_next:,}) is not surely smaller"
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
