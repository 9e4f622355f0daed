from ragmetrics_core.capture.authors import name_authors as name_authors
from ragmetrics_core.capture.background import Aggregate as Aggregate
from ragmetrics_core.capture.background import (
    BackgroundEvaluator as BackgroundEvaluator,
)
from ragmetrics_core.capture.background import WatchSettings as WatchSettings
from ragmetrics_core.capture.captured import Captured as Captured
from ragmetrics_core.capture.captured import Redact as Redact
from ragmetrics_core.capture.captured import UserValues as UserValues
from ragmetrics_core.capture.front_door import FrontDoor as FrontDoor
from ragmetrics_core.capture.history import (
    EarlierConversation as EarlierConversation,
)
from ragmetrics_core.capture.history import drop_shown_documents as drop_shown_documents
from ragmetrics_core.capture.history import find_conversation as find_conversation
from ragmetrics_core.capture.history import history_in as history_in
from ragmetrics_core.capture.history import (
    messages_up_to_question as messages_up_to_question,
)
from ragmetrics_core.capture.history import names_a_history as names_a_history
from ragmetrics_core.capture.history import spoken as spoken
from ragmetrics_core.capture.hooks import Listener as Listener
from ragmetrics_core.capture.hooks import Listeners as Listeners
from ragmetrics_core.capture.hooks import Problems as Problems
from ragmetrics_core.capture.hooks import (
    current_task_or_thread as current_task_or_thread,
)
from ragmetrics_core.capture.hooks import guard_hook as guard_hook
from ragmetrics_core.capture.hooks import is_capturing as is_capturing
from ragmetrics_core.capture.hooks import renew_after_fork as renew_after_fork
from ragmetrics_core.capture.hooks import words_of as words_of
from ragmetrics_core.capture.plain_values import ANSWER_KEYS as ANSWER_KEYS
from ragmetrics_core.capture.plain_values import Overrides as Overrides
from ragmetrics_core.capture.plain_values import Source as Source
from ragmetrics_core.capture.plain_values import answer_in as answer_in
from ragmetrics_core.capture.plain_values import answer_text as answer_text
from ragmetrics_core.capture.plain_values import as_one_line as as_one_line
from ragmetrics_core.capture.plain_values import compact as compact
from ragmetrics_core.capture.plain_values import conversation as conversation
from ragmetrics_core.capture.plain_values import documents_in as documents_in
from ragmetrics_core.capture.plain_values import find_instances as find_instances
from ragmetrics_core.capture.plain_values import has_written as has_written
from ragmetrics_core.capture.plain_values import question_in as question_in
from ragmetrics_core.capture.plain_values import question_in_state as question_in_state
from ragmetrics_core.capture.plain_values import texts_in as texts_in
from ragmetrics_core.capture.providers import UNREAD_SEARCH as UNREAD_SEARCH
from ragmetrics_core.capture.providers import ProviderEvidence as ProviderEvidence
from ragmetrics_core.capture.providers import (
    add_provider_evidence as add_provider_evidence,
)
from ragmetrics_core.capture.providers import (
    chunk_tells_of_search as chunk_tells_of_search,
)
from ragmetrics_core.capture.providers import evidence_in_reply as evidence_in_reply
from ragmetrics_core.capture.sinks import JsonlSink as JsonlSink
from ragmetrics_core.capture.stages import samples_of as samples_of
from ragmetrics_core.capture.step_documents import (
    lists_divided as lists_divided,
)
from ragmetrics_core.capture.step_documents import (
    name_empty_searches as name_empty_searches,
)
from ragmetrics_core.capture.step_documents import (
    note_documents_of_step as note_documents_of_step,
)
from ragmetrics_core.capture.tree import SCORE_KEYS as SCORE_KEYS
from ragmetrics_core.capture.tree import Answer as Answer
from ragmetrics_core.capture.tree import CitedSource as CitedSource
from ragmetrics_core.capture.tree import Document as Document
from ragmetrics_core.capture.tree import Message as Message
from ragmetrics_core.capture.tree import Node as Node
from ragmetrics_core.capture.tree import ToolCall as ToolCall
from ragmetrics_core.capture.tree import Tree as Tree
from ragmetrics_core.capture.turns import Turns as Turns
from ragmetrics_core.capture.unread_requests import UnreadRequest as UnreadRequest
from ragmetrics_core.capture.unread_requests import (
    parameters_in_reply as parameters_in_reply,
)
from ragmetrics_core.capture.unread_requests import unread_request as unread_request
from ragmetrics_core.data.citations import Citation as Citation
from ragmetrics_core.data.citations import citations_of_marks as citations_of_marks
from ragmetrics_core.data.columns import USUAL_NAMES as USUAL_NAMES
from ragmetrics_core.data.errors import InputError as InputError
from ragmetrics_core.data.errors import JudgeUnavailable as JudgeUnavailable
from ragmetrics_core.data.errors import RagMetricsError as RagMetricsError
from ragmetrics_core.data.errors import RowError as RowError
from ragmetrics_core.data.errors import SettingError as SettingError
from ragmetrics_core.data.messages import ROLES as ROLES
from ragmetrics_core.data.messages import text_of_content as text_of_content
from ragmetrics_core.data.messages import unwrap_message as unwrap_message
from ragmetrics_core.data.replies import Usage as Usage
from ragmetrics_core.data.results import ErrorInfo as ErrorInfo
from ragmetrics_core.data.results import MetricResult as MetricResult
from ragmetrics_core.data.results import SampleResult as SampleResult
from ragmetrics_core.data.sample import CaptureNotes as CaptureNotes
from ragmetrics_core.engine.arguments import EvaluateSettings as EvaluateSettings
from ragmetrics_core.engine.progress import Display as Display
from ragmetrics_core.engine.progress import Show as Show
from ragmetrics_core.engine.resolve import JudgeLike as JudgeLike
from ragmetrics_core.engine.resolve import resolve_judge as resolve_judge
from ragmetrics_core.engine.run import Metrics as Metrics
from ragmetrics_core.engine.run import Run as Run
from ragmetrics_core.engine.sample_sources import iterate_samples as iterate_samples
from ragmetrics_core.judging.judge import Judge as Judge
from ragmetrics_core.metrics.registry import METRICS as METRICS
from ragmetrics_core.metrics.registry import NAMED_METRICS as NAMED_METRICS
from ragmetrics_core.metrics.registry import choose_metrics as choose_metrics
from ragmetrics_core.metrics.registry import metric_named as metric_named
from ragmetrics_core.models.judge_work import as_judge_work as as_judge_work
from ragmetrics_core.models.judge_work import is_judge_work as is_judge_work
from ragmetrics_core.models.judge_work import judge_context as judge_context
from ragmetrics_core.reporting.report import Sink as Sink
