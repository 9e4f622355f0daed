"""What a workflow or an agent of LlamaIndex was asked, remembers and answered."""

from collections.abc import Mapping

from ragmetrics_core.capture import Message, question_in
from ragmetrics_core.traces.llamaindex_records import Records
from ragmetrics_core.traces.llamaindex_values import (
    answer_of,
    has_any,
    is_reasoning,
    last_text_of_user,
    query_in,
)
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import mapping, messages_in


def question_of_workflow(records: Records, workflow: Call) -> str | None:
    """Tell what a workflow was asked; None if nothing tells it.

    Args:
        records: What the calls of the trace were given and returned.
        workflow: The call of the workflow.
    """
    texts = _texts_of_start(records, workflow)
    question = texts.get("user_msg") or last_text_of_user(
        _messages_to_agent(records, workflow)
    )
    return question or _likely_question(texts, _first_inner_query(records, workflow))


def history_in_memory(records: Records, workflow: Call) -> tuple[Message, ...]:
    """The messages before the user's last one in an agent's memory.

    None of them is an example of a template, since a template adds its messages
    only where the prompt is made. The texts of a ReAct agent, which hold its
    thoughts beside the answer, tell no history.
    """
    messages = _messages_to_agent(records, workflow)
    if any(is_reasoning(message) for message in messages):
        return ()
    for n_earlier in reversed(range(len(messages))):
        if messages[n_earlier].role == "user":
            return messages[:n_earlier]
    return ()


def last_answer(records: Records, workflow: Call) -> str | None:
    """The answer of the last step that ended a workflow, or a turn of an agent."""
    for step in reversed(_steps_of(workflow)):
        output = records.outputs[step]
        if records.methods[step] == "run_agent_step" or has_any(output, "result"):
            answer = answer_of(output)
            if answer:
                return answer
    return None


def _steps_of(workflow: Call) -> list[Call]:
    """The steps of a workflow, in their order, without spans that say nothing."""
    return [step for step in workflow.inside if step.reading is not None]


def _texts_of_start(records: Records, workflow: Call) -> dict[str, str]:
    """The texts that a workflow was started with.

    Some workflows tell these only to their first step.
    """
    start = mapping(records.inputs[workflow])
    steps = _steps_of(workflow)
    if "init_state" in start and steps:
        start = records.event_sent_to(steps[0])
    texts = {}
    for name, value in start.items():
        if isinstance(value, str) and value:
            texts[name] = value
    return texts


def _messages_to_agent(records: Records, workflow: Call) -> tuple[Message, ...]:
    """The messages that the first step of an agent was given: its memory.

    The memory holds the earlier turns, and the user's message.
    """
    for step in _steps_of(workflow):
        for record in (mapping(records.outputs[step]), records.event_sent_to(step)):
            inputs = record.get("input")
            messages = messages_in(inputs) if isinstance(inputs, tuple) else ()
            if messages:
                return messages
    return ()


def _first_inner_query(records: Records, call: Call) -> str | None:
    """What the first engine or retriever inside a workflow was asked."""
    for inner in call.walk():
        if inner is call or records.methods.get(inner) not in ("query", "retrieve"):
            continue
        query = query_in(records.inputs[inner])
        if query:
            return query
    return None


def _likely_question(texts: Mapping[str, str], inner_query: str | None) -> str | None:
    """Choose the likely question among the texts that a workflow began with.

    Example: {"topic": "Who?", "tone": "kind"} with the inner query "Who?" gives "Who?".
    Without an equal text a usual name such as "query" counts, or a single text.

    Args:
        texts: The texts by their names.
        inner_query: What the first engine inside was asked: a text that was handed on
            to it unchanged is the question.
    """
    is_handed_on = inner_query in texts.values()
    return inner_query if is_handed_on else question_in(texts)
