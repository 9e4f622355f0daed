"""From the spans of one trace to the core's trees of calls: a tree for each turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ragmetrics_core.capture import (
    answer_in,
    compact,
    documents_in,
    has_written,
    history_in,
)
from ragmetrics_core.capture.plain_values import (
    each,
    question_in,
    question_in_state,
    texts_in,
)
from ragmetrics_core.capture.tree import FLOW, Answer, Document, Message, Node, Tree
from ragmetrics_core.capture.turns import joined
from ragmetrics_core.capture.written import name_authors
from ragmetrics_core.data import InputError
from ragmetrics_core.traces.dialects import Reading, reading_of, session_of
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.values import ToolMessage, messages_in, replies_in

Resolve = Mapping[str, str] | Callable[[Sequence[str]], Mapping[str, str]]
_DEEPEST = 250
_FIELDS = re.compile(r"\w+=['\"]")  # of an object that was recorded as its text
_ABANDONED = "the stream was abandoned before its end"
_DROPPED = (
    "{} spans lack attributes, dropped at the limit of the SDK: raise"
    " OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
)


@dataclass(eq=False)
class Call:
    """A span, what it says (None if it bears no known mark), and the spans inside it."""

    span: Span
    said: Reading | None
    inside: list[Call] = field(default_factory=list)

    def walk(self) -> Iterator[Call]:
        """It and all below it, in the order in which they began."""
        yield self
        for one in self.inside:
            yield from one.walk()


def calls_of(
    spans: Sequence[Span], dialect: str | None = None, resolve: Resolve | None = None
) -> list[Call]:
    """The outermost calls of a trace.

    Raises:
        ValueError: If a span cannot be read, or spans are inside of each other or one
            inside the other without end.
        InputError: If ``resolve`` raises.
    """
    ordered = sorted(spans, key=lambda one: (one.start, -one.end, one.id))
    found = {
        span.id: Call(span, reading_of(span.attributes, dialect)) for span in ordered
    }
    roots: list[Call] = []
    for call in found.values():
        around = found.get(call.span.parent)
        if (
            around
            and not around.inside
            and call.span.name.endswith(".workflow")
            and call.span.name == around.span.name
        ):
            around = None  # of a batch, whose runs Traceloop puts one inside the other
        (roots if around is None else around.inside).append(call)
    level, reached = roots, 0
    for _ in range(_DEEPEST):
        reached, level = (
            reached + len(level),
            [inner for one in level for inner in one.inside],
        )
    if reached < len(found) or "" in found:
        raise ValueError("no tree")
    _name([call.said for call in found.values() if call.said is not None])
    if resolve is not None:
        _resolve(
            [call.said for call in found.values() if call.said is not None],
            resolve,
            ordered[0].trace,
        )
    return roots


def _name(said: Sequence[Reading]) -> None:
    """Give retrieved documents of which only the text was recorded the ids that a later step was given with it."""
    named: dict[str, dict[str, None]] = {}
    for one in (
        document
        for some in said
        for document in each(some.input, Document)
        if document.id is not None
    ):
        named.setdefault(one.text, {})[one.id] = None
    for some in said if named else ():
        found = (
            list(each(some.output, Document))
            if some.kind == "retriever" and some.documents is None
            else []
        )
        if any(one.id is None for one in found):
            left = {text: iter(ids) for text, ids in named.items()}
            ids = (one.id or next(left.get(one.text, iter(())), None) for one in found)
            some.documents = tuple(
                replace(one, id=name) for one, name in zip(found, ids, strict=True)
            )
            some.output = None


def _resolve(said: Sequence[Reading], resolve: Resolve, trace: str) -> None:
    """Give retrieved documents the texts that the spans do not hold."""
    missing = list(
        dict.fromkeys(
            one.id
            for some in said
            for one in some.documents or ()
            if one.id and not one.text
        )
    )
    try:
        texts = (
            (resolve if isinstance(resolve, Mapping) else resolve(missing))
            if missing
            else {}
        )
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(
            f"resolve= failed on trace {trace}: {type(error).__name__}: {error}"
        ) from error
    for some in (some for some in said if some.documents):
        found = (
            replace(one, text=one.text or str(texts.get(one.id or "") or ""))
            for one in some.documents or ()
        )
        some.documents = tuple(found)


def trees_of(call: Call, session_around: str | None = None) -> Iterator[Tree]:
    """The turn of a call; of a loop and of a span that is nobody's call, or says nothing, those below it.

    ``session_around`` is the conversation that the spans around the call name.
    """
    said = call.said
    own_session = session_of(call.span.attributes) or session_around
    silent = (
        said is not None
        and said.kind == "step"
        and said.input is None
        and said.output is None
    )
    if (
        said is not None
        and not call.span.name.startswith("RunnableEach<")
        and not (silent and len(call.inside) == 1)
    ):
        yield _tree(call, said, own_session or _session_below(call))
        return
    inside = [tree for one in call.inside for tree in trees_of(one, own_session)]
    whole = [
        tree
        for tree in inside
        if {node.kind for node in tree.root.walk()} >= {"model", "retriever"}
    ]
    if call.said is not None or len(inside) == 1 or len(whole) > 1:
        yield from inside
    elif inside:
        yield joined(inside, FLOW)


def _session_below(call: Call) -> str | None:
    """The only conversation that the spans below a call name; None for none or several."""
    sessions = {session_of(inner.span.attributes) for inner in call.walk()} - {None}
    return sessions.pop() if len(sessions) == 1 else None


def _tree(call: Call, said: Reading, session: str | None) -> Tree:
    root, inputs, output = _node(call, said), said.input, said.output
    models, is_step = (
        [node for node in root.walk() if node.kind == "model"],
        root.kind in ("step", "agent"),
    )
    # of a stream a reply may be missing
    if len(models) == 1 and isinstance(output, str) and not call.span.error:
        models[0].reply = models[0].reply or Message("assistant", output)
    continues = is_step and (
        inputs is None
        or (isinstance(inputs, Mapping) and {"resume", "goto"} <= set(inputs))
    )
    asked, place = (
        said.user_fields.get("question"),
        "metadata['ragmetrics']['question']",
    )
    if asked is None and is_step and not continues:
        asked, place = question_in(inputs), f"input of {root.name}"
        asked = None if asked is not None and _FIELDS.match(asked) else asked
    if asked is None and is_step:
        asked, place = question_in_state(output), f"output of {root.name}"
    if is_step and not root.taken and not has_written(inputs):
        root.taken = tuple(documents_in(inputs))
    name_authors(root)
    synthesizers = [
        node for node in root.walk() if node.kind == "step" and node.query is not None
    ]
    _leave_out(root, synthesizers)
    unread = dict.fromkeys(
        one.id for node in root.walk() for one in node.documents or () if not one.text
    )
    for node in root.walk() if unread else ():
        node.documents = tuple(one for one in node.documents or () if one.text) or None
    cut = _spans_without_all_attributes(call)
    waits = any((one.error or "").startswith("GraphInterrupt") for one in root.walk())
    error = call.span.error or (
        _ABANDONED if output is None and _is_abandoned(call) else None
    )
    shows_none = said.documents == () or (
        output is not None and any(not one.taken for one in synthesizers[-1:])
    )
    alone = root.kind in ("retriever", "reranker") or (
        root.kind == "tool" and not models
    )
    return Tree(
        root,
        question=asked,
        asked_at=place if asked is not None else "",
        history=(history_in(inputs) or history_in(output, asked)) if is_step else (),
        answers=_answers(root, output, synthesizers),
        output=output,
        flow=() if shows_none else None,
        is_query=root.kind == "agent" and (bool(models) or said.query is not None),
        gives_documents=alone
        or (isinstance(output, tuple) and {*map(type, output)} == {Document}),
        error=error,
        complete=not error and not (output is None and not models),
        thread=session and f"{root.name}/{session}",
        conversation=session,
        paused=waits and call.span.error is None and session is not None,
        continues=continues,
        given={"id": call.span.trace, "metadata": {"span_id": call.span.id}},
        other=tuple(Document("", one) for one in unread),
        unread=len(unread) + cut,
        warnings=(_DROPPED.format(cut),) if cut else (),
        places=(call.span.trace,),
    )


def _spans_without_all_attributes(call: Call) -> int:
    """How many spans of a turn lack attributes that the SDK dropped: they may have held documents or a prompt."""
    return sum(inner.span.dropped > 0 for inner in call.walk())


def _leave_out(root: Node, synthesizers: Sequence[Node]) -> None:
    """Take nodes out that only lead to other indices: the synthesizer was given what was answered there."""
    if any(
        one.taken and all(node.author for node in one.taken)
        for one in synthesizers[-1:]
    ):
        used = {node.id for one in synthesizers for node in one.taken}
        for one in root.walk():
            if one.kind == "retriever" and used.isdisjoint(
                node.id for node in one.documents or ()
            ):
                one.kind = "ignored"


def _answers(
    root: Node, output: Any, synthesizers: Sequence[Node]
) -> tuple[Answer, ...]:
    if root.kind == "model":
        return (
            (Answer(root.reply.text, "the model call", call=root),)
            if root.reply and root.reply.text
            else ()
        )
    if isinstance(output, tuple) and {*map(type, output)} == {Answer}:
        return output
    found, key = answer_in(output)
    if found is None:
        return ()
    parts = [
        one.reply
        for node in synthesizers[-1:]
        if "Accumulate" in node.name
        for one in node.walk()
    ]
    # put together, one after other
    replies = tuple(one.text for one in parts if one is not None and one.text in found)
    return (Answer(found, f"output {key}".strip(), replies),)


def _is_abandoned(call: Call) -> bool:
    """A stream was left before its end: the parser of its text has nothing, or the model never ended."""
    parsers = (one.said for one in call.walk() if one.span.name.endswith("Parser"))
    models = (
        one.span
        for one in call.walk()
        if one.said is not None and one.said.kind == "model"
    )
    empty = any(said is not None and said.output is None for said in parsers)
    return empty or any(not one.end and not one.error for one in models)


def _node(call: Call, said: Reading) -> Node:
    """A call of the core's tree, with those inside it but for attempts that a later one replaced."""
    kept: list[Call] = []
    for one in call.inside[::-1]:
        if not (
            one.span.error and any(one.span.name == later.span.name for later in kept)
        ):
            kept.append(one)
    # the prompt of a model may have been recorded alone as what the step before made
    for one, by in pairwise(kept):
        if (
            one.said is not None
            and one.said.kind == "model"
            and by.said is not None
            and not one.said.prompt
        ):
            one.said.prompt = tuple(each(by.said.output, Message))
    inside = [
        node for one in kept[::-1] for node in _apart(_node(one, one.said or Reading()))
    ]
    node = Node(
        said.kind or "step",
        call.span.name,
        call.span.start,
        call.span.end,
        inside,
        error=call.span.error,
    )
    held = tuple(each(said.output, Document))
    if node.kind == "model":
        shown = [said.prompt, messages_in(said.input)]
        node.prompt = max(shown, key=lambda some: sum(len(one.text) for one in some))
        replies = (
            said.replies
            if any(one.text or one.calls for one in said.replies)
            else replies_in(said.output)
        )
        node.model, node.reply = said.model, next(iter(replies), None)
    elif node.kind in ("retriever", "reranker"):
        node.query, node.taken = (
            said.query or question_in(said.input),
            said.input_documents or tuple(each(said.input, Document)),
        )
        node.documents = (
            held
            if held or (said.documents is None and said.output is not None)
            else said.documents
        )
    elif node.kind == "tool":
        told = next(each(said.output, ToolMessage), None)
        node.name, node.query, node.text = (
            said.tool or node.name,
            _argument(said.input),
            _result(said.output),
        )
        node.documents = (
            tuple(each(told.artifact if told is not None else said.output, Document))
            or None
        )
        node.call = said.call_id or (told.calls[0].id if told is not None else None)
    elif node.kind in ("step", "agent"):
        node.query, node.taken = said.query, said.input_documents
        node.text = (
            said.output
            if said.query is not None and isinstance(said.output, str)
            else None
        )
        given = {(one.id, one.text, one.score) for one in documents_in(said.input)}
        found = documents_in(said.output)
        node.documents = (
            tuple(one for one in found if (one.id, one.text, one.score) not in given)
            or None
        )
    if node.error and node.kind in ("retriever", "reranker") and node.documents:
        # what it found was recorded, so it was handed on, whatever came afterwards
        node.error = None
    if node.error:
        node.documents = node.reply = node.text = None
    return node


def _apart(node: Node) -> list[Node]:
    """Calls of models that ran beside each other, which MLflow puts one inside the other."""
    others = [
        one
        for one in node.children
        if node.kind == one.kind == "model" and one.prompt != node.prompt
    ]
    node.children = [one for one in node.children if one not in others]
    return [node, *others]


def _argument(given: Any) -> str | None:
    """The one text argument of a tool, else all of them as JSON."""
    texts = list(given.values()) if isinstance(given, Mapping) else [given]
    return (
        texts[0]
        if len(texts) == 1 and isinstance(texts[0], str)
        else None
        if given is None
        else compact(given)
    )


def _result(output: Any) -> str | None:
    """The text that a tool returned."""
    if isinstance(output, (str, Message)):
        return output.text if isinstance(output, Message) else output
    texts = (
        []
        if isinstance(output, Mapping)
        else [one for one in texts_in(output) if one.strip()]
    )
    return texts[0] if len(texts) == 1 else None if output is None else compact(output)
