"""From a recorded run to the core's tree of calls; pure, nothing is changed."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from langchain_ragmetrics.recording.calls import (
    ADD_DOCUMENTS,
    EACH,
    STEP,
    STORE_SEARCH,
    Call,
    Run,
    is_empty,
)
from langchain_ragmetrics.values import is_command, plain
from ragmetrics_core.capture import (
    Answer,
    Document,
    Node,
    Tree,
    add_provider_evidence,
    answer_in,
    documents_in,
    has_written,
    history_in,
    note_documents_of_step,
    note_what_was_left_out,
    question_in,
)

_KINDS: Mapping[str, Any] = {
    "retriever": "retriever",
    "tool": "tool",
    "llm": "model",
    "chat_model": "model",
    "ignored": "ignored",
}
_ABANDONED = "the stream was abandoned before its end"


def trees(run: Run) -> Iterator[Tree]:
    """Yield the trees of a run: usually one.

    Example: ``chain.map().invoke(["Who?", "When?"])`` gives two trees, one for each
    item.
    """
    for item in run.items:
        yield from trees(item)
    if not run.root.name.startswith(EACH):
        yield _tree(run)


def _tree(run: Run) -> Tree:
    """Make the tree of a run that no other run surrounds.

    Example: a chain was given {"question": "Who?"}, retrieved two documents, and
    returned "Anna": a tree with its calls, the question and the answer.

    Args:
        run: The run, with all calls inside it.
    """
    root = _node(run.root, run.root.began)
    inputs = plain(run.inputs)
    output = plain(run.outputs)
    if root.kind == "step" and not has_written(inputs):
        # the application retrieved before, and invoked the chain with the documents; a
        # grader, which is given an answer as well, answers nothing from them
        root.input_documents = tuple(documents_in(inputs))
    given = run.metadata.get("ragmetrics")
    given = given if isinstance(given, Mapping) else {}
    # what the user put into the metadata of the call
    fields = {name: given[name] for name in ("reference", "metadata") if name in given}
    if given.get("id") is not None:
        fields["id"] = str(given["id"])
    # LangGraph is resumed with a command, or with None as its input
    input_alone = (
        run.inputs.get("input") if set(run.inputs) == {"input"} else run.inputs
    )
    resumes = not run.inputs or input_alone is None or is_command(input_alone)
    # another run may answer from documents that stand alone; a parallel step returns a
    # list under each of its names
    lists = [value for value in output.values() if isinstance(value, tuple)]
    elements = list(chain.from_iterable(lists))
    are_documents = all(isinstance(element, Document) for element in elements)
    # what the outputs give, or the reply of a model that was called alone
    answer, writer = answer_in(output), None
    if root.kind == "model":
        answer, writer = None if root.reply is None else root.reply.text or None, root
    tree = Tree(
        root,
        output=output,
        answers=() if answer is None else (Answer(answer, writing_call=writer),),
        instructions=tuple(_examples_in(run.root)),
        gives_only_documents=bool(elements)
        and are_documents
        and len(lists) == len(output),
        continues=resumes,  # it is asked nothing new
        is_by_hand=run.root.tag == STORE_SEARCH,
        task_or_thread=run.task_or_thread,
        given_fields=fields,
        native_run=run.native or run,
        lookup_inputs=(run.inputs, run.root.talk),
        lookup_outputs=(run.outputs,),
        to_plain_value=plain,
    )
    # a model, tool or retriever that was called by itself has no conversation, and what
    # it is given need not be a user's question
    if run.root.run_type == "chain":
        # what a person let a graph go on with is no question
        tree.question = None if tree.continues else question_in(inputs)
        question = given.get("question") or tree.question
        tree.history = history_in(inputs, question)
        # of messages that the caller did not hand in, only those before a known
        # question count
        is_known = question is not None
        for state in (plain(run.root.talk), output):
            tree.history = tree.history or history_in(
                state, question, only_before_question=is_known
            )
    if given.get("question") is not None:
        tree.question = str(given["question"])

    # whether it failed, was left early, or came to its end; without a call of a model
    # nothing tells whether the application left its stream
    has_output = not is_empty(run.outputs)
    nodes = list(root.walk())
    tree.error = error_in_words(root.error)
    is_broken_off = any(node.ended is None for node in nodes)
    if tree.error is None and not has_output and is_broken_off:
        tree.error = _ABANDONED
    calls_models = any(node.kind == "model" for node in nodes)
    tree.is_complete = tree.error is None and (has_output or calls_models)
    # The graph "bot" with the thread "t1" is interrupted to ask a person: a later run with
    # the key "bot/t1" goes on with it. A stream that was left early may still be paused:
    # so LangChain's own error is asked, and not ``tree.error``.
    thread = run.metadata.get("thread_id")
    if thread is not None:
        tree.resumption_key = f"{run.root.name}/{thread}"
        tree.conversation_id = str(thread)
        errors = [node.error or "" for node in nodes]
        is_interrupted = any(each.startswith("GraphInterrupt(") for each in errors)
        tree.is_paused = root.error is None and is_interrupted
    return tree


def _node(call: Call, began: float) -> Node:
    """Make the core's node of a call, and of all calls inside it.

    Args:
        call: The call.
        began: When it began.
    """
    kind = _KINDS.get(call.run_type, "step")
    node = Node(kind, call.name, began, call.ended, agent=call.agent, **call.fields)
    node.given, node.returned = call.kept
    node.error = call.error or node.error
    node.children = _nodes_inside(call, began)
    if kind == "retriever":
        node.query = call.given
        if call.returned is not None:
            node.documents = tuple(documents_in(call.returned))
            note_what_was_left_out(node)
    elif kind == "model":
        if call.given is not None:
            call.given.add_to(node)
        if call.returned is not None:
            content, arguments, metadata = call.returned
            add_provider_evidence(node, {"content": content}, arguments, metadata)
    elif kind == "step" and call.run_type != "prompt":
        node.documents_among_inputs = tuple(documents_in(call.given))
        if call.returned is not None:
            note_documents_of_step(node, call.given, call.returned)
    return node


def _examples_in(call: Call) -> Iterator[str]:
    """Yield the examples of replies that the templates of a call and those inside hold."""
    if call.run_type == "prompt":
        yield from call.returned or ()
    for inner in call.inside:
        yield from _examples_in(inner)


def _nodes_inside(call: Call, began: float) -> list[Node]:
    """Make nodes of the calls inside a call, in their order, each piece of work once.

    Each step of a sequence begins when the step before it has ended. If the sequence is
    streamed, LangChain reports the start of a step as soon as a first piece of its
    input is there. Example: of ``retriever | rerank | write`` it reports the start of
    "write" before the end of "rerank". The function "write" is called only then.

    A failed call is left out if a later one has its name and asks the same. Searches of
    a store that were seen are left out where the application tells by
    ``add_documents()`` what it found.
    """
    not_before = began
    nodes: list[Node] = []
    for inner in call.inside:
        # no call ends before it begins
        is_over = inner.ended is not None and inner.ended < not_before
        inner_began = inner.began if is_over else max(inner.began, not_before)
        nodes.append(_node(inner, inner_began))
        if inner.tag.startswith(STEP) and inner.ended is not None:
            not_before = max(not_before, inner.ended)
    names_documents = any(inner.name == ADD_DOCUMENTS for inner in call.inside)
    later_attempts: set[tuple[str, str | None, str]] = set()
    counted: list[Node] = []
    for inner, node in zip(reversed(call.inside), reversed(nodes), strict=True):
        attempt = (node.name, node.query, repr(node.arguments))
        is_repeated = inner.error is not None and attempt in later_attempts
        is_named_otherwise = names_documents and inner.tag == STORE_SEARCH
        if not is_repeated and not is_named_otherwise:
            counted.insert(0, node)
        later_attempts.add(attempt)
    return counted


def error_in_words(error: str | None) -> str | None:
    """The error with which a run ended, without its traceback; None if it ended well."""
    if not error:
        return None
    return error.split("Traceback (most recent call last)")[0].strip() or "error"
