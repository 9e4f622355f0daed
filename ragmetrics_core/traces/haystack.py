"""Haystack as instrumentations record it: its sockets say what a component is.

A **socket** is a named input or output of a component. Haystack's own tracing writes
objects as JSON; OpenInference writes them as Python does, which is not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ragmetrics_core.capture.history import turns_before_question
from ragmetrics_core.capture.plain_values import question_in
from ragmetrics_core.capture.structures import find_instances
from ragmetrics_core.capture.tree import Answer, Document, Kind, Message
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.values import mapping, replies_in, without_written_objects

_ANSWER_SOCKETS = (
    "last_message",
    "replies",
    "reply",
    "answer",
    "answers",
    "response",
)
_TEXTS_OF_DOCUMENTS = (
    "a component made texts of documents, and a model may have been shown these"
)
_EARLIER_TURNS = "a component returned messages of user and assistant: earlier turns that are not read"
_DOCUMENT_CLASS = "haystack.dataclasses.document.Document"


def is_traced_by_haystack(span: Span) -> bool:
    """Tell whether a span has attributes of Haystack's own tracing."""
    return any(key.startswith("haystack.") for key in span.attributes)


def read(calls: Sequence[Call]) -> None:
    """Fill the readings of a trace by the rules for Haystack's components.

    A **reading** is what one span says, in the form that all frameworks share. Example:
    a pipeline with the input {"query": "Who?"} gets the question "Who?", its components
    their kinds, such as "retriever".

    Args:
        calls: The outermost calls of the trace.
    """
    for outermost in calls:
        inner_calls = [call for call in outermost.walk() if call.reading is not None]
        # before the readings are changed
        outputs = [mapping(call.reading.output) for call in inner_calls if call.reading]
        for call in inner_calls:
            _read_component(call, outermost)
        if outermost.reading is not None and outermost.reading.kind != "model":
            _read_run(outermost, outermost.reading, outputs)


def _read_component(call: Call, run: Call) -> None:
    """Write into the reading of a call what it is, and what it said or brought."""
    reading = call.reading or Reading()
    reading.input = without_written_objects(reading.input)
    reading.kind = _kind(call, reading)
    if reading.kind == "model":
        reading.replies = reading.replies or replies_in(reading.output)
    elif reading.kind == "step" and call is not run:
        _read_step(call, reading)


def _read_run(
    run: Call, reading: Reading, outputs: Sequence[Mapping[str, Any]]
) -> None:
    """Read an outermost call, a pipeline or an agent: its question and its answer.

    Without a model the run only searched, and its output is what it found; or it filled
    a store, and is left out.

    Args:
        run: The call.
        reading: What its span says; it is changed.
        outputs: What the run and its components returned, as recorded.
    """
    inner = [call.reading for call in run.walk() if call.reading is not None]
    models = [one for one in inner if one.kind == "model"]
    if not models and any("documents_written" in output for output in outputs):
        reading.kind = "ignored"
        return
    lists = [output["documents"] for output in outputs if "documents" in output]
    if lists and lists[-1] == ():
        reading.documents = ()  # none was left for the answer
    inputs = dict(_sockets(reading.input))
    reading.input = _question(inputs)
    handed_in = tuple(find_instances(inputs, Message))
    reading.history = turns_before_question(handed_in, reading.input, documents=())
    if not models:
        reading.output = _documents(reading.output) or None
        return
    if reading.input is not None:
        # such a run makes a sample even if it retrieved nothing
        reading.kind = "agent"
    replies = {reply.text for model in models for reply in model.replies}
    texts = _returned_texts(reading.output)
    answers: tuple[Answer, ...] = ()
    for output in outputs:
        answers = tuple(find_instances(output, Answer)) or answers
    if answers or isinstance(reading.output, str):
        reading.output = answers or reading.output
        return
    reading.output = (
        texts.copy().pop() if len(texts) == 1 and texts <= replies else None
    )
    if reading.output is None and (len(models) > 1 or texts):
        # the core takes a model's reply for a missing answer: none of these surely is it
        for model in models:
            model.replies = ()
            model.output = None


def _returned_texts(output: Any) -> set[str]:
    """The texts that a run returned: those of usual names, else all."""
    if isinstance(output, str):  # an agent's
        return {output}
    outputs = dict(_sockets(output))
    named = [outputs[name] for name in _ANSWER_SOCKETS if name in outputs]
    return set(_texts(named or list(outputs.values())))


def _read_step(call: Call, reading: Reading) -> None:
    """Read a component between: the documents that it took and brought, no question."""
    outputs = dict(_sockets(reading.output))
    documents = _documents(reading.output)
    reading.input_documents = _documents(reading.input)
    reading.input = None
    reading.output = documents or None
    if "Builder" in _component_type(call):
        # it hands on what others returned, and brings nothing
        reading.output = None
        return
    lists = [entry for entry in outputs.values() if isinstance(entry, tuple)]
    gives_texts = any(isinstance(one, str) for one in chain.from_iterable(lists))
    if reading.input_documents and gives_texts:
        reading.remarks += (_TEXTS_OF_DOCUMENTS,)
    roles = {message.role for message in find_instances(outputs, Message)}
    if {"user", "assistant"} <= roles and not call.inside:
        reading.remarks += (_EARLIER_TURNS,)
    if documents and reading.input_documents and not call.inside:
        # the adapter says so, too: what it adds was not searched for
        reading.kind = "reranker"


def _documents(value: Any) -> tuple[Document, ...]:
    """The documents in what a component was given or returned."""
    return tuple(find_instances(value, Document))


def _question(inputs: Mapping[str, Any]) -> str | None:
    """The question in what a run was given; of several texts in a socket the last one."""
    last_texts = {}
    for name, value in inputs.items():
        texts = list(_texts(value))
        if texts:
            last_texts[name] = texts[-1]
    return question_in(last_texts)


def _component_type(call: Call) -> str:
    """The class of a component; if it was not recorded, the name of its span."""
    return str(call.span.attributes.get("haystack.component.type") or call.span.name)


def _kind(call: Call, reading: Reading) -> Kind | None:
    """Tell what a component is: a model, retriever, reranker, tool or step.

    Outside of Haystack's own tracing the kind that the span says counts, unless it
    replies.
    """
    name = _component_type(call)
    gives = str(call.span.attributes.get("haystack.component.output_spec", ""))
    takes = str(call.span.attributes.get("haystack.component.input_spec", ""))
    inputs = dict(_sockets(reading.input))
    if "Evaluator" in name or reading.kind == "ignored":
        return "ignored"
    if "Builder" in name:
        return "step"
    if inputs and ("replies" in mapping(reading.output) or '"replies": ' in gives):
        return "model"
    if not is_traced_by_haystack(call.span):
        return reading.kind
    if name.endswith(".tool"):
        return "tool"
    if "Ranker" in name:
        return "reranker"
    only_hands_on = _DOCUMENT_CLASS in takes or "replies" in inputs
    return "retriever" if _DOCUMENT_CLASS in gives and not only_hands_on else "step"


def _sockets(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield sockets and their values, however a run or component groups them."""
    for name, entry in mapping(value).items():
        if isinstance(entry, Mapping):
            yield from _sockets(entry)
        else:
            yield name, entry


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value that user or assistant said."""
    for entry in find_instances(value, str, Message):
        if not isinstance(entry, Message):
            yield str(entry)
        elif entry.role in ("user", "assistant") and not entry.tool_calls:
            yield entry.text
