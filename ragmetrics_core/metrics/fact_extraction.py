"""Which facts does a text state? The question that retrieval accuracy and claim by claim adherence begin with."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from pydantic import BeforeValidator

from ragmetrics_core.data.frozen import Silent
from ragmetrics_core.data.questions import Comment, Instructions, Part, Question


def distinct(texts: object) -> object:
    """Texts that are not blank, each once, whatever their case and spacing; anything else as it is."""
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return texts
    found: dict[str, str] = {}
    for text in filter(str.strip, texts):
        found.setdefault(" ".join(text.split()).casefold(), text.strip())
    return tuple(found.values())


class Facts(Silent, extra="ignore"):
    """The distinct facts that a text states."""

    facts: Annotated[tuple[str, ...], BeforeValidator(distinct)]


class ReasonedFacts(Silent, extra="ignore"):
    """The same after a chain of thought."""

    reason: Comment = ""
    facts: Annotated[tuple[str, ...], BeforeValidator(distinct)]


class ExtractFacts(Question[Any]):
    """Which distinct facts does this text state? Parts: question, reference. Replies have ``facts``."""


def extraction(
    text: str, instructions: Instructions, question: dict[str, Part], *, reasoning: bool = False
) -> ExtractFacts:
    """The question for the facts of a text.

    Args:
        text: The golden response, or the answer whose claims are wanted.
        instructions: The prompt.
        question: The part with the user's question.
        reasoning: Chain of thought before the list ("cot") instead of directly ("io").
    """
    return ExtractFacts(
        parts={**question, "reference": Part("Reference answer", text)},
        instructions=instructions,
        Reply=ReasonedFacts if reasoning else Facts,
        example=_examples,
    )


def _examples(question: ExtractFacts) -> tuple[Facts, Facts]:
    """One fact per sentence, and three."""
    text = question["reference"]
    own = sha256(text.encode(errors="replace")).hexdigest()[:32]  # as long as facts often are
    sentences = max(1, sum(text.count(end) for end in ".!?。"))
    short, long = (Facts(facts=tuple(f"{number} {own}" for number in range(sentences * each))) for each in (1, 3))
    return short, long
