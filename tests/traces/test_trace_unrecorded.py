"""What a recorded request shows a model and no span holds: files, images, what the provider keeps."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from losses import losses
from spans_by_hand import otlp, span

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.capture.unrecorded import UnrecordedEvidence, unrecorded_evidence
from ragmetrics_core.reporting.journey import Journey
from ragmetrics_core.traces import samples_from_spans

IRON = "The lighthouse of Norwick is made of riveted iron plates."
QUESTION = "When was the Norwick lighthouse opened?"
FACT = "The Norwick lighthouse was opened on 4 May 1874."
ANSWER = "On 4 May 1874."
PROMPT = f"{IRON}\n{QUESTION}"
TEXT = {"type": "text", "text": PROMPT}
Block = Mapping[str, Any]
Attributes = dict[str, Any]

PDF: Block = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
}
IMAGE: Block = {"type": "image_url", "image_url": {"url": "https://a.org/page.png"}}
KEPT = {"previous_response_id": "resp_1"}
NO_TEXT_WORDS = "such as an image or a PDF"
KEPT_WORDS = "names what the model's provider keeps"


def openinference(blocks: Sequence[Block], parameters: Block) -> Attributes:
    """As of LangChain: parts of types that are not known have no attributes."""
    message = {"type": "human", "content": [*blocks, TEXT]}
    path = ["langchain", "schema", "messages", "HumanMessage"]
    serialised = {"lc": 1, "type": "constructor", "id": path, "kwargs": message}
    contents = f"llm.input_messages.0.message.contents.{len(blocks)}.message_content."
    return {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": [[serialised]]}),
        "llm.input_messages.0.message.role": "user",
        f"{contents}type": "text",
        f"{contents}text": PROMPT,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
        "llm.invocation_parameters": json.dumps({"stop": None, **parameters}),
    }


def mlflow(blocks: Sequence[Block], parameters: Block) -> Attributes:
    message = {"type": "human", "content": [*blocks, TEXT], "name": None}
    reply = {"message": {"role": "assistant", "content": ANSWER}}
    return {
        "mlflow.spanType": json.dumps("CHAT_MODEL"),
        "mlflow.spanInputs": json.dumps([[message]]),
        "mlflow.spanOutputs": json.dumps({"choices": [reply]}),
        "invocation_params": json.dumps(parameters),
    }


def provider(blocks: Sequence[Block], parameters: Block) -> Attributes:
    """The request itself, as where the provider's client is traced by MLflow."""
    request = {
        "model": "small",
        "messages": [{"role": "user", "content": [*blocks, TEXT]}],
        **parameters,
    }
    return {**mlflow((), {}), "mlflow.spanInputs": json.dumps(request)}


def responses(blocks: Sequence[Block], parameters: Block) -> Attributes:
    """The same by OpenAI's other interface."""
    said = {"role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    reply = {"object": "response", "output": [{"type": "message", **said}]}
    return {**provider(blocks, parameters), "mlflow.spanOutputs": json.dumps(reply)}


def langfuse(blocks: Sequence[Block], parameters: Block) -> Attributes:
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(
            [{"role": "user", "content": [*blocks, TEXT]}]
        ),
        "langfuse.observation.output": json.dumps(
            {"role": "assistant", "content": ANSWER}
        ),
        "langfuse.observation.model.parameters": json.dumps(parameters),
    }


def langsmith(blocks: Sequence[Block], parameters: Block) -> Attributes:
    message = {"role": "user", "content": [*blocks, TEXT]}
    reply = {"message": {"role": "assistant", "content": ANSWER}}
    return {
        "langsmith.span.kind": "llm",
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": json.dumps({"messages": [[message]]}),
        "gen_ai.completion": json.dumps({"generations": [[reply]]}),
        "gen_ai.request.extra_body": json.dumps(parameters),
    }


def traceloop(blocks: Sequence[Block], parameters: Block) -> Attributes:
    """Parts of types that are not known stand as JSON in a text; parameters nowhere."""
    parts = [{"type": "text", "content": json.dumps(block)} for block in blocks]
    parts.append({"type": "text", "content": PROMPT})
    reply = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
    return {
        "gen_ai.operation.name": "chat",
        "traceloop.workflow.name": "chain",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}]),
        "gen_ai.output.messages": json.dumps([reply]),
        "traceloop.entity.input": json.dumps({"kwargs": parameters}),
    }


DIALECTS = [openinference, mlflow, provider, responses, langfuse, langsmith, traceloop]
Writes = Callable[[Sequence[Block], Block], Attributes]


def sample_of(model: Attributes) -> Sample:
    """A chain that finds one document, and calls the model."""
    chain = {"input.value": QUESTION, "output.value": ANSWER}
    search = {"input.value": QUESTION, "retrieval.documents.0.document.content": IRON}
    read = samples_from_spans(
        [
            otlp(
                span("chain", "", 1, 9, openinference__span__kind="CHAIN", **chain),
                span(
                    *("search", "chain", 2, 3),
                    openinference__span__kind="RETRIEVER",
                    **search,
                ),
                span("model", "chain", 4, 8, **model),
            )
        ]
    )
    (sample,) = read
    return sample.model_copy(update={"reference": (FACT,)})


def journey_of_run(sample: Sample) -> Journey:
    return evaluate([sample], metrics=["accuracy"], judge="lexical").journey()


def assert_unknown(model: Attributes, words: str) -> None:
    sample = sample_of(model)
    assert sample.capture.grade == "incomplete", sample.capture.warnings
    journey = journey_of_run(sample)
    assert not losses(journey)
    assert journey.of("not_retrieved", "facts") is None
    assert words in str(journey)
    assert [context.text for context in sample.known_contexts] == [IRON]


def assert_known(model: Attributes) -> None:
    sample = sample_of(model)
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert sample.capture.unread_texts == ()
    assert losses(journey_of_run(sample)) == {"not_retrieved"}


@pytest.mark.parametrize("writes", DIALECTS)
def test_a_plain_request_leaves_a_sample_exact(writes):
    assert_known(writes([], {"temperature": 0.5, "previous_response_id": None}))


@pytest.mark.parametrize("writes", DIALECTS)
@pytest.mark.parametrize(
    ("parts", "request_fields", "words"),
    [([PDF], {}, NO_TEXT_WORDS), ([IMAGE], {}, NO_TEXT_WORDS), ([], KEPT, KEPT_WORDS)],
    ids=["a file", "an image", "what a provider keeps"],
)
def test_what_no_span_holds_makes_a_sample_incomplete(
    writes, parts, request_fields, words
):
    assert_unknown(writes(parts, request_fields), words)


def parts(*contents: Block) -> Attributes:
    """A prompt in parts, by OpenTelemetry's conventions."""
    listed = [*contents, {"type": "text", "content": PROMPT}]
    reply = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": listed}]),
        "gen_ai.output.messages": json.dumps([reply]),
    }


def written_by_python(blocks: str, **parameters: str) -> Attributes:
    """A message as OpenInference writes it for LlamaIndex and Haystack."""
    text = f"TextBlock(block_type='text', text={PROMPT!r})"
    message = f"ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[{blocks}, {text}])"
    recorded = {"messages": [message], "kwargs": parameters}
    return {**openinference((), {}), "input.value": json.dumps(recorded)}


HAYSTACK = {
    "role": "user",
    "content": [{"image": {"mime_type": "image/png"}}, {"text": PROMPT}],
}
MEDIA = "@@@langfuseMedia:type={}|id=1|source=bytes@@@"


@pytest.mark.parametrize(
    "model",
    [
        parts({"type": "blob", "mime_type": "image/png"}),
        parts({"type": "uri", "modality": "audio"}),
        written_by_python("ImageBlock(block_type='image', image=b'iVB')"),
        {**mlflow((), {}), "mlflow.spanInputs": json.dumps({"messages": [HAYSTACK]})},
        {**openinference((), {}), "input.images.0.image.url": "a.png"},
        {**openinference((), {}), "input.documents.0.document.name": "a.pdf"},
        langfuse([{"type": "text", "text": "x"}, MEDIA.format("a/pdf")], {}),  # type: ignore[list-item]  # a text in place of a file
    ],
)
def test_other_forms_of_what_no_span_holds(model):
    assert_unknown(model, NO_TEXT_WORDS)


@pytest.mark.parametrize(
    "recorded",
    [
        {"question": QUESTION, "document": IRON, "file": "a.txt"},
        {"question": QUESTION, "document": {"page_content": IRON}},
        {"prompt": PROMPT, "conversation": "c1", "conversation_id": "c1"},
        {"messages": [{"role": "assistant", "content": [dict(PDF)]}]},
        {"messages": PROMPT, "tools": [{"type": "file"}]},
    ],
    ids=str,
)
def test_fields_of_an_application_are_no_request(recorded):
    """What the application names so, and what the model itself wrote."""
    assert_known({**openinference((), {}), "input.value": json.dumps(recorded)})


BLOCKS: list[Block] = [
    PDF,
    IMAGE,
    TEXT,
    {"type": "input_file", "file_id": "f"},
    {"type": "input_audio", "input_audio": {"data": "U"}},
    {"type": "blob", "mime_type": "image/png"},
    {"inline_data": {"mime_type": "application/pdf"}},
    {"image": {"format": "png"}},
    {"type": "tool_result", "content": [IMAGE]},
    {"toolResult": {"content": [{"document": {"format": "pdf"}}]}},
    {"type": "tool_call_response", "response": [PDF]},
]


@given(
    st.lists(st.sampled_from(BLOCKS)),
    st.sampled_from([{}, KEPT, {"conversation": {"id": "c"}}, {"temperature": 1}]),
    st.sampled_from([openinference, mlflow, provider, langfuse, langsmith]),
)
def test_a_span_tells_what_an_adapter_sees(blocks, parameters, writes):
    seen_by_adapter = unrecorded_evidence(parameters, [[*blocks, TEXT]])
    sample = sample_of(writes(blocks, parameters))
    is_incomplete = sample.capture.grade == "incomplete"
    assert is_incomplete == bool(seen_by_adapter.reasons)
    assert (sample.capture.grade == "exact") == (
        seen_by_adapter == UnrecordedEvidence()
    )
