"""The metrics by name, each imported when a run measures it."""

from collections import UserDict
from collections.abc import Iterable, Mapping, Sequence
from inspect import isfunction
from types import MappingProxyType
from typing import Any

import ragmetrics_core
from ragmetrics_core.data import (
    NotJson,
    RowError,
    SettingError,
    import_named_object,
    json_value,
)
from ragmetrics_core.data.name_matching import metric_meant_by
from ragmetrics_core.metrics.criterion import Criterion
from ragmetrics_core.metrics.metric import Metric

MetricLike = Metric | type[Metric] | str
"""A metric, its class, or its name."""


class _MetricClasses(UserDict[str, Any]):
    """Classes of metrics by the names that their results have.

    It is made of the names of the classes. A class is imported when it is asked for.
    """

    def __getitem__(self, name: str) -> type[Metric]:
        metric_class: type[Metric] = getattr(ragmetrics_core, super().__getitem__(name))
        return metric_class


_SHIPPED = {
    "context_utilization": "ContextUtilization",
    "context_adherence": "ContextAdherence",
    "context_recall": "ContextRecall",
    "retrieval_accuracy": "RetrievalAccuracy",
}
_SHIPPED_ON_REQUEST = {
    "context_sufficiency": "ContextSufficiency",
    "answer_relevance": "AnswerRelevance",
    "citation_quality": "CitationQuality",
    "retrieval_ranking": "RetrievalRanking",
}
_CLASS_NAME_BY_NAME = _SHIPPED | _SHIPPED_ON_REQUEST
_CRITERION = "criterion"  # what a description calls each of a user's own

METRICS: Mapping[str, type[Metric]] = MappingProxyType(_MetricClasses(_SHIPPED))
"""The metrics of a run that names none, by their names."""

NAMED_METRICS: Mapping[str, type[Metric]] = MappingProxyType(
    _MetricClasses(_CLASS_NAME_BY_NAME)
)
"""All metrics that ship, by their names; a run measures the others if it names them."""

# "relevance" alone is elsewhere the relevance of contexts, too; "quality" is anything.
_WITHOUT_SHORT_NAME = frozenset({"answer_relevance", "citation_quality"})


def metric_named(name: str, settings: Mapping[str, Any] | None = None) -> Metric:
    """Make a metric from its name and settings.

    Args:
        name: Full or short name, e.g. ``context_adherence`` or ``adherence``; or
            ``module:name`` of one of your own, looked for as Python does, and in the
            working directory.
        settings: Settings of the metric by their names, where it is a class; None for
            none. Which ones there are depends on the metric.

    Returns:
        The metric.

    Raises:
        SettingError: If no metric has this name, or a setting is invalid.

    Examples:
        >>> metric_named("adherence", {"polls": 3}).polls
        3
    """
    settings_given = settings or {}
    if ":" not in name:
        return NAMED_METRICS[full_name(name)](**settings_given)
    named = import_named_object(name)
    if isinstance(named, type) and issubclass(named, Metric):
        return named(**settings_given)
    if not isinstance(named, Metric):
        raise SettingError(f"{name} is no metric; make one with @metric or a class")
    if settings_given:
        raise SettingError(f"{name} takes no settings")
    return named


def metrics_described(descriptions: Any) -> Sequence[Metric]:
    """Make the metrics that a program or a file of settings describes.

    Args:
        descriptions: One or several; None for ``METRICS``. Each is a metric, the name of
            one, or ``{"name": "context_adherence", "settings": {"polls": 3}}``; a
            criterion's name is "criterion".

    Raises:
        SettingError: If a description has other keys, or a name or setting is unknown.
    """
    is_one = isinstance(descriptions, (str, Metric, Mapping))
    metrics: list[Any] = []
    for described in [descriptions] if is_one else descriptions or ():
        metric = described
        if isinstance(described, Mapping):
            if not {"name"} <= set(described) <= {"name", "settings"}:
                raise SettingError(
                    "a metric is described by name and settings, got"
                    f" {', '.join(described)}"
                )
            settings = dict(described.get("settings") or {})
            name = str(described["name"])
            is_criterion = name == _CRITERION
            metric = (
                Criterion(**settings) if is_criterion else metric_named(name, settings)
            )
        metrics.append(metric)
    return choose_metrics(None if descriptions is None else metrics)


def description_of(metric: Metric) -> dict[str, Any] | None:
    """Describe a metric as data of JSON, for ``metrics_described``.

    Returns:
        Its name, and the settings that are not the usual; None if it is none of ours.
    """
    for name, metric_class in {**NAMED_METRICS, _CRITERION: Criterion}.items():
        if type(metric) is metric_class:
            settings = metric.model_dump(mode="json", exclude_defaults=True)
            return {"name": name, "settings": settings}
    return None


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
    for full, class_name in _CLASS_NAME_BY_NAME.items():
        short = full if full in _WITHOUT_SHORT_NAME else full.rpartition("_")[2]
        if plain in (full, short, class_name.casefold()):
            return full
    meant = metric_meant_by(plain)
    near = f" (did you mean {meant!r}?)" if meant else ""
    raise SettingError(
        f"no metric is named {name!r}{near}; there are: {', '.join(NAMED_METRICS)}, and"
        " module:name for one of your own, with --set module:name.field"
    )


def metrics_with_settings(
    names: Iterable[str] | None, settings: Iterable[str], criteria: Iterable[str] = ()
) -> Sequence[Metric]:
    """Make metrics by name, with settings as they are written on a command line.

    Example: the names ["adherence"] and the settings ["adherence.polls=3"] make a
    ``ContextAdherence`` with 3 polls.

    Args:
        names: Full or short names; None for ``METRICS``.
        settings: Texts such as ``adherence.polls=3``.
        criteria: Further metrics, each as ``polite: The answer is polite.``

    Raises:
        SettingError: If a metric or setting is not known, or a setting is of a metric
            that is not among them.
    """
    names = METRICS if names is None else names
    settings_by_metric: dict[str, dict[str, Any]] = {
        full_name(name): {} for name in names
    }
    shipped_or_own = list(settings_by_metric)
    named_lines = [(Criterion.of_line(line).name, line) for line in criteria]
    settings_by_metric |= {name: {} for name, _ in named_lines}
    for text in settings:
        # the name of a metric of somebody's own module may have dots
        place, equals, value = text.partition("=")
        metric, dot, setting = place.strip().rpartition(".")
        metric = metric.strip()
        if not equals or not dot:
            raise SettingError(
                "--set is written METRIC.SETTING=VALUE, e.g. adherence.polls=3; got"
                f" {text!r}"
            )
        setting_value: Any = value
        try:
            setting_value = json_value(value)
        except NotJson:  # a text
            pass
        except RowError as error:
            raise SettingError(f"--set {place}: {error}") from None
        # One of the user's own may be called by what follows its colon, a criterion by
        # its name.
        names_in_run = [
            name
            for name in settings_by_metric
            if name == metric or name.endswith(f":{metric}")
        ]
        name = names_in_run[0] if names_in_run else full_name(metric)
        if name not in settings_by_metric:
            raise SettingError(
                f"--set {text}: {name} is not among the metrics of this run"
            )
        settings_by_metric[name][setting] = setting_value
    metrics = [metric_named(name, settings_by_metric[name]) for name in shipped_or_own]
    for name, line in named_lines:
        metrics.append(Criterion.of_line(line, **settings_by_metric[name]))
    return choose_metrics(metrics)


def choose_metrics(
    metrics: Iterable[MetricLike] | MetricLike | None,
) -> Sequence[Metric]:
    """Return the metrics of a run from objects, classes and names.

    Example: ``["context_adherence", ContextRecall, my_metric]`` gives three metric
    objects; a class stands for its metric with the usual settings.

    Args:
        metrics: One metric, class or name, or several; None for ``METRICS``.

    Raises:
        SettingError: If a name is not known, an object is no metric, or two metrics
            have one name.
    """
    given: Iterable[Any]
    if metrics is None:
        given = METRICS
    elif isinstance(metrics, (Metric, str, type)) or callable(metrics):
        # A class cannot be iterated, nor can a function, which as one of a list gets an
        # error that helps.
        given = [metrics]
    else:
        given = metrics
    chosen_metrics: list[Any] = []
    for metric in given:
        if isinstance(metric, str):
            metric = metric_named(metric)
        elif isinstance(metric, type) and issubclass(metric, Metric):
            metric = metric()
        chosen_metrics.append(metric)
    for metric in chosen_metrics:
        if isfunction(metric):
            raise SettingError(
                "a metric must be a Metric or a name, got the function"
                f" {metric.__name__}: make a metric of it with @metric"
            )
        if not isinstance(metric, Metric):
            raise SettingError(
                f"a metric must be a Metric or a name, got {type(metric).__name__}"
            )
    names = [metric.name for metric in chosen_metrics]
    repeated_names = sorted({name for name in names if names.count(name) > 1})
    if repeated_names:
        raise SettingError(
            f"two metrics are named {', '.join(repeated_names)}; give one of them"
            " another name="
        )
    return chosen_metrics
