"""What the user asked a run, and what was said before it. Pure.

Example: ``run({"builder": {"question": "Who?", "tone": "kind"}})`` hands in two texts.
"Who?" is the question, since an input named "question" got it.
"""

import math
from collections.abc import Mapping
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls
from haystack_integrations.tracing.ragmetrics.nodes import PIPELINE, Run

from ragmetrics_core import Turn
from ragmetrics_core.capture import Message
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.history import history_in, turns_before_question
from ragmetrics_core.capture.plain_values import (
    QUESTION_KEYS,
    documents_in,
    question_in,
)
from ragmetrics_core.capture.shown import shows
from ragmetrics_core.capture.structures import as_one_line, find_instances

_USUAL_NAMES = (*QUESTION_KEYS, "user_query", "text")


def find_question(calls: Calls, query: str | None) -> str | None:
    """Choose the question among the texts that the user handed in; None without one.

    The query that the answer carries, if the user handed it in. Else a text in an input
    of a usual name: of several the one that the last model was shown last, then the one
    that most inputs got. Else the only text that a model was shown.

    Args:
        calls: The calls of the run.
        query: The question that the answer carries; None if it carries none.
    """
    texts = [
        (name, question)
        for inputs in _groups_of_inputs(calls.run)
        for name, value in inputs.items()
        if (question := _question_in_input(value))
    ]
    lines = [as_one_line(text) for _, text in texts]
    if query and as_one_line(query) in lines:
        return query
    prompts = [[message.text for message in call.prompt] for call in calls.models]
    usual = [text for name, text in texts if name in _USUAL_NAMES]
    if usual:
        last_prompt = letters_of("\n".join(prompts[-1])) if prompts else ""
        return max(
            usual,
            key=lambda text: (
                _end_of_last(letters_of(text), last_prompt),
                lines.count(as_one_line(text)),
            ),
        )
    shown = {
        text for _, text in texts if any(shows(prompt, text) for prompt in prompts)
    }
    return shown.pop() if len(shown) == 1 else query or None


def _end_of_last(text: str, prompt: str) -> tuple[int, int]:
    """Where a text stands last in a prompt, and its length: one inside another goes behind."""
    start = prompt.rfind(text) if text else -1
    return (-1, 0) if start < 0 else (start + len(text), len(text))


def _question_in_input(value: object) -> str | None:
    """The question in one input: a text, or the user's last message.

    Of a list of several texts none is surely asked.
    """
    if isinstance(value, tuple) and len(value) > 1 and str in map(type, value):
        return None
    return question_in(value, depth=0)


def _groups_of_inputs(run: Run) -> list[Mapping[str, Any]]:
    """What the user handed in, a group for each component of a pipeline."""
    is_pipeline = run.root.operation == PIPELINE
    groups = run.input.values() if is_pipeline else [run.input]
    return [inputs for inputs in groups if isinstance(inputs, dict)]


def history_handed_in(run: Run, question: str | None) -> tuple[Turn, ...]:
    """The earlier turns of the conversation among the user's inputs; () without any."""
    for inputs in _groups_of_inputs(run):
        turns = history_in(inputs, question, depth=1)
        if turns:
            return turns
    return ()


def history_remembered(calls: Calls, question: str | None) -> tuple[Turn, ...]:
    """The earlier turns that a component such as a memory gave before the last model was called.

    A model and an agent write messages of their own, which other components hand on.
    Those of a prompt builder, or of a component that was given documents, may be examples.
    """
    ends_before = calls.models[-1].began if calls.models else math.inf
    own_replies = {call.reply.text for call in calls.models if call.reply is not None}
    for node in reversed(list(calls.run.components())):
        call = calls.call_by_span[node]
        is_writer = call.kind in ("model", "agent") or any(documents_in(node.input))
        if is_writer or "Builder" in node.type or node.closed > ends_before:
            continue
        messages = list(find_instances(node.output, Message))
        turns = turns_before_question(messages, question, documents=())
        if turns and own_replies.isdisjoint(turn.content for turn in turns):
            return turns
    return ()
