"""A metric made of a function: a plan that asks questions, or a plain function of the sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from typing import Any, ClassVar

from ragmetrics_core.data.errors import JudgeError, MetricCrashed, SettingError
from ragmetrics_core.data.results import Failed, Scored, Undefined
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan

Given = float | bool | None | Outcome
Function = Callable[[Sample], Given | Generator[Any, Any, Given]]


class FunctionMetric(Metric):
    """What ``@metric`` makes of a function, each in a class of its own; its settings are those of every metric."""

    function: ClassVar[Function]

    def plan(self, sample: Sample) -> Plan:
        """Carry out the function; what it returns becomes the outcome."""
        try:
            given = type(self).function(sample)
            if isinstance(given, Generator):
                given = yield from given
        except JudgeError as error:
            return self.failed(error)
        return self._outcome(given)

    def _outcome(self, given: Any) -> Outcome:
        if isinstance(given, (Scored, Undefined, Failed)):
            return given.model_copy(update={"metric": self.name})
        if given is None:
            return self.undefined("the metric is not defined for this sample", "other")
        if not isinstance(given, (bool, int, float)) or not 0 <= given <= 1:
            shown = given if isinstance(given, (int, float)) else type(given).__name__
            message = f"{self.name} must return a number from 0 to 1, a bool or None, got {shown}"
            return self.failed(MetricCrashed(message))
        return self.scored(float(given), f"{self.name} of this sample is {given}.")

    def __reduce__(self) -> Any:
        """Pickled by the place of its function, where the metric now stands."""
        function = type(self).function
        return _found, (function.__module__, function.__qualname__, self.name, self.model)


def metric(
    *, name: str | None = None, version: str = "1", requires: Sequence[str | Sequence[str]] = ()
) -> Callable[[Function], FunctionMetric]:
    """Make a metric of a function.

    A generator function is a plan: it asks with ``replies = yield from ask([...])``. A plain function takes a sample
    and runs in a worker thread. Both return a number in [0, 1], a bool (0 or 1), None (undefined) or a whole outcome.

    Args:
        name: Name of the metric; by default that of the function.
        version: Changes whenever scores change.
        requires: Fields that a sample must hold; of a group of fields one is enough.

    Returns:
        A decorator. What the function raises or returns out of range is *failed*, naming the metric.

    Raises:
        SettingError: If a sample has no such field.

    Example:
        >>> from ragmetrics_core import Sample
        >>> @metric(requires=["answer"])
        ... def brevity(sample: Sample) -> bool:
        ...     return len(sample.answer or "") < 100
        >>> brevity.score(answer="Paris.").value
        1.0
    """
    groups = tuple((group,) if isinstance(group, str) else tuple(group) for group in requires)
    unknown = sorted({field for group in groups for field in group} - set(Sample.model_fields))
    if unknown:
        raise SettingError(f"requires names {', '.join(unknown)}; a sample has: {', '.join(Sample.model_fields)}")

    def made(function: Function) -> FunctionMetric:
        members = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "version": version,
            "requires": groups,
            "in_thread": not inspect.isgeneratorfunction(function),
            "function": staticmethod(function),
        }
        kind: type[FunctionMetric] = type(function.__name__, (FunctionMetric,), members)
        return kind(name=name or function.__name__)

    return made


def _found(module: str, path: str, name: str, model: str | None) -> Any:
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found.model_copy(update={"name": name, "model": model})
