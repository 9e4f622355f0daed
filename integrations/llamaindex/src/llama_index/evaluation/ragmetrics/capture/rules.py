"""The rules by which a run becomes a sample, one function each. All are pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from llama_index.evaluation.ragmetrics.capture.run import ENTRIES, Kind, Node, Run, Span

from ragmetrics_core.capturing import Overrides

_QUESTION_FIELDS = ("query", "question", "input", "message")
# Inside of which other steps a step's nodes are not yet the last word.
_INNER: dict[Kind, tuple[Kind, ...]] = {
    "retrieve": ("retrieve", "tool"),
    "post": ("retrieve", "post", "tool"),
    "tool": ("tool",),
}
_SYNTHETIC_STARTS = ("Sub question:", "\nQuestion:")


def of_kind(run: Run, *kinds: Kind) -> list[Span]:
    """Steps of these kinds, in the order in which they began."""
    return [span for span in run.spans if span.kind in kinds]


def outermost_retrievals(run: Run) -> list[Span]:
    """Retrievals that are no inner step of another one, as those of fusion or auto-merging are."""
    return [span for span in of_kind(run, "retrieve") if not span.within(("retrieve",))]


def question(run: Run) -> tuple[str | None, str]:
    """The user's question and where it was found."""
    root = run.root
    if root.kind != "workflow":
        return root.question, f"argument of {root.kind}"
    asked = [span.question for span in of_kind(run, "retrieve", "query", "synth") if span.question]
    return _workflow_question(root, asked)


def _workflow_question(root: Span, asked: Sequence[str]) -> tuple[str | None, str]:
    """The question of a workflow: what is named so, else the text that the first step asks for."""
    fields = root.fields
    if fields.get("user_msg"):
        return fields["user_msg"], "user_msg"
    said = [turn.content for turn in root.history if turn.role == "user"]
    if said:
        return said[-1], "last user message of chat_history"
    for name, text in fields.items():
        if asked and text == asked[0]:
            return text, f"start event: {name}"
    for name in _QUESTION_FIELDS:
        if name in fields:
            return fields[name], f"start event: {name}"
    if len(fields) == 1:
        ((name, text),) = fields.items()
        return text, f"start event: {name}"
    return (asked[0], "first retrieval") if asked else (None, "not found")


def standalone_question(run: Run, asked: str | None) -> str | None:
    """The one question that was put to the retrievers, where it is not the user's own."""
    put = {span.question for span in outermost_retrievals(run) if span.question}
    if len(put) != 1:
        return None
    (only,) = put
    return None if asked is None or only.strip() == asked.strip() else only


def retrieved(run: Run) -> tuple[Node, ...] | None:
    """What the outermost retrievals returned, before anything was reranked, cut or replaced; None if none did."""
    returned = [span.given for span in outermost_retrievals(run) if span.given is not None]
    return unique(node for nodes in returned for node in nodes) if returned else None


def final_nodes(run: Run, where: Overrides) -> tuple[tuple[Node, ...], str]:
    """The nodes that reached the generator, and how that is known: from the result, else from the steps."""
    named = run.root.given or ()
    if named and run.root.kind != "retrieve":
        return _as_synthesized(run, named), "source nodes of the result"
    return _from_steps(run, where), "steps of the run"


def _as_synthesized(run: Run, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The same nodes with the text that the synthesizer was given."""
    seen = {node.id: node for span in of_kind(run, "synth") for node in span.taken or ()}
    return tuple(seen.get(node.id, node) for node in nodes)


def _from_steps(run: Run, where: Overrides) -> tuple[Node, ...]:
    """What synthesizers got, what was retrieved and went nowhere else, and texts of tools that the user names."""
    found: list[Node] = []
    for index, span in enumerate(run.spans):
        if span.kind == "synth":
            found += span.taken or ()
        elif where.is_context_tool(span.name) and span.answer and not _found_nodes(run, span):
            found.append(Node(None, None, {}, span.answer, span.answer))
        elif run.root.error is None and _is_output(span) and not _consumed(span, run.spans[index + 1 :]):
            found += span.given or ()
    return tuple(found)


def _found_nodes(run: Run, tool: Span) -> bool:
    """True if a tool returned nodes, or something inside of it retrieved some."""
    return bool(tool.given) or any(tool in step.path() for step in of_kind(run, "retrieve", "synth"))


def _is_output(span: Span) -> bool:
    """True for steps whose returned nodes may be what the generator saw."""
    if span.given is None or span.kind not in _INNER:
        return False
    around = span.around(_INNER[span.kind])
    return around is None or (around.kind == "tool" and around.given is None)


def _consumed(span: Span, later: Iterable[Span]) -> bool:
    """True if the nodes went into a later step, or a synthesizer of the same engine came later."""
    ids = {node.id for node in span.given or ()}
    engine = span.around(ENTRIES)
    for step in later:
        if span in step.path():
            continue
        if step.kind == "post" and not step.within(("post",)) and _shares(ids, step.taken):
            return True
        if step.kind == "synth" and (_shares(ids, step.taken) or step.around(ENTRIES) is engine):
            return True
    return False


def _shares(ids: set[str | None], nodes: Sequence[Node] | None) -> bool:
    return any(node.id in ids for node in nodes or ())


def unique(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """One node per id, the first wins; equal texts under two ids are two."""
    return tuple({node.id or ("text", node.text): node for node in reversed(list(nodes))}.values())[::-1]


def split_synthetic(run: Run, nodes: Sequence[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Separate evidence from nodes that a model wrote: answers to sub-questions.

    A node is synthetic if no retriever, postprocessor or engine without sub-engines ever held it, its text
    contains the answer of a nested query, and it contains no retrieved text.
    """
    nested = [span for span in of_kind(run, "query") if span is not run.root]
    answers = [span.answer.strip() for span in nested if span.answer and span.answer.strip()]
    if not answers:
        return tuple(nodes), ()
    parents = {id(span.around(ENTRIES)) for span in run.spans if span.kind in ENTRIES}
    held = [span.given or () for span in of_kind(run, "retrieve", "post")]
    held += [span.taken or () for span in of_kind(run, "synth") if id(span.around(ENTRIES)) not in parents]
    known = {node.id for some in held for node in some}
    texts = [node.plain.strip() for some in held for node in some if node.plain.strip()]

    def synthetic(node: Node) -> bool:
        if node.id in known or not any(answer in node.plain for answer in answers):
            return False
        return not any(text in node.plain for text in texts)

    return _split(nodes, synthetic)


def split_stored_synthetic(nodes: Sequence[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The same for a stored response, whose run is not known: by how the framework writes such nodes."""
    return _split(nodes, lambda node: node.score is None and not node.metadata and _starts(node.plain))


def _starts(text: str) -> bool:
    return text.startswith(_SYNTHETIC_STARTS)


def split_textless(nodes: Sequence[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Separate nodes with a text from those without, such as images."""
    textless, texts = _split(nodes, lambda node: bool(node.plain.strip()))
    return texts, textless


def _split(nodes: Sequence[Node], second: Callable[[Node], bool]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    return tuple(node for node in nodes if not second(node)), tuple(node for node in nodes if second(node))


def warnings(run: Run, contexts: Sequence[Node], found: Sequence[Node] | None) -> tuple[str, ...]:
    """What is ambiguous or went wrong inside, in words."""
    said = []
    if found and not contexts and run.root.error is None:
        said.append("nothing of what was retrieved reached the generator")
    if any(span.error for span in of_kind(run, "query") if span is not run.root) and run.root.error is None:
        said.append("a nested query failed, and the application went on without it")
    if not run.complete and run.root.error is None:
        said.append("the streamed answer was not read to its end")
    if run.cut:
        said.append("the run had more steps than are kept; later ones are missing")
    return tuple(said)
