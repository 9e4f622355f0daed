"""What a run answered: answer objects, else texts in its output, by the name of their socket or their writer."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, replies
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_TOOL, Node, Run

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    as_one_line,
    documents_in,
    find_instances,
    texts_in,
)

_ANSWER_SOCKETS = ("replies", "reply", "answer", "answers", "response", "last_message")
_VERDICT = re.compile(
    r"(?is)\W*(yes|no|true|false|pass(ed)?|fail(ed)?|(in)?valid|(un)?(safe|grounded)|\d+)\W*|\s*{(?!.*\"answer\").*}\s*"
)
_MAY_BE_A_REMARK = (
    "the answer's call was shown another text that is an output, too: the answer may be"
    " a remark on it"
)
_BESIDE_A_READER = (
    "a reader cut answers out of documents in the same run: the text of the model is"
    " taken for the answer"
)
_QUESTION_SOCKETS = ("query", "queries", "question", "questions", "prompt")


def answers(calls: Calls) -> list[Answer]:
    """Find the answers of a run, each with the call that wrote it.

    The first of these that the run has are its answers:

    1. Answer objects in its output, such as an ``AnswerBuilder`` makes.
    2. The answer objects of the last component that made some.
    3. Texts in its output, such as a model's replies. If several named outputs hold
       texts: the texts whose model was shown documents.

    Example: the output {"llm": {"replies": ["Anna"]}} gives the answer "Anna" with the
    call of "llm". If all objects are passages that a reader (an extractive model) cut
    out of documents, the texts go first. An answer that a second component handed on
    counts once.

    Returns:
        The answers; empty if there is none: the core's rules look for one then.
    """
    outputs = _outputs(calls.run)
    texts = _answers_in_texts(calls, outputs)
    objects = _answer_objects(calls, outputs, texts)
    are_all_extracted = all(answer.is_extracted for answer in objects)
    if not objects:
        found = _preferring_those_of_documents(calls, texts)
    elif texts and are_all_extracted:
        # a reader cut out "1874", and a model wrote "It opened in 1874.": the model's
        found = [
            replace(answer, doubts=(*answer.doubts, _BESIDE_A_READER))
            for answer in texts
        ]
    else:
        found = [_with_call(calls, answer) for answer in objects]
    return _without_forwarded_copies(found)


def _answer_objects(
    calls: Calls, outputs: list[tuple[str, Any]], texts: list[Answer]
) -> list[Answer]:
    """Find the answer objects in a run's output, else those of its last component.

    Args:
        calls: The calls of the run.
        outputs: The run's output: for each socket its place and value.
        texts: The texts of the output; an object from which a model wrote one is a draft.
    """
    objects: list[Answer] = []
    for place, value in outputs:
        objects += _objects(place, value)
    return objects or _objects_of_last_component(calls, texts)


def _answers_in_texts(calls: Calls, outputs: list[tuple[str, Any]]) -> list[Answer]:
    """Find the answers among the texts of a run's output, each with its call and doubts.

    Args:
        calls: The calls of the run.
        outputs: The run's output: for each socket its place and value.
    """
    texts: list[Answer] = []
    for place, value in outputs:
        texts += _answers_in_socket(calls, place, value)
    final_texts = _at_end_of_run(calls.run, texts)
    if not final_texts:
        final_texts = _answer_cut_from_reply(calls, outputs)
    return _with_calls_and_doubts(calls, final_texts, texts)


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
    return behind_documents or texts


def _with_calls_and_doubts(
    calls: Calls, final_texts: list[Answer], all_texts: list[Answer]
) -> list[Answer]:
    """Add to the answers of a run their calls, and a doubt where one may be a remark.

    Args:
        calls: The calls of the run.
        final_texts: The answers.
        all_texts: All texts of the output; an answer may be a remark on one of them.
    """
    texts_passed_on = []
    for answer in all_texts:
        if _is_input_of_another(calls.run, answer.place, by_component=False):
            texts_passed_on.append(answer)
    answers_with_calls = []
    for answer in final_texts:
        answer_with_call = _with_call(calls, answer)
        answers_with_calls.append(_with_doubt(answer_with_call, texts_passed_on))
    return answers_with_calls


def _objects_of_last_component(calls: Calls, texts: list[Answer]) -> list[Answer]:
    """Find the answer objects of the last component that made some besides drafts.

    An object is a draft if a later call of a model was shown it and wrote one of the
    final texts. Example: an ``AnswerBuilder`` made "Rome.", and a second model was
    shown "Rome." and wrote the run's output: "Rome." is a draft.

    Args:
        calls: The calls of the run.
        texts: The final texts of the output, each with the call that wrote it.
    """
    last_first = sorted(
        calls.run.components(), key=lambda node: node.closed, reverse=True
    )
    for node in last_first:
        objects: list[Answer] = []
        for name, value in node.output_by_socket.items():
            objects += _objects(f"{node.path}.{name}", value)
        finished = [answer for answer in objects if not _is_draft(node, answer, texts)]
        if finished:
            return finished
    return []


def _answer_cut_from_reply(
    calls: Calls, outputs: list[tuple[str, Any]]
) -> list[Answer]:
    """Find the answer that a component cut out of a model's reply, such as from JSON.

    Example: the model replies {"answer": "Anna"}, and the run's only text is "Anna".
    Empty if no model's reply holds the text.

    Args:
        calls: The calls of the run.
        outputs: The run's output: for each socket its place and value.
    """
    only_text = _only_text(outputs)
    if only_text is None:
        return []
    text_in_one_line = as_one_line(only_text.text)
    for model in calls.models:
        for reply in replies(model):
            if text_in_one_line in as_one_line(reply.text):
                return [only_text]
    return []


def _only_text(outputs: list[tuple[str, Any]]) -> Answer | None:
    """Return the only text of a run's output; None for none or several.

    None also for a text in a socket such as "query", which hands the question on.

    Args:
        outputs: For each socket its place, such as "parser.answer", and its value.
    """
    texts = [
        Answer(text, place) for place, value in outputs for text in texts_in(value)
    ]
    if len(texts) != 1:
        return None
    (only_text,) = texts
    name_of_socket = only_text.place.rpartition(".")[2]
    if name_of_socket in _QUESTION_SOCKETS or not as_one_line(only_text.text):
        return None
    return only_text


def _with_doubt(answer: Answer, texts_passed_on: list[Answer]) -> Answer:
    """Put an answer in doubt if it may be a remark on another text of the output.

    Example: the user gets "Rome is old" and "Well written.", and the prompt of the
    second held "Rome is old": the second may only judge it. Otherwise the answer stays
    as it is.

    Args:
        answer: The answer, with the call that wrote it.
        texts_passed_on: Texts of the output that a component took as input, too.
    """
    prompt = answer.writing_call.prompt if answer.writing_call is not None else ()
    prompt_text = " ".join(as_one_line(message.text) for message in prompt)
    for other in texts_passed_on:
        other_text = as_one_line(other.text)
        is_other = other_text != as_one_line(answer.text)
        if other.text and is_other and other_text in prompt_text:
            return replace(answer, doubts=(_MAY_BE_A_REMARK,))
    return answer


def _is_draft(node: Node, draft: Answer, final_texts: list[Answer]) -> bool:
    """Whether an answer object is only a draft of the run's answer.

    Args:
        node: The span of the component that made the object.
        draft: The object.
        final_texts: The final texts of the output, each with the call that wrote it.
    """
    if _is_in_tool_before_answer(node):
        return True
    draft_text = as_one_line(draft.text)
    return bool(draft_text) and draft_text in _shown_after(node, final_texts)


def _is_in_tool_before_answer(node: Node) -> bool:
    """Whether a span is inside a tool after which its agent went on."""
    return any(
        ancestor.operation == AGENT_TOOL and not ancestor.ends_agent
        for ancestor in node.ancestors
    )


def _shown_after(node: Node, final_texts: list[Answer]) -> str:
    """What the calls were shown, in one line, that wrote final texts after a span.

    A verdict such as "yes" judges what its call was shown, and does not replace it.
    """
    lines = []
    for answer in final_texts:
        call = answer.writing_call
        is_verdict = _is_verdict(answer.text or "")
        if call is not None and call.began > node.closed and not is_verdict:
            lines += [as_one_line(message.text) for message in call.prompt]
    return " ".join(lines)


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """Find all replies of the last call of a component, or of a model inside it.

    Example: the generator "llm" ran twice, and gave two replies the second time: these
    two are returned.

    Args:
        calls: The calls of the run.
        name: The component's name, or its path.
    """
    models = [node for node in calls.models if replies(node) and _is_named(node, name)]
    if not models:
        return []
    last_model = models[-1]
    answers_of_model = []
    for reply in replies(last_model):
        answer = Answer(reply.text, f"{last_model.path}.replies")
        answers_of_model.append(
            replace(answer, writing_call=calls.call_by_span[last_model])
        )
    return answers_of_model


def _is_named(node: Node, name: str) -> bool:
    """Tell whether a call is that of a component, or stands inside it.

    The name is the component's path, or the end of it: "agent.llm" and "llm" both name
    the call with the path "agent.llm", and "agent" names it, too.
    """
    is_inside = f"{node.path}.".startswith(f"{name}.")
    ends_with_name = f".{node.path}.".endswith(f".{name}.")
    return is_inside or ends_with_name


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


def _is_verdict(text: str) -> bool:
    """True for a judgement in a word, such as "yes", and for a list of questions."""
    if _VERDICT.fullmatch(text):
        return True
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and all(line.endswith("?") for line in lines)


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


def _without_forwarded_copies(candidates: list[Answer]) -> list[Answer]:
    """Drop answers that a second component only handed on.

    The answer stays at the first place that gave it. Equal answers of one place are
    several answers.
    """
    place_of_first: dict[tuple[str | None, str | None], str] = {}
    answers_kept = []
    for answer in candidates:
        first_place = place_of_first.setdefault(
            (answer.text, answer.question), answer.place
        )
        if answer.place == first_place:
            answers_kept.append(answer)
    return answers_kept


def documents_in_output(run: Run) -> list[tuple[Document, ...]]:
    """List the documents of each socket of a run's output that holds any."""
    lists = [tuple(documents_in(value)) for _, value in _outputs(run)]
    return [documents for documents in lists if documents]
