"""What is replaced or looked at outside of the framework's hooks, each with its case and its way back.

- The constructor of ``VectorStoreQueryResult``: an application searches a vector store by
  itself, of which no span tells. It is put back when the last listener leaves.
- ``apostprocess_nodes``: a reranker's own async code, of which no span tells either, calls
  a model. It is put back likewise.
- The streams of a response: no hook tells when an application has read a streamed answer,
  or left it. The answer is copied while the application reads it, never in its place. Each
  replacement belongs to one response and goes with it.
- The callers of a method: a memory or an evaluator calls a model, and no span tells that.
  Nothing is changed.
"""

import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from traceback import walk_stack
from types import AsyncGeneratorType, FrameType, GeneratorType
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.evaluation.retrieval.base import BaseRetrievalEvaluator
from llama_index.core.indices.base import BaseIndex
from llama_index.core.memory import BaseMemory
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.objects import ObjectRetriever
from llama_index.core.objects.tool_node_mapping import (
    BaseQueryToolNodeMapping,
    BaseToolNodeMapping,
)
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.evaluation.ragmetrics.recording.run import call_when_gone

from ragmetrics_core.capture import ReplacedMethods

# what is replaced while somebody listens
REPLACED_METHODS = ReplacedMethods()
# Called with what was read, and what broke it off; only the first call has an effect.
OnEnd = Callable[[str, BaseException | None], None]
# a context around the fetching of each piece: a model may be called only then
WhileFetching = Callable[[], AbstractContextManager[object]]
_END = object()  # stands behind the last piece of a stream

# what prepares, checks or remembers: building an index, judging, finding tools, a memory
_ASIDE: tuple[tuple[type, str], ...] = (
    (BaseIndex, "build_index_from_nodes insert_nodes"),
    (BaseEvaluator, "evaluate aevaluate evaluate_response aevaluate_response"),
    (BaseRetrievalEvaluator, "evaluate aevaluate"),
    (ObjectRetriever, "retrieve aretrieve"),
    (BaseMemory, "get aget put aput"),
    (BaseMemoryBlock, "aget aput atruncate"),
)
_NAMES_ASIDE = frozenset(name for _, names in _ASIDE for name in names.split())


def tell_searches(on_search: Callable[[VectorStoreQueryResult], object]) -> None:
    """Have it told when a vector store was searched, of which no span tells.

    All stores make one class of result: its constructor tells of each search, until
    ``REPLACED_METHODS.restore()`` is called.

    Args:
        on_search: Called with each result of a vector store.
    """

    def telling(make_result: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(make_result)
        def tell(result: VectorStoreQueryResult, *args: Any, **kw: Any) -> None:
            make_result(result, *args, **kw)
            on_search(result)

        return tell

    REPLACED_METHODS.replace(VectorStoreQueryResult, "__init__", telling)


def tell_async_rerankings(rerank: Callable[..., Awaitable[object]]) -> None:
    """Have postprocessors called through a function of ours where they run async.

    Example: the framework makes a span of ``LLMRerank.postprocess_nodes``, and none of
    ``apostprocess_nodes``, until ``REPLACED_METHODS.restore()`` is called.

    Args:
        rerank: Called with the method, the postprocessor, and what the method was given.
    """
    for owner in (BaseNodePostprocessor, RankGPTRerank):

        def telling(method: Callable[..., object]) -> Callable[..., object]:
            @functools.wraps(method)
            async def tell(*args: Any, **kw: Any) -> object:
                return await rerank(method, *args, **kw)

            return tell

        REPLACED_METHODS.replace(owner, "apostprocess_nodes", telling)


def wrap_stream(
    response: object, on_end: OnEnd, while_fetching: WhileFetching = nullcontext
) -> None:
    """Replace the stream of a response by a stream that reports how its reading ended.

    A generator that is dropped before its first piece runs none of its code: ``on_end``
    is called when the replacement is gone.

    Args:
        response: The response.
        on_end: Called with the text read, and with the error that ended the reading. It
            may be called again, and then does nothing.
        while_fetching: Makes the context in which each piece is fetched.
    """
    for name in ("response_gen", "chat_stream", "achat_stream"):
        stream = vars(response).get(name)
        if stream is None:
            continue
        replacement: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
        if isinstance(stream, GeneratorType):
            replacement = _hand_on(stream, on_end, while_fetching)
        elif isinstance(stream, AsyncGeneratorType):
            replacement = _hand_on_async(stream, on_end, while_fetching)
        else:
            # A stream of another class stays, because the application may use what a
            # wrapper lacks. It counts as a stream that was never read.
            on_end("", GeneratorExit())
            continue
        call_when_gone(replacement, on_end, "", GeneratorExit())
        setattr(response, name, replacement)


def _hand_on(
    pieces: Generator[Any, Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> Generator[Any, Any, Any]:
    """Hand on the pieces of a streamed answer, and tell at the end what was read.

    Example: pieces "Rome", " is", " old", and the application stops behind the second:
    ``on_end("Rome is", GeneratorExit())``.
    """
    pieces_read: list[str] = []
    try:
        while True:
            with while_fetching():
                piece = next(pieces, _END)
            if piece is _END:
                break
            pieces_read.append(_text(piece))
            yield piece
    except BaseException as error:
        pieces.close()
        on_end("".join(pieces_read), error)
        raise
    on_end("".join(pieces_read), None)


async def _hand_on_async(
    pieces: AsyncGenerator[Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> AsyncGenerator[Any, Any]:
    """Hand on the pieces of an async stream, as ``_hand_on`` does."""
    pieces_read: list[str] = []
    try:
        while True:
            try:
                with while_fetching():
                    # no anext(): with a default it fails where a tracer's wrapper has a
                    # coroutine for a method
                    piece = await pieces.__anext__()
            except StopAsyncIteration:
                break
            pieces_read.append(_text(piece))
            yield piece
    except BaseException as error:
        await pieces.aclose()
        on_end("".join(pieces_read), error)
        raise
    on_end("".join(pieces_read), None)


def _text(piece: object) -> str:
    """The text of a token, or of a chunk of a chat or a completion."""
    chunk = (
        piece.delta if isinstance(piece, (ChatResponse, CompletionResponse)) else piece
    )
    return chunk if isinstance(chunk, str) else ""


def is_called_aside() -> bool:
    """Whether a method that prepares, checks, remembers or finds tools is among the callers.

    Example: a model is called inside ``memory.get()``. Such methods answer no question.
    The innermost of them decides: a retriever of objects may search for the user, and
    then it does not matter what called it. A task that one of them starts has other
    callers: there it is not seen.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the one way to see who called, or awaits
    while frame is not None:
        name = frame.f_code.co_name
        if name in _NAMES_ASIDE:
            caller = frame.f_locals.get("self")
            for owner, names in _ASIDE:
                if isinstance(caller, owner) and name in names.split():
                    if isinstance(caller, ObjectRetriever):
                        return _finds_no_evidence(caller, frame)
                    return True
        frame = frame.f_back
    return False


def _finds_no_evidence(retriever: ObjectRetriever[Any], frame: FrameType) -> bool:
    """Whether a retriever of objects finds tools, or works for another retriever.

    One that writes SQL lets it find the tables, and searches by itself then.
    """
    mapping = retriever.object_node_mapping
    callers = (caller.f_locals.get("self") for caller, _ in walk_stack(frame.f_back))
    if any(isinstance(caller, BaseRetriever) for caller in callers):
        return True
    return isinstance(mapping, (BaseToolNodeMapping, BaseQueryToolNodeMapping))
