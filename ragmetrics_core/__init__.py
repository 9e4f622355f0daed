"""Evaluate retrieval and answers of RAG applications: evidence, cost and confidence for every score.

The names that most programs need; all others are imported from their rooms, e.g. ``ragmetrics_core.data.errors``.
Importing the package loads nothing heavy: every name below is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmetrics_core.data.errors import RagMetricsError as RagMetricsError
    from ragmetrics_core.data.questions import Question as Question
    from ragmetrics_core.data.questions import Weigh as Weigh
    from ragmetrics_core.data.questions import ask as ask
    from ragmetrics_core.data.results import Failed as Failed
    from ragmetrics_core.data.results import Scored as Scored
    from ragmetrics_core.data.results import Undefined as Undefined
    from ragmetrics_core.data.sample import Context as Context
    from ragmetrics_core.data.sample import Fact as Fact
    from ragmetrics_core.data.sample import Sample as Sample
    from ragmetrics_core.data.sample import Turn as Turn
    from ragmetrics_core.endpoints.compatible_model import OpenAICompatibleModel as OpenAICompatibleModel
    from ragmetrics_core.endpoints.limits import Limits as Limits
    from ragmetrics_core.endpoints.litellm_model import LiteLLMModel as LiteLLMModel
    from ragmetrics_core.engine.evaluation import aevaluate as aevaluate
    from ragmetrics_core.engine.evaluation import evaluate as evaluate
    from ragmetrics_core.engine.evaluation import iter_results as iter_results
    from ragmetrics_core.judging.llm import LLMJudge as LLMJudge
    from ragmetrics_core.judging.scripted import ScriptedJudge as ScriptedJudge
    from ragmetrics_core.lexical.judge import LexicalJudge as LexicalJudge
    from ragmetrics_core.metrics.context_adherence import ContextAdherence as ContextAdherence
    from ragmetrics_core.metrics.context_recall import ContextRecall as ContextRecall
    from ragmetrics_core.metrics.context_utilization import ContextUtilization as ContextUtilization
    from ragmetrics_core.metrics.metric import Metric as Metric
    from ragmetrics_core.metrics.metric import metric as metric
    from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy as RetrievalAccuracy
    from ragmetrics_core.reporting.report import Report as Report

_HOMES = {
    "data.errors": ("RagMetricsError",),
    "data.questions": ("Question", "Weigh", "ask"),
    "data.results": ("Failed", "Scored", "Undefined"),
    "data.sample": ("Context", "Fact", "Sample", "Turn"),
    "endpoints.compatible_model": ("OpenAICompatibleModel",),
    "endpoints.limits": ("Limits",),
    "endpoints.litellm_model": ("LiteLLMModel",),
    "engine.evaluation": ("aevaluate", "evaluate", "iter_results"),
    "judging.llm": ("LLMJudge",),
    "judging.scripted": ("ScriptedJudge",),
    "lexical.judge": ("LexicalJudge",),
    "metrics.context_adherence": ("ContextAdherence",),
    "metrics.context_recall": ("ContextRecall",),
    "metrics.context_utilization": ("ContextUtilization",),
    "metrics.metric": ("Metric", "metric"),
    "metrics.retrieval_accuracy": ("RetrievalAccuracy",),
    "reporting.report": ("Report",),
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
