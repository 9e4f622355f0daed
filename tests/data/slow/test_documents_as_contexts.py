"""Documents of LangChain, Haystack and LlamaIndex are contexts, in rows, samples and ``score``."""

from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, Sample, evaluate
from ragmetrics_core.data import RowError

TEXT = "Anna lit the lamp."


def of_langchain() -> Any:
    documents = pytest.importorskip("langchain_core.documents")
    return documents.Document(page_content=TEXT, id="a", metadata={"page": 3})


def of_haystack() -> Any:
    haystack = pytest.importorskip("haystack")
    return haystack.Document(content=TEXT, id="a", meta={"page": 3}, score=0.5)


def of_llamaindex() -> Any:
    schema = pytest.importorskip("llama_index.core.schema")
    node = schema.TextNode(text=TEXT, id_="a", metadata={"page": 3})
    return schema.NodeWithScore(node=node, score=0.5)


def node_of_llamaindex() -> Any:
    return of_llamaindex().node


SEEN_OF_NODE = f"page: 3\n\n{TEXT}"  # LlamaIndex shows models the metadata, too

DOCUMENTS = [
    (of_langchain, TEXT),
    (of_haystack, TEXT),
    (of_llamaindex, SEEN_OF_NODE),
    (node_of_llamaindex, SEEN_OF_NODE),
]


@pytest.mark.parametrize(("make", "text"), DOCUMENTS)
@pytest.mark.parametrize("form", ["list", "one", "beside a text"])
def test_a_document_is_a_context(make, text, form):
    document = make()
    contexts = {"list": [document], "one": document, "beside a text": [document, "b"]}
    row = {"question": "Who lit it?", "contexts": contexts[form], "answer": "Anna."}
    score = getattr(document, "score", None)
    for sample in (Sample(**row), Sample.from_row(row)):
        first = sample.contexts[0]
        assert (first.text, first.id, first.score) == (text, "a", score)
        assert first.metadata == {"page": 3}
        assert len(sample.known_contexts) == (2 if "beside" in form else 1)
    texts = [text, "b"] if "beside" in form else [text]
    wanted = ContextAdherence().score(**(row | {"contexts": texts}), judge="lexical")
    found = ContextAdherence().score(**row, judge="lexical")
    assert found == wanted
    report = evaluate([row], ["adherence"], judge="lexical")
    assert report.scores("adherence") == [wanted.value]


@pytest.mark.parametrize(("make", "text"), DOCUMENTS)
def test_a_document_is_what_was_retrieved(make, text):
    sample = Sample.from_row({"retrieved": [make()]})
    assert sample.retrieved[0].text == text
    assert Sample(retrieved=[make()]).retrieved == sample.retrieved


def test_a_node_may_hold_its_text_as_metadata():
    schema = pytest.importorskip("llama_index.core.schema")
    node = schema.TextNode(text="", metadata={"said": TEXT})
    sample = Sample.from_row({"contexts": [node]})
    assert sample.context_texts == (f"said: {TEXT}",)


def test_the_metadata_of_an_image_is_not_what_it_shows():
    schema = pytest.importorskip("llama_index.core.schema")
    metadata = {"file_path": "lamp.png"}
    image = schema.ImageNode(image_path="lamp.png", metadata=metadata)
    for node in (image, schema.NodeWithScore(node=image, score=0.5)):
        with pytest.raises(RowError, match="an image, a recording or a file"):
            Sample.from_row({"contexts": [node]})


def test_a_document_without_a_text_is_refused():
    haystack = pytest.importorskip("haystack")
    with pytest.raises(RowError, match="number 1 is an object without a text"):
        Sample.from_row({"contexts": [haystack.Document(content=None)]})
    with pytest.raises(RowError, match="must be a text or an object with a text"):
        Sample.from_row({"contexts": [object()]})


@pytest.mark.parametrize("make", [of_llamaindex, node_of_llamaindex, of_haystack])
@pytest.mark.parametrize("field", ["contexts", "retrieved"])
def test_a_document_that_str_wrote_is_refused(make, field):
    """Its text is cut, so a judge would not see what the application saw."""
    with pytest.raises(RowError, match=r"str\(\) of Python objects"):
        Sample.from_row({"question": "Who lit it?", field: [str(make())]})
