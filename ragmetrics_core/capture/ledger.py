"""Stage 4: the ledger of one answer. Pure.

It lists each call that brought something, in the order of the model's own calls.
"""

from ragmetrics_core.capture.brought import LedgerEntry
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.data import EvidenceCall, Ledger


def ledger(turn: Turn, answer_evidence: AnswerEvidence) -> Ledger:
    """Return the calls of earlier turns and of this one, as this answer was shown them.

    Args:
        turn: The turn.
        answer_evidence: What the answer could rest on.
    """
    tree = turn.tree
    number = tree.turn_number or 1 + sum(said.role == "user" for said in tree.history)
    own = (
        _call(turn, brought, answer_evidence.order, number)
        for brought in answer_evidence.ledger_entries
    )
    return Ledger(
        conversation=tree.conversation_id,
        turn=number,
        calls=(*answer_evidence.earlier_calls, *own),
    )


def _call(
    turn: Turn, brought: LedgerEntry, order: CallOrder, number: int
) -> EvidenceCall:
    """The ledger's entry for one arrival of this turn.

    Its name is that of the innermost tool, or of the provider's own search; None
    without one.

    Args:
        turn: The turn.
        brought: What arrived, and what of it was shown.
        order: The order of the turn's calls, which tells step and agent.
        number: The number of the turn.
    """
    arrival = brought.arrival
    node = arrival.node
    tools = tools_of(turn.calls.paths[node])
    name = tools[-1].name if tools else None
    # what a reranker was asked, nobody searched for
    asks_nothing = arrival.kind == "given" or node.kind in ("model", "reranker")
    return EvidenceCall(
        kind=arrival.kind,
        turn=number,
        step=order.step_of(node),
        name=node.name if node.by_provider else name,
        query=None if asks_nothing else node.query,
        items=brought.items,
        shown=brought.shown,
        agent=order.agent_of(node),
        error=arrival.error,
    )
