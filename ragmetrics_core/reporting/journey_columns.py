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


def counts_of(row: SampleResult) -> dict[str, int | str | None]:
    """Count what passed each stage of one row, by ``COLUMNS``; None: not known."""
    followed = journey_of(row)
    if followed is None:
        return dict.fromkeys(COLUMNS)
    counts = {**_counts_of_passages(followed), **_counts_of_facts(followed)}
    return {**counts, "lost_at": first_to_mend([followed])}


def _counts_of_passages(followed: SampleJourney) -> dict[str, int | None]:
    unknown = followed.unknown
    retrieved = [one for one in followed.passages if one.rank is not None]
    shown = [one for one in followed.passages if one.was_shown]
    counts: dict[str, int | None] = dict.fromkeys(COUNTS)
    if "retrieved" not in unknown:
        counts["passages_retrieved"] = len(retrieved)
    if "kept" not in unknown:
        counts["passages_kept"] = sum(one.kept is not False for one in retrieved)
    if "shown" in unknown:
        return counts
    counts["passages_shown"] = len(shown)
    counts["passages_cut"] = sum(one.shown == "cut" for one in shown)
    if "useful" not in unknown:
        counts["passages_useful"] = sum(one.useful is True for one in shown)
    if "cited" not in unknown:
        counts["passages_cited"] = sum(one.cited is True for one in shown)
    return counts


def _counts_of_facts(followed: SampleJourney) -> dict[str, int | None]:
    facts = followed.facts
    if not facts:
        return {}
    counts: dict[str, int | None] = {"facts_asked": len(facts)}
    if not followed.is_settled:
        return counts
    if "retrieved" not in followed.unknown:
        counts["facts_retrieved"] = sum(one.lost != "not_retrieved" for one in facts)
    counts["facts_shown"] = sum(one.lost is None for one in facts)
    return counts
