"""ragmetrics for LangChain: pass a callback, or nothing at all; question, contexts and answer are found.

The public names are listed in ``__all__``; everything else may change.
"""

from langchain_ragmetrics.capturing import (
    RagMetricsCallback,
    capture,
    samples_from,
    watch,
)
from langchain_ragmetrics.evaluator import RagMetricsRunEvaluator, as_run_evaluator
from langchain_ragmetrics.explicit import add_documents, observe
from langchain_ragmetrics.model import LangChainModel

__all__ = [
    "LangChainModel",
    "RagMetricsCallback",
    "RagMetricsRunEvaluator",
    "add_documents",
    "as_run_evaluator",
    "capture",
    "observe",
    "samples_from",
    "watch",
]
