"""From the calls of one trace to the core's trees: a tree for each turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.plain_values import answer_in, question_in
from ragmetrics_core.capture.structures import as_one_line
from ragmetrics_core.capture.tree import FLOW, Answer, Document, Node, Tree
from ragmetrics_core.capture.turns import join_trees
from ragmetrics_core.traces.dialects import Reading, session_of
from ragmetrics_core.traces.notes import (
    ATTRIBUTES_DROPPED,
    DOCUMENTS_IN_PART,
    FOUND_NOT_RECORDED,
    VALUES_CUT,
)
from ragmetrics_core.traces.parts import are_documents_cut
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.span_nodes import node_of
from ragmetrics_core.traces.span_questions import (
    ASKED_IN_PROMPT,
    add_question,
    holds_several_texts,
    only_message,
)
from ragmetrics_core.traces.unread import (
    PROVIDER_SEARCHED,
    says_that_provider_searched,
)

_ASKED_UNLIKE = Doubt(
    "which_turn",
    "runs beside each other under one span may be steps of one turn, or several turns;"
    " put a span of its own around each turn",
)
_ANSWER_NOT_READ = (
    "the answer stands in an object that the instrumentation writes as Python writes it"
)
_ABANDONED = "the stream was abandoned before its end"


def trees_of(call: Call, session_around: str | None = None) -> Iterator[Tree]:
    """Make a tree of each turn that a call holds.

    A **turn** is a question of the user with all that was done to answer it. Most calls
    were asked one question and are one turn. A loop over two questions gives two trees.

    Args:
        call: The call.
        session_around: The name of the conversation, as the spans around the call give
            it; None if they give none.
    """
    session = session_of(call.span.attributes) or session_around
    if _is_one_turn(call):
        yield _tree_of_turn(call, session)
        return
    trees_inside: list[Tree] = []
    for inner in call.inside:
        trees_inside += trees_of(inner, session)
    n_turns = sum(map(_searches_and_answers, trees_inside))
    if _is_only_around_turns(call) or n_turns > 1:
        if 1 < n_turns < len(trees_inside):
            _doubt(trees_inside)
        yield from trees_inside
    elif call.reading is not None:  # the runs inside are steps of its one turn
        yield _tree_of_turn(call, session)
    elif trees_inside:  # the same, but the span is a stranger's, as a web server's
        yield _joined(trees_inside)


def _is_one_turn(call: Call) -> bool:
    """Whether a call was asked a question itself, so that it is one turn."""
    if call.reading is None or _is_only_around_turns(call):
        return False
    return _has_own_question(call.reading)


def _joined(trees: Sequence[Tree]) -> Tree:
    """Join runs beside each other to one turn; that they were asked unlike is a doubt."""
    if len(trees) == 1:
        return trees[0]
    questions = {as_one_line(tree.question or tree.root.query) for tree in trees}
    if len(questions - {""}) > 1:
        _doubt(trees)
    return join_trees(trees, FLOW)


def _doubt(trees: Sequence[Tree]) -> None:
    """Write into runs beside each other that they may be steps of one turn, or several."""
    for tree in trees:
        tree.doubts += (_ASKED_UNLIKE,)


def _has_own_question(reading: Reading) -> bool:
    """Whether a call was asked a single question itself.

    A call that is no step, such as a retriever or a model, counts as asked.
    """
    if reading.kind not in (None, "step"):
        return True
    if holds_several_texts(reading.input):
        return False
    return question_in(reading.input) is not None


def _searches_and_answers(tree: Tree) -> bool:
    """Whether a run calls a retriever and a model, and was asked its own question."""
    kinds = {node.kind for node in tree.root.walk()}
    is_step_of_another = ASKED_IN_PROMPT in tree.doubts
    return {"model", "retriever"} <= kinds and not is_step_of_another


def _is_only_around_turns(call: Call) -> bool:
    """Whether a call is a loop over runs, or a step that says nothing around one call.

    A span of no known instrumentation is none of these.
    """
    reading = call.reading
    if reading is None:
        return False
    if call.span.name.startswith("RunnableEach<"):  # a loop of LangChain
        return True
    return reading.kind == "step" and len(call.inside) == 1 and reading.says_nothing


def _tree_of_turn(call: Call, session: str | None) -> Tree:
    """Make the tree of one turn: its calls, and what they say of the turn.

    Example: a chain was asked "Who?", retrieved two documents and answered "Anna": a
    tree with its calls, the question and the answer.

    Args:
        call: The outermost call of the turn. A **reading** is what its span says.
        session: The conversation that it belongs to; None if the spans around the call
            name none.
    """
    reading = call.reading or Reading()
    root = node_of(call, reading)
    models = [node for node in root.walk() if node.kind == "model"]
    tree = _tree_of_calls(root, call, session or _session_inside(call))
    tree.output = reading.output
    # The order counts: each step reads what those before it have written into the calls.
    add_question(tree, reading)
    _note_what_was_not_recorded(tree, call)
    _add_end(tree, call, models)  # its error, and whether it came to its end
    _add_answers(tree, reading, models)
    _note_search_of_provider(tree, call, models)
    if reading.has_unread_output and not tree.answers:
        # the reply of the only model is likely to be the answer
        is_single_call = len(models) == 1 and not root.called_a_tool
        if is_single_call:
            tree.doubts += (Doubt("answer_guessed", _ANSWER_NOT_READ),)
        else:
            root.evidence_not_recorded += (_ANSWER_NOT_READ,)
    if reading.says_nothing:
        tree.resumption_key = None  # what it was given, or returned, is not known
    return tree


def _note_search_of_provider(tree: Tree, call: Call, models: Sequence[Node]) -> None:
    """Note on the last model of a turn that a provider searched, if any span says so.

    Args:
        tree: The tree of the turn, which is changed.
        call: The outermost call of the turn, with its spans.
        models: The calls of models inside it.
    """
    texts_of_models = {node.reply.text for node in models if node.reply}
    says_so = any(
        says_that_provider_searched(inner.span.attributes, texts_of_models)
        for inner in call.walk()
    )
    if says_so and models:
        models[-1].evidence_not_recorded += (PROVIDER_SEARCHED,)
        models[-1].may_have_searched = True
        tree.is_always_a_sample = True


def _add_answers(tree: Tree, reading: Reading, models: Sequence[Node]) -> None:
    """Write into a tree what its run answered, and whether that makes it a sample.

    Args:
        tree: The tree, which is changed.
        reading: What the span of its outermost call says.
        models: The calls of models inside it.
    """
    tree.answers = _answers(tree.root, reading.output)
    # an agent that did not retrieve is a sample all the same
    tree.is_always_a_sample = _is_turn_without_retrieval(tree, reading, models)
    tree.gives_only_documents = _gives_only_documents(tree.root, reading.output)


def _session_inside(call: Call) -> str | None:
    """Return the conversation that spans inside a call name; None if they name several.

    Some instrumentations name it on the calls of models alone.
    """
    names = {session_of(inner.span.attributes) for inner in call.walk()} - {None}
    return names.pop() if len(names) == 1 else None


def _tree_of_calls(root: Node, call: Call, session: str | None) -> Tree:
    """Make a tree of calls that says no more of the turn than its ids.

    Args:
        root: The outermost call.
        call: The same call, with its span.
        session: The conversation that it belongs to; None if none is named.
    """
    return Tree(
        root,
        # a later run with the same key may resume this one, if it was interrupted
        resumption_key=None if session is None else f"{root.name}/{session}",
        conversation_id=session,
        given_fields={"id": call.span.trace, "metadata": {"span_id": call.span.id}},
    )


def _take_out_documents_without_text(root: Node) -> list[str | None]:
    """Remove documents without text from all calls of a tree, and return their ids.

    Example: of the documents "n1" with a text and "n2" without one, "n1" stays, and
    ["n2"] is returned. A call that had no other documents then has None, which means
    that its documents are not known.
    """
    ids = _ids_of_documents_without_text(root)
    if not ids:
        return []
    for node in root.walk():
        documents = node.documents or ()
        readable = tuple(document for document in documents if document.text)
        node.documents = readable or None
    return ids


def _ids_of_documents_without_text(root: Node) -> list[str | None]:
    """Return the ids of the documents without text in a tree, each id once.

    Documents without an id follow, as None for each. The same one may stand in several
    calls: so those that retrievers found are counted, and one if only other calls hold
    any.
    """
    ids: dict[str, None] = {}  # an ordered set
    some_lack_id = False
    for node in root.walk():
        for document in node.documents or ():
            if document.text:
                continue
            if document.id is None:
                some_lack_id = True
            else:
                ids[document.id] = None
    n_without_id = max(1, _n_found_without_text_and_id(root)) if some_lack_id else 0
    return [*ids, *[None] * n_without_id]


def _n_found_without_text_and_id(node: Node) -> int:
    """How many documents retrievers found of which neither text nor id was recorded.

    What a retriever inside another one found is the same.
    """
    n_found = 0
    if node.kind == "retriever":
        for document in node.documents or ():
            n_found += not document.text and document.id is None
    return max(n_found, sum(map(_n_found_without_text_and_id, node.children)))


def _note_searches_without_documents(
    node: Node, *, do_calls_around_hold_documents: bool
) -> None:
    """Note on each retriever's call that nobody recorded what it found, if nobody did.

    Example: a retriever's span holds the query alone. The calls around and inside it may
    hold the documents: some instrumentations record a search in several spans.

    Args:
        node: The outermost call; all calls inside it are looked at.
        do_calls_around_hold_documents: Whether a call around it holds documents.
    """
    # those that it found, and those that it passed on to the next step
    holds_documents = node.documents is not None or bool(node.documents_passed_on)
    are_held_here_or_around = do_calls_around_hold_documents or holds_documents
    has_searched = node.kind == "retriever" and not node.error
    has_note = bool(node.evidence_not_recorded)
    if has_searched and not are_held_here_or_around and not has_note:
        _, *inner_calls = node.walk()
        if all(inner.documents is None for inner in inner_calls):
            node.evidence_not_recorded = (FOUND_NOT_RECORDED,)
    for child in node.children:
        _note_searches_without_documents(
            child, do_calls_around_hold_documents=are_held_here_or_around
        )


def _note_what_was_not_recorded(tree: Tree, call: Call) -> None:
    """Note in a tree which texts of documents and prompts its spans do not hold.

    Args:
        tree: The tree of a turn, which is changed.
        call: The outermost call of the turn, with its spans.
    """
    # first, since documents without text are taken out next
    _note_searches_without_documents(tree.root, do_calls_around_hold_documents=False)
    ids = _take_out_documents_without_text(tree.root)
    tree.documents_without_text = tuple(Document("", name) for name in ids)
    tree.n_without_text = len(ids)
    missing = []
    if any(inner.is_cut for inner in call.walk()):
        missing.append(VALUES_CUT)
    if any(inner.span.dropped for inner in call.walk()):
        missing.append(ATTRIBUTES_DROPPED)
    if are_documents_cut(tree.root):
        missing.append(DOCUMENTS_IN_PART)
    tree.root.evidence_not_recorded += tuple(missing)


def _add_end(tree: Tree, call: Call, models: Sequence[Node]) -> None:
    """Write into a tree how its run ended: ``error``, ``is_complete`` and ``is_paused``.

    Example: the root's span has an error: the run is not complete. A run with an output
    is complete, and so is a run that called a model: a span need not hold the output.

    Args:
        tree: The tree, which is changed.
        call: The outermost call of its turn.
        models: The calls of models inside it.
    """
    has_output = tree.output is not None
    tree.error = call.span.error
    if tree.error is None and not has_output and _is_abandoned(call):
        tree.error = _ABANDONED
    tree.is_complete = not tree.error and (has_output or bool(models))
    # Paused: LangGraph interrupted the run, say to ask a person, and the conversation
    # may go on. An abandoned run, whose stream was left before its end, may be paused,
    # too: so only the span's own error counts here.
    may_go_on = call.span.error is None and tree.conversation_id is not None
    tree.is_paused = may_go_on and _is_interrupted(tree.root)


def _is_interrupted(root: Node) -> bool:
    """Whether LangGraph interrupted a run, by an error of a call inside it."""
    errors = [node.error or "" for node in root.walk()]
    return any(error.startswith("GraphInterrupt") for error in errors)


def _is_abandoned(call: Call) -> bool:
    """Whether a stream was left before its end.

    The parser of its text has nothing then, or the model never ended.
    """
    for inner in call.walk():
        reading = inner.reading
        if reading is None:
            continue
        span = inner.span
        if span.name.endswith("Parser") and reading.output is None:
            return True
        if reading.kind == "model" and not span.end and not span.error:
            return True
    return False


def _is_turn_without_retrieval(
    tree: Tree, reading: Reading, models: Sequence[Node]
) -> bool:
    """Whether a run is a turn even if it retrieved nothing.

    It is one if a tool was called, and a model answered.
    """
    if tree.root.kind != "step" or not _has_reply(reading, models):
        return False
    is_answered = bool(tree.answers) or reading.says_nothing
    return is_answered and tree.root.called_a_tool


def _has_reply(reading: Reading, models: Sequence[Node]) -> bool:
    """Whether the last model of a run replied; without models, whether its span says so."""
    if models:
        return models[-1].reply is not None
    return any(reply.text for reply in reading.replies)


def _gives_only_documents(root: Node, output: Any) -> bool:
    """Whether a run returns only documents: another one may answer from them."""
    if root.kind == "reranker":
        return True
    return isinstance(output, tuple) and set(map(type, output)) == {Document}


def _answers(root: Node, output: Any) -> tuple[Answer, ...]:
    """Find the answer of a turn; () if there is none.

    Example: the output {"result": "Anna"} gives "Anna", with the place "output result".
    A model that was called alone answers by its reply.

    Args:
        root: The outermost call of the turn.
        output: What the outermost call returned.
    """
    if root.kind == "model":
        if root.reply is None or not root.reply.text:
            return ()
        return (Answer(root.reply.text, "the model call", writing_call=root),)
    text, key = _answer_and_key(output)
    if text is None:
        return ()
    return (Answer(text, f"output {key}".strip()),)


def _answer_and_key(output: Any) -> tuple[str | None, str]:
    """The answer in an output, and its key, which is "" if it has none."""
    text, key = answer_in(output)
    if text is None and _is_of_crewai(output):
        return str(output["raw"]), "raw"
    if text is None and isinstance(output, Mapping):
        return only_message(output, role="assistant"), key
    return text, key


def _is_of_crewai(output: Any) -> bool:
    """Whether a crew gave an output: it holds the answer beside the crew's tasks."""
    return isinstance(output, Mapping) and {"raw", "tasks_output"} <= set(output)
