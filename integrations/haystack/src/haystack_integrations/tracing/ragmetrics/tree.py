"""From a recorded run, or from what a pipeline returned, to the core's trees of calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import answers, outputs_by_place
from haystack_integrations.tracing.ragmetrics.asked import (
    groups_of_inputs,
    history_handed_in,
    history_remembered,
)
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
    Tree,
    documents_in,
    names_a_history,
    question_among,
    texts_in,
)
from ragmetrics_core.data import SettingError


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
    yield Tree(
        calls.root,
        question=question,
        doubts=doubts,
        history=history_remembered(calls, question) or history_handed_in(run, question),
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
