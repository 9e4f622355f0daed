"""The data of ragmetrics: samples, questions, replies, evidence, results and errors.

Other packages import from here; the stub beside this file lists the names.
"""

from ragmetrics_core import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
