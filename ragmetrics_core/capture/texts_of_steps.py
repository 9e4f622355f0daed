"""Which steps wrote texts into the prompt of the answer that are no passages. Pure.

A step may ask a database or a service, and the prompt may show what it returned beside
the retrieved passages. Nobody looks into such a text for the facts of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ragmetrics_core.capture.calls import began_after, text_of
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import SHORTEST, share_a_passage
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.tree import Node


def steps_with_shown_texts(turn: Turn, answering_call: Node | None) -> list[str]:
    """Name the steps whose texts a call was shown, where these texts are nothing known.

    Example: the step "run_sql" returned "A cabin for two costs 96 euros.", and the
    prompt shows this beside the passages: ["run_sql"]. A text with a passage, the
    question or a model's reply in it is known, and so is a whole message of the prompt.

    Args:
        turn: The question, and the calls that were made for it.
        answering_call: The call; None if it is unknown.
    """
    if answering_call is None:
        return []
    messages = [normalize_text(message.text) for message in answering_call.prompt]
    shown_texts = [
        text
        for text in _texts_of_steps_before(answering_call, turn)
        if _is_part_of_any(text.normalized, messages)
    ]
    if not shown_texts:  # most runs
        return []
    known_texts = list(_normalized_known_texts(turn))
    names = [
        text.step_name
        for text in shown_texts
        if not any(_is_known_by(text.normalized, known) for known in known_texts)
    ]
    return list(dict.fromkeys(names))


class _TextOfStep(NamedTuple):
    """The normalized text of a text that a step returned, and the step's name."""

    step_name: str
    normalized: bytes


def _texts_of_steps_before(call: Node, turn: Turn) -> Iterator[_TextOfStep]:
    """Yield the new texts of the steps that had ended when a call began."""
    for step in turn.calls.nodes:
        if step.kind == "step" and began_after(call, step):
            for text in _own_new_texts(step):
                yield _TextOfStep(step.name, normalize_text(text))


def _own_new_texts(step: Node) -> list[str]:
    """Return the new texts of a step that no step inside it returned before.

    None of a step with other calls inside, as a retriever: what these found is known,
    and the text may only say that they found nothing.
    """
    _, *inner_calls = step.walk()
    if any(inner.kind != "step" for inner in inner_calls):
        return []
    texts_inside = {text for inner in inner_calls for text in inner.new_texts}
    return [text for text in step.new_texts if text not in texts_inside]


def _is_part_of_any(text: bytes, messages: Iterable[bytes]) -> bool:
    """Whether a text stands in a message that has other words as well."""
    return any(text in message and text != message for message in messages)


def _is_known_by(text: bytes, known: bytes) -> bool:
    """Whether a text has a known one in it, or a passage of it."""
    return known in text or share_a_passage(text, known)


def _normalized_known_texts(turn: Turn) -> Iterator[bytes]:
    """Yield the texts of a turn whose origin is known, normalized.

    These are question and history, retrieved documents, the queries of searches, and
    what models and tools said. Where a step returns such a text again, the prompt does
    not have it from that step alone. Texts so short that they stand in other texts by
    chance are left out.
    """
    texts = [*turn.texts_besides_documents]
    for documents in turn.calls.lists():
        for document in documents:
            texts += document.texts
    for node in turn.calls.nodes:
        texts += [text_of(node), node.text or "", node.query or ""]
    for earlier_call in turn.tree.earlier_calls:
        texts += [item.text for item in earlier_call.items]
    for text in dict.fromkeys(texts):
        normalized = normalize_text(text)
        if len(normalized) >= SHORTEST:
            yield normalized
