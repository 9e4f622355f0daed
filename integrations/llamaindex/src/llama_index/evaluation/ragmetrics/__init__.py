"""Evaluate what LlamaIndex applications really did: evaluators, capture and watch.

Example:
    >>> with capture() as captured:
    ...     response = query_engine.query("What did the author do growing up?")  # doctest: +SKIP
    >>> report = captured.evaluate(["context_adherence"])  # doctest: +SKIP
"""

from ragmetrics_core import names_of_stub

# each name is imported at its first use: to score data that one has needs no recorder
__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
