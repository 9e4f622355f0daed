from ragmetrics_core.capture.background import (
    BackgroundEvaluator as BackgroundEvaluator,
)
from ragmetrics_core.capture.background import JsonlSink as JsonlSink
from ragmetrics_core.capture.background import WatchArguments as WatchArguments
from ragmetrics_core.capture.background import WatchingEvaluator as WatchingEvaluator
from ragmetrics_core.capture.background import WatchSettings as WatchSettings
from ragmetrics_core.capture.captured import Captured as Captured
from ragmetrics_core.capture.captured import Redact as Redact
from ragmetrics_core.capture.front_door import FrontDoor as FrontDoor
from ragmetrics_core.capture.history import history_in as history_in
from ragmetrics_core.capture.history import history_of_prompts as history_of_prompts
from ragmetrics_core.capture.history import (
    turns_before_question as turns_before_question,
)
from ragmetrics_core.capture.hooks import Listener as Listener
from ragmetrics_core.capture.hooks import Listeners as Listeners
from ragmetrics_core.capture.hooks import Lock as Lock
from ragmetrics_core.capture.hooks import Problems as Problems
from ragmetrics_core.capture.hooks import ReplacedMethods as ReplacedMethods
from ragmetrics_core.capture.hooks import (
    current_task_or_thread as current_task_or_thread,
)
from ragmetrics_core.capture.hooks import guard_hook as guard_hook
from ragmetrics_core.capture.hooks import renew_after_fork as renew_after_fork
from ragmetrics_core.capture.hooks import words_of as words_of
from ragmetrics_core.capture.plain_values import FieldPlace as FieldPlace
from ragmetrics_core.capture.plain_values import Overrides as Overrides
from ragmetrics_core.capture.plain_values import answer_in as answer_in
from ragmetrics_core.capture.plain_values import documents_in as documents_in
from ragmetrics_core.capture.plain_values import has_written as has_written
from ragmetrics_core.capture.plain_values import names_a_history as names_a_history
from ragmetrics_core.capture.plain_values import (
    note_documents_of_step as note_documents_of_step,
)
from ragmetrics_core.capture.plain_values import (
    note_what_was_left_out as note_what_was_left_out,
)
from ragmetrics_core.capture.plain_values import question_in as question_in
from ragmetrics_core.capture.plain_values import reference_in as reference_in
from ragmetrics_core.capture.plain_values import sample_in as sample_in
from ragmetrics_core.capture.plain_values import texts_in as texts_in
from ragmetrics_core.capture.providers import (
    add_provider_evidence as add_provider_evidence,
)
from ragmetrics_core.capture.providers import (
    may_tell_of_search as may_tell_of_search,
)
from ragmetrics_core.capture.question import question_among as question_among
from ragmetrics_core.capture.shown import show_the_same as show_the_same
from ragmetrics_core.capture.stages import samples_of as samples_of
from ragmetrics_core.capture.structures import ANSWER_KEYS as ANSWER_KEYS
from ragmetrics_core.capture.structures import find_instances as find_instances
from ragmetrics_core.capture.structures import is_bulk as is_bulk
from ragmetrics_core.capture.tree import Answer as Answer
from ragmetrics_core.capture.tree import Document as Document
from ragmetrics_core.capture.tree import Message as Message
from ragmetrics_core.capture.tree import Node as Node
from ragmetrics_core.capture.tree import ToolCall as ToolCall
from ragmetrics_core.capture.tree import Tree as Tree
from ragmetrics_core.capture.tree import kept_once as kept_once
from ragmetrics_core.capture.unrecorded import (
    unrecorded_evidence as unrecorded_evidence,
)
from ragmetrics_core.data.errors import JudgeUnavailable as JudgeUnavailable
from ragmetrics_core.data.errors import SettingError as SettingError
from ragmetrics_core.data.messages import ROLES as ROLES
from ragmetrics_core.data.messages import UnwrappedMessage as UnwrappedMessage
from ragmetrics_core.data.messages import unwrap_message as unwrap_message
from ragmetrics_core.data.results import MetricResult as MetricResult
from ragmetrics_core.data.results import SampleResult as SampleResult
from ragmetrics_core.engine.loop import submit as submit
from ragmetrics_core.engine.resolve import JudgeLike as JudgeLike
from ragmetrics_core.engine.run import Metrics as Metrics
from ragmetrics_core.engine.run import Run as Run
from ragmetrics_core.metrics.registry import description_of as description_of
from ragmetrics_core.metrics.registry import metric_named as metric_named
from ragmetrics_core.metrics.registry import metrics_described as metrics_described
from ragmetrics_core.models.chat import Capabilities as Capabilities
from ragmetrics_core.models.framework_model import FrameworkModel as FrameworkModel
from ragmetrics_core.models.judge_work import as_judge_work as as_judge_work
from ragmetrics_core.models.judge_work import is_judge_work as is_judge_work
