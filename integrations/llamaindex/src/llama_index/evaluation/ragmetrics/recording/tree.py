"""From a recorded run to the core's neutral tree, away from the application's threads."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from llama_index.evaluation.ragmetrics.recording import snapshot
from llama_index.evaluation.ragmetrics.recording.run import Pointer, Run

from ragmetrics_core import Turn, capture
from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    Overrides,
    Tree,
    as_one_line,
)

# what stands between the name of an author and what the author said
_ENDS_OF_NAMES = (":", ">", "]", ")", "*")
_QUESTION_FIELDS = ("query", "question", "input", "message")


def as_run(response: object) -> Run:
    """Return a run as it is, or make one of a framework's response.

    A run made of a response has one call, with the answer, the sources and the outputs.

    Args:
        response: A run, or what a query engine, chat engine, agent or workflow returned.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(response, Run):
        return response
    result = snapshot.result_of(response)
    if not isinstance(result, (str, snapshot.Returned)):
        raise capture.SettingError(
            "samples_from needs a run or a response of a query engine, chat engine,"
            f" agent or workflow, got {type(result).__name__}"
        )
    sources = {node.key: node for node in snapshot.sources_of(response)}.values()
    # those with a text that a search found
    sources_found = tuple(node for node in sources if _is_found(node))
    run = Run(
        Node("step", "response", text=snapshot.answer_of(response)),
        sources=sources_found,
        result=response,
    )
    # a streamed response has no answer until the application has read it
    is_stream = isinstance(result, snapshot.Streamed)
    run.is_complete = not is_stream or run.root.text is not None
    # sources that are no evidence: blank ones, and answers to sub-questions
    run.documents_without_text = tuple(
        node for node in sources if node not in sources_found
    )
    outputs = snapshot.plain(result)
    run.outputs = outputs if isinstance(outputs, dict) else {}
    return run


def _is_found(node: Document) -> bool:
    """Whether a source node holds a text that was found.

    The answer to a sub-question is none: the framework frames it, and it has neither
    metadata nor a score.
    """
    if not node.text.strip():
        return False
    # how the framework writes such nodes
    is_framed = node.text.startswith(("Sub question:", "\nQuestion:"))
    return not is_framed or bool(node.metadata) or node.score is not None


@dataclass(frozen=True)
class _Said:
    """What was said before the question, as far as a run tells.

    Attributes:
        talk: The turns, with what is uncertain about them.
        is_of_prompt: Whether the turns stand in a prompt alone, and may be examples.
    """

    talk: capture.EarlierConversation
    is_of_prompt: bool = False


def trees_of(run: Run, where: Overrides) -> list[Tree]:
    """The tree of a run; a workflow of which the user says anything (``where``) is a query."""
    _settle(run)
    asked_question, asked_at = question(run)
    models = [node for node in run.root.walk() if node.kind == "model"]
    _say_what_was_streamed(run, models)
    flow = _flow(run)
    said = _said_before(run, models, asked_question)
    failed = run.root.error is not None
    return [
        replace(
            run,
            question=asked_question,
            question_place=asked_at,
            history=_without_the_question(said.talk.turns, asked_question),
            is_history_of_prompt=said.is_of_prompt,
            instructions=said.talk.texts,
            doubts=(*run.doubts, *said.talk.doubts),
            answers=() if failed else _answers(run, flow),
            flow_documents=flow,
            flow_place="source nodes of the result",
            is_always_a_sample=_is_query(run, models, where),
            gives_only_documents=run.kind in ("retrieve", "post") and not failed,
            is_id_of_memory=True,
            n_without_text=len(run.ids_alone - _ids_with_texts(run)),
            warnings=_warnings(run, flow),
            native_run=run.result or run,
            lookup_inputs=(run.outputs, run.inputs),
            to_plain_value=snapshot.plain,
        )
    ]


def _settle(run: Run) -> None:
    """Take what is no evidence out of a run, and add what its calls do not say, once."""
    if run.settled:
        return
    run.documents_without_text = (*run.documents_without_text, *_settled(run.root))
    run.settled = True
    capture.name_authors(run.root)
    capture.name_empty_searches(run.root)
    _add_searches_of_engines(run)


def _said_before(run: Run, models: Sequence[Node], asked_question: str | None) -> _Said:
    """What was said before the question: handed in, remembered, or shown to a model.

    Args:
        run: The run.
        models: Its calls of models.
        asked_question: The question; None if it is not known.
    """
    handed_in = _earlier(run)
    if handed_in:
        return _Said(capture.EarlierConversation(handed_in))
    talk = capture.talk_in(run.talk, asked_question)
    # a model that is called by itself answers for searches that are runs of their own
    if talk.turns or run.kind in ("model", "program"):
        return _Said(talk)
    documents: list[Document] = []
    for node in run.root.walk():
        documents += node.documents or ()
    turns = _history_of_prompts(models, asked_question, documents)
    # a chat history that was handed to ``predict_and_call`` holds no examples
    is_of_prompt = bool(turns) and run.kind != "predict"
    return _Said(replace(talk, turns=turns), is_of_prompt)


def _add_searches_of_engines(run: Run) -> None:
    """Add a search to each query engine that answers from nodes of its own making.

    An engine that turns the question into SQL makes a node of the rows, and hands it to
    its synthesizer: no retriever is asked in the way that is recorded. Engines inside
    of which anything was found or answered are left as they are.
    """
    for engine in list(run.root.walk()):
        is_query_engine = engine is not run.root or run.kind == "query"
        if engine.kind != "agent" or not is_query_engine:
            continue
        _, *inner_calls = engine.walk()
        if any(inner.kind not in ("step", "model") for inner in inner_calls):
            continue
        for step in inner_calls:
            is_synthesizer = step.kind == "step" and step.query is not None
            own_nodes = _nodes_without_origin(step, run)
            if is_synthesizer and own_nodes:
                # moments are whole numbers, so that this one is before the step alone
                moment = step.began - 0.5
                engine.children.append(
                    Node(
                        "retriever",
                        engine.name,
                        moment,
                        moment,
                        query=engine.query,
                        documents=own_nodes,
                    )
                )
                break


def _nodes_without_origin(step: Node, run: Run) -> tuple[Document, ...]:
    """The nodes that a step was handed, but for those that the run was given or a call wrote."""
    ids_given = {document.id for document in run.root.input_documents}
    return tuple(
        document
        for document in step.input_documents
        if document.author is None and document.id not in ids_given
    )


def _ids_with_texts(run: Run) -> set[str | None]:
    """The ids of all nodes of a run whose texts were recorded."""
    return {
        document.id
        for node in run.root.walk()
        for document in (*node.input_documents, *(node.documents or ()))
    }


def _say_what_was_streamed(run: Run, models: Sequence[Node]) -> None:
    """Take the streamed answer as the reply of the last model, where nothing else tells it."""
    last_model = models[-1] if models else None
    if last_model is None or not run.streamed or not run.root.text:
        return
    if last_model.reply is None and last_model.error is None:
        last_model.reply = Message("assistant", run.root.text)


def _answers(run: Run, flow: tuple[Document, ...] | None) -> tuple[Answer, ...]:
    """What a run answered; a model or a program that was called by itself answers no question."""
    text = run.root.text or ""
    if not text.strip() or run.kind in ("model", "program"):
        return ()
    return (Answer(text, f"result of {run.kind}", _gathered(run), documents=flow),)


def _is_query(run: Run, models: Sequence[Node], where: Overrides) -> bool:
    """Whether a run is a sample even if it retrieved nothing."""
    if run.kind in ("query", "chat"):
        return True
    is_spoken_of = bool(models or where.question_from or where.answer_from)
    return run.kind == "workflow" and is_spoken_of


def _settled(root: Node) -> tuple[Document, ...]:
    """Take what is no evidence out of a tree.

    These are nodes without a text, pointers that were followed, and frames around
    queries.

    Returns:
        The nodes without a text, each id once.
    """
    nodes = list(root.walk())
    without_text = _take_out_nodes(nodes)
    results = {node.text for node in nodes if node.kind == "tool"}
    summaries = _summaries(nodes)
    for node in nodes:
        _order_tools(node)
        node.prompt = tuple(
            _as_it_was_meant(message, results, summaries) for message in node.prompt
        )
        if node.kind == "tool" and node.query:
            _take_off_the_frame(node)
    return without_text


def _take_out_nodes(nodes: Sequence[Node]) -> tuple[Document, ...]:
    """Take nodes without a text, and pointers that were followed, out of all lists.

    A pointer that stands in a prompt stays.

    Returns:
        The nodes without a text, each id once.
    """
    taken_ids = {document.id for node in nodes for document in node.input_documents}
    prompts = [message.text for node in nodes for message in node.prompt]
    without_text: dict[str | None, Document] = {}

    def is_evidence(document: Document) -> bool:
        if not document.text.strip():
            without_text[document.id] = document
            return False
        if not isinstance(document, Pointer) or document.id in taken_ids:
            return True
        return any(document.text in prompt for prompt in prompts)

    for node in nodes:
        node.input_documents = tuple(filter(is_evidence, node.input_documents))
        if node.documents is not None:
            node.documents = tuple(filter(is_evidence, node.documents))
    return tuple(without_text.values())


def _summaries(nodes: Iterable[Node]) -> set[str]:
    """What calls that only shorten the memory wrote."""
    replies = [
        child.reply
        for node in nodes
        for child in node.children
        if child.kind == "ignored" and child.reply is not None
    ]
    return {reply.text for reply in replies if reply.text.strip()}


def _order_tools(node: Node) -> None:
    """Say of each tool below a call which agent called it, and in which place.

    Some providers know no ids and repeat the tool's name: then the arguments tell.
    """
    agents_and_calls = [
        (child.agent, call)
        for child in node.children
        if child.reply is not None
        for call in child.reply.tool_calls
    ]
    for child in node.children:
        if child.kind != "tool":
            continue
        same_id = [
            place
            for place, (_, call) in enumerate(agents_and_calls)
            if call.id == child.tool_call_id
        ]
        same_arguments = [
            place
            for place in same_id
            if snapshot.argument_of({"kwargs": agents_and_calls[place][1].arguments})
            == child.query
        ]
        for place in (same_arguments or same_id)[:1]:
            child.agent = agents_and_calls[place][0]
            child.branch = f"{place:06}"


def _as_it_was_meant(
    message: Message, results: Collection[str | None], summaries: Collection[str]
) -> Message:
    """A message under the role that it has in fact.

    The framework tells a summary of the memory, and the result of a ReAct agent's tool,
    as words of somebody else.
    """
    if message.text in summaries:
        return Message("summary", message.text)
    # how the framework's ReAct agent tells its model
    result = message.text.removeprefix("Observation: ")
    if result != message.text and result in results:
        return Message("tool", result)
    return message


def _take_off_the_frame(tool: Node) -> None:
    """Take the argument's name off the queries of a tool's calls.

    The framework's retriever tool writes it before the query.
    """
    for child in tool.children:
        query = (child.query or "").strip()
        if query.endswith(f" is {tool.query}"):
            child.query = tool.query


def question(run: Run) -> tuple[str | None, str]:
    """The user's question and where it was found.

    The rules look at the queries where nothing says it.
    """
    if run.kind in ("retrieve", "post", "model", "program"):
        return None, ""
    if run.kind != "workflow":
        return run.root.query, f"argument of {run.kind}"
    fields = run.fields
    if fields.get("user_msg"):
        return fields["user_msg"], "user_msg"
    named = _question_field(run)
    if named is not None:
        return fields[named], f"start event: {named}"
    user_messages = [turn.content for turn in run.history if turn.role == "user"]
    if user_messages:
        return user_messages[-1], "last user message of chat_history"
    first_query = next((node.query for node in run.root.walk() if node.query), None)
    fields_of_question = [name for name, text in fields.items() if text == first_query]
    fields_of_question += [name for name in _QUESTION_FIELDS if name in fields]
    fields_of_question += fields if len(fields) == 1 else ()
    return (
        (fields[fields_of_question[0]], f"start event: {fields_of_question[0]}")
        if fields_of_question
        else (first_query, "first query")
    )


def _question_field(run: Run) -> str | None:
    """The field of a start event that holds the question; None without a history.

    Beside a ``chat_history`` the last message of the user is an earlier one.
    """
    return next(
        (name for name in _QUESTION_FIELDS if run.history and run.fields.get(name)),
        None,
    )


def _earlier(run: Run) -> tuple[Turn, ...]:
    """The turns before the question that the run was given or remembers.

    Where a workflow's start event has no field for the question, the last turn of the
    user is the question.
    """
    user_turns = [at for at, turn in enumerate(run.history) if turn.role == "user"]
    is_named = bool(run.fields.get("user_msg")) or _question_field(run) is not None
    handed = run.kind == "workflow" and not is_named and user_turns
    return run.history[: user_turns[-1]] if handed else run.history


def _without_the_question(
    history: tuple[Turn, ...], asked_question: str | None
) -> tuple[Turn, ...]:
    """A history without the question of now at its end.

    It stands there where an application puts the question into the memory first,
    perhaps behind its author's name.
    """
    asked = as_one_line(asked_question)
    if not asked or not history or history[-1].role != "user":
        return history
    before, found, behind = as_one_line(history[-1].content).rpartition(asked)
    is_the_question = bool(found) and not behind
    if is_the_question and (not before or before.rstrip().endswith(_ENDS_OF_NAMES)):
        return history[:-1]
    return history


def _history_of_prompts(
    models: Sequence[Node],
    asked_question: str | None,
    documents: Sequence[Document],
) -> tuple[Turn, ...]:
    """Earlier turns of a conversation, as the prompts of the models show them.

    Of the prompts that ask the question (any question, where it is not known) the one
    with the longest history counts. Messages that only show documents of the run are
    no turns.
    """
    histories: list[tuple[Turn, ...]] = []
    for model in models:
        spoken = [message for message in model.prompt if not message.tool_calls]
        of_user = {
            as_one_line(message.text) for message in spoken if message.role == "user"
        }
        asks = (
            bool(of_user)
            if asked_question is None
            else as_one_line(asked_question) in of_user
        )
        if asks:
            said = capture.drop_shown_documents(spoken, documents)
            histories.append(capture.history_in(said, asked_question))
    return max(histories, key=len, default=())


def _synthesizers(run: Run) -> list[Node]:
    """The steps that were handed nodes to answer a question from."""
    return [
        node
        for node in run.root.walk()
        if node.kind == "step" and node.query is not None
    ]


def _flow(run: Run) -> tuple[Document, ...] | None:
    """The nodes that reached the generator, by source nodes and synthesizers.

    None if these do not tell.
    """
    synthesizers = _synthesizers(run)
    if synthesizers and (
        synthesizers[-1].name == "Generation" or not synthesizers[-1].input_documents
    ):
        return ()  # that one shows the model no nodes; another one had none
    taken_by_id = {
        document.id: document
        for node in synthesizers
        for document in node.input_documents
    }
    documents = (taken_by_id.get(document.id, document) for document in run.sources)
    return (
        tuple(
            document
            for document in documents
            if document.text.strip() and document.author is None
        )
        or None
    )


def _gathered(run: Run) -> tuple[str, ...]:
    """The replies that an answer was put together from, one per node or pack of nodes."""
    parts = [
        node
        for node in _synthesizers(run)[-1:]
        if node.name in ("Accumulate", "CompactAndAccumulate")
    ]
    replies = [
        inner.reply.text
        for node in parts
        for inner in node.walk()
        if inner.kind == "model" and inner.reply is not None
    ]
    return tuple(reply for reply in replies if reply in (run.root.text or ""))


def _warnings(run: Run, flow: Sequence[Document] | None) -> tuple[str, ...]:
    """What went wrong inside, in words."""
    warnings = []
    nodes = list(run.root.walk())
    if (
        flow == ()
        and run.root.error is None
        and any(node.kind == "retriever" and node.documents for node in nodes)
    ):
        warnings.append("nothing of what was retrieved reached the generator")
    if (
        any(node.error for node in nodes[1:] if node.kind == "agent")
        and run.root.error is None
    ):
        warnings.append("a nested query failed, and the application went on without it")
    if not run.is_complete and run.root.error is None:
        warnings.append("the streamed answer was not read to its end")
    if run.cut:
        warnings.append("the run had more steps than are kept; later ones are missing")
    return tuple(warnings)
