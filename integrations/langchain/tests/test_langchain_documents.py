"""Documents of the framework are taken as they are where a retriever for a data set returns them."""

from langchain_core.documents import Document

from ragmetrics_core.labelling.discrete import retrieve


def test_documents_are_contexts() -> None:
    (found,) = retrieve(
        lambda question, count: [Document(page_content="text", id="7")], "q", 5, 1
    )
    assert (found.text, found.id, found.score) == ("text", "7", None)
