"""Evaluate retrieval and answers of RAG applications: evidence, cost and confidence for every score.

Importing the package loads nothing heavy: every name below is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmetrics_core.data.errors import InputError as InputError
    from ragmetrics_core.data.errors import JudgeError as JudgeError
    from ragmetrics_core.data.errors import JudgeUnavailable as JudgeUnavailable
    from ragmetrics_core.data.errors import RagMetricsError as RagMetricsError
    from ragmetrics_core.data.errors import RowError as RowError
    from ragmetrics_core.data.errors import SettingError as SettingError
    from ragmetrics_core.data.evidence import Evidence as Evidence
    from ragmetrics_core.data.questions import Answer as Answer
    from ragmetrics_core.data.questions import Asked as Asked
    from ragmetrics_core.data.questions import Bit as Bit
    from ragmetrics_core.data.questions import Instructions as Instructions
    from ragmetrics_core.data.questions import NotAnswered as NotAnswered
    from ragmetrics_core.data.questions import Part as Part
    from ragmetrics_core.data.questions import Question as Question
    from ragmetrics_core.data.questions import Split as Split
    from ragmetrics_core.data.questions import Weigh as Weigh
    from ragmetrics_core.data.questions import Weight as Weight
    from ragmetrics_core.data.questions import about as about
    from ragmetrics_core.data.questions import ask as ask
    from ragmetrics_core.data.results import ErrorInfo as ErrorInfo
    from ragmetrics_core.data.results import Failed as Failed
    from ragmetrics_core.data.results import MetricResult as MetricResult
    from ragmetrics_core.data.results import SampleResult as SampleResult
    from ragmetrics_core.data.results import Scored as Scored
    from ragmetrics_core.data.results import Undefined as Undefined
    from ragmetrics_core.data.sample import CaptureNotes as CaptureNotes
    from ragmetrics_core.data.sample import Context as Context
    from ragmetrics_core.data.sample import Fact as Fact
    from ragmetrics_core.data.sample import Sample as Sample
    from ragmetrics_core.data.sample import Turn as Turn
    from ragmetrics_core.data.usage import Usage as Usage
    from ragmetrics_core.endpoints.chat import Capabilities as Capabilities
    from ragmetrics_core.endpoints.chat import ChatModel as ChatModel
    from ragmetrics_core.endpoints.chat import ChatReply as ChatReply
    from ragmetrics_core.endpoints.chat import ChatRequest as ChatRequest
    from ragmetrics_core.endpoints.chat import Choice as Choice
    from ragmetrics_core.endpoints.chat import Message as Message
    from ragmetrics_core.endpoints.chat import TokenAlternatives as TokenAlternatives
    from ragmetrics_core.endpoints.compatible_model import OpenAICompatibleModel as OpenAICompatibleModel
    from ragmetrics_core.endpoints.limits import Limits as Limits
    from ragmetrics_core.endpoints.litellm_model import LiteLLMModel as LiteLLMModel
    from ragmetrics_core.endpoints.store import MemoryStore as MemoryStore
    from ragmetrics_core.endpoints.store import ReplyStore as ReplyStore
    from ragmetrics_core.endpoints.store import SqliteStore as SqliteStore
    from ragmetrics_core.engine.evaluation import aevaluate as aevaluate
    from ragmetrics_core.engine.evaluation import evaluate as evaluate
    from ragmetrics_core.engine.evaluation import iter_results as iter_results
    from ragmetrics_core.judging.judge import Judge as Judge
    from ragmetrics_core.judging.llm import LLMJudge as LLMJudge
    from ragmetrics_core.judging.scripted import ScriptedJudge as ScriptedJudge
    from ragmetrics_core.lexical.judge import LexicalJudge as LexicalJudge
    from ragmetrics_core.metrics.context_adherence import ContextAdherence as ContextAdherence
    from ragmetrics_core.metrics.context_recall import ContextRecall as ContextRecall
    from ragmetrics_core.metrics.context_utilization import ContextUtilization as ContextUtilization
    from ragmetrics_core.metrics.metric import Metric as Metric
    from ragmetrics_core.metrics.metric import metric as metric
    from ragmetrics_core.metrics.registry import METRICS as METRICS
    from ragmetrics_core.metrics.registry import metric_named as metric_named
    from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy as RetrievalAccuracy
    from ragmetrics_core.reporting.report import Report as Report
    from ragmetrics_core.reporting.run_facts import RunFacts as RunFacts

_HOMES = {
    "engine.evaluation": ("aevaluate", "evaluate", "iter_results"),
    "endpoints.chat": (
        *("Capabilities", "ChatModel", "ChatReply", "ChatRequest", "Choice", "Message", "TokenAlternatives"),
    ),
    "endpoints.compatible_model": ("OpenAICompatibleModel",),
    "judging.judge": ("Judge",),
    "lexical.judge": ("LexicalJudge",),
    "endpoints.limits": ("Limits",),
    "endpoints.litellm_model": ("LiteLLMModel",),
    "judging.llm": ("LLMJudge",),
    "judging.scripted": ("ScriptedJudge",),
    "endpoints.store": ("MemoryStore", "ReplyStore", "SqliteStore"),
    "metrics.context_adherence": ("ContextAdherence",),
    "metrics.context_recall": ("ContextRecall",),
    "metrics.context_utilization": ("ContextUtilization",),
    "metrics.metric": ("Metric", "metric"),
    "metrics.registry": ("METRICS", "metric_named"),
    "metrics.retrieval_accuracy": ("RetrievalAccuracy",),
    "data.errors": ("InputError", "JudgeError", "JudgeUnavailable", "RagMetricsError", "RowError", "SettingError"),
    "data.evidence": ("Evidence",),
    "data.questions": (
        *("Answer", "Asked", "Bit", "Instructions", "NotAnswered", "Part", "Question", "Split", "Weigh", "Weight"),
        *("about", "ask"),
    ),
    "data.results": ("ErrorInfo", "Failed", "MetricResult", "SampleResult", "Scored", "Undefined"),
    "data.sample": ("CaptureNotes", "Context", "Fact", "Sample", "Turn"),
    "data.usage": ("Usage",),
    "reporting.report": ("Report",),
    "reporting.run_facts": ("RunFacts",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # names are listed once, in _HOMES


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
