"""The metrics by name."""

from collections.abc import Iterable, Sequence
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.extras import own
from ragmetrics_core.metrics.context_adherence import ContextAdherence
from ragmetrics_core.metrics.context_recall import ContextRecall
from ragmetrics_core.metrics.context_utilization import ContextUtilization
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy

_SHIPPED: tuple[type[Metric], ...] = (ContextUtilization, ContextAdherence, ContextRecall, RetrievalAccuracy)
METRICS: dict[str, type[Metric]] = {metric.model_fields["name"].default: metric for metric in _SHIPPED}


def metric_named(name: str, **settings: Any) -> Metric:
    """Make a metric from its name and settings.

    Args:
        name: Full or short name, e.g. ``context_adherence`` or ``adherence``; or ``module:name`` of one of your own,
            looked for as Python does, and in the working directory.
        **settings: Settings of the metric, where it is a class.

    Returns:
        The metric.

    Raises:
        SettingError: If no metric has this name, or a setting is invalid.

    Example:
        >>> metric_named("adherence", polls=3).polls
        3
    """
    if ":" not in name:
        return METRICS[full_name(name)](**settings)
    found = own(name)
    if isinstance(found, Metric) and not settings:
        return found
    if isinstance(found, type) and issubclass(found, Metric):
        return found(**settings)
    problem = "takes no settings" if isinstance(found, Metric) else "is no metric; make one with @metric or a class"
    raise SettingError(f"{name} {problem}")


def full_name(name: str) -> str:
    """Full name of a metric from its full, short or class name.

    Raises:
        SettingError: If no metric has this name.

    Example:
        >>> full_name("adherence")
        'context_adherence'
    """
    plain = name.strip().casefold().replace("-", "_")
    for full, metric in METRICS.items():
        if plain in (full, full.rpartition("_")[2], metric.__name__.casefold()):
            return full
    raise SettingError(
        f"no metric is named {name!r}; there are: {', '.join(METRICS)}, and module:name for one of your own, "
        "with --set module:name.field"
    )


def chosen(metrics: Iterable[Metric | str] | Metric | str | None) -> Sequence[Metric]:
    """Metrics of a run from objects and names, None for all; ``SettingError`` for unknown names, or one name twice."""
    if isinstance(metrics, (Metric, str)):
        metrics = [metrics]
    made = [metric_named(it) if isinstance(it, str) else it for it in (METRICS if metrics is None else metrics)]
    for metric in made:
        if not isinstance(metric, Metric):
            raise SettingError(f"a metric must be a Metric or a name, got {type(metric).__name__}")
    names = [metric.name for metric in made]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f"two metrics are named {', '.join(doubled)}; give one of them another name=")
    return made
