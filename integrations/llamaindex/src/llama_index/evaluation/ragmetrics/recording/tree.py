"""From a recorded run to the core's neutral tree, away from the application's threads."""

from collections.abc import Collection, Sequence
from dataclasses import replace

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
    one_line,
)

_QUESTION_FIELDS = ("query", "question", "input", "message")


def as_run(response: object) -> Run:
    """A run, or one that holds only what the application returned; ``SettingError`` if it is neither."""
    if isinstance(response, Run):
        return response
    result = snapshot.result_of(response)
    if not isinstance(result, (str, snapshot.Returned)):
        needed = (
            "samples_from needs a run or a response of a query engine, chat engine,"
            " agent or workflow"
        )
        raise capture.SettingError(f"{needed}, got {type(result).__name__}")
    named = {one.key: one for one in snapshot.sources_of(response)}.values()
    # An answer to a sub-question is known by how the framework writes such nodes.
    written = [
        one
        for one in named
        if one.text.startswith(("Sub question:", "\nQuestion:")) and not one.metadata
    ]
    found = tuple(
        one
        for one in named
        if one.text.strip() and (one not in written or one.score is not None)
    )
    run = Run(
        Node("step", "response", text=snapshot.answer_of(response)),
        sources=found,
        result=response,
    )
    run.complete = run.root.text is not None or not isinstance(
        result, snapshot.Streamed
    )
    run.other, data = (
        tuple(one for one in named if one not in found),
        snapshot.plain(result),
    )
    run.outputs = data if isinstance(data, dict) else {}
    return run


def trees_of(run: Run, where: Overrides) -> list[Tree]:
    """The tree of a run; a workflow of which the user says anything (``where``) is a query."""
    if not run.settled:
        run.other, run.settled = (*run.other, *_settled(run.root)), True
        capture.name_authors(run.root)
        capture.name_empty_searches(run.root)
    asked, place = question(run)
    models = [node for node in run.root.walk() if node.kind == "model"]
    if (
        run.streamed
        and run.root.text
        and models
        and models[-1].reply is None
        and models[-1].error is None
    ):
        models[-1].reply = Message("assistant", run.root.text)
    text, failed = run.root.text or "", run.root.error is not None
    flow = _flow(run)
    answer = Answer(text, f"result of {run.kind}", _gathered(run), documents=flow)
    return [
        replace(
            run,
            question=asked,
            asked_at=place,
            history=_without_the_question(_earlier(run) or _told(models, asked), asked),
            answers=(
                (answer,)
                if text.strip() and run.kind not in ("model", "program") and not failed
                else ()
            ),
            flow=flow,
            flow_at="source nodes of the result",
            is_query=run.kind in ("query", "chat")
            or (
                run.kind == "workflow"
                and bool(models or where.question_from or where.answer_from)
            ),
            gives_documents=run.kind in ("retrieve", "post") and not failed,
            kept=True,
            warnings=_warnings(run, flow),
            run=run.result or run,
            places=(run.outputs, run.inputs),
            plain=snapshot.plain,
        )
    ]


def _settled(root: Node) -> tuple[Document, ...]:
    """Take what is no evidence out of a tree: nodes without a text, which are returned; pointers; framed queries."""
    nodes = list(root.walk())
    other: dict[str | None, Document] = {}
    taken = {one.id for node in nodes for one in node.taken}
    prompts = [message.text for node in nodes for message in node.prompt]
    results = {node.text for node in nodes if node.kind == "tool"}
    aside = [
        child.reply
        for node in nodes
        for child in node.children
        if child.kind == "ignored" and child.reply
    ]
    summed = {reply.text for reply in aside if reply.text.strip()}

    def kept(one: Document) -> bool:
        if not one.text.strip():
            other[one.id] = one
        followed = (
            isinstance(one, Pointer)
            and one.id not in taken
            and not any(one.text in text for text in prompts)
        )
        return bool(one.text.strip()) and not followed

    for node in nodes:
        node.taken = tuple(filter(kept, node.taken))
        node.documents = (
            None if node.documents is None else tuple(filter(kept, node.documents))
        )
        made = [
            (one, call)
            for one in node.children
            if one.reply is not None
            for call in one.reply.calls
        ]
        # some providers know no ids and repeat the tool's name
        for one in node.children:
            own = [
                at
                for at, (_, call) in enumerate(made)
                if one.kind == "tool" and call.id == one.call
            ]
            own = [
                at
                for at in own
                if snapshot.argument_of({"kwargs": made[at][1].arguments}) == one.query
            ] or own
            if own:
                one.agent, one.branch = made[own[0]][0].agent, f"{own[0]:06}"
        node.prompt = tuple(
            (
                Message("summary", one.text)
                if one.text in summed
                else _observed(one, results)
            )
            for one in node.prompt
        )
        for child in node.children if node.kind == "tool" and node.query else ():
            if child.query is not None and child.query.strip().endswith(
                f" is {node.query}"
            ):
                # the framework's retriever tool writes the argument's name before it
                child.query = node.query
    return tuple(other.values())


def _observed(message: Message, results: Collection[str | None]) -> Message:
    """A tool's result, which the framework's ReAct agent tells its model as words of the user."""
    text = message.text.removeprefix("Observation: ")
    return (
        Message("tool", text) if text != message.text and text in results else message
    )


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
    said = [turn.content for turn in run.history if turn.role == "user"]
    if said:
        return said[-1], "last user message of chat_history"
    asked = next((node.query for node in run.root.walk() if node.query), None)
    found = [name for name, text in fields.items() if text == asked]
    found += [name for name in _QUESTION_FIELDS if name in fields]
    found += fields if len(fields) == 1 else ()
    return (
        (fields[found[0]], f"start event: {found[0]}")
        if found
        else (asked, "first query")
    )


def _question_field(run: Run) -> str | None:
    """The field of a start event that asks beside a ``chat_history``: the last user message there is an earlier one."""
    return next(
        (name for name in _QUESTION_FIELDS if run.history and run.fields.get(name)),
        None,
    )


def _earlier(run: Run) -> tuple[Turn, ...]:
    """The turns that the run was given or remembers.

    Without the question where it is the last of them.
    """
    asked = [at for at, turn in enumerate(run.history) if turn.role == "user"]
    is_named = bool(run.fields.get("user_msg")) or _question_field(run) is not None
    handed = run.kind == "workflow" and not is_named and asked
    return run.history[: asked[-1]] if handed else run.history


def _without_the_question(
    history: tuple[Turn, ...], asked: str | None
) -> tuple[Turn, ...]:
    """A history that does not end with what is asked now: applications put that into the memory first."""
    ends_with_it = (
        bool(history)
        and history[-1].role == "user"
        and one_line(history[-1].content) == one_line(asked)
    )
    return history[:-1] if ends_with_it else history


def _told(models: Sequence[Node], asked: str | None) -> tuple[Turn, ...]:
    """Earlier turns of a conversation as the fullest prompt shows them that asks the question, or anything."""
    said = ([one for one in node.prompt if not one.calls] for node in models)
    wanted = None if asked is None else one_line(asked)
    found = [
        some
        for some in said
        if any(
            one.role == "user" and wanted in (None, one_line(one.text)) for one in some
        )
    ]
    return max((capture.history_in(some, asked) for some in found), key=len, default=())


def _synthesizers(run: Run) -> list[Node]:
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
        synthesizers[-1].name == "Generation" or not synthesizers[-1].taken
    ):
        return ()  # that one shows the model no nodes; another one had none
    given = {one.id: one for node in synthesizers for one in node.taken}
    found = (given.get(one.id, one) for one in run.sources)
    return (
        tuple(one for one in found if one.text.strip() and one.author is None) or None
    )


def _gathered(run: Run) -> tuple[str, ...]:
    """The replies that an answer was put together from, one per node or pack of nodes."""
    parts = [
        node
        for node in _synthesizers(run)[-1:]
        if node.name in ("Accumulate", "CompactAndAccumulate")
    ]
    replies = [
        one.reply.text
        for node in parts
        for one in node.walk()
        if one.kind == "model" and one.reply is not None
    ]
    return tuple(reply for reply in replies if reply in (run.root.text or ""))


def _warnings(run: Run, flow: Sequence[Document] | None) -> tuple[str, ...]:
    """What went wrong inside, in words."""
    said = []
    nodes = list(run.root.walk())
    if (
        flow == ()
        and run.root.error is None
        and any(node.kind == "retriever" and node.documents for node in nodes)
    ):
        said.append("nothing of what was retrieved reached the generator")
    if (
        any(node.error for node in nodes[1:] if node.kind == "agent")
        and run.root.error is None
    ):
        said.append("a nested query failed, and the application went on without it")
    if not run.complete and run.root.error is None:
        said.append("the streamed answer was not read to its end")
    if run.cut:
        said.append("the run had more steps than are kept; later ones are missing")
    return tuple(said)
