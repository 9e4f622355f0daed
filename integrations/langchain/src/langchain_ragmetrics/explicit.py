"""For steps that LangChain does not report: an observed vector store, and documents named by hand."""

import functools
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.recording.run import ADD_DOCUMENTS
from langchain_ragmetrics.recording.stores import (
    SEARCHES,
    query_of,
    reported,
    search_reported,
)

Store = TypeVar("Store", bound=VectorStore)


def add_documents(
    documents: Iterable[Document | tuple[Document, float]], *, query: str = ""
) -> None:
    """Tell ragmetrics what the current step retrieved, where LangChain does not report it.

    Args:
        documents: In rank order; with their scores where there are any.
        query: What was searched for.

    Examples:
        >>> from langchain_core.runnables import RunnableLambda
        >>> from langchain_ragmetrics import capture
        >>> def answer(question: str) -> str:
        ...     add_documents([(Document("Paris is the capital of France."), 0.9)])
        ...     return "Paris"
        >>> with capture() as captured:
        ...     _ = RunnableLambda(answer).invoke("Capital of France?")
        >>> captured.samples[0].contexts[0].score
        0.9
    """
    with search_reported(ADD_DOCUMENTS, query) as found:
        found(list(documents))


def observe(vectorstore: Store) -> Store:
    """Wrap a vector store so that its searches are seen, also where they are called directly.

    Args:
        vectorstore: Any vector store.

    Returns:
        A store with the same methods, ``as_retriever`` included; use it in place of the
        store. Each search calls what the application called and nothing else, so that a
        store which filters by permission still does. Scores are known where the
        application asks for them (``similarity_search_with_score``) or the store puts
        them into the metadata.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore.from_texts(["Paris."], DeterministicFakeEmbedding(size=8))
        >>> observe(store).similarity_search("Capital of France?")[0].page_content
        'Paris.'
    """
    return cast("Store", _ObservedStore(vectorstore))


@VectorStore.register
class _ObservedStore:
    """Has everything that the store has, and reports what its searches return."""

    def __init__(self, store: VectorStore) -> None:
        object.__setattr__(self, "_observed", store)

    def __getattr__(self, name: str) -> Any:
        """What the store has under a name; a search reports what it returns."""
        # how a store copies itself would make a bare one of this
        if name.startswith("__"):
            raise AttributeError(name)
        store = object.__getattribute__(self, "_observed")
        if name == "as_retriever":  # its retriever must search through this object
            return functools.partial(
                getattr(type(store), name, VectorStore.as_retriever), self
            )
        if name.removeprefix("a") in SEARCHES and hasattr(store, name):
            return reported(
                getattr(store, name),
                lambda args, kwargs: search_reported(
                    type(store).__name__, query_of(args, kwargs)
                ),
            )
        return getattr(store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._observed, name, value)
