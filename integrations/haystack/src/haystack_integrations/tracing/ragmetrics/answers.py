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
    found = _objects(outputs) or _messages(outputs)
    if found:
        return found
    # the text in an output whose socket has a usual name, such as "answer"
    text_by_name = {
        place.rpartition(".")[2]: value
        for place, value in outputs.items()
        if isinstance(value, str)
    }
    text, name = answer_in(text_by_name)
    if text is not None:
        return (Answer(text, name),)
    # A reader lists the best passage first. One without a text says that the documents
    # hold no answer; it counts only if no passage has a text.
    extracted = _objects(outputs, are_extracted=True)
    with_text = tuple(answer for answer in extracted if answer.text)
    return (with_text or extracted)[:1]


def outputs_by_place(run: Run) -> Mapping[str, Any]:
    """What the user got, by ``component.socket``; of an agent its last message alone."""
    is_pipeline = run.root.operation == PIPELINE
    by_component = run.output if is_pipeline else {"": run.output}
    outputs: dict[str, Any] = {}
    for component, sockets in by_component.items():
        if isinstance(sockets, dict):
            if "last_message" in sockets:
                message = sockets["last_message"]
                # An agent that ran out of steps ends with a tool's result. That is the
                # answer only where the agent was told to end with that tool.
                is_result = isinstance(message, Message) and message.role == "tool"
                tools = {call.name for call in message.tool_calls} if is_result else ()
                is_last_step = tools and sockets.get("exit_reason") not in tools
                sockets = {} if is_last_step else {"last_message": message}
            for name, value in sockets.items():
                outputs[f"{component}.{name}" if component else name] = value
    return outputs


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
