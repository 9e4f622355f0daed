"""The embedded judge asked directly, text by text."""

import asyncio
from types import SimpleNamespace
from typing import Any

from judge_replies import of, shown

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Question,
    RetrievalAccuracy,
)
from ragmetrics_core.data.replies import Asked, NotAnswered, verdicts_of
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.metrics.context_recall import Rating

ADHERENT = of(ContextAdherence(), question="q", contexts=["c"], answer="a")
USEFUL = of(
    ContextUtilization(judging="listwise"), question="q", contexts=["c"], answer="a"
)
FACTS = of(
    RetrievalAccuracy(calls="per_context"), question="q", contexts=["c"], facts=["f"]
)
STATED = of(RetrievalAccuracy(), question="q", contexts=["c"], reference="r")
RATED = of(ContextRecall(), question="q", answer="a", reference="r")


def ask(question: Question[Any]) -> Asked[Any]:
    reply = asyncio.run(LexicalJudge().answer(question)).reply
    if isinstance(reply, NotAnswered):
        raise reply.error
    return reply


def adherent(answer: str, *contexts: str, question: str | None = None) -> Any:
    """The one poll, with its probability."""
    asked = ask(shown(ADHERENT, answer=answer, contexts=contexts, question=question))
    (poll,) = asked.replies
    return SimpleNamespace(
        **dict(poll.poll), probability=asked.weights[0].p if asked.weights else None
    )


def useful(*chunks: str, answer: str, question: str | None = None) -> tuple[Any, ...]:
    """A verdict with its probability for each chunk."""
    if not chunks:
        return ()
    asked = ask(shown(USEFUL, answer=answer, chunks=chunks, question=question))
    assert all(weight.mode == "lexical" for weight in asked.weights)
    verdicts = zip(verdicts_of(asked.reply), asked.weights, strict=True)
    return tuple(
        SimpleNamespace(**{**dict(cell), "label": "", "probability": weight.p})
        for cell, weight in verdicts
    )


def fact(text: str, context: str) -> float:
    (weight,) = ask(shown(FACTS, context=context, facts=(text,))).weights
    assert weight.mode == "lexical"
    return weight.p


def recall(answer: str, reference: str) -> Rating:
    reply = ask(shown(RATED, answer=answer, reference=reference)).reply
    assert isinstance(reply, Rating)
    return reply


def stated(text: str) -> tuple[str, ...]:
    facts: tuple[str, ...] = ask(shown(STATED, reference=text)).reply.facts
    return facts
