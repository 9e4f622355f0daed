"""The states of typed questions: the texts of a question, by name.

Metrics that show the same texts make equal states, so that their questions can share a
request. Texts of a group are in an order that does not depend on their rank.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from ragmetrics_core.data import Part, Question
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.data.typed import NOTE


def order_of_digest(question: str | None, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct texts in an order independent of rank.

    So a judge that favours places cannot favour early ranks.

    Args:
        question: The question of the sample, so that no text always comes first.
        texts: The texts.
    """

    def digest(text: str) -> bytes:
        return sha256(f"{question}\0{text}".encode()).digest()

    return tuple(sorted(dict.fromkeys(texts), key=digest))


def opening(question: Question[Any]) -> dict[str, Any]:
    """Return how a state begins: with a note, and the user's question.

    A state is what a judge is shown: ``{"note": "…", "question": "How old is it?"}``.
    ``question`` is the question to the judge; its part "question" holds the user's.
    """
    state: dict[str, Any] = {"note": NOTE}
    part = question.parts.get("question")
    if part is None or part.text is None:
        return state
    state["question"] = part.text
    # "How old is the tower?" for the user's "How old is it?"
    if part.rewrite and part.rewrite != part.text:
        state["standalone_question"] = part.rewrite
    if part.history:
        state["earlier_turns"] = [
            f"{turn.role}: {turn.content}" for turn in part.history
        ]
    return state


def chunks(question: Question[Any], texts: Sequence[str]) -> dict[str, str]:
    """Chunks by neutral letters, in an order independent of rank."""
    question_part = question.parts.get("question")
    ordered = order_of_digest(_single_text(question_part), texts)
    labels = Part("Chunk", ordered, "letters").labels
    return dict(zip(labels, ordered, strict=True))


def _single_text(part: Part | None) -> str | None:
    """Return the text of a part that holds one; None for a group of texts, or none."""
    return part.text if part is not None and isinstance(part.text, str) else None


def sentences(answer: str) -> dict[str, str]:
    """Return the sentences of an answer by label: S1, S2, and so on."""
    return number_texts("S", split_sentences(answer))


def number_texts(letter: str, texts: Iterable[str]) -> dict[str, str]:
    """Texts by a letter with a number, from 1."""
    return {f"{letter}{number}": text for number, text in enumerate(texts, start=1)}


def state_of_answer(question: Question[Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return the state of what was asked, shown and answered.

    It is that of usefulness listwise, of adherence and of its cause.
    """
    return {
        **opening(question),
        "chunks": chunks(question, texts),
        "answer": sentences(question["answer"]),
    }
