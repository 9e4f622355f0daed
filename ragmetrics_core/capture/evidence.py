"""Stage 3: what an answer could rest on. Pure.

It finds the contexts, what was retrieved, and what each call brought. The rules of the
contexts stand in ``context_rules``. This stage and its parts (``context_rules``,
``showings``, ``arrivals``, ``origins``, ``retrieved``, ``brought``) are the only ones
that locate texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.arrivals import Arrivals
from ragmetrics_core.capture.brought import LedgerEntry, ShownToAnswer, arrival_of_named
from ragmetrics_core.capture.context_rules import (
    Contexts,
    ContextSearch,
    contexts_of,
)
from ragmetrics_core.capture.order import CallOrder
from ragmetrics_core.capture.passage_notes import Passages
from ragmetrics_core.capture.prompt_contents import PromptContents, ShownToCall
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.retrieved import retrieved_of
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.capture.unnamed_tools import tools_of_text
from ragmetrics_core.data import EvidenceCall, Grade

_NOT_RECORDED = (
    "no search was recorded: the contexts that contexts_from= names are listed as what"
    " arrived, and what was retrieved beside them is not known"
)


@dataclass(frozen=True, eq=False)
class AnswerEvidence:
    """What one answer could rest on: the result of stage 3.

    A call **feeds** the answering call if that read its reply.

    Attributes:
        contexts: What reached the generator.
        retrieved: What was retrieved; None if that is unknown.
        passages: What became of each of the retrieved documents.
        sources: Names of the calls that retrieved.
        feeding: Calls of models whose replies the answering call read.
        brought: What each call brought, in the order of the ledger.
        earlier: The ledger's calls of earlier turns, with what of them is still shown.
        order: The order of the turn's calls.
        unnamed_tools: Tools whose text may be evidence, and is no context.
        warnings: What the user should know of all these.
    """

    contexts: Contexts
    retrieved: tuple[Document, ...] | None
    passages: Passages
    sources: tuple[str, ...]
    feeding: tuple[Node, ...]
    brought: tuple[LedgerEntry, ...]
    earlier: tuple[EvidenceCall, ...]
    order: CallOrder
    unnamed_tools: tuple[Node, ...]
    warnings: tuple[str, ...]

    @property
    def grade(self) -> Grade:
        """The best grade of a sample that rests on it; ``warnings`` say why."""
        grades = self.contexts.grades
        if "inferred" in grades or self.unnamed_tools:
            return "inferred"
        return "located" if grades else "exact"


def evidence(
    turn: Turn, answered: FoundAnswer, showings: PromptContents, arrivals: Arrivals
) -> AnswerEvidence:
    """What one answer of a turn could rest on.

    Args:
        turn: The turn.
        answered: The answer, and the call that wrote it.
        showings: What the turn's calls were shown.
        arrivals: What arrived in the turn.
    """
    search = ContextSearch(turn, answered, showings, arrivals)
    contexts = contexts_of(search)
    # where the user named the contexts, prompts have no say in them
    is_named = contexts.evidence_from == "named"
    shown = None if is_named else search.shown
    feeding = _feeding(answered.writing_call, shown)
    prompts = _messages_shown(answered.writing_call, feeding)
    retrieved = retrieved_of(turn, answered, contexts, shown, arrivals)

    arrived = arrivals.arrivals_to_list(
        answered.text, turn.tree.earlier_calls, retrieved.by_step
    )
    shown_to_answer = ShownToAnswer(
        contexts.by_key, prompts, turn.texts_besides_documents
    )
    brought, earlier = shown_to_answer.calls_as_shown(arrived, turn.tree.earlier_calls)
    if is_named and contexts.items and not brought:
        brought = (arrival_of_named(contexts.items, turn.tree.root),)
        contexts = replace(contexts, warnings=(*contexts.warnings, _NOT_RECORDED))

    tools = tools_of_text(contexts, brought, turn.calls)
    if contexts.evidence_from is None and tools.with_text:
        contexts = replace(contexts, evidence_from="undivided")
    return AnswerEvidence(
        contexts=contexts,
        retrieved=retrieved.documents,
        passages=retrieved.passages,
        sources=retrieved.sources,
        feeding=feeding,
        brought=brought,
        earlier=earlier,
        order=arrivals.order,
        unnamed_tools=tools.to_name,
        warnings=(*contexts.warnings, *retrieved.warnings, *tools.warnings),
    )


def _feeding(call: Node | None, shown: ShownToCall | None) -> tuple[Node, ...]:
    """The calls whose replies the answering call read; none if no call is known."""
    if shown is None:
        return ()
    return tuple(feeder for feeder in shown.calls if feeder is not call)


def _messages_shown(call: Node | None, feeding: Sequence[Node]) -> list[str] | None:
    """The messages that an answering call, and those that feed it, were shown.

    None if no call is known.
    """
    if call is None:
        return None
    message_texts: list[str] = []
    for reader in (*feeding, call):
        message_texts += [message.text for message in reader.prompt]
    return message_texts
