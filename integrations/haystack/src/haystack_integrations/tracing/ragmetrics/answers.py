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
    as_one_line,
    documents_in,
    find_instances,
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
    """The answers in a run's output, else answer objects that no component passed on.

    Where the list is empty, the core's rules look for an answer.
    """
    outputs = _outputs(calls.run)
    every = [
        answer for place, value in outputs for answer in _spoken(calls, place, value)
    ]
    spoken = _final(calls.run, every) or _parsed(calls, outputs)
    earlier = [
        answer
        for answer in every
        if _received(calls.run, answer.place, by_component=False)
    ]
    spoken_with_calls = [_doubted(_traced(calls, answer), earlier) for answer in spoken]
    objects = [answer for place, value in outputs for answer in _objects(place, value)]
    for node in sorted(calls.run.components(), key=lambda node: -node.closed):
        objects_of_node = [
            answer
            for name, value in node.sockets.items()
            for answer in _objects(f"{node.path}.{name}", value)
        ]
        objects = objects or [
            answer
            for answer in objects_of_node
            if not _is_draft(node, answer, spoken_with_calls)
        ]
    if objects:
        return _once([_traced(calls, answer) for answer in objects])
    if (
        len({answer.place for answer in spoken_with_calls}) > 1
    ):  # those whose call had documents
        spoken_with_calls = [
            answer for answer in spoken_with_calls if answer.documents
        ] or spoken_with_calls
    return _once(spoken_with_calls)


def _parsed(calls: Calls, outputs: list[tuple[str, Any]]) -> list[Answer]:
    """The one text that a run gave, if a component cut it out of a model's reply.

    Empty if the run gave several texts, or if no model wrote the text.
    """
    texts = [(place, text) for place, value in outputs for text in texts_in(value)]
    if len(texts) != 1:
        return []
    ((place, text),) = texts
    part = as_one_line(text)
    replied = (
        as_one_line(reply.text) for node in calls.models for reply in replies(node)
    )
    is_asked = place.rpartition(".")[2] in _ASKED
    is_cut = bool(part) and any(part in reply for reply in replied)
    return [Answer(text, place)] if is_cut and not is_asked else []


def _doubted(answer: Answer, earlier: list[Answer]) -> Answer:
    """The answer, in doubt where it may be a remark on an earlier one.

    That is so where the call that wrote it was shown another text of the output.
    """
    prompt = answer.call.prompt if answer.call is not None else ()
    prompt_text = " ".join(as_one_line(message.text) for message in prompt)
    answers_in_prompt = [
        earlier_answer
        for earlier_answer in earlier
        if earlier_answer.text and as_one_line(earlier_answer.text) in prompt_text
    ]
    remarked_on = [
        earlier_answer
        for earlier_answer in answers_in_prompt
        if as_one_line(earlier_answer.text) != as_one_line(answer.text)
    ]
    return answer if not remarked_on else replace(answer, doubts=(_MAY_BE_A_REMARK,))


def _is_draft(node: Node, draft: Answer, spoken: list[Answer]) -> bool:
    """True for an answer object that is not the run's answer yet.

    An agent got it as the result of a tool, or a later answering call was shown it.
    """
    later = [
        answer.call
        for answer in spoken
        if answer.call
        and answer.call.began > node.closed
        and not _is_verdict(answer.text or "")
    ]
    later_prompts = " ".join(
        as_one_line(message.text) for call in later for message in call.prompt
    )
    is_result_of_tool = any(
        outer.operation == AGENT_TOOL and not outer.ends_agent
        for outer in node.ancestors
    )
    return is_result_of_tool or bool(
        as_one_line(draft.text) and as_one_line(draft.text) in later_prompts
    )


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """All replies of the last call of a component, or of the calls inside it."""
    last_calls = [
        node for node in calls.models if replies(node) and _is_named(node, name)
    ][-1:]
    return [
        _by(calls, node, Answer(reply.text, f"{node.path}.replies"))
        for node in last_calls
        for reply in replies(node)
    ]


def _is_named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(
        f".{name}."
    )


def _traced(calls: Calls, answer: Answer) -> Answer:
    """The answer with the call that wrote it, and the documents that reached the call.

    Where no call wrote it, its documents are those that its component got.
    """
    node = (
        None if answer.extracted else _writer_of(calls, (answer.text, *answer.replies))
    )
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


def _writer_of(calls: Calls, texts: tuple[str | None, ...]) -> Node | None:
    """The last call one of whose replies is one of these texts."""
    wanted_texts = {as_one_line(text) for text in texts if text and text.strip()}
    writers = [
        node
        for node in calls.models
        if any(as_one_line(reply.text) in wanted_texts for reply in replies(node))
    ]
    return writers[-1] if writers else None


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """What the user got, by place; of an agent its last message alone."""
    parts = {"": run.output} if run.root.operation == AGENT else run.output
    outputs = []
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            if "last_message" not in sockets or (
                name == "last_message" and not _cut_short(sockets, value)
            ):
                outputs.append((f"{component}.{name}" if component else name, value))
    return outputs


def _cut_short(sockets: Mapping[str, Any], last_message: Any) -> bool:
    """True for an agent that ran out of steps at the result of a tool."""
    tools = (
        {call.name for call in last_message.calls}
        if isinstance(last_message, Message) and last_message.role == "tool"
        else set()
    )
    return bool(tools) and sockets.get("exit_reason") not in tools


def _objects(place: str, value: object) -> list[Answer]:
    """One answer per generated answer; of extracted ones the best."""
    answers_there: list[Answer] = list(find_instances(value, Answer))
    extracted = [answer for answer in answers_there if answer.extracted]
    best = next(
        (answer for answer in extracted if answer.text),
        extracted[0] if extracted else None,
    )
    return [
        replace(answer, place=place)
        for answer in answers_there
        if not answer.extracted or answer is best
    ]


def _spoken(calls: Calls, place: str, value: object) -> Iterator[Answer]:
    """Answers among the texts of a socket.

    A text is an answer if its socket is named for answers, or if a model wrote it. Of a
    conversation only the last message counts.
    """
    messages = [
        message
        for message in (value if isinstance(value, tuple) else (value,))
        if isinstance(message, Message)
    ]
    spoken = [
        message
        for message in messages
        if message.role in ("assistant", "tool") and message.text.strip()
    ]
    spoken = spoken[-1:] if len(spoken) < len(messages) else spoken
    name = place.rpartition(".")[2]
    for text in (
        [message.text for message in spoken] if messages else list(texts_in(value))
    ):
        is_by_a_model = name not in _ASKED and _writer_of(calls, (text,)) is not None
        if text.strip() and (messages or name in _NAMED or is_by_a_model):
            yield Answer(text, place)


def _component(run: Run, place: str) -> Node | None:
    """The last visit of the component of a place."""
    path = place.rpartition(".")[0]
    return next(
        (node for node in reversed(list(run.components())) if node.path == path), None
    )


def _final(run: Run, candidates: list[Answer]) -> list[Answer]:
    """The answers at the end of a run.

    Of several places those count whose socket no component took; of these, those whose
    component gave nothing to another one.
    """
    # the second sieve counts only where it leaves any
    for by_component in (False, True):
        candidates = [
            answer
            for answer in candidates
            if not _received(run, answer.place, by_component=by_component)
        ] or candidates
    return candidates


def _received(run: Run, place: str, *, by_component: bool) -> bool:
    """Whether a component took what a socket gave.

    Args:
        run: The run.
        place: The place of the socket.
        by_component: Whether any socket of the same component counts.
    """
    node = _component(run, place)
    spec = node.gives if node is not None else {}
    sockets = (
        spec.values() if by_component else [spec.get(place.rpartition(".")[2]) or {}]
    )
    return any(socket.get("receivers") for socket in sockets)


def _once(candidates: list[Answer]) -> list[Answer]:
    """The answers without those that a second component passed on.

    Equal answers of one component stay.
    """
    place_of_first: dict[tuple[str | None, str | None], str] = {}
    return [
        answer
        for answer in candidates
        if place_of_first.setdefault((answer.text, answer.question), answer.place)
        == answer.place
    ]


def documents_left(run: Run) -> list[tuple[str, Any]]:
    """Lists of documents in a run's output, by place."""
    return [
        (place, documents)
        for place, value in _outputs(run)
        if (documents := tuple(documents_in(value)))
    ]
