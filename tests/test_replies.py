"""One reader for the replies to all questions: what counts, what is asked again, what fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import (
    AnswerRelevance,
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextSufficiency,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
)
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)

ROW = {
    "question": "Who lit it?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna did [1].",
    "reference": "Anna lit the lamp.",
    "facts": ["Anna lit the lamp."],
}
# One verdict a request, also by a model without log-probabilities.
ONE_FACT = 'Reply with "reason" and "covered".\n---\n{context}\n{fact}\n'
# By metric: the field that decides, what it holds in a good reply, and the value then.
DECIDING: dict[str, tuple[Metric, str, Any, float]] = {
    "utilization": (ContextUtilization(), "useful", 1, 1.0),
    "adherence": (ContextAdherence(polls=1, cause=False), "claims", 1, 1.0),
    "recall": (ContextRecall(), "score", 1, 1.0),
    "accuracy": (RetrievalAccuracy(polls=1, template=ONE_FACT), "covered", 1, 1.0),
    "sufficiency": (ContextSufficiency(polls=1, declining=False), "missing", [], 1.0),
    "relevance": (AnswerRelevance(), "grade", 3, 1.0),
    "citations": (CitationQuality(numbered_from=1, polls=1), "supported", 1, 1.0),
}
BITS = [1, 1.0, "1", "1.0", True, "true", "yes", "YES", "Yes.", '"1"', "**1**", "１"]


def good(name: str) -> dict[str, Any]:
    """The fields of a good reply to the metric's question."""
    _, field, value, _ = DECIDING[name]
    more: dict[str, Any] = {"unsupported": []} if name == "adherence" else {}
    return {"reason": "It stands there.", **more, field: value}


class Saying(ChatModel):
    """Replies with these texts, one after the other, then with the last; none declines."""

    name = "saying"
    cache_key = None

    def __init__(self, *texts: str) -> None:
        self.texts, self.requests = list(texts), list[ChatRequest]()

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        system = request.messages[0].content
        if '"declined"' in system:
            text = '{"declined": 0}'
        elif '"claims" is 1 if the sentence' in system:
            text = '{"sentences": [{"label": "S1", "claims": 1}]}'
        else:
            self.requests.append(request)
            text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return ChatReply((Choice(text),) * request.n, Usage(calls=1))


def score(name: str, *texts: str) -> tuple[Any, Saying]:
    model = Saying(*texts)
    result = DECIDING[name][0].score(**ROW, judge=LLMJudge(model))
    assert model.requests
    return result, model


def wrapped(text: str) -> list[str]:
    """The same object as models hand it over."""
    other = '{"note": "no verdict"}'
    return [
        text,
        f"\ufeff{text}",
        f"```json\n{text}\n```",
        f"```\n{text}\n```",
        f"Here it is:\n{text}",
        f"My verdict: {text}",
        f"**Verdict:** {text}",
        f"判断：{text}",
        f"I thought about it.\n\n{text}\n\nI hope this helps!",
        f"<answer>{text}</answer>",
        f"<think>Perhaps {other}, or {{so}}.</think>{text}",
        f"<thinking>hm</thinking>\n```json\n{text}\n```",
        f"I weigh it. </think>\n{text}",
        f"{other}\n{text}",
        f"{text}\n{text}",
        f"The set {{a, b}} is no object.\n{text}",
        json.dumps(json.loads(text), indent=2),
    ]


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("place", range(17))
def test_an_object_is_found_wherever_it_stands(name: str, place: int) -> None:
    text = wrapped(json.dumps(good(name)))[place]
    result, model = score(name, text)
    assert (result.value, len(model.requests)) == (DECIDING[name][3], 1)


@pytest.mark.parametrize("name", DECIDING)
def test_keys_are_read_in_any_case_and_equal_ones_count_once(name: str) -> None:
    text = json.dumps({key.upper(): value for key, value in good(name).items()})
    assert score(name, text)[0].value == 1.0
    twice = json.dumps(good(name))[:-1] + "," + json.dumps(good(name))[1:]
    result, model = score(name, twice)
    assert (result.value, len(model.requests)) == (1.0, 1)


@pytest.mark.parametrize("name", ["utilization", "adherence", "accuracy", "citations"])
@pytest.mark.parametrize("bit", BITS)
def test_a_bit_is_read_however_it_is_written(name: str, bit: Any) -> None:
    text = json.dumps({**good(name), DECIDING[name][1]: bit})
    result, model = score(name, text)
    assert (result.value, len(model.requests)) == (1.0, 1)


@pytest.mark.parametrize("number", [1, 1.0, "1", "1.0", " 1.0. "])
def test_a_number_may_stand_in_quotes(number: Any) -> None:
    assert score("recall", json.dumps({"score": number}))[0].value == 1.0
    assert score("relevance", json.dumps({"grade": 3}))[0].value == 1.0
    half = json.dumps({"band": " *Partial.* ", "score": ".5"})
    assert score("recall", half)[0].value == 0.5


def test_one_text_is_a_list_of_one() -> None:
    said = {"reason": "r", "unsupported": "Anna did.", "claims": "yes"}
    result, _ = score("adherence", json.dumps(said))
    assert (result.value, result.evidence.unsupported) == (0.0, ("Anna did.",))
    result, _ = score("sufficiency", '{"missing": "the year"}')
    assert (result.value, result.evidence.missing) == (0.0, "the year")


BAD = {
    "prose": "yes",
    "another form": '{"text": 1}',
    "cut off": '{"%(field)s": ',
    "a missing bracket": '{"%(field)s": 1, "reason": "r"',
    "single quotes": "{'%(field)s': 1}",
    "a wrong label": '{"%(field)s": {"a": 1}}',
    "no number": '{"%(field)s": NaN}',
    "two values": '{"%(field)s": %(good)s, "%(Field)s": %(other)s}',
    "two verdicts": '{%(more)s"%(field)s": %(good)s}\n{%(more)s"%(field)s": %(other)s}',
    "a quotation": 'It says {"%(field)s": %(good)s} and no more.',
    "in its thinking": '<think>{"%(field)s": %(good)s}',
}


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_read_is_asked_again_once_with_what_is_wrong(
    name: str, kind: str
) -> None:
    _, field, value, _ = DECIDING[name]
    bad = BAD[kind] % {
        "field": field,
        "Field": field.title(),
        "good": json.dumps(value),
        "other": '["it"]' if value == [] else "0",
        "more": '"unsupported": [], ' if name == "adherence" else "",
    }
    result, model = score(name, bad, json.dumps(good(name)))
    assert (result.value, len(model.requests)) == (1.0, 2)
    first, repair = model.requests
    assert repair.messages != first.messages
    assert repair.messages[-2].content == bad
    assert "could not be used" in repair.messages[-1].content
    failed, model = score(name, bad)
    assert (failed.status, failed.value, len(model.requests)) == ("failed", None, 2)


def test_a_reply_that_contradicts_itself_is_never_scored() -> None:
    no_claim = {"unsupported": ["It was in May."], "claims": 0}
    result, _ = score("adherence", json.dumps(no_claim))
    assert result.status == "failed"
    # a verdict is not asked for, so none is read: the list decides
    verdict = {"verdict": "yes", "unsupported": ["It was in May."], "claims": 1}
    assert score("adherence", json.dumps(verdict))[0].value == 0.0
    outside = {"band": "mostly", "score": 0.2}
    assert score("recall", json.dumps(outside))[0].status == "failed"


@settings(max_examples=examples(100))
@given(st.text(max_size=200))
def test_any_text_is_scored_or_failed_and_never_raises(text: str) -> None:
    result, model = score("utilization", text or "x")
    assert result.status in ("scored", "failed")
    assert len(model.requests) <= 2
