"""What a run answered: answer objects, else texts in its output, by the name of their socket or their writer."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, replies
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_TOOL, Node, Run

from ragmetrics_core.capture import Answer, Document, Message
from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.plain_values import (
    as_one_line,
    documents_in,
    find_instances,
    texts_in,
)

_ANSWER_SOCKETS = ("replies", "reply", "answer", "answers", "response", "last_message")
_MAY_BE_A_REMARK = (
    "the answer's call was shown what another model wrote of the documents: the answer"
    " may be a remark on it"
)
_ONE_OF_SEVERAL = "several models of the run gave it a text: each may be the answer"
_BESIDE_A_READER = (
    "a reader cut answers out of documents in the same run: the text of the model is"
    " taken for the answer"
)
_QUESTION_SOCKETS = ("query", "queries", "question", "questions", "prompt")


def answers(calls: Calls) -> list[Answer]:
    """Find the answers of a run, each with the call that wrote it.

    The first of these that the run has are its answers:

    1. Answer objects in its output, such as an ``AnswerBuilder`` makes.
    2. Texts in its output, such as a model's replies. If several named outputs hold
       texts: the texts whose model was shown documents.

    Where the output holds no text, or verdicts alone, the objects of the last component
    that made some stand for those in the output. If all objects are passages that a
    reader (an extractive model) cut out of documents, the texts go first.

    Example: the output {"llm": {"replies": ["Anna"]}} gives the answer "Anna" with the
    call of "llm".

    Returns:
        The answers; empty if there is none: the core's rules look for one then.
    """
    outputs = _outputs(calls.run)
    texts = _answers_in_texts(calls, outputs)
    objects: list[Answer] = []
    for place, value in outputs:
        objects += _objects(place, value)
    if not objects and all(_is_verdict(answer) for answer in texts):
        objects = _objects_of_last_component(calls.run)
    if not objects:
        return _preferring_those_of_documents(calls, texts)
    if texts and all(answer.is_extracted for answer in objects):
        # a reader cut out "1874", and a model wrote "It opened in 1874.": the model's
        return [
            replace(answer, doubts=(*answer.doubts, _BESIDE_A_READER))
            for answer in texts
        ]
    return [_with_call(calls, answer) for answer in objects]


def _is_verdict(answer: Answer) -> bool:
    """Whether a text judges, steers or asks on, so that it answers nothing."""
    return Reply(Message("assistant", answer.text or "")).is_verdict


def _answers_in_texts(calls: Calls, outputs: list[tuple[str, Any]]) -> list[Answer]:
    """Find the answers among the texts of a run's output, each with its call.

    Args:
        calls: The calls of the run.
        outputs: The run's output: for each socket its place and value.
    """
    texts: list[Answer] = []
    for place, value in outputs:
        texts += _answers_in_socket(calls, place, value)
    final_texts = _at_end_of_run(calls.run, texts)
    return [_with_doubt(calls, _with_call(calls, answer)) for answer in final_texts]


def _with_doubt(calls: Calls, answer: Answer) -> Answer:
    """Put an answer in doubt whose call was shown what another model wrote of documents.

    Such an answer may be the end of a chain, or questions that follow the real answer.

    Args:
        calls: The calls of the run.
        answer: The answer, with the call that wrote it.
    """
    writer = answer.writing_call
    # what a tool of an agent wrote is a text that was found
    prompt_text = " ".join(
        as_one_line(message.text)
        for message in (() if writer is None else writer.prompt)
        if message.role != "tool"
    )
    for node in calls.models:
        is_of_writer = writer is None or calls.call_by_span[node].name == writer.name
        if calls.is_fed_by_documents(node) and not is_of_writer:
            texts = {as_one_line(reply.text) for reply in replies(node)}
            texts -= {as_one_line(answer.text), ""}
            if any(text in prompt_text for text in texts):
                return replace(answer, doubts=(_MAY_BE_A_REMARK,))
    return answer


def _preferring_those_of_documents(calls: Calls, texts: list[Answer]) -> list[Answer]:
    """Of texts of several sockets keep those that models wrote behind documents, if any."""
    are_of_one_socket = len({answer.place for answer in texts}) == 1
    if are_of_one_socket:
        return texts
    calls_behind_documents = [
        calls.call_by_span[node]
        for node in calls.models
        if calls.is_fed_by_documents(node)
    ]
    behind_documents = [
        answer for answer in texts if answer.writing_call in calls_behind_documents
    ]
    kept = behind_documents or texts
    if len({answer.place for answer in kept}) == 1:
        return kept
    return [
        replace(answer, doubts=(*answer.doubts, _ONE_OF_SEVERAL)) for answer in kept
    ]


def _objects_of_last_component(run: Run) -> list[Answer]:
    """Find the answer objects of the last component that made some for the user."""
    last_first = sorted(run.components(), key=lambda node: node.closed, reverse=True)
    for node in last_first:
        objects: list[Answer] = []
        for name, value in node.output_by_socket.items():
            objects += _objects(f"{node.path}.{name}", value)
        if objects and not _is_in_tool_before_answer(node):
            return objects
    return []


def _is_in_tool_before_answer(node: Node) -> bool:
    """Whether a span is inside a tool after which its agent went on."""
    return any(
        ancestor.operation == AGENT_TOOL and not ancestor.ends_agent
        for ancestor in node.ancestors
    )


def _with_call(calls: Calls, answer: Answer) -> Answer:
    """Return the answer with the call whose reply it is, or what its reader was given."""
    if answer.is_extracted:
        reader = _component_of_place(calls.run, answer.place)
        documents = () if reader is None else calls.call_by_span[reader].input_documents
        return replace(answer, documents=documents or answer.documents)
    writer = _writer_of(calls, (answer.text, *answer.replies))
    if writer is None:
        return answer
    return replace(answer, writing_call=calls.call_by_span[writer])


def _writer_of(calls: Calls, texts: tuple[str | None, ...]) -> Node | None:
    """The last call of a model that replied one of these texts; None if none did."""
    wanted_texts = {as_one_line(text) for text in texts if text and text.strip()}
    last_writer = None
    for node in calls.models:
        texts_replied = {as_one_line(reply.text) for reply in replies(node)}
        if not wanted_texts.isdisjoint(texts_replied):
            last_writer = node
    return last_writer


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """List what the user got: for each output socket of the run its place and value.

    Example: the output {"llm": {"replies": ("Anna",)}} gives [("llm.replies",
    ("Anna",))]. Of an agent's messages only the last one is listed.
    """
    # a pipeline's output is grouped by component, an agent's is not
    sockets_by_component = run.output
    if run.root.operation == AGENT:
        sockets_by_component = {"": run.output}
    outputs = []
    for component, sockets in sockets_by_component.items():
        if isinstance(sockets, dict):
            for name, value in _without_messages_before_the_last(sockets).items():
                outputs.append((f"{component}.{name}" if component else name, value))
    return outputs


def _without_messages_before_the_last(sockets: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an agent gave, with its last message alone; anything else as it is.

    Empty if the agent ran out of steps before it answered.
    """
    if "last_message" not in sockets:
        return sockets
    last_message = sockets["last_message"]
    if _ran_out_of_steps(sockets, last_message):
        return {}
    return {"last_message": last_message}


def _ran_out_of_steps(sockets: Mapping[str, Any], last_message: Any) -> bool:
    """Whether an agent's last message is a tool's result that it could not go on with.

    A tool's result is the answer where the agent was told to end with that tool.

    Args:
        sockets: What the agent gave.
        last_message: Its last message.
    """
    if not isinstance(last_message, Message) or last_message.role != "tool":
        return False
    tools = {call.name for call in last_message.tool_calls}
    return bool(tools) and sockets.get("exit_reason") not in tools


def _objects(place: str, value: object) -> list[Answer]:
    """List the answer objects in a socket's value; of extracted passages only the best.

    Extracted passages are those that a reader (an extractive model) cut out of
    documents. It lists them from the best to the worst. Example: of the passages
    "1874" and "1880" only "1874" is listed. A passage without a text says that the
    documents hold no answer; it is listed only if no passage has a text.
    """
    all_objects: list[Answer] = list(find_instances(value, Answer))
    extracted = [answer for answer in all_objects if answer.is_extracted]
    extracted_with_text = [answer for answer in extracted if answer.text]
    best_extracted = (extracted_with_text or extracted)[:1]
    objects = []
    for answer in all_objects:
        is_best = any(answer is best for best in best_extracted)
        if is_best or not answer.is_extracted:
            objects.append(replace(answer, place=place))
    return objects


def _answers_in_socket(calls: Calls, place: str, value: object) -> Iterator[Answer]:
    """Yield the answers among the messages or texts of an output socket.

    Example: "llm.replies" with two replies yields two answers. A text that is only the
    question or a prompt is none.

    Args:
        calls: The calls of the run.
        place: The path of the socket.
        value: What it gave.
    """
    values = value if isinstance(value, tuple) else (value,)
    messages = [message for message in values if isinstance(message, Message)]
    if messages:
        for message in _answering_messages(messages):
            yield Answer(message.text, place)
        return
    for text in texts_in(value):
        if text.strip() and _is_answer(calls, place, text):
            yield Answer(text, place)


def _answering_messages(messages: list[Message]) -> list[Message]:
    """The messages of an assistant or a tool; of a conversation only the last of these."""
    answering = [
        message
        for message in messages
        if message.role in ("assistant", "tool") and message.text.strip()
    ]
    is_conversation = len(answering) < len(messages)
    return answering[-1:] if is_conversation else answering


def _is_answer(calls: Calls, place: str, text: str) -> bool:
    """Whether a text answers, by the name of its socket or because a model wrote it."""
    name = place.rpartition(".")[2]
    if name in _ANSWER_SOCKETS:
        return True
    if name in _QUESTION_SOCKETS:
        return False
    return _writer_of(calls, (text,)) is not None


def _component_of_place(run: Run, place: str) -> Node | None:
    """The last run of the component to which a place (``component.socket``) belongs."""
    path = place.rpartition(".")[0]
    return next(
        (node for node in reversed(list(run.components())) if node.path == path), None
    )


def _at_end_of_run(run: Run, candidates: list[Answer]) -> list[Answer]:
    """Keep the texts that no further component worked on.

    Example: "writer.replies" is the input of a builder, and "reviewer.replies" is the
    input of none: the reviewer's text stays. First a text goes if its socket is another
    component's input, then if any output of its component is. If no text would be left,
    all stay.
    """
    for by_component in (False, True):
        at_end = [
            answer
            for answer in candidates
            if not _is_input_of_another(run, answer.place, by_component=by_component)
        ]
        candidates = at_end or candidates
    return candidates


def _is_input_of_another(run: Run, place: str, *, by_component: bool) -> bool:
    """Whether a component takes as its input what a socket gave.

    Args:
        run: The run.
        place: The place of the socket.
        by_component: Whether any output of the same component counts.
    """
    node = _component_of_place(run, place)
    if node is None:
        return False
    sockets = list(node.output_sockets.values())
    if not by_component:
        sockets = [node.output_sockets.get(place.rpartition(".")[2]) or {}]
    return any(socket.get("receivers") for socket in sockets)


def documents_in_output(run: Run) -> list[tuple[Document, ...]]:
    """List the documents of each socket of a run's output that holds any."""
    lists = [tuple(documents_in(value)) for _, value in _outputs(run)]
    return [documents for documents in lists if documents]
