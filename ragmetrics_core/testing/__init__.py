"""What tests need: assertions about scores, and contracts to inherit.

There are contracts for metrics, chat models and adapters.

Importing it loads nothing else: every name is imported at its first use.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
