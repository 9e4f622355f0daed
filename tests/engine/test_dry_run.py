"""What a run would cost, worked by hand, and held against what a run does cost."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    Question,
    RetrievalAccuracy,
    Sample,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import Instructions, Part
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.sample_parts import EvidenceCall, Ledger
from ragmetrics_core.engine.dry_run import Estimate, estimate
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.decision_model import OpenAIDecisionModel

ALL = Capabilities(
    n=True, logprobs=True, json_schema=True, temperature=True, reasoning=False
)
NONE = Capabilities(
    n=False, logprobs=False, json_schema=False, temperature=True, reasoning=False
)


class Priced(ChatModel):
    """A model that is never called."""

    def __init__(
        self, can: Capabilities, prices: tuple[float, float] | None = (0.001, 0.01)
    ) -> None:
        self._can, self._prices = can, prices

    @property
    def name(self) -> str:
        return "priced"

    def capabilities(self) -> Capabilities:
        return self._can

    def prices(self) -> tuple[float, float] | None:
        return self._prices

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("a dry run called the model")


SAMPLE = Sample(
    question="Who lit the lamp?",
    contexts=("Anna lit it.", "It was built in 1856.", "Anna lit it."),
    answer="Anna did.",
    reference="Anna lit it. It was built in 1856.",
)


def count(can: Capabilities, *metrics: Metric, samples: Any = (SAMPLE,)) -> Estimate:
    return estimate(samples, metrics, LLMJudge(Priced(can)))


OWN_CELL = 'Reply with "covered".\n{context}\n{fact}\n'


# Two distinct chunks. Two sentences in the reference: four facts, each judged in two
# distinct chunks. Replies are good ones: chunks useful, answers adherent.
CALLS: list[tuple[Metric, Capabilities, int]] = [
    (ContextUtilization(), ALL, 2),
    (ContextUtilization(judging="listwise"), ALL, 1),
    (ContextUtilization(relevance="probability"), ALL, 2),
    (ContextUtilization(), NONE, 2),
    (ContextRecall(), ALL, 1),
    # one call for five polls
    (ContextAdherence(), ALL, 1),
    (ContextAdherence(), NONE, 5),
    (ContextAdherence(), Capabilities(), 1),
    (ContextAdherence(polls=2), NONE, 2),
    # the first three polls agree
    (ContextAdherence(early_stop=True), NONE, 3),
    # reasoning models: no n
    (ContextAdherence(), Capabilities(n=True, logprobs=True, temperature=False), 5),
    (RetrievalAccuracy(), ALL, 1 + 4 * 2),
    # without log-probabilities one for all facts of a chunk
    (RetrievalAccuracy(), NONE, 1 + 2),
    (RetrievalAccuracy(), Capabilities(n=True), 1 + 4 * 2),
    # a template of one's own asks about each fact: three polls for each cell
    (RetrievalAccuracy(template=OWN_CELL), NONE, 1 + 4 * 2 * 3),
    (
        RetrievalAccuracy(template=OWN_CELL),
        Capabilities(n=True, logprobs=False),
        1 + 4 * 2,
    ),
    (RetrievalAccuracy(calls="per_context"), NONE, 3),
]


@pytest.mark.parametrize(("metric", "can", "calls"), CALLS)
def test_calls(metric, can, calls):
    assert count(can, metric).usage.calls == calls


def test_facts_of_the_sample_are_counted():
    sample = SAMPLE.model_copy(
        update={"reference": (), "facts": Sample(facts=["a", "b", "c"]).facts}
    )
    assert count(ALL, RetrievalAccuracy(), samples=[sample]).usage.calls == 6


def test_what_is_asked_twice_is_counted_once():
    found = count(ALL, ContextUtilization(), ContextRecall(), samples=[SAMPLE] * 5)
    assert found.usage.calls == 3


class PolledInThread(ContextAdherence):
    """Computes for long beside what it asks."""

    in_thread = True


def test_a_metric_that_runs_in_a_thread_of_its_own_counts_its_calls():
    assert count(ALL, PolledInThread(cause=False)).usage.calls == 1


def test_what_is_undefined_costs_nothing():
    found = count(
        ALL, ContextUtilization(), samples=[Sample(question="q"), RowError("no row")]
    )
    assert found == Estimate(1, Usage(), bad_rows=1)
    assert "context_utilization left out: no contexts on every row" in found.text()


def test_a_metric_that_breaks_ends_no_dry_run():
    @metric(name="broken", requires=("answer",))
    def broken(sample: Sample) -> Iterator[Any]:
        yield from ask([sample.metadata["missing"]])

    found = count(ALL, broken, ContextRecall())
    assert found.usage.calls == 1
    assert "broken crashes on 1 of 1 samples: KeyError in broken (" in found.text()
    assert "test_dry_run.py:" in found.text()


class Verdict(BaseModel):
    polite: bool


class IsPolite(Question[Verdict]):
    """Is the answer polite?"""


class InWords(BaseModel):
    """What no judge of typed questions writes."""

    tone: str


def question_of_tone(
    sample: Sample,
    template: str = "{answer}",
    example: bool = True,
    reply: type[BaseModel] = Verdict,
    **fields: Any,
) -> Iterator[Any]:
    question = IsPolite(
        parts={"answer": Part("Answer", sample.answer)},
        instructions=Instructions(template),
        Reply=reply,
        example=Verdict(polite=True) if example else None,
        **fields,
    )
    [asked] = yield from ask([question])
    return asked.weights[0].p


class Saying(Priced):
    """A model that says yes."""

    def __init__(self) -> None:
        super().__init__(NONE)

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice('{"polite": true}'),))


def tone_with(**settings: Any) -> Metric:
    """The metric with a mistake, and the usual name."""

    @metric(name="tone", requires=("answer",))
    def made(sample: Sample) -> Iterator[Any]:
        return (yield from question_of_tone(sample, **settings))

    return made


MISTAKES = {
    "a placeholder that is no part": (
        {"template": "{anwser}"},
        "the template has {anwser}, of which this question has no part",
    ),
    "a field of a wrong type": (
        {"if_too_long": "answer"},
        "IsPolite: if_too_long must be Windows",
    ),
    "a reading of what is not there": ({}, "there are no weights"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_metric_is_seen_before_any_call(mistake):
    settings, words = MISTAKES[mistake]
    found = count(ALL, tone_with(**settings), samples=[SAMPLE, SAMPLE])
    assert f"tone crashes on 2 of 2 samples: {words}" in found.text()
    report = evaluate([SAMPLE], tone_with(**settings), judge=LLMJudge(Saying()))
    (result,) = report.results
    assert result.results["tone"].status == "failed"
    assert words in result.results["tone"].reason


def test_what_only_a_dry_run_cannot_answer_is_no_crash():
    assert not count(ALL, tone_with(example=False)).failing


def test_a_refused_question_is_said_where_the_metric_raises_its_error():
    judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base="http://127.0.0.1:9"))
    metric = tone_with(reply=InWords, example=False)
    found = estimate([SAMPLE], [metric], judge)
    assert "tone will fail on 1 of 1 samples: " in found.text()
    assert not found.failing["tone"].is_crash


def test_tokens_and_price():
    found = count(ALL, ContextRecall())
    usage = found.usage
    template = ContextRecall().instructions()[0]
    texts = [SAMPLE.question, SAMPLE.answer, *SAMPLE.reference]
    texts += ["Anna lit it.", "It was built in 1856."]
    n_characters = len(template.template) + len(template.examples)
    n_characters += sum(len(text or "") for text in texts)
    assert n_characters / 4 < usage.prompt_tokens < n_characters / 3
    assert 40 < usage.completion_tokens < 90
    cost = usage.prompt_tokens * 0.001 + usage.completion_tokens * 0.01
    assert usage.cost == pytest.approx(cost)
    assert f"price:             about ${cost:.4f}" in found.text()
    assert "About: tokens of 3.5 characters" in found.text()


def test_each_call_sends_the_prompt_and_each_reply_is_paid():
    together, apart = (count(can, ContextAdherence()).usage for can in (ALL, NONE))
    assert (together.calls, apart.calls) == (1, 5)
    assert apart.prompt_tokens == 5 * together.prompt_tokens
    assert apart.completion_tokens == together.completion_tokens > 5 * 50


def test_an_unknown_price_is_said():
    found = estimate([SAMPLE], [ContextRecall()], LLMJudge(Priced(ALL, None)))
    assert found.usage.cost is None
    assert "price:             unknown; cap the run by --max-calls" in found.text()


def test_lists_of_verdicts_are_longer_replies():
    listwise = count(ALL, ContextUtilization(judging="listwise")).usage
    single = count(ALL, ContextUtilization()).usage
    n_tokens = listwise.completion_tokens
    assert single.completion_tokens <= n_tokens <= 2 * single.completion_tokens


def test_the_embedded_judge_costs_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{SAMPLE.model_dump_json()}\n3\n")
    assert (
        main(["evaluate", str(path), "--dry-run", "--out", str(tmp_path / "out.jsonl")])
        == 0
    )
    shown = capsys.readouterr().out
    assert shown.startswith(
        "1 samples, 1 bad rows; nothing was called\ncalls:             0\nprompt"
        " tokens:     0\n"
    )
    assert "price:             $0.0000" in shown
    assert not (tmp_path / "out.jsonl").exists()


def test_no_shipped_metric_is_said_to_fail(tmp_path, capsys):
    """The judge that counts answers each question with the question's own example."""
    path = tmp_path / "rows.jsonl"
    path.write_text(SAMPLE.model_dump_json())
    command = ["evaluate", str(path), "--judge", "gpt-4o-mini", "--dry-run"]
    optional = "context_sufficiency,answer_relevance,citation_quality"
    for metrics in ([], ["--metrics", optional]):
        assert main([*command, *metrics]) == 0
        assert "will fail" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metric", "further"),
    [
        (ContextUtilization(), 1),  # does the answer decline?
        (ContextAdherence(), 2),  # the cause of a low score
        (ContextRecall(), 0),
    ],
)
def test_a_run_costs_what_was_estimated_and_what_low_scores_ask_further(
    metric, further, loopback_server
):
    server = loopback_server()
    judge = LLMJudge(
        OpenAICompatibleModel(server.base_url, "x", api_key="none", capabilities=ALL)
    )
    found = estimate([SAMPLE], [metric], judge)
    assert not server.requests
    calls = evaluate([SAMPLE], metrics=metric, judge=judge).summary().usage.calls
    assert found.usage.calls <= calls <= found.usage.calls + further
    assert calls == len(server.requests)


def test_a_conversation_takes_as_many_calls_as_one_turn():
    """One request for five polls where the model can."""
    found = EvidenceCall(kind="retrieval", items=SAMPLE.contexts, shown=())
    later = SAMPLE.model_copy(
        update={"contexts": (), "ledger": Ledger(turn=2, calls=(found,))}
    )
    for own in (ContextAdherence(), ContextAdherence(early_stop=True)):
        for sample in (SAMPLE, later):
            assert count(ALL, own, samples=[sample]).usage.calls == 1
