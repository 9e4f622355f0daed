"""ragmetrics for LangChain: pass a callback, or nothing at all; question, contexts and answer are found.

The stub beside this file lists the public names; everything else may change.
"""

from ragmetrics_core import names_of_stub

# each name is imported at its first use: to score data that one has needs no recorder
__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
