"""What a user may say about where question, contexts and answer of a run are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing import rules
from langchain_ragmetrics.capturing.documents import Retrieval, retrievals
from ragmetrics_core import Sample
from ragmetrics_core.capturing import Overrides, Source


class FindingOptions(TypedDict, total=False):
    """Arguments that say where things are; see ``capture``."""

    question_from: Source | None
    contexts_from: Source | None
    answer_from: Source | None
    context_tools: Collection[str] | None
    build: Callable[[Any], Iterable[Sample]] | None
    every_turn: bool


@dataclass(frozen=True)
class Finding(Overrides):
    """Where question, contexts and answer of a run are; by default the rules find them.

    Args:
        every_turn: A root that called a model is a sample even where nothing was retrieved.
    """

    every_turn: bool = False

    def retrieved_in(self, run: RunBase) -> list[Retrieval]:
        """Retrievals of one root."""
        return list(retrievals(run, self.context_tools or ()))

    def has_retrieval(self, run: RunBase) -> bool:
        """Whether a root retrieved anything, or tried to."""
        return rules.has_retrieval(run, self.context_tools or ())
