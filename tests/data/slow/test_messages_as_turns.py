"""Message objects of LangChain, Haystack and LlamaIndex are read as their written messages are."""

from typing import Any

import pytest
from pydantic import BaseModel

from ragmetrics_core import Sample
from ragmetrics_core.data import RowError

SAID = (("user", "Who?"), ("assistant", "Anna."), ("user", "When?"))


def of_langchain(role: str, text: Any) -> Any:
    messages = pytest.importorskip("langchain_core.messages")
    make = {"user": messages.HumanMessage, "assistant": messages.AIMessage}[role]
    return make(text)


def of_haystack(role: str, text: Any) -> Any:
    message = pytest.importorskip("haystack.dataclasses").ChatMessage
    return {"user": message.from_user, "assistant": message.from_assistant}[role](text)


def of_llamaindex(role: str, text: Any) -> Any:
    types = pytest.importorskip("llama_index.core.base.llms.types")
    return types.ChatMessage(role=role, content=text)


MAKERS = [of_langchain, of_haystack, of_llamaindex]


@pytest.mark.parametrize("make", MAKERS)
def test_a_talk_of_message_objects_is_a_question_with_its_history(make):
    talk = [make(*said) for said in SAID]
    reply = make("assistant", "In 1903.")
    rows: list[dict[str, Any]] = [
        {"user_input": talk, "response": "In 1903."},
        {"user_input": tuple(talk), "response": reply},
        {"question": talk[-1], "history": talk[:-1], "answer": reply},
        {"question": [*talk, reply]},
        {"output": {"messages": [*talk, reply]}},
    ]
    for row in rows:
        sample = Sample.from_row({**row, "contexts": ["Anna lit it in 1903."]})
        assert (sample.question, sample.answer) == ("When?", "In 1903.")
        turns = [(turn.role, turn.content) for turn in sample.history]
        assert turns == list(SAID[:-1])


def test_a_message_object_with_an_image_is_refused():
    types = pytest.importorskip("llama_index.core.base.llms.types")
    blocks = [types.TextBlock(text="Who?"), types.ImageBlock(url="http://127.0.0.1/a")]
    message = types.ChatMessage(role="user", blocks=blocks)
    content = [
        {"type": "text", "text": "Who?"},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}},
    ]
    for shown in (message, of_langchain("user", content)):
        for row in ({"question": shown}, {"question": "Who?", "history": [shown]}):
            with pytest.raises(RowError, match="an image, a recording or a file"):
                Sample.from_row({**row, "answer": "Anna."})


def test_what_a_model_thought_in_a_message_object_is_not_its_answer():
    types = pytest.importorskip("llama_index.core.base.llms.types")
    blocks = [types.ThinkingBlock(content="Bo?"), types.TextBlock(text="Anna.")]
    answer = types.ChatMessage(role="assistant", blocks=blocks)
    sample = Sample.from_row({"question": "Who?", "answer": answer})
    assert sample.answer == "Anna."


def test_an_object_without_content_is_no_message_whatever_it_says_of_its_type():
    class Found(BaseModel):
        type: str = "function"
        page_content: str = "Anna lit the lamp."
        metadata: dict[str, str] = {}

    row = {"question": "Who?", "contexts": [Found()], "answer": "Anna."}
    (context,) = Sample.from_row(row).contexts
    assert context.text == "Anna lit the lamp."
