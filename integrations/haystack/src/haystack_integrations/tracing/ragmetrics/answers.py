"""What a run answered: answer objects, else texts in its output, by the name of their socket or their writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import AGENT, Node, Run
from haystack_integrations.tracing.ragmetrics.tree import Calls, replies

from ragmetrics_core.capturing import Answer, Message, documents_in, one_line, texts_in

_NAMED = ("replies", "reply", "answer", "answers", "response", "last_message")


def answers(calls: Calls) -> list[Answer]:
    """Answers in the run's output, else answer objects that a component swallowed; none leaves it to the rules."""
    run, left = calls.run, _outputs(calls.run)
    found = [one for place, value in left for one in _objects(calls, place, value)]
    if not found:
        emitters = sorted(run.components(), key=lambda node: -node.closed)
        emitted = (
            [one for name, value in node.sockets.items() for one in _objects(calls, f"{node.path}.{name}", value)]
            for node in emitters
        )
        found = next((some for some in emitted if some), [])
    if not found:
        found = [one for place, value in left for one in _spoken(calls, place, value)]
        found = _informed(_final(run, found))
    return _once(found)


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """All replies of the last call of a component, or of the calls inside it."""
    last = next((node for node in reversed(calls.models) if is_named(node, name) and replies(node)), None)
    if last is None:
        return []
    return [_by(calls, last, Answer(one.text, f"{last.path}.replies", model=one.model)) for one in replies(last)]


def is_named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(f".{name}.")


def _by(calls: Calls, node: Node | None, answer: Answer) -> Answer:
    """An answer with the call that wrote it, and the documents that reached that by the data flow."""
    if node is None:
        return answer
    documents, _ = calls.flow(node)
    return replace(answer, call=calls.of[node], documents=answer.documents if documents is None else documents)


def _wrote(calls: Calls, texts: tuple[str | None, ...]) -> Node | None:
    """The last call one of whose replies is one of these texts."""
    wanted = {one_line(text) for text in texts if text and text.strip()}
    ended = (node for node in reversed(calls.models) if node.output is not None)
    return next((node for node in ended if any(one_line(said.text) in wanted for said in replies(node))), None)


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """What the user got, by place; of an agent its last message alone."""
    parts = {"": run.output} if run.root.operation == AGENT else run.output
    found = []
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            if "last_message" not in sockets or name == "last_message":
                found.append((f"{component}.{name}" if component else name, value))
    return found


def _objects(calls: Calls, place: str, value: object) -> list[Answer]:
    """One answer per generated answer; of extracted ones the best."""
    made = list(_answers_in(value))
    cut = [one for one in made if one.extracted]
    best = next((one for one in cut if one.text), cut[0] if cut else None)
    chosen = [replace(one, place=place) for one in made if not one.extracted or one is best]
    read = _component(calls.run, place) if best is not None else None
    given, _ = calls.flow(read) if read is not None else (None, "")
    return [
        replace(one, documents=given or one.documents)
        if one.extracted
        else _by(calls, _wrote(calls, (one.text, *one.replies)), one)
        for one in chosen
    ]


def _answers_in(value: object) -> Iterator[Answer]:
    if isinstance(value, Answer):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        yield from _answers_in(item)


def _spoken(calls: Calls, place: str, value: object) -> Iterator[Answer]:
    """Texts of a socket named for answers, and texts that a model wrote; of a conversation the last."""
    said = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Message)]
    spoken = [one for one in said if one.role in ("assistant", "tool") and one.text.strip()]
    if len(spoken) < len(said):
        spoken = spoken[-1:]
    named = place.rpartition(".")[2] in _NAMED
    for text in [one.text for one in spoken] if said else list(texts_in(value)):
        node = _wrote(calls, (text,))
        if text.strip() and (named or said or node is not None):
            model = next((one.model for one in replies(node) if one.model), None) if node is not None else None
            given, _ = calls.flow(own) if (own := _component(calls.run, place)) and node is None else (None, "")
            yield _by(calls, node, Answer(text, place, model=model, documents=given))


def _component(run: Run, place: str) -> Node | None:
    """The last visit of the component of a place."""
    path = place.rpartition(".")[0]
    return next((node for node in reversed(list(run.components())) if node.path == path), None)


def _final(run: Run, found: list[Answer]) -> list[Answer]:
    """Of answers at several places those that no component took; of these, such as come from ends of the pipeline."""
    for feeds in (_taken, _feeds_others):
        found = [one for one in found if not feeds(run, one.place)] or found
    return found


def _taken(run: Run, place: str) -> bool:
    node = _component(run, place)
    spec = node.tags.get("haystack.component.output_spec", {}) if node is not None else {}
    return bool((spec.get(place.rpartition(".")[2]) or {}).get("receivers"))


def _feeds_others(run: Run, place: str) -> bool:
    node = _component(run, place)
    spec = node.tags.get("haystack.component.output_spec", {}) if node is not None else {}
    return any(socket.get("receivers") for socket in spec.values())


def _informed(found: list[Answer]) -> list[Answer]:
    """Of several components that left answers, those whose call had documents."""
    if len({one.place for one in found}) < 2:
        return found
    return [one for one in found if one.documents] or found


def _once(found: list[Answer]) -> list[Answer]:
    """Without answers that a second component passed on; equal answers of one component stay."""
    kept: list[Answer] = []
    for one in found:
        known = [other for other in kept if (other.text, other.question) == (one.text, one.question)]
        if not any(other.place != one.place for other in known):
            kept.append(one)
    return kept


def documents_left(run: Run) -> list[tuple[str, Any]]:
    """Lists of documents in a run's output, by place."""
    return [(place, some) for place, value in _outputs(run) if (some := tuple(documents_in(value)))]
