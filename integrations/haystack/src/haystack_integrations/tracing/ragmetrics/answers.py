"""What a run answered: answer objects, else texts in its output, by the name of their socket or their writer."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, replies
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_TOOL, Node, Run

from ragmetrics_core.capture import (
    Answer,
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
    """Find the answers of a run.

    They come from the first of these sources that has any:

    1. answer objects in the run's output, such as an ``AnswerBuilder`` makes;
    2. answer objects of the last component that made any besides drafts. A draft is an
       answer that a later model was shown before it wrote a text of the output;
    3. texts in the run's output: those that a model wrote, and those of a socket that
       has a usual name for answers. Texts that a later component worked on are left
       out. If texts of several sockets remain, texts of calls that were shown documents
       go before the others.

    A reader component (an extractive model) cuts passages out of documents. Its
    passages are answer objects, too, but they yield to a text of source 3.

    Args:
        calls: The calls of the run.

    Returns:
        The answers, each with the call that wrote it. If a second component handed an
        answer on unchanged, the answer counts once. Empty if there is no answer: the
        core's rules look for one then.
    """
    outputs = _outputs(calls.run)
    texts: list[Answer] = []
    objects: list[Answer] = []
    for place, value in outputs:
        texts += _answers_in_socket(calls, place, value)
        objects += _objects(place, value)
    final_texts = _at_end_of_run(calls.run, texts)
    if not final_texts:
        final_texts = _answer_cut_from_reply(calls, outputs)
    texts_with_calls = _with_calls_and_doubts(calls, final_texts, texts)
    if not objects:
        objects = _objects_of_last_component(calls, texts_with_calls)
    are_all_extracted = all(answer.is_extracted for answer in objects)
    if objects and are_all_extracted and texts_with_calls:
        # a reader and a model both answered: the model's text is the likelier answer
        texts_with_doubt = [
            replace(answer, doubts=(*answer.doubts, _BESIDE_A_READER))
            for answer in texts_with_calls
        ]
        return _without_forwarded_copies(texts_with_doubt)
    if objects:
        objects_with_calls = [_with_call(calls, answer) for answer in objects]
        return _without_forwarded_copies(objects_with_calls)
    has_several_places = len({answer.place for answer in texts_with_calls}) > 1
    if has_several_places:
        # Texts whose call was shown documents count before others.
        from_documents = [answer for answer in texts_with_calls if answer.documents]
        texts_with_calls = from_documents or texts_with_calls
    return _without_forwarded_copies(texts_with_calls)


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
    final texts.

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

    It is the only text of the run's output, and a part of what a model replied.

    Args:
        calls: The calls of the run.
        outputs: The run's output: for each socket its place and value.

    Returns:
        The answer; empty if the run gave several texts, if no reply holds the text, or
        if its socket is named for questions.
    """
    texts = [(place, text) for place, value in outputs for text in texts_in(value)]
    if len(texts) != 1:
        return []
    place, text = texts[0]
    if place.rpartition(".")[2] in _QUESTION_SOCKETS:
        return []
    text_in_one_line = as_one_line(text)
    if not text_in_one_line:
        return []
    for model in calls.models:
        for reply in replies(model):
            if text_in_one_line in as_one_line(reply.text):
                return [Answer(text, place)]
    return []


def _with_doubt(answer: Answer, texts_passed_on: list[Answer]) -> Answer:
    """Put an answer in doubt if it may be a remark on another text of the output.

    That is so if the prompt of the call that wrote it holds another text, which the
    user got as well. Without such a text the answer stays as it is.

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
    for ancestor in node.ancestors:
        # made inside a tool, and the agent went on after the tool
        if ancestor.operation == AGENT_TOOL and not ancestor.ends_agent:
            return True
    draft_text = as_one_line(draft.text)
    if not draft_text:
        return False
    # a later call was shown the object, and wrote a final text from it
    lines_shown_later = []
    for answer in final_texts:
        call = answer.writing_call
        # a verdict such as "yes" judges the object, and does not replace it
        if call is None or _is_verdict(answer.text or ""):
            continue
        if call.began > node.closed:
            lines_shown_later += [as_one_line(message.text) for message in call.prompt]
    return draft_text in " ".join(lines_shown_later)


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """Find all replies of the last call of a component, or of a model inside it.

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
        answers_of_model.append(_with_writing_call(calls, last_model, answer))
    return answers_of_model


def _is_named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(
        f".{name}."
    )


def _with_call(calls: Calls, answer: Answer) -> Answer:
    """The answer with the call that wrote it, and the documents that reached the call.

    Where no call wrote it, its documents are those that reached the component that gave
    it.
    """
    writer = None
    if not answer.is_extracted:
        writer = _writer_of(calls, (answer.text, *answer.replies))
    if writer is not None:
        return _with_writing_call(calls, writer, answer)
    component = _component_of_place(calls.run, answer.place)
    documents = None
    if component is not None:
        documents, _ = calls.documents_that_reached(component)
    return replace(answer, documents=documents or answer.documents)


def _is_verdict(text: str) -> bool:
    """True for a judgement in a word, such as "yes", and for a list of questions."""
    if _VERDICT.fullmatch(text):
        return True
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and all(line.endswith("?") for line in lines)


def _with_writing_call(calls: Calls, node: Node, answer: Answer) -> Answer:
    """The answer with the call of a span that wrote it.

    It also gets the documents that reached the call. It keeps its own where no input
    holds any.
    """
    documents, _ = calls.documents_that_reached(node)
    return replace(
        answer,
        writing_call=calls.call_by_span[node],
        documents=answer.documents if documents is None else documents,
    )


def _writer_of(calls: Calls, texts: tuple[str | None, ...]) -> Node | None:
    """The last call one of whose replies is one of these texts."""
    wanted_texts = {as_one_line(text) for text in texts if text and text.strip()}
    writers = [
        node
        for node in calls.models
        if any(as_one_line(reply.text) in wanted_texts for reply in replies(node))
    ]
    return writers[-1] if writers else None


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """List what the user got: for each output socket of the run its place and value.

    An agent gives all its messages. Only its last message is listed, and not even that
    one if the agent ran out of steps before it answered.
    """
    # a pipeline's output is grouped by component, an agent's is not
    sockets_by_component = run.output
    if run.root.operation == AGENT:
        sockets_by_component = {"": run.output}
    outputs = []
    for component, sockets in sockets_by_component.items():
        if not isinstance(sockets, dict):
            continue
        is_of_agent = "last_message" in sockets
        for name, value in sockets.items():
            is_last_message = name == "last_message"
            if is_of_agent and not is_last_message:
                continue
            if is_last_message and _ran_out_of_steps(sockets, value):
                continue
            outputs.append((f"{component}.{name}" if component else name, value))
    return outputs


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

    A reader lists its passages from the best to the worst. A passage without a text
    says that the documents hold no answer; it counts only if there is no other.
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
    """Yield the answers among the texts of an output socket.

    - Messages of an assistant or a tool are answers. If messages of others, such as the
      user, stand among them, the socket holds a conversation: only the last message of
      an assistant or tool answers then.
    - A text that is no message is an answer if its socket is named for answers, such as
      "replies". It is also one if a model wrote it and its socket is not named for
      questions.

    Args:
        calls: The calls of the run.
        place: The path of the socket.
        value: What it gave: texts or messages.
    """
    values = value if isinstance(value, tuple) else (value,)
    messages = [message for message in values if isinstance(message, Message)]
    if messages:
        replies_in_socket = [
            message
            for message in messages
            if message.role in ("assistant", "tool") and message.text.strip()
        ]
        has_messages_of_others = len(replies_in_socket) < len(messages)
        if has_messages_of_others:  # a conversation
            replies_in_socket = replies_in_socket[-1:]
        for message in replies_in_socket:
            yield Answer(message.text, place)
        return
    name = place.rpartition(".")[2]
    for text in texts_in(value):
        if not text.strip():
            continue
        is_answer = name in _ANSWER_SOCKETS
        if not is_answer and name not in _QUESTION_SOCKETS:
            is_answer = _writer_of(calls, (text,)) is not None
        if is_answer:
            yield Answer(text, place)


def _component_of_place(run: Run, place: str) -> Node | None:
    """The last run of the component to which a place (``component.socket``) belongs."""
    path = place.rpartition(".")[0]
    return next(
        (node for node in reversed(list(run.components())) if node.path == path), None
    )


def _at_end_of_run(run: Run, candidates: list[Answer]) -> list[Answer]:
    """Keep those texts that no further component worked on.

    A text of a socket that is another component's input is left out, and then a text of
    a component any output of which is another component's input. Where that would leave
    no text, all texts stay.
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


def documents_in_output(run: Run) -> list[tuple[str, Any]]:
    """List the documents in a run's output, by the place of their socket."""
    return [
        (place, documents)
        for place, value in _outputs(run)
        if (documents := tuple(documents_in(value)))
    ]
