"""Which contexts an answer cites where a provider names its own sources beside those of the application."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import PydanticOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from pydantic import BaseModel

from ragmetrics_core.data import Sample

QUESTION = "Who lit the lamp?"
ROOMS = Document("It has eleven rooms.", metadata={"source": "rooms.txt"})
HORN = Document("Fog horn: 1911.", metadata={"source": "fog.txt"})
PAGE = "https://lamp.org/first"
LINK = f"[lamp.org]({PAGE})"  # how OpenAI's web_search writes a source

Shown = Callable[[Sequence[Document]], str]


def with_files(found: Sequence[Document]) -> str:
    return "\n".join(f"Source: {d.metadata['source']}\n{d.page_content}" for d in found)


def with_numbers(found: Sequence[Document]) -> str:
    return "\n".join(f"[{n}] {d.page_content}" for n, d in enumerate(found, 1))


def bare(found: Sequence[Document]) -> str:
    return "\n\n".join(d.page_content for d in found)


def sample_of(
    reply: AIMessage,
    documents: Sequence[Document] = (ROOMS, HORN),
    shown: Shown = with_files,
    ask: Callable[[Any], Any] | None = None,
) -> Sample:
    """What is captured of a chain that finds documents, shows them and answers."""
    model = GenericFakeChatModel(messages=iter([reply]))
    found: Runnable[Any, Any] = RunnableLambda(lambda question: list(documents))
    prompt: Runnable[Any, Any] = ChatPromptTemplate.from_template("{c}\n{q}")
    if ask is None:
        found = found | shown
    else:
        prompt = RunnableLambda(ask)
    with capture() as captured:
        ({"c": found, "q": RunnablePassthrough()} | prompt | model).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def cited(sample: Sample) -> list[tuple[tuple[int, ...], tuple[str, ...]]] | None:
    """The contexts that each citation names, and what dangles; None if unknown."""
    if sample.citations is None:
        return None
    return [(citation.contexts, citation.dangling) for citation in sample.citations]


def searched(text: str) -> AIMessage:
    """A reply of OpenAI that searched the web, and that annotates its link."""
    start = text.index(LINK) - 1
    note = {"type": "url_citation", "url": PAGE, "title": "First lamp"}
    place = {"start_index": start, "end_index": start + len(LINK) + 2}
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "lamp"},
    }
    block = {"type": "text", "text": text, "annotations": [{**note, **place}]}
    return AIMessage([search, block])


@pytest.mark.parametrize("shown", [with_files, with_numbers, bare])
@pytest.mark.parametrize("before", ["", "It has eleven rooms [1]. "])
def test_a_page_of_the_provider_s_search_leaves_the_citations_open(
    shown: Shown, before: str
) -> None:
    sample = sample_of(searched(f"{before}Anna Berg ({LINK})."), shown=shown)
    assert sample.citations is None
    assert "provider names a source" in sample.citations_unknown


@pytest.mark.parametrize(
    "beside", [{"citations": [PAGE]}, {"search_results": [{"url": PAGE}]}]
)
def test_a_number_of_the_provider_s_own_list_is_no_number_of_the_prompt(
    beside: dict[str, Any],
) -> None:
    """Perplexity numbers the pages that it found: "[1]" means the first of them."""
    reply = AIMessage("Anna Berg did [1].", additional_kwargs=beside)
    sample = sample_of(reply, shown=with_numbers)
    assert sample.citations is None
    assert "provider" in sample.citations_unknown
    reply = AIMessage("The horn came in 1911 [2].", additional_kwargs=beside)
    assert cited(sample_of(reply, shown=with_numbers)) == [((1,), ())]


def nova(text: str) -> AIMessage:
    """A reply of Amazon's Nova: a page of the web stands in a block of its own."""
    asks = {"type": "server_tool_use", "id": "t1", "name": "nova_grounding"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": []}
    page = {"location": {"web": {"url": PAGE, "domain": "lamp.org"}}}
    text_block = {"type": "text", "text": text}
    return AIMessage(
        [asks, result, text_block, {"type": "text", "text": "", "citations": [page]}]
    )


def test_a_page_of_nova_leaves_the_citations_open() -> None:
    reply = nova("It has eleven rooms [1]. Anna Berg lit it.")
    sample = sample_of(reply, shown=with_numbers)
    assert sample.citations is None
    assert "provider names a source" in sample.citations_unknown
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"


def test_a_page_of_nova_stands_for_the_last_sentence_of_the_block_before() -> None:
    first = Document("Anna Berg lit it.", metadata={"source": PAGE})
    sample = sample_of(nova("It is old [1]. Anna Berg."), [ROOMS, first], with_numbers)
    assert sample.citations is not None, sample.citations_unknown
    spans = [(sample.answer or "")[one.start : one.end] for one in sample.citations]
    assert spans == ["Anna Berg.", "It is old [1]."]
    assert cited(sample) == [((1,), ()), ((0,), ())]


OTHER_ROOMS = {"title": "Rooms", "snippets": [["It has nine rooms."]]}


def entries(found: Sequence[Document]) -> dict[str, Any]:
    """What a tool returns as Mistral's guide has it: entries by their ids."""
    return {
        str(index): {
            "url": f"https://lamp.org/{index}",
            "title": "The lamp",
            "snippets": [[document.page_content]],
            "source": "lamp",
        }
        for index, document in enumerate(found)
    }


def asked_of_mistral(*further_results: Any) -> Callable[[Any], list[Any]]:
    """The messages of a request after a tool returned entries, and perhaps others."""

    def ask(found: Any) -> list[Any]:
        messages: list[Any] = [HumanMessage(found["q"])]
        for index, result in enumerate([entries(found["c"]), *further_results]):
            call = {"name": "look_up", "args": {}, "id": f"call{index}"}
            messages.append(AIMessage("", tool_calls=[call]))
            messages.append(ToolMessage(json.dumps(result), tool_call_id=call["id"]))
        return messages

    return ask


MISTRAL_FORMS: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "beside an empty text": lambda ids: {
        "type": "text",
        "text": "",
        "reference": {"reference_ids": ids},
    },
    "as LangChain v1 has it": lambda ids: {
        "type": "text",
        "text": "",
        "annotations": [{"type": "citation", "extras": {"reference_ids": ids}}],
    },
    "as Mistral writes it": lambda ids: {"type": "reference", "reference_ids": ids},
}


REPLIES_OF_BLOCKS = pytest.mark.skipif(
    version("langchain-core").startswith("1.0."),
    reason="langchain-core 1.0 parses another text out of a reply of several blocks",
)


def of_mistral(form: str, first: list[Any], second: list[Any]) -> AIMessage:
    cites = MISTRAL_FORMS[form]
    texts = ("It is tall. It has rooms", ". The horn", " came in 1911.")
    blocks = [{"type": "text", "text": text} for text in texts]
    return AIMessage([blocks[0], cites(first), blocks[1], cites(second), blocks[2]])


@REPLIES_OF_BLOCKS
@pytest.mark.parametrize("form", MISTRAL_FORMS)
def test_mistral_cites_the_entries_of_a_tool_by_their_ids(form: str) -> None:
    """An id stands for the last sentence before it, and for no punctuation before that."""
    reply = of_mistral(form, ["0"], [0, 1])
    sample = sample_of(reply, ask=asked_of_mistral())
    assert sample.citations is not None, sample.citations_unknown
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    spans = [(sample.answer or "")[one.start : one.end] for one in sample.citations]
    assert spans == ["It has rooms", "The horn", "The horn"]
    assert cited(sample) == [((0,), ()), ((0,), ()), ((1,), ())]


@pytest.mark.parametrize(
    ("ids", "results"),
    [
        ([7], []),  # no entry has this id
        ([0], [{"0": OTHER_ROOMS}]),  # two entries have it
        ([2], [{"2": OTHER_ROOMS}]),  # no context is this entry
    ],
)
@pytest.mark.parametrize("form", MISTRAL_FORMS)
def test_an_id_of_mistral_without_a_certain_context_leaves_the_citations_open(
    form: str, ids: list[Any], results: list[Any]
) -> None:
    reply = of_mistral(form, [1], ids)
    sample = sample_of(reply, ask=asked_of_mistral(*results))
    assert sample.citations is None
    assert "the model's provider" in sample.citations_unknown


HOME = Document("Welcome.", metadata={"source": "https://lamp.org"})
SUBPAGE = Document("Eleven rooms.", metadata={"source": "https://lamp.org/rooms"})


def with_addresses(found: Sequence[Document]) -> str:
    return "\n\n".join(f"URL: {d.metadata['source']}\n{d.page_content}" for d in found)


@pytest.mark.parametrize("shown", [with_addresses, bare])
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://lamp.org", [((0,), ())]),
        ("https://lamp.org/rooms", [((1,), ())]),
        ("https://lamp.org/history", None),  # a page that nobody was shown
    ],
)
def test_the_address_of_a_link_decides_and_not_its_words(
    shown: Shown, address: str, expected: Any
) -> None:
    reply = AIMessage(f"Anna Berg lit it ([lamp.org]({address})).")
    assert cited(sample_of(reply, [HOME, SUBPAGE], shown)) == expected


LIT = "The lamp was lit in May 1882."  # the overlap of two neighbouring chunks
CHUNKS = [Document(f"The tower is of stone. {LIT}"), Document(f"{LIT} A crowd came.")]
ANY = None  # the provider does not say which of the two


def document_block(text: str) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "title": "guide.pdf", "source": source}


def result_block(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "search_result", "title": "g", "source": "g", "content": content}


def bedrock_block(text: str) -> dict[str, Any]:
    document = {"format": "txt", "name": "guide", "source": {"text": text}}
    return {"type": "document", "document": document}


PDF = {"type": "document", "source": {"type": "base64", "data": "JVBERi0xLjQK"}}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("key", "block"),
    [
        ("document_index", document_block),
        ("document_index", bedrock_block),
        ("search_result_index", result_block),
    ],
)
@pytest.mark.parametrize(
    ("index", "expected"), [(0, (0,)), (1, (1,)), (ANY, (0, 1)), (7, (0, 1))]
)
def test_a_provider_s_count_of_the_documents_says_which_one_it_quotes(
    key: str,
    block: Callable[[str], dict[str, Any]],
    nested: bool,
    index: int | None,
    expected: tuple[int, ...],
) -> None:
    """Anthropic cites words, and counts the documents of the request."""
    citation: dict[str, Any] = {"type": "char_location", "cited_text": LIT}
    place = {} if index is None else {key: index}
    citation |= {"extras": place} if nested else place
    text = "In May 1882."
    reply = AIMessage([{"type": "text", "text": text, "citations": [citation]}])

    def ask(found: Any) -> list[Any]:
        blocks = [block(document.page_content) for document in found["c"]]
        return [HumanMessage([*blocks, {"type": "text", "text": found["q"]}])]

    assert cited(sample_of(reply, CHUNKS, ask=ask)) == [(expected, ())]


@REPLIES_OF_BLOCKS
@pytest.mark.parametrize(
    ("location", "block"),
    [
        ({"documentChar": {"documentIndex": 1, "start": 0}}, bedrock_block),
        ({"document_chunk": {"document_index": 1}}, bedrock_block),
        ({"searchResultLocation": {"searchResultIndex": 1}}, result_block),
        ({"search_result_location": {"search_result_index": 1}}, result_block),
    ],
)
def test_bedrock_s_location_says_which_of_the_documents_it_quotes(
    location: dict[str, Any], block: Callable[[str], dict[str, Any]]
) -> None:
    citation = {"title": "g", "sourceContent": [{"text": LIT}], "location": location}
    block_with_citation = {"type": "text", "text": "In 1882", "citations": [citation]}
    reply = AIMessage([block_with_citation, {"type": "text", "text": "."}])

    def ask(found: Any) -> list[Any]:
        blocks = [block(document.page_content) for document in found["c"]]
        return [HumanMessage([*blocks, {"type": "text", "text": found["q"]}])]

    sample = sample_of(reply, CHUNKS, ask=ask)
    assert cited(sample) == [((1,), ())]
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert [context.text for context in sample.contexts] == [
        document.page_content for document in CHUNKS
    ]


@pytest.mark.parametrize("block", [document_block, bedrock_block, result_block])
@pytest.mark.parametrize("before", ["", "[1] "])
def test_a_reply_without_citations_to_a_request_for_them_leaves_them_open(
    block: Callable[[str], dict[str, Any]], before: str
) -> None:
    """LangChain drops the citations of Bedrock from a reply that is one block."""

    def ask(found: Any) -> list[Any]:
        blocks = [block(before + document.page_content) for document in found["c"]]
        for one in blocks:
            one.get("document", one)["citations"] = {"enabled": True}
        return [HumanMessage([*blocks, {"type": "text", "text": found["q"]}])]

    sample = sample_of(AIMessage("In May 1882."), CHUNKS[:1], ask=ask)
    assert sample.citations is None
    assert "lets the model's provider cite" in sample.citations_unknown
    if before:
        sample = sample_of(AIMessage("In May 1882 [1]."), CHUNKS[:1], ask=ask)
        assert cited(sample) == [((0,), ())]


def test_a_file_without_a_text_is_counted_as_well() -> None:
    citation = {"cited_text": LIT, "document_index": 2, "document_title": "guide.pdf"}
    reply = AIMessage([{"type": "text", "text": "In 1882.", "citations": [citation]}])

    def ask(found: Any) -> list[Any]:
        first, second = (document_block(d.page_content) for d in found["c"])
        return [
            HumanMessage([PDF]),
            HumanMessage([first, second, {"type": "text", "text": found["q"]}]),
        ]

    assert cited(sample_of(reply, CHUNKS, ask=ask)) == [((1,), ())]


def test_each_part_of_an_answer_of_gemini_cites_its_own_chunk_of_a_file() -> None:
    def chunk(text: str) -> dict[str, Any]:
        return {"retrieved_context": {"title": "guide.pdf", "uri": None, "text": text}}

    def support(start: int, end: int, *indexes: int) -> dict[str, Any]:
        segment = {"start_index": start, "end_index": end}
        return {"segment": segment, "grounding_chunk_indices": list(indexes)}

    grounding = {
        "retrieval_queries": ["lamp"],
        "grounding_chunks": [chunk("Anna Berg lit it."), chunk("Horn: 1911.")],
        "grounding_supports": [
            support(0, 16, 0),
            support(17, 28, 1),
            support(0, 28, 0, 1),
        ],
    }
    reply = AIMessage(
        "Anna Berg did it. Horn: 1911.",
        response_metadata={"grounding_metadata": grounding},
    )
    sample = sample_of(reply, documents=[], shown=bare)
    assert cited(sample) == [((0,), ()), ((1,), ()), ((0,), ()), ((1,), ())]


class Quoted(BaseModel):
    """An answer with quotes, as LangChain's guide on citations has it."""

    answer: str
    quotes: list[str]


def test_a_quote_that_stands_in_two_contexts_may_come_from_either() -> None:
    reply = AIMessage(Quoted(answer="In May 1882.", quotes=[LIT]).model_dump_json())
    model = GenericFakeChatModel(messages=iter([reply]))
    found: Runnable[Any, Any] = RunnableLambda(lambda question: CHUNKS) | bare
    prompt = ChatPromptTemplate.from_template("{c}\n{q}")
    parser = PydanticOutputParser(pydantic_object=Quoted)
    with capture() as captured:
        ({"c": found, "q": RunnablePassthrough()} | prompt | model | parser).invoke(
            QUESTION
        )
    (sample,) = captured.samples
    assert cited(sample) == [((0, 1), ())]


SENTENCES = ("It has eleven rooms.", "The horn came in 1911!", "Nobody lit it?")
REPLY_TEXT = "\n".join(SENTENCES)
ENDS = [REPLY_TEXT.index(sentence) + len(sentence) for sentence in SENTENCES]


@settings(max_examples=examples(25), deadline=None)
@example(points=[len(REPLY_TEXT) + 1], key="index")
@given(
    points=st.lists(st.integers(0, 62), min_size=1, max_size=2),
    key=st.sampled_from(["index", "file_index"]),
)
def test_a_point_of_the_reply_cites_a_file_for_the_sentence_that_ends_there(
    points: list[int], key: str
) -> None:
    """OpenAI's files stand where their sentence ends; a count of files ends none."""
    notes = [
        {"type": "file_citation", "file_id": "f", "filename": "fog.txt", key: point}
        for point in points
    ]
    block = {"type": "text", "text": REPLY_TEXT, "annotations": notes}
    sample = sample_of(AIMessage([block]))
    # before or behind the stop of a sentence, or behind the line break that follows
    ends_at = {ENDS[2] - 1: 2, ENDS[2]: 2}
    for index, end in enumerate(ENDS[:2]):
        ends_at |= dict.fromkeys((end - 1, end, end + 1), index)
    if not ends_at.keys() >= set(points):
        assert sample.citations is None
        assert "where no sentence ends" in sample.citations_unknown
        return
    assert sample.citations is not None, sample.citations_unknown
    spans = [REPLY_TEXT[one.start : one.end] for one in sample.citations]
    assert spans == list(dict.fromkeys(SENTENCES[ends_at[point]] for point in points))
    assert {one.contexts for one in sample.citations} == {(1,)}


@pytest.mark.skipif(
    version("langchain-core").startswith("1.0."),
    reason="its parser returns blocks in another form: the citations are unknown there",
)
def test_a_point_counts_in_its_own_block_and_in_what_the_application_returns() -> None:
    """The answer is the reply with words before it."""
    note = {"type": "file_citation", "file_id": "f", "filename": "fog.txt", "index": 23}
    blocks = [
        {"type": "text", "text": "It has eleven rooms. "},
        {"type": "text", "text": "The horn came in 1911. So.", "annotations": [note]},
    ]
    reply = AIMessage([blocks[1]])
    model = GenericFakeChatModel(messages=iter([reply]))
    prompt = ChatPromptTemplate.from_template("{c}\n{q}")
    steps = {
        "c": RunnableLambda(lambda _: [HORN]) | with_files,
        "q": RunnablePassthrough(),
    }
    chain = (
        steps | prompt | model | StrOutputParser() | (lambda text: f"Answer: {text}")
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    for sample in (*captured.samples, sample_of(AIMessage(blocks))):
        assert sample.citations is not None, sample.citations_unknown
        spans = [(sample.answer or "")[one.start : one.end] for one in sample.citations]
        assert spans == ["The horn came in 1911."]
