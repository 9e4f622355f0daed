"""The LangSmith evaluator with the real langsmith package, offline."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from judge_replies import rating
from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.evaluation import EvaluatorCallbackHandler
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_fakes import (
    ANSWER,
    QUESTION,
    Shelf,
    Speaker,
    calls,
    offline_client,
    rag,
)
from langchain_ragmetrics import RagMetricsRunEvaluator, samples_from
from langgraph.checkpoint.memory import InMemorySaver
from langsmith import Client
from langsmith.schemas import Example, Run

from ragmetrics_core import ContextRecall, ScriptedJudge
from ragmetrics_core.data.errors import TransientJudgeError
from ragmetrics_core.metrics.context_recall import RateRecall

RATED = ScriptedJudge({RateRecall: rating(0.8, "Says nearly all.")})


def example(outputs: dict[str, Any] | None) -> Example:
    now = datetime.now(UTC)
    return Example(
        id=uuid.uuid4(),
        dataset_id=uuid.uuid4(),
        inputs={"question": QUESTION},
        outputs=outputs,
        created_at=now,
    )


def traced(**settings: Any) -> Any:
    with collect_runs() as runs:
        rag(**settings).invoke(QUESTION)
    return runs.traced_runs[0]


def test_a_stream_that_was_left_is_no_whole_answer_to_another_tracer_either() -> None:
    with collect_runs() as runs:
        stream = rag().stream(QUESTION)
        next(stream)
        stream.close()
    (sample,) = samples_from(runs.traced_runs[0])
    assert sample.answer is None
    assert sample.capture is not None
    assert "no_answer" in sample.capture.doubts


def test_an_agents_first_turn_has_no_earlier_talk_to_another_tracer_either() -> None:
    """A tracer keeps what a chat model is shown as one text."""
    lines = [calls("look_up", query=QUESTION), ANSWER]
    agent = create_agent(
        Speaker(lines=[*lines, calls("look_up", query="Italy"), ANSWER]),
        [create_retriever_tool(Shelf(), "look_up", "Looks a thing up.")],
        checkpointer=InMemorySaver(),
    )
    runs = RunCollectorCallbackHandler()
    thread: Any = {"configurable": {"thread_id": "t"}, "callbacks": [runs]}
    for question in (QUESTION, "And of Italy?"):
        agent.invoke({"messages": [("user", question)]}, thread)
    samples = [sample for run in runs.traced_runs for sample in samples_from(run)]
    assert [turn.content for turn in samples[1].history] == [QUESTION, ANSWER]
    assert samples[0].history == ()
    for sample in samples:
        assert sample.capture is not None
        assert "history_unread" not in sample.capture.doubts


@pytest.fixture
def client() -> Client:
    return offline_client()


# of langsmith
@pytest.mark.filterwarnings("ignore:'upload_\\w+' parameter is in beta")
def test_client_evaluate_offline(client: Client) -> None:
    """The run that the evaluator gets holds the chain's retriever.

    The reference is the example's one output.
    """
    seen = []

    def look(run: Run, example: Example) -> dict[str, Any]:
        (sample,) = samples_from(run)
        seen.append(
            (
                sample.question,
                [context.id for context in sample.known_contexts],
                sample.answer,
            )
        )
        return {"key": "seen", "score": 1}

    chain = RunnableLambda(lambda inputs: inputs["question"]) | rag()
    found = client.evaluate(
        lambda inputs: {"answer": chain.invoke(inputs)},
        data=[example({"expected": "Paris"})],
        evaluators=[
            RagMetricsRunEvaluator(ContextRecall(), RATED),
            RagMetricsRunEvaluator(["context_adherence"], "lexical"),
            look,
        ],
        upload_results=False,
    )
    (row,) = list(found)
    results = {result.key: result for result in row["evaluation_results"]["results"]}
    assert results["context_recall"].score == 0.8
    assert results["context_recall"].comment == "Says nearly all."
    assert results["context_recall"].metadata["evidence"]["band"] == "mostly"
    assert results["context_adherence"].score is not None
    assert seen == [(QUESTION, ["paris", None, None], ANSWER)]


def test_undefined_and_failed_have_no_score_and_say_why() -> None:
    run = traced()
    undefined = RagMetricsRunEvaluator(ContextRecall(), RATED).evaluate_run(
        run, example({"a": "x", "b": "y"})
    )
    assert undefined.score is None
    assert (
        undefined.comment
        == "no reference or facts; the example's outputs have the fields a, b: name one"
        " by reference_from="
        or "no reference" in undefined.comment
    )
    assert "reference_from=" in undefined.comment
    broken = ScriptedJudge({RateRecall: TransientJudgeError("the endpoint failed")})
    failed = RagMetricsRunEvaluator(ContextRecall(), broken).evaluate_run(
        run, example({"answer": "Paris"})
    )
    assert (failed.score, failed.comment) == (None, "the endpoint failed")
    assert failed.metadata["status"] == "failed"


@pytest.mark.parametrize(
    ("outputs", "source", "reference"),
    [
        ({"answer": "Paris"}, None, ("Paris",)),
        ({"whatever": "Paris"}, None, ("Paris",)),
        ({"expected_output": "Paris", "context": "long"}, None, ("Paris",)),
        ({"answers": ["Paris", "paris"]}, None, ("Paris", "paris")),
        ({"messages": [{"role": "assistant", "content": "Paris"}]}, None, ("Paris",)),
        ({"a": "no", "b": {"text": "Paris"}}, "b.text", ("Paris",)),
        ({"a": "no", "b": "Paris"}, lambda example: example.outputs["b"], ("Paris",)),
        ({"a": "no", "b": "Paris"}, None, ()),
        (None, None, ()),
    ],
)
def test_reference_is_found(
    outputs: Any, source: Any, reference: tuple[str, ...]
) -> None:
    judge = ScriptedJudge({RateRecall: rating(0.8, "Nearly.")})
    evaluator = RagMetricsRunEvaluator(ContextRecall(), judge, reference_from=source)
    evaluator.evaluate_run(traced(), example(outputs))
    assert [
        question["reference"]
        for question in judge.asked
        if isinstance(question, RateRecall)
    ] == ([reference[0]] if len(reference) == 1 else list(reference))


@pytest.mark.parametrize(
    ("context", "status"), [("Paris is it.", "undefined"), (["Paris is it."], "scored")]
)
def test_contexts_of_an_output_are_several_or_one_where_they_are_a_list(
    context: Any, status: str
) -> None:
    with collect_runs() as runs:
        RunnableLambda(lambda _: {"answer": "Paris.", "context": context}).invoke(
            {"question": QUESTION}
        )
    evaluator = RagMetricsRunEvaluator(["context_utilization"], "lexical")
    result = evaluator.evaluate_run(runs.traced_runs[0])
    assert result.metadata["status"] == status


def test_callback_handler_of_langchain() -> None:
    """It evaluates each root and hands the feedback to the client."""

    class Feedback:
        def __init__(self) -> None:
            self.given: list[tuple[str, float | None]] = []

        def create_feedback(
            self, run_id: Any, key: str, *, score: Any = None, **rest: Any
        ) -> None:
            self.given.append((key, score))

    feedback = Feedback()
    handler = EvaluatorCallbackHandler(
        [
            RagMetricsRunEvaluator(
                ["context_adherence", "context_utilization"], "lexical"
            )
        ],
        client=feedback,  # type: ignore[arg-type]
        max_concurrency=0,
    )
    rag(Shelf(), Speaker(lines="Paris is the capital of France.")).invoke(
        QUESTION, config={"callbacks": [handler]}
    )
    assert [key for key, _ in feedback.given] == [
        "context_adherence",
        "context_utilization",
    ]
    assert all(score is not None and score > 0.5 for _, score in feedback.given)


def test_runs_as_a_server_gives_them_back() -> None:
    """Documents and messages are dicts then."""
    start = datetime.now(UTC)

    def run(name: str, kind: str, inputs: Any, outputs: Any, below: list[Run]) -> Run:
        return Run(
            id=uuid.uuid4(),
            name=name,
            run_type=kind,
            inputs=inputs,
            outputs=outputs,
            child_runs=below,
            start_time=start,
            end_time=start,
            trace_id=uuid.uuid4(),
        )

    documents = [
        {
            "page_content": "Paris.",
            "metadata": {"score": 0.5},
            "id": "p",
            "type": "Document",
        }
    ]
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
    }
    prompt = {**message, "kwargs": {"content": "Use Paris. Where?", "type": "human"}}
    root = run(
        "LangGraph",
        "chain",
        {"messages": [{"role": "user", "content": "Where?"}]},
        {
            "messages": [
                {"type": "human", "content": "Where?"},
                {"type": "ai", "content": "In Paris."},
            ]
        },
        [
            run(
                "VectorStoreRetriever",
                "retriever",
                {"query": "Where?"},
                {"documents": documents},
                [],
            ),
            run(
                "Chat",
                "llm",
                {"messages": [[prompt]]},
                {"generations": [[{"text": "In Paris."}]]},
                [],
            ),
        ],
    )
    (sample,) = samples_from(root)
    assert (sample.question, sample.answer) == ("Where?", "In Paris.")
    assert [(c.text, c.id, c.score) for c in sample.known_contexts] == [
        ("Paris.", "p", 0.5)
    ]
