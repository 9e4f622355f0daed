"""Stage 4: the ledger of one answer. Pure.

The ledger lists each call that returned evidence, in the order of the model's own
calls: what was asked, what came back, and what of it the answer was shown.
"""

from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.ledger_entries import LedgerEntry
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.question import Turn
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

    Args:
        turn: The question, and the calls that were made for it.
        entry: What a call returned, and what of it was shown.
        order: The order of the turn's calls, which tells step and agent.
        turn_number: The number of the turn in its conversation, from 1.
    """
    result = entry.result
    node = result.call
    tools = tools_of(turn.calls.paths[node])
    name: str | None = None
    if node.by_provider:
        # OpenAI's own "web_search": the model's provider ran it, so no tool of the
        # application stands around it
        name = node.name
    elif tools:
        name = tools[-1].name  # the innermost tool around the call
    query = node.query
    # Documents that were handed in, and summaries that a model wrote, answer no query.
    # A reranker has a query, but searches nothing.
    if result.kind == "given" or node.kind in ("model", "reranker"):
        query = None
    return EvidenceCall(
        kind=result.kind,
        turn=turn_number,
        step=order.step_of(node),
        name=name,
        query=query,
        items=entry.items,
        shown=entry.shown,
        agent=order.agent_of(node),
        error=result.error,
    )
