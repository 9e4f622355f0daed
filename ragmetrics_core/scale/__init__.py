"""Scoring tables that no single machine holds, on Ray Data, Spark or Daft.

See docs/scale.md.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
