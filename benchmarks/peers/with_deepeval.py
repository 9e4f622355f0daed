# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["deepeval==4.3.1"]
# ///
"""DeepEval's own metrics: Faithfulness, ContextualPrecision and ContextualRecall.

The call for a reason behind the score is left out, since it changes no score.
"""

import os
import sys

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
os.environ["DEEPEVAL_DISABLE_TIMEOUTS"] = "1"
os.environ["DEEPEVAL_RETRY_MAX_ATTEMPTS"] = "1"

from deepeval.metrics import (
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    FaithfulnessMetric,
)
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase
from rows_on_stdin import MAX_TOKENS, SECONDS, Row, answer_rows

address, model = sys.argv[1:]
llm = LocalModel(
    model=model,
    base_url=address,
    api_key="none",
    timeout=SECONDS,
    generation_kwargs={"max_tokens": MAX_TOKENS},
)
SETTINGS = {"model": llm, "include_reason": False, "async_mode": False}


def adherence(row: Row) -> list[float]:
    """Is the answer faithful to the contexts?"""
    case = LLMTestCase(
        input=row["question"],
        actual_output=row["answer"],
        retrieval_context=row["contexts"],
    )
    return [FaithfulnessMetric(**SETTINGS).measure(case, _show_indicator=False)]


def useful(row: Row) -> list[float]:
    """Is each chunk useful? One question about all of them."""
    case = LLMTestCase(
        input=row["question"],
        actual_output=row["answer"],
        expected_output=row["answer"],
        retrieval_context=row["contexts"],
    )
    metric = ContextualPrecisionMetric(**SETTINGS)
    metric.measure(case, _show_indicator=False)
    scores = [
        float(str(getattr(verdict.verdict, "value", verdict.verdict)) == "yes")
        for verdict in metric.verdicts
    ]
    if len(scores) != len(row["contexts"]):
        raise ValueError(f"{len(scores)} verdicts of {len(row['contexts'])} chunks")
    return scores


def facts(row: Row) -> list[float]:
    """Is each fact in the contexts?"""
    scores = []
    for fact in row["facts"]:
        case = LLMTestCase(
            input=row["question"],
            actual_output=fact,
            expected_output=fact,
            retrieval_context=row["contexts"],
        )
        metric = ContextualRecallMetric(**SETTINGS)
        scores.append(float(metric.measure(case, _show_indicator=False)))
    return scores


answer_rows({"adherence": adherence, "useful": useful, "facts": facts})
