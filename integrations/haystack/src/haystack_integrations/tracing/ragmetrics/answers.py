"""What a run answered: answer objects, else replies in its output, else those of its last call. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics import evidence as contexts
from haystack_integrations.tracing.ragmetrics import reading, rules
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, Doc, Message, Node, Run, strings


@dataclass(frozen=True)
class Found:
    """An answer of a run.

    Args:
        text: The answer.
        place: ``component.socket`` that it was found at.
        query: The question that it carries.
        replies: The replies that it was built from.
        documents: The documents that it carries.
        extracted: True if it was cut out of a document.
        model: The model that wrote it.
        call: The call that wrote it, where that is already known.
    """

    text: str | None
    place: str
    query: str | None = None
    replies: tuple[str, ...] = ()
    documents: tuple[Doc, ...] = field(default=(), repr=False)
    extracted: bool = False
    model: str | None = None
    call: Node | None = None


def answers(run: Run, calls: list[Node], tools: Collection[str] | None = None) -> list[Found]:
    """Answers of a run: answer objects, else replies in the output, else those of the last call."""
    left_over = outputs(run)
    found = [one for place, value in left_over for one in _answer_objects(place, value)]
    if not found:
        emitter = next((node for node in by_end(run) if any(reading.answers(node.sockets))), None)
        if emitter is not None:
            found = [
                one
                for name, value in emitter.sockets.items()
                for one in _answer_objects(f"{emitter.path}.{name}", value)
            ]
    if found:
        return _deduplicated(found)
    left = [one for place, value in left_over for one in _replies(place, value, calls)]
    if left:
        return _of_those_with_documents(run, calls, _deduplicated(left), tools)
    left = last_replies(calls)
    if left and left[0].call is not None and run.complete and _only_for_retrieval(run, left[0].call):
        return []
    return left


def last_replies(calls: list[Node]) -> list[Found]:
    """Replies of the last call that gave any: nothing else passed them on."""
    last = next((call for call in reversed(calls) if rules.replies(call)), None)
    return [Found(text, f"{last.path}.replies", call=last) for text in rules.replies(last)] if last is not None else []


def outputs(run: Run) -> list[tuple[str, Any]]:
    """What the user got, by place; without what other components took, unless that is all there is."""
    if run.root.operation == AGENT:
        return [
            (name, value)
            for name, value in run.output.items()
            if name != "messages" or "last_message" not in run.output
        ]
    nodes = {node.path: node for node in run.components()}
    taken: list[tuple[str, Any]] = []
    left: list[tuple[str, Any]] = []
    for component, sockets in run.output.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            if name == "messages" and "last_message" in sockets:
                continue
            spec = nodes[component].tags.get("haystack.component.output_spec", {}) if component in nodes else {}
            received = bool((spec.get(name) or {}).get("receivers"))
            (taken if received else left).append((f"{component}.{name}", value))
    return left if any(_speaks(value) for _, value in left) else left + taken


def _speaks(value: object) -> bool:
    return any(reading.answers(value)) or any(reading.texts(value)) or any(reading.documents(value))


def by_end(run: Run) -> list[Node]:
    """Component spans, the last one to end first."""
    return sorted(run.components(), key=lambda node: -node.closed)


def _answer_objects(place: str, value: object) -> list[Found]:
    """One answer per generated answer; of extracted ones the best."""
    made = list(reading.answers(value))
    extracted = [one for one in made if one.extracted]
    best = next((one for one in extracted if one.text), extracted[0] if extracted else None)
    chosen = [one for one in made if not one.extracted] + ([best] if best is not None else [])
    return [Found(one.text, place, one.query, one.replies, one.documents, one.extracted, one.model) for one in chosen]


def _replies(place: str, value: object, calls: list[Node]) -> list[Found]:
    """Replies of models in a value: messages of the assistant, texts called replies, texts that a call wrote."""
    said = [message for message in reading.messages(value) if message.role in ("assistant", "tool")]
    if said:
        conversation = len(said) < len(list(reading.messages(value)))
        kept = said[-1:] if conversation else said
        return [Found(text, place, model=one.model) for one in kept if (text := _text_of(one))]
    named = place.rpartition(".")[2] == "replies"
    found = []
    for text in strings(value):
        wrote = [call for call in calls if any(_same(text, reply) for reply in rules.replies(call))]
        if text.strip() and (named or wrote):
            found.append(Found(text, place, call=wrote[-1] if wrote else None))
    return found


def _text_of(message: Message) -> str:
    return message.text or "\n".join(result.text for result in message.results if not result.failed)


def _same(text: str, reply: str) -> bool:
    one, two = reading.normal(text), reading.normal(reply)
    return bool(one) and (one == two or (len(one) >= 2 and one in two))


def _deduplicated(found: list[Found]) -> list[Found]:
    """Without answers that a second component passed on; equal answers of one component stay."""
    kept: list[Found] = []
    for one in found:
        known = [other for other in kept if (other.text, other.query) == (one.text, one.query)]
        if not any(other.place != one.place for other in known):
            kept.append(one)
    return kept


def _of_those_with_documents(
    run: Run, calls: list[Node], found: list[Found], tools: Collection[str] | None
) -> list[Found]:
    """Of several components that left replies, those whose call had documents."""
    if len({one.place for one in found}) < 2:
        return found
    informed = []
    for one in found:
        call, _ = call_of(calls, one)
        if call is not None and contexts.evidence(run, call, tools).docs:
            informed.append(one)
    return informed or found


def _only_for_retrieval(run: Run, call: Node) -> bool:
    """True for a call that rewrote the query of a later retriever, where the run ends with documents."""
    later = [node for node in contexts.sources(run, None) if node.opened > call.closed]
    return bool(later) and any(reading.documents(run.output))


def call_of(calls: list[Node], found: Found) -> tuple[Node | None, bool]:
    """The call that wrote an answer, and whether one of its replies holds it."""
    if found.call is not None and found.call in calls:
        return found.call, True
    return rules.call_behind(calls, found.text, found.replies)
