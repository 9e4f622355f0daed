"""Documents of the frameworks as contexts, known by their attributes.

No framework is imported: an object counts as a document if it has what a document of
LangChain, Haystack or LlamaIndex has.
"""

from collections.abc import Mapping
from typing import Any


def fields_of_document(document: object) -> dict[str, Any] | None:
    """Return text, id, score and metadata of a framework's document.

    Example: LangChain's ``Document(page_content="Blue.", id="a")`` gives the text
    "Blue." and the id "a".

    Args:
        document: LangChain's or Haystack's ``Document``, LlamaIndex's ``NodeWithScore``
            or a node of it, or anything else.

    Returns:
        The fields of a context; the text is None for a document without one, such as an
        image. None if it is no such document.
    """
    node = getattr(document, "node", None)
    if node is not None and hasattr(document, "score"):  # LlamaIndex's NodeWithScore
        fields = fields_of_document(node)
        return None if fields is None else fields | {"score": document.score}
    if hasattr(document, "page_content"):  # LangChain
        text = document.page_content
        metadata = getattr(document, "metadata", None)
    elif hasattr(document, "content") and hasattr(document, "meta"):  # Haystack
        text = document.content
        metadata = document.meta
    elif hasattr(document, "get_content") and hasattr(document, "node_id"):
        text = document.get_content()  # a node of LlamaIndex
        metadata = getattr(document, "metadata", None)
    else:
        return None
    named_id = getattr(document, "id", None)
    return {
        "text": text if isinstance(text, str) else None,
        "id": getattr(document, "node_id", None) if named_id is None else named_id,
        "score": getattr(document, "score", None),
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
    }
