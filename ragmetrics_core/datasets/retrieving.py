"""Retrievers for data sets: the embedded BM25, or any callable around a retriever of the user's own."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.data.cells import context
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.extras import extra, own
from ragmetrics_core.data.sample import Context
from ragmetrics_core.lexical.text import content

Retriever = Callable[[str, int], Iterable[Any]]
"""From a question and the number wanted to documents in the order of their rank: texts, ``Context``, mappings, or
document objects of LangChain, LlamaIndex and Haystack."""


class BM25:
    """Ranks the chunks of a corpus by BM25 over their content words; ``MissingDependency`` without bm25s.

    Source:
        bm25s (Lù 2024, arXiv 2407.03618), method "lucene", k1 = 1.5, b = 0.75. Equal scores keep the corpus' order.
    """

    def __init__(self, chunks: Sequence[Context]) -> None:
        bm25s = extra("bm25s", "datasets", "BM25")
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it reports each index otherwise
        self._chunks = chunks
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        tokens = [list(content(chunk.text)) for chunk in chunks]
        self._known = {token for own in tokens for token in own}
        if self._known:
            self._index.index(tokens, show_progress=False)

    def __call__(self, question: str, count: int) -> list[Context]:
        """The best chunks for a question, with their scores."""
        asked = [token for token in content(question) if token in self._known]
        scores = self._index.get_scores(asked).tolist() if asked else [0.0] * len(self._chunks)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[:count]
        return [self._chunks[index].model_copy(update={"score": round(scores[index], 6)}) for index in order]


def retrieved(retriever: Retriever, question: str, count: int, number: int) -> list[Context]:
    """The contexts that a retriever returns for the question of this number; ``InputError`` if one has no text."""
    found = []
    for rank, item in enumerate(retriever(question, count), start=1):
        data = item
        if isinstance(item, BaseModel) and not isinstance(item, Context):  # of LangChain or LlamaIndex
            data = item.model_dump()
        elif is_dataclass(item):  # of Haystack
            data = vars(item)
        try:
            made = context(data, f"what the retriever returned for question {number}", rank)
        except RowError as error:
            raise InputError(str(error)) from None
        found.append(made if isinstance(made, Context) else Context(**made))
    return found[:count]


def named_retriever(place: str) -> Retriever:
    """Import ``module:name``, a callable that gets a question and a number; ``SettingError`` if it is none."""
    retriever: Retriever = own(place)
    if not callable(retriever):
        raise SettingError(f"a retriever is given as module:name of a callable(question, number); got {place!r}")
    return retriever
