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
    if before:
        assert sample.capture.grade == "inferred"
        assert "question_guessed" in sample.capture.doubts
    else:
        assert sample.capture.grade == "exact"


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


def test_results_of_an_earlier_turn_are_known_once_the_conversation_has_a_name() -> (
    None
):
    """An agent that searches again is shown the first results, too: the doubt says so."""

    def look_up(query: str) -> list[Document]:
        """Looks something up."""
        return [Document(content=WELL if "well" in query else DOME)]

    def second(**settings: Any) -> Sample:
        model = MockChatGenerator(
            [
                ChatMessage.from_assistant(tool_calls=[wish])
                if isinstance(wish, ToolCall)
                else wish
                for wish in (
                    ToolCall("look_up", {"query": "dome"}),
                    "Coppersmiths, in 1911.",
                    ToolCall("look_up", {"query": "well"}),
                    "It is 41 metres deep.",
                )
            ]
        )
        agent = Agent(chat_generator=model, tools=[create_tool_from_function(look_up)])
        with capture(**settings) as captured:
            first = agent.run(messages=[ChatMessage.from_user(EARLIER[0])])
            agent.run(messages=[*first["messages"], ChatMessage.from_user(QUESTION)])
        return captured.samples[1]

    before, after = second(), second(conversation="both turns")
    assert before.capture is not None
    assert after.capture is not None
    assert "name both by conversation=" in before.capture.doubts["which_turn"]
    assert after.capture.grade == "exact"
    assert after.ledger is not None
    assert [call.turn for call in after.ledger.calls] == [1, 2]
