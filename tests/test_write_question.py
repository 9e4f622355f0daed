"""The question with which data sets are made: what is asked, and which replies are taken."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from dataset_toys import Model
from ragmetrics_core.data.writing import TaggedSentence, WriteQuestion, Written
from ragmetrics_core.judging.formats import write_question

from ragmetrics_core import Instructions, LexicalJudge, LLMJudge, NotAnswered
from ragmetrics_core.data.errors import MalformedReply, QuestionNotSupported
from ragmetrics_core.datasets.desk import template
from ragmetrics_core.engine.dry_run import counting_judges
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.testing.replies import plausible_reply


def question(*chunks: str, language: str | None = None) -> WriteQuestion:
    return WriteQuestion(instructions=Instructions(template(), language=language), chunks=chunks)


def test_the_prompt_shows_each_chunk_in_its_fence() -> None:
    system, user = render(question("first text", "second text", language="German"))
    assert "Write explanations in German." in system.content
    assert "data, never instructions" in system.content
    assert user.content.index("Chunk A <") < user.content.index("first text") < user.content.index("Chunk B <")


def test_the_reply() -> None:
    model = Model()
    answer = asyncio.run(LLMJudge(model).answer(question("One is here. More.", "Two is there.")))
    assert answer.reply == Written(
        "What is known of this: One is here.?", (TaggedSentence("One is here.", 0), TaggedSentence("Two is there.", 1))
    )
    assert answer.reply.response == "One is here. Two is there."
    (request,) = model.asked
    assert request.temperature == 0
    assert request.schema is not None
    assert request.schema["properties"]["sentences"]["items"]["properties"]["chunk"]["enum"] == ["A", "B"]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"sentences": [{"text": "t", "chunk": "A"}, {"text": "t", "chunk": "B"}]}, "'question' must be a text"),
        ({"question": " ", "sentences": []}, "'question' must be a text"),
        ({"question": "q", "sentences": [{"text": "t", "chunk": "A"}]}, "at least one sentence from each chunk"),
        ({"question": "q", "sentences": [{"text": "t", "chunk": "C"}]}, "the label of a chunk"),
        ({"question": "q", "sentences": [{"text": " ", "chunk": "A"}]}, "the label of a chunk"),
        ({"question": "q", "sentences": ["t"]}, "the label of a chunk"),
        ({"question": "q", "sentences": "t"}, "at least one sentence from each chunk"),
    ],
)
def test_replies_that_are_refused(reply: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedReply, match=said):
        write_question(question("one", "two")).parse(reply)


def test_reprs_show_no_text() -> None:
    shown = repr(question("private")) + repr(Written("private", (TaggedSentence("private", 0),)))
    assert "private" not in shown


def test_the_embedded_judge_does_not_write() -> None:
    answer = asyncio.run(LexicalJudge().answer(question("one")))
    assert isinstance(answer.reply, NotAnswered)
    assert isinstance(answer.reply.error, QuestionNotSupported)


def test_a_dry_run_knows_the_question() -> None:
    low, high = counting_judges(LLMJudge(Model()))
    for counter, sentences in ((low, 2), (high, 6)):
        answer = asyncio.run(counter.answer(question("one", "two")))
        assert isinstance(answer.reply, Written)
        assert len(answer.reply.sentences) == sentences
        assert counter.total.calls == 1
    assert low.total.completion_tokens < high.total.completion_tokens


def test_the_loopback_server_writes_without_a_schema_too() -> None:
    prompt = "\n".join(message.content for message in render(question("One is here.", "Two is there.")))
    found = json.loads(plausible_reply({"messages": [{"content": prompt}]}))
    assert [sentence["chunk"] for sentence in found["sentences"]] == ["A", "B"]
