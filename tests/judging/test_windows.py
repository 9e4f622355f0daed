"""Texts longer than the model's context window: any window decides, or a typed failure with both token counts."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from chat_models import PolledModel
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_replies import facts, of

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    ScriptedJudge,
)
from ragmetrics_core.data.asking import cut_in_halves
from ragmetrics_core.data.errors import (
    ContentRefused,
    ContextWindowExceeded,
    TransientJudgeError,
)
from ragmetrics_core.data.replies import Answer, Asked, NotAnswered, Usage, Weight
from ragmetrics_core.judging.model_judge import halve_questions, join_verdicts
from ragmetrics_core.metrics.citation_support import Supports
from ragmetrics_core.metrics.fact_matrix import ExtractFacts
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import (
    ChatReply,
    ChatRequest,
    Choice,
)

NEEDLE = "the lamp was lit by Ada"
LONG = {
    "beginning": f"{NEEDLE} {'far and wide ' * 800}",
    "middle": f"{'far and wide ' * 400}{NEEDLE} {'far and wide ' * 400}",
    "end": f"{'far and wide ' * 800}{NEEDLE}",
    "nowhere": "far and wide " * 800,
}


class Small(PolledModel):
    """A model with a window of 1,000 tokens, of four characters each, that finds the needle where it is."""

    name = "small"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1].content
        self.prompts.append(prompt)
        if len(prompt) > 4000:
            raise ContextWindowExceeded("longer than the window of small")
        found = int(f"{NEEDLE} " in f"{prompt} ".replace("\n", " "))
        return ChatReply(
            (Choice(self._reply(prompt, found, request.messages[0].content)),)
            * request.n,
            Usage(calls=1),
        )

    def _reply(self, prompt: str, found: int, prompt_of_system: str) -> str:
        if '"declined"' in prompt_of_system:
            return json.dumps({"reason": "r", "declined": 0})
        if "<reference-answer-" in prompt:
            return json.dumps({"facts": ["Ada lit it."]})
        if "<statement-" in prompt:
            return json.dumps({"supported": found})
        if 'id="1"' in prompt:
            return json.dumps(
                {"reason": "r", "claims": 1, "unsupported": [] if found else ["it"]}
            )
        if labels := re.findall(
            r'^<passage-\w+ id="([A-Z])">\n(.*)', prompt, re.MULTILINE
        ):
            return json.dumps(
                {
                    "chunks": [
                        {"label": label, "useful": int(NEEDLE in text)}
                        for label, text in labels
                    ]
                }
            )
        if "<facts-" in prompt:
            return json.dumps({"facts": [{"label": "F1", "covered": found}]})
        return json.dumps({"useful": found, "reason": "r"})


def score(metric: Metric, context: str) -> tuple[Any, Small]:
    model = Small()
    fields = {
        "question": "Who?",
        "contexts": [context],
        "answer": "Ada.",
        "reference": "Ada.",
        "facts": ["Ada did."],
    }
    return metric.score(**fields, judge=LLMJudge(model)), model


@pytest.mark.parametrize("place", LONG)
@pytest.mark.parametrize(
    "metric",
    [ContextUtilization(), RetrievalAccuracy()],
    ids=lambda metric: metric.name,
)
def test_any_window_decides_and_the_result_is_marked(metric, place):
    outcome, model = score(metric, LONG[place])
    assert (outcome.status, outcome.value) == (
        "scored",
        0.0 if place == "nowhere" else 1.0,
    )
    assert "windows" in outcome.usage.fallbacks
    assert outcome.usage.calls == len(model.prompts)


def test_what_fits_is_not_split():
    outcome, model = score(ContextUtilization(), NEEDLE)
    assert outcome.value == 1.0
    assert "windows" not in outcome.usage.fallbacks
    assert len(model.prompts) == 1


def test_what_needs_the_whole_text_fails():
    outcome, _ = score(ContextRecall(), LONG["middle"])
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")


def test_windows_overlap_and_lose_nothing():
    text = " ".join(f"word{number}" for number in range(1000))
    first, second = cut_in_halves(text)
    assert text.startswith(first)
    assert text.endswith(second)
    assert len(first) + len(second) >= len(text) + 190
    assert cut_in_halves("short") == ()
    unbroken = "x" * 5000
    assert sum(map(len, cut_in_halves(unbroken))) == 5200


def test_the_evidence_counts_the_windows():
    long = LONG["middle"]
    chunks = score(ContextUtilization(), long)[0].evidence.chunks
    (row,) = score(RetrievalAccuracy(), long)[0].evidence.cells
    assert [chunk.windows for chunk in chunks] == [cell.windows for cell in row] == [4]
    short = score(ContextUtilization(), NEEDLE)[0].evidence.chunks
    assert [chunk.windows for chunk in short] == [None]


def test_a_list_that_is_too_long_is_judged_as_shorter_lists():
    chunks = [f"{number}. {'far and wide ' * 60}" for number in range(9)]
    chunks[4] += NEEDLE
    model = Small()
    metric = ContextUtilization(judging="listwise")
    outcome = metric.score(
        question="Who?", contexts=chunks, answer="Ada.", judge=LLMJudge(model)
    )
    assert outcome.status == "scored", outcome.reason
    assert [chunk.useful for chunk in outcome.evidence.chunks] == [
        NEEDLE in chunk for chunk in chunks
    ]
    assert "windows" in outcome.usage.fallbacks


# Adherence over windows, by claims

CLAIMS = (
    "The lamp was lit by Ada.",
    "The boat was rowed by Ben.",
    "The door was shut by Cy.",
)


class ClaimsOnly(PolledModel):
    """A model with a window of so many characters, that knows a claim when it sees one.

    Args:
        window: How long a prompt may be.
        listed: What it lists as the claims of an answer; None: those that stand in it.
    """

    name = "claims only"

    def __init__(self, window: int, listed: Sequence[str] | None = None) -> None:
        self.asked: list[str] = []
        self._window = window
        self._listed = listed

    async def complete(self, request: ChatRequest) -> ChatReply:
        rules, prompt = (message.content for message in request.messages)
        if len(prompt) > self._window:
            raise ContextWindowExceeded("longer than the window")
        reply = self._reply(rules, prompt)
        self.asked.append(next(iter(reply)))
        return ChatReply((Choice(json.dumps(reply)),) * request.n, Usage(calls=1))

    def _reply(self, rules: str, prompt: str) -> dict[str, Any]:
        if '"declined"' in rules:
            return {"declined": int("I do not know" in prompt)}
        if "<reference-answer-" in prompt:
            listed = [claim for claim in CLAIMS if claim in prompt]
            return {"facts": listed if self._listed is None else list(self._listed)}
        tag = re.search(r"<(?:answer|statement)-\w+>\n(.*?)\n</", prompt, re.DOTALL)
        judged, texts = tag[1], prompt[: tag.start()] + prompt[tag.end() :]
        missing = [it for it in CLAIMS if it in judged and it not in texts]
        supported = int(not missing)
        if '"unsupported"' not in rules:
            return {"supported": supported}
        return {
            "reason": "Looked.",
            "supported": supported,
            "claims": 1,
            "unsupported": missing,
        }


def adherence_by_claims(
    contexts: list[str], answer: str, window: int, listed: Sequence[str] | None = None
) -> tuple[Any, ClaimsOnly]:
    model = ClaimsOnly(window, listed)
    metric = ContextAdherence(cause=False)
    fields = {"question": "Who?", "contexts": contexts, "answer": answer}
    return metric.score(**fields, judge=LLMJudge(model)), model


@pytest.mark.nightly
@given(
    st.lists(
        st.lists(st.sampled_from((*CLAIMS, "Rain fell all day. " * 80)), max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.sets(st.sampled_from(CLAIMS), min_size=1),
    st.sampled_from([2_500, 4_500, 9_000]),
)
@settings(max_examples=60, deadline=None)
def test_windows_and_claims_judge_as_a_window_that_holds_everything(
    texts, claims, window
):
    contexts = [" ".join(text) or "Nothing." for text in texts]
    answer = " ".join(sorted(claims))
    whole, _ = adherence_by_claims(contexts, answer, 10**9)
    outcome, model = adherence_by_claims(contexts, answer, window)
    assert (outcome.status, outcome.value) == ("scored", whole.value)
    assert set(outcome.evidence.unsupported) == set(whole.evidence.unsupported)
    assert (outcome.evidence.windows is not None) == ("facts" in model.asked)


def test_an_answer_judged_in_windows_says_so():
    contexts = [f"{claim} {'Rain fell. ' * 200}" for claim in CLAIMS[:2]]
    outcome, model = adherence_by_claims(contexts, " ".join(CLAIMS), 3_000)
    evidence = outcome.evidence
    assert (outcome.value, evidence.no, evidence.windows) == (0.0, 1, 2)
    assert evidence.unsupported == (CLAIMS[2],)
    assert [claim.probability for claim in evidence.claims] == [1.0, 1.0, 0.0]
    assert "2 of 3 claims rest on the contexts" in outcome.reason
    assert "2 windows" in outcome.reason
    # what two windows hold together was not shown: no surely made up answer
    assert outcome.uncertain
    held, _ = adherence_by_claims(contexts, CLAIMS[0], 3_000)
    assert (held.value, held.evidence.windows, held.uncertain) == (1.0, 2, False)
    with_cause = ContextAdherence().score(
        question="Who?", contexts=contexts, answer=CLAIMS[2], judge=LLMJudge(model)
    )
    assert "longer than the judge's window" in with_cause.evidence.cause_note


@pytest.mark.parametrize(
    ("answer", "listed", "status", "code"),
    [
        ("I do not know.", ["I do not know who lit it."], "undefined", "declined"),
        ("I do not know.", [], "undefined", "declined"),
        ("Hello!", [], "undefined", "no_claim"),
        (f"{CLAIMS[0]} Hello!", [CLAIMS[0]], "scored", None),
    ],
)
def test_an_answer_that_claims_nothing_has_no_score_in_windows_either(
    answer, listed, status, code
):
    contexts = [f"{claim} {'Rain fell. ' * 200}" for claim in CLAIMS[:2]]
    outcome, _ = adherence_by_claims(contexts, answer, 3_000, listed)
    assert (outcome.status, getattr(outcome, "code", None)) == (status, code)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({ExtractFacts: ContentRefused("refused")}, "refused"),
        ({ExtractFacts: facts("a"), Supports: ContentRefused("refused")}, "refused"),
        ({}, "too long"),  # a judge that cannot list claims
    ],
)
def test_what_is_not_answered_claim_by_claim_fails(script, said):
    judge = ScriptedJudge({Adherent: ContextWindowExceeded("too long"), **script})
    outcome = ContextAdherence().score(contexts=["a"], answer="b", judge=judge)
    assert outcome.status == "failed"
    assert said in outcome.reason


def test_windows_end_where_nothing_is_left_to_divide():
    outcome, _ = adherence_by_claims(["x" * 9_000], CLAIMS[0], 300)
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")


def test_a_long_context_through_a_chat_model():
    """The whole way: prompts, replies, the endpoint's refusal, several replies per request."""
    outcome, model = score(ContextAdherence(polls=3), LONG["middle"])
    assert (outcome.status, outcome.value) == ("scored", 1.0), outcome.reason
    assert score(ContextAdherence(polls=3), LONG["nowhere"])[0].value == 0.0
    assert outcome.usage.calls == len(model.prompts)


def test_an_answer_that_is_itself_too_long_is_no_reason_to_cut_chunks():
    model = Small()
    fields = {
        "question": "Who?",
        "contexts": ["far and wide " * 100] * 2,
        "answer": "Ada. " * 2000,
    }
    outcome = ContextUtilization().score(**fields, judge=LLMJudge(model))
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")
    assert len(model.prompts) == 1, "one distinct chunk, asked once"


@pytest.mark.parametrize(("length", "halves_asked"), [(2000, 0), (2001, 2)])
def test_only_what_is_longer_than_all_beside_it_is_cut(length, halves_asked):
    question = of(
        ContextUtilization(), question="q", answer="a" * 2000, contexts=["c" * length]
    )
    too_long = Answer(NotAnswered(ContextWindowExceeded("too long")))
    assert len(halve_questions(question, too_long)) == halves_asked


WINDOWED = of(ContextUtilization(), question="q", answer="a", contexts=["c"])


def joined_of(*parts: Asked[Any] | NotAnswered) -> Asked[Any] | NotAnswered:
    too_long = Answer(
        NotAnswered(ContextWindowExceeded("longer than the window of small"))
    )
    return join_verdicts(WINDOWED, too_long, [Answer(part) for part in parts]).reply


def window(useful: int, p: float | None = None) -> Asked[Any]:
    return Asked(
        (WINDOWED.read({"useful": useful}),), weights=() if p is None else (Weight(p),)
    )


@pytest.mark.parametrize(
    ("answered", "decides"),
    [
        (window(0, 0.49), False),
        (window(1, 0.5), False),
        (window(1, 0.51), True),
        (window(0), False),
        (window(1), True),
    ],
)
def test_only_a_window_that_surely_says_yes_decides_beside_one_without_an_answer(
    answered, decides
):
    """One half is no yes: the window that is missing might say it."""
    missing = NotAnswered(TransientJudgeError("no reply"))
    for parts in ((answered, missing), (missing, answered)):
        reply = joined_of(*parts)
        assert isinstance(reply, Asked) is decides
        assert decides or reply is missing


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_window_that_says_yes_most_clearly_counts(probabilities):
    reply = joined_of(*(window(int(p > 0.5), p) for p in probabilities))
    assert isinstance(reply, Asked)
    assert reply.weights == (Weight(max(probabilities)),)
    assert reply.reply.useful == (max(probabilities) > 0.5)
    assert reply.windows == ((len(probabilities),) if len(probabilities) > 1 else ())
