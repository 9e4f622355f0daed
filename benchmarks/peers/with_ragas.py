# /// script
# requires-python = ">=3.11,<3.13"
# dependencies = ["ragas==0.4.3", "langchain-community<0.4", "langchain-openai"]
# ///
"""ragas' own metrics: Faithfulness, ContextPrecisionWithoutReference and ContextRecall.

A chunk and a fact are asked about one at a time, so that each has a verdict of its own.
"""

import asyncio
import os
import sys

os.environ["RAGAS_DO_NOT_TRACK"] = "true"

from openai import AsyncOpenAI
from ragas.llms import llm_factory
from ragas.metrics.collections import (
    ContextPrecisionWithoutReference,
    ContextRecall,
    Faithfulness,
)
from rows_on_stdin import SECONDS, Row, answer_rows

address, model = sys.argv[1:]
client = AsyncOpenAI(base_url=address, api_key="none", timeout=SECONDS, max_retries=0)
llm = llm_factory(model, client=client)
loop = asyncio.new_event_loop()


def adherence(row: Row) -> list[float]:
    """Is the answer faithful to the contexts?"""
    scoring = Faithfulness(llm=llm).ascore(
        user_input=row["question"],
        response=row["answer"],
        retrieved_contexts=row["contexts"],
    )
    return [float(loop.run_until_complete(scoring).value)]


def useful(row: Row) -> list[float]:
    """Is each chunk useful?"""
    scores = []
    for chunk in row["contexts"]:
        scoring = ContextPrecisionWithoutReference(llm=llm).ascore(
            user_input=row["question"],
            response=row["answer"],
            retrieved_contexts=[chunk],
        )
        scores.append(float(loop.run_until_complete(scoring).value))
    return scores


def facts(row: Row) -> list[float]:
    """Is each fact in the contexts?"""
    scores = []
    for fact in row["facts"]:
        scoring = ContextRecall(llm=llm).ascore(
            user_input=row["question"],
            retrieved_contexts=row["contexts"],
            reference=fact,
        )
        scores.append(float(loop.run_until_complete(scoring).value))
    return scores


answer_rows({"adherence": adherence, "useful": useful, "facts": facts})
