"""What retrievers and rerankers that were traced by hand record in forms of their own."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from losses import losses
from spans_by_hand import GATE, MILL, QUESTION, Told, otlp, span

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.data.sample_parts import PassageNote
from ragmetrics_core.traces import samples_from_spans

ANSWER = "I do not know."
WELL = "The well in the market square is older than the town's first wall."
TEXTS = (GATE, MILL, WELL)


def retriever_of(dialect: str, output: object) -> Told:
    written = output if isinstance(output, str) else json.dumps(output)
    match dialect:
        case "openinference":
            attributes = {
                "openinference.span.kind": "RETRIEVER",
                "input.value": QUESTION,
                "output.value": written,
            }
        case "mlflow":
            attributes = {
                "mlflow.spanType": json.dumps("RETRIEVER"),
                "mlflow.spanInputs": json.dumps({"query": QUESTION}),
                "mlflow.spanOutputs": json.dumps(output),
            }
        case "langfuse":
            attributes = {
                "langfuse.observation.type": "retriever",
                "langfuse.observation.input": QUESTION,
                "langfuse.observation.output": written,
            }
        case _:
            attributes = {
                "langsmith.span.kind": "retriever",
                "gen_ai.prompt": json.dumps({"query": QUESTION}),
                "gen_ai.completion": written,
            }
    return span("search", "chain", 2, 3, **attributes)


def sample_of(*searches: Told, shown: Sequence[str] = TEXTS) -> Sample:
    chain = span(
        "chain",
        openinference__span__kind="CHAIN",
        input__value=QUESTION,
        output__value=ANSWER,
    )
    prompt = "\n".join(
        [*(f"[{n}] {text}" for n, text in enumerate(shown, 1)), QUESTION]
    )
    model = span(
        *("model", "chain", 6, 8),
        openinference__span__kind="LLM",
        **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
        },
    )
    (sample,) = samples_from_spans([otlp(chain, *searches, model)])
    return sample


FORMS: dict[str, Callable[[Sequence[str]], object]] = {
    "texts": list,
    "text": lambda texts: [{"text": text} for text in texts],
    "content and score": lambda texts: [{"content": t, "score": 0.5} for t in texts],
    "documents": lambda texts: {"documents": list(texts)},
    "results": lambda texts: {"results": [{"content": text} for text in texts]},
    "Pinecone": lambda texts: {
        "matches": [
            {"id": f"d{n}", "metadata": {"text": t}} for n, t in enumerate(texts)
        ]
    },
    "Haystack": lambda texts: {
        "documents": [
            {"id": f"d{n}", "content": text, "blob": None, "score": 0.5}
            for n, text in enumerate(texts)
        ]
    },
    "LlamaIndex, as Traceloop writes it": lambda texts: [
        json.dumps({"node": {"id_": f"d{n}", "text": text}, "score": 0.5})
        for n, text in enumerate(texts)
    ],
    "Qdrant": lambda texts: {"points": [{"payload": {"text": text}} for text in texts]},
}
UNREAD_FORMS: dict[str, object] = {
    "texts with scores": [[text, 0.5] for text in TEXTS],
    "Chroma": {"ids": [["a"] * 3], "documents": [list(TEXTS)]},
    "Elasticsearch": {"hits": {"hits": [{"_source": {"body": GATE}}]}},
    "a number": {"n": 2},
    "numbers": [1, 2],
    "titles": [{"title": "Gates"}],
    "a text and numbers": [GATE, 7, 8],
    "addresses": {"documents": [{"url": "https://a.org"}]},
    "documents as Python writes them": "[Document(page_content='The gate')]",
    "texts as Python writes them": "['The gate', 'The mill']",
}


@pytest.mark.parametrize(
    "dialect", ["openinference", "mlflow", "langfuse", "langsmith"]
)
@pytest.mark.parametrize("form", FORMS)
def test_texts_in_a_form_of_their_own_are_documents(form, dialect):
    sample = sample_of(retriever_of(dialect, FORMS[form](TEXTS)))
    assert [context.text for context in sample.known_contexts] == list(TEXTS)
    assert [document.text for document in sample.retrieved or ()] == list(TEXTS)
    ids = [document.id for document in sample.retrieved or ()]
    assert ids in ([None] * 3, ["d0", "d1", "d2"])
    assert sample.capture.grade == "exact", sample.capture.warnings


@pytest.mark.parametrize("form", UNREAD_FORMS)
def test_what_cannot_be_read_is_said(form):
    """It is never taken for a search that found nothing."""
    sample = sample_of(retriever_of("mlflow", UNREAD_FORMS[form]))
    assert_nothing_is_known(sample, "in a form that is not read")


def reranker_with(**output: Any) -> Told:
    inputs = {
        f"reranker.input_documents.{n}.document.{name}": value
        for n, text in enumerate(TEXTS)
        for name, value in (("content", text), ("id", f"d{n}"))
    }
    return span(
        *("rerank", "chain", 4, 5),
        openinference__span__kind="RERANKER",
        **{"reranker.query": QUESTION, **inputs, **output},
    )


def with_ids(**more: object) -> Told:
    documents = {
        f"retrieval.documents.{n}.document.{name}": value
        for n, text in enumerate(TEXTS)
        for name, value in (("content", text), ("id", f"d{n}"))
    }
    kind = {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}
    return span("search", "chain", 2, 3, **kind, **documents, **more)


@pytest.mark.parametrize(("told", "score"), [(0.5, 0.5), (1, 1.0), (True, None)])
def test_the_score_of_a_document_is_a_number(told, score):
    sample = sample_of(with_ids(**{"retrieval.documents.0.document.score": told}))
    assert sample.known_contexts[0].score == score


@pytest.mark.parametrize("shown", [[WELL, MILL], [WELL]])
def test_a_reranker_may_return_texts(shown):
    returned = {"output.value": json.dumps([WELL, MILL])}
    sample = sample_of(with_ids(), reranker_with(**returned), shown=shown)
    assert [context.text for context in sample.known_contexts] == shown
    assert sample.capture.grade == "exact", sample.capture.warnings
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes][1:] != [False, False]
    assert notes[0].kept is not True


SCORES = {
    "listed": {
        f"reranker.output_documents.{n}.document.score": score
        for n, score in enumerate([0.9, 0.5, 0.2])
    },
    "fewer than documents": {
        f"reranker.output_documents.{n}.document.score": score
        for n, score in enumerate([0.9, 0.5])
    },
    "numbers": {"output.value": json.dumps([0.2, 0.5, 0.9])},
    "under a name": {"output.value": json.dumps({"scores": [0.2, 0.5, 0.9]})},
    "of objects": {"output.value": json.dumps([{"score": 0.9}, {"score": 0.2}])},
    "indexes": {"output.value": json.dumps([2, 1])},
    "named indexes": {"output.value": json.dumps({"results": [{"index": 2}]})},
    "grades like indexes": {"output.value": json.dumps([1, 0, 2])},
}


@pytest.mark.parametrize("form", SCORES)
@pytest.mark.parametrize("shown", [[WELL, MILL], [GATE, MILL, WELL], [WELL]])
def test_scores_alone_do_not_tell_what_a_reranker_kept(form, shown):
    """They may stand in the order of the input, or in that of the output.

    The prompt tells the contexts all the same, since scores bring no further text.
    """
    sample = sample_of(with_ids(), reranker_with(**SCORES[form]), shown=shown)
    assert [context.text for context in sample.known_contexts] == shown
    assert [document.text for document in sample.retrieved or ()] == list(TEXTS)
    assert sample.capture.grade == "exact", sample.capture.warnings
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [None] * 3
    assert [note.rank_kept for note in notes] == [None] * 3


def test_a_reranker_whose_output_is_not_read_may_have_brought_texts():
    output = {"output.value": json.dumps([{"title": "Gates", "score": 0.9}])}
    sample = sample_of(with_ids(), reranker_with(**output), shown=[WELL])
    assert sample.capture.grade == "incomplete"


def search_with(**attributes: Any) -> Told:
    kind = {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}
    return span("search", "chain", 2, 3, **kind, **attributes)


def assert_nothing_is_known(sample: Sample, words: str) -> None:
    """A search of which nothing was recorded is none that found nothing."""
    assert sample.capture.grade == "incomplete", sample.capture.warnings
    assert words in " ".join(sample.capture.warnings)
    sample = sample.model_copy(update={"reference": (GATE,)})
    journey = evaluate([sample], metrics=["accuracy"], judge="lexical").journey()
    assert not losses(journey)
    assert journey.of("not_retrieved", "facts") is None


NOTHING = "holds nothing of what was found"


@pytest.mark.parametrize(
    "dialect", ["openinference", "mlflow", "langfuse", "langsmith"]
)
@pytest.mark.parametrize("empty", [[], {"documents": []}, {"documents": None}], ids=str)
def test_a_search_that_found_nothing_is_exact(dialect, empty):
    sample = sample_of(retriever_of(dialect, empty), shown=[])
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert sample.capture.evidence_from == "flow"
    assert sample.contexts == ()


@pytest.mark.parametrize(
    "search",
    [
        search_with(),
        search_with(**{"output.value": "__REDACTED__"}),
        retriever_of("mlflow", None),
        span("search", "chain", 2, 3, **{"gen_ai.operation.name": "retrieval"}),
    ],
    ids=["no output", "hidden", "null", "gen_ai"],
)
@pytest.mark.parametrize("has_other", [False, True])
def test_a_search_of_which_nothing_was_recorded_is_said(search, *, has_other):
    other = span(
        *("other", "chain", 4, 5),
        **{"openinference.span.kind": "RETRIEVER", "output.value": json.dumps([MILL])},
    )
    searches = [search, other] if has_other else [search]
    assert_nothing_is_known(sample_of(*searches, shown=[MILL]), NOTHING)


def test_documents_that_were_hidden_have_no_text():
    hidden = {
        f"retrieval.documents.{n}.document.{name}": value
        for n in range(2)
        for name, value in (("content", "__REDACTED__"), ("id", f"d{n}"))
    }
    sample = sample_of(search_with(**hidden), shown=[MILL])
    assert_nothing_is_known(sample, "of 2 documents")


@pytest.mark.parametrize("texts", [[GATE, ""], [""]], ids=str)
def test_a_document_recorded_without_a_text_was_found(texts):
    documents = [{"page_content": text, "metadata": {}} for text in texts]
    mark = {"openinference.span.kind": "RETRIEVER"}
    attributes = {**mark, "retrieval.documents": json.dumps(documents)}
    sample = sample_of(span("search", "chain", 2, 3, **attributes), shown=[MILL])
    assert sample.capture.grade == "incomplete"
    assert "of 1 documents" in " ".join(sample.capture.warnings)


def test_a_search_may_be_recorded_in_a_span_around_or_inside_it():
    found = {"output.value": json.dumps([{"page_content": GATE, "metadata": {}}])}
    kind = {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}
    for around, inside in (({}, found), (found, {})):
        outer = span("outer", "chain", 2, 5, **kind, **around)
        inner = span("inner", "outer", 3, 4, **kind, **inside)
        sample = sample_of(outer, inner, shown=[GATE])
        assert sample.capture.grade == "exact", sample.capture.warnings
    step = {"openinference.span.kind": "CHAIN", "input.value": QUESTION}
    outer = span("outer", "chain", 2, 5, **step, **found)
    inner = span("inner", "outer", 3, 4, **kind)
    sample = sample_of(outer, inner, shown=[GATE])
    assert NOTHING not in str(sample.capture)


@pytest.mark.parametrize(
    "listed",
    [
        [{"document": {"content": GATE}}, {"document": {"content": MILL}}],
        [
            {"id": "1", "content": {"text": GATE}},
            {"id": "2", "content": {"text": MILL}},
        ],
        [{"id": "1", "text": GATE}, {"id": "2", "text": MILL}],
        [{"page_content": GATE, "metadata": {}}, {"page_content": MILL}],
        [GATE, MILL],
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["gen_ai.retrieval.documents", "retrieval.documents"])
def test_documents_listed_in_one_attribute_are_read(name, listed):
    mark = {"gen_ai.operation.name": "retrieval"}
    if name == "retrieval.documents":
        mark = {"openinference.span.kind": "RETRIEVER"}
    attributes = {**mark, name: json.dumps(listed)}
    sample = sample_of(span("search", "chain", 2, 3, **attributes), shown=[GATE, MILL])
    assert [context.text for context in sample.known_contexts] == [GATE, MILL]
    assert sample.capture.grade == "exact", sample.capture.warnings


def reranker_of(
    name: str, begins: int, ends: int, given: Sequence[str], returned: Sequence[str]
) -> Told:
    documents = {
        f"reranker.{which}_documents.{n}.document.content": text
        for which, texts in (("input", given), ("output", returned))
        for n, text in enumerate(texts)
    }
    kind = {"openinference.span.kind": "RERANKER"}
    return span(name, "chain", begins, ends, **kind, **documents)


def notes_of(*rerankers: Told) -> dict[str, PassageNote]:
    """The note of each passage, by its text, of a search for all and a prompt of the first."""
    documents = {
        f"retrieval.documents.{n}.document.content": text
        for n, text in enumerate(reversed(TEXTS))
    }
    sample = sample_of(search_with(**documents), *rerankers, shown=[GATE])
    assert sample.capture is not None
    texts = [document.text for document in sample.retrieved or ()]
    return dict(zip(texts, sample.capture.passages or (), strict=True))


@pytest.mark.parametrize("begins", [4, 5])
def test_a_reranker_that_begins_where_another_ends_is_the_last(begins):
    notes = notes_of(
        reranker_of("coarse", 3, 4, [WELL, MILL, GATE], [GATE, MILL]),
        reranker_of("fine", begins, 6, [GATE, MILL], [GATE]),
    )
    assert (notes[GATE].kept, notes[GATE].rank_kept) == (True, 1)
    assert (notes[MILL].kept, notes[MILL].dropped_by) == (False, "fine")
    assert (notes[WELL].kept, notes[WELL].dropped_by) == (False, "coarse")


@pytest.mark.parametrize("ends", [4, 5])
def test_two_rerankers_of_one_tick_both_keep_what_they_only_order(ends):
    notes = notes_of(
        reranker_of("coarse", 4, 4, [WELL, MILL, GATE], [MILL, WELL, GATE]),
        reranker_of("fine", 4, ends, [MILL, WELL, GATE], [GATE, MILL, WELL]),
    )
    assert [notes[text].kept for text in TEXTS] == [True, True, True]
    assert [notes[text].rank_kept for text in (GATE, MILL, WELL)] == [1, 2, 3]
