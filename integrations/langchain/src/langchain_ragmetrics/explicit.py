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

from langchain_ragmetrics.capturing.recorder import Recorder
from langchain_ragmetrics.values import plain
from ragmetrics_core import capturing

Store = TypeVar("Store", bound=VectorStore)

_SEARCHES = (
    *("search", "similarity_search", "similarity_search_with_score", "similarity_search_with_relevance_scores"),
    *("similarity_search_by_vector", "max_marginal_relevance_search", "max_marginal_relevance_search_by_vector"),
)
_WITH_SCORE = "similarity_search_with_score"


def add_documents(documents: Iterable[Document | tuple[Document, float]], *, query: str = "") -> None:
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
    _reporting("add_documents", query)(list(documents))


def observe(vectorstore: Store, *, scores: bool = True) -> Store:
    """Wrap a vector store so that its searches are seen, also where they are called directly.

    Args:
        vectorstore: Any vector store.
        scores: Ask the store for scores with each plain ``similarity_search``, by calling its
            ``similarity_search_with_score`` instead where it has one; the application gets the documents as before.
            False calls exactly what the application calls.

    Returns:
        A store with the same methods, ``as_retriever`` included; use it in place of the store.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore.from_texts(["Paris."], DeterministicFakeEmbedding(size=8))
        >>> observe(store).similarity_search("Capital of France?")[0].page_content
        'Paris.'
    """
    return cast("Store", _ObservedStore(vectorstore, scores))


@VectorStore.register
class _ObservedStore:
    """Has everything that the store has, and reports what its searches return."""

    def __init__(self, store: VectorStore, scores: bool) -> None:
        scored = getattr(type(store), _WITH_SCORE, None) not in (None, getattr(VectorStore, _WITH_SCORE))
        object.__setattr__(self, "_observed", (store, scores and scored))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # how a store copies itself would make a bare one of this
            raise AttributeError(name)
        store, scores = object.__getattribute__(self, "_observed")
        if name == "as_retriever":  # its retriever must search through this object
            return functools.partial(getattr(type(store), name, VectorStore.as_retriever), self)
        if name.removeprefix("a") in _SEARCHES and hasattr(store, name):
            return _reported(store, name, scores)
        return getattr(store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._observed[0], name, value)


def _reported(store: VectorStore, name: str, scores: bool) -> Callable[..., Any]:
    """A search of the store that reports what it returns."""
    plain = scores and name.removeprefix("a") == "similarity_search"
    called = getattr(store, name.replace("similarity_search", _WITH_SCORE) if plain else name)

    def begun(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
        query = args[0] if args else kwargs.get("query")
        report = _reporting(type(store).__name__, query if isinstance(query, str) else "")

        def ended(found: Any) -> Any:
            report(found)
            return [document for document, _ in found] if plain else found

        return ended

    @functools.wraps(getattr(store, name))
    def search(*args: Any, **kwargs: Any) -> Any:
        ended = begun(args, kwargs)
        return ended(called(*args, **kwargs))

    @functools.wraps(getattr(store, name))
    async def asearch(*args: Any, **kwargs: Any) -> Any:
        ended = begun(args, kwargs)
        return ended(await called(*args, **kwargs))

    return asearch if inspect.iscoroutinefunction(called) else search


def _reporting(name: str, query: str) -> Callable[[Any], None]:
    """Begin a retriever run in every recorder that listens here; what is returned ends them with documents.

    Only recorders of ragmetrics are told: other tracers of the application see what they would see without us.
    """
    manager = CallbackManager.configure(inheritable_callbacks=ensure_config().get("callbacks"))
    recorders = dict.fromkeys(handler for handler in manager.handlers if isinstance(handler, Recorder))
    begun = [(recorder, uuid4()) for recorder in recorders]
    for recorder, run in begun:
        recorder.search_begins(run, query, name, manager.parent_run_id)

    def end(found: Any) -> None:
        for recorder, run in begun:
            recorder.on_retriever_end([_document(one) for one in capturing.documents_in(plain(found))], run_id=run)

    return end


def _document(one: capturing.Document) -> Document:
    metadata = {**one.metadata} if one.score is None else {**one.metadata, "relevance_score": one.score}
    return Document(page_content=one.text, metadata=metadata, id=one.id)
