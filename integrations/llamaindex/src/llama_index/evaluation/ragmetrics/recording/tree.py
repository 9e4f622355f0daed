"""From a recorded run to the core's neutral tree, away from the application's threads."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from llama_index.evaluation.ragmetrics.recording import copies
from llama_index.evaluation.ragmetrics.recording.run import Run

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    SettingError,
    Tree,
    history_in,
    history_of_prompts,
    question_in,
    show_the_same,
)

# the fields of a call that hold documents
_LISTS_OF_DOCUMENTS = (
    "input_documents",
    "documents_among_inputs",
    "documents_passed_on",
    "documents",
)
# which say "Empty Response" where they were handed no node, as any other
_SILENT_SYNTHESIZERS = ("ContextOnly", "NoText")


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
    returned = copies.unwrap_stop_event(response)
    if not isinstance(returned, (str, copies.Returned)):
        raise SettingError(
            "samples_from needs a run or a response of a query engine, chat engine,"
            f" agent or workflow, got {type(returned).__name__}"
        )
    # None for a stream that the application has not read to its end
    answer = copies.answer_of(returned)
    run = Run(Node("agent", "response", ended=0.0, text=answer))
    run.native_run = response
    is_unread_stream = isinstance(returned, copies.Streamed) and answer is None
    run.is_complete = not is_unread_stream
    # The framework wraps the answer to a sub-question into a node with neither metadata
    # nor a score. It was not found, and is only noted, as are nodes without a text.
    found: list[Document] = []
    no_evidence: list[Document] = []
    for node in {node.key: node for node in copies.sources_of(returned)}.values():
        is_framed = node.text.startswith(("Sub question:", "\nQuestion:"))
        is_answer = is_framed and not node.metadata and node.score is None
        is_evidence = bool(node.text.strip()) and not is_answer
        (found if is_evidence else no_evidence).append(node)
    run.flow_documents = tuple(found)
    run.documents_without_text = tuple(no_evidence)
    if run.is_complete and run.flow_documents:  # an answer, be it without a text
        run.answers = (Answer(answer, documents=run.flow_documents),)
    run.lookup_outputs = (copies.plain(returned),)
    return run


def trees_of(run: Run) -> list[Tree]:
    """Make the tree of a run: its copy, with the question and the answer filled in.

    A tree is the form in which the core reads runs of any framework; ``Run`` is a kind
    of ``Tree``. Example: the run of ``engine.query("Who?")`` gives one tree, with the
    question, the answer, and the documents that its retriever found.

    Args:
        run: The run. Blank documents and the like are taken out of its calls.

    Returns:
        A list of one tree. Other frameworks make several trees.
    """
    _settle(run)
    models = [node for node in run.root.walk() if node.kind == "model"]
    tree = replace(run)  # a copy; a ``Run`` is a ``Tree``
    tree.question = question(run)
    _add_history(tree)
    # a model or a program that the application calls by itself answers no question
    has_failed = tree.root.error is not None
    text = tree.root.text or ""
    answers = text.strip() and tree.kind not in ("model", "program")
    if answers and not has_failed:
        # handed no node, a synthesizer asks no model, and says "Empty Response"
        is_fixed = not models and any(
            call.text == text and not call.input_documents
            for call in _synthesizers(tree.root)[-1:]
        )
        given = Answer(text, documents=tree.flow_documents, is_extracted=is_fixed)
        tree.answers = (given,)
    if tree.kind in ("query", "chat"):  # what an engine returns is its answer
        tree.output = {"answer": text}
    elif models and text in [each.get("result") for each in run.lookup_outputs]:
        tree.output = text  # a workflow returned it, and nothing beside it
    is_search = tree.root.kind in ("retriever", "reranker")
    tree.gives_only_documents = is_search and not has_failed
    # where the core looks up what the user names
    tree.native_run = run.native_run or run
    tree.to_plain_value = copies.plain
    return [tree]


def _add_history(tree: Run) -> None:
    """Write the earlier conversation into a tree whose question is known.

    Example: ``engine.chat("And when?", chat_history=[…])`` handed in its earlier turns.
    If a call was handed none, the turns in the prompts of its models are taken.

    Args:
        tree: The tree; it is changed.
    """
    if tree.kind == "query":  # it keeps no talk: its templates hold examples
        messages = itertools.chain.from_iterable(tree.templates)
        replies = (each.text for each in messages if each.role == "assistant")
        tree.instructions = tuple(dict.fromkeys(replies))
    # the core joins a model that the application called alone with other runs first
    if tree.kind not in ("model", "program"):
        for inputs in tree.lookup_inputs:
            talk = inputs.get("chat_history") or inputs.get("messages")
            handed_in = {**inputs, "chat_history": talk}
            tree.history = tree.history or history_in(handed_in, tree.question)
        if not tree.history:
            # The turns of a prompt may be written examples ("Q: 2+2?", "A: 4"). Not those
            # of ``predict_and_call``, whose prompt is the chat history that it was handed,
            # nor those that a chat engine's own model is shown: its memory keeps them.
            is_of_memory = tree.kind == "chat" and not tree.has_examples
            is_whole = tree.kind == "predict" or (is_of_memory and not tree.summaries)
            calls = _own_calls(tree.root) if is_whole else tree.root
            tree.history = history_of_prompts(calls, tree.question, tree.instructions)
            tree.is_history_of_prompt = bool(tree.history) and not is_whole
    # an application may put "Ann: And when?" into the memory before it asks
    if tree.question and tree.history and tree.history[-1].role == "user":
        before, _, behind = tree.history[-1].content.rpartition(tree.question)
        if not behind.strip() and before.rstrip()[-1:] in ("", ":"):
            tree.history = tree.history[:-1]
    is_known = bool(tree.history or tree.summaries)
    if tree.conversation_id is not None and not is_known:
        tree.turn_number = 1  # also of a memory that was emptied


def _own_calls(node: Node) -> Node:
    """Return a call without those inside retrievers, tools and engines.

    A retriever may have a model that rewrites the question, with examples of its own.
    """
    inner_calls = [each for each in node.children if each.kind in ("step", "model")]
    return replace(node, children=[_own_calls(each) for each in inner_calls])


def _settle(run: Run) -> None:
    """Take what is no evidence out of a run's calls, and add what they do not say.

    Taken out: documents without a text, and what one method of a model only handed on to
    another. Added: the agent that called each tool, and which messages of a prompt are
    earlier talk. What is settled already stays as it is.
    """
    _join_models(run.root)
    calls = list(run.root.walk())
    # the agent that called each tool; where a provider gives no ids, the tool's name is
    # the id: then the last agent that called it counts
    agent_by_tool_call: dict[str | None, str | None] = {}
    for call in calls:
        if call.reply is not None:
            for tool_call in call.reply.tool_calls:
                agent_by_tool_call[tool_call.id] = call.agent
        if call.kind == "tool" and call.tool_call_id in agent_by_tool_call:
            call.agent = agent_by_tool_call[call.tool_call_id]
    blank_documents: dict[str | None, Document] = {}
    for call in calls:
        call.prompt = _messages_in(call.prompt, run)
        _add_search_of_engine(call, run.root.input_documents)
        for name in _LISTS_OF_DOCUMENTS:
            documents = getattr(call, name) or ()
            blank = [each for each in documents if not each.text.strip()]
            if blank:
                blank_documents.update((each.id, each) for each in blank)
                with_text = tuple(each for each in documents if each.text.strip())
                setattr(call, name, with_text)
    run.documents_without_text += tuple(blank_documents.values())
    # what a chat returns, it says
    searches = [call for call in calls if run.kind != "chat" and _only_searches(call)]
    for call in searches:
        call.kind = "reranker"  # it took and gave documents
        for writer in (call, *_synthesizers(call)[-1:]):
            writer.text = None


def _join_models(call: Node) -> None:
    """Make one call of those inside each other that were shown the same texts.

    Example: ``llm.chat(messages)`` calls ``llm.complete(text)`` with the messages as one
    text. The outer call knows their roles. A model that hands other texts on to the one
    that it wraps stays around it, and the inner call counts.
    """
    inner_calls = []
    for inner in call.children:
        _join_models(inner)
        shown = [[message.text for message in each.prompt] for each in (call, inner)]
        is_inside = call.kind == inner.kind == "model"
        if not is_inside or not show_the_same(*shown):
            inner_calls.append(inner)
            continue
        call.model = call.model or inner.model
        call.evidence_not_recorded += inner.evidence_not_recorded
        call.texts_handed_in += inner.texts_handed_in
        call.may_have_searched = call.may_have_searched or inner.may_have_searched
        if not any(each.by_provider for each in call.children):
            inner_calls += inner.children
        if call.reply is None and call.error is None:  # no event told a stream's reply
            call.reply, call.ended = inner.reply, inner.ended
    call.children = inner_calls


def _synthesizers(engine: Node) -> list[Node]:
    """List the calls of synthesizers inside an engine; its own is the last."""
    return [call for call in engine.walk() if call.kind == "step" and call.query]


def _only_searches(engine: Node) -> bool:
    """Whether an engine returned no text, or that of a synthesizer that writes nothing.

    Example: with ``response_mode="context_only"`` an engine asks no model and writes
    nothing of its own, as with "no_text". Its models, such as a router's, answer nobody.
    """
    if engine.kind != "agent" or engine.query is None or engine.error is not None:
        return False
    calls = list(engine.walk())
    writer = [engine, *_synthesizers(engine)][-1]
    # the model of a stream is called when it is read, and stands beside the synthesizer
    if any(call.kind == "model" and call.began >= writer.began for call in calls):
        return False
    wrote_nothing = not (engine.text or "").strip()
    is_silent = writer.name in _SILENT_SYNTHESIZERS and writer.text == engine.text
    has_searched = any(call.documents is not None for call in calls)
    return has_searched and (wrote_nothing or is_silent)


def _messages_in(prompt: tuple[Message, ...], run: Run) -> tuple[Message, ...]:
    """Return a prompt with the earlier talk, and summaries of it, as messages of their own.

    A model of texts is shown one text, which the framework made of a template's
    messages: "system: Answer from …, user: Hi, assistant: Hello, user: And when?".
    """
    if len(prompt) == 1:
        for template in run.templates:
            roles = {each.role for each in template if each.text in prompt[0].text}
            if "assistant" in roles:
                prompt = _cut_at(prompt[0], template)
                break
    summaries = [Message("summary", text) for text in run.summaries if text.strip()]
    parts = [
        _cut_at(message, summaries)
        if message.role in ("system", "user")
        else (message,)
        for message in prompt
    ]
    return tuple(itertools.chain.from_iterable(parts))


def _cut_at(message: Message, inner: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages that a message's text holds, and what stands around them.

    The last place counts: the words of a talk may stand in documents above it. Where
    messages are found, the text before and between them is the framework's own.
    """
    rest = message.text
    parts: list[Message] = []
    for each in reversed([each for each in inner if each.text.strip()]):
        before, found, behind = rest.rpartition(each.text)
        if found:
            role = "system" if parts else message.role
            parts += [Message(role, behind), each]
            rest = before
    parts.append(Message("system" if parts else message.role, rest))
    return tuple(parts[::-1])


def _add_search_of_engine(engine: Node, given: Sequence[Document]) -> None:
    """Take what an engine without a retriever hands its synthesizer for what it searched.

    Example: an engine turns the question into SQL, and hands on the rows as a node.
    """
    if engine.kind != "agent" or engine.query is None:
        return
    inner_calls = list(engine.walk())[1:]
    if any(call.kind not in ("step", "model") for call in inner_calls):
        return
    ids_given = {document.id for document in given}
    for step in inner_calls:
        nodes = step.input_documents if step.query is not None else ()
        found = tuple(node for node in nodes if node.id not in ids_given)
        if found:
            # calls begin at whole ticks: half a tick earlier is just before this step
            moment = step.began - 0.5
            search = Node("retriever", engine.name, moment, moment)
            search.query, search.documents = engine.query, found
            engine.children.append(search)
            return


def question(run: Run) -> str | None:
    """Find the user's question in a run; that of an engine is its argument.

    None for a run that answers no question by itself, such as that of a retriever.
    """
    if run.kind in ("retrieve", "post", "model", "program"):
        return None
    if run.kind != "workflow":
        return run.root.query
    inputs = dict(run.lookup_inputs[0])
    talks = [inputs.pop(name, None) for name in ("chat_history", "messages")]
    asked = question_in(inputs.get("user_msg")) or question_in(inputs)
    for talk in () if asked else [talk for talk in talks if isinstance(talk, list)]:
        messages = [*talk]
        # behind the question tools may have been called; what was answered is over
        while messages and _is_of_a_tool(messages[-1]):
            messages.pop()
        last = messages[-1] if messages else None
        if isinstance(last, Message) and last.role == "user":
            return last.text
    return asked


def _is_of_a_tool(message: object) -> bool:
    """Whether a message is the result of a tool, or calls one without a word."""
    if not isinstance(message, Message):
        return False
    is_silent = message.role == "assistant" and not message.text.strip()
    return message.role == "tool" or is_silent
