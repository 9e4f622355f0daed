"""What all adapters share: the front door, captured samples, the background evaluator, hooks that never harm.

An adapter records its framework's runs (copying data only) and hands each finished one
to those who listen; a pure function makes samples of it. ``FrontDoor`` makes
``capture`` and ``watch`` of the two. The stub beside this file lists what adapters
need of capture and of the models behind judges.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
