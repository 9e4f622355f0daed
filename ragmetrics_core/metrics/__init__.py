"""Metrics: pure plans that ask typed questions and turn the replies into scores.

Scores come with evidence. No plan does I/O. The classes of the metrics that ship can be
imported from here, too: ``from ragmetrics_core.metrics import ContextUtilization``.
"""


def __getattr__(name: str) -> type:
    """Import the class of a metric when it is asked for."""
    from ragmetrics_core.metrics.registry import NAMED_METRICS

    for metric_class in NAMED_METRICS.values():
        if metric_class.__name__ == name:
            return metric_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
