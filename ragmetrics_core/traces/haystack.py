"""Haystack as instrumentations record it: its sockets say what a component is.

A **socket** is a named input or output of a component. Haystack's own tracing writes
objects as JSON; OpenInference writes them as Python does, which is not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ragmetrics_core.capture.history import turns_before_question
from ragmetrics_core.capture.plain_values import find_instances, question_in
from ragmetrics_core.capture.tree import Answer, Document, Kind, Message
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.values import (
    mapping,
    messages_in,
    replies_in,
    without_written_objects,
)

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

    A **reading** is what one span says, in the form that all frameworks share. Each
    reading gets its kind, such as "retriever". Haystack's documents and messages in the
    reading become objects of ragmetrics_core. Example: a pipeline with the input
    {"query": "Who?"} gets the question "Who?", its documents and its answer.

    Args:
        calls: The outermost calls of the trace.
    """
    calls_with_readings: list[tuple[Call, Reading]] = []
    for outermost in calls:
        for call in outermost.walk():
            if call.reading is not None:
                calls_with_readings.append((call, call.reading))
    for call, reading in calls_with_readings:
        _make_core_objects(reading)
        reading.kind = _kind(call, reading)
    trace = _Trace(calls, calls_with_readings)
    # inner calls first, because a run is read from what they say
    for call, reading in reversed(calls_with_readings):
        trace.read(call, reading)


def _make_core_objects(reading: Reading) -> None:
    """Make objects of the core of the documents, messages and answers in a reading."""
    reading.input = _with_core_objects(without_written_objects(reading.input))
    reading.output = _with_core_objects(reading.output)


class _Trace:
    """What the components of one trace returned, which says what its runs answered.

    Args:
        calls: The outermost calls.
        calls_with_readings: All its calls, each with what it says.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        calls_with_readings: Sequence[tuple[Call, Reading]],
    ) -> None:
        """Collect from the whole trace what tells the question and answer of a run.

        Example: a pipeline of retriever and generator: one model, the answers of an
        ``AnswerBuilder``, and the retrieved documents by their ids.

        Args:
            calls: The outermost calls of the trace.
            calls_with_readings: Each call with its reading, an object that holds what
                its span says: its kind, input and output.
        """
        self._outermost = calls
        readings = [reading for _, reading in calls_with_readings]
        self._models = [reading for reading in readings if reading.kind == "model"]
        self._answers = _last_answers(readings)
        outputs = [mapping(reading.output) for reading in readings]
        # a writer's output says how many documents it put into a store
        self._builds_index = any("documents_written" in output for output in outputs)
        # (): the last list of documents is empty; None: no component returned a list
        self._ends_without_documents = _last_documents(outputs) == ()

    def read(self, call: Call, reading: Reading) -> None:
        """Write into a reading what a component or run was asked, found and answered.

        Example: the outermost pipeline with the inputs {"query": "Who?"} gets the
        question "Who?". A run that only filled a document store becomes "ignored". The
        calls inside this one have been read already. A tool inside a run keeps its
        reading as it is, and so does an outermost agent whose output is a bare text.
        """
        # sockets: the named inputs and outputs of a component, such as "query"
        inputs = dict(_sockets(reading.input))
        outputs = dict(_sockets(reading.output))
        is_outermost = call in self._outermost
        only_builds_index = self._builds_index and not self._models
        # an agent's output may be its answer already, "In 1874.", and no mapping
        has_named_outputs = not isinstance(reading.output, str)
        if reading.kind == "model":
            self._read_model(reading, inputs, outputs)
        elif reading.kind in ("retriever", "reranker"):
            self._read_retriever(reading, inputs)
        elif is_outermost and only_builds_index:
            reading.kind = "ignored"
        elif is_outermost and has_named_outputs:
            self._read_run(reading, inputs, outputs)
        elif reading.kind == "step":
            self._read_step(call, reading, outputs)

    def _read_model(
        self, reading: Reading, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        """Read a call of a model: its prompt and its replies stand in its sockets."""
        prompt = messages_in((inputs.get("messages"), inputs.get("prompt")))
        reading.prompt = prompt or reading.prompt
        reading.replies = reading.replies or replies_in(outputs.get("replies"))
        reading.input = None
        reading.output = None

    def _read_retriever(self, reading: Reading, inputs: Mapping[str, Any]) -> None:
        """Write into the reading of a retriever what it was asked and what it found."""
        if reading.documents is None:
            reading.documents = _documents(reading.output)
        else:
            reading.documents = tuple(
                document for document in reading.documents if document.text
            )
        reading.input = _question(inputs)
        reading.output = None

    def _read_run(
        self, reading: Reading, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        """Read an outermost call, a pipeline or an agent.

        Its input becomes the user's question, and its output the answer. Without a
        model the run only searched, and its output is what it found. Example: the
        inputs {"query": "Who?"} and outputs {"replies": ["Anna"]} become the question
        "Who?" and the answer "Anna".

        Args:
            reading: What the call's span says; it is changed.
            inputs: What the run was given, by the names of its inputs.
            outputs: What the run returned, by the names of its outputs.
        """
        reading.input = _question(inputs)
        handed_in = tuple(find_instances(inputs, Message))
        reading.history = turns_before_question(handed_in, reading.input, documents=())
        # (): the last component that returns documents had none left for the answer;
        # None: the readings of the components say which there were
        reading.documents = () if self._ends_without_documents else None
        if not self._models:
            reading.output = _documents(reading.output) or None
            return
        if reading.input is not None:
            # The kind of all runs that answer a user, pipelines as well: such a run
            # makes a sample even if it retrieved nothing.
            reading.kind = "agent"
        reading.output = self._answer(outputs)
        has_answer = reading.output is not None
        if not has_answer and not self._may_a_reply_be_answer(outputs):
            self._forget_replies()

    def _forget_replies(self) -> None:
        """Forget what the models said: the core takes a reply for a run's missing answer."""
        for model in self._models:
            model.replies = ()

    def _read_step(
        self,
        call: Call,
        reading: Reading,
        outputs: Mapping[str, Any],
    ) -> None:
        """Read any other component: the documents that it took and brought, no question."""
        reading.input_documents = _documents(reading.input)
        documents = _documents(reading.output)
        is_builder = "Builder" in _component_type(call)
        lists = [entry for entry in outputs.values() if isinstance(entry, tuple)]
        gives_texts = any(isinstance(one, str) for one in chain.from_iterable(lists))
        if reading.input_documents and gives_texts and not is_builder:
            reading.remarks += (_TEXTS_OF_DOCUMENTS,)
        roles = {message.role for message in find_instances(outputs, Message)}
        if {"user", "assistant"} <= roles and not (is_builder or call.inside):
            reading.remarks += (_EARLIER_TURNS,)
        reading.input = None
        reading.output = documents or None
        if is_builder:
            # it hands on what others returned, and brings nothing
            reading.output = None
        elif documents and reading.input_documents and not call.inside:
            # the adapter says so, too: what it adds was not searched for
            reading.kind = "reranker"

    def _answer(self, outputs: Mapping[str, Any]) -> Any:
        """Find what a run answered: its answer objects, else the one text that it returned.

        Several answer objects are a tuple. None leaves the answer to the core, which
        takes the reply of a model.
        """
        if len(self._answers) == 1:
            return self._answers[0].text
        if self._answers:
            return tuple(self._answers)
        texts = list(_texts(_answer_values(outputs)))
        replies = {reply.text for model in self._models for reply in model.replies}
        return texts[0] if len(texts) == 1 and texts[0] in replies else None

    def _may_a_reply_be_answer(self, outputs: Mapping[str, Any]) -> bool:
        """Whether the reply of a model may be the answer of a run that returned none.

        It may if a single model ran, and the run returned no text. Example: a planner
        and a writer ran, and the run failed: neither reply is the answer.
        """
        has_text = any(_texts(_answer_values(outputs)))
        return len(self._models) == 1 and not has_text


def _documents(value: Any) -> tuple[Document, ...]:
    """The documents in what a component was given or returned."""
    return tuple(find_instances(value, Document))


def _last_documents(outputs: Sequence[Mapping[str, Any]]) -> tuple[Any, ...] | None:
    """The last list of documents that a component returned; None without any."""
    last_documents = None
    for output in outputs:
        documents = output.get("documents")
        if isinstance(documents, tuple):
            last_documents = documents
    return last_documents


def _last_answers(readings: Sequence[Reading]) -> list[Answer]:
    """The answers of the last component that returned any."""
    for reading in reversed(readings):
        answers = list(find_instances(reading.output, Answer))
        if answers:
            return answers
    return []


def _answer_values(outputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The outputs of a run that may be its answer: those of usual names, else all."""
    if "last_message" in outputs:
        return (outputs["last_message"],)
    named = [outputs[name] for name in _ANSWER_SOCKETS if name in outputs]
    return tuple(named or outputs.values())


def _question(inputs: Mapping[str, Any]) -> str | None:
    """The question in what a run or component was given.

    Of several texts in a socket the last one counts.
    """
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
    if "Evaluator" in name or reading.kind == "ignored":
        return "ignored"
    if "Builder" in name:
        return "step"
    if _replies_to_inputs(call, reading):
        return "model"
    if not is_traced_by_haystack(call.span):
        return reading.kind
    if name.endswith(".tool"):
        return "tool"
    if "Ranker" in name:
        return "reranker"
    return "retriever" if _brings_documents(call, reading) else "step"


def _replies_to_inputs(call: Call, reading: Reading) -> bool:
    """Whether a component was given anything, and has a socket for replies."""
    has_inputs = any(_sockets(reading.input))
    gives = str(call.span.attributes.get("haystack.component.output_spec", ""))
    return has_inputs and (
        "replies" in mapping(reading.output) or '"replies": ' in gives
    )


def _brings_documents(call: Call, reading: Reading) -> bool:
    """Whether a component gives documents, and takes neither documents nor replies."""
    attributes = call.span.attributes
    takes = str(attributes.get("haystack.component.input_spec", ""))
    gives = str(attributes.get("haystack.component.output_spec", ""))
    takes_replies = "replies" in dict(_sockets(reading.input))
    only_hands_on = _DOCUMENT_CLASS in takes or takes_replies
    return _DOCUMENT_CLASS in gives and not only_hands_on


def _sockets(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield sockets and their values, however a run or component groups them."""
    for name, entry in mapping(value).items():
        if isinstance(entry, Mapping):
            yield from _sockets(entry)
        else:
            yield name, entry


def _with_core_objects(value: Any) -> Any:
    """Replace the answers in a value, which Haystack writes as mappings, by our objects."""
    if isinstance(value, tuple):
        return tuple(_with_core_objects(element) for element in value)
    if isinstance(value, Mapping):
        return _answer_of_fields(value) or {
            key: _with_core_objects(entry) for key, entry in value.items()
        }
    return value


def _answer_of_fields(fields: Mapping[Any, Any]) -> Answer | None:
    """Make an answer of the fields of one of Haystack's; None for any other mapping."""
    if not {"data", "query", "meta"} <= set(fields):
        return None
    text = str(fields["data"] or "")
    # an extracted answer, which a reader cut out of one document, has no "documents"
    return Answer(text, "answers", is_extracted="documents" not in fields)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, those of messages and answers included; each once."""
    yielded: set[str] = set()
    for entry in find_instances(value, str, Message, Answer):
        if isinstance(entry, Message) and not _is_spoken(entry):
            continue
        text = entry.text if isinstance(entry, (Message, Answer)) else str(entry)
        if text and text.strip() and text not in yielded:
            yielded.add(text)
            yield text


def _is_spoken(message: Message) -> bool:
    """Whether user or assistant said it, and it calls no tool."""
    return message.role in ("user", "assistant") and not message.tool_calls
