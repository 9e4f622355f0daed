"""What a prompt shows twice, what another call showed, and what an earlier message showed already."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langchain_fakes import Shelf, Speaker, calls, document, joined, rag
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened, and how often does the ferry go?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts]


def found_twice(with_ids: bool) -> list[Document]:
    bridge, ferry = ("bridge", "ferry") if with_ids else (None, None)
    return [document(BRIDGE, bridge), document(FERRY, ferry), document(BRIDGE, bridge)]


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_document_that_stands_twice_in_one_prompt_is_one_context(
    with_ids: bool,
) -> None:
    with capture() as captured:
        rag(Shelf(books=found_twice(with_ids))).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_document_that_is_found_twice_and_stands_once_in_the_prompt_is_one_context(
    with_ids: bool,
) -> None:
    def answer(question: str) -> str:
        found = Shelf(books=found_twice(with_ids)).invoke(question)
        shown = "\n".join(dict.fromkeys(one.page_content for one in found))
        return str(
            Speaker(lines="Both.")
            .invoke(f"Use only this:\n{shown}\n\nQuestion: {question}")
            .text
        )

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize(
    "escaped",
    [html.escape, repr, json.dumps, lambda text: html.escape(html.escape(text))],
)
def test_a_document_that_a_prompt_shows_twice_in_two_forms_is_one_context(
    escaped: Any,
) -> None:
    text = (
        'It\'s "the" bridge of Öst & Velm, opened in 1874 by the <mayor> of the town.'
    )

    def answer(question: str) -> str:
        (found,) = Shelf(books=[document(text, "bridge")]).invoke(question)
        shown = f"{found.page_content}\n---\n{escaped(found.page_content)}"
        return str(Speaker(lines="In 1874.").invoke(f"{shown}\n{question}").text)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [text]
    assert sample.capture is not None
    assert sample.capture.doubts == {}


def test_a_document_that_two_calls_are_shown_is_one_context() -> None:
    """Refining: the second call is shown the first document again, beside another one."""

    def answer(question: str) -> str:
        bridge, ferry = Shelf(
            books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")]
        ).invoke(question)
        draft = "A draft that speaks of the bridge and of 1874."
        first = (
            Speaker(lines=draft)
            .invoke(f"{bridge.page_content}\nQuestion: {question}")
            .text
        )
        shown = (
            f"{first}\n{bridge.page_content}\n{ferry.page_content}\nQuestion:"
            f" {question}"
        )
        return str(Speaker(lines="Both.").invoke(shown).text)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize("documents_first", [True, False])
@pytest.mark.parametrize("books", [[FERRY, BRIDGE], [BRIDGE, FERRY]])
def test_a_document_that_an_earlier_answer_repeats_stays_shown(
    books: list[str], documents_first: bool
) -> None:
    """An extractive model answers with a document; the next turn shows it again."""
    shelf = Shelf(books=[document(text, text[:8]) for text in books])
    history: list[BaseMessage] = []

    def answer(question: str) -> str:
        shown = "\n".join(book.page_content for book in shelf.invoke(question))
        if documents_first:
            prompt = [SystemMessage(shown), *history, HumanMessage(question)]
        else:
            prompt = [*history, HumanMessage(f"{shown}\n\nQuestion: {question}")]
        reply = Speaker(lines=BRIDGE).invoke(prompt)
        history.extend([HumanMessage(question), reply])
        return str(reply.text)

    with capture() as captured:
        for question in ("When was the bridge opened?", "And who opened that bridge?"):
            RunnableLambda(answer).invoke(question)
    assert len(captured.samples) == 2
    for sample in captured.samples:
        assert texts(sample) == books
        assert sample.ledger is not None
        assert sample.ledger.calls[-1].shown == (0, 1)
        assert not any("not shown" in text for text in sample.capture.warnings)


def test_a_document_that_only_an_earlier_answer_repeats_is_not_shown() -> None:
    """What the model said before is no evidence now."""
    shelf = Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])
    history: list[BaseMessage] = [HumanMessage("The bridge?"), AIMessage(BRIDGE)]

    def answer(question: str) -> str:
        _, ferry = shelf.invoke(question)
        prompt = [SystemMessage(ferry.page_content), *history, HumanMessage(question)]
        return str(Speaker(lines="Every hour.").invoke(prompt).text)

    with capture() as captured:
        RunnableLambda(answer).invoke("How often does the ferry go?")
    (sample,) = captured.samples
    assert texts(sample) == [FERRY]


NOTES = [
    "Nothing of relevance stands in this document.",
    "This document says nothing of the bridge.",
]


@pytest.mark.parametrize("note", NOTES)
def test_two_calls_of_equal_words_both_feed_a_prompt_that_shows_these_twice(
    note: str,
) -> None:
    """Map and reduce over documents of which none helps."""

    def answer(question: str) -> str:
        found = Shelf(
            books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")]
        ).invoke(question)
        notes = [
            str(Speaker(lines=note).invoke(f"Note on: {one.page_content}").text)
            for one in found
        ]
        listed = "\n".join(
            f"{number}. {text}" for number, text in enumerate(notes, start=1)
        )
        return str(
            Speaker(lines="I do not know.")
            .invoke(f"Notes:\n{listed}\n\nQuestion: {question}")
            .text
        )

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]
    assert sample.capture is not None
    assert (sample.capture.evidence_from, sample.capture.grade) == ("prompt", "exact")
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert call.shown == (0, 1)


def test_of_two_calls_only_those_feed_the_answer_whose_words_it_shows() -> None:
    """Of two notes the prompt quotes one: the document of the other was not shown to what answers."""

    def answer(question: str) -> str:
        found = Shelf(
            books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")]
        ).invoke(question)
        first, _ = (
            str(
                Speaker(lines=f"A note on {one.id}, at some length.")
                .invoke(one.page_content)
                .text
            )
            for one in found
        )
        return str(
            Speaker(lines="In 1874.")
            .invoke(f"Notes:\n{first}\n\nQuestion: {question}")
            .text
        )

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE]


def test_a_text_that_an_earlier_message_shows_stands_first() -> None:
    """An agent with a memory: the first turn found the ferry, the second the bridge and the ferry again."""
    found = {
        "ferry": [document(FERRY, "ferry")],
        "both": [document(BRIDGE, "bridge"), document(FERRY, "ferry")],
    }
    tool = create_retriever_tool(
        Shelf(books=lambda query: found[query]), "search", "Searches."
    )
    lines = [
        calls("search", query="ferry"),
        "Every hour.",
        calls("search", query="both"),
        "Both.",
    ]
    agent = create_agent(Speaker(lines=lines), [tool], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "order"}}
    with capture() as captured:
        agent.invoke({"messages": [("user", "How often does the ferry go?")]}, config)
        agent.invoke({"messages": [("user", "And the bridge?")]}, config)
    first, second = captured.samples
    assert texts(first) == [FERRY]
    assert texts(second) == [FERRY, BRIDGE]
    assert [one.text for one in second.retrieved or ()] == [BRIDGE, FERRY]


def test_the_order_of_this_turns_search_stands_where_the_assistant_quoted_a_text() -> (
    None
):
    before = [HumanMessage("What of the ferry?"), AIMessage(f"The guide says: {FERRY}")]
    shelf = Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])

    def answer(state: dict[str, Any]) -> str:
        shown = (
            f"Use only this:\n{joined(shelf.invoke(state['question']))}\n\nQuestion:"
            f" {state['question']}"
        )
        return str(Speaker(lines="Both.").invoke([*before, HumanMessage(shown)]).text)

    with capture() as captured:
        RunnableLambda(answer).invoke({"question": QUESTION, "chat_history": before})
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]


def found_by(query: str) -> list[Document]:
    names = {"one": ["bridge", "ferry"], "two": ["mill", "bridge"], "three": ["bridge"]}
    return [document(TOWN[name], name) for name in names[query]]


TOWN = {
    "bridge": "The Velm bridge was opened in 1874 by the mayor of the town.",
    "ferry": "The Osta ferry crosses the lake every hour in summer.",
    "mill": "The Tarn mill ground corn until the flood of 1910 took its wheel.",
}


def test_a_document_that_was_found_again_is_counted_once_beside_what_earlier_turns_found() -> (
    None
):
    """A graph that writes what all tools of its thread returned into the instructions.

    LangChain's tutorial on conversations, with every tool message instead of the last
    ones.
    """

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Searches."""
        found = found_by(query)
        return "\n\n".join(one.page_content for one in found), found

    queries = iter(["one", "two", "three"])

    def choose(state: MessagesState) -> dict[str, Any]:
        return {"messages": [calls("search", query=next(queries))]}

    model = Speaker(lines=["In 1874.", "In 1910, the flood did.", "By the mayor."])

    def answer(state: MessagesState) -> dict[str, Any]:
        messages = state["messages"]
        pages = [str(one.content) for one in messages if one.type == "tool"]
        asked = [one for one in messages if one.type == "human"]
        instructions = SystemMessage("Pages:\n" + "\n\n".join(pages))
        return {"messages": [model.invoke([instructions, *asked])]}

    graph = StateGraph(MessagesState)
    graph.add_node("choose", choose)
    graph.add_node("tools", ToolNode([search]))
    graph.add_node("answer", answer)
    graph.add_edge(START, "choose")
    graph.add_edge("choose", "tools")
    graph.add_edge("tools", "answer")
    application = graph.compile(checkpointer=InMemorySaver())
    thread = RunnableConfig(configurable={"thread_id": "one"})
    with capture() as captured:
        for question in ("When was it opened?", "What took it?", "And by whom?"):
            application.invoke({"messages": [("user", question)]}, thread)
    shown = [[context.id for context in one.known_contexts] for one in captured.samples]
    assert shown == [["bridge", "ferry"], ["bridge", "mill"], ["bridge"]]
    found = [[one.id for one in sample.retrieved or ()] for sample in captured.samples]
    assert found == [["bridge", "ferry"], ["mill", "bridge"], ["bridge"]]


SENTENCES = [
    "The bridge was opened in 1874 by the mayor",
    "The ferry crosses the lake every hour in summer",
    "The mill ground corn until the flood of 1910",
]


class Splitting(BaseDocumentCompressor):
    """Cuts a document into its sentences, and keeps some of them."""

    kept: list[int]

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        sentences = documents[0].page_content.rstrip(".").split(". ")
        return [Document(sentences[place]) for place in self.kept]


@pytest.mark.parametrize("separator", ["\n\n", ". ", "\n---\n"])
@pytest.mark.parametrize("kept", [[0, 1, 2], [0, 1], [2, 1, 0], [1]])
def test_the_pieces_of_a_split_document_are_the_contexts(
    separator: str, kept: list[int]
) -> None:
    whole = Document(". ".join(SENTENCES) + ".")
    retriever = ContextualCompressionRetriever(
        base_compressor=Splitting(kept=kept), base_retriever=Shelf(books=[whole])
    )
    chain = (
        {
            "context": retriever
            | (lambda found: separator.join(one.page_content for one in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
        | Speaker(lines="In 1874.")
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [SENTENCES[place] for place in kept]
    assert sample.retrieved is not None
    assert [one.text for one in sample.retrieved] == texts(sample)
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.capture.warnings == ()


class Dropping(BaseDocumentCompressor):
    """Keeps the first document."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        return list(documents[:1])


def test_what_a_kept_prompt_shows_of_a_dropped_document_is_no_context() -> None:
    """The client keeps each whole prompt; a later search finds the same, and drops it."""
    pages = [document(BRIDGE, "bridge"), document(FERRY, "ferry")]

    def prompt(found: list[Document], question: str) -> HumanMessage:
        return HumanMessage(f"CONTEXT:\n{joined(found)}\nQUESTION:\n{question}")

    dropping = ContextualCompressionRetriever(
        base_compressor=Dropping(), base_retriever=Shelf(books=pages)
    )
    earlier = [
        HumanMessage("And the ferry?"),
        prompt(pages[1:], "And the ferry?"),
        AIMessage("Every hour, in summer."),
    ]

    def answered(messages: list[BaseMessage]) -> Any:
        question = str(messages[-1].text)
        found = dropping.invoke(question)
        model = Speaker(lines="In 1874.")
        return model.invoke([*messages[:-1], prompt(found, question)])

    with capture() as captured:
        RunnableLambda(answered).invoke([*earlier, HumanMessage(QUESTION)])
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE]
    assert [turn.content for turn in sample.history] == [
        "And the ferry?",
        "Every hour, in summer.",
    ]
