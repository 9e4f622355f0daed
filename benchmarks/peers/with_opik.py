# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["opik==2.2.122"]
# ///
"""Opik's own metrics: Hallucination, and ContextRecall for two answers to one reference.

It has no question about a single chunk or fact.
"""

import os
import sys

os.environ["OPIK_TRACK_DISABLE"] = "true"
os.environ["OPIK_SENTRY_ENABLE"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from opik.evaluation.metrics import ContextRecall, Hallucination
from opik.evaluation.models import LiteLLMChatModel
from rows_on_stdin import MAX_TOKENS, SECONDS, Row, answer_rows

address, model = sys.argv[1:]
llm = LiteLLMChatModel(
    model_name=f"openai/{model}",
    track=False,
    api_base=address,
    api_key="none",
    timeout=SECONDS,
    max_tokens=MAX_TOKENS,
    temperature=0.0,
)


def adherence(row: Row) -> list[float]:
    """Is the answer no hallucination?"""
    found = Hallucination(model=llm, track=False).score(
        input=row["question"], output=row["answer"], context=row["contexts"]
    )
    return [1.0 - found.value]


def pairs(row: Row) -> list[float]:
    """How well does each answer match the expected one?"""
    metric = ContextRecall(model=llm, track=False)
    scores = []
    for answer in row["answers"]:
        found = metric.score(
            input=row["question"],
            output=answer,
            expected_output=row["reference"],
            context=row["contexts"],
        )
        scores.append(float(found.value))
    return scores


answer_rows({"adherence": adherence, "pairs": pairs})
