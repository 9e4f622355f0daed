"""From LangChain's runs to the core's tree of calls; pure, nothing is changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, ToolMessage
from langsmith import schemas
from langsmith.run_trees import RunTree

from langchain_ragmetrics.values import (
    artifacts_of,
    is_command,
    message_of,
    plain,
    text_of,
)
from ragmetrics_core import Turn, capture
from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    Overrides,
    Tree,
    documents_in,
)

FALLBACKS = "RunnableWithFallbacks"
OBSERVED = "ragmetrics-observed"
# Keys of ``extra`` that the recorder fills: of a root the task or thread it ran in; of
# a tool the call that it answers, whether it handed over.
FLOW = "ragmetrics_flow"
CALL = "ragmetrics_call"
HANDOFF = "ragmetrics_handoff"
_OWN_FIELDS = ("question", "reference", "facts", "id", "metadata", "answer")
_ABANDONED = "the stream was abandoned before its end"


@dataclass(eq=False, slots=True)
class Run:
    """A run as the recorder keeps it.

    Its fields are named and filled as in LangSmith's.
    """

    id: UUID
    name: str
    run_type: str
    parent_run_id: UUID | None
    tags: list[str]
    extra: dict[str, Any]
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    error: str | None = None
    child_runs: "list[Run]" = field(default_factory=list)
    start_time: datetime = field(default_factory=partial(datetime.now, UTC))
    end_time: datetime | None = None


AnyRun = Run | schemas.RunBase


@dataclass(frozen=True)
class Finding(Overrides):
    """Where question, contexts and answer of a run are.

    By default the rules find them.
    """

    # a root that called a model is a sample even where nothing was retrieved
    every_turn: bool = False


def trees(run: AnyRun, where: Overrides) -> Iterator[Tree]:
    """The roots that count: of a ``map`` its items, of fallbacks in LangSmith their alternatives, roots as well."""
    inside = children(run)
    if run.name.startswith("RunnableEach<"):
        for child in inside:
            for tree in trees(child, where):
                tree.strand = tree.strand or _strand(run)
                yield tree
    elif run.name != FALLBACKS or inside or run.error:
        yield _tree(run, every_turn=isinstance(where, Finding) and where.every_turn)


def _strand(run: AnyRun) -> str:
    """The task or thread in which a root ran."""
    return str((run.extra or {}).get(FLOW, ""))


def _tree(run: AnyRun, *, every_turn: bool) -> Tree:
    """One root with all below it, and what LangChain says of question, history and answer."""
    root, inputs, output = _node(run), plain(run.inputs), plain(run.outputs or {})
    given = metadata_of(run).get("ragmetrics")
    given = given if isinstance(given, Mapping) else {}
    continues, models = (
        _continues(run),
        any(node.kind == "model" for node in root.walk()),
    )
    empty = _is_empty(run.outputs)
    asked, place = _question(run, inputs, output, given, continues)
    if root.kind == "step" and not capture.has_written(inputs):
        root.taken = tuple(documents_in(inputs))
    error = error_of(run) or (_ABANDONED if empty and _is_abandoned(run) else None)
    thread = metadata_of(run).get("thread_id")
    waits = any((one.error or "").startswith("GraphInterrupt(") for one in root.walk())
    return Tree(
        root,
        question=asked,
        asked_at=place,
        history=_history(run, inputs, output, asked) if root.kind == "step" else (),
        answers=_answers(root, output),
        output=output,
        is_query=every_turn and models,
        gives_documents=_gives_documents(root, output, models=models),
        error=error,
        complete=not error and not (empty and not models),
        strand=_strand(run),
        thread=None if thread is None else f"{run.name}/{thread}",
        conversation=None if thread is None else str(thread),
        paused=waits and run.error is None and thread is not None,
        continues=continues,
        given=_given(given),
        run=run,
        places=(run.inputs,),
        results=(run.outputs or {},),
        plain=plain,
    )


def _question(
    run: AnyRun,
    inputs: Mapping[str, Any],
    output: object,
    given: Mapping[str, Any],
    continues: bool,
) -> tuple[str | None, str]:
    if given.get("question") is not None:
        return str(given["question"]), "metadata['ragmetrics']['question']"
    if run.run_type != "chain":
        return None, ""
    asked = None if continues else capture.question_in(inputs)
    if asked is not None:
        return asked, f"inputs of {run.name}"
    asked = capture.question_in_state(output)
    return asked, f"outputs of {run.name}" if asked is not None else ""


def _history(
    run: AnyRun, inputs: object, output: object, asked: str | None
) -> tuple[Turn, ...]:
    """Earlier turns: in the inputs, in the state of a graph, or loaded by ``RunnableWithMessageHistory``."""
    found = capture.history_in(inputs) or capture.history_in(
        output, asked, needs_question=asked is not None
    )
    if found:
        return found
    loads = (
        one
        for one in walk(run)
        if one.run_type == "chain" and one.name == "load_history"
    )
    loaded = next(
        (
            capture.conversation(plain((one.outputs or {}).get("output"))) or ()
            for one in loads
        ),
        (),
    )
    earlier = capture.spoken(loaded)
    return earlier[:-1] if earlier and earlier[-1].content == asked else earlier


def _answers(root: Node, output: Mapping[str, Any]) -> tuple[Answer, ...]:
    if root.kind == "model":
        text = None if root.reply is None else root.reply.text
        return (Answer(text, "the model call", call=root),) if text else ()
    found, key = capture.answer_in(output)
    if found is None:
        return ()
    return (
        Answer(
            found,
            (
                "the last message in outputs['messages']"
                if key == "messages"
                else f"outputs[{key!r}]"
            ),
        ),
    )


def _gives_documents(root: Node, output: Mapping[str, Any], *, models: bool) -> bool:
    if root.kind in ("retriever", "tool"):
        return not models or root.kind == "retriever"
    found = output["output"] if set(output) == {"output"} else None
    return (
        isinstance(found, tuple)
        and bool(found)
        and all(isinstance(one, Document) for one in found)
    )


def _is_empty(outputs: Mapping[str, Any] | None) -> bool:
    return not outputs or (set(outputs) == {"output"} and outputs["output"] is None)


def _is_abandoned(run: AnyRun) -> bool:
    """A stream was left before its end: a model, or the parser of its text, has not ended properly."""
    models = (one for one in walk(run) if one.run_type in ("llm", "chat_model"))
    parsers = (one for one in walk(run) if one.run_type == "parser")
    return any(one.end_time is None for one in models) or any(
        _is_empty(one.outputs) for one in parsers
    )


def error_of(run: AnyRun) -> str | None:
    """The error with which the run ended, without its traceback."""
    return (
        run.error.split("Traceback (most recent call last)")[0].strip() or "error"
        if run.error
        else None
    )


def _continues(run: AnyRun) -> bool:
    """The run resumes a graph instead of asking something new."""
    value = run.inputs.get("input") if len(run.inputs) == 1 else None
    return (
        is_command(value)
        or not run.inputs
        or (set(run.inputs) == {"input"} and value is None)
    )


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the sample that the metadata of the call says."""
    own = given.get("metadata")
    rest = {str(key): value for key, value in given.items() if key not in _OWN_FIELDS}
    found: dict[str, Any] = {
        "metadata": {**rest, **own} if isinstance(own, Mapping) else rest
    }
    if given.get("reference") is not None:
        value = given["reference"]
        items = value if isinstance(value, (list, tuple)) else [value]
        found["reference"] = tuple(str(item) for item in items if item is not None)
    if given.get("id") is not None:
        found["id"] = str(given["id"])
    return found | ({"facts": given["facts"]} if given.get("facts") is not None else {})


def metadata_of(run: AnyRun) -> Mapping[str, Any]:
    """Metadata of the call; the run's own property would create it."""
    found = (run.extra or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}


def children(run: AnyRun) -> list[AnyRun]:
    """Child runs in start order, without attempts that a later sibling replaced: of the same name and arguments."""
    found: list[Any] = (
        [*(run.child_runs or ())]
        if isinstance(run, (Run, schemas.Run, RunTree))
        else []
    )
    later: set[tuple[str, str]] = set()
    kept: list[AnyRun] = []
    for child in sorted(found, key=lambda child: child.start_time)[::-1]:
        attempt = (
            child.name,
            repr(child.inputs) if child.run_type in ("tool", "retriever") else "",
        )
        if not (child.error and attempt in later):
            kept.append(child)
        later.add(attempt)
    return kept[::-1]


def walk(run: AnyRun) -> Iterator[AnyRun]:
    """The run and all runs below it, in start order."""
    yield run
    for child in children(run):
        yield from walk(child)


# Calls


def _node(run: AnyRun) -> Node:
    """One run as a call, with those inside it."""
    end, metadata = (
        None if run.end_time is None else run.end_time.timestamp(),
        metadata_of(run),
    )
    inside = [_node(child) for child in children(run)]
    branch = next((tag for tag in run.tags or () if tag.startswith("map:key:")), "")
    node = Node(
        "step",
        run.name,
        run.start_time.timestamp(),
        end,
        inside,
        error=run.error,
        branch=branch,
    )
    node.agent = metadata.get("lc_agent_name")
    fill = {
        "retriever": _retriever,
        "tool": _tool,
        "llm": _model,
        "chat_model": _model,
        "chain": _step,
    }
    if run.run_type in fill:
        fill[run.run_type](node, run)
    if node.kind == "model" and metadata.get("lc_source") == "summarization":
        node.kind = "ignored"
    return node


def _retriever(node: Node, run: AnyRun) -> None:
    query = run.inputs.get("query")
    node.kind, node.query = (
        "retriever",
        query if isinstance(query, str) and query.strip() else None,
    )
    if run.error or run.outputs is None:
        return
    found = tuple(documents_in(plain(run.outputs.get("documents"))))
    observed = [
        one for one in walk(run) if OBSERVED in (one.tags or ()) and one is not run
    ]
    # a store that is observed reports scores
    if observed and any(one.score is None for one in found):
        scored = [
            doc
            for one in observed
            for doc in documents_in(plain((one.outputs or {}).get("documents")))
        ]
        known = {(doc.id, doc.text): doc.score for doc in scored}
        found = tuple(
            d if d.score is not None else replace(d, score=known.get((d.id, d.text)))
            for d in found
        )
    node.documents = found


def _query(arguments: Mapping[str, Any]) -> str:
    texts = [
        value
        for value in arguments.values()
        if isinstance(value, str) and value.strip()
    ]
    return texts[0] if len(texts) == 1 else capture.compact(plain(arguments))


def _tool(node: Node, run: AnyRun) -> None:
    output, extra = (run.outputs or {}).get("output"), run.extra or {}
    node.call = extra.get(CALL) or (
        output.tool_call_id if isinstance(output, ToolMessage) else None
    )
    node.control = bool(extra.get(HANDOFF)) or (run.error or "").startswith(
        ("GraphInterrupt(", "ParentCommand(")
    )
    node.kind, node.query = "tool", _query(run.inputs)
    if run.error:
        return
    message = message_of(output)
    node.text = message.text if message is not None else text_of(output)
    if isinstance(output, ToolMessage) and output.status == "error":
        node.error, node.text = node.text or "error", None
    # JSON of it has the same letters
    if not node.text and isinstance(output, (list, dict)) and output:
        node.text = str(output)
    node.documents = _documents_beside(output)


def _documents_beside(output: object) -> tuple[Document, ...] | None:
    """The documents that a tool returned beside its text; () for an empty list of them, None if there is no list."""
    artifacts = [plain(artifact) for artifact in artifacts_of(output)]
    documents = tuple(
        document for artifact in artifacts for document in documents_in(artifact)
    )
    gave_an_empty_list = any(artifact in ((), []) for artifact in artifacts)
    return documents if documents or gave_an_empty_list else None


def _model(node: Node, run: AnyRun) -> None:
    node.kind, node.prompt = "model", _prompt(run)
    name = metadata_of(run).get("ls_model_name")
    node.model = name if isinstance(name, str) else None
    batches = (run.outputs or {}).get("generations") or [[]]
    first = batches[0][0] if batches[0] and isinstance(batches[0][0], Mapping) else None
    if first is None or run.error:
        return
    message = message_of(first.get("message")) or Message("assistant")
    node.reply = Message(
        "assistant", str(first.get("text") or message.text), message.calls
    )


def _prompt(run: AnyRun) -> tuple[Message, ...]:
    """Everything that a model was shown."""
    prompts = run.inputs.get("prompts")
    if isinstance(prompts, list):
        return tuple(Message("user", str(prompt)) for prompt in prompts)
    batches = run.inputs.get("messages") or []
    found = [
        message_of(item)
        for batch in batches
        for item in (batch if isinstance(batch, list) else [batch])
    ]
    return tuple(message for message in found if message is not None)


def _step(node: Node, run: AnyRun) -> None:
    """Documents in the outputs of a step that were not in its inputs: with another text, or another score.

    A person asked for approval may reply in a tool's place, which then does not run.
    """
    said = (
        (run.outputs or {}).get("messages")
        if run.name.startswith("HumanInTheLoop")
        else None
    )
    asked = {
        call["id"]: call
        for one in said or ()
        if isinstance(one, AIMessage)
        for call in one.tool_calls
    }
    for one in said or ():
        if (
            isinstance(one, ToolMessage)
            and one.status == "success"
            and one.tool_call_id in asked
        ):
            reply = Node(
                "tool",
                one.name or "",
                node.began,
                node.ended or node.began,
                text=str(one.text),
            )
            reply.call, reply.query = (
                one.tool_call_id,
                _query(asked[one.tool_call_id]["args"]),
            )
            node.children.append(reply)
    found = tuple(documents_in(plain(run.outputs or {})))
    if found:
        before = {
            (one.id, one.text, one.score) for one in documents_in(plain(run.inputs))
        }
        node.documents = (
            tuple(one for one in found if (one.id, one.text, one.score) not in before)
            or None
        )
