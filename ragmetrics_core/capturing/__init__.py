"""What all adapters share: the front door, captured samples, the background evaluator, hooks that never harm.

An adapter records its framework's runs (copying data only) and hands each finished one to those who listen; a pure
function makes samples of it. ``FrontDoor`` makes ``capture`` and ``watch`` of the two.
"""

from ragmetrics_core.capturing.background import Aggregate as Aggregate
from ragmetrics_core.capturing.background import BackgroundEvaluator as BackgroundEvaluator
from ragmetrics_core.capturing.captured import Captured as Captured
from ragmetrics_core.capturing.captured import Given as Given
from ragmetrics_core.capturing.captured import changed as changed
from ragmetrics_core.capturing.forks import renew_after_fork as renew_after_fork
from ragmetrics_core.capturing.front_door import Assembler as Assembler
from ragmetrics_core.capturing.front_door import EachRun as EachRun
from ragmetrics_core.capturing.front_door import FrontDoor as FrontDoor
from ragmetrics_core.capturing.front_door import Watcher as Watcher
from ragmetrics_core.capturing.guarded import Problems as Problems
from ragmetrics_core.capturing.guarded import guarded as guarded
from ragmetrics_core.capturing.judge_work import as_judge_work as as_judge_work
from ragmetrics_core.capturing.judge_work import is_judge_work as is_judge_work
from ragmetrics_core.capturing.judge_work import judge_context as judge_context
from ragmetrics_core.capturing.listening import Listener as Listener
from ragmetrics_core.capturing.listening import Listeners as Listeners
from ragmetrics_core.capturing.listening import in_a_capture as in_a_capture
from ragmetrics_core.capturing.overrides import Overrides as Overrides
from ragmetrics_core.capturing.overrides import Source as Source
from ragmetrics_core.capturing.redaction import Redact as Redact
