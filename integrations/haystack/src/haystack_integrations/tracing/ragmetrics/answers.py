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

    Answer objects, which an ``AnswerBuilder`` makes for example, come first: those in
    the run's output, else those of the last component that gave any that are no drafts.
    Without answer objects the answers are texts in the run's output: texts that a model
    wrote, and texts of a socket that has a usual name for answers.

    Args:
        calls: The calls of the run.

    Returns:
        The answers, each with the call that wrote it. If there is none, the core's
        rules look for an answer.
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
    # a reader may stand beside the model, or before it
    is_read_alone = bool(objects) and all(answer.is_extracted for answer in objects)
    if is_read_alone and texts_with_calls:
        return [
            replace(answer, doubts=(*answer.doubts, _BESIDE_A_READER))
            for answer in _without_passed_on(texts_with_calls)
        ]
    if objects:
        return _without_passed_on([_with_call(calls, answer) for answer in objects])
    has_several_places = len({answer.place for answer in texts_with_calls}) > 1
    if has_several_places:
        # Texts whose call was shown documents count before others.
        from_documents = [answer for answer in texts_with_calls if answer.documents]
        texts_with_calls = from_documents or texts_with_calls
    return _without_passed_on(texts_with_calls)


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
        if _received(calls.run, answer.place, by_component=False):
            texts_passed_on.append(answer)
    answers_with_calls = []
    for answer in final_texts:
        answer_with_call = _with_call(calls, answer)
        answers_with_calls.append(_with_doubt(answer_with_call, texts_passed_on))
    return answers_with_calls


def _objects_of_last_component(calls: Calls, texts: list[Answer]) -> list[Answer]:
    """The answer objects of the last component that gave any; drafts do not count.

    Args:
        calls: The calls of the run.
        texts: The answers among the texts of the output; a call that wrote one of them
            may have been shown a draft.
    """
    last_first = sorted(
        calls.run.components(), key=lambda node: node.closed, reverse=True
    )
    for node in last_first:
        objects: list[Answer] = []
        for name, value in node.sockets.items():
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
    """Whether an answer object is not the run's answer yet.

    It is a draft if it was made inside of a tool, whose result an agent went on with,
    or if a later call that wrote an answer was shown it.

    Args:
        node: The span of the component that gave the object.
        draft: The object.
        final_texts: The answers among the texts of the output, with their calls. A
            verdict such as "yes" is no answer here.
    """
    for ancestor in node.ancestors:
        if ancestor.operation == AGENT_TOOL and not ancestor.ends_agent:
            return True
    draft_text = as_one_line(draft.text)
    if not draft_text:
        return False
    lines_shown_later = []
    for answer in final_texts:
        call = answer.writing_call
        if call is None or _is_verdict(answer.text or ""):
            continue
        if call.began > node.closed:
            lines_shown_later += [as_one_line(message.text) for message in call.prompt]
    return draft_text in " ".join(lines_shown_later)


def replies_of(calls: Calls, name: str) -> list[Answer]:
    """All replies of the last call of a component, or of the calls inside it."""
    last_calls = [
        node for node in calls.models if replies(node) and _is_named(node, name)
    ][-1:]
    return [
        _with_documents_of(calls, node, Answer(reply.text, f"{node.path}.replies"))
        for node in last_calls
        for reply in replies(node)
    ]


def _is_named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(
        f".{name}."
    )


def _with_call(calls: Calls, answer: Answer) -> Answer:
    """The answer with the call that wrote it, and the documents that reached the call.

    Where no call wrote it, its documents are those that its component got.
    """
    node = (
        None
        if answer.is_extracted
        else _writer_of(calls, (answer.text, *answer.replies))
    )
    if node is not None:
        return _with_documents_of(calls, node, answer)
    component = _component(calls.run, answer.place)
    documents = calls.flow(component)[0] if component is not None else None
    return replace(answer, documents=documents or answer.documents)


def _is_verdict(text: str) -> bool:
    """True for a judgement in a word, and for a list of further questions."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return _VERDICT.fullmatch(text) is not None or (
        len(lines) > 1 and all(line.endswith("?") for line in lines)
    )


def _with_documents_of(calls: Calls, node: Node, answer: Answer) -> Answer:
    documents, _ = calls.flow(node)
    return replace(
        answer,
        writing_call=calls.of[node],
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
    """What the user got: for each output socket of the run its place and its value.

    Of an agent, which gives all its messages, only the last message counts. It does not
    if it is the result of a tool at which the agent ran out of steps.
    """
    # an agent gives sockets, a pipeline those of several components by name
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
            if is_last_message and _cut_short(sockets, value):
                continue
            outputs.append((f"{component}.{name}" if component else name, value))
    return outputs


def _cut_short(sockets: Mapping[str, Any], last_message: Any) -> bool:
    """True for an agent that ran out of steps at the result of a tool."""
    tools = (
        {call.name for call in last_message.tool_calls}
        if isinstance(last_message, Message) and last_message.role == "tool"
        else set()
    )
    return bool(tools) and sockets.get("exit_reason") not in tools


def _objects(place: str, value: object) -> list[Answer]:
    """One answer per generated answer; of extracted ones the best."""
    answers_there: list[Answer] = list(find_instances(value, Answer))
    extracted = [answer for answer in answers_there if answer.is_extracted]
    best = next(
        (answer for answer in extracted if answer.text),
        extracted[0] if extracted else None,
    )
    return [
        replace(answer, place=place)
        for answer in answers_there
        if not answer.is_extracted or answer is best
    ]


def _answers_in_socket(calls: Calls, place: str, value: object) -> Iterator[Answer]:
    """Yield the answers among the texts of an output socket.

    Messages of an assistant or a tool are answers; of a conversation only the last one
    is. Any other text is an answer if its socket is named for answers, or if a model
    wrote it and the socket is not named for questions.

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
        is_conversation = len(replies_in_socket) < len(messages)
        if is_conversation:
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


def _component(run: Run, place: str) -> Node | None:
    """The last visit of the component of a place."""
    path = place.rpartition(".")[0]
    return next(
        (node for node in reversed(list(run.components())) if node.path == path), None
    )


def _at_end_of_run(run: Run, candidates: list[Answer]) -> list[Answer]:
    """The answers at the end of a run.

    Of several places those count whose socket no component took; of these, those whose
    component gave nothing to another one.
    """
    # the second sieve counts only where it leaves any
    for by_component in (False, True):
        candidates = [
            answer
            for answer in candidates
            if not _received(run, answer.place, by_component=by_component)
        ] or candidates
    return candidates


def _received(run: Run, place: str, *, by_component: bool) -> bool:
    """Whether a component took what a socket gave.

    Args:
        run: The run.
        place: The place of the socket.
        by_component: Whether any socket of the same component counts.
    """
    node = _component(run, place)
    spec = node.gives if node is not None else {}
    sockets = (
        spec.values() if by_component else [spec.get(place.rpartition(".")[2]) or {}]
    )
    return any(socket.get("receivers") for socket in sockets)


def _without_passed_on(candidates: list[Answer]) -> list[Answer]:
    """The answers without those that a second component passed on.

    Equal answers of one component stay.
    """
    place_of_first: dict[tuple[str | None, str | None], str] = {}
    return [
        answer
        for answer in candidates
        if place_of_first.setdefault((answer.text, answer.question), answer.place)
        == answer.place
    ]


def documents_left(run: Run) -> list[tuple[str, Any]]:
    """Lists of documents in a run's output, by place."""
    return [
        (place, documents)
        for place, value in _outputs(run)
        if (documents := tuple(documents_in(value)))
    ]
