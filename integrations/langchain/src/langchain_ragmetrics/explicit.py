"""For steps that LangChain does not report: an observed vector store, and documents named by hand."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast
from uuid import uuid4

from langchain_core.callbacks import CallbackManager
from langchain_core.documents import Document
from langchain_core.runnables.config import ensure_config
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.recording.recorder import Recorder
from langchain_ragmetrics.recording.run import ADD_DOCUMENTS
from langchain_ragmetrics.recording.stores import SEARCHES, documents_of, query_of

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
    end_report = _begin_report(ADD_DOCUMENTS, query)
    end_report(list(documents))


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
            return _reported(store, name)
        return getattr(store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._observed, name, value)


def _reported(store: VectorStore, name: str) -> Callable[..., Any]:
    """Wrap a search method of a store so that recorders are told what it returns.

    Example: ``observe(chroma).similarity_search("Who?")`` stands in the recorded run as
    a retriever "Chroma" with the query "Who?" and the documents that were found.

    Args:
        store: The store.
        name: The name of the method; the wrapper is async if the method is.
    """
    search_method = getattr(store, name)
    store_name = type(store).__name__

    @functools.wraps(search_method)
    def search(*args: Any, **kwargs: Any) -> Any:
        end_report = _begin_report(store_name, query_of(args, kwargs))
        result = search_method(*args, **kwargs)
        end_report(result)
        return result

    @functools.wraps(search_method)
    async def asearch(*args: Any, **kwargs: Any) -> Any:
        end_report = _begin_report(store_name, query_of(args, kwargs))
        result = await search_method(*args, **kwargs)
        end_report(result)
        return result

    return asearch if inspect.iscoroutinefunction(search_method) else search


def _begin_report(name: str, query: str) -> Callable[[Any], None]:
    """Begin a retriever run in every recorder that is among the callbacks here.

    Example: inside ``with capture():`` the search "Who?" begins a run of the capture.
    Only recorders of ragmetrics are told. Other tracers of the application see what
    they would see without us.

    Args:
        name: The name of what searches.
        query: What is searched for.

    Returns:
        A function that ends these runs. It takes what the search returned.
    """
    manager = CallbackManager.configure(
        inheritable_callbacks=ensure_config().get("callbacks")
    )
    recorders: list[Recorder] = []
    for handler in manager.handlers:
        if isinstance(handler, Recorder) and handler not in recorders:
            recorders.append(handler)
    run_ids = [uuid4() for _ in recorders]
    for recorder, run_id in zip(recorders, run_ids, strict=True):
        recorder.search_begins(run_id, query, name, manager.parent_run_id)

    def end_report(result: Any) -> None:
        documents = documents_of(result)
        for recorder, run_id in zip(recorders, run_ids, strict=True):
            recorder.on_retriever_end(documents, run_id=run_id)

    return end_report
