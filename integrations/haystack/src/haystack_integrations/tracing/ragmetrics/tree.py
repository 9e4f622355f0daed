"""From a recorded run, or from what a pipeline returned, to the core's trees of calls: a tree for each answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import (
    answers,
    documents_in_output,
)
from haystack_integrations.tracing.ragmetrics.asked import (
    UserText,
    find_history,
    find_question,
)
from haystack_integrations.tracing.ragmetrics.components import Calls
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    PIPELINE,
    Node,
    Run,
    copied,
)

from ragmetrics_core.capture import Answer, Document, Tree
from ragmetrics_core.capture import Node as Call
from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import Overrides, documents_in
from ragmetrics_core.data.errors import SettingError

_ONE_OF_SEVERAL = (
    "the question is one of several texts that were handed in together; nothing tells"
    " which of them was asked"
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
    output = _by_component(copied(result))
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
    run = Run(Problems())
    run.nodes.append(root)
    return run


def _by_component(output: object) -> object:
    """Return an answer, or several, as a pipeline's component returns them; else as it is."""
    several = (output,) if isinstance(output, Answer) else output
    if not isinstance(several, tuple):
        return output
    are_answers = all(isinstance(element, Answer) for element in several)
    return {"answers": {"answers": several}} if are_answers else output


def trees(run: Run, where: Overrides) -> list[Tree]:
    """Make a tree for each answer of a run, since each may have a question of its own.

    A run without an answer gives one tree; a run that only fills a document store gives
    none.

    Args:
        run: The run.
        where: Where the user says that question, contexts and answer are.
    """
    calls = Calls(run)
    if not calls.models and _is_indexing(run):
        return []
    answer_trees: list[Tree] = []
    # what a run returned before it failed is no answer
    if not run.error:
        answer_trees = [_tree(calls, answer) for answer in answers(calls)]
    if not answer_trees:
        answer_trees = [_tree(calls, None)]
    if where.answer_from is not None:
        return answer_trees[:1]  # the user says what the one answer is
    return answer_trees


def _is_indexing(run: Run) -> bool:
    """Whether a run writes documents into a store."""
    return any(
        "documents_written" in component.output_by_socket
        for component in run.components()
    )


def _tree(calls: Calls, answer: Answer | None) -> Tree:
    """Make a tree of a run and one of its answers, of which the core makes a sample.

    It holds the calls of the run, the question, the earlier turns of the conversation,
    the answer and documents. Example: a run with a retriever and two generators has two
    answers, so that two trees are made of it.

    Args:
        calls: The calls of the run.
        answer: The answer; None for a run without any.
    """
    writing_call = _writing_call(calls, answer)
    user_text = find_question(
        calls,
        messages_shown=() if writing_call is None else writing_call.prompt,
        query=None if answer is None else answer.question,
    )
    tree = _tree_without_answer(calls)
    _add_question(tree, user_text, answer)
    _add_history(tree, calls, writing_call)
    if answer is None:
        _add_documents_without_answer(tree, calls)
    else:
        tree.answers = (answer,)
        _add_documents_of_answer(tree, answer, calls)
    is_asked = user_text is not None
    # A run that answers, or that asks a model, is a sample even if it retrieved nothing.
    asks_a_model = is_asked and bool(calls.models)
    tree.is_always_a_sample = answer is not None or asks_a_model
    return tree


def _writing_call(calls: Calls, answer: Answer | None) -> Call | None:
    """The model's call that wrote an answer; without an answer the last one."""
    if answer is not None:
        return answer.writing_call
    return calls.call_by_span[calls.models[-1]] if calls.models else None


def _add_documents_of_answer(tree: Tree, answer: Answer, calls: Calls) -> None:
    """Give an answer the documents of the run's output, if nothing else tells its own.

    Example: a component of the user returns "Anna" and documents. Usually the answer,
    or the model's call that wrote it, names its documents: these stay.
    """
    is_without_source = answer.writing_call is None and not answer.documents
    document_lists = documents_in_output(calls.run)
    if is_without_source and document_lists:
        tree.flow_documents = document_lists[-1]
        # None makes the core take the flow documents; () would mean none
        tree.answers = (replace(answer, documents=None),)


def _add_documents_without_answer(tree: Tree, calls: Calls) -> None:
    """Write into a tree what its run found last."""
    document_lists = documents_in_output(calls.run)
    if document_lists and _ends_with_a_search(calls):
        tree.gives_only_documents = True
        tree.flow_documents = document_lists[-1]


def _add_question(
    tree: Tree, user_text: UserText | None, answer: Answer | None
) -> None:
    """Write the question into a tree, from the user's text or else from the answer.

    Example: the user asks "And when?", and the answer's query is "When was Rome
    built?". The first is the question, the second the standalone question.

    Args:
        tree: The tree.
        user_text: The question as the user handed it in; None if it is not found.
        answer: The answer, which may carry the question; None for a run without any.
    """
    question_of_answer = None if answer is None else answer.question
    if user_text is None:
        # no input is a question, but the answer has ``query="Who?"``
        tree.question = question_of_answer or None
        return
    tree.question = user_text.text
    if user_text.is_one_of_several:
        # the user handed in ["Who?", "When?"], and nothing tells which was asked
        tree.doubts = (_ONE_OF_SEVERAL,)
    if question_of_answer and question_of_answer != user_text.text:
        # a component rewrote the user's question before it was answered
        tree.standalone_question = question_of_answer


def _add_history(tree: Tree, calls: Calls, call: Call | None) -> None:
    """Write into a tree the earlier turns of the conversation, with their doubts.

    Example: messages [user "Hi", assistant "Hello", user "Who?"] for the question
    "Who?" give the turns "Hi" and "Hello".

    Args:
        tree: The tree, which has its question.
        calls: The calls of its run.
        call: The call that answered; None if there is none.
    """
    # what components returned later is no earlier turn
    answer_began = None if call is None else int(call.began)
    history = find_history(calls, answer_began, tree.question)
    tree.history = history.turns
    tree.is_history_of_prompt = history.may_be_examples
    tree.doubts = (*tree.doubts, *history.doubts)


def _tree_without_answer(calls: Calls) -> Tree:
    """Make the tree of a run, with all but its question and answer.

    It holds the calls of the run, how the run ended, and where the user's keys are
    looked up. A run that was paused and a run that resumes it have one key, the input.
    """
    run = calls.run
    return Tree(
        calls.root,
        output=run.output,
        error=run.error,
        is_complete=run.complete,
        task_or_thread=run.task_or_thread,
        resumption_key=repr(run.input) if run.resumable or _is_resumed(run) else None,
        is_paused=run.paused,
        continues=_is_resumed(run),
        documents_without_text=_documents_without_text(run),
        native_run=run,
        lookup_outputs=(*_values_by_place(run), run.output),
        lookup_inputs=(run.input,),
        to_plain_value=copied,
    )


def _ends_with_a_search(calls: Calls) -> bool:
    """Whether a run searched after its last call of a model.

    Its models then only wrote queries. True also for a run that called no model. False
    for a run that failed.
    """
    run = calls.run
    if run.error is not None:
        return False
    if not calls.models:
        return True
    closed = calls.models[-1].closed
    return any(node.opened > closed and calls.retrieves(node) for node in run.nodes)


def _documents_without_text(run: Run) -> tuple[Document, ...]:
    """Find images and the like among what the components returned, each id once."""
    document_by_id = {}
    for node in run.nodes:
        for document in documents_in(node.output):
            document_by_id[document.id] = document
    return tuple(
        document for document in document_by_id.values() if not document.text.strip()
    )


def _is_resumed(run: Run) -> bool:
    """Whether a run goes on from a snapshot of an earlier one.

    The first component of such a run is given inputs that other components send,
    although none of these ran.
    """
    first_component = next(run.components(), None)
    if first_component is None:
        return False
    from_the_user = run.input.get(first_component.name) or {}
    sockets_fed = [
        name
        for name, socket in first_component.input_sockets.items()
        if socket.get("senders") and name not in from_the_user
    ]
    return any(first_component.input.get(name) for name in sockets_fed)


def _values_by_place(run: Run) -> tuple[Mapping[str, Any], ...]:
    """The mappings in which the user's keys, such as ``contexts_from``, are looked up.

    Example: ``contexts_from="retriever.documents"`` is found in the first. They hold the
    outputs and the inputs of the components, under the names ``component`` and
    ``component.socket``; the last run of a component counts.
    """
    outputs: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    for node in run.components():
        _add_values(outputs, node.path, node.output)
        _add_values(inputs, node.path, node.input)
    return outputs, inputs


def _add_values(values_by_place: dict[str, Any], path: str, values: object) -> None:
    """Add the values of a component's sockets under the component's path."""
    if not isinstance(values, dict):
        return
    # the name of a model leads to its replies
    values_by_place[path] = values.get("replies", values)
    for name, value in values.items():
        values_by_place[f"{path}.{name}"] = value
