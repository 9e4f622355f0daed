"""The one table of what a room uses of those above it, each imported when it is used.

Rooms that nobody needs may be left out of an installation, such as scale, traces and
data sets. Then what needs one says so, and everything else works.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from ragmetrics_core.data.errors import MissingDependency


class _DeferredName(NamedTuple):
    """Where a deferred name stands, and what it is needed for."""

    module: str
    attribute: str
    needed_for: str


_DEFERRED_NAMES = {
    # a report and a comparison as pages
    "write_page": _DeferredName("page.render", "write_page", "a page of results"),
    "write_comparison": _DeferredName(
        "page.comparison_page", "write_comparison", "a page of a comparison"
    ),
    # evaluate(batch=) and Report.from_parquet
    "ParkingStore": _DeferredName("scale.batches", "ParkingStore", "a run in batches"),
    "ParquetReport": _DeferredName(
        "scale.parquet_report", "ParquetReport", "reading results of a Scorer"
    ),
    # Report.write_to a target by its name
    "target_named": _DeferredName(
        "traces.targets", "target_named", "writing onto traces"
    ),
    # Metric.score, which the engine carries out
    "score_one": _DeferredName("engine.scoring", "score_one", "scoring"),
    "submit_to_loop": _DeferredName("engine.loop", "submit", "scoring"),
    "wait_on_loop": _DeferredName("engine.loop", "run", "scoring"),
    # an async function under @metric
    "run_metric": _DeferredName("engine.loop", "run_metric", "an async metric"),
}


def import_deferred(name: str) -> Any:
    """Import what stands in the table under this name.

    Raises:
        MissingDependency: If its room was left out of this installation.
    """
    place = _DEFERRED_NAMES[name]
    with whole_installation_for(place.needed_for):
        module = import_module(f"ragmetrics_core.{place.module}")
    return getattr(module, place.attribute)


@contextmanager
def whole_installation_for(purpose: str) -> Iterator[None]:
    """Say what to do where a package of ours was left out of this installation.

    Args:
        purpose: What needs it, which begins the sentence, such as "a page of results".

    Raises:
        MissingDependency: If the block imports a package of ours that is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        first, _, rest = (error.name or "").partition(".")
        if first != "ragmetrics_core":
            raise  # something that a package of ours needs
        raise MissingDependency(
            f"{purpose} needs ragmetrics_core.{rest.partition('.')[0]}, which is not"
            " installed: install ragmetrics-core again, with all of its packages"
        ) from error
