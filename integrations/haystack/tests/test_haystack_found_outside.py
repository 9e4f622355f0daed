"""Shapes that people from outside found wrong: each is right now, or says by a code what is uncertain."""

from __future__ import annotations

from typing import Any

import pytest
from counted_steps import count_steps
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter, TextFileToDocument
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.preprocessors import DocumentCleaner, DocumentSplitter
from haystack.components.rankers import MetaFieldRanker
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream, ChatMessage, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import PipelineTool
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

from ragmetrics_core import Sample

QUESTION = "When was the bridge of Velm opened?"
ANSWER = "It dates from the year 1874, says the page."
SNIPPET = "Velm bridge: a page on its history and its opening."
PAGE = "The Velm bridge was opened in 1874 by the mayor, after years of quarrels."
STORE = InMemoryDocumentStore()
STORE.write_documents(
    [Document(id="snippet", content=SNIPPET, meta={"url": "https://velm.test"})]
)
EACH = "{% for d in documents %}{{ d.content }}\n{% endfor %}"


@component
class Fetches:
    """Takes the places of pages, and returns the pages."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": [Document(content=PAGE, meta=d.meta) for d in documents]}


def only(samples: tuple[Sample, ...]) -> Sample:
    (sample,) = samples
    assert sample.capture is not None
    return sample


def test_a_tool_that_searches_and_fetches_and_prints() -> None:
    """What the model read of the tool stands in the ledger."""
    pipeline = connected(
        ("search.documents", "fetch.documents"),
        ("fetch.documents", "print.documents"),
        search=InMemoryBM25Retriever(STORE),
        fetch=Fetches(),
        print=PromptBuilder(EACH, required_variables="*"),
    )
    tool = PipelineTool(
        pipeline=pipeline,
        input_mapping={"query": ["search.query"]},
        output_mapping={"print.prompt": "pages"},
        name="web",
        description="Searches the web.",
    )
    asks = ChatMessage.from_assistant(
        tool_calls=[ToolCall("web", {"query": "bridge velm"})]
    )
    agent = Agent(chat_generator=MockChatGenerator([asks, ANSWER]), tools=[tool])
    with capture() as captured:
        agent.run(messages=[ChatMessage.from_user(QUESTION)])
    sample = only(captured.samples)
    assert sample.ledger is not None
    found = {item.text for call in sample.ledger.calls for item in call.items}
    assert [context.text for context in sample.known_contexts] == [PAGE]
    assert PAGE in found
    assert sample.capture is not None
    assert set(sample.capture.doubts) == {"by_data_flow"}


WORDS, DATE, PART = "bridge Velm", "opening date", "the bridge of Velm"
STYLE = "Answer in one sentence, as to a child."
# what the store was asked, what the prompt got, the question, and whether it is sure
QUERIES: dict[str, tuple[str, dict[str, str], str, bool]] = {
    "the same": (QUESTION, {"asked": QUESTION}, QUESTION, True),
    "words of it": (WORDS, {"asked": QUESTION}, WORDS, False),
    "other words": (DATE, {"asked": QUESTION}, DATE, False),
    "a part": (PART, {"asked": QUESTION}, PART, False),
    "beside a style": (QUESTION, {"asked": QUESTION, "style": STYLE}, QUESTION, True),
    "part of a style": (PART, {"asked": PART, "style": f"Praise {PART}."}, PART, True),
    "a language": (WORDS, {"style": "en"}, WORDS, False),
    "alone": (WORDS, {}, WORDS, True),
    "two texts": (WORDS, {"asked": QUESTION, "style": STYLE}, WORDS, False),
    "a word in the template's own question": (WORDS, {"town": "Velm"}, WORDS, False),
    "the store's one word there": ("Velm", {"town": "Velm"}, "Velm", True),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_store_was_asked_something_else_than_the_model(name: str) -> None:
    query, given, question, is_sure = QUERIES[name]
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE),
        prompt=PromptBuilder(
            EACH + "{{ style }}\nQuestion: {{ asked }}"
            "{% if town %}When was the bridge of {{ town }} opened?{% endif %}",
            required_variables=[],
        ),
        llm=MockChatGenerator(ANSWER),
    )
    inputs: dict[str, Any] = {"retriever": {"query": query}, "prompt": given}
    with capture() as captured:
        app.run(inputs)
    sample = only(captured.samples)
    assert sample.question == question
    assert sample.capture is not None
    assert sample.capture.grade == ("exact" if is_sure else "inferred")
    assert set(sample.capture.doubts) == (set() if is_sure else {"question_guessed"})
    # what the doubt asks for ends it
    with capture(question=QUESTION) as captured:
        app.run(inputs)
    sample = only(captured.samples)
    assert sample.capture is not None
    assert (sample.question, sample.capture.grade) == (QUESTION, "exact")


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_a_model_inside_of_a_search_was_asked_need_not_be_the_question(
    is_shown: bool,
) -> None:
    """The answer was written for another text of the user's, unless both were shown."""
    app = connected(
        ("asks.replies", "words.replies"),
        ("words.output", "retriever.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        asks=MockChatGenerator("bridge velm opening"),
        words=OutputAdapter("{{ replies[0].text }}", str),
        retriever=InMemoryBM25Retriever(STORE),
        prompt=PromptBuilder(EACH + "{{ task }} {{ asked }}", required_variables=[]),
        llm=MockChatGenerator(ANSWER),
    )
    given = {"task": STYLE, "asked": QUESTION if is_shown else ""}
    messages = [ChatMessage.from_user(QUESTION)]
    with capture() as captured:
        app.run({"asks": {"messages": messages}, "prompt": given})
    sample = only(captured.samples)
    assert sample.question == QUESTION
    assert sample.capture is not None
    assert ("question_guessed" in sample.capture.doubts) is not is_shown


ASKED, SAID = "Who built it?", "A guild of masons."
TOLD = f"User: {ASKED}\nAssistant: {SAID}"
TALK = [ChatMessage.from_user(ASKED), ChatMessage.from_assistant(SAID)]
LINES = "{% for line in chat_history %}{{ line }}\n{% endfor %}"
ASKING = f"{EACH}Question: {{{{ question }}}}"


def rag(prompt: Any) -> Pipeline:
    return connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE),
        prompt=prompt,
        llm=MockChatGenerator(ANSWER),
    )


# the prompt builder, and what it is given at run time
HANDED_IN: dict[str, tuple[Any, dict[str, Any]]] = {
    "a template": (
        PromptBuilder(ASKING),
        {"template": f"{TOLD}\n{ASKING}", "question": QUESTION},
    ),
    "a template of messages": (
        ChatPromptBuilder(variables=["documents", "question"]),
        {"template": [*TALK, ChatMessage.from_user(ASKING)], "question": QUESTION},
    ),
    "variables of a template": (
        PromptBuilder(f"{{{{ history }}}}\n{ASKING}", required_variables=[]),
        {"template_variables": {"history": TOLD, "question": QUESTION}},
    ),
    "texts that say who speaks": (
        PromptBuilder(LINES + ASKING),
        {"chat_history": TOLD.splitlines(), "question": QUESTION},
    ),
}


@pytest.mark.parametrize("name", HANDED_IN)
def test_an_earlier_talk_is_read_or_told_to_be_unread(name: str) -> None:
    builder, given = HANDED_IN[name]
    with capture() as captured:
        rag(builder).run({"retriever": {"query": QUESTION}, "prompt": given})
    sample = only(captured.samples)
    assert sample.capture is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == [SNIPPET]
    history = [(turn.role, turn.content) for turn in sample.history]
    is_read = history == [("user", ASKED), ("assistant", SAID)]
    assert is_read or "history_unread" in sample.capture.doubts
    assert sample.ledger is not None
    assert sample.ledger.turn == 1 + is_read


def test_a_variable_of_a_template_may_be_the_question() -> None:
    with capture() as captured:
        rag(ChatPromptBuilder(variables=["documents"])).run(
            {
                "retriever": {"query": "keys of the mill"},
                "prompt": {
                    "template": [ChatMessage.from_user(ASKING)],
                    "template_variables": {"question": QUESTION},
                },
            }
        )
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)


def preprocessing(n_documents: int) -> tuple[Pipeline, dict[str, Any]]:
    sentence = "The bridge number {} stands at kilometre {} of the river."
    documents = [
        Document(content=" ".join(sentence.format(n, k) for k in range(60)))
        for n in range(n_documents)
    ]
    pipeline = connected(
        ("clean.documents", "split.documents"),
        clean=DocumentCleaner(),
        split=DocumentSplitter(split_by="word", split_length=40),
    )
    return pipeline, {"clean": {"documents": documents}}


def test_preprocessing_without_a_writer_is_no_sample() -> None:
    """Its work grows with the number of documents, and no faster."""
    steps = []
    for n_documents in (20, 80):
        pipeline, given = preprocessing(n_documents)

        def run(pipeline: Pipeline = pipeline, given: Any = given) -> None:
            with capture() as captured:
                pipeline.run(given)
            assert captured.samples == ()

        steps.append(count_steps(run, room="ragmetrics"))
    assert 0 < steps[1] <= 5 * steps[0]


@pytest.mark.parametrize("place", [None, "retrieve.documents"])
def test_an_index_that_a_pipeline_builds_of_files_is_no_evidence(
    place: str | None,
) -> None:
    store = InMemoryDocumentStore()
    index = connected(
        ("read.documents", "split.documents"),
        ("split.documents", "write.documents"),
        read=TextFileToDocument(),
        split=DocumentSplitter(split_by="word", split_length=40),
        write=DocumentWriter(store),
    )
    sources = [ByteStream(PAGE.encode()), ByteStream(SNIPPET.encode())]
    with capture(contexts_from=place) as captured:
        index.run({"read": {"sources": sources}})
    assert captured.samples == ()
    ask = connected(
        ("retrieve.documents", "prompt.documents"),
        ("prompt", "llm"),
        retrieve=InMemoryBM25Retriever(store, top_k=1),
        prompt=PromptBuilder(EACH + "{{ query }}"),
        llm=MockChatGenerator(ANSWER),
    )
    asked = {"query": QUESTION}
    again = connected(
        ("read.documents", "write.documents"),
        read=TextFileToDocument(),
        write=DocumentWriter(InMemoryDocumentStore()),
    )
    with capture(question=QUESTION) as captured:
        again.run({"read": {"sources": sources}})
        ask.run({"retrieve": asked, "prompt": asked})
    sample = only(captured.samples)
    assert sample.retrieved is not None
    assert len(sample.retrieved) == 1
    assert sample.contexts == sample.retrieved
    assert sample.capture.grade == "exact"


def test_pages_that_a_pipeline_fetches_for_a_question_are_evidence() -> None:
    """No component is asked the question but the one that fills the prompt."""
    pipeline = connected(
        ("read.documents", "prompt.documents"),
        ("prompt", "llm"),
        read=TextFileToDocument(),
        prompt=PromptBuilder(EACH + "{{ question }}"),
        llm=MockChatGenerator(ANSWER),
    )
    with capture() as captured:
        pipeline.run(
            {
                "read": {"sources": [ByteStream(PAGE.encode())]},
                "prompt": {"question": QUESTION},
            }
        )
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == [PAGE]
    assert sample.capture.grade == "exact"


@component
class Writes:
    """A generator of texts."""

    def __init__(self, *replies: str) -> None:
        self.replies = replies

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": list(self.replies)}


@pytest.mark.parametrize("place", [None, "llm.replies", "llm"])
@pytest.mark.parametrize("n_replies", [1, 2])
def test_each_reply_of_a_generator_of_texts_is_an_answer(
    n_replies: int, place: str | None
) -> None:
    """A place that holds several texts is no answer: the rules find them."""
    replies = [ANSWER, "In 1874, by the mayor."][:n_replies]
    pipeline = connected(
        ("retrieve.documents", "prompt.documents"),
        ("prompt", "llm"),
        retrieve=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=PromptBuilder(EACH + "{{ query }}"),
        llm=Writes(*replies),
    )
    asked = {"query": QUESTION}
    with capture(answer_from=place) as captured:
        pipeline.run({"retrieve": asked, "prompt": asked})
    assert [sample.answer for sample in captured.samples] == replies
    is_several = place is not None and n_replies > 1
    for sample in captured.samples:
        assert sample.capture is not None
        assert sample.capture.grade == "exact"
        assert len(sample.capture.warnings) == is_several
        for said in sample.capture.warnings:
            assert said.startswith(f"answer_from={place!r} leads to nothing")


def test_a_document_without_a_text_is_no_context() -> None:
    """What is handed in and given back may be the picture of a page."""
    pipeline = connected(
        ("sort.documents", "prompt.documents"),
        ("prompt", "llm"),
        sort=MetaFieldRanker(meta_field="page"),
        prompt=PromptBuilder("{{ documents | length }} {{ question }}"),
        llm=MockChatGenerator(ANSWER),
    )
    with capture() as captured:
        pipeline.run(
            {
                "sort": {"documents": [Document(meta={"page": 1})]},
                "prompt": {"question": QUESTION},
            },
            include_outputs_from={"sort"},
        )
    sample = only(captured.samples)
    assert sample.answer == ANSWER
    assert sample.contexts is None or sample.contexts == ()
