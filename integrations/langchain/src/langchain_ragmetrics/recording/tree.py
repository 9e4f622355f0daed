"""From LangChain's runs to the core's tree of calls; pure, nothing is changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from langchain_core.messages import ToolMessage

from langchain_ragmetrics.recording.run import AnyRun, children, walk
from langchain_ragmetrics.values import (
    artifacts_of,
    content_of_sent,
    is_command,
    message_of,
    offered_tools,
    plain,
    provider_evidence_of,
)
from ragmetrics_core.capture import Answer, Document, Message, Node, Tree
from ragmetrics_core.capture.history import history_in
from ragmetrics_core.capture.plain_values import (
    Overrides,
    answer_in,
    documents_in,
    has_written,
    names_a_history,
    question_in,
    question_in_state,
)
from ragmetrics_core.capture.providers import add_provider_evidence
from ragmetrics_core.capture.step_documents import note_documents_of_step
from ragmetrics_core.capture.structures import compact, query_of_tool
from ragmetrics_core.capture.unread_requests import unread_request
from ragmetrics_core.data import Turn

# Keys of ``extra`` that the recorder fills: of a root the task or thread it ran in; of
# a tool the call that it answers.
TASK_OR_THREAD = "ragmetrics_task_or_thread"
CALL = "ragmetrics_call"
# what the rules read of the metadata of a run inside another
METADATA_READ = ("lc_agent_name", "lc_source", "ls_model_name")
# of a call of a model: the parameters of its request, under LangSmith's own name
PARAMETERS = "invocation_params"
_ANSWERED_BY_A_PERSON = (
    "a person answered a call of a tool, and no tool ran: what the person wrote is not"
    " among the evidence"
)
_ABANDONED = "the stream was abandoned before its end"


def trees(run: AnyRun, where: Overrides) -> Iterator[Tree]:
    """Yield the trees of a run: usually one.

    Example: ``chain.map().invoke(["Who?", "When?"])`` gives two trees, one for each
    item.
    """
    if run.name.startswith("RunnableEach<"):
        for child in children(run):
            for tree in trees(child, where):
                tree.task_or_thread = tree.task_or_thread or _task_or_thread(run)
                yield tree
    else:
        yield _tree(run)


def _task_or_thread(run: AnyRun) -> str:
    """The task or thread in which a root ran."""
    return str((run.extra or {}).get(TASK_OR_THREAD, ""))


def _tree(run: AnyRun) -> Tree:
    """Make the tree of a run that no other run surrounds.

    Example: a chain was given {"question": "Who?"}, retrieved two documents, and
    returned "Anna": a tree with its calls, the question and the answer.

    Args:
        run: The run, with all runs inside it.
    """
    root = _node(run)
    models = [node for node in root.walk() if node.kind == "model"]
    inputs = plain(run.inputs)
    output = plain(run.outputs or {})
    if root.kind == "step" and not has_written(inputs):
        # the application retrieved before, and invoked the chain with the documents; a
        # grader, which is given an answer as well, answers nothing from them
        root.input_documents = tuple(documents_in(inputs))
    tree = Tree(
        root,
        output=output,
        answers=_answers(root, output),
        continues=_resumes_a_graph(run),  # it is asked nothing new
        task_or_thread=_task_or_thread(run),
        given_fields=_fields_of_the_sample(_given_in_metadata(run)),
        native_run=run,
        lookup_inputs=(run.inputs, _talk_filled_in(run)),
        lookup_outputs=(run.outputs or {},),
        to_plain_value=plain,
    )
    tree.question = _question(run, inputs, output, resumes=tree.continues)
    # a model, tool or retriever that was called by itself has no conversation
    if run.run_type == "chain":
        tree.history = _history(inputs, output, tree.question)
    # A run that only called models is no sample, since it retrieved nothing; it is one
    # if a tool or web search may have retrieved. "gpt-4o-search-preview" searches for
    # each answer, and its reply may not tell it.
    answers_from_tools = bool(models and tree.answers) and root.called_a_tool
    may_have_searched = any(model.may_have_searched for model in models)
    tree.is_always_a_sample = answers_from_tools or may_have_searched
    tree.gives_only_documents = root.kind == "retriever" or _are_documents(output)
    _add_error(tree, run, calls_models=bool(models))
    _add_thread(tree, run)
    return tree


def _history(inputs: Any, output: Any, question: str | None) -> tuple[Turn, ...]:
    """The earlier turns in what a run was given, else those in a graph's state.

    Of the state's messages only those before a known question count.
    """
    is_known = question is not None
    return history_in(inputs, question) or history_in(
        output, question, only_before_question=is_known
    )


def _talk_filled_in(run: AnyRun) -> dict[str, str]:
    """The texts named like a talk with which prompts were filled."""
    return {
        name: value
        for inner in walk(run)
        if inner.run_type == "prompt"
        for name, value in (inner.inputs or {}).items()
        if names_a_history(name) and isinstance(value, str)
    }


def _add_error(tree: Tree, run: AnyRun, *, calls_models: bool) -> None:
    """Write into a tree whether its run failed, was left early, or came to its end.

    Args:
        tree: The tree.
        run: Its run.
        calls_models: Whether a model was called inside the run; without one nothing
            tells whether the application left its stream.
    """
    has_output = not _is_empty(run.outputs)
    tree.error = error_of(run)
    if tree.error is None and not has_output and _is_abandoned(run):
        tree.error = _ABANDONED
    tree.is_complete = tree.error is None and (has_output or calls_models)


def _add_thread(tree: Tree, run: AnyRun) -> None:
    """Write into a tree the conversation of its run, by which later runs belong to it.

    Example: the graph "bot" with the thread "t1" is interrupted to ask a person: it is
    paused, and a later run with the key "bot/t1" goes on with it.
    """
    metadata = metadata_of(run)
    thread = metadata.get("thread_id")
    if thread is not None:
        tree.resumption_key = f"{run.name}/{thread}"
        tree.conversation_id = str(thread)
        # A stream that was left early may still be paused. So LangChain's own error is
        # asked, and not ``tree.error``, which also says "left early".
        tree.is_paused = run.error is None and _waits_for_a_person(tree.root.walk())


def _given_in_metadata(run: AnyRun) -> Mapping[str, Any]:
    """What the user says of a call in ``config={"metadata": {"ragmetrics": …}}``."""
    metadata = metadata_of(run).get("ragmetrics")
    return metadata if isinstance(metadata, Mapping) else {}


def _waits_for_a_person(nodes: Iterable[Node]) -> bool:
    """Whether a graph was interrupted, and waits for what a person says."""
    return any((node.error or "").startswith("GraphInterrupt(") for node in nodes)


def _question(
    run: AnyRun, inputs: Mapping[str, Any], output: object, *, resumes: bool
) -> str | None:
    """Find the user's question; None if no place has one.

    The places are tried in this order: the user's metadata, the inputs, the messages in
    the outputs.

    Args:
        run: The run.
        inputs: Its inputs as plain values.
        output: Its outputs as plain values, such as the state of a graph.
        resumes: Whether the run resumes a graph: its inputs are then the words with
            which a person let the graph go on.
    """
    given_question = _given_in_metadata(run).get("question")
    if given_question is not None:
        return str(given_question)
    # what a model, tool or retriever alone is given need not be a user's question
    if run.run_type != "chain":
        return None
    question = None if resumes else question_in(inputs)
    return question_in_state(output) if question is None else question


def _answers(root: Node, output: Mapping[str, Any]) -> tuple[Answer, ...]:
    """The answer that the outputs give, or the reply of a model that was called alone.

    Example: the outputs {"result": "Anna"} give the answer "Anna", with the place
    "outputs['result']". Without an answer the tuple is empty.
    """
    if root.kind == "model":
        text = None if root.reply is None else root.reply.text
        return (Answer(text, "the model call", writing_call=root),) if text else ()
    text, key = answer_in(output)
    if text is None:
        return ()
    return (Answer(text, f"outputs[{key!r}]"),)


def _are_documents(output: Mapping[str, Any]) -> bool:
    """Whether a run returned lists of documents and nothing else.

    Another run may answer from them.
    """
    # a parallel step returns a list of documents under each of its names
    lists = [value for value in output.values() if isinstance(value, tuple)]
    elements = list(chain.from_iterable(lists))
    are_documents = all(isinstance(element, Document) for element in elements)
    return bool(elements) and are_documents and len(lists) == len(output)


def _is_empty(outputs: Mapping[str, Any] | None) -> bool:
    """Whether a run returned nothing."""
    return not outputs or (set(outputs) == {"output"} and outputs["output"] is None)


def _is_abandoned(run: AnyRun) -> bool:
    """True if a stream was left before its end.

    A model, or the parser of its text, has not ended properly then.
    """
    for inner in walk(run):
        if inner.run_type in ("llm", "chat_model") and inner.end_time is None:
            return True
        if inner.run_type == "parser" and _is_empty(inner.outputs):
            return True
    return False


def error_of(run: AnyRun) -> str | None:
    """The error with which the run ended, without its traceback; None if it ended well."""
    if not run.error:
        return None
    return run.error.split("Traceback (most recent call last)")[0].strip() or "error"


def _resumes_a_graph(run: AnyRun) -> bool:
    """Whether a run resumes an interrupted graph instead of asking something new.

    LangGraph is resumed with a command, or with None as its input.
    """
    if not run.inputs:
        return True
    if set(run.inputs) != {"input"}:
        return False
    value = run.inputs["input"]
    return value is None or is_command(value)


def _fields_of_the_sample(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read fields of the sample from what the user put into the metadata of a call.

    Example: ``{"reference": "Anna", "id": 7, "question": "Who?"}`` gives the reference
    "Anna" and the id "7".
    """
    fields = {name: given[name] for name in ("reference", "metadata") if name in given}
    if given.get("id") is not None:
        fields["id"] = str(given["id"])
    return fields


def metadata_of(run: AnyRun) -> Mapping[str, Any]:
    """The metadata of a run's call; empty if there is none.

    The run's own property would create it, and change the run.
    """
    metadata = (run.extra or {}).get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


# Calls


def _node(run: AnyRun, not_before: float = 0) -> Node:
    """Make the node of a run, with the nodes of the runs inside it.

    The function in ``_FILL`` for the run's type writes into the node its kind, and what
    the run was given and returned. Example: a run of the type "retriever" becomes a
    node of the kind "retriever" with its query and documents. A run of any other type
    is a "step".

    Args:
        run: The run.
        not_before: When it could begin at the earliest: when the run around it began,
            or when the step before it in a sequence ended.
    """
    metadata = metadata_of(run)
    ended = None if run.end_time is None else run.end_time.timestamp()
    began = _begin_of(run, ended, not_before)
    node = Node(
        "step",
        run.name,
        began,
        ended,
        _nodes_inside(run, began),
        error=run.error,
        agent=metadata.get("lc_agent_name"),
    )
    fill = _FILL.get(run.run_type)
    if fill is not None:
        fill(node, run)
    # LangChain's middleware has a model shorten the conversation: it answers nothing
    is_summary = metadata.get("lc_source") == "summarization"
    if node.kind == "model" and is_summary:
        node.kind = "ignored"
    return node


def _begin_of(run: AnyRun, ended: float | None, not_before: float) -> float:
    """Return when a run began: not before it had its whole input.

    A streamed step is reported as begun at the first piece of its input; see
    ``_nodes_inside``. If it ended before its input was whole, the reported time stands:
    no run ends before it begins.
    """
    reported = run.start_time.timestamp()
    if ended is not None and ended < not_before:
        return reported
    return max(reported, not_before)


def _nodes_inside(run: AnyRun, began: float) -> list[Node]:
    """Make the nodes of the runs directly inside a run, by their start.

    Each step of a sequence begins when the step before it has ended. If the sequence is
    streamed, LangChain reports the start of a step as soon as a first piece of its input
    is there. Example: of ``retriever | rerank | write`` it reports the start of "write"
    before the end of "rerank". The function "write" is called only then.

    Args:
        run: The run.
        began: When it had its whole input.
    """
    nodes = []
    for child in children(run):
        node = _node(child, began)
        nodes.append(node)
        is_step_of_sequence = any(
            tag.startswith("seq:step:") for tag in child.tags or ()
        )
        if is_step_of_sequence and node.ended is not None:
            began = max(began, node.ended)
    return nodes


def _fill_retriever(node: Node, run: AnyRun) -> None:
    """Write into a call what its retriever was asked and what it returned.

    Example: ``retriever.invoke("Who?")`` that found two documents: the query "Who?" and
    the documents. After an error, or before its end, the documents stay None.
    """
    query = run.inputs.get("query")
    node.kind = "retriever"
    node.query = query if isinstance(query, str) and query.strip() else None
    found = plain((run.outputs or {}).get("documents"))
    if isinstance(found, tuple) and not run.error:
        node.documents = tuple(documents_in(found))


def _fill_tool(node: Node, run: AnyRun) -> None:
    """Write into a call what its tool was asked, and what it returned.

    Example: ``search("Rome")`` that returned "Rome is old" gets this query and text. A
    tool that steers the graph, such as ``transfer_to_billing``, brings no evidence: it
    is marked as ``is_control``.

    Args:
        node: The call; it is changed.
        run: The tool's run, as LangChain recorded it.
    """
    output = (run.outputs or {}).get("output")
    node.kind = "tool"
    node.query = query_of_tool(plain(run.inputs))
    node.tool_call_id = (run.extra or {}).get(CALL)
    if not node.tool_call_id and isinstance(output, ToolMessage):
        node.tool_call_id = output.tool_call_id
    # the tool returned a command that sends the graph to another agent
    hands_over = is_command(output) and bool(output.goto)
    node.is_control = hands_over or _ended_by_steering(run)
    if run.error:
        return
    if is_command(output):
        output = output.update
    content = output.content if isinstance(output, ToolMessage) else output
    if isinstance(content, (list, dict)):
        node.result = plain(content)
    node.documents = _documents_of_tool(output)
    # a tool that failed may still return a message, which tells the model so
    if isinstance(output, ToolMessage) and output.status == "error":
        node.error = _text_of_tool(output) or "error"
    else:
        node.text = _text_of_tool(output)


def _ended_by_steering(run: AnyRun) -> bool:
    """Whether a run ended with an exception by which LangGraph steers the graph."""
    return (run.error or "").startswith(("GraphInterrupt(", "ParentCommand("))


def _text_of_tool(output: object) -> str | None:
    """The text that a model is shown of a tool's output; None if it has none.

    LangChain shows lists and mappings as JSON.
    """
    message = message_of(output)
    text = output if message is None else message.text
    if isinstance(text, str) and text:
        return text
    is_structure = isinstance(output, (list, dict)) and output
    return compact(plain(output)) if is_structure else None


def _documents_of_tool(output: object) -> tuple[Document, ...] | None:
    """The documents that a tool returned beside its text.

    Example: a tool that searches returned a text and, as its artifact, two documents.
    () for an empty list of documents; None if there is no list.
    """
    artifacts = [plain(artifact) for artifact in artifacts_of(output)]
    documents = tuple(
        document for artifact in artifacts for document in documents_in(artifact)
    )
    gave_an_empty_list = any(artifact in ((), []) for artifact in artifacts)
    return documents if documents or gave_an_empty_list else None


def _fill_model(node: Node, run: AnyRun) -> None:
    """Write into a call what its model was shown and what it replied.

    Example: ``ChatOpenAI`` was shown "Who?" and replied "Anna": these are the node's
    prompt and reply.
    """
    name = metadata_of(run).get("ls_model_name")
    parameters = (run.extra or {}).get(PARAMETERS)
    messages = list(_messages_sent(run))
    node.kind = "model"
    node.model = name if isinstance(name, str) else None
    node.prompt = _prompt(run, messages)
    node.offered_tools = offered_tools(parameters)
    # what the model saw and no recorded text holds, such as a PDF
    contents = [content_of_sent(message) for message in messages]
    unread_request(parameters, contents).add_to(node)
    _add_reply(node, run)


def _add_reply(node: Node, run: AnyRun) -> None:
    """Write into a model's call its reply, and what its provider searched and found.

    Of several replies the first is taken. After an error there is none.
    """
    # for each batch of messages, the replies to it
    batches = (run.outputs or {}).get("generations") or [[]]
    first_reply = batches[0][0] if batches[0] else None
    if run.error or not isinstance(first_reply, Mapping):
        return
    message = message_of(first_reply.get("message")) or Message("assistant")
    text = str(first_reply.get("text") or message.text)
    node.reply = Message("assistant", text, message.tool_calls)
    evidence = provider_evidence_of(first_reply.get("message"))
    add_provider_evidence(node, evidence)


def _messages_sent(run: AnyRun) -> Iterator[object]:
    """Yield the messages that a chat model was sent, from all recorded batches."""
    for batch in run.inputs.get("messages") or []:
        yield from batch if isinstance(batch, list) else [batch]


def _prompt(run: AnyRun, messages: Iterable[object]) -> tuple[Message, ...]:
    """What a model was shown: messages, or the user's texts for a model without roles."""
    prompts = run.inputs.get("prompts")
    if isinstance(prompts, list):
        return tuple(Message("user", str(prompt)) for prompt in prompts)
    return tuple(filter(None, map(message_of, messages)))


def _fill_step(node: Node, run: AnyRun) -> None:
    """Write into a call what its step did: its documents, and what a person answered in it."""
    if run.name.startswith("HumanInTheLoop") and _has_answered_calls(run):
        node.remarks = (_ANSWERED_BY_A_PERSON,)
    taken = plain(run.inputs)
    node.documents_among_inputs = tuple(documents_in(taken))
    note_documents_of_step(node, taken, plain(run.outputs or {}))


def _has_answered_calls(run: AnyRun) -> bool:
    """Whether a person answered calls of tools instead of the tools, before any ran."""
    messages = (run.outputs or {}).get("messages") or ()
    return any(
        isinstance(message, ToolMessage) and message.status == "success"
        for message in messages
    )


_FILL: Mapping[str, Callable[[Node, AnyRun], None]] = {
    "retriever": _fill_retriever,
    "tool": _fill_tool,
    "llm": _fill_model,
    "chat_model": _fill_model,
    "chain": _fill_step,
    "prompt": _fill_step,
}
