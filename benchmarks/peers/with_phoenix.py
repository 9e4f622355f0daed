# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["arize-phoenix-evals==3.9.4", "openai"]
# ///
"""Phoenix' own evaluators: Faithfulness and RetrievalRelevance. It has none for facts."""

import sys

from phoenix.evals import LLM
from phoenix.evals.metrics import FaithfulnessEvaluator, RetrievalRelevanceEvaluator
from rows_on_stdin import MAX_TOKENS, SECONDS, Row, answer_rows

address, model = sys.argv[1:]
llm = LLM(
    provider="openai",
    model=model,
    base_url=address,
    api_key="none",
    timeout=SECONDS,
)
SETTINGS = {"llm": llm, "temperature": 0.0, "max_tokens": MAX_TOKENS}
faithfulness = FaithfulnessEvaluator(**SETTINGS)
relevance = RetrievalRelevanceEvaluator(**SETTINGS)


def adherence(row: Row) -> list[float]:
    """Is the answer faithful to the contexts?"""
    context = "\n\n".join(row["contexts"])
    asked = {"input": row["question"], "output": row["answer"], "context": context}
    return [float(faithfulness.evaluate(asked)[0].score)]


def useful(row: Row) -> list[float]:
    """Is each chunk relevant to the question?"""
    scores = []
    for chunk in row["contexts"]:
        asked = {"input": row["question"], "context": chunk}
        scores.append(float(relevance.evaluate(asked)[0].score))
    return scores


answer_rows({"adherence": adherence, "useful": useful})
