"""From a recorded run, or from what a pipeline returned, to the core's trees of calls. Pure.

What the user asked stands among what was handed in. Example: ``run({"builder":
{"question": "Who?", "tone": "kind"}})`` hands in two texts. "Who?" is the question, since
an input named "question" got it. What a run answered are answer objects, else messages or
a text in its output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    COMPONENT,
    PIPELINE,
    Node,
    Run,
    copied,
)

from ragmetrics_core.capture import (
    Answer,
    Message,
    SettingError,
    Tree,
    answer_in,
    documents_in,
    find_instances,
    history_in,
    names_a_history,
    question_among,
    texts_in,
    turns_before_question,
)


def as_run(result: object) -> Run:
    """Return a run as it is, or make one of what an application got from Haystack.

    Example: the result {"llm": {"replies": ["Anna"]}} becomes a run without calls whose
    output it is.

    Args:
        result: A run, the result of a pipeline or agent, an answer, or several answers.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(result, Run):
        return result
    output = copied(result)
    # an answer, or several, as a pipeline's component returns them
    several = (output,) if isinstance(output, Answer) else output
    if isinstance(several, tuple) and all(isinstance(each, Answer) for each in several):
        output = {"answers": {"answers": several}}
    if not isinstance(output, dict):
        raise SettingError(
            "samples_from() takes a run, a pipeline's result or answers, got"
            f" {type(result).__name__}"
        )
    is_of_agent = "last_message" in output
    root = Node(
        AGENT if is_of_agent else PIPELINE,
        name="",
        type="",
        parent=None,
        opened=1,
        closed=1,
        output=output,
    )
    run = Run()
    run.nodes.append(root)
    return run


def trees(run: Run) -> Iterator[Tree]:
    """Make the tree of a run, of which the core makes a sample for each answer."""
    calls = Calls(run)
    is_component = run.root.operation == COMPONENT
    has_searched = any(call.kind == "retriever" for call in calls.root.walk())
    # an embedder that ran by itself belongs to no turn
    is_preparation = (
        is_component
        and calls.root.kind == "step"
        and not (calls.root.input_documents or has_searched)
    )
    if calls.root.kind == "ignored" or is_preparation:
        return
    # what a run returned before it failed is no answer
    found = () if run.root.error else answers(run)
    # a component that ran by itself need not answer, nor was it asked by the user
    is_asked = not is_component or calls.root.kind in ("agent", "step")
    prompts = [[message.text for message in call.prompt] for call in calls.models]
    question, doubts = question_among(
        groups_of_inputs(run) if is_asked else (),
        prompts,
        found[0].question if found and is_asked else None,
    )
    outputs = outputs_by_place(run)
    documents = [tuple(documents_in(value)) for value in outputs.values()]
    flow_documents = next(filter(None, reversed(documents)), None)
    if flow_documents and not found and len(run.nodes) == 1 and not is_component:
        # a result by itself, as of samples_from(), whose answer is unknown
        found = (Answer(None, "the result", documents=flow_documents),)
    by_id = {each.id: each for node in run.nodes for each in documents_in(node.output)}
    is_resumed = _is_resumed(run)
    may_go_on = run.paused or run.root.error is not None  # by a snapshot
    tree = Tree(
        calls.root,
        question=question,
        doubts=doubts,
        answers=found,
        output=outputs,
        flow_documents=flow_documents,
        gives_only_documents=(not is_component or has_searched)
        and any(documents)
        and all(
            each or value == ()
            for each, value in zip(documents, outputs.values(), strict=True)
        ),
        is_complete=run.complete,
        task_or_thread=run.task_or_thread,
        # a run and the one that resumes it have one key, the input
        resumption_key=repr(run.input) if may_go_on or is_resumed else None,
        is_paused=run.paused,
        continues=is_resumed,
        # images and the like
        documents_without_text=tuple(
            each for each in by_id.values() if not each.text.strip()
        ),
        native_run=run,
        lookup_outputs=(*_values_by_place(run), run.output),
        # what a model is given is its prompt
        lookup_inputs=() if calls.root.kind == "model" else (run.input, _talk(calls)),
        to_plain_value=copied,
    )
    _add_history(tree, calls)
    yield tree


def _is_resumed(run: Run) -> bool:
    """Whether a run goes on from a snapshot of an earlier one.

    A component of such a run was sent more than the components that ran before it send.
    """
    have_run: set[str] = set()
    for node in run.components():
        if node.parent is not run.root:
            continue
        from_the_user = run.input.get(node.name) or {}
        for name, senders in node.senders.items():
            sent = node.input.get(name)
            if not sent or name in from_the_user:
                continue
            # a joiner is sent several lists
            are_lists = isinstance(sent, tuple) and isinstance(sent[0], tuple)
            n_sent = len(sent) if are_lists else 1
            if n_sent > len(have_run.intersection(senders)):
                return True
        have_run.add(node.name)
    return False


def _talk(calls: Calls) -> Mapping[str, Any]:
    """What components other than models were given in inputs named like a history, by the name.

    Example: a memory sent "They spoke of ferries." to the input "memories" of a prompt
    builder. A template that is made anew for each run, and that the answer's model is
    not shown, may hold the talk itself.
    """
    talk: dict[str, Any] = {}
    shown_last = {message.text for call in calls.models[-1:] for message in call.prompt}
    for node in calls.run.components():
        if calls.call_by_span[node].kind != "step":
            continue
        for name, value in node.input.items():
            if names_a_history(name):
                talk[name] = value
        if node.input.get("template"):
            template = tuple(texts_in(node.input["template"]))
            if template and shown_last.isdisjoint(texts_in(node.output)):
                talk["history"] = template
    return talk


def _values_by_place(run: Run) -> tuple[Mapping[str, Any], ...]:
    """The mappings in which the user's keys, such as ``contexts_from``, are looked up.

    Example: ``contexts_from="retriever.documents"`` is found in the first. They hold the
    outputs and the inputs of the components, under the names ``component`` and
    ``component.socket``; the last run of a component counts.
    """
    outputs: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    for node in run.components():
        path = node.path
        for by_place, values in ((outputs, node.output), (inputs, node.input)):
            if isinstance(values, dict):
                # the name of a model leads to its replies
                by_place[path] = values.get("replies", values)
                for name, value in values.items():
                    by_place[f"{path}.{name}"] = value
    return outputs, inputs


def groups_of_inputs(run: Run) -> list[Mapping[str, Any]]:
    """What the user handed in, a group for each component of a pipeline."""
    is_pipeline = run.root.operation == PIPELINE
    groups = run.input.values() if is_pipeline else [run.input]
    return [inputs for inputs in groups if isinstance(inputs, dict)]


def _add_history(tree: Tree, calls: Calls) -> None:
    """Write the earlier turns of the conversation into a tree whose question is known.

    They are those that a component such as a memory gave before the last model was
    called, else those among the user's inputs. A model and an agent write messages of
    their own, which other components hand on. Those of a prompt builder, or of a
    component that was given documents, may be examples.
    """
    ends_before = calls.models[-1].began if calls.models else math.inf
    own_replies = {call.reply.text for call in calls.models if call.reply is not None}
    for node in reversed(list(calls.run.components())):
        call = calls.call_by_span[node]
        is_writer = call.kind in ("model", "agent") or any(documents_in(node.input))
        if is_writer or "Builder" in node.type or node.closed > ends_before:
            continue
        messages = list(find_instances(node.output, Message))
        turns = turns_before_question(messages, tree.question, documents=())
        if turns and own_replies.isdisjoint(turn.content for turn in turns):
            tree.history = turns
            return
    for inputs in groups_of_inputs(calls.run):
        tree.history = tree.history or history_in(inputs, tree.question, depth=1)


def answers(run: Run) -> tuple[Answer, ...]:
    """Find the answers of a run; the first of these that it has.

    1. Answer objects in its output, such as an ``AnswerBuilder`` makes.
    2. The messages of the one output that holds some, or a text under a usual name.
    3. The best passage that a reader cut out of documents.

    Example: the output {"llm": {"replies": ["Anna"]}} gives the answer "Anna".

    Returns:
        The answers; empty if there is none, or if several outputs may hold it: the
        core's rules look for one then.
    """
    outputs = outputs_by_place(run)
    found = _objects(outputs) or _messages(outputs)
    if found:
        return found
    # the text in an output whose socket has a usual name, such as "answer"
    text_by_name = {
        place.rpartition(".")[2]: value
        for place, value in outputs.items()
        if isinstance(value, str)
    }
    text, name = answer_in(text_by_name)
    if text is not None:
        return (Answer(text, name),)
    # A reader lists the best passage first. One without a text says that the documents
    # hold no answer; it counts only if no passage has a text.
    extracted = _objects(outputs, are_extracted=True)
    with_text = tuple(answer for answer in extracted if answer.text)
    return (with_text or extracted)[:1]


def outputs_by_place(run: Run) -> Mapping[str, Any]:
    """What the user got, by ``component.socket``; of an agent its last message alone."""
    is_pipeline = run.root.operation == PIPELINE
    by_component = run.output if is_pipeline else {"": run.output}
    outputs: dict[str, Any] = {}
    for component, sockets in by_component.items():
        if isinstance(sockets, dict):
            if "last_message" in sockets:
                message = sockets["last_message"]
                # An agent that ran out of steps ends with a tool's result. That is the
                # answer only where the agent was told to end with that tool.
                is_result = isinstance(message, Message) and message.role == "tool"
                tools = {call.name for call in message.tool_calls} if is_result else ()
                is_last_step = tools and sockets.get("exit_reason") not in tools
                sockets = {} if is_last_step else {"last_message": message}
            for name, value in sockets.items():
                outputs[f"{component}.{name}" if component else name] = value
    return outputs


def _objects(
    outputs: Mapping[str, Any], *, are_extracted: bool = False
) -> tuple[Answer, ...]:
    """The answer objects in some outputs: those that a model wrote, or those cut out of documents."""
    return tuple(
        replace(answer, place=place)
        for place, value in outputs.items()
        for answer in find_instances(value, Answer)
        if answer.is_extracted == are_extracted
    )


def _messages(outputs: Mapping[str, Any]) -> tuple[Answer, ...]:
    """The replies in the one output that holds messages; of a conversation the last one."""
    replies_by_output: list[tuple[Answer, ...]] = []
    for place, value in outputs.items():
        messages = list(find_instances(value, Message))
        replies = [
            Answer(message.text, place)
            for message in messages
            if message.role in ("assistant", "tool") and message.text.strip()
        ]
        if any(message.role in ("user", "system") for message in messages):
            replies = replies[-1:]
        if replies:
            replies_by_output.append(tuple(replies))
    return replies_by_output[0] if len(replies_by_output) == 1 else ()
