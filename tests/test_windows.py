"""Texts longer than the model's context window: any window decides, or a typed failure with both token counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from said import facts, of, poll, polls

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
from ragmetrics_core.judging.windows import halve_questions, join_verdicts
from ragmetrics_core.metrics.fact_matrix import ExtractFacts
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
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


class Small(ChatModel):
    """A model with a window of 1,000 tokens, of four characters each, that finds the needle where it is."""

    name = "small"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)

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
        if 'id="1"' in prompt:
            return json.dumps(
                {
                    "reason": "r",
                    "claims": 1,
                    "unsupported": [] if found else ["it"],
                }
            )
        if labels := re.findall(
            r'^<chunk-\w+ id="([A-Z])">\n(.*)', prompt, re.MULTILINE
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
def test_any_window_decides_and_the_result_is_marked(
    metric: Metric, place: str
) -> None:
    outcome, model = score(metric, LONG[place])
    assert (outcome.status, outcome.value) == (
        "scored",
        0.0 if place == "nowhere" else 1.0,
    )
    assert "windows" in outcome.usage.fallbacks
    assert outcome.usage.calls == len(model.prompts)


def test_what_fits_is_not_split() -> None:
    outcome, model = score(ContextUtilization(), NEEDLE)
    assert outcome.value == 1.0
    assert "windows" not in outcome.usage.fallbacks
    assert len(model.prompts) == 1


def test_what_needs_the_whole_text_fails() -> None:
    outcome, _ = score(ContextRecall(), LONG["middle"])
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")


def test_windows_overlap_and_lose_nothing() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    first, second = cut_in_halves(text)
    assert text.startswith(first)
    assert text.endswith(second)
    assert len(first) + len(second) >= len(text) + 190
    assert cut_in_halves("short") == ()
    unbroken = "x" * 5000
    assert sum(map(len, cut_in_halves(unbroken))) == 5200


def test_the_evidence_counts_the_windows() -> None:
    long = LONG["middle"]
    chunks = score(ContextUtilization(), long)[0].evidence.chunks
    (row,) = score(RetrievalAccuracy(), long)[0].evidence.cells
    assert [chunk.windows for chunk in chunks] == [cell.windows for cell in row] == [4]
    short = score(ContextUtilization(), NEEDLE)[0].evidence.chunks
    assert [chunk.windows for chunk in short] == [None]


def test_a_list_that_is_too_long_is_judged_as_shorter_lists() -> None:
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


def adherence_by_claims(
    contexts: list[str], answer: str, window: int, **settings: Any
) -> tuple[Any, ScriptedJudge]:
    """Judge with a scripted judge whose window holds so many characters, and that knows a claim when it sees one."""

    def adherent(question: Adherent) -> Any:
        if sum(map(len, question["contexts"])) + len(question["answer"]) > window:
            return ContextWindowExceeded("too long")
        text = "\n".join(question["contexts"])
        missing = tuple(
            claim
            for claim in CLAIMS
            if claim in question["answer"] and claim not in text
        )
        return poll("no" if missing else "yes", "Looked.", missing)

    def stated(question: ExtractFacts) -> Any:
        return facts(*(claim for claim in CLAIMS if claim in question["reference"]))

    judge = ScriptedJudge({Adherent: adherent, ExtractFacts: stated})
    return (
        ContextAdherence(**settings).score(
            contexts=contexts, answer=answer, judge=judge
        ),
        judge,
    )


@given(
    st.lists(
        st.lists(st.sampled_from((*CLAIMS, "Rain fell all day. " * 80)), max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.sets(st.sampled_from(CLAIMS), min_size=1),
    st.sampled_from([2_000, 4_000, 9_000]),
)
def test_windows_and_claims_judge_as_a_window_that_holds_everything(
    texts: list[list[str]], claims: set[str], window: int
) -> None:
    contexts = [" ".join(text) or "Nothing." for text in texts]
    answer = " ".join(sorted(claims))
    whole, _ = adherence_by_claims(contexts, answer, 10**9)
    outcome, judge = adherence_by_claims(contexts, answer, window)
    assert (outcome.status, outcome.value) == ("scored", whole.value)
    assert set(outcome.evidence.unsupported) == set(whole.evidence.unsupported)
    fits = sum(map(len, set(contexts))) + len(answer) <= window
    assert (outcome.evidence.windows is None) == fits
    assert sum(isinstance(question, ExtractFacts) for question in judge.asked) == (
        not fits
    )


def test_an_answer_judged_in_windows_says_so() -> None:
    contexts = [f"{claim} {'Rain fell. ' * 200}" for claim in CLAIMS[:2]]
    outcome, _ = adherence_by_claims(contexts, " ".join(CLAIMS), 3_000, polls=3)
    assert (outcome.value, outcome.evidence.no, outcome.evidence.windows) == (0.0, 3, 2)
    assert outcome.evidence.unsupported == (CLAIMS[2],)
    assert "2 windows" in outcome.reason
    assert (
        "longer than the judge's window"
        in ContextAdherence()
        .score(
            question="Who?",
            contexts=contexts,
            answer=CLAIMS[2],
            judge=adherence_by_claims(contexts, "", 3_000)[1],
        )
        .evidence.cause_note
    )


@pytest.mark.parametrize(("characters_more", "windows"), [(0, 2), (1, 1)])
def test_contexts_are_divided_unless_the_answer_is_longer(
    characters_more: int, windows: int
) -> None:
    contexts = [f"{claim} {'Rain fell. ' * 100}" for claim in CLAIMS[:2]]
    n_characters = sum(map(len, contexts))
    answer = " ".join(CLAIMS[:2]).ljust(n_characters + characters_more, ".")
    outcome, _ = adherence_by_claims(contexts, answer, n_characters + 100)
    assert (outcome.value, outcome.evidence.windows) == (1.0, windows)


def test_an_answer_longer_than_the_contexts_is_no_reason_to_divide_them() -> None:
    contexts = [CLAIMS[0], CLAIMS[1]]
    answer = " ".join(CLAIMS[:2]) + " Rain fell." * 400
    outcome, judge = adherence_by_claims(contexts, answer, 1_000, polls=1)
    assert (outcome.value, outcome.evidence.windows) == (1.0, 1)
    by_claim = [asked for asked in judge.asked if isinstance(asked, Adherent)][1:]
    assert [asked["contexts"] for asked in by_claim] == [tuple(contexts)] * 2
    assert (
        outcome.evidence.explanation
        == "Each of the 2 claims is supported by some part of the contexts."
    )


def test_the_longest_reason_against_a_claim_explains_the_answer() -> None:
    reasons = {
        ("a", ("1",)): "no",
        ("a", ("2",)): "not there",
        ("b", ("1",)): "nowhere to be seen",
        ("b", ("2",)): "no",
    }

    def adherent(question: Adherent) -> Any:
        if len(question["contexts"]) > 1:
            return ContextWindowExceeded("too long")
        return poll("no", reasons[question["answer"], question["contexts"]])

    judge = ScriptedJudge({Adherent: adherent, ExtractFacts: facts("a", "b")})
    outcome = ContextAdherence(polls=1).score(
        contexts=["1", "2"], answer="Both.", judge=judge
    )
    assert (outcome.value, outcome.evidence.explanation) == (0.0, "nowhere to be seen")
    assert outcome.evidence.unsupported == ("a", "b")


def test_what_is_supported_is_not_asked_again() -> None:
    contexts = [f"{CLAIMS[0]} {'Rain fell. ' * 200}", "Rain fell. " * 200]
    _, judge = adherence_by_claims(contexts, CLAIMS[0], 3_000)
    assert [type(question).__name__ for question in judge.asked] == [
        "Adherent",
        "ExtractFacts",
        "Adherent",
    ]


def test_the_share_of_polls_keeps_its_meaning() -> None:
    """Poll by poll all claims must hold: 1 to 3 support the first claim, 2 to 4 the second, 2 and 3 both."""
    supported = {CLAIMS[0]: {1, 2, 3}, CLAIMS[1]: {2, 3, 4}}

    def adherent(question: Adherent) -> Any:
        if len(question["contexts"]) > 1:
            return ContextWindowExceeded("too long")
        yes = supported[question["answer"]] if question["contexts"] == ("a",) else set()
        return polls(
            tuple(
                poll("yes" if number in yes else "no", f"poll {number}")
                for number in range(1, 6)
            )
        )

    judge = ScriptedJudge({Adherent: adherent, ExtractFacts: facts(*supported)})
    outcome = ContextAdherence().score(contexts=["a", "b"], answer="Both.", judge=judge)
    assert (outcome.value, outcome.evidence.yes, outcome.evidence.no) == (0.4, 2, 3)


def test_polls_missing_for_one_claim_are_missing_for_the_answer() -> None:
    def adherent(question: Adherent) -> Any:
        if len(question["contexts"]) > 1:
            return ContextWindowExceeded("too long")
        answered = (
            3
            if (question["answer"], question["contexts"]) == (CLAIMS[0], ("b",))
            else 5
        )
        verdict = "yes" if question["contexts"] == ("b",) else "no"
        return polls(
            (poll(verdict),) * answered,
            (TransientJudgeError("no reply"),) * (5 - answered),
        )

    judge = ScriptedJudge({Adherent: adherent, ExtractFacts: facts(*CLAIMS[:2])})
    outcome = ContextAdherence().score(contexts=["a", "b"], answer="Both.", judge=judge)
    assert (outcome.value, outcome.evidence.missing, outcome.evidence.bounds) == (
        1.0,
        2,
        (0.6, 1.0),
    )


@pytest.mark.parametrize(
    ("stated", "status", "said"),
    [
        (facts(), "undefined", "makes no claim"),
        (ContentRefused("refused"), "failed", "refused"),
        (None, "failed", "too long"),
    ],
)
def test_an_answer_without_claims_to_judge(stated: Any, status: str, said: str) -> None:
    failed = ContextWindowExceeded("too long")
    script: dict[Any, Any] = {Adherent: failed} | (
        {} if stated is None else {ExtractFacts: stated}
    )
    outcome = ContextAdherence().score(
        contexts=["a" * 5000], answer="b", judge=ScriptedJudge(script)
    )
    assert outcome.status == status
    assert said in outcome.reason


def test_windows_end_where_nothing_is_left_to_divide() -> None:
    outcome, judge = adherence_by_claims(["x" * 9_000], CLAIMS[0], 20)
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")
    assert len(judge.asked) < 10


def test_a_long_context_through_a_chat_model() -> None:
    """The whole way: prompts, replies, the endpoint's refusal, several replies per request."""
    outcome, model = score(ContextAdherence(polls=3), LONG["middle"])
    assert (outcome.status, outcome.value, outcome.evidence.yes) == (
        "scored",
        1.0,
        3,
    ), outcome.reason
    assert score(ContextAdherence(polls=3), LONG["nowhere"])[0].value == 0.0
    assert outcome.usage.calls == len(model.prompts)


def by_verdicts(
    verdicts: dict[str, str],
    claims: tuple[str, ...],
    asked: dict[str, int] | None = None,
) -> Any:
    def adherent(question: Adherent) -> Any:
        if len(question["contexts"]) > 1:
            return ContextWindowExceeded("too long")
        count = (asked or {}).get(question["answer"], 3)
        return [poll(verdicts[question["answer"]])] * count

    judge = ScriptedJudge({Adherent: adherent, ExtractFacts: facts(*claims)})
    return (
        ContextAdherence(polls=3).score(
            contexts=["first", "second"], answer="All.", judge=judge
        ),
        judge,
    )


def test_claims_that_are_none_count_neither_for_nor_against() -> None:
    outcome, _ = by_verdicts({"I do not know.": "abstains"}, ("I do not know.",))
    assert (outcome.status, outcome.code) == ("undefined", "no_claim")
    verdicts = {"a": "yes", "b": "no", "Hello.": "abstains"}
    assert by_verdicts(verdicts, ("a", "Hello."))[0].value == 1.0
    outcome, _ = by_verdicts(verdicts, ("b", "Hello."))
    assert (outcome.value, outcome.evidence.unsupported) == (0.0, ("b",))


def test_equal_and_blank_claims_are_asked_once_and_never() -> None:
    outcome, judge = by_verdicts({"a": "yes"}, ("a", "a", " ", ""))
    assert outcome.value == 1.0
    assert [
        question["answer"] for question in judge.asked if isinstance(question, Adherent)
    ] == ["All.", "a"]


def test_a_judge_that_polls_less_often_about_one_claim_leaves_polls_unknown() -> None:
    outcome, _ = by_verdicts({"a": "yes", "b": "yes"}, ("a", "b"), {"b": 1})
    assert (outcome.status, outcome.error.type) == ("failed", "TooFewPolls")


def test_an_answer_that_is_itself_too_long_is_no_reason_to_cut_chunks() -> None:
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
def test_only_what_is_longer_than_all_beside_it_is_cut(
    length: int, halves_asked: int
) -> None:
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
    answered: Asked[Any], decides: bool
) -> None:
    """One half is no yes: the window that is missing might say it."""
    missing = NotAnswered(TransientJudgeError("no reply"))
    for parts in ((answered, missing), (missing, answered)):
        reply = joined_of(*parts)
        assert isinstance(reply, Asked) is decides
        assert decides or reply is missing


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_window_that_says_yes_most_clearly_counts(
    probabilities: list[float],
) -> None:
    reply = joined_of(*(window(int(p > 0.5), p) for p in probabilities))
    assert isinstance(reply, Asked)
    assert reply.weights == (Weight(max(probabilities)),)
    assert reply.reply.useful == (max(probabilities) > 0.5)
    assert reply.windows == ((len(probabilities),) if len(probabilities) > 1 else ())
