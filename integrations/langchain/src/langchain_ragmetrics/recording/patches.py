"""What is replaced or looked at outside of LangChain's callbacks, each with its case and its way back.

- The searches of ``VectorStore``'s subclasses: an application calls
  ``store.similarity_search()`` by itself, which no callback reports. They are put back
  when the last listener leaves.
- The searches of one store, which the application hands to ``observe()``: there they stay.
- The callers of a search: a retriever, a selector of examples or a cache searches its
  store, and that is no search of the application's. Nothing is changed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import walk_stack
from types import MethodType
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.caches import BaseCache
from langchain_core.callbacks import CallbackManager
from langchain_core.documents import Document
from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import ensure_config
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.recording.calls import ADD_DOCUMENTS, STORE_SEARCH
from langchain_ragmetrics.recording.recorder import Recorder
from ragmetrics_core.capture import ReplacedMethods

Store = TypeVar("Store", bound=VectorStore)

# "similarity_search", "asimilarity_search_with_score" and the like
_SEARCHES = frozenset(
    name for name in vars(VectorStore) if "search" in name and name[0] != "_"
)
# Retrievers, which LangChain reports, and what looks up examples or stored replies,
# which are no evidence.
_OTHER_SEARCHERS = (BaseRetriever, BaseExampleSelector, BaseCache)

# the searches of all classes of stores, which are replaced while somebody listens
STORE_METHODS = ReplacedMethods()

# what a report is told once the search has returned
Found = Callable[[Any], None]

# Whether a search goes on in this context: what it calls is part of it.
_is_searching = ContextVar("langchain_ragmetrics_is_searching", default=False)


@contextmanager
def search_reported(name: str, query: str, *, by_hand: bool = False) -> Iterator[Found]:
    """Record a search as a retriever's run in every recorder that is among the callbacks here.

    Only recorders of ragmetrics are told. Other tracers of the application see what
    they would see without us.

    Args:
        name: The name of what searches.
        query: What is searched for.
        by_hand: Whether the application named neither store nor search to us. By
            itself the search is no sample then.

    Yields:
        A function that takes what the search returned.
    """
    manager = CallbackManager.configure(
        inheritable_callbacks=ensure_config().get("callbacks")
    )
    recorders = [each for each in manager.handlers if isinstance(each, Recorder)]
    run_ids = {recorder: uuid4() for recorder in recorders}
    for recorder, run_id in run_ids.items():
        recorder.on_retriever_start(
            {},
            query,
            run_id=run_id,
            parent_run_id=manager.parent_run_id,
            name=name,
            tags=[STORE_SEARCH] if by_hand else [],
        )

    def found(result: Any) -> None:
        for recorder, run_id in run_ids.items():
            recorder.on_retriever_end(result, run_id=run_id)

    try:
        yield found
    except BaseException as error:
        for recorder, run_id in run_ids.items():
            recorder.on_retriever_error(error, run_id=run_id)
        raise


@contextmanager
def _store_search_reported(
    store: object, args: tuple[Any, ...], kwargs: dict[str, Any], *, by_hand: bool
) -> Iterator[Found]:
    """Record a search of a store, unless it is part of another search, which is recorded."""
    is_part = _is_searching.get() or _is_made_for_another()
    query = args[0] if args else kwargs.get("query")
    words = query if isinstance(query, str) else ""  # a vector has none
    before = _is_searching.set(True)
    try:
        if is_part:
            yield lambda _: None
        else:
            name = type(store).__name__
            with search_reported(name, words, by_hand=by_hand) as found:
                yield found
    finally:
        _is_searching.reset(before)


def _reported(method: Callable[..., Any], *, by_hand: bool) -> Callable[..., Any]:
    """Wrap a search of a class of stores so that each search is recorded.

    Args:
        method: The method; the wrapper is async if it is.
        by_hand: Whether the application did not name the store to us.
    """
    report = functools.partial(_store_search_reported, by_hand=by_hand)

    @functools.wraps(method)
    def search(store: object, /, *args: Any, **kwargs: Any) -> Any:
        with report(store, args, kwargs) as found:
            result = method(store, *args, **kwargs)
            found(result)
        return result

    @functools.wraps(method)
    async def asearch(store: object, /, *args: Any, **kwargs: Any) -> Any:
        with report(store, args, kwargs) as found:
            result = await method(store, *args, **kwargs)
            found(result)
        return result

    return asearch if inspect.iscoroutinefunction(method) else search


def add_documents(
    documents: Iterable[Document | tuple[Document, float]], *, query: str = ""
) -> None:
    """Tell ragmetrics what the current step retrieved, where LangChain does not report it.

    Searches of a store in the same step then do not count: these documents stand for
    what they found.

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
    for name in _SEARCHES:
        search = _reported(getattr(type(vectorstore), name), by_hand=False)
        object.__setattr__(vectorstore, name, MethodType(search, vectorstore))
    return vectorstore


def record_store_searches() -> None:
    """Record searches from now on, in all classes of stores that are loaded.

    The store is called as the application calls it, and what it returns is handed on.
    Example: ``Chroma.similarity_search`` is replaced by a method that records the search
    and calls it, until ``STORE_METHODS.restore()`` is called.
    """
    classes: list[type] = VectorStore.__subclasses__()
    for store in classes:  # the list grows while the loop runs
        classes += store.__subclasses__()
        for name in _SEARCHES:
            report = functools.partial(_reported, by_hand=True)
            STORE_METHODS.replace(store, name, report)


def _is_made_for_another() -> bool:
    """Whether a retriever, or what looks up examples, calls this or awaits it."""
    frames = walk_stack(inspect.currentframe())
    callers = (frame.f_locals.get("self") for frame, _ in frames)
    return any(isinstance(caller, _OTHER_SEARCHERS) for caller in callers)
