"""A call of a trace as a node of the core's trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmetrics_core.capture.plain_values import documents_in, question_in, texts_in
from ragmetrics_core.capture.step_documents import (
    note_documents_of_step,
    note_what_was_left_out,
)
from ragmetrics_core.capture.structures import compact, find_instances
from ragmetrics_core.capture.tree import Document, Message, Node
from ragmetrics_core.traces.dialects import (
    FORM_NOT_READ,
    Reading,
    found_texts,
    holds_only_numbers,
)
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.span_values import ToolMessage, messages_in, replies_in
from ragmetrics_core.traces.unread import unread_request_of

# Tools of smolagents and of Pydantic AI by which a model gives its answer.
_ONE_TEXT_WITHOUT_IDS = (
    "a search returned one text several times, and the ids that tell whether these are"
    " one document were not recorded"
)
ANSWER_TOOLS = frozenset({"final_answer", "final_result"})


def node_of(call: Call, reading: Reading) -> Node:
    """Make a node of a call: the form in which the rules of all frameworks read calls.

    Example: the span of ``chat gpt-4o`` becomes a node of the kind "model" with its
    prompt and its reply. The calls inside the call become nodes inside the node; failed
    attempts that were repeated are left out. What a failed call returned is dropped.

    Args:
        call: The call, which is a span and the calls inside it.
        reading: What its span says.
    """
    node = Node(
        reading.kind or "step",
        name=call.span.name,
        began=call.span.start,
        ended=call.span.end,
        children=_children(call),
        error=call.span.error,
    )
    match node.kind:
        case "model":
            _fill_model(node, reading)
            unread_request_of(call.span.attributes).add_to(node)
        case "retriever" | "reranker":
            _fill_retriever(node, reading)
        case "tool":
            _fill_tool(node, reading)
        case "step":
            node.input_documents = reading.input_documents
            node.documents_among_inputs = tuple(documents_in(reading.input))
            note_documents_of_step(node, reading.input, reading.output)
    if node.error:
        node.documents = None
        node.reply = None
        node.text = None
    if node.kind == "retriever" and node.documents is not None:
        note_what_was_left_out(node)
    return node


def _children(call: Call) -> list[Node]:
    """The calls inside a call as nodes, in the order in which they began."""
    latest_first: list[Call] = []
    later_names: set[str] = set()
    for step in reversed(call.inside):
        # failed calls that were tried again are left out
        was_tried_again = step.span.name in later_names
        if not (step.span.error and was_tried_again):
            latest_first.append(step)
            later_names.add(step.span.name)
    children: list[Node] = []
    for step in reversed(latest_first):
        child = node_of(step, step.reading or Reading())
        children.append(child)
        if child.kind == "model":
            # MLflow puts models that ran beside a model inside it. But a model with the
            # same prompt is the same call, recorded twice.
            calls_of_child = child.children
            child.children = []
            for inner in calls_of_child:
                if inner.kind == "model" and inner.prompt != child.prompt:
                    children.append(inner)
                else:
                    child.children.append(inner)
    return children


def _fill_model(node: Node, reading: Reading) -> None:
    """Write into a call of a model its prompt, its name and its first reply."""
    messages_of_input = messages_in(reading.input)
    # the longer one is whole; the other may be cut, or hold the last message alone
    node.prompt = max(
        reading.prompt,
        messages_of_input,
        key=lambda messages: sum(len(message.text) for message in messages),
    )
    node.model = reading.model
    replies = reading.replies
    if not any(reply.text or reply.tool_calls for reply in replies):
        replies = replies_in(reading.output)
    node.reply = replies[0] if replies else None


def _fill_retriever(node: Node, reading: Reading) -> None:
    """Write into a retriever's node what it was asked, was given and found.

    Example: the input "Who?" and an output with two documents: the query "Who?" and
    these documents. What was found is (), if the output says that it was nothing, and
    None if it is not known.
    """
    node.query = reading.query or question_in(reading.input)
    node.input_documents = reading.input_documents or tuple(
        find_instances(reading.input, Document)
    )
    # What was found is looked for in three places, until one has it. First: objects in
    # the output that have the fields of a framework's documents, and bare texts beside
    # these.
    found = tuple(find_instances(reading.output, Document))
    if found:
        with_bare_texts = found_texts(reading.output) or ()
        node.documents = with_bare_texts if len(with_bare_texts) > len(found) else found
    # Second: attributes that list documents. A reranker's may list scores alone, without
    # ids or texts.
    listed = reading.documents
    has_ids_or_texts = any(document.id or document.text for document in listed or ())
    if node.documents is None and (
        node.kind != "reranker" or not listed or has_ids_or_texts
    ):
        node.documents = listed
    # Third: an output in the application's own form, such as a list of texts. If a
    # reranker returns numbers alone, nobody knows which documents it kept, and in which
    # order; but it brought no others.
    output = reading.output
    is_of_numbers = node.kind == "reranker" and holds_only_numbers(output)
    if node.documents is None and output is not None and not is_of_numbers:
        node.documents = found_texts(output)
        if node.documents is None:
            node.evidence_not_recorded += (FORM_NOT_READ,)
    texts_without_id = [
        document.text for document in node.documents or () if document.id is None
    ]
    if len(set(texts_without_id)) < len(texts_without_id):
        node.remarks += (_ONE_TEXT_WITHOUT_IDS,)
    if node.documents:
        # what was found is recorded, so the error came later and does not undo it
        node.error = None


def _fill_tool(node: Node, reading: Reading) -> None:
    """Write into a tool's node its name, what it was asked and what it returned.

    Example: ``search("Rome")`` that returned a text and two documents.
    """
    node.name = reading.tool or node.name
    node.query = _argument(reading.input)
    node.text = _result(reading.output)
    # a tool by which a model gives its answer brings no evidence
    node.is_control = node.name in ANSWER_TOOLS
    message = next(find_instances(reading.output, ToolMessage), None)
    if message is None:
        node.tool_call_id = reading.call_id
        documents = find_instances(reading.output, Document)
    else:
        # The result was recorded as a message to the model: it names the call that it
        # answers, its only call, and documents may stand beside its text.
        node.tool_call_id = reading.call_id or message.tool_calls[0].id
        documents = find_instances(message.artifact, Document)
    # Without documents it is None, "not known": the tool may have put what it found
    # into its text. () would say that it searched, and found nothing.
    node.documents = tuple(documents) or None


def _argument(inputs: Any) -> str | None:
    """The one text argument of a tool, else all its arguments as JSON.

    None if it was given nothing.
    """
    if inputs is None:
        return None
    named = inputs
    if isinstance(inputs, Mapping) and {"args", "kwargs"} <= set(inputs):
        named = inputs["kwargs"] or inputs["args"]  # as smolagents writes them
    arguments = list(named.values()) if isinstance(named, Mapping) else [named]
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    return compact(named)


def _result(output: Any) -> str | None:
    """The text that a tool returned, else its result as JSON.

    None if it returned nothing.
    """
    if output is None:
        return None
    if isinstance(output, str):
        return output
    if isinstance(output, Message):
        return output.text
    result = _unwrap_result(output)
    if isinstance(result, str):
        return result
    if not isinstance(result, Mapping):
        texts = [text for text in texts_in(result) if text.strip()]
        if len(texts) == 1:
            return texts[0]
    return compact(result)


def _unwrap_result(output: Any) -> Any:
    """The result of a tool without what Google's ADK puts around it.

    ADK writes a text as ``{"result": text}``, and OpenInference the response of ADK as
    ``{"id": …, "name": …, "response": …}``.
    """
    if not isinstance(output, Mapping):
        return output
    if set(output) == {"id", "name", "response"}:
        return _unwrap_result(output["response"])
    if set(output) == {"result"}:
        return output["result"]
    return output
