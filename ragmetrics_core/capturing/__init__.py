"""What all adapters share: captured samples, the background evaluator, hooks that never harm the application.

An adapter records its framework's runs (copying data only), calls ``Captured.record`` or
``BackgroundEvaluator.record`` with each finished run, and gives a pure function from run to samples.
"""

from ragmetrics_core.capturing.background import Aggregate as Aggregate
from ragmetrics_core.capturing.background import BackgroundEvaluator as BackgroundEvaluator
from ragmetrics_core.capturing.captured import Captured as Captured
from ragmetrics_core.capturing.captured import Given as Given
from ragmetrics_core.capturing.guarded import Problems as Problems
from ragmetrics_core.capturing.guarded import guarded as guarded
from ragmetrics_core.capturing.judge_work import as_judge_work as as_judge_work
from ragmetrics_core.capturing.judge_work import is_judge_work as is_judge_work
from ragmetrics_core.capturing.overrides import Overrides as Overrides
