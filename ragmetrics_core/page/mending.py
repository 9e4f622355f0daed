"""What to mend first: the stage of the largest fault.

The journey names the stage that lost what an answer needed, where that was recorded.
Rules guess the others from the scores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.page.row_groups import LOSSES, TITLES
from ragmetrics_core.page.screen_groups import Group, largest_first
from ragmetrics_core.page.stage_losses import (
    OF_UNKNOWN_STAGE,
    SEARCH_FAULTS,
    STAGE_TITLES,
    interval_in_words,
)
from ragmetrics_core.reporting.journey import Journey

_ORDER = tuple(TITLES)
_GUESSED = "A rule guessed this from the scores."
_WHAT_WOULD_TELL = (
    "What the retriever returned (the column retrieved, or captured runs) would tell"
    " whether the search or a later step lost it."
)


class GateAtRisk(NamedTuple):
    """The first gate that did not pass, and how many rows count against it.

    ``n_rows_by_group`` counts them by group and by stage of the journey.
    """

    metric: str
    n_rows: int
    n_rows_by_group: Mapping[str, int]


class MendFirst(NamedTuple):
    """The stage to mend first, in words.

    ``group`` has the rows that it is about; None where no stage is named. ``why`` says
    in how many rows it shows. ``how_found`` says that a rule guessed it, or that nobody
    knows whether what was lost was needed; "" where neither is so. ``at_risk`` says
    how many of the rows that count against the gate at risk are of this kind.
    """

    group: Group | None
    why: str
    how_found: str
    at_risk: str


def groups_to_mend(
    groups: Sequence[Group], stage: Group | None, gate: GateAtRisk | None
) -> list[Group]:
    """Order the groups of rows that name something to mend, the most important first.

    The largest group comes first. If it is a fault and a gate did not pass (the gate at
    risk), groups are ordered by how many of their rows count against that gate.

    Args:
        groups: All groups of rows, in the order in which they are tried.
        stage: The rows in which a stage of the journey, from retrieval to the answer,
            lost something. They take the place of the groups of faults of the search,
            which rules only guess from scores.
        gate: The gate at risk, if any.
    """
    candidates = [group for group in groups if group.mending is not None]
    if stage is not None:
        candidates = _with_stage(candidates, stage)
    to_mend = largest_first(candidates)
    is_fault_first = bool(to_mend) and _is_fault(to_mend[0])
    if gate is not None and gate.n_rows > 0 and is_fault_first:
        # the group with most rows of the gate first
        to_mend.sort(key=lambda group: -gate.n_rows_by_group.get(group.code, 0))
    return to_mend


def _with_stage(groups: Sequence[Group], stage: Group) -> list[Group]:
    """The groups with the stage in place of the faults of the search."""
    first_of_search = _ORDER.index(SEARCH_FAULTS[0])
    earlier = [group for group in groups if _ORDER.index(group.code) < first_of_search]
    later = [
        group
        for group in groups
        if group not in earlier and group.code not in SEARCH_FAULTS
    ]
    return [*earlier, stage, *later]


def _is_fault(group: Group) -> bool:
    """Whether its rows went wrong; those of other groups have no score."""
    return group.code in LOSSES or group.code in STAGE_TITLES


def why_first(
    to_mend: Sequence[Group],
    gate: GateAtRisk | None,
    journey: Journey,
    *,
    has_intervals: bool,
) -> str:
    """Say in how many rows the first thing to mend shows, and why it comes first.

    If it is a stage of the journey (of facts from retrieval to the answer), it is also
    said how much the stage lost.

    Args:
        to_mend: The groups to mend, in order.
        gate: The gate that did not pass, if any; by its rows ``to_mend`` is ordered.
        journey: What each stage lost.
        has_intervals: Whether the intervals hold.

    Returns:
        The words; "" if there is nothing to mend.
    """
    if not to_mend:
        return ""
    first_group = to_mend[0]
    words = count_in_words(first_group.count, "row")
    # the weight is how much there is to mend, by which the largest group comes first
    n_equal = sum(group.weight == first_group.weight for group in to_mend)
    is_of_gate = gate is not None and gate.n_rows > 0
    if not is_of_gate and n_equal > 1:
        words += ", as many as another; this comes first in the pipeline"
    stage = journey.stage_to_mend
    is_stage = first_group.code in STAGE_TITLES
    if not is_stage or stage is None:
        return words
    # without the first word of the title, which names what was lost
    what_happened = STAGE_TITLES[first_group.code].partition(" ")[2]
    share = f"{stage.lost:,} of {stage.of:,} {stage.unit} {what_happened}"
    if has_intervals:
        share += f", 95 % interval {interval_in_words(stage)}"
    return f"{share}; in {words}"


def how_found(to_mend: Sequence[Group], journey: Journey) -> str:
    """That a rule guessed the first of them, or nobody knows that it matters.

    "" where neither is so.
    """
    if not to_mend:
        return ""
    code = to_mend[0].code
    if code in SEARCH_FAULTS and journey.mend == OF_UNKNOWN_STAGE:
        return f"{_GUESSED} {_WHAT_WOULD_TELL}"
    if code in LOSSES:
        return _GUESSED
    return journey.caution if code in STAGE_TITLES else ""


def gate_in_words(gate: GateAtRisk | None, to_mend: Sequence[Group]) -> str:
    """How many rows that count against the gate at risk stand in the first group.

    "" where no gate is at risk, or none of them does.
    """
    if gate is None or not to_mend:
        return ""
    n_here = gate.n_rows_by_group.get(to_mend[0].code, 0)
    if not n_here:
        return ""
    verb = "counts" if gate.n_rows == 1 else "count"
    kind = "is of this kind" if n_here == 1 else "are of this kind"
    return (
        f"Of the {count_in_words(gate.n_rows, 'row')} that {verb} against {gate.metric},"
        f" whose gate is not passed, {n_here:,} {kind}."
    )
