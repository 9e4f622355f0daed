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
from ragmetrics_core.capture import (
    Message,
    documents_in,
    find_instances,
    history_in,
    turns_before_question,
)


def groups_of_inputs(run: Run) -> list[Mapping[str, Any]]:
    """What the user handed in, a group for each component of a pipeline."""
    is_pipeline = run.root.operation == PIPELINE
    groups = run.input.values() if is_pipeline else [run.input]
    return [inputs for inputs in groups if isinstance(inputs, dict)]


def history_handed_in(run: Run, question: str | None) -> tuple[Turn, ...]:
    """The earlier turns of the conversation among the user's inputs; () without any."""
    for inputs in groups_of_inputs(run):
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
