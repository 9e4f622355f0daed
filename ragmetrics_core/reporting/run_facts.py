"""What is known of a run as a whole, beside its results."""

from __future__ import annotations

from pydantic import Field

from ragmetrics_core.model.frozen import Frozen


class RunFacts(Frozen):
    """Facts of one run.

    Args:
        version: Version of ragmetrics that made the run.
        judges: Names of the judges asked.
        metrics: For each metric asked for, by name, its signature; the order is that of the report.
        started: When the run began, ISO 8601 in UTC.
        seconds: How long it took.
        concurrency: Calls to the judge that could run at the same time.
        interrupted: True if the run ended before every sample was judged.
        stopped: Why the run ended early, in words; "" if it did not.
        notes: What else the reader should know, e.g. that a metric was left out.
    """

    version: str = ""
    judges: tuple[str, ...] = ()
    metrics: dict[str, str] = Field(default_factory=dict)
    started: str = ""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    concurrency: int = 1
    interrupted: bool = False
    stopped: str = ""
    notes: tuple[str, ...] = ()
