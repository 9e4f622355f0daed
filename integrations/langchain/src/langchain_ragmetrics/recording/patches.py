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
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType, FunctionType, MethodType
from typing import Any
from uuid import uuid4

from langchain_core.caches import BaseCache
from langchain_core.callbacks import CallbackManager
from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import ensure_config
from langchain_core.vectorstores import VectorStore

from langchain_ragmetrics.recording.calls import STORE_SEARCH
from langchain_ragmetrics.recording.recorder import Recorder

# "similarity_search", "asimilarity_search_with_score" and the like
_SEARCHES = frozenset(
    name for name in vars(VectorStore) if "search" in name and name[0] != "_"
)
# Retrievers, which LangChain reports, and what looks up examples or stored replies,
# which are no evidence.
_OTHER_SEARCHERS = (BaseRetriever, BaseExampleSelector, BaseCache)

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


def record_searches_of(store: VectorStore) -> None:
    """Replace the searches of one store, which the application named to us."""
    for name in _SEARCHES:
        search = _reported(getattr(type(store), name), by_hand=False)
        object.__setattr__(store, name, MethodType(search, store))


class StoreSearches:
    """Records each search of a vector store that no retriever makes, while somebody listens.

    The store is called as the application calls it, and what it returns is handed on.
    """

    def __init__(self) -> None:
        # by class and name of a method: the one that was there, and ours around it
        self._wrapped: dict[tuple[type, str], tuple[Any, Any]] = {}

    def begin(self) -> None:
        """Record searches from now on, in all classes of stores that are loaded.

        Example: ``Chroma.similarity_search`` is replaced by a method that records the
        search and calls it.
        """
        for store in _classes_below(VectorStore):
            for name in _SEARCHES & vars(store).keys():
                method = vars(store)[name]
                if (store, name) in self._wrapped or type(method) is not FunctionType:
                    continue
                wrapper = _reported(method, by_hand=True)
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


def _is_made_for_another() -> bool:
    """Whether a retriever, or what looks up examples, calls this or awaits it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the one way to see who called, or awaits
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), _OTHER_SEARCHERS):
            return True
        frame = frame.f_back
    return False
