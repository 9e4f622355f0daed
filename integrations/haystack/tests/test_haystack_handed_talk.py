"""A conversation that is handed in as texts: its last one is the question, and its words are no evidence."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

from ragmetrics_core.data.sample import Sample

WELL = "The well in the courtyard is 41 metres deep and froze only once."
DOME = "The dome was covered with copper in 1911 after a storm."
QUESTION = "How deep is the well?"
EARLIER = ["Who covered the dome?", "The coppersmiths of the town did."]
TEMPLATE = (
    "Before:\n{% for text in before %}{{ text }}\n{% endfor %}\nDocuments:\n{% for"
    " document in documents %}{{ document.content }}\n{% endfor %}\nQuestion: {{ query"
    " }}"
)


@component
class LastOne:
    """Takes the last text of a conversation for the query, and hands on the others."""

    @component.output_types(query=str, before=list[str])
    def run(self, talk: list[Any]) -> dict[str, Any]:
        texts = [one if isinstance(one, str) else one["content"] for one in talk]
        return {"query": texts[-1], "before": texts[:-1]}


@component
class Shelf:
    """Finds both documents, and gives the first ones."""

    def __init__(self, n_shown: int = 2) -> None:
        self.n_shown = n_shown

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=WELL), Document(content=DOME)]}


def of_a_talk() -> Pipeline:
    return connected(
        ("last.query", "shelf.query"),
        ("last.query", "prompt.query"),
        ("last.before", "prompt.before"),
        ("shelf.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        last=LastOne(),
        shelf=Shelf(),
        prompt=ChatPromptBuilder(
            [ChatMessage.from_user(TEMPLATE)], required_variables="*"
        ),
        llm=MockChatGenerator("It is 41 metres deep."),
    )


def searching(search: Any, template: str) -> Pipeline:
    return connected(
        ("search.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        search=search,
        prompt=ChatPromptBuilder(
            [ChatMessage.from_user(template)], required_variables="*"
        ),
        llm=MockChatGenerator("It is 41 metres deep."),
    )


def only(samples: Any) -> Sample:
    (sample,) = samples
    return sample


@pytest.mark.parametrize(
    "before",
    [
        [],
        EARLIER,
        ["Hello!", "Welcome, what may I do for you?"],
        ["Good morning"],
        [*EARLIER, "And who paid for it?", "The guild did."],
    ],
)
def test_the_question_of_a_list_is_the_text_that_a_component_takes_for_the_query(
    before: list[str],
) -> None:
    with capture() as captured:
        of_a_talk().run({"last": {"talk": [*before, QUESTION]}})
    sample = only(captured.samples)
    assert sample.question == QUESTION
    assert sample.history == ()
    assert sample.capture is not None
    # of one text the question is sure
    assert ("question_guessed" in sample.capture.doubts) == bool(before)


@component
class Each:
    """Searches for several texts at once, by its own means."""

    @component.output_types(documents=list[Document])
    def run(self, queries: list[str]) -> dict[str, Any]:
        return {"documents": [Document(content=WELL), Document(content=DOME)]}


def test_of_several_texts_of_which_none_is_asked_alone_the_question_is_in_doubt() -> (
    None
):
    pipeline = searching(
        Each(), "{% for one in documents %}{{ one.content }}{% endfor %}"
    )
    with capture() as captured:
        pipeline.run({"search": {"queries": [EARLIER[0], QUESTION]}})
    sample = only(captured.samples)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert any("question" in words for words in sample.capture.warnings)


def test_words_for_a_search_are_not_the_question_that_holds_them() -> None:
    pipeline = searching(
        Shelf(),
        "{% for one in documents %}{{ one.content }}\n{% endfor %}"
        "[the well]\nQuestion: {{ question }}",
    )
    with capture() as captured:
        pipeline.run(
            {
                "search": {"query": "the well"},
                "prompt": {"question": "How old is the well?"},
            }
        )
    assert only(captured.samples).question == "How old is the well?"


@pytest.mark.parametrize("name", [None, "both turns"])
def test_results_of_an_earlier_turn_are_known_in_one_block_or_by_a_name(
    name: str | None,
) -> None:
    """An agent that searches again is shown the first results, too: the doubt says so."""

    def look_up(query: str) -> list[Document]:
        """Looks something up."""
        return [Document(content=WELL if "well" in query else DOME)]

    wishes = (
        ToolCall("look_up", {"query": "dome"}),
        "Coppersmiths, in 1911.",
        ToolCall("look_up", {"query": "well"}),
        "It is 41 metres deep.",
    )
    model = MockChatGenerator(
        [
            ChatMessage.from_assistant(tool_calls=[wish])
            if isinstance(wish, ToolCall)
            else wish
            for wish in wishes
        ]
    )
    agent = Agent(chat_generator=model, tools=[create_tool_from_function(look_up)])

    def first_turn() -> list[ChatMessage]:
        messages: list[ChatMessage] = agent.run(
            messages=[ChatMessage.from_user(EARLIER[0])]
        )["messages"]
        return messages

    def second_turn(messages: list[ChatMessage]) -> None:
        agent.run(messages=[*messages, ChatMessage.from_user(QUESTION)])

    with capture(conversation=name) as captured:
        second_turn(first_turn())
    _, sample = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.ledger is not None
    assert [call.turn for call in sample.ledger.calls] == [1, 2]

    with capture(conversation=name) as earlier:
        messages = first_turn()
    assert earlier.samples
    with capture(conversation=name) as captured:
        second_turn(messages)
    sample = only(captured.samples)
    assert sample.capture is not None
    told = sample.capture.doubts.get("which_turn", "")
    assert ("name both by conversation=" in told) is (name is None)
