"""Data sets to evaluate retrieval with, made of the user's own documents.

Judges are scored on them.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
