"""Documents of the framework are taken as they are where a retriever for a data set returns them."""

from llama_index.core.schema import NodeWithScore, TextNode

from ragmetrics_core.labelling.discrete import retrieve


def test_documents_are_contexts() -> None:
    node = NodeWithScore(node=TextNode(text="text", id_="n"), score=0.5)
    (found,) = retrieve(lambda question, count: [node], "q", 5, 1)
    assert (found.text, found.id, found.score) == ("text", "n", 0.5)
