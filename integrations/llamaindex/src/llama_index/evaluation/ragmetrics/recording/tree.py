"""From a recorded run to the core's neutral tree, away from the application's threads."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from llama_index.evaluation.ragmetrics.recording import snapshot
from llama_index.evaluation.ragmetrics.recording.run import (
    Pointer,
    Run,
    StepOfWorkflow,
)

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
    """Return a run as it is, or make a run of one call from a framework's response.

    Example: ``engine.query("Who?")`` was not captured. Its ``Response`` gives a run
    with the answer and its source nodes, but without a question.

    Args:
        response: A run, or what a query engine, chat engine, agent or workflow returned.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(response, Run):
        return response
    # a workflow's stop event is only a wrapping around what the workflow returned
    returned = snapshot.without_stop_event(response)
    if not isinstance(returned, (str, snapshot.Returned)):
        raise capture.SettingError(
            "samples_from needs a run or a response of a query engine, chat engine,"
            f" agent or workflow, got {type(returned).__name__}"
        )
    # None for a stream that the application has not read to its end
    answer = snapshot.answer_of(returned)
    run = Run(Node("step", "response", text=answer))
    run.result = response
    is_unread_stream = isinstance(returned, snapshot.Streamed) and answer is None
    run.is_complete = not is_unread_stream
    _add_sources(run, snapshot.sources_of(returned))
    outputs = snapshot.plain(returned)
    run.outputs = outputs if isinstance(outputs, dict) else {}
    return run


def _add_sources(run: Run, nodes: Iterable[Document]) -> None:
    """Write the source nodes of a response into its run, each id once.

    Those that no search found, or that have no text, are only noted.
    """
    node_by_key = {node.key: node for node in nodes}
    sources = []
    no_evidence = []  # blank nodes, and answers to sub-questions
    for node in node_by_key.values():
        if _is_found(node):
            sources.append(node)
        else:
            no_evidence.append(node)
    run.sources = tuple(sources)
    run.documents_without_text = tuple(no_evidence)


def _is_found(node: Document) -> bool:
    """Whether a source node holds a text that was found.

    The framework wraps the answer to a sub-question into a node. Such a node was not
    found: it has neither metadata nor a score.
    """
    if not node.text.strip():
        return False
    # how the framework writes such nodes
    is_framed = node.text.startswith(("Sub question:", "\nQuestion:"))
    return not is_framed or bool(node.metadata) or node.score is not None


def trees_of(run: Run, where: Overrides) -> list[Tree]:
    """Make the tree of a run: its copy, with the question and the answer filled in.

    A tree is the form in which the core reads runs of any framework; ``Run`` is a kind
    of ``Tree``. Example: the run of ``engine.query("Who?")`` gives one tree, with the
    question, the answer, and the documents that its retriever found.

    Args:
        run: The run. Blank documents and the like are taken out of its calls.
        where: Where the user says that question, contexts and answer are.

    Returns:
        A list of one tree. Other frameworks make several trees.
    """
    _settle(run)  # drops what is no evidence from the run's calls
    models = [node for node in run.root.walk() if node.kind == "model"]
    _note_streamed_reply(run, models)
    tree = replace(run)  # a copy; a ``Run`` is a ``Tree``
    tree.question, tree.question_place = question(run)
    _add_history(tree, models)
    _add_answer(tree)
    # Other runs are a sample only if they retrieved something.
    tree.is_always_a_sample = _answers_a_question(run, models, where)
    _add_values_for_the_user(tree, run)
    return [tree]


def _add_values_for_the_user(tree: Run, run: Run) -> None:
    """Write into a tree where the core looks up what the user names.

    Example: the key of ``question_from="topic"`` is looked up in the outputs, then in
    the inputs. The function of ``question_from=lambda response: …`` is called with what
    the framework returned; with the run if it returned nothing.
    """
    tree.native_run = run.result or run
    tree.lookup_inputs = (run.outputs, run.inputs)
    tree.to_plain_value = snapshot.plain


def _add_history(tree: Run, models: Sequence[Node]) -> None:
    """Write the earlier conversation into a tree whose question is known.

    Example: ``engine.chat("And when?", chat_history=[…])`` handed in its earlier turns.
    If a call was handed none, the turns in the prompts of its models are taken.

    Args:
        tree: The tree; it is changed.
        models: The calls of models in it.
    """
    handed_in = _conversation_handed_in(tree)
    turns = handed_in.turns
    # For a model that the application called alone, the core looks into earlier runs.
    is_model_alone = tree.kind in ("model", "program")
    if not turns and not is_model_alone:
        turns = _history_of_prompts(models, tree)
        # The turns of a prompt may be written examples ("Q: 2+2?", "A: 4"). Not those
        # of ``predict_and_call``: its prompt is the chat history that it was handed.
        tree.is_history_of_prompt = bool(turns) and tree.kind != "predict"
    tree.history = _without_the_question(turns, tree.question)
    # A conversation in which no turns could be read is known by its texts alone. Like
    # instructions they are no evidence where a prompt shows them.
    tree.instructions = handed_in.texts
    tree.doubts = (*tree.doubts, *handed_in.doubts)


def _add_answer(tree: Run) -> None:
    """Write the answer into a tree, with the documents behind it and the warnings.

    Example: a query engine answered "Anna", and its response names two source nodes:
    they are the documents. A run that failed has no answer.
    """
    has_failed = tree.root.error is not None
    documents = _documents_of_generator(tree)
    tree.answers = () if has_failed else _answers(tree, documents)
    tree.gives_only_documents = tree.kind in ("retrieve", "post") and not has_failed
    tree.flow_documents = documents
    # a search of a store may have named ids of nodes without their texts
    tree.n_without_text = len(tree.ids_without_texts - _ids_with_texts(tree))
    tree.warnings = _warnings(tree, documents)


def _settle(run: Run) -> None:
    """Take what is no evidence out of a run's calls, and add what they do not say.

    Taken out: blank documents, pointers to other indices, and steps of workflows that
    held no documents. Added: roles of messages,
    the agent that called each tool, the authors of documents, searches of engines that
    searched without a retriever. A run is settled once, however often trees are made of
    it.
    """
    if run.is_settled:
        return
    _settle_steps_of_workflows(run.root)
    calls = list(run.root.walk())
    blank_documents = _drop_pointers_and_blank_documents(calls)
    run.documents_without_text = (*run.documents_without_text, *blank_documents)
    _give_roles_to_results_and_summaries(calls)
    for call in calls:
        _name_agents_of_tools(call)
        _unwrap_queries(call)
    run.is_settled = True
    capture.name_authors(run.root)
    capture.name_empty_searches(run.root)
    _add_searches_of_engines(run)


def _settle_steps_of_workflows(caller: Node) -> None:
    """Keep those steps of workflows that took documents, or returned some.

    The calls inside another step become calls of the step's caller: such a step tells
    nothing. A step that collected events gets the documents of all of them.
    """
    _join_calls_that_collect(caller.children)
    children: list[Node] = []
    for child in caller.children:
        _settle_steps_of_workflows(child)
        if isinstance(child, StepOfWorkflow) and not _holds_documents(child):
            children += child.children
        else:
            children.append(child)
    caller.children = children


def _join_calls_that_collect(calls: Sequence[Node]) -> None:
    """Give the last call of a step that collects events the documents of all of them.

    Example: ``merge`` is sent an event with A and one with B. Its first call returns
    nothing, since ``ctx.collect_events`` waits for the second. Its second call returns
    an event with B: it took A and B.
    """
    waiting: dict[str, list[StepOfWorkflow]] = defaultdict(list)
    steps = [call for call in calls if isinstance(call, StepOfWorkflow)]
    for step in sorted(steps, key=lambda step: step.ended or step.began):
        if not step.has_returned_event:
            waiting[step.name].append(step)
            continue
        for earlier in waiting.pop(step.name, ()):
            step.documents_among_inputs += earlier.documents_among_inputs
            earlier.documents_among_inputs = ()


def _holds_documents(step: Node) -> bool:
    """Whether a step took documents, or returned some, perhaps an empty list."""
    has_returned_list = step.documents is not None or bool(step.documents_passed_on)
    return has_returned_list or bool(step.documents_among_inputs)


def _conversation_handed_in(run: Run) -> capture.EarlierConversation:
    """Return the conversation that the application handed in, or that a memory keeps.

    It may also stand in other fields of a start event than ``chat_history``.
    """
    turns = _turns_given_or_remembered(run)
    if turns:
        return capture.EarlierConversation(turns)
    asked = run.question or _first_query(run)
    return capture.find_conversation(run.conversation_fields, asked)


def _add_searches_of_engines(run: Run) -> None:
    """Add a search to each query engine that answers from nodes of its own making.

    An engine that turns the question into SQL makes a document of the rows. No retriever
    is recorded then, so the engine itself is taken for the retriever.
    """
    for engine in list(run.root.walk()):
        if _is_query_engine(engine, run) and _has_only_steps_and_models(engine):
            _add_search(engine, run)


def _is_query_engine(call: Node, run: Run) -> bool:
    """Whether a call is one of a query engine, which has the kind "agent" in a tree.

    The outermost call of that kind may also be a chat engine, an agent or a workflow.
    """
    if call is run.root and run.kind != "query":
        return False
    return call.kind == "agent"


def _has_only_steps_and_models(engine: Node) -> bool:
    """Whether an engine calls only steps and models, and so no retriever."""
    _, *inner_calls = engine.walk()
    return all(inner.kind in ("step", "model") for inner in inner_calls)


def _add_search(engine: Node, run: Run) -> None:
    """Add a search to an engine, if a synthesizer was handed nodes that no call found.

    Example: an engine searched its index by itself and handed two nodes to its
    synthesizer: a retriever with these nodes is added just before the synthesizer.
    """
    for step in engine.walk():
        is_synthesizer = step.kind == "step" and step.query is not None
        own_nodes = _nodes_without_origin(step, run)
        if is_synthesizer and own_nodes:
            # calls begin at whole ticks: half a tick earlier is just before this step
            moment = step.began - 0.5
            search = Node(
                "retriever",
                engine.name,
                began=moment,
                ended=moment,
                query=engine.query,
                documents=own_nodes,
            )
            engine.children.append(search)
            return


def _nodes_without_origin(step: Node, run: Run) -> tuple[Document, ...]:
    """The documents that a step was handed and that come from nowhere else.

    Left out are documents that the run was given, and documents that a call wrote.
    """
    ids_given = {document.id for document in run.root.input_documents}
    return tuple(
        document
        for document in step.input_documents
        if document.author is None and document.id not in ids_given
    )


def _ids_with_texts(run: Run) -> set[str | None]:
    """The ids of all documents of a run whose texts were recorded."""
    ids: set[str | None] = set()
    for node in run.root.walk():
        documents = (*node.input_documents, *(node.documents or ()))
        ids.update(document.id for document in documents)
    return ids


def _note_streamed_reply(run: Run, models: Sequence[Node]) -> None:
    """Take the streamed answer as the reply of the last model, where nothing else tells its reply."""
    last_model = models[-1] if models else None
    if last_model is None or not run.is_streamed or not run.root.text:
        return
    if last_model.reply is None and last_model.error is None:
        last_model.reply = Message("assistant", run.root.text)


def _answers(run: Run, flow: tuple[Document, ...] | None) -> tuple[Answer, ...]:
    """The answer of a run; empty without one.

    A model or a program that the application calls by itself answers no question.
    """
    text = run.root.text or ""
    if not text.strip() or run.kind in ("model", "program"):
        return ()
    return (
        Answer(
            text, f"result of {run.kind}", _replies_put_together(run), documents=flow
        ),
    )


def _answers_a_question(run: Run, models: Sequence[Node], where: Overrides) -> bool:
    """Whether a run answers a question, and is a sample even if it retrieved nothing."""
    if run.kind in ("query", "chat"):
        return True
    is_spoken_of = bool(models or where.question_from or where.answer_from)
    return run.kind == "workflow" and is_spoken_of


def _give_roles_to_results_and_summaries(calls: Sequence[Node]) -> None:
    """Give messages of prompts the role "tool" or "summary" if they are nobody's words.

    They repeat a tool's result, or a model's summary of the conversation.
    """
    tool_results = {call.text for call in calls if call.kind == "tool"}
    summaries = _summaries(calls)
    for call in calls:
        call.prompt = tuple(
            _with_true_role(message, tool_results, summaries) for message in call.prompt
        )


def _drop_pointers_and_blank_documents(calls: Sequence[Node]) -> tuple[Document, ...]:
    """Take unused pointers, and documents without a text, out of the calls' lists.

    A pointer is a node that names another index. Example: of ["Rome is old", "  ", a
    pointer "ask the index of 2023"] only "Rome is old" stays, unless a step or a prompt
    got the pointer.

    Returns:
        The documents without a text, each id once.
    """
    blank_documents = _blank_documents_of(calls)
    is_pointer_used = _PointerUse(calls)

    def is_evidence(document: Document) -> bool:
        if not document.text.strip():
            return False
        return not isinstance(document, Pointer) or is_pointer_used(document)

    # from all lists of a call: given, somewhere in its inputs, passed on, and returned
    for call in calls:
        call.input_documents = tuple(filter(is_evidence, call.input_documents))
        call.documents_among_inputs = tuple(
            filter(is_evidence, call.documents_among_inputs)
        )
        call.documents_passed_on = tuple(filter(is_evidence, call.documents_passed_on))
        if call.documents is not None:
            call.documents = tuple(filter(is_evidence, call.documents))
    return blank_documents


def _blank_documents_of(calls: Iterable[Node]) -> tuple[Document, ...]:
    """The documents without a text that calls were given or returned, each id once."""
    document_by_id: dict[str | None, Document] = {}
    for call in calls:
        for document in (
            *call.input_documents,
            *call.documents_among_inputs,
            *call.documents_passed_on,
            *(call.documents or ()),
        ):
            if not document.text.strip():
                document_by_id[document.id] = document
    return tuple(document_by_id.values())


class _PointerUse:
    """Tells whether a step or a model of a run was given a pointer's own text.

    Usually it was not: a retriever that finds the pointer "ask the index of 2023" only
    searches in that index, and returns what it finds there.
    """

    def __init__(self, calls: Iterable[Node]) -> None:
        """Collect what the calls were given, before anything is taken out of them."""
        # ids of the documents that postprocessors and synthesizers were given
        self._ids_taken: set[str | None] = set()
        self._prompts: list[str] = []
        for call in calls:
            self._ids_taken.update(document.id for document in call.input_documents)
            self._prompts += [message.text for message in call.prompt]

    def __call__(self, pointer: Pointer) -> bool:
        if pointer.id in self._ids_taken:
            return True
        return any(pointer.text in prompt for prompt in self._prompts)


def _summaries(calls: Iterable[Node]) -> set[str]:
    """The texts that models wrote in order to shorten the memory."""
    summaries = set()
    for call in calls:
        for child in call.children:
            # a call of a model by a memory is marked as "ignored"
            if child.kind == "ignored" and child.reply is not None:
                summaries.add(child.reply.text)
    return {text for text in summaries if text.strip()}


def _name_agents_of_tools(parent: Node) -> None:
    """Write into each tool below a call which agent called it.

    Example: an agent "weather" calls ``search``, and the tool's call ``search`` behind
    it gets the agent "weather". If a provider gives no ids of tool calls, LlamaIndex
    takes the tool's name as their id: then the last agent that called it counts.
    """
    agent_by_tool_call: dict[str | None, str | None] = {}
    for child in sorted(parent.children, key=lambda call: call.began):
        if child.reply is not None:
            for tool_call in child.reply.tool_calls:
                agent_by_tool_call[tool_call.id] = child.agent
        if child.kind == "tool" and child.tool_call_id in agent_by_tool_call:
            child.agent = agent_by_tool_call[child.tool_call_id]


def _with_true_role(
    message: Message, results: Collection[str | None], summaries: Collection[str]
) -> Message:
    """The message under the role that it has in fact.

    The framework shows a model the summary of a memory, and what a tool of a ReAct
    agent returned, as if somebody else had said it.

    Args:
        message: A message of a prompt.
        results: What the tools of the run returned.
        summaries: What models wrote in order to shorten the memory.
    """
    if message.text in summaries:
        return Message("summary", message.text)
    # how the framework's ReAct agent tells its model
    result = message.text.removeprefix("Observation: ")
    if result != message.text and result in results:
        return Message("tool", result)
    return message


def _unwrap_queries(tool: Node) -> None:
    """Take the name of a tool's argument off the queries inside the tool.

    The framework's retriever tool asks "input is QUERY" where QUERY is meant. Other
    calls than tools are left as they are.
    """
    if tool.kind != "tool" or not tool.query:
        return
    for child in tool.children:
        query = (child.query or "").strip()
        if query.endswith(f" is {tool.query}"):
            child.query = tool.query


def question(run: Run) -> tuple[str | None, str]:
    """Find the user's question in a run, and say where it was found.

    The question of an engine is its argument.

    Returns:
        The question and its place in words. None and "" for a run that answers no
        question by itself, such as that of a retriever.
    """
    if run.kind in ("retrieve", "post", "model", "program"):
        return None, ""
    if run.kind == "workflow":
        return _question_of_workflow(run)
    return run.root.query, f"argument of {run.kind}"


def _question_of_workflow(run: Run) -> tuple[str | None, str]:
    """Find the question of a workflow, and say where it was found.

    Example: ``workflow.run(user_msg="Who?")`` gives ("Who?", "user_msg"). Without a
    field for it, the question is the last message of a ``chat_history`` that the user
    ends. None and "" if neither tells: an earlier question is not asked now.
    """
    field = _question_field(run)
    if field is not None:
        return run.fields[field], f"start event: {field}"
    if _ends_with_user(run.history):  # ``run(chat_history=[…])`` alone
        return run.history[-1].content, "last user message of chat_history"
    return None, ""


def _first_query(run: Run) -> str | None:
    """What a retriever or another call inside a run was asked first."""
    return next((node.query for node in run.root.walk() if node.query), None)


def _ends_with_user(history: Sequence[Turn]) -> bool:
    return bool(history) and history[-1].role == "user"


def _question_field(run: Run) -> str | None:
    """The field of a start event that is likely to hold the question; None without one.

    It is the framework's own, the one that repeats what the workflow asked first, one
    of a usual name, or the only one, unless the user's words end a history beside it.
    """
    if run.fields.get("user_msg"):  # the framework's own name for the question
        return "user_msg"
    # ``run(topic="Who?")``, and a retriever inside was asked "Who?": the field "topic"
    first_query = _first_query(run)
    for name, text in run.fields.items():
        if text == first_query:
            return name
    for name in _QUESTION_FIELDS:
        if name in run.fields:
            return name
    if len(run.fields) == 1 and not _ends_with_user(run.history):
        return next(iter(run.fields))
    return None


def _turns_given_or_remembered(run: Run) -> tuple[Turn, ...]:
    """The turns before the question that the run was given, or that its memory keeps.

    If a workflow's start event has no field for the question, the last turn of the user
    is the question. Example: ``run(chat_history=["Hi", "Hello", "Who?"])`` gives "Hi"
    and "Hello".
    """
    is_in_history = run.kind == "workflow" and _question_field(run) is None
    if is_in_history and _ends_with_user(run.history):
        return run.history[:-1]
    return run.history


def _without_the_question(
    history: tuple[Turn, ...], asked_question: str | None
) -> tuple[Turn, ...]:
    """A history without the question of now at its end.

    Example: "Hi", "Hello", "Who?" and the question "Who?" give "Hi", "Hello". An
    application may put the question into the memory before it asks, perhaps behind the
    author's name, such as "Ann: Where is Porto?".
    """
    question_line = as_one_line(asked_question)
    if not question_line or not history or history[-1].role != "user":
        return history
    last_line = as_one_line(history[-1].content)
    if not last_line.endswith(question_line):
        return history
    before = last_line.removesuffix(question_line).rstrip()
    if not before or before.endswith(_ENDS_OF_NAMES):
        return history[:-1]
    return history


def _history_of_prompts(models: Sequence[Node], run: Run) -> tuple[Turn, ...]:
    """Find the longest history of earlier turns in the prompts of a run's models.

    Example: the prompt [user "Hi", assistant "Hello", user "Who?"] of the question
    "Who?" gives two turns. A prompt that does not ask the question is not read.
    Messages that only show documents are no turns.
    """
    documents: list[Document] = []
    for node in run.root.walk():
        documents += node.documents or ()
    histories: list[tuple[Turn, ...]] = []
    for model in models:
        spoken = [message for message in model.prompt if not message.tool_calls]
        if _asks(spoken, run.question):
            spoken = capture.drop_shown_documents(spoken, documents)
            histories.append(capture.history_in(spoken, run.question))
    return max(histories, key=len, default=())


def _asks(messages: Sequence[Message], asked_question: str | None) -> bool:
    """Whether the user asks a question in messages; says anything, if it is None."""
    lines_of_user = {
        as_one_line(message.text) for message in messages if message.role == "user"
    }
    if asked_question is None:
        return bool(lines_of_user)
    return as_one_line(asked_question) in lines_of_user


def _synthesizers(run: Run) -> list[Node]:
    """The steps that were handed nodes to answer a question from."""
    return [
        node
        for node in run.root.walk()
        if node.kind == "step" and node.query is not None
    ]


def _documents_of_generator(run: Run) -> tuple[Document, ...] | None:
    """Find the documents that reached the generator.

    Example: the response names the source nodes A and B, and a postprocessor shortened
    A: A with the shorter text, as the synthesizer was handed it, and B.

    Returns:
        The documents; empty if the last synthesizer shows its model none; None if the
        result names no source that is evidence.
    """
    synthesizers = _synthesizers(run)
    if synthesizers and _shows_no_nodes(synthesizers[-1]):
        return ()
    handed_by_id: dict[str | None, Document] = {}
    for synthesizer in synthesizers:
        for document in synthesizer.input_documents:
            handed_by_id[document.id] = document
    documents = []
    for source in run.sources:
        document = handed_by_id.get(source.id, source)
        # a document with an author is an answer of a nested engine, and no evidence
        if document.text.strip() and document.author is None:
            documents.append(document)
    return tuple(documents) if documents else None


def _shows_no_nodes(synthesizer: Node) -> bool:
    """Whether a synthesizer was handed no nodes, or lets its model answer without any."""
    return synthesizer.name == "Generation" or not synthesizer.input_documents


def _replies_put_together(run: Run) -> tuple[str, ...]:
    """Return the replies that an answer was put together from, one per node or pack.

    Example: ``response_mode="accumulate"`` makes of two nodes the answer "Response 1:
    In Rome … Response 2: In 753 BC": the replies are "In Rome" and "In 753 BC". Empty
    in other modes.
    """
    synthesizers = _synthesizers(run)
    if not synthesizers:
        return ()
    last_synthesizer = synthesizers[-1]
    if last_synthesizer.name not in ("Accumulate", "CompactAndAccumulate"):
        return ()
    answer_text = run.root.text or ""
    replies = []
    for inner in last_synthesizer.walk():
        if inner.kind == "model" and inner.reply is not None:
            replies.append(inner.reply.text)
    return tuple(reply for reply in replies if reply in answer_text)


def _warnings(run: Run, documents: Sequence[Document] | None) -> tuple[str, ...]:
    """List what went wrong inside a run, in words.

    Example: a retriever found two documents, and the generator got none: "nothing of
    what was retrieved reached the generator".

    Args:
        run: The run.
        documents: The documents that reached the generator; None if that is not known.
    """
    warnings = []
    calls = list(run.root.walk())  # the outermost one first
    has_failed = run.root.error is not None
    has_found = any(call.kind == "retriever" and call.documents for call in calls)
    none_reached = documents is not None and len(documents) == 0
    if none_reached and has_found and not has_failed:
        warnings.append("nothing of what was retrieved reached the generator")
    # nested engines and agents are calls of the kind "agent"
    has_failed_inside = any(call.kind == "agent" and call.error for call in calls[1:])
    if has_failed_inside and not has_failed:
        warnings.append("a nested query failed, and the application went on without it")
    if not run.is_complete and not has_failed:
        warnings.append("the streamed answer was not read to its end")
    if run.is_cut:
        warnings.append("the run had more steps than are kept; later ones are missing")
    return tuple(warnings)
