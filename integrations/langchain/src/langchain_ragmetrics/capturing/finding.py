"""What a user may say about where question, contexts and answer of a run are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing import rules
from langchain_ragmetrics.capturing.documents import Retrieval, retrievals
from ragmetrics_core.capturing import Overrides
from ragmetrics_core.capturing.overrides import Source
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample


class FindingOptions(TypedDict, total=False):
    """Arguments that say where things are, from small to large."""

    question_from: Source | None
    contexts_from: Source | None
    answer_from: Source | None
    include: Callable[[Any], bool] | None
    context_tools: Collection[str]
    retrievers: Collection[str]
    carry_over: bool
    build: Callable[[Any], Iterable[Sample]] | None


@dataclass(frozen=True)
class Finding:
    """Where question, contexts and answer of a run are; by default the rules find them.

    Args:
        question_from: A key or path into the root's inputs or outputs, or a callable that gets the root.
        contexts_from: The same for the contexts.
        answer_from: The same for the answer.
        include: Which roots are samples at all; gets the root.
        context_tools: Names of tools whose text counts as a context.
        retrievers: Names of the retrievers that count; empty = the outermost ones, whatever their name.
        carry_over: A turn of a conversation without own retrieval takes the documents of the turn before.
        build: A callable from the root to its samples, instead of all rules.

    Raises:
        SettingError: If names are given as one text.
    """

    question_from: Source | None = None
    contexts_from: Source | None = None
    answer_from: Source | None = None
    include: Callable[[Any], bool] | None = None
    context_tools: Collection[str] = ()
    retrievers: Collection[str] = ()
    carry_over: bool = False
    build: Callable[[Any], Iterable[Sample]] | None = None

    def __post_init__(self) -> None:
        for name in ("context_tools", "retrievers"):
            if isinstance(getattr(self, name), str):
                raise SettingError(f"{name} must be a set of names, got one text; write {{{getattr(self, name)!r}}}")

    @property
    def overrides(self) -> Overrides:
        """The part that all adapters share."""
        return Overrides(self.question_from, self.contexts_from, self.answer_from, self.build)

    def retrieved_in(self, run: RunBase) -> list[Retrieval]:
        """Retrievals of one root."""
        return list(retrievals(run, self.retrievers, self.context_tools))

    def has_retrieval(self, run: RunBase) -> bool:
        """Whether a root retrieved anything, or tried to."""
        return rules.has_retrieval(run, self.retrievers, self.context_tools)
