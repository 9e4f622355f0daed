"""Metrics as a pipeline's YAML holds them: names, or names with settings; foreign ones by import path."""

from collections.abc import Mapping, Sequence
from typing import Any

from haystack.core.serialization import generate_qualified_class_name, import_class_by_name

from ragmetrics_core import Metric
from ragmetrics_core.capturing import METRICS, SettingError, chosen, metric_named

MetricLike = str | Metric | dict[str, Any]


def made(metrics: Sequence[MetricLike] | MetricLike | None) -> tuple[Metric, ...]:
    """Metrics from names, objects and ``{"name": …, "settings": {…}}``, with ``"type"`` for an import path.

    None makes all four; Haystack's allowlist must hold the path.

    Raises:
        SettingError: If a name or setting is unknown.
        DeserializationError: If an import path is not on the allowlist.
    """
    given = [metrics] if isinstance(metrics, (str, Metric, Mapping)) else metrics
    return tuple(chosen(None if given is None else [_made(one) for one in given]))


def _made(one: object) -> Metric:
    if isinstance(one, Metric):
        return one
    if isinstance(one, str):
        return metric_named(one)
    if not isinstance(one, Mapping) or not ({"name", "type"} & set(one)) or set(one) - {"name", "type", "settings"}:
        raise SettingError("a metric is a name, a Metric, or {name or type, settings}, got " + type(one).__name__)
    settings = dict(one.get("settings") or {})
    if "name" in one:
        return type(metric_named(str(one["name"])))(**settings)  # a setting may be called name, too
    found = import_class_by_name(str(one["type"]))
    if not issubclass(found, Metric):
        raise SettingError(f"{one['type']} is no Metric")
    return found(**settings)


def stored(metric: Metric) -> str | dict[str, Any]:
    """What YAML holds of a metric."""
    settings = metric.model_dump(mode="json", exclude_defaults=True)
    name = next((name for name, known in METRICS.items() if type(metric) is known), None)
    if name is None:
        return {"type": generate_qualified_class_name(type(metric)), "settings": settings}
    return {"name": name, "settings": settings} if settings else name
