"""Stage 3: what an answer could rest on. Pure.

It finds the contexts, what was retrieved, and the ledger's entry for each call. Say a
run searches three passages, a reranker drops one of them, and the prompt of the
answering call shows two. Then these two are the contexts, all three were retrieved, and
the ledger has one entry, for the search, with two of its three items marked as shown.

The rules of the contexts stand in ``context_rules``. This stage and its parts
(``context_rules``, ``prompt_contents``, ``call_results``, ``origins``, ``retrieved``, ``ledger_entries``)
are the only ones that locate texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.call_results import CallResults
from ragmetrics_core.capture.context_rules import (
    AnsweredTurn,
    Contexts,
    contexts_of,
)
from ragmetrics_core.capture.ledger_entries import (
    LedgerEntry,
    ShownToAnswer,
    entry_of_named_contexts,
)
from ragmetrics_core.capture.order import CallOrder
from ragmetrics_core.capture.passage_notes import Passages
from ragmetrics_core.capture.prompt_contents import PromptContents
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.retrieved import Retrieved, retrieved_of
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

    Attributes:
        contexts: What reached the generator.
        retrieved: The retrieved documents; None if these are unknown.
        passages: What became of each of the retrieved documents.
        sources: Names of the calls that retrieved.
        contributing_calls: Earlier calls of models whose replies the answering call was
            shown, such as the partial answers of a synthesizer.
        ledger_entries: The ledger's entries for the calls of this turn, in its order.
        earlier_calls: The ledger's entries for earlier turns, each with what of it the
            prompts still show.
        call_order: The order of the turn's calls.
        unnamed_tools: Calls of tools whose text may be evidence, and is no context. The
            user has to say whether it is.
        warnings: What the user should know of all these.
    """

    contexts: Contexts
    retrieved: tuple[Document, ...] | None
    passages: Passages
    sources: tuple[str, ...]
    contributing_calls: tuple[Node, ...]
    ledger_entries: tuple[LedgerEntry, ...]
    earlier_calls: tuple[EvidenceCall, ...]
    call_order: CallOrder
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
    turn: Turn,
    found_answer: FoundAnswer,
    prompt_contents: PromptContents,
    call_results: CallResults,
) -> AnswerEvidence:
    """Find the contexts of one answer, the retrieved documents and the ledger.

    Example: a search found A, B and C; the prompt of the answer shows A and B. The
    contexts are [A, B], retrieved are [A, B, C], and the ledger has one entry: the
    search, with A and B marked as shown.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        prompt_contents: What the prompts of the turn's calls show.
        call_results: What the searches and tools of the turn returned.
    """
    answered_turn = AnsweredTurn(turn, found_answer, prompt_contents, call_results)
    contexts = contexts_of(answered_turn)
    retrieved = retrieved_of(answered_turn, contexts)
    # calls whose replies the prompt of the answer repeats: partial answers, notes
    contributing_calls = _contributing_calls(answered_turn, contexts)
    # what each search and tool returned, in this turn and in earlier turns
    entries, calls_of_earlier_turns = _ledger_entries(
        answered_turn, contexts, contributing_calls, retrieved
    )
    # The user wrote contexts_from="docs", and no framework recorded the search: the
    # ledger gets one entry, with these contexts as what the run itself found.
    if _are_named_without_search(contexts, entries):
        entries = (entry_of_named_contexts(contexts.items, turn.tree.root),)
        contexts = replace(contexts, warnings=(*contexts.warnings, _NOT_RECORDED))
    # tools that returned a text and no documents, such as "1. It is old. 2. It fell."
    tools = tools_of_text(contexts, entries, turn.calls)
    is_tool_text_the_only_evidence = bool(tools.with_text) and not contexts.items
    if is_tool_text_the_only_evidence:
        # there is evidence, and nobody divided it into contexts
        contexts = replace(contexts, evidence_from="undivided")
    return AnswerEvidence(
        contexts=contexts,
        retrieved=retrieved.documents,
        passages=retrieved.passages,
        sources=retrieved.sources,
        contributing_calls=contributing_calls,
        ledger_entries=entries,
        earlier_calls=calls_of_earlier_turns,
        call_order=call_results.call_order,  # which call came before which
        unnamed_tools=tools.unnamed,  # the user has to say whether they give contexts
        warnings=(*contexts.warnings, *retrieved.warnings, *tools.warnings),
    )


def _are_named_without_search(
    contexts: Contexts, entries: Sequence[LedgerEntry]
) -> bool:
    """Whether ``contexts_from=`` names contexts, and no recorded call found anything."""
    return contexts.evidence_from == "named" and bool(contexts.items) and not entries


def _ledger_entries(
    answered_turn: AnsweredTurn,
    contexts: Contexts,
    contributing_calls: Sequence[Node],
    retrieved: Retrieved,
) -> tuple[tuple[LedgerEntry, ...], tuple[EvidenceCall, ...]]:
    """List what each search and tool returned, and which items the model saw.

    Example: a search returned A, B and C, and the prompt of the answer shows A and B:
    the entry of the search has the items A, B, C, and 0 and 1 as the indexes shown.

    Args:
        answered_turn: The turn, its answer, and what its calls showed and returned.
        contexts: The contexts of the sample.
        contributing_calls: Earlier calls of models whose replies the answering call was
            shown: what their prompts show counts as shown, too.
        retrieved: The documents retrieved for the answer.

    Returns:
        The entries for the calls of this turn. Then the calls of earlier turns, each
        with the items that the prompt of this turn still shows.
    """
    turn = answered_turn.turn
    earlier_calls = turn.tree.earlier_calls
    results = answered_turn.call_results.results_for_ledger(
        answered_turn.found_answer.text, earlier_calls, retrieved.by_step
    )
    prompts = _messages_shown(
        answered_turn.found_answer.writing_call, contributing_calls
    )
    # are_forgotten: the template, "Answer: {question}", left the documents out. They are
    # contexts of the sample, with a warning, but none of them was shown.
    contexts_shown = {} if contexts.are_forgotten else contexts.by_document_key
    shown_to_answer = ShownToAnswer(
        contexts_shown, prompts, turn.texts_besides_documents
    )
    return shown_to_answer.all_entries_as_shown(results, earlier_calls)


def _contributing_calls(
    answered_turn: AnsweredTurn, contexts: Contexts
) -> tuple[Node, ...]:
    """List the earlier calls of models whose replies the answering call was shown.

    Empty where it is unknown what the call was shown.
    """
    shown_to_call = answered_turn.shown_unless_named(contexts)
    if shown_to_call is None:
        return ()
    answering_call = answered_turn.found_answer.writing_call
    return tuple(call for call in shown_to_call.calls if call is not answering_call)


def _messages_shown(
    call: Node | None, contributing_calls: Sequence[Node]
) -> list[str] | None:
    """List the messages that the answering call and the contributing calls were shown.

    None if the answering call is unknown.
    """
    if call is None:
        return None
    message_texts: list[str] = []
    for reader in (*contributing_calls, call):
        message_texts += [message.text for message in reader.prompt]
    return message_texts
