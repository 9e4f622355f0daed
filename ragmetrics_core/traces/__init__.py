"""Samples from the traces that instrumentations record; no tracing SDK is imported.

The stages: ``reader`` reads the spans of a trace, ``dialects`` and ``span_values`` say
what each span tells, ``span_trees`` puts them inside one another, and makes the trees
that the capture reads. Every name is imported at its first use.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
