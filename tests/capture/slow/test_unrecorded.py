"""What a request shows a model and nobody recorded: files, images, what the provider keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture
from losses import losses

from ragmetrics_core import Sample
from ragmetrics_core.capture.unrecorded import unrecorded_evidence
from ragmetrics_core.reporting.journey import Journey

IRON = "The lighthouse of Norwick is made of riveted iron plates."
QUESTION = "When was the Norwick lighthouse opened?"
FACT = "The Norwick lighthouse was opened on 4 May 1874."
Block = Mapping[str, Any]

FILES: list[Block] = [
    {"type": "file", "file_id": "file-9"},
    {"type": "file", "file": {"file_id": "file-9"}},
    {"type": "input_file", "file_id": "file-9"},
    {"type": "document", "source": {"type": "file", "file_id": "f9"}},
    {"type": "document", "source": {"type": "url", "url": "https://a.org/x.pdf"}},
    {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
    {"type": "document", "document": {"format": "pdf", "source": {"bytes": "JVBE"}}},
    {"type": "media", "mime_type": "application/pdf", "data": "JVBERi0="},
    {"type": "tool_result", "content": [{"type": "file", "file_id": "file-9"}]},
]
IMAGES: list[Block] = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
    {"type": "image", "url": "https://a.org/page.png"},
    {"type": "input_image", "file_id": "file-9"},
]
SOUNDS: list[Block] = [
    {"type": "audio", "base64": "UklGRg=="},
    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
]
TEXTS: list[Block] = [
    {"type": "text", "text": "Be short."},
    {"type": "tool_result", "content": [{"type": "text", "text": "A note."}]},
]
KEPT: list[Mapping[str, Any]] = [
    {"previous_response_id": "resp_1"},
    {"conversation": "conv_1"},
    {"conversation": {"id": "conv_1"}},
    {"prompt": {"id": "pmpt_1", "version": "2"}},
    {"cached_content": "cachedContents/1"},
    {"extra_body": {"previous_response_id": "resp_1"}},
]
# As ``ChatGoogleGenerativeAI.bind_tools`` of langchain-google-genai 4.4.2 writes them.
_TOOLS_OF_GEMINI = ("retrieval", "google_search", "code_execution", "mcp_servers")


def tool_of_gemini(name: str, settings: Any) -> dict[str, Any]:
    """A tool with all others as None, as the client of Gemini writes it."""
    others = dict.fromkeys((*_TOOLS_OF_GEMINI, "url_context"))
    return {**others, name: settings}


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        return [Document(IRON)]


def asked(
    *blocks: Block, reply_before: Block | None = None, **parameters: Any
) -> tuple[Sample, Journey]:
    """A chain that finds one document, and whose request has more blocks and parameters."""
    model = GenericFakeChatModel(messages=iter([AIMessage("On 4 May 1874.")]))

    def answer(question: str) -> str:
        (document,) = Shelf().invoke(question)
        text = {"type": "text", "text": f"{document.page_content}\n{question}"}
        messages: list[Any] = [HumanMessage([*map(dict, blocks), text])]
        if reply_before is not None:
            messages = [
                HumanMessage("Draw it."),
                AIMessage([dict(reply_before)]),
                *messages,
            ]
        return model.bind(**parameters).invoke(messages).text

    with capture(reference=FACT) as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample, captured.evaluate(["accuracy"], judge="lexical").journey()


def assert_fact_is_unknown(journey: Journey, words: str) -> None:
    assert not losses(journey)
    assert journey.of("not_retrieved", "facts") is None
    assert words in str(journey)


@pytest.mark.parametrize("block", [*FILES, *IMAGES, *SOUNDS], ids=str)
def test_what_is_no_text_makes_a_sample_incomplete(block):
    sample, journey = asked(block)
    assert sample.capture.grade == "incomplete"
    assert_fact_is_unknown(journey, "such as an image or a PDF")
    assert [context.text for context in sample.known_contexts] == [IRON]


@pytest.mark.parametrize("parameters", KEPT, ids=str)
def test_what_a_provider_keeps_makes_a_sample_incomplete(parameters):
    sample, journey = asked(**parameters)
    assert sample.capture.grade == "incomplete"
    assert_fact_is_unknown(journey, "names what the model's provider keeps")


@pytest.mark.parametrize(
    "tool",
    [tool_of_gemini("url_context", {}), {"url_context": {}}, {"urlContext": {}}],
    ids=str,
)
def test_pages_that_gemini_may_have_read_make_a_sample_incomplete(tool):
    sample, journey = asked(tools=[{"type": "function"}, tool])
    assert sample.capture.grade == "incomplete"
    assert_fact_is_unknown(journey, "keeps or reads (url")
    assert [context.text for context in sample.known_contexts] == [IRON]


@pytest.mark.parametrize(
    "tools",
    [
        [tool_of_gemini("code_execution", {})],
        [{"type": "function", "function": {"name": "url_context"}}],
        [],
        "url_context",
        ["url_context"],
    ],
    ids=str,
)
def test_a_request_without_the_tool_that_reads_pages_says_nothing_of_pages(tools):
    assert unrecorded_evidence({"tools": tools}, []).reasons == ()


@pytest.mark.parametrize("is_earlier_turn", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("response_id", ["resp_1", "run-1", None])
def test_a_model_that_goes_on_from_its_last_response_names_it(
    response_id, *, goes_on, is_earlier_turn
):
    """Whatever the provider kept: which response it goes on from is not read."""

    class GoesOn(GenericFakeChatModel):
        use_previous_response_id: bool = goes_on

        @classmethod
        def is_lc_serializable(cls) -> bool:
            return True

    model = GoesOn(messages=iter([AIMessage("On 4 May 1874.")]))
    earlier = AIMessage("Hello.", response_metadata={"id": response_id})

    def answer(question: str) -> str:
        (document,) = Shelf().invoke(question)
        text = f"{document.page_content}\n{question}"
        asked = HumanMessage(text)
        if is_earlier_turn:
            return model.invoke([HumanMessage("Hi"), earlier, asked]).text
        return model.invoke([asked, earlier]).text

    with capture(reference=FACT) as captured:
        RunnableLambda(answer).invoke(QUESTION)
    journey = captured.evaluate(["accuracy"], judge="lexical").journey()
    if goes_on:
        assert_fact_is_unknown(journey, "(previous_response_id)")
    else:
        assert losses(journey) == {"not_retrieved"}


@pytest.mark.parametrize("block", TEXTS, ids=str)
@pytest.mark.parametrize(
    "parameters", [{}, {"prompt": {"text": "p"}}, {"temperature": 0.5}], ids=str
)
def test_texts_and_usual_parameters_leave_a_sample_exact(block, parameters):
    sample, journey = asked(block, **parameters)
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert sample.capture.unread_texts == ()
    assert losses(journey) == {"not_retrieved"}


def test_an_image_that_a_model_drew_is_no_evidence():
    sample, _ = asked(reply_before=IMAGES[0])
    assert sample.capture.unread_texts == ()


def handed_in(text: str) -> list[Block]:
    """A text as each of the blocks in which documents are handed to a model."""
    return [
        {"type": "document", "source": {"type": "text", "data": text}},
        # of Amazon Bedrock
        {"type": "document", "document": {"format": "txt", "source": {"text": text}}},
        {"type": "document", "document": {"source": {"content": [{"text": text}]}}},
        {"type": "text-plain", "text": text, "mime_type": "text/plain"},
        {"type": "search_result", "content": [{"type": "text", "text": text}]},
    ]


@pytest.mark.parametrize("block", handed_in(f"{FACT} It was raining."), ids=str)
def test_a_document_in_a_block_of_its_own_leaves_facts_unknown(block):
    sample, journey = asked(block)
    assert sample.capture.grade == "inferred", sample.capture.warnings
    assert_fact_is_unknown(journey, "hands documents in")


UNTYPED: list[Block] = [
    {"image": {"format": "png"}},
    {"inline_data": {"mime_type": "image/png"}},
    {"inlineData": {"mimeType": "application/pdf"}},
    {"file_data": {"file_uri": "files/9"}},
    {"base64_image": "iVBORw0=", "mime_type": None},
    # as OpenInference wraps each block
    {"message_content": {"type": "image", "image": {"url": "a.png"}}},
    {"base64_data": "JVBERi0=", "mime_type": "application/pdf"},
]


@pytest.mark.parametrize("block", UNTYPED, ids=str)
def test_a_block_without_a_type_is_told_by_its_field(block):
    (words,) = unrecorded_evidence({}, [block]).reasons
    assert "no text" in words


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "source", "content", "prompt", "documents", "extra_body", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.nightly
@given(json, json)
def test_any_request_can_be_read(parameters, contents):
    unrecorded = unrecorded_evidence(parameters, contents)
    assert all(isinstance(words, str) for words in unrecorded.reasons)


@given(st.lists(st.sampled_from([*FILES, *IMAGES, *SOUNDS, *TEXTS])))
def test_blocks_are_read_wherever_they_stand(blocks):
    """In one message or several, and beside any other blocks."""
    unrecorded = unrecorded_evidence({}, [blocks])
    assert unrecorded == unrecorded_evidence({}, [[block] for block in blocks])
    assert bool(unrecorded.reasons) == any(block not in TEXTS for block in blocks)
