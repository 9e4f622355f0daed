"""Components that put messages around the question: they begin no earlier turn."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

from ragmetrics_core.data.sample import Sample

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
ASKED = "How often does the Osta ferry go?"
BEFORE = [("user", "Is there a lake at Osta?"), ("assistant", "Yes, a long one.")]

STORE = InMemoryDocumentStore()
STORE.write_documents(
    [Document(id="bridge", content=BRIDGE), Document(id="ferry", content=FERRY)]
)


def messages(said: list[tuple[str, str]]) -> list[ChatMessage]:
    made = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}
    return [made[role](text) for role, text in said]


def text_of(documents: list[Document]) -> str:
    return "Documents: " + "\n".join(document.content or "" for document in documents)


def tool_result(messages: list[ChatMessage], text: str) -> list[ChatMessage]:
    call = ToolCall("search", {"query": ASKED}, "1")
    found = ChatMessage.from_tool(text, origin=call)
    return [*messages, ChatMessage.from_assistant(tool_calls=[call]), found]


def behind(messages: list[ChatMessage], text: str) -> list[ChatMessage]:
    return [*messages, ChatMessage.from_user(text)]


def announced(messages: list[ChatMessage], text: str) -> list[ChatMessage]:
    looking = ChatMessage.from_assistant("I look that up.")
    return [*messages, looking, ChatMessage.from_user(text)]


def before(messages: list[ChatMessage], text: str) -> list[ChatMessage]:
    return [*messages[:-1], ChatMessage.from_user(text), messages[-1]]


WAYS = [tool_result, behind, announced, before]


@component
class Shows:
    """Puts what was found beside the messages that it is handed."""

    def __init__(self, way: Any) -> None:
        self.way = way

    @component.output_types(messages=list[ChatMessage])
    def run(
        self, messages: list[ChatMessage], documents: list[Document]
    ) -> dict[str, Any]:
        return {"messages": self.way(messages, text_of(documents))}


@component
class Writes:
    """Makes the messages of a text."""

    def __init__(self, way: Any) -> None:
        self.way = way

    @component.output_types(messages=list[ChatMessage])
    def run(self, asked: str, documents: list[Document]) -> dict[str, Any]:
        made = [ChatMessage.from_user(f"Question: {asked}")]
        return {"messages": self.way(made, text_of(documents))}


def pipeline(showing: Any) -> Pipeline:
    return connected(
        ("retriever.documents", "showing.documents"),
        ("showing.messages", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        showing=showing,
        llm=MockChatGenerator(response_fn=lambda shown: "Every hour."),
    )


def only_sample(made: Pipeline, **inputs: Any) -> Sample:
    with capture() as captured:
        made.run({"retriever": {"query": ASKED}, "showing": inputs})
    assert not captured.problems
    (sample,) = captured.samples
    return sample


def assert_shown(sample: Sample) -> None:
    assert (sample.question, sample.answer) == (ASKED, "Every hour.")
    assert [context.text for context in sample.known_contexts] == [FERRY]
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


@pytest.mark.parametrize("said", [[], BEFORE])
@pytest.mark.parametrize("way", WAYS)
def test_messages_that_show_what_was_found_are_no_earlier_turn(
    way: Any, said: list[tuple[str, str]]
) -> None:
    asking = [*messages(said), ChatMessage.from_user(ASKED)]
    sample = only_sample(pipeline(Shows(way)), messages=asking)
    assert_shown(sample)
    assert [(turn.role, turn.content) for turn in sample.history] == said
    assert sample.ledger is not None
    assert sample.ledger.turn == 1 + len(said) // 2


@pytest.mark.parametrize("way", [tool_result, behind, before])
def test_a_question_that_a_component_made_a_message_of_is_no_earlier_turn(
    way: Any,
) -> None:
    sample = only_sample(pipeline(Writes(way)), asked=ASKED)
    assert_shown(sample)
    assert sample.history == ()
    assert sample.ledger is not None
    assert sample.ledger.turn == 1


@component
class AnswersAlone:
    """A memory that keeps what the assistant said, and nothing else."""

    def __init__(self) -> None:
        self.answers: list[ChatMessage] = []

    @component.output_types(messages=list[ChatMessage])
    def run(self) -> dict[str, Any]:
        return {"messages": list(self.answers)}


@component
class Prompts:
    @component.output_types(messages=list[ChatMessage])
    def run(
        self, memories: list[ChatMessage], asked: str, documents: list[Document]
    ) -> dict[str, Any]:
        said = "\n".join(memory.text or "" for memory in memories)
        prompt = f"History:\n{said}\n{text_of(documents)}\nQuestion: {asked}"
        return {"messages": [ChatMessage.from_user(prompt)]}


@pytest.mark.parametrize(
    "answer", ["As far as the pages tell, it goes every hour.", FERRY]
)
def test_an_earlier_answer_without_its_question_leaves_a_doubt(answer: str) -> None:
    memory = AnswersAlone()
    made = connected(
        ("retriever.documents", "prompts.documents"),
        ("memory.messages", "prompts.memories"),
        ("prompts.messages", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        memory=memory,
        prompts=Prompts(),
        llm=MockChatGenerator(["The pages do not tell.", answer][::-1]),
    )
    with capture() as captured:
        for asked in (ASKED, "And does the Osta ferry go in winter?"):
            made.run({"retriever": {"query": asked}, "prompts": {"asked": asked}})
            memory.answers.append(ChatMessage.from_assistant(answer))
    grades = [one.capture.grade for one in captured.samples if one.capture is not None]
    assert grades == ["exact", "inferred"]


def examples(messages: list[ChatMessage], text: str) -> list[ChatMessage]:
    shown = [ChatMessage.from_user("What is 2 + 2?"), ChatMessage.from_assistant("4.")]
    return [ChatMessage.from_system(text), *shown, *messages]


def test_typed_messages_that_a_component_wrote_before_the_question_may_be_examples() -> (
    None
):
    sample = only_sample(pipeline(Writes(examples)), asked=ASKED)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "history_unread" in sample.capture.doubts
