"""Searches of vector stores that the application makes without a retriever, which LangChain does not report."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType, FunctionType
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.documents import Document
from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.values import plain
from ragmetrics_core import capture

SEARCHES = (
    "search",
    "similarity_search",
    "similarity_search_with_score",
    "similarity_search_with_relevance_scores",
    "similarity_search_by_vector",
    "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)
_NAMES = frozenset((*SEARCHES, *(f"a{name}" for name in SEARCHES)))
# Methods of retrievers, which LangChain reports, and of what looks up examples or
# stored replies, which are no evidence.
_CALLERS: dict[str, type] = {
    "_get_relevant_documents": BaseRetriever,
    "_aget_relevant_documents": BaseRetriever,
    "select_examples": BaseExampleSelector,
    "aselect_examples": BaseExampleSelector,
    "lookup": BaseCache,
    "alookup": BaseCache,
}

# called with the name of a store, what was searched for, and what it returned
OnSearch = Callable[[str, str, Any], object]

# a store's own search may call another of its searches
_is_searching: ContextVar[bool] = ContextVar(
    "langchain_ragmetrics_store_is_searching", default=False
)


class StoreSearches:
    """Tells of each search of a vector store that no retriever makes, while somebody listens.

    The store is called as the application calls it, and what it returns is handed on.
    """

    def __init__(self, on_search: OnSearch) -> None:
        self._on_search = on_search  # called with each search
        # by class and name of a method: the one that was there, and ours around it
        self._wrapped: dict[tuple[type, str], tuple[Any, Any]] = {}

    def begin(self) -> None:
        """Report searches from now on, in all classes of stores that are loaded.

        Example: ``Chroma.similarity_search`` is replaced by a method that reports the
        search and calls it.
        """
        for store in _classes_below(VectorStore):
            for name in _NAMES & vars(store).keys():
                method = vars(store)[name]
                if (store, name) in self._wrapped or type(method) is not FunctionType:
                    continue
                wrapper = self._wrapper_of(method)
                # a class that cannot be changed is left alone
                with suppress(AttributeError, TypeError):
                    setattr(store, name, wrapper)
                    self._wrapped[store, name] = method, wrapper

    def end(self) -> None:
        """No longer; what others put around it meanwhile stays."""
        for (store, name), (method, wrapper) in self._wrapped.items():
            if vars(store).get(name) is wrapper:
                setattr(store, name, method)
        self._wrapped.clear()

    def _wrapper_of(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a store's search method so that what it returns is reported.

        Example: ``chroma.similarity_search("Who?")`` is reported as a search of
        "Chroma". Inside a retriever or another search it is not: the retriever or the
        outer search is reported.

        Args:
            method: The method of the store's class, sync or async.
        """

        @functools.wraps(method)
        def search(store: Any, *args: Any, **kwargs: Any) -> Any:
            if _is_searching.get() or _is_called_by_a_retriever():
                return method(store, *args, **kwargs)
            with _marked_as_search():
                result = method(store, *args, **kwargs)
            self._on_search(type(store).__name__, query_of(args, kwargs), result)
            return result

        @functools.wraps(method)
        async def asearch(store: Any, *args: Any, **kwargs: Any) -> Any:
            if _is_searching.get() or _is_called_by_a_retriever():
                return await method(store, *args, **kwargs)
            with _marked_as_search():
                result = await method(store, *args, **kwargs)
            self._on_search(type(store).__name__, query_of(args, kwargs), result)
            return result

        return asearch if inspect.iscoroutinefunction(method) else search


@contextmanager
def _marked_as_search() -> Iterator[None]:
    """Mark what runs inside as part of a search of a store."""
    token = _is_searching.set(True)
    try:
        yield
    finally:
        _is_searching.reset(token)


def _classes_below(base: type) -> Iterator[type]:
    """All classes that inherit from one, each once."""
    waiting = [base]
    classes_so_far: set[type] = set()
    while waiting:
        classes: list[type] = waiting.pop().__subclasses__()
        for below in classes:
            if below not in classes_so_far:
                classes_so_far.add(below)
                waiting.append(below)
                yield below


def _is_called_by_a_retriever() -> bool:
    """Whether a retriever, or what looks up examples, calls this or awaits it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the one way to see who called, or awaits
    while frame is not None:
        owner = _CALLERS.get(frame.f_code.co_name)
        if owner is not None and isinstance(frame.f_locals.get("self"), owner):
            return True
        frame = frame.f_back
    return False


def query_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What was searched for; empty for a vector."""
    query = args[0] if args else kwargs.get("query")
    return query if isinstance(query, str) else ""


def documents_of(result: object) -> list[Document]:
    """The documents that a search returned, with their scores where it gave them."""
    return [_document(document) for document in capture.documents_in(plain(result))]


def _document(document: capture.Document) -> Document:
    metadata = (
        {**document.metadata}
        if document.score is None
        else {**document.metadata, "relevance_score": document.score}
    )
    return Document(page_content=document.text, metadata=metadata, id=document.id)
