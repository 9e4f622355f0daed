"""The stages of the journey on the first screen, and the rows in which each lost something.

A stage is named by what is counted and what became of it, as in ``facts.not_shown``.
"""

from collections.abc import Sequence
from typing import get_args

from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.journey import ADVICE, Advice, Journey, StageLoss, Unit
from ragmetrics_core.reporting.recorded_passages import Loss
from ragmetrics_core.reporting.sample_journey import SampleJourney

UNITS: tuple[Unit, ...] = get_args(Unit)
SEARCH_FAULTS = ("outside_store", "retrieval", "dropped")
"""Groups of rows whose retrieved text lacks the answer, as a rule guesses from scores.

Where the journey knows which stage lost it, the stage is named in their place.
"""


OF_UNKNOWN_STAGE: Loss = "missing"
"""The loss of facts that the search or a later step lost; nobody knows which."""


def code_of_stage(unit: Unit, loss: Loss) -> str:
    """The name of a stage."""
    return f"{unit}.{loss}"


STAGE_ADVICE: dict[str, Advice] = {
    code_of_stage(unit, loss): advice
    for unit in UNITS
    for loss, advice in ADVICE.items()
}
"""What each stage is called, and what to do about its loss."""

STAGE_TITLES = {
    code: f"{code.partition('s.')[0]} {advice.title}"
    for code, advice in STAGE_ADVICE.items()
}
"""What became of a fact or a passage, in words."""


def stages_of_row(sample: SampleJourney, group: str) -> Sequence[str]:
    """The stages that lost something of a row which it needed.

    A fact of the reference was needed. Of a lost passage nobody knows that, so it
    counts only in a row whose retrieved text lacks the answer.
    """
    if group in SEARCH_FAULTS:
        return losses_of_row(sample)
    return _losses_of_facts(sample)


def losses_of_row(sample: SampleJourney) -> Sequence[str]:
    """List the stages that lost a fact or a passage of a row, stages of facts first."""
    codes = list(_losses_of_facts(sample))
    for passage in sample.passages:
        if passage.lost is not None:
            codes.append(code_of_stage("passages", passage.lost))
        if passage.shown == "cut":
            codes.append(code_of_stage("passages", "cut"))
    return tuple(dict.fromkeys(codes))


def _losses_of_facts(sample: SampleJourney) -> Sequence[str]:
    """List the stages that lost a fact of a row, each once."""
    codes = [
        code_of_stage("facts", fact.lost)
        for fact in sample.facts
        if fact.known and fact.lost is not None
    ]
    return tuple(dict.fromkeys(codes))


def journey_in_words(
    journey: Journey, *, has_intervals: bool, are_drawn: bool = False
) -> str:
    """Say in one line what each stage, from the search to the answer, lost.

    Example: "Lost on the way: 9 of 40 passages dropped between search and prompt.
    Nothing was lost at 2 other stages of which something is known." If too much is
    unknown to name a stage to mend first, it says so. "" if nothing is known of any
    stage.

    Args:
        journey: What each stage lost.
        has_intervals: Whether to give the 95 % interval of each share, "(12 to 38 %)".
        are_drawn: Whether the rows were drawn at random from those of the run.
    """
    stages_with_loss = [stage for stage in journey.stages if stage.lost]
    n_stages_without_loss = len(journey.stages) - len(stages_with_loss)
    sentences = []
    if stages_with_loss:
        title = "Lost on the way"
        if are_drawn:
            title += " in the rows drawn"
        if has_intervals:
            title += ", with 95 % intervals"
        stages = "; ".join(
            stage_in_words(stage, has_interval=has_intervals)
            for stage in stages_with_loss
        )
        sentences.append(f"{title}: {stages}.")
    if n_stages_without_loss:
        others = "other " if stages_with_loss else ""
        words = count_in_words(n_stages_without_loss, f"{others}stage")
        sentences.append(f"Nothing was lost at {words} of which something is known.")
    if sentences and journey.why_no_stage:
        sentences.append(journey.why_no_stage)
    return " ".join(sentences)


def stage_in_words(stage: StageLoss, *, has_interval: bool) -> str:
    """Say in words how much one stage lost, and how much each named step dropped.

    For example: "9 of 40 passages dropped between search and prompt (12 to 38 %), 9 by
    reranker".
    """
    title = ADVICE[stage.loss].title
    words = f"{stage.lost:,} of {stage.of:,} {stage.unit} {title}"
    if has_interval:
        words += f" ({interval_in_words(stage)})"
    if stage.by:
        names = [f"{count:,} by {name}" for name, count in stage.by.items()]
        words += f", {', '.join(names)}"
    return words


def interval_in_words(stage: StageLoss) -> str:
    """The interval of the share that a stage lost."""
    low_percent = round(100 * stage.interval.low)
    high_percent = round(100 * stage.interval.high)
    return f"{low_percent} to {high_percent} %"
