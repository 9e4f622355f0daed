"""Stage 4: the ledger of one answer. Pure.

The ledger lists each call that returned evidence, in the order of the model's own
calls: what was asked, what came back, and what of it the answer was shown.
"""

from ragmetrics_core.capture.call_results import CallResult
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.ledger_entries import LedgerEntry
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data import EvidenceCall, Ledger


def ledger(turn: Turn, answer_evidence: AnswerEvidence) -> Ledger:
    """Return the calls of earlier turns and of this one, as this answer was shown them.

    Args:
        turn: The question, and the calls that were made for it.
        answer_evidence: What the answer could rest on.
    """
    tree = turn.tree
    turn_number = tree.turn_number
    if not turn_number:
        user_messages = [said for said in tree.history if said.role == "user"]
        turn_number = 1 + len(user_messages)
    own_calls = (
        _evidence_call(turn, entry, answer_evidence.order, turn_number)
        for entry in answer_evidence.ledger_entries
    )
    return Ledger(
        conversation=tree.conversation_id,
        turn=turn_number,
        calls=(*answer_evidence.earlier_calls, *own_calls),
    )


def _evidence_call(
    turn: Turn, entry: LedgerEntry, order: CallOrder, turn_number: int
) -> EvidenceCall:
    """Make the ledger's public record of one entry.

    ``order`` tells the step and the agent of a call, and ``turn_number`` counts the
    turns of a conversation from 1.
    """
    result = entry.result
    node = result.call
    return EvidenceCall(
        kind=result.kind,
        turn=turn_number,
        step=order.step_of(node),
        name=_name_of_tool(node, turn),
        query=_query_answered_by(result),
        items=entry.items,
        shown=entry.shown,
        agent=order.agent_of(node),
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
