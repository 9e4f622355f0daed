"""What a run answered: answer objects, else texts in its output, by the name of their socket or their writer."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, replies
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_TOOL, Node, Run

from ragmetrics_core.capture import (
    Answer,
    Message,
    documents_in,
    each,
    one_line,
    texts_in,
)

_NAMED = ("replies", "reply", "answer", "answers", "response", "last_message")
_VERDICT = re.compile(
    r"(?is)\W*(yes|no|true|false|pass(ed)?|fail(ed)?|(in)?valid|(un)?(safe|grounded)|\d+)\W*|\s*{(?!.*\"answer\").*}\s*"
)
_MAY_BE_A_REMARK = (
    "the answer's call was shown another text that is an output, too: the answer may be"
    " a remark on it"
)
_ASKED = ("query", "queries", "question", "questions", "prompt")


def answers(calls: Calls) -> list[Answer]:
    """Answers in the run's output, else answer objects that a component swallowed.

    None leaves it to the rules.
    """
    left = _outputs(calls.run)
    every = [one for place, value in left for one in _spoken(calls, place, value)]
    spoken = _final(calls.run, every) or _parsed(calls, left)
    earlier = [one for one in every if _received(calls.run, one.place, whole=False)]
    said = [_doubted(_traced(calls, one), earlier) for one in spoken]
    found = [one for place, value in left for one in _objects(place, value)]
    for node in sorted(calls.run.components(), key=lambda node: -node.closed):
        made = [
            one
            for name, value in node.sockets.items()
            for one in _objects(f"{node.path}.{name}", value)
        ]
        found = found or [one for one in made if not _is_draft(node, one, said)]
    if found:
        return _once([_traced(calls, one) for one in found])
    if len({one.place for one in said}) > 1:  # those whose call had documents
        said = [one for one in said if one.documents] or said
    return _once(said)


def _parsed(calls: Calls, left: list[tuple[str, Any]]) -> list[Answer]:
    """The one text that a run gave, where it is a part of a model's reply that a component cut out."""
    texts = [(place, text) for place, value in left for text in texts_in(value)]
    if len(texts) != 1:
        return []
    ((place, text),) = texts
    part = one_line(text)
    replied = (one_line(said.text) for node in calls.models for said in replies(node))
    is_asked = place.rpartition(".")[2] in _ASKED
    is_cut = bool(part) and any(part in reply for reply in replied)
    return [Answer(text, place)] if is_cut and not is_asked else []


def _doubted(answer: Answer, earlier: list[Answer]) -> Answer:
    """An answer, in doubt where its call read another one that is an output, too: it may be a remark on that."""
    prompt = answer.call.prompt if answer.call is not None else ()
    shown = " ".join(one_line(message.text) for message in prompt)
    read = [one for one in earlier if one.text and one_line(one.text) in shown]
    others = [one for one in read if one_line(one.text) != one_line(answer.text)]
    return answer if not others else replace(answer, doubts=(_MAY_BE_A_REMARK,))


def _is_draft(node: Node, made: Answer, said: list[Answer]) -> bool:
    """Whether an answer object went to an agent, as a tool's result, or to a later call that answers."""
    later = [
        one.call
        for one in said
        if one.call and one.call.began > node.closed and not _is_verdict(one.text or "")
    ]
    shown = " ".join(
        one_line(message.text) for call in later for message in call.prompt
    )
    told = any(
        one.operation == AGENT_TOOL and not one.ends_agent for one in node.ancestors
    )
    return told or bool(one_line(made.text) and one_line(made.text) in shown)


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """All replies of the last call of a component, or of the calls inside it."""
    said = [node for node in calls.models if replies(node) and _is_named(node, name)][
        -1:
    ]
    return [
        _by(calls, node, Answer(one.text, f"{node.path}.replies"))
        for node in said
        for one in replies(node)
    ]


def _is_named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(
        f".{name}."
    )


def _traced(calls: Calls, answer: Answer) -> Answer:
    """An answer with the call that wrote it, and the documents that reached that, else those that its component got."""
    node = None if answer.extracted else _wrote(calls, (answer.text, *answer.replies))
    if node is not None:
        return _by(calls, node, answer)
    component = _component(calls.run, answer.place)
    documents = calls.flow(component)[0] if component is not None else None
    return replace(answer, documents=documents or answer.documents)


def _is_verdict(text: str) -> bool:
    """True for a judgement in a word, and for a list of further questions."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return _VERDICT.fullmatch(text) is not None or (
        len(lines) > 1 and all(line.endswith("?") for line in lines)
    )


def _by(calls: Calls, node: Node, answer: Answer) -> Answer:
    documents, _ = calls.flow(node)
    return replace(
        answer,
        call=calls.of[node],
        documents=answer.documents if documents is None else documents,
    )


def _wrote(calls: Calls, texts: tuple[str | None, ...]) -> Node | None:
    """The last call one of whose replies is one of these texts."""
    wanted = {one_line(text) for text in texts if text and text.strip()}
    wrote = [
        node
        for node in calls.models
        if any(one_line(said.text) in wanted for said in replies(node))
    ]
    return wrote[-1] if wrote else None


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """What the user got, by place; of an agent its last message alone."""
    parts = {"": run.output} if run.root.operation == AGENT else run.output
    found = []
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            if "last_message" not in sockets or (
                name == "last_message" and not _cut_short(sockets, value)
            ):
                found.append((f"{component}.{name}" if component else name, value))
    return found


def _cut_short(sockets: Mapping[str, Any], last: Any) -> bool:
    """True for an agent that ran out of steps at the result of a tool."""
    tools = (
        {call.name for call in last.calls}
        if isinstance(last, Message) and last.role == "tool"
        else set()
    )
    return bool(tools) and sockets.get("exit_reason") not in tools


def _objects(place: str, value: object) -> list[Answer]:
    """One answer per generated answer; of extracted ones the best."""
    made: list[Answer] = list(each(value, Answer))
    cut = [one for one in made if one.extracted]
    best = next((one for one in cut if one.text), cut[0] if cut else None)
    return [
        replace(one, place=place) for one in made if not one.extracted or one is best
    ]


def _spoken(calls: Calls, place: str, value: object) -> Iterator[Answer]:
    """Texts of a socket named for answers, and texts that a model wrote.

    Of a conversation the last.
    """
    said = [
        one
        for one in (value if isinstance(value, tuple) else (value,))
        if isinstance(one, Message)
    ]
    spoken = [
        one for one in said if one.role in ("assistant", "tool") and one.text.strip()
    ]
    spoken = spoken[-1:] if len(spoken) < len(said) else spoken
    name = place.rpartition(".")[2]
    for text in [one.text for one in spoken] if said else list(texts_in(value)):
        wrote = name not in _ASKED and _wrote(calls, (text,)) is not None
        if text.strip() and (said or name in _NAMED or wrote):
            yield Answer(text, place)


def _component(run: Run, place: str) -> Node | None:
    """The last visit of the component of a place."""
    path = place.rpartition(".")[0]
    return next(
        (node for node in reversed(list(run.components())) if node.path == path), None
    )


def _final(run: Run, found: list[Answer]) -> list[Answer]:
    """Of answers at several places those that no component took.

    Of these, such as come from ends of the pipeline.
    """
    for whole in (False, True):
        found = [
            one for one in found if not _received(run, one.place, whole=whole)
        ] or found
    return found


def _received(run: Run, place: str, *, whole: bool) -> bool:
    """Whether a component took what a socket gave, or any socket of its component."""
    node = _component(run, place)
    spec = node.gives if node is not None else {}
    sockets = spec.values() if whole else [spec.get(place.rpartition(".")[2]) or {}]
    return any(socket.get("receivers") for socket in sockets)


def _once(found: list[Answer]) -> list[Answer]:
    """Without answers that a second component passed on.

    Equal answers of one component stay.
    """
    first: dict[tuple[str | None, str | None], str] = {}
    return [
        one
        for one in found
        if first.setdefault((one.text, one.question), one.place) == one.place
    ]


def documents_left(run: Run) -> list[tuple[str, Any]]:
    """Lists of documents in a run's output, by place."""
    return [
        (place, some)
        for place, value in _outputs(run)
        if (some := tuple(documents_in(value)))
    ]
