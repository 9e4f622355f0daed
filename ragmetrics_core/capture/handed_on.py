"""What each stage hands to the next: the turn, the answer found, the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.shown import Showing
from ragmetrics_core.capture.tree import Answer, DocumentKey, Node, Tree
from ragmetrics_core.data import Context

EvidenceFrom = Literal["prompt", "flow", "named"]


@dataclass(frozen=True, eq=False)
class Turn:
    """One turn of an application: the result of stage 1.

    Attributes:
        tree: The run. ``join_trees`` may have made it of several runs.
        calls: Its calls.
        question: What was asked; None if that was not found.
        standalone_question: The one query that models of the run wrote and a search was
            asked; None without one, and where there are several.
        named: The values that the user's places led to, by "question", "contexts" and
            "answer".
        warnings: Which of the user's places lead to nothing, in words.
        doubts: What is uncertain about the question and the history.
    """

    tree: Tree
    calls: Calls
    question: str | None
    standalone_question: str | None
    named: Mapping[str, Any]
    warnings: tuple[str, ...]
    doubts: tuple[Doubt, ...]

    @property
    def error(self) -> str | None:
        """What the run failed with; None if it did not fail."""
        return self.tree.error or self.tree.root.error

    @property
    def texts_besides_documents(self) -> tuple[str, ...]:
        """What prompts may hold besides documents: question, history, instructions."""
        texts = [self.question or ""]
        texts += [message.content for message in self.tree.history]
        texts += self.tree.instructions
        return tuple(text for text in texts if text)


@dataclass(frozen=True, eq=False)
class FoundAnswer:
    """One answer of a turn: the result of stage 2.

    Attributes:
        answer: What was said.
        writer: The call of a model that wrote it; None if none did, or none is known.
        chain: The writer, and the earlier calls that it read, in their order.
        perhaps_read: Calls with replies of a word or two that the chain may have read.
        doubts: What is uncertain about the answer and its writer.
    """

    answer: Answer
    writer: Node | None = None
    chain: tuple[Node, ...] = ()
    perhaps_read: tuple[Node, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def text(self) -> str | None:
        """The answer; None if there is none."""
        return self.answer.text

    @property
    def model(self) -> str | None:
        """The name of the model that wrote it; None if that is unknown."""
        if self.answer.model or self.writer is None:
            return self.answer.model
        return self.writer.model


@dataclass(eq=False)
class Evidence:
    """What one answer could rest on: the result of stage 3.

    Attributes:
        contexts: What reached the generator; None if that is unknown.
        evidence_from: What tells the contexts; None if nothing does.
        identities: The passages behind the contexts; None for one that the user named.
        showings: What the prompts show of each passage, by its identity.
        dropped_by: The first call that dropped a passage.
        ranks: The rank, from 1, of a passage in the last list that holds it; None where
            one of several lists may lead nowhere.
        prompts: The messages that the chain was shown; None if no call is known.
        doubts: What is uncertain.
    """

    contexts: tuple[Context, ...] | None = None
    evidence_from: EvidenceFrom | None = None
    identities: tuple[DocumentKey | None, ...] = ()
    showings: dict[DocumentKey, Showing] = field(default_factory=dict)
    dropped_by: dict[DocumentKey, Node] = field(default_factory=dict)
    ranks: dict[DocumentKey, int | None] = field(default_factory=dict)
    prompts: tuple[str, ...] | None = None
    doubts: list[Doubt] = field(default_factory=list)
