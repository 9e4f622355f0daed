"""Spark: a frame is scored in the executors, partition by partition.

The driver sees no sample.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any

from ragmetrics_core.data import SettingError, import_extra
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.scale.scorer import Scorer


def score_frame(frame: Any, scorer: Scorer, *, partitions: int | None = None) -> Any:
    """Score a Spark frame.

    Example: with limits of 100 calls and ``partitions=4`` each part may make 25 calls.

    Args:
        frame: The frame, one sample in each row.
        scorer: Scores the rows. Its limits are divided evenly among the partitions. A
            partition that Spark tries again may spend its share again.
        partitions: How many parts the frame is divided into. With limits it must be
            given; limits per minute are used best with one partition per core. None
            keeps the frame's own partitions.

    Returns:
        The frame with the columns of ``Scorer.__call__``, not yet computed.

    Raises:
        SettingError: If limits come without ``partitions``, or a column of the frame
            has the name of an added one.
        MissingDependency: If the extra ``spark`` is not installed.
    """
    types = import_extra("pyspark.sql.types", "spark", "scoring a Spark frame")
    arrow = import_extra("pyspark.sql.pandas.types", "spark", "scoring a Spark frame")
    scorer_of_partition = copy(scorer)
    if scorer.limits is not None:
        if partitions is None:
            raise SettingError(
                "limits are divided among the partitions: say how many, with"
                " partitions="
            )
        scorer_of_partition.limits = share_of_limits(scorer.limits, partitions)
    added = arrow.from_arrow_schema(scorer.added_schema(frame.columns))

    def score_batches(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from scorer_of_partition(batch).to_batches()

    parts = frame if partitions is None else frame.repartition(partitions)
    return parts.mapInArrow(
        score_batches, types.StructType([*frame.schema.fields, *added.fields])
    )


def share_of_limits(limits: Limits, parts: int) -> Limits:
    """Divide limits among parts that spend by themselves.

    Example: 100 calls and $10 for 4 parts: 25 calls and $2.50 for each.

    Returns:
        What one part may spend. All parts together then keep the limits.

    Raises:
        SettingError: If there are fewer calls than parts.
    """
    if limits.max_calls is not None and limits.max_calls < parts:
        raise SettingError(
            f"max_calls={limits.max_calls} leaves no call for some of {parts}"
            " partitions: take fewer"
        )
    shares: dict[str, float] = {}
    for name in ("max_cost", "requests_per_minute"):
        limit = getattr(limits, name)
        if limit is not None:
            shares[name] = limit / parts
    if limits.max_calls is not None:
        shares["max_calls"] = limits.max_calls // parts
    return limits.model_copy(update=shares)
