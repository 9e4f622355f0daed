"""The public API as users write it; mypy strict checks this file, nothing runs it."""

from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from ragmetrics_core import (
    Context,
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Failed,
    LexicalJudge,
    LiteLLMModel,
    LLMJudge,
    Metric,
    Question,
    Report,
    RetrievalAccuracy,
    Sample,
    Scored,
    ScriptedJudge,
    Undefined,
    aevaluate,
    ask,
    evaluate,
    iter_results,
)
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.replies import Answer, NotAnswered
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful, Usefulness
from ragmetrics_core.metrics.registry import METRICS, metric_named
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.scale.scorer import Scorer
from ragmetrics_core.testing import assert_score

R = TypeVar("R", bound=BaseModel)


def one_turn_in_other_words() -> float | None:
    return ContextUtilization().score(input="q", contexts=["a"], output="a").value


def one_turn() -> float | None:
    result = ContextUtilization(k=5, judging="listwise").score(
        question="q", contexts=["a", "b"], answer="a"
    )
    if isinstance(result, Scored):
        share: float = result.value
        return share
    if isinstance(result, Failed):
        print(result.error.type, result.error.message)
    elif isinstance(result, Undefined):
        print(result.code)
    reason: str = result.reason
    print(reason, result.status, result.usage.cost)
    return result.value


async def awaited(sample: Sample) -> str:
    result = await ContextAdherence(polls=3, early_stop=True).ascore(
        sample, judge=LexicalJudge()
    )
    return result.status


def many(samples: list[Sample]) -> Report:
    rows: list[dict[str, object]] = [{"query": "q", "contexts": ["c"], "response": "a"}]
    evaluate(
        rows,
        metrics="adherence",
        judge="gpt-4o-mini",
        question_column="query",
        answer_column=lambda row: "a",
    )
    evaluate(
        samples,
        metrics=[ContextRecall(model="ollama/llama3.1"), "accuracy"],
        store=MemoryStore(),
    )
    report = evaluate(
        samples, metrics=[RetrievalAccuracy(calls="per_context")], progress=print
    )
    low: float | None = report.summary()["retrieval_accuracy"].mean
    scores: list[float | None] = list(report.scores("retrieval_accuracy"))
    print(low, scores, report.table(), report.run.judges)
    print(report.scores(ContextRecall), report[ContextRecall()].mean)
    report.to_jsonl("out.jsonl")
    report.to_html("out.html", cluster="user.id")
    comparison = report.compare(report, slices="language", margin=0.05)
    verdict: str = comparison[ContextRecall].verdict
    print(verdict, comparison.table())
    assert_score(report, at_least=0.8, undecided="fail")
    return Report.from_jsonl("out.jsonl")


async def many_awaited(samples: list[Sample]) -> Report:
    return await aevaluate(samples, concurrency=4)


def streamed(samples: Iterator[Sample]) -> Iterator[tuple[int, str | None]]:
    result: SampleResult
    for result in iter_results(samples, metrics=list(METRICS)):
        yield (
            result.index,
            result.sample.question if result.sample is not None else None,
        )


def samples() -> Sample:
    context = Context(text="a", id="1", score=0.5, metadata={"page": 1})
    sample = Sample(question="q", contexts=(context,), answer="a", reference=("r", "s"))
    texts: tuple[Context, ...] | None = sample.contexts
    print(texts, sample.missing("facts"))
    try:
        return Sample.from_row(
            {"query": "q"}, contexts="prediction.contexts", answer=lambda row: row["a"]
        )
    except RowError as error:
        print(error)
        return sample


def judges() -> list[Judge]:
    model = LiteLLMModel(
        "openai/x",
        api_base="http://127.0.0.1:8000/v1",
        capabilities=Capabilities(n=True),
    )
    print(ContextRecall(examples="Half of it is 0.5.").signature)
    return [LLMJudge(model, max_tokens=512), LLMJudge(Echo()), LexicalJudge(), Yes()]


class Echo(ChatModel):
    """A chat model of one's own."""

    @property
    def name(self) -> str:
        return "echo"

    def capabilities(self) -> Capabilities:
        return Capabilities(n=False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice(request.messages[-1].content),))


class Yes(Judge):
    """A judge of one's own."""

    name = "yes"

    async def answer(self, question: Question[R]) -> Answer[R]:
        return await ScriptedJudge({Useful: Usefulness(useful=True)}).answer(question)


def scorers() -> list[Scorer]:
    misspelt = Scorer("adherence", qestion_column="query")  # type: ignore[call-arg]
    named = Scorer("adherence", question_column="query", answer_column=lambda row: "a")
    return [misspelt, named]


def by_name() -> Metric:
    metric: Metric = metric_named("adherence", {"polls": 3})
    return metric


def replies(question: Useful) -> Iterator[bool]:
    plan = ask([question])
    next(plan)
    try:
        plan.send(())
    except StopIteration as stop:
        for reply in stop.value:
            yield not isinstance(reply, NotAnswered) and reply.reply.useful
