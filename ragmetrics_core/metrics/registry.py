"""The metrics by name."""

import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from inspect import isfunction
from typing import Any

from ragmetrics_core.data import (
    NotJson,
    RowError,
    SettingError,
    did_you_mean,
    json_value,
    own,
)
from ragmetrics_core.metrics.context_adherence import ContextAdherence
from ragmetrics_core.metrics.context_recall import ContextRecall
from ragmetrics_core.metrics.context_utilization import ContextUtilization
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy

_SHIPPED: tuple[type[Metric], ...] = (
    ContextUtilization,
    ContextAdherence,
    ContextRecall,
    RetrievalAccuracy,
)
METRICS: dict[str, type[Metric]] = {
    metric.model_fields["name"].default: metric for metric in _SHIPPED
}


def metric_named(name: str, **settings: Any) -> Metric:
    """Make a metric from its name and settings.

    Args:
        name: Full or short name, e.g. ``context_adherence`` or ``adherence``; or
            ``module:name`` of one of your own, looked for as Python does, and in the
            working directory.
        **settings: Settings of the metric, where it is a class.

    Returns:
        The metric.

    Raises:
        SettingError: If no metric has this name, or a setting is invalid.

    Examples:
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
    problem = (
        "takes no settings"
        if isinstance(found, Metric)
        else "is no metric; make one with @metric or a class"
    )
    raise SettingError(f"{name} {problem}")


def full_name(name: str) -> str:
    """Return the full name of a metric from its full, short or class name.

    ``module:name`` of another metric stays as it is, but for white space around it.

    Raises:
        SettingError: If no metric has this name.

    Examples:
        >>> full_name("adherence")
        'context_adherence'
    """
    if ":" in name:
        return name.strip()
    plain = name.strip().casefold().replace("-", "_")
    for full, metric in METRICS.items():
        if plain in (full, full.rpartition("_")[2], metric.__name__.casefold()):
            return full
    plain = plain.removesuffix("metric").removesuffix("evaluator").strip("_")
    listed: dict[str, list[str]] = tomllib.loads(
        files("ragmetrics_core.metrics").joinpath("aliases.toml").read_text("utf-8")
    )
    others = {
        alias.replace("_", ""): full
        for full, own in listed.items()
        for alias in (full, *own)
    }
    others |= {shipped.rpartition("_")[2]: shipped for shipped in METRICS}
    own = "and module:name for one of your own, with --set module:name.field"
    near, names = did_you_mean(plain, others, stands_for=others), ", ".join(METRICS)
    raise SettingError(f"no metric is named {name!r}{near}; there are: {names}, {own}")


def metrics_set(
    names: Iterable[str] | None, settings: Iterable[str]
) -> Sequence[Metric]:
    """Metrics by name, None for all, with settings as they are written, e.g. ``adherence.polls=3``.

    Raises:
        SettingError: If a metric or setting is not known, or a setting is of a metric
            that is not among them.
    """
    given: dict[str, dict[str, Any]] = {
        full_name(name): {} for name in (METRICS if names is None else names)
    }
    for text in settings:
        place, equals, value = text.partition("=")
        metric, dot, setting = place.strip().rpartition(".")
        if not equals or not dot:
            raise SettingError(
                "--set is written METRIC.SETTING=VALUE, e.g. adherence.polls=3; got"
                f" {text!r}"
            )
        name = next(
            (place for place in given if place.endswith(f":{metric.strip()}")), None
        ) or full_name(metric)
        if name not in given:
            raise SettingError(
                f"--set {text}: {name} is not among the metrics of this run"
            )
        try:
            given[name][setting] = json_value(value)
        except NotJson:
            given[name][setting] = value
        except RowError as error:
            raise SettingError(f"--set {place}: {error}") from None
    return chosen([metric_named(name, **own) for name, own in given.items()])


def chosen(metrics: Iterable[Metric | str] | Metric | str | None) -> Sequence[Metric]:
    """Return the metrics of a run from objects and names, or all metrics for None.

    Raises:
        SettingError: If a name is not known, an object is no metric, or two metrics
            have one name.
    """
    if isinstance(metrics, (Metric, str)) or callable(metrics):
        metrics = [metrics]
    made = [
        metric_named(it) if isinstance(it, str) else it
        for it in (METRICS if metrics is None else metrics)
    ]
    for item in made:
        if not isinstance(item, Metric):
            raise SettingError(
                f"a metric must be a Metric or a name, got {_told_of(item)}"
            )
    names = [metric.name for metric in made]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(
            f"two metrics are named {', '.join(doubled)}; give one of them another"
            " name="
        )
    return made


def _told_of(item: object) -> str:
    """Return what was given in the place of a metric.

    It also says what to write instead, where that is known.
    """
    if isinstance(item, type) and issubclass(item, Metric):
        return f"the class {item.__name__}: write {item.__name__}()"
    if isfunction(item):
        return f"the function {item.__name__}: make a metric of it with @metric"
    return type(item).__name__
