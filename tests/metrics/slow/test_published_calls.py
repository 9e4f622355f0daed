"""Each published metric is called as its users write it, and gives the score."""

import asyncio

import pandas as pd
import pytest

from ragmetrics_core import Scored, ScriptedJudge, evaluate
from ragmetrics_core.metrics import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    RetrievalAccuracy,
)
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import FactInContext

# as ragas and ValidMind name their columns, a row and a table by columns
TABLE = {
    "question": ["Who lit the lamp?", "When?"],
    "contexts": [["Rain fell.", "Anna lit the lamp."], ["It was lit in 1856."]],
    "answer": ["Anna did.", "In 1856."],
}
# as Opik's page writes a call
OPIK = {
    "input": "What is the capital of France?",
    "output": "The capital is Paris.",
    "expected_output": "Paris",
    "context": ["France is a country. Its capital is Paris."],
}
useful = ScriptedJudge({Useful: lambda asked: {"useful": int("lit" in asked["chunk"])}})
rated = ScriptedJudge(
    {
        RateRecall: lambda asked: {
            "score": float(asked["reference"] == "Paris"),
            "reason": "The same.",
        }
    }
)


@pytest.mark.parametrize(
    "table", [TABLE, pd.DataFrame(TABLE)], ids=["dict of lists", "pandas"]
)
def test_ragas_context_utilization(table):
    report = evaluate(table, metrics=[ContextUtilization], judge=useful)
    frame = report.to_pandas()
    assert list(frame["context_utilization"]) == [0.5, 1.0]
    assert report[0].results["context_utilization"].value == 0.5


def test_ragas_scores_one_row_by_its_own_names():
    row = {"user_input": "Who lit it?", "response": "Anna.", "reference": "Anna."}
    scoring = ContextUtilization().ascore(
        **row, retrieved_contexts=["Anna lit it.", "Rain."], judge=useful
    )
    assert asyncio.run(scoring).value == 1.0


@pytest.mark.parametrize(
    "column",
    ["found.texts", lambda row: row["found"]["texts"]],
    ids=["a path", "a function"],
)
def test_validmind_context_utilization(column):
    """With columns of one's own, a histogram, a box plot and signs of high risk."""
    rows = [
        {"q": question, "found": {"texts": contexts}, "out": answer}
        for question, contexts, answer in zip(*TABLE.values(), strict=True)
    ]
    report = evaluate(
        pd.DataFrame(rows),
        metrics=[ContextUtilization],
        judge=useful,
        question_column="q",
        contexts_column=column,
        answer_column="out",
    )
    numbers = report.summary()["context_utilization"]
    assert (numbers.min, numbers.median, numbers.max) == (0.5, 0.75, 1.0)
    assert numbers.quartiles == (0.625, 0.75, 0.875)
    assert sum(numbers.histogram) == numbers.count == 2
    assert (numbers.risk, report.summary().risks) == ("", ())


def test_opik_context_recall():
    metric = ContextRecall(name="context_recall_metric")
    result = metric.score(**OPIK, judge=rated)
    assert isinstance(result, Scored)
    assert (result.metric, result.value) == ("context_recall_metric", 1.0)
    assert result.reason
    later = asyncio.run(metric.ascore(**OPIK, judge=rated))
    assert (later.value, later.reason) == (result.value, result.reason)


# our own client asks the first, LiteLLM the second
@pytest.mark.nightly
@pytest.mark.parametrize("model", ["openai/gpt-4o", "deepinfra/meta-llama/Llama-3"])
def test_opik_names_the_model_in_the_metric(model, loopback_server, monkeypatch):
    server = loopback_server()
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    monkeypatch.setenv("RAGMETRICS_API_KEY", "k")
    result = ContextRecall(model=model).score(**OPIK)
    assert result.status == "scored", result
    assert result.judge == model
    assert server.requests[-1].body["model"] == model.partition("/")[2]


def test_galileo_context_adherence_plus():
    """The share of yes of several judgements, with one explanation of the majority."""
    row = {"context": ["Anna lit it."], "output": "Anna did.", "input": "Who lit it?"}
    result = ContextAdherence(polls=5).score(**row, judge="lexical")
    assert result.status == "scored"
    assert result.reason


def test_query_loop_retrieval_accuracy():
    """A golden answer against the retrieved contexts, without an answer or a question."""
    by_word = ScriptedJudge(
        {
            FactInContext: lambda asked: {
                "covered": int(asked["fact"] in asked["context"])
            }
        }
    )
    result = RetrievalAccuracy().score(
        facts=["Anna lit it", "in 1856"], context=["Anna lit it."], judge=by_word
    )
    assert result.value == 0.5
    row = {"golden_answer": "Anna lit it.", "context": ["Anna lit it."]}
    assert RetrievalAccuracy().score(**row, judge="lexical").status == "scored"
