"""MLflow on a local store: the numbers of a report as metrics of a run, our metrics as scorers of its evaluation."""

import runpy
from pathlib import Path
from typing import Any

import mlflow
import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "mlflow_scorers.py"
pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow itself


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the example defines, after it ran on a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    return runpy.run_path(str(EXAMPLE))


def test_the_numbers_of_a_report_are_metrics_of_a_run(namespace):
    runs = mlflow.search_runs(output_format="list")
    logged = next(
        run.data.metrics for run in runs if "context_utilization" in run.data.metrics
    )
    assert logged == {
        own.metric: own.mean for own in namespace["report"].summary().metrics
    }


def test_metrics_are_scorers(namespace):
    result = mlflow.genai.evaluate(data=namespace["data"], scorers=namespace["scorers"])
    means = {own.metric: own.mean for own in namespace["report"].summary().metrics}
    assert {
        name.removesuffix("/mean"): value for name, value in result.metrics.items()
    } == pytest.approx(means)


def test_contexts_are_those_of_the_trace_and_nothing_found_is_zero(namespace):
    @mlflow.trace
    def application(question: str) -> str:
        with mlflow.start_span("search", span_type="RETRIEVER") as span:
            span.set_outputs(
                [{"page_content": "Paris is the capital."}]
                if "France" in question
                else []
            )
        return "Paris is the capital."

    data = [
        {"inputs": {"question": "Capital of France?"}},
        {"inputs": {"question": "Who?"}},
    ]
    result = mlflow.genai.evaluate(
        data=data, predict_fn=application, scorers=namespace["scorers"][:1]
    )
    found = result.tables["eval_results"]
    values = dict(
        zip(
            (str(own) for own in found["request"]),
            found["context_adherence/value"],
            strict=True,
        )
    )
    by_question = {"France" in question: value for question, value in values.items()}
    assert by_question[True] > 0.8
    assert by_question[False] == 0.0  # an answer for which nothing was found
    assert "The answer rests on no context." in set(
        found["context_adherence/rationale"]
    )
