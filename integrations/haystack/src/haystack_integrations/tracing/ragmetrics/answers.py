"""What a run answered: answer objects, else messages or a text in its output. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import PIPELINE, Run

from ragmetrics_core.capture import Answer, Message, answer_in, find_instances


def answers(run: Run) -> tuple[Answer, ...]:
    """Find the answers of a run; the first of these that it has.

    1. Answer objects in its output, such as an ``AnswerBuilder`` makes.
    2. The messages of the one output that holds some, or a text under a usual name.
    3. The best passage that a reader cut out of documents.

    Example: the output {"llm": {"replies": ["Anna"]}} gives the answer "Anna".

    Returns:
        The answers; empty if there is none, or if several outputs may hold it: the
        core's rules look for one then.
    """
    outputs = outputs_by_place(run)
    return (
        _objects(outputs)
        or _messages(outputs)
        or _text(outputs)
        or _best_extracted(outputs)
    )


def outputs_by_place(run: Run) -> Mapping[str, Any]:
    """What the user got, by ``component.socket``; of an agent its last message alone."""
    is_pipeline = run.root.operation == PIPELINE
    by_component = run.output if is_pipeline else {"": run.output}
    outputs: dict[str, Any] = {}
    for component, sockets in by_component.items():
        if isinstance(sockets, dict):
            if "last_message" in sockets:
                sockets = _last_message(sockets)
            for name, value in sockets.items():
                outputs[f"{component}.{name}" if component else name] = value
    return outputs


def _last_message(sockets: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last message of an agent; empty if it ran out of steps before it answered.

    A tool's result is the answer where the agent was told to end with that tool.
    """
    message = sockets["last_message"]
    if isinstance(message, Message) and message.role == "tool":
        tools = {call.name for call in message.tool_calls}
        if tools and sockets.get("exit_reason") not in tools:
            return {}
    return {"last_message": message}


def _objects(
    outputs: Mapping[str, Any], *, are_extracted: bool = False
) -> tuple[Answer, ...]:
    """The answer objects in some outputs: those that a model wrote, or those cut out of documents."""
    return tuple(
        replace(answer, place=place)
        for place, value in outputs.items()
        for answer in find_instances(value, Answer)
        if answer.is_extracted == are_extracted
    )


def _best_extracted(outputs: Mapping[str, Any]) -> tuple[Answer, ...]:
    """The best passage that a reader cut out of documents: it lists the best one first.

    One without a text says that the documents hold no answer; it counts only if no
    passage has a text.
    """
    extracted = _objects(outputs, are_extracted=True)
    with_text = tuple(answer for answer in extracted if answer.text)
    return (with_text or extracted)[:1]


def _messages(outputs: Mapping[str, Any]) -> tuple[Answer, ...]:
    """The replies in the one output that holds messages; of a conversation the last one."""
    replies_by_output: list[tuple[Answer, ...]] = []
    for place, value in outputs.items():
        messages = list(find_instances(value, Message))
        replies = [
            Answer(message.text, place)
            for message in messages
            if message.role in ("assistant", "tool") and message.text.strip()
        ]
        if any(message.role in ("user", "system") for message in messages):
            replies = replies[-1:]
        if replies:
            replies_by_output.append(tuple(replies))
    return replies_by_output[0] if len(replies_by_output) == 1 else ()


def _text(outputs: Mapping[str, Any]) -> tuple[Answer, ...]:
    """The text in some outputs whose socket has a usual name, such as "answer"."""
    text_by_name = {
        place.rpartition(".")[2]: value
        for place, value in outputs.items()
        if isinstance(value, str)
    }
    text, name = answer_in(text_by_name)
    return () if text is None else (Answer(text, name),)
