"""Scoring tables that no single machine holds, on engines that exist: Ray Data, Spark, Daft; see docs/scale.md."""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
