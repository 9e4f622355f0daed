"""A chain of LangChain tells the same journey however it is run: invoked, in a batch or streamed.

A stream reports the start of a step before the step in front of it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias

import pytest
from lanes import crossed
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_ragmetrics import capture
from planted_pipelines import ANSWER, PROMPT, QUESTION, Found

from ragmetrics_core import Sample

Documents: TypeAlias = list[Document]
Chain: TypeAlias = Runnable[Any, Any]
Run: TypeAlias = Callable[[Chain], object]


def keep(documents: Documents) -> Documents:
    return documents[:2]


def turn_round(documents: Documents) -> Documents:
    return documents[::-1]


def drop_all(documents: Documents) -> Documents:
    return []


def write(documents: Documents) -> str:
    return "\n\n".join(document.page_content for document in documents)


def write_in_pieces(lists: Iterator[Documents]) -> Iterator[str]:
    for documents in lists:
        for document in documents:
            yield document.page_content + "\n\n"


async def awrite_in_pieces(lists: AsyncIterator[Documents]) -> AsyncIterator[str]:
    async for documents in lists:
        for piece in write_in_pieces(iter([documents])):
            yield piece


def ask_in_pieces(questions: Iterator[str]) -> Iterator[str]:
    for question in questions:
        yield question[:9]
        yield question[9:]


async def aask_in_pieces(questions: AsyncIterator[str]) -> AsyncIterator[str]:
    async for question in questions:
        for piece in ask_in_pieces(iter([question])):
            yield piece


def search_at_once(pieces: Iterator[str]) -> Iterator[Documents]:
    """Search as soon as the first piece of the question is there."""
    for place, piece in enumerate(pieces):
        if place == 0:
            yield search(piece)


async def asearch_at_once(pieces: AsyncIterator[str]) -> AsyncIterator[Documents]:
    is_first = True
    async for piece in pieces:
        if is_first:
            yield search(piece)
        is_first = False


def search(question: str) -> Documents:
    return Found().invoke(question)


def keep_of_state(state: dict[str, Any]) -> Documents:
    return keep(state["documents"])


def write_state(state: dict[str, Any]) -> str:
    return write(state["kept"])


def has_many(documents: Documents) -> bool:
    return len(documents) > 1


def _answering() -> Chain:
    return PROMPT | FakeListChatModel(responses=[ANSWER]) | StrOutputParser()


def _chain(context: Chain) -> Chain:
    return {"context": context, "question": RunnablePassthrough()} | _answering()


def _with_sources() -> Chain:
    """Each step adds a value to the state, and streams the rest through at once."""
    return (
        RunnablePassthrough.assign(documents=itemgetter("question") | Found())
        | RunnablePassthrough.assign(kept=RunnableLambda(keep_of_state))
        | RunnablePassthrough.assign(context=RunnableLambda(write_state))
        | RunnablePassthrough.assign(answer=_answering())
    )


CHAINS: dict[str, tuple[Callable[[], Chain], str | None]] = {
    "one step": (lambda: _chain(Found() | RunnableLambda(keep) | write), "keep"),
    "two steps": (
        lambda: _chain(
            Found() | RunnableLambda(turn_round) | RunnableLambda(keep) | write
        ),
        "keep",
    ),
    "a sequence in a sequence": (
        lambda: _chain(
            RunnableLambda(search)
            | (RunnableLambda(turn_round) | RunnableLambda(keep)).with_config(
                run_name="rerank"
            )
            | (RunnableLambda(turn_round) | RunnableLambda(write))
        ),
        "keep",
    ),
    "nothing kept": (
        lambda: _chain(Found() | RunnableLambda(drop_all) | write),
        "drop_all",
    ),
    "a branch": (
        lambda: _chain(
            Found() | RunnableBranch((has_many, RunnableLambda(keep)), drop_all) | write
        ),
        "keep",
    ),
    "written in pieces": (
        lambda: _chain(
            Found()
            | RunnableLambda(keep)
            | RunnableGenerator(write_in_pieces, awrite_in_pieces)
        ),
        "keep",
    ),
    "a search for the first piece of the question": (
        lambda: _chain(
            RunnableGenerator(ask_in_pieces, aask_in_pieces)
            | RunnableGenerator(search_at_once, asearch_at_once)
            | RunnableLambda(keep)
            | write
        ),
        "keep",
    ),
    "the sources beside the answer": (
        lambda: (
            RunnableLambda(lambda question: {"question": question}) | _with_sources()
        ),
        None,
    ),
}


async def _pieces(chain: Chain) -> list[Any]:
    return [piece async for piece in chain.astream(QUESTION)]


async def _events(chain: Chain) -> list[Any]:
    return [event async for event in chain.astream_events(QUESTION, version="v2")]


WAYS: dict[str, Run] = {
    "ainvoke": lambda chain: asyncio.run(chain.ainvoke(QUESTION)),
    "batch": lambda chain: chain.batch([QUESTION]),
    "stream": lambda chain: list(chain.stream(QUESTION)),
    "astream": lambda chain: asyncio.run(_pieces(chain)),
    "astream_events": lambda chain: asyncio.run(_events(chain)),
}


def _sample_of(chain: Chain, run: Run) -> Sample:
    with capture() as captured:
        run(chain)
    (sample,) = captured.samples
    return sample


def _told(sample: Sample) -> list[object]:
    """What a sample tells of its passages, contexts and answer."""
    return [
        sample.question,
        sample.answer,
        sample.retrieved,
        sample.contexts,
        sample.capture.passages,
        sample.capture.grade,
        sample.capture.warnings,
        sample.capture.unread_texts,
    ]


@pytest.mark.parametrize(("shape", "way"), crossed([*CHAINS], [*WAYS]))
def test_every_way_to_run_a_chain_tells_the_same_journey(shape, way):
    make_chain, step = CHAINS[shape]
    invoked = _sample_of(make_chain(), lambda chain: chain.invoke(QUESTION))
    dropped_by = {note.dropped_by for note in invoked.capture.passages or ()}
    assert step in dropped_by
    assert _told(_sample_of(make_chain(), WAYS[way])) == _told(invoked)


def test_a_stream_that_is_left_early_names_the_step_as_well():
    """The application takes the first piece, and closes the stream."""

    def take_one(chain: Chain) -> None:
        next(iter(chain.stream(QUESTION)))

    sample = _sample_of(_chain(Found() | RunnableLambda(keep) | write), take_one)
    assert [note.dropped_by for note in sample.capture.passages] == [None, None, "keep"]
