"""The evaluators: the framework's own ways of calling them, its results, prompts, batches."""

import asyncio
from types import ModuleType
from typing import Any

import pytest
from judge_replies import poll, polls, rating, useful
from llama_index.core import Settings, get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.evaluation import BaseEvaluator, BatchEvalRunner, EvaluationResult
from llama_index.core.evaluation.notebook_utils import get_eval_results_df
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.tools import QueryEngineTool
from llama_index.evaluation.ragmetrics import (
    ContextAdherenceEvaluator,
    ContextRecallEvaluator,
    ContextUtilizationEvaluator,
    capture,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    MetricEvaluator,
    RagMetricsResult,
    as_evaluation_result,
)
from pydantic import BaseModel

from ragmetrics_core import (
    ContextAdherence,
    LexicalJudge,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data.errors import AuthenticationFailed, SettingError
from ragmetrics_core.data.results import Scored
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.polls import Adherent

QUESTION = "What is the capital of France?"
YES = polls((poll("yes", "It says so."),))
pytestmark = [
    # The framework's batch runner and agents use deprecated parts of their own
    # dependencies.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
]


def judge() -> ScriptedJudge:
    return ScriptedJudge(
        {
            Adherent: YES,
            Useful: lambda question: useful(
                "Paris" in question["chunk"], reason="named"
            ),
            RateRecall: rating(0.5, "Half of it."),
        }
    )


@pytest.fixture
def engine(kit: ModuleType) -> RetrieverQueryEngine:
    nodes = [
        kit.node("wine", "France is renowned for wine.", 0.9),
        kit.node("paris", "Paris is the capital of France.", 0.4, metadata={"page": 1}),
    ]
    return RetrieverQueryEngine(
        kit.FixedRetriever(nodes),
        response_synthesizer=get_response_synthesizer(llm=kit.ScriptedLLM()),
    )


def test_evaluate() -> None:
    evaluator = ContextUtilizationEvaluator(judge=judge(), threshold=0.5)
    result = evaluator.evaluate(
        query=QUESTION, response="Paris", contexts=["Wine.", "Paris."], other_keyword=1
    )
    assert isinstance(result, EvaluationResult)
    assert (result.query, result.response, list(result.contexts or ())) == (
        QUESTION,
        "Paris",
        ["Wine.", "Paris."],
    )
    assert (result.score, result.passing, result.invalid_result) == (0.5, True, False)
    assert result.metric_result is not None
    assert result.feedback == result.metric_result.reason
    assert (
        ContextUtilizationEvaluator(judge=judge(), threshold=0.6)
        .evaluate(query=QUESTION, response="Paris", contexts=["Wine.", "Paris."])
        .passing
        is False
    )
    assert RagMetricsResult.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize(
    ("threshold", "passing"), [(0.6, True), (0.7, None), (0.9, False)]
)
def test_a_score_that_lost_polls_decide_neither_passes_nor_fails(
    threshold: float, passing: bool | None
) -> None:
    lost = Scored(metric="m", value=0.75, reason="", bounds=(0.6, 0.8))
    result = as_evaluation_result(lost, Sample(answer="Paris"), threshold=threshold)
    assert (result.score, result.passing, result.invalid_result) == (
        0.75,
        passing,
        False,
    )


def test_a_response_in_the_place_of_its_text_says_where_it_goes(
    engine: RetrieverQueryEngine,
) -> None:
    result = ContextAdherenceEvaluator(judge=judge()).evaluate(
        query=QUESTION,
        response=engine.query(QUESTION),
        contexts=["Paris is the capital of France."],
    )
    assert (result.score, result.invalid_result) == (None, True)
    assert "evaluate_response(" in (result.invalid_reason or "")


def test_sync_within_a_running_loop_and_async() -> None:
    evaluator = ContextAdherenceEvaluator(judge=judge())

    async def run() -> list[float | None]:
        inside = evaluator.evaluate(query="q", response="a", contexts=["c"])
        awaited = await evaluator.aevaluate(query="q", response="a", contexts=["c"])
        return [inside.score, awaited.score]

    for _ in range(2):  # on a fresh loop each time
        assert asyncio.run(run()) == [1.0, 1.0]


class City(BaseModel):
    name: str


def test_every_kind_of_response(kit: ModuleType, engine: RetrieverQueryEngine) -> None:
    nodes = engine.retriever.retrieve(QUESTION)
    seen = judge()
    evaluator = ContextUtilizationEvaluator(judge=seen)

    async def tokens() -> Any:
        for token in ("Pa", "ris"):
            yield token

    responses: list[tuple[Any, str]] = [
        (Response("Paris", source_nodes=nodes), "Paris"),
        (
            StreamingResponse((token for token in ("Pa", "ris")), source_nodes=nodes),
            "Paris",
        ),
        (PydanticResponse(City(name="Paris"), source_nodes=nodes), '{"name":"Paris"}'),
        (AgentChatResponse("Paris", source_nodes=nodes), "Paris"),
    ]
    for response, answer in responses:
        result = evaluator.evaluate_response(query=QUESTION, response=response)
        assert (result.score, result.response) == (0.5, answer)
        assert list(result.contexts or ()) == [
            "France is renowned for wine.",
            "page: 1\n\nParis is the capital of France.",
        ]
        assert isinstance(result.metric_result, BaseModel)
        again = asyncio.run(
            evaluator.aevaluate_response(query=QUESTION, response=response)
        )
        assert (again.score, again.response) == (0.5, answer)

    async def stream() -> RagMetricsResult:
        response = AsyncStreamingResponse(tokens(), source_nodes=nodes)
        return await evaluator.aevaluate_response(query=QUESTION, response=response)

    assert (asyncio.run(stream()).score, asyncio.run(stream()).response) == (
        0.5,
        "Paris",
    )


def test_agent_output(kit: ModuleType, engine: RetrieverQueryEngine) -> None:
    tool = QueryEngineTool.from_defaults(engine, name="store", description="store")
    agent = FunctionAgent(
        tools=[tool], llm=kit.ToolLLM(calls=[("store", {"input": "capital"})])
    )

    async def run() -> RagMetricsResult:
        output = await agent.run(user_msg=QUESTION)
        return await ContextUtilizationEvaluator(judge=judge()).aevaluate_response(
            query=QUESTION, response=output
        )

    result = asyncio.run(run())
    assert (result.score, result.response) == (0.5, "The agent's answer.")


def test_undefined_and_failed_are_invalid_never_raised() -> None:
    down = ScriptedJudge(
        {Adherent: AuthenticationFailed("the endpoint refused the key")}
    )
    evaluator = ContextAdherenceEvaluator(judge=judge())
    for result, reason in (
        (evaluator.evaluate(query="q", response="a", contexts=None), "no contexts"),
        (evaluator.evaluate(query="q", contexts=["c"]), "no answer"),
        (evaluator.evaluate_response(query="q", response=None), "no contexts"),
        (evaluator.evaluate(query="q", response="a", contexts=[7]), "contexts"),  # type: ignore[list-item]
        (evaluator.evaluate_response(query="q", response=object()), "got object"),
        (
            ContextRecallEvaluator(judge=judge()).evaluate(
                query="q", response="a", contexts=["c"]
            ),
            "no reference",
        ),
        (
            ContextUtilizationEvaluator(judge=down).evaluate(
                query="q", response="a", contexts=["c"]
            ),
            "type Useful",
        ),
        (
            ContextAdherenceEvaluator(judge=down).evaluate(
                query="q", response="a", contexts=["c"]
            ),
            "refused the key",
        ),
    ):
        assert result.invalid_result
        assert result.score is None
        assert result.passing is None
        assert reason in (result.invalid_reason or "")


def test_reference_as_in_the_frameworks_evaluators(
    engine: RetrieverQueryEngine,
) -> None:
    evaluator = ContextRecallEvaluator(judge=judge())
    assert evaluator.evaluate(query="q", response="a", reference="r").score == 0.5
    response = engine.query(QUESTION)
    assert (
        evaluator.evaluate_response(
            query=QUESTION, response=response, reference=["r", "s"]
        ).score
        == 0.5
    )


def test_settings_of_metrics() -> None:
    assert ContextAdherenceEvaluator(polls=3).metric == ContextAdherence(polls=3)
    assert MetricEvaluator(ContextAdherence(polls=3)).metric.polls == 3  # type: ignore[attr-defined]
    with pytest.raises(SettingError):
        ContextAdherenceEvaluator(polls=0)
    with pytest.raises(SettingError, match="not both"):
        ContextAdherenceEvaluator(ContextAdherence(), polls=3)
    with pytest.raises(SettingError, match="not both"):
        ContextAdherenceEvaluator(llm=Settings.llm, judge="lexical")
    with pytest.raises(SettingError, match="give a metric"):
        MetricEvaluator()


def test_batch_runner(engine: RetrieverQueryEngine) -> None:
    evaluating: dict[str, BaseEvaluator] = {
        "utilization": ContextUtilizationEvaluator(judge=judge()),
        "adherence": ContextAdherenceEvaluator(judge=judge()),
        "recall": ContextRecallEvaluator(judge=judge()),
        "lexical": ContextRecallEvaluator(judge=LexicalJudge()),
    }

    def runner() -> BatchEvalRunner:
        """A fresh one: it keeps a semaphore of its first loop."""
        return BatchEvalRunner(evaluating, workers=4)

    queries = [QUESTION, "And the wine?"]
    answers = ["Paris", "Red"]
    contexts = [["Wine.", "Paris."], ["Paris."]]
    responses = [engine.query(query) for query in queries]
    reference = ["The answer.", "The answer."]

    async def all_async() -> list[dict[str, list[EvaluationResult]]]:
        return [
            await runner().aevaluate_response_strs(
                queries, answers, contexts, reference=reference
            ),
            await runner().aevaluate_responses(queries, responses, reference=reference),
            await runner().aevaluate_queries(
                engine, queries=queries, recall={"reference": reference}
            ),
        ]

    found = [
        runner().evaluate_response_strs(
            queries, answers, contexts, reference=reference
        ),
        runner().evaluate_responses(queries, responses, reference=reference),
        runner().evaluate_queries(engine, queries=queries, reference=reference),
        *asyncio.run(all_async()),
    ]
    for results in found:
        assert set(results) == {"utilization", "adherence", "recall", "lexical"}
        assert [result.score for result in results["adherence"]] == [1.0, 1.0]
        assert [result.score for result in results["recall"]] == [0.5, 0.5]
        assert results["utilization"][0].score == 0.5
        assert [result.query for result in results["utilization"]] == queries
    without = found[-1]["lexical"]
    assert all(result.invalid_result and result.score is None for result in without)

    pytest.importorskip("pandas")
    names = ["adherence"] * 2 + ["lexical"] * 2
    frame, means = get_eval_results_df(names, [*found[-1]["adherence"], *without])
    assert list(frame["scores"].isna()) == [False, False, True, True]
    assert means["adherence"].iloc[0] == 1.0


def test_judges_are_not_captured(engine: RetrieverQueryEngine, kit: ModuleType) -> None:
    judging = kit.ScriptedLLM(
        script={"": '{"reason": "yes", "supported": 1, "claims": 1, "unsupported": []}'}
    )
    with capture() as captured:
        response = engine.query(QUESTION)
        result = ContextAdherenceEvaluator(llm=judging, polls=1).evaluate_response(
            query=QUESTION, response=response
        )
    assert result.score == 1.0
    assert len(captured.samples) == 1


def test_which_judge(kit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    fields: dict[str, Any] = {"query": "q", "response": "a", "contexts": ["c"]}
    reply = kit.ScriptedLLM(
        script={
            "": '{"reason": "x", "supported": 0, "claims": 1, "unsupported": ["a"]}'
        }
    )
    monkeypatch.setattr(Settings, "_llm", reply)
    result = ContextAdherenceEvaluator(cause=False).evaluate(**fields)
    assert result.metric_result is not None
    assert (result.metric_result.judge, result.score) == ("scripted", 0.0)
    monkeypatch.setattr(Settings, "_llm", None)
    result = ContextAdherenceEvaluator().evaluate(**fields)
    assert result.metric_result is not None
    assert result.metric_result.judge == "lexical"
    result = ContextAdherenceEvaluator(model="lexical").evaluate(**fields)
    assert result.metric_result is not None
    assert result.metric_result.judge == "lexical"
