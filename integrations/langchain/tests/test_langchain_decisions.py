"""Decision models of LangChain as judges: they are asked typed questions, as an endpoint is."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
)
from langchain_ragmetrics.model import LangChainDecisionModel, LangChainModel, as_judge

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Metric,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.models.decision_model import SystemOneModel
from ragmetrics_core.testing.decision_loopback import DecisionServer

METRICS: tuple[Metric, ...] = (
    ContextUtilization(judging="listwise"),
    ContextAdherence(),
    ContextRecall(),
    RetrievalAccuracy(),
)
SAMPLE = Sample.from_row(
    {
        "question": "Who lit the lamp?",
        "contexts": ["Anna lit the lamp.", "It was in May."],
        "answer": "Anna lit it. It was in May.",
        "reference": "Anna lit it in May.",
        "facts": ["Anna lit the lamp."],
    }
)


def judged(judge: Any) -> dict[str, Any]:
    report = evaluate([SAMPLE], METRICS, judge=judge, store=False, progress=False)
    results = report.results[0].results
    return {name: (one.value, one.evidence) for name, one in results.items()}


def decision_model(server: DecisionServer, **fields: Any) -> Any:
    decisions = pytest.importorskip(
        "langchain_core.decisions",
        reason="decision models came with langchain-core 1.8",
    )

    class Loopback(decisions.BaseDecisionModel):  # type: ignore[misc]  # found at run time
        model: str = "tiny"

        @property
        def _provider(self) -> str:
            return "loopback"

        def _classify(self, state: Any, questions: dict[str, Any]) -> Any:
            asked = {name: one.model_dump() for name, one in questions.items()}
            body = {"model": self.model, "state": state, "questions": asked}
            return decisions.ClassifierResponse.model_validate(server.completion(body))

    return Loopback(**fields)


def test_a_decision_model_is_judged_by_as_its_endpoint_is() -> None:
    with DecisionServer() as server:
        model = decision_model(server)
        taken = as_judge(model)
        assert isinstance(taken, LangChainDecisionModel)
        assert taken.name == "tiny"
        at_endpoint = SystemOneModel("tiny", api_base=server.base_url)
        assert judged(taken) == judged(DecisionJudge(at_endpoint))


def test_what_is_bound_to_a_decision_model_changes_nothing() -> None:
    with DecisionServer() as server:
        model = decision_model(server)
        bound = model.with_config(tags=["mine"])
        assert isinstance(as_judge(bound), LangChainDecisionModel)
        assert judged(as_judge(bound)) == judged(as_judge(model))


@pytest.mark.parametrize("told_by", ["response", "answer"])
def test_what_tells_of_a_cut_is_too_long(told_by: str) -> None:
    with DecisionServer() as server:
        model = decision_model(server)
        decisions = pytest.importorskip("langchain_core.decisions")

        class Telling(decisions.ClassifierResponse):  # type: ignore[misc]  # found at run time
            truncated: bool = told_by == "response"

        class TellingScore(decisions.ScoreAnswer):  # type: ignore[misc]  # found at run time
            truncated: bool = told_by == "answer"

        class Cutting(type(model)):  # type: ignore[misc]  # found at run time
            def _classify(self, state: Any, questions: dict[str, Any]) -> Any:
                response = super()._classify(state, questions)
                answers = {
                    name: TellingScore(**dict(answer))
                    for name, answer in response.answers.items()
                }
                return Telling(**{**dict(response), "answers": answers})

        report = evaluate(
            [SAMPLE],
            [ContextRecall()],
            judge=as_judge(Cutting()),
            store=False,
            progress=False,
        )
    result = report.results[0].results["context_recall"]
    assert result.error.type == "ContextWindowExceeded"


def test_what_is_no_response_is_malformed() -> None:
    with DecisionServer() as server:
        model = decision_model(server)

        class Silent(type(model)):  # type: ignore[misc]  # found at run time
            def invoke(self, *_: Any, **settings: Any) -> Any:
                return None

        report = evaluate(
            [SAMPLE],
            [ContextRecall()],
            judge=as_judge(Silent()),
            store=False,
            progress=False,
        )
    result = report.results[0].results["context_recall"]
    assert result.error.type == "UnusableReply"


def test_other_runnables_are_chat_models_as_before() -> None:
    runnable: Runnable[Any, Any] = RunnableLambda(lambda _: "yes")
    assert isinstance(as_judge(runnable), LangChainModel)
