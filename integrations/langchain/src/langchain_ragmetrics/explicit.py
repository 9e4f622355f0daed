"""For steps that LangChain does not report: an observed vector store, and documents named by hand."""

from collections.abc import Iterable
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.recording.calls import ADD_DOCUMENTS
from langchain_ragmetrics.recording.patches import record_searches_of, search_reported

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
    """Have the searches of a vector store recorded, also where they are called directly.

    Args:
        vectorstore: Any vector store.

    Returns:
        The store itself, whose searches are recorded from now on. Each search calls
        what the application called and nothing else, so that a store which filters by
        permission still does. Scores are known where the application asks for them
        (``similarity_search_with_score``) or the store puts them into the metadata.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore.from_texts(["Paris."], DeterministicFakeEmbedding(size=8))
        >>> observe(store).similarity_search("Capital of France?")[0].page_content
        'Paris.'
    """
    record_searches_of(vectorstore)
    return vectorstore
