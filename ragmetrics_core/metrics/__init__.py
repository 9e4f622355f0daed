"""Metrics: pure plans that ask typed questions and turn the replies into scores.

Scores come with evidence. No plan does I/O. The classes of the metrics that ship can be
imported from here, too: ``from ragmetrics_core.metrics import ContextUtilization``.
"""


def __getattr__(name: str) -> type:
    """Import the class of a metric when it is asked for."""
    import ragmetrics_core
    from ragmetrics_core.metrics.metric import Metric

    value = getattr(ragmetrics_core, name, None)
    if isinstance(value, type) and issubclass(value, Metric):
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
