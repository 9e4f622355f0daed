"""The journey of each row as columns of a table."""

from ragmetrics_core.data import SampleResult
from ragmetrics_core.reporting.journey import first_to_mend
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

COUNTS = (
    "passages_retrieved",
    "passages_kept",
    "passages_shown",
    "passages_cut",
    "passages_useful",
    "passages_cited",
    "facts_asked",
    "facts_retrieved",
    "facts_shown",
)
COLUMNS = (*COUNTS, "lost_at")
"""Names of the columns that a table has of the journey of each row."""

# by count of passages: the stages that must be known for this count
_STAGES_TO_KNOW = {
    "passages_retrieved": ("retrieved",),
    "passages_kept": ("kept",),
    "passages_shown": ("shown",),
    "passages_cut": ("shown",),
    "passages_useful": ("shown", "useful"),
    "passages_cited": ("shown", "cited"),
}


def counts_of(row: SampleResult) -> dict[str, int | str | None]:
    """Count what passed each stage of one row, by ``COLUMNS``; None: not known."""
    return counts_of_journey(journey_of(row))


def counts_of_journey(journey: SampleJourney | None) -> dict[str, int | str | None]:
    """Count what passed each stage of a journey, by ``COLUMNS``; None: not known."""
    if journey is None:
        return dict.fromkeys(COLUMNS)
    counts = {**_counts_of_passages(journey), **_counts_of_facts(journey)}
    return {**counts, "lost_at": first_to_mend([journey])}


def _counts_of_passages(journey: SampleJourney) -> dict[str, int | None]:
    """Count the passages that passed each stage; None where that is not known.

    Example: of 5 retrieved passages a filter dropped 2, and citations are not known:
    retrieved 5, kept 3, cited None.
    """
    retrieved = [passage for passage in journey.passages if passage.rank is not None]
    shown = [passage for passage in journey.passages if passage.was_shown]
    n_by_column = {
        "passages_retrieved": len(retrieved),
        "passages_kept": sum(passage.kept is not False for passage in retrieved),
        "passages_shown": len(shown),
        "passages_cut": sum(passage.shown == "cut" for passage in shown),
        "passages_useful": sum(passage.useful is True for passage in shown),
        "passages_cited": sum(passage.cited is True for passage in shown),
    }
    counts: dict[str, int | None] = dict.fromkeys(COUNTS)
    for column, n_passages in n_by_column.items():
        # a count is known only if the stages that it rests on are
        stages = _STAGES_TO_KNOW[column]
        if not any(stage in journey.unknown for stage in stages):
            counts[column] = n_passages
    return counts


def _counts_of_facts(journey: SampleJourney) -> dict[str, int]:
    """Count the facts that were asked about, retrieved, and shown in the prompt.

    Counts that are not known are left out. There are none if there are no facts.
    """
    facts = journey.facts
    if not facts:
        return {}
    counts = {"facts_asked": len(facts)}
    # for each fact whether retrieval lost it; None where that is not known
    lost_in_retrieval = [
        dict(journey.stages_reached(fact)).get("not_retrieved") for fact in facts
    ]
    if None not in lost_in_retrieval:
        counts["facts_retrieved"] = lost_in_retrieval.count(False)
    if journey.knows_every_fact:
        counts["facts_shown"] = sum(fact.lost is None for fact in facts)
    return counts
