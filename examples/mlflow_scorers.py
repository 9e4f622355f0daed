"""MLflow: the numbers of a report as metrics of a run, and our metrics as its scorers.

It needs ``pip install mlflow ./ragmetrics``, beside the clone.
"""

from typing import Any

import mlflow
from mlflow.entities import AssessmentError, AssessmentSource, Feedback, Trace
from mlflow.genai.scorers import Scorer, scorer

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    Judge,
    Metric,
    Sample,
    evaluate,
)

rows = [
    {
        "question": "Capital of France?",
        "contexts": ["Paris is the capital."],
        "answer": "Paris is the capital.",
    }
]
report = evaluate(rows, ["adherence", "utilization"], judge="lexical")
means = {metric.metric: metric.mean for metric in report.summary().metrics}
with mlflow.start_run():
    mlflow.log_metrics({name: mean for name, mean in means.items() if mean is not None})


def as_scorer(metric: Metric, judge: Judge | str | None = None) -> Scorer:
    """Make a metric a scorer of ``mlflow.genai.evaluate``.

    The sample is what inputs, outputs and expectations hold together, under the usual
    names. Contexts that it lacks are those of the trace's retriever spans.
    """

    @scorer(name=metric.name)
    def score(
        inputs: dict[str, Any],
        outputs: Any,
        expectations: dict[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> Feedback:
        answer = outputs if isinstance(outputs, dict) else {"answer": outputs}
        row = {**inputs, **answer, **(expectations or {})}
        columns = {"reference": "expected_response"}
        sample = Sample.from_row(row, **(columns if "expected_response" in row else {}))
        if not sample.contexts and trace:
            sample = Sample(**{**dict(sample), "contexts": _retrieved(trace)})
        result = metric.score(sample, judge=judge)
        error = None
        if result.status == "failed":
            error = AssessmentError(result.error.type, result.error.message)
        kind = "CODE" if result.judge in ("", "lexical") else "LLM_JUDGE"
        return Feedback(
            value=result.value,
            error=error,
            rationale=result.reason,
            source=AssessmentSource(kind, result.judge or "ragmetrics"),
        )

    return score


def _retrieved(trace: Trace) -> list[str]:
    """The texts that the retrievers of a trace returned."""
    outputs = [
        span.outputs or [] for span in trace.data.spans if span.span_type == "RETRIEVER"
    ]
    return [
        found.get("page_content", "") for documents in outputs for found in documents
    ]


scorers = [
    as_scorer(ContextAdherence(), "lexical"),
    as_scorer(ContextUtilization(), "lexical"),
]
data = [
    {
        "inputs": {"question": "Capital of France?"},
        "outputs": {
            "response": "Paris is the capital.",
            "contexts": ["Paris is the capital."],
        },
    }
]
if __name__ == "__main__":
    print(mlflow.genai.evaluate(data=data, scorers=scorers).metrics)
