"""Samples from the traces that instrumentations record; no tracing SDK is imported.

Every name is imported at its first use.
"""

from ragmetrics_core import names_of_stub

__getattr__, __all__ = names_of_stub(__name__, __file__)
