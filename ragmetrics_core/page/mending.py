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

    ``n_rows_against_by_group`` counts them by group and by stage of the journey.
    """

    metric: str
    n_rows_against: int
    n_rows_against_by_group: Mapping[str, int]


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
    groups: Sequence[Group], measured_stage: Group | None, gate: GateAtRisk | None
) -> list[Group]:
    """Order the groups of rows that have something to mend, the most important first.

    They are ordered by size, or by the rows that count against the gate. Example:
    1 row of a group of 9 fails the gate, and 3 rows of a group of 4: the second group
    comes first.

    Args:
        groups: All groups of rows, in the order of the pipeline.
        measured_stage: The rows in which a recorded step, such as the search, lost
            something. This group replaces the groups of faults of the search, which are
            only guessed from scores. None if nothing was recorded.
        gate: The gate that did not pass; None if all did.
    """
    candidates = [group for group in groups if group.mending is not None]
    if measured_stage is not None:
        candidates = _with_measured_stage(candidates, measured_stage)
    to_mend = largest_first(candidates)
    # The largest group may consist of rows without a score. It stays first, as no gate
    # counts its rows.
    if gate is None or gate.n_rows_against == 0 or _must_be_scored_first(to_mend):
        return to_mend
    n_against_by_group = gate.n_rows_against_by_group
    return sorted(
        to_mend, key=lambda group: n_against_by_group.get(group.code, 0), reverse=True
    )


def _with_measured_stage(groups: Sequence[Group], measured_stage: Group) -> list[Group]:
    """The groups with the measured stage in place of the faults of the search.

    Those faults are only guessed from scores.
    """
    first_of_search = _ORDER.index(SEARCH_FAULTS[0])
    earlier = [group for group in groups if _ORDER.index(group.code) < first_of_search]
    later = [
        group
        for group in groups
        if group not in earlier and group.code not in SEARCH_FAULTS
    ]
    return [*earlier, measured_stage, *later]


def _must_be_scored_first(to_mend: Sequence[Group]) -> bool:
    """Whether the largest group has rows without a score: no gate knows these rows."""
    return bool(to_mend) and not _is_fault(to_mend[0])


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
    """Say how many rows the first group to mend has, and why it comes first.

    For example "12 rows", or "9 of 40 facts in no retrieved text; in 12 rows" for a
    stage that lost them. "" if there is nothing to mend.

    Args:
        to_mend: The groups to mend, in order.
        gate: The gate that did not pass; None if all did.
        journey: What each stage lost.
        has_intervals: Whether to name the interval of the share that was lost.
    """
    if not to_mend:
        return ""
    words = count_in_words(to_mend[0].count, "row")
    if _decides_order_in_pipeline(to_mend, gate):
        words += ", as many as another; this comes first in the pipeline"
    loss = _stage_loss(to_mend[0], journey, has_intervals=has_intervals)
    return f"{loss}; in {words}" if loss else words


def _decides_order_in_pipeline(
    to_mend: Sequence[Group], gate: GateAtRisk | None
) -> bool:
    """Whether the first group comes first only because it is early in the pipeline.

    That is so if another group weighs as much, and no gate orders the groups.
    """
    if gate is not None and gate.n_rows_against > 0:
        return False
    weights = [group.weight for group in to_mend]
    return weights.count(weights[0]) > 1


def _stage_loss(group: Group, journey: Journey, *, has_intervals: bool) -> str:
    """For example "9 of 40 facts in no retrieved text"; "" if the group is no stage."""
    stage = journey.stage_to_mend
    if stage is None or group.code not in STAGE_TITLES:
        return ""
    # the title is "fact in no retrieved text"
    _, _, what_happened = STAGE_TITLES[group.code].partition(" ")
    loss = f"{stage.lost:,} of {stage.of:,} {stage.unit} {what_happened}"
    if has_intervals:
        loss += f", 95 % interval {interval_in_words(stage)}"
    return loss


def how_found(to_mend: Sequence[Group], journey: Journey) -> str:
    """Say how surely the first group to mend is known.

    Either a rule guessed it from scores, or a stage is known to have lost something of
    which nobody knows whether it was needed; "" where neither is so.
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
    """Say how many of the rows that count against a gate are in the first group.

    "" where all gates passed, or no such row is in the group. Example: "Of the 6 rows
    that count against context_recall, whose gate is not passed, 4 are of this kind."
    """
    if gate is None or not to_mend:
        return ""
    n_here = gate.n_rows_against_by_group.get(to_mend[0].code, 0)
    if not n_here:
        return ""
    verb = "counts" if gate.n_rows_against == 1 else "count"
    kind = "is of this kind" if n_here == 1 else "are of this kind"
    return (
        f"Of the {count_in_words(gate.n_rows_against, 'row')} that {verb} against"
        f" {gate.metric}, whose gate is not passed, {n_here:,} {kind}."
    )
