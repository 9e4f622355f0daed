"""What all adapters share: the front door, captured samples, the background evaluator, hooks that never harm.

An adapter records its framework's runs (copying data only) and hands each finished one to those who listen; a pure
function makes samples of it. ``FrontDoor`` makes ``capture`` and ``watch`` of the two. Beside the names at the top of
the package, an adapter imports from here alone.
"""

from ragmetrics_core.capturing.background import Aggregate as Aggregate
from ragmetrics_core.capturing.background import BackgroundEvaluator as BackgroundEvaluator
from ragmetrics_core.capturing.captured import Captured as Captured
from ragmetrics_core.capturing.captured import Given as Given
from ragmetrics_core.capturing.front_door import FrontDoor as FrontDoor
from ragmetrics_core.capturing.front_door import Watcher as Watcher
from ragmetrics_core.capturing.guarded import Problems as Problems
from ragmetrics_core.capturing.guarded import guarded as guarded
from ragmetrics_core.capturing.guarded import renew_after_fork as renew_after_fork
from ragmetrics_core.capturing.listening import Listener as Listener
from ragmetrics_core.capturing.listening import Listeners as Listeners
from ragmetrics_core.capturing.listening import in_a_capture as in_a_capture
from ragmetrics_core.capturing.listening import strand as strand
from ragmetrics_core.capturing.overrides import Overrides as Overrides
from ragmetrics_core.capturing.overrides import Source as Source
from ragmetrics_core.capturing.reading import ANSWER_KEYS as ANSWER_KEYS
from ragmetrics_core.capturing.reading import answer_in as answer_in
from ragmetrics_core.capturing.reading import answer_text as answer_text
from ragmetrics_core.capturing.reading import compact as compact
from ragmetrics_core.capturing.reading import conversation as conversation
from ragmetrics_core.capturing.reading import documents_in as documents_in
from ragmetrics_core.capturing.reading import has_written as has_written
from ragmetrics_core.capturing.reading import history_in as history_in
from ragmetrics_core.capturing.reading import one_line as one_line
from ragmetrics_core.capturing.reading import question_in as question_in
from ragmetrics_core.capturing.reading import question_in_state as question_in_state
from ragmetrics_core.capturing.reading import spoken as spoken
from ragmetrics_core.capturing.reading import texts_in as texts_in
from ragmetrics_core.capturing.rules import samples_of as samples_of
from ragmetrics_core.capturing.sinks import JsonlSink as JsonlSink
from ragmetrics_core.capturing.tree import SCORE_KEYS as SCORE_KEYS
from ragmetrics_core.capturing.tree import Answer as Answer
from ragmetrics_core.capturing.tree import Document as Document
from ragmetrics_core.capturing.tree import Message as Message
from ragmetrics_core.capturing.tree import Node as Node
from ragmetrics_core.capturing.tree import ToolCall as ToolCall
from ragmetrics_core.capturing.tree import Tree as Tree
from ragmetrics_core.capturing.turns import Turns as Turns
from ragmetrics_core.data.errors import InputError as InputError
from ragmetrics_core.data.errors import JudgeUnavailable as JudgeUnavailable
from ragmetrics_core.data.errors import RagMetricsError as RagMetricsError
from ragmetrics_core.data.errors import RowError as RowError
from ragmetrics_core.data.errors import SettingError as SettingError
from ragmetrics_core.data.results import ErrorInfo as ErrorInfo
from ragmetrics_core.data.results import MetricResult as MetricResult
from ragmetrics_core.data.results import SampleResult as SampleResult
from ragmetrics_core.data.rows import USUAL_NAMES as USUAL_NAMES
from ragmetrics_core.data.sample import CaptureNotes as CaptureNotes
from ragmetrics_core.data.usage import Usage as Usage
from ragmetrics_core.endpoints.framework_model import as_judge_work as as_judge_work
from ragmetrics_core.endpoints.framework_model import is_judge_work as is_judge_work
from ragmetrics_core.endpoints.framework_model import judge_context as judge_context
from ragmetrics_core.engine.progress import Display as Display
from ragmetrics_core.engine.resolve import resolve_judge as resolve_judge
from ragmetrics_core.engine.run import JudgeLike as JudgeLike
from ragmetrics_core.engine.run import Metrics as Metrics
from ragmetrics_core.engine.run import Run as _Run
from ragmetrics_core.engine.tables import each_sample as each_sample
from ragmetrics_core.judging.judge import Judge as Judge
from ragmetrics_core.metrics.registry import METRICS as METRICS
from ragmetrics_core.metrics.registry import chosen as chosen
from ragmetrics_core.metrics.registry import metric_named as metric_named
from ragmetrics_core.reporting.report import Sink as Sink

EvaluationRun = _Run
