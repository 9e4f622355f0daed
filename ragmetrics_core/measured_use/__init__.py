"""What each passage did to an answer, by asking the application's model again without it.

``measure_use`` takes samples whose prompts were kept, as by ``capture(keep_prompts=
True)``. Nothing is asked of the application itself, and no tool is called again.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
