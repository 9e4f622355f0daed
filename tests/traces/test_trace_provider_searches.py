"""What a model's provider searched is not read from spans: the sample says that it was."""

import json
from typing import Any

import pytest
from spans_by_hand import ANSWER, GATE, MILL, PROMPT, QUESTION, Told, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

ADDRESS = "https://example.org/gate"
CITED = {"type": "url_citation", "url": ADDRESS, "title": "Gate"}
PLACED = {**CITED, "start_index": 0, "end_index": len(ANSWER)}
WEB = {"type": "web_search_call", "id": "w", "action": {"query": "gate"}}
FILES: dict[str, Any] = {"type": "file_search_call", "id": "f", "queries": ["gate"]}
SAID = {"type": "text", "text": ANSWER, "annotations": []}


def message_of_langchain(*blocks: Told) -> Told:
    path = ["langchain", "schema", "messages", "AIMessage"]
    fields = {"content": list(blocks), "type": "ai", "tool_calls": []}
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}


def langchain(*blocks: Told) -> str:
    """A reply as LangChain writes it, which OpenInference and MLflow record."""
    message = message_of_langchain(*blocks)
    return json.dumps({"generations": [[{"text": ANSWER, "message": message}]]})


def openai(*blocks: Told) -> str:
    """A response of OpenAI's client, as OpenInference records it."""
    said = {"type": "message", "role": "assistant", "content": [SAID]}
    return json.dumps({"object": "response", "output": [*blocks, said], "tools": []})


def anthropic() -> str:
    """A message of Anthropic's client whose search returned an encrypted text."""
    result = {"type": "web_search_result", "url": ADDRESS, "encrypted_content": "x"}
    asked = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    returned = {"type": "web_search_tool_result", "tool_use_id": "s"}
    content = [asked, {**returned, "content": [result]}, SAID]
    return json.dumps({"type": "message", "role": "assistant", "content": content})


def gemini() -> str:
    """A response of Google's client that names the pages that were found."""
    chunks = [{"web": {"uri": ADDRESS, "title": "Gate"}}]
    said = {"role": "model", "parts": [{"text": ANSWER}]}
    grounding = {"web_search_queries": ["gate"], "grounding_chunks": chunks}
    return json.dumps(
        {"candidates": [{"content": said, "grounding_metadata": grounding}]}
    )


def trace(output: str, *, retrieves: bool = True, answer: str = ANSWER) -> list[Told]:
    """A chain whose model's span has an output, by OpenInference."""
    kind = "openinference__span__kind"
    found = {"retrieval.documents.0.document.content": GATE}
    asked = {"input__value": QUESTION, "output__value": answer}
    chain = span("chain", "", 1, 90, **{kind: "CHAIN"}, **asked)
    search = span("search", "chain", 2, 3, **{kind: "RETRIEVER"}, **found)
    shown = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": PROMPT.replace(MILL, ""),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
        "output.value": output,
    }
    model = span("model", "chain", 4, 80, **{kind: "LLM"}, **shown)
    return [chain, search, model] if retrieves else [chain, model]


def sample_of(*spans: Told) -> Sample:
    (sample,) = samples_from_spans([otlp(*spans)])
    return sample


def grade_of(sample: Sample) -> str | None:
    return sample.capture.grade


OUTPUTS = {
    "web, LangChain": langchain(WEB, {**SAID, "annotations": [PLACED]}),
    "files without texts, OpenAI": openai(FILES),
    "web, Anthropic": anthropic(),
    "web, Gemini": gemini(),
    "cut before its end": langchain(WEB, SAID)[:-40],
}


@pytest.mark.parametrize("retrieves", [True, False], ids=["retriever", "alone"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_search_of_the_provider_without_texts_is_incomplete(name, retrieves):
    samples = samples_from_spans([otlp(*trace(OUTPUTS[name], retrieves=retrieves))])
    (sample,) = samples
    assert grade_of(sample) == "incomplete"
    assert [context.text for context in sample.known_contexts] == [GATE][:retrieves]
    assert sample.answer == ANSWER
    assert samples.notes.without_sample == []
    assert "no search records documents" not in " ".join(samples.notes.sentences)
    assert samples.notes.incomplete == {"not_recorded": 1}


@pytest.mark.parametrize(
    "output",
    [
        ANSWER,
        langchain(SAID),
        json.dumps({"usage": {"server_tool_use": None}, "content": ANSWER}),
        json.dumps({"role": "assistant", "content": 'Look for "web_search_call".'}),
    ],
    ids=["text", "LangChain", "use counted", "words of the answer"],
)
def test_a_model_whose_provider_searched_nothing_stays_exact(output):
    sample = sample_of(*trace(output))
    assert grade_of(sample) == "exact"
    assert [context.text for context in sample.known_contexts] == [GATE]


def test_an_answer_that_is_json_with_citations_is_the_models_own_text():
    answer = json.dumps({"answer": ANSWER, "citations": [CITED]})
    assert grade_of(sample_of(*trace(answer, answer=answer))) == "exact"


@pytest.mark.parametrize(
    "told",
    [
        {"citations": [ADDRESS]},
        {"citations": ["a.pdf", ADDRESS]},
        {"search_results": [{"url": ADDRESS, "title": "Gate"}]},
    ],
    ids=["addresses", "an address", "results"],
)
def test_addresses_that_a_provider_lists_beside_its_reply_are_no_text_of_the_model(
    told,
):
    sample = sample_of(*trace(json.dumps({"content": ANSWER, **told})))
    assert grade_of(sample) == "incomplete"


def test_an_answer_that_quotes_a_search_tells_of_none():
    answer = f'{ANSWER} The reply holds {{"type": "web_search_call"}} then.'
    sample = sample_of(*trace(answer, answer=answer))
    assert sample.answer == answer
    assert grade_of(sample) == "exact"
