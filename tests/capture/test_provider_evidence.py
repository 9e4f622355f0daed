"""What a model's provider found, read from replies as plain dictionaries: documented shapes, and odd ones.

Each line of ``golden/providers/replies.jsonl`` is a reply, and what is expected of it:
the texts and the calls where it is read, else the grade and words of the remedy.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.capture.providers import add_provider_evidence, evidence_in_reply
from ragmetrics_core.data import Sample

QUESTION = "Who lit the lamp of the lighthouse first?"
FACT = "Anna Berg lit the lamp of the lighthouse for the first time in May 1882."
SIZE = "The lighthouse has eleven rooms; the keeper slept in the one below the lamp."
OIL = "A barrel of oil was carried up the stairs of the lighthouse every week."
ANSWER = "Anna Berg lit it in May 1882."
ADDRESS = "https://lamp.example/history"
REPLIES = Path(__file__).with_name("golden") / "providers" / "replies.jsonl"
SHAPES = [json.loads(line) for line in REPLIES.read_text().splitlines()]


def said(text: str = ANSWER, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def file_search(results: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["lamp first lit"],
        "results": results,
        **fields,
    }


def found_file(text: str | None, name: str = "a.txt") -> dict[str, Any]:
    return {
        "attributes": {},
        "file_id": f"file-{name}",
        "filename": name,
        "score": 0.9,
        "text": text,
    }


def url_citation(address: str = ADDRESS) -> dict[str, Any]:
    place = {"start_index": 0, "end_index": 9}
    return {"type": "url_citation", "url": address, "title": "The lamp", **place}


def anthropic_search(content: Any) -> list[dict[str, Any]]:
    return [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "lamp lighthouse"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": content,
        },
    ]


def web_result(address: str = ADDRESS) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "url": address,
        "title": "The lamp",
        "encrypted_content": "EqgfCioIARgB",
        "page_age": "2 May 2025",
    }


def web_location(quote: str = FACT) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": ADDRESS,
        "title": "The lamp",
        "encrypted_index": "Eo8BCioIAhgB",
        "cited_text": quote,
    }


def grounding(*chunks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "grounding_metadata": {
            "grounding_chunks": list(chunks),
            "web_search_queries": ["lamp"],
            **fields,
        }
    }


def call_of_model(answer: str = ANSWER) -> Node:
    return Node(
        "model",
        "model",
        2,
        3,
        prompt=(Message("user", QUESTION),),
        reply=Message("assistant", answer),
    )


def sample_of(reply: Iterable[object], answer: str = ANSWER) -> Sample:
    """A sample of an agent whose own tool brought noise and whose model's provider the rest."""
    first = Node(
        "retriever", "own", 1, 1.5, query=QUESTION, documents=(Document(SIZE),)
    )
    model = call_of_model(answer)
    model.prompt = (*model.prompt, Message("tool", SIZE))
    add_provider_evidence(model, *reply)
    root = Node("step", "run", 0, 4, [first, model])
    (sample,) = samples_of(Tree(root, question=QUESTION, output={"answer": answer}))
    return sample


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_a_reply_is_read_or_hedged(shape):
    model = call_of_model()
    add_provider_evidence(model, *shape["reply"])
    found = [document for node in model.children for document in node.documents or ()]
    sample = sample_of(shape["reply"])
    assert sample.capture.grade == shape.get("grade", "exact")
    assert shape.get("says", "") in " ".join(sample.capture.warnings)
    assert {one.text for one in found} <= {FACT, OIL}
    if sample.capture.grade == "exact":
        assert [one.text for one in found] == shape["texts"]
        calls = [[node.name, node.query] for node in model.children]
        assert calls == shape["calls"]
        expected = list(dict.fromkeys([SIZE, *shape["texts"]]))
        for contexts in (sample.known_contexts, sample.retrieved or ()):
            assert sorted(each.text for each in contexts) == sorted(expected)


def gemini(*parts: str) -> list[dict[str, Any]]:
    """A reply of Gemini's that names its one result for parts of the answer."""
    supports = [
        {"segment": {"text": part}, "grounding_chunk_indices": [0]} for part in parts
    ]
    chunk = {"retrieved_context": {"title": "a.txt", "text": FACT}}
    return [grounding(chunk, grounding_supports=supports)]


def openai(text: str = ANSWER) -> list[dict[str, Any]]:
    """A reply of OpenAI's that cites a file that it searched."""
    cited = {"type": "file_citation", "file_id": "file-a.txt", "index": 3}
    files = file_search([found_file(FACT)])
    return [{"content": [files, said(text, annotations=[cited])]}]


def anthropic(text: str = ANSWER) -> list[dict[str, Any]]:
    """A reply of Anthropic's that cites words of the prompt."""
    cited = {"type": "char_location", "cited_text": SIZE[:30], "document_index": 0}
    return [{"content": [said("So: "), said(text, citations=[cited])]}]


LONGER = f"{ANSWER} It has eleven rooms."
CITING: dict[str, tuple[str, list[dict[str, Any]], list[tuple[str, str]] | None]] = {
    "OpenAI": (ANSWER, openai(), [(ANSWER, FACT)]),
    "OpenAI, somewhere in two sentences": (LONGER, openai(LONGER), None),
    "Anthropic": (f"So: {ANSWER}", anthropic(), [(ANSWER, SIZE)]),
    "Anthropic, two sentences": (f"So: {LONGER}", anthropic(LONGER), None),
    "Gemini": (LONGER, gemini(ANSWER), [(ANSWER, FACT)]),
    "Gemini, words that stand twice": (f"{ANSWER} {ANSWER}", gemini(ANSWER), None),
    "Gemini, words that stand nowhere": (LONGER, gemini("Hm."), None),
}


@pytest.mark.parametrize("name", CITING)
def test_a_source_is_cited_for_the_sentence_that_the_provider_names(name):
    answer, reply, expected = CITING[name]
    sample = sample_of(reply, answer)
    if expected is None:
        assert sample.citations is None
        assert "fits several" in (sample.citations_unknown or "")
        return
    texts = [context.text for context in sample.known_contexts]
    assert [
        (answer[cited.start : cited.end], *(texts[place] for place in cited.contexts))
        for cited in sample.citations or ()
    ] == expected


def test_a_structured_reply_with_citations_of_its_own_cites_no_source_of_a_provider():
    """LlamaIndex hands the object on as what the model's provider replied."""
    reply = {"answer": ANSWER, "citations": [{"source": "a.txt", "lines": "1-2"}]}
    sample = sample_of([reply, {"content": json.dumps(reply)}], json.dumps(reply))
    assert sample.capture.grade == "exact"
    hedged = sample_of([{**reply, "model": "m"}], json.dumps(reply))
    assert "not_recorded" in hedged.capture.doubts


def test_a_search_that_found_nothing_is_a_call_without_items():
    sample = sample_of([{"content": [file_search([]), said()]}])
    calls = [(call.name, len(call.items)) for call in sample.ledger.calls]
    assert calls == [(None, 1), ("file_search", 0)]


def test_what_was_found_is_put_below_a_call_once():
    model = call_of_model()
    reply = {"content": [file_search([found_file(FACT)])]}
    add_provider_evidence(model, reply)
    add_provider_evidence(model, reply)
    assert len(model.children) == 1
    assert [message.role for message in model.prompt] == ["user", "tool"]


def test_a_second_copy_of_a_reply_names_the_provider_s_sources_too():
    model = call_of_model()
    citation = {"type": "file_citation", "filename": "a.txt", "index": 3}
    reply = {"content": [file_search([found_file(FACT)])], "annotations": [citation]}
    for _ in range(2):  # LlamaIndex hands on a reply in an event and as a result
        model.reply = Message("assistant", ANSWER)
        add_provider_evidence(model, reply)
        sources = model.reply.cited_sources or ()
        assert ["a.txt" in source.names for source in sources] == [True]
    assert len(model.children) == 1


@pytest.mark.parametrize(
    "source", [{}, {"title": "Another title"}, {"url": "https://b.example/other"}]
)
def test_a_page_that_one_reply_found_and_the_next_one_cites_was_not_recorded(source):
    first, second = call_of_model(), call_of_model()
    first.began, first.ended = 1, 1.5
    first.reply = Message("assistant", "I look at the years.")
    searched = [*anthropic_search([web_result()]), said("I look at the years.")]
    cited = said(citations=[{**web_location(), **source}])
    add_provider_evidence(first, {"content": searched})
    add_provider_evidence(second, {"content": [cited]})
    own = Node("retriever", "own", 1.6, 1.7, documents=(Document(SIZE),))
    root = Node("step", "run", 0, 4, [first, own, second])
    (sample,) = samples_of(Tree(root, question=QUESTION, output={"answer": ANSWER}))
    assert "not_recorded" in sample.capture.doubts
    assert "PDF" not in sample.capture.doubts["not_recorded"]


def test_what_an_earlier_call_found_may_have_been_shown_again():
    first, second = call_of_model(), call_of_model()
    first.began, first.ended = 1, 1.5
    first.reply = Message("assistant", "I look it up.")
    add_provider_evidence(first, {"content": [file_search([found_file(FACT)])]})
    own = Node("retriever", "own", 1.6, 1.7, documents=(Document(SIZE),))
    second.prompt = (Message("user", QUESTION), Message("tool", SIZE))
    root = Node("step", "run", 0, 4, [first, own, second])
    (sample,) = samples_of(Tree(root, question=QUESTION, output={"answer": ANSWER}))
    assert sample.capture.grade == "inferred"
    assert "further_call" in sample.capture.doubts


# Laws

WORDS = st.sampled_from([ANSWER, FACT, ADDRESS, "", "lamp", "\ud800", "search"])
KEYS = st.sampled_from(
    [
        *("type", "id", "content", "output", "text", "results", "name", "input"),
        *("annotations", "citations", "cited_text", "url", "title", "source"),
        *("tool_use_id", "tool_call_id", "status", "action", "sources", "queries"),
        *("grounding_metadata", "grounding_chunks", "retrieved_context", "web"),
        *("grounding_supports", "segment", "start_index", "grounding_chunk_indices"),
        *("tool_outputs", "built_in_tool_calls", "search_results", "value", "score"),
        *("extras", "args", "query", "error", "outputs", "choices", "message", "tools"),
    ]
)
TYPES = st.sampled_from(
    [
        *("file_search_call", "web_search_call", "server_tool_use", "text", "citation"),
        *("server_tool_call", "server_tool_result", "web_search_tool_result"),
        *("web_fetch_tool_result", "mcp_call", "code_interpreter_call", "message"),
        *("non_standard", "url_citation", "file_citation", "failed", "document"),
    ]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), WORDS, TYPES
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=4).flatmap(
            lambda fields: TYPES.map(lambda kind: {**fields, "type": kind})
        ),
    ),
    max_leaves=25,
)


def texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_of(inner)


@given(st.lists(JSON, max_size=3))
def test_no_payload_raises_and_no_text_is_made_up(places):
    evidence = evidence_in_reply(*places)
    texts = list(texts_of(places))
    for call in evidence.searches:
        for one in call.documents or ():
            parts = one.text.split("\n")
            assert all(any(part in text for text in texts) for part in parts)
    sample = sample_of(places)
    assert sample.contexts[0].text == SIZE


@given(
    st.lists(
        st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), JSON, max_size=3),
        max_size=2,
    )
)
def test_a_search_without_its_texts_is_never_exact(places):
    sample = sample_of([{"content": [file_search(None)]}, *places])
    assert sample.capture.grade == "incomplete"


def test_deep_payloads_end():
    deep: Any = "text"
    for _ in range(5000):
        deep = {"content": [deep], "value": deep, "type": "non_standard"}
    assert evidence_in_reply({"content": [deep], "citations": [deep]}) is not None


def test_a_model_that_always_searches_leaves_a_doubt_where_nothing_is_told():
    named = call_of_model()
    named.model = "gpt-4o-search-preview-2025-03-11"
    add_provider_evidence(named, {"content": ANSWER})
    assert [search.documents for search in named.children] == [None]
    other = call_of_model()
    other.model = "gpt-4o"
    add_provider_evidence(other, {"content": ANSWER})
    assert not other.children


@pytest.mark.parametrize(("results", "documents"), [([], ()), (None, None)])
def test_an_empty_list_was_found_and_a_missing_one_is_unknown(results, documents):
    search = {"type": "file_search_call", "id": "1", "results": results}
    model = call_of_model()
    add_provider_evidence(model, {"content": [search]})
    assert [node.documents for node in model.children] == [documents]


@pytest.mark.parametrize(
    ("reply", "is_known"),
    [
        ({"content": [said("She lit it [1].")]}, False),
        # the model tells that it searched, and that it found nothing
        ({"content": [file_search([]), said("She lit it [1].")]}, True),
    ],
    ids=["no word of a search", "it found nothing"],
)
def test_a_number_may_mean_what_a_model_found_unless_its_reply_tells_all(
    reply, is_known
):
    """Perplexity's sonar numbers what it finds, and the prompt has a number 1, too."""
    search = Node("retriever", "own", 1, 1.5, query=QUESTION)
    search.documents = (Document(FACT),)
    model = Node("model", "model", 2, 3, model="sonar-pro")
    model.prompt = (Message("user", f"[1] {FACT}\n\nQuestion: {QUESTION}"),)
    model.reply = Message("assistant", "She lit it [1].")
    add_provider_evidence(model, reply)
    root = Node("step", "run", 0, 4, [search, model])
    (sample,) = samples_of(
        Tree(root, question=QUESTION, output={"answer": "She lit it [1]."})
    )
    if is_known:
        assert [citation.contexts for citation in sample.citations or ()] == [(0,)]
    else:
        assert sample.citations is None
        assert "in another notation" in (sample.citations_unknown or "")
