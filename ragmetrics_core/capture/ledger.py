"""Stage 4: the ledger of one answer. Pure.

The ledger lists each call that returned evidence, in the order of the model's own
calls: what was asked, what came back, and what of it the answer was shown.
"""

from collections.abc import Sequence

from ragmetrics_core.capture.call_results import CallResult
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.ledger_entries import LedgerEntry
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data import Context, EvidenceCall, Ledger


def ledger(
    turn: Turn, answer_evidence: AnswerEvidence, call_of_answer: Node | None
) -> Ledger:
    """List the searches and tool calls of a conversation up to this answer.

    Each call has the items that it returned, and the indexes of the items that the
    model was shown for this answer. Documents that the application itself put into the
    request become one call more, of the kind "given".

    Example: in turn 1 a search found A, in turn 2 another found B and C, and the prompt
    of turn 2 shows A and C: two calls, with the indexes shown (0,) and (1,).

    Args:
        turn: The question, and the calls that were made for it.
        answer_evidence: What the answer could rest on.
        call_of_answer: The call that wrote the answer; None if it is not known.
    """
    tree = turn.tree
    turn_number = tree.turn_number  # None if the framework does not count the turns
    if not turn_number:
        user_messages = [said for said in tree.history if said.role == "user"]
        turn_number = 1 + len(user_messages)
    # the calls of this turn, each with the step of the agent in which it was made
    own_calls = (
        _evidence_call(turn, ledger_entry, answer_evidence.call_order, turn_number)
        for ledger_entry in answer_evidence.ledger_entries
    )
    calls = [*answer_evidence.earlier_calls, *own_calls]
    documents = _documents_of_request(turn, call_of_answer, answer_evidence, calls)
    if documents:
        all_indexes = tuple(range(len(documents)))
        given = EvidenceCall(
            kind="given", turn=turn_number, items=documents, shown=all_indexes
        )
        calls.append(given)
    return Ledger(
        conversation=tree.conversation_id, turn=turn_number, calls=tuple(calls)
    )


def _documents_of_request(
    turn: Turn,
    call_of_answer: Node | None,
    answer_evidence: AnswerEvidence,
    calls: Sequence[EvidenceCall],
) -> tuple[Context, ...]:
    """Return the documents that the application itself put into the answering request.

    Left out are documents that a call found or a model wrote. () for a run without a
    search or tool: then the documents are a part of the question.

    Example: a search found A, and the application's request holds A and an uploaded
    file B: B is returned.

    Args:
        turn: The question, and the calls that were made for it.
        call_of_answer: The call that wrote the answer; None if it is not known.
        answer_evidence: What the answer could rest on.
        calls: The calls of the ledger; their items are what was found.
    """
    if not calls or call_of_answer is None:
        return ()
    known_texts = [reply.text for reply in turn.calls.replies.values()]
    known_texts += [context.text for context in answer_evidence.contexts.items]
    for call in calls:
        known_texts += [item.text for item in call.items]
    return tuple(
        document.context()
        for document in call_of_answer.documents_in_request
        if not shares_a_passage_with_any(document.text, known_texts)
    )


def _evidence_call(
    turn: Turn, ledger_entry: LedgerEntry, call_order: CallOrder, turn_number: int
) -> EvidenceCall:
    """Make the ledger's public record of one entry.

    ``call_order`` tells the step and the agent of a call, and ``turn_number`` counts
    the turns of a conversation from 1.
    """
    result = ledger_entry.result
    node = result.call
    return EvidenceCall(
        kind=result.kind,
        turn=turn_number,
        step=call_order.step_of(node),
        name=_name_of_tool(node, turn),
        query=_query_answered_by(result),
        items=ledger_entry.items,
        shown=ledger_entry.shown,
        agent=call_order.agent_of(node),
        error=result.error,
    )


def _name_of_tool(node: Node, turn: Turn) -> str | None:
    """Name the innermost tool around a call; None without one.

    What a model's provider runs itself, such as "web_search", is such a tool.
    """
    if node.by_provider:
        return node.name
    tools = tools_of(turn.calls.paths[node])
    return tools[-1].name if tools else None


def _query_answered_by(result: CallResult) -> str | None:
    """Return the query that a call's result answers.

    None for documents that were handed in, summaries that a model wrote, and what a
    reranker sorted.
    """
    if result.kind == "given" or result.call.kind in ("model", "reranker"):
        return None
    return result.call.query
