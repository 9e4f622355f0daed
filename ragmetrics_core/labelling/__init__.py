"""Data sets to evaluate retrieval with, built from the user's own documents, and judges scored on them."""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
