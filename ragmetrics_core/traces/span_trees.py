"""From the spans of one trace to the core's trees of calls: a tree for each turn.

A **call** is a span with what it says, and with the calls inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any

from ragmetrics_core.capture import (
    answer_in,
    as_one_line,
    compact,
    documents_in,
    has_written,
    history_in,
    talk_in,
)
from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.joining import join_trees
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.passages import stands_in
from ragmetrics_core.capture.plain_values import (
    find_instances,
    question_in,
    question_in_state,
    texts_in,
)
from ragmetrics_core.capture.tree import FLOW, Answer, Document, Message, Node, Tree
from ragmetrics_core.capture.written import name_authors
from ragmetrics_core.data import InputError, Turn
from ragmetrics_core.traces.dialects import Reading, reading_of, session_of
from ragmetrics_core.traces.notes import ATTRIBUTES_DROPPED
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.values import ToolMessage, messages_in, replies_in

Resolve = Mapping[str, str] | Callable[[Sequence[str]], Mapping[str, str]]
_DEEPEST = 250  # levels of calls inside one another that are read
_FIELDS = re.compile(r"\w+=['\"]")  # of an object that was recorded as its text
_ABANDONED = "the stream was abandoned before its end"
# Tools of smolagents and of Pydantic AI by which a model gives its answer.
ANSWER_TOOLS = frozenset({"final_answer", "final_result"})
# where a question was read from, if the run's own span does not record it
_FIRST_PROMPT = "first prompt"
_ASKED_IN_PROMPT = (
    "the run's span records no question; the user's last message in the first prompt"
    " stands for it"
)
# what a function of the user may raise
_RESOLVE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(eq=False)
class Call:
    """A span, what it says, and the calls inside it.

    Attributes:
        span: The span.
        reading: What it says; None if it bears no known mark.
        inside: The calls inside it, in the order in which they began.
    """

    span: Span
    reading: Reading | None
    inside: list[Call] = field(default_factory=list)

    def walk(self) -> Iterator[Call]:
        """Yield the call and all below it, in the order in which they began."""
        yield self
        for inner in self.inside:
            yield from inner.walk()


def calls_of(
    spans: Sequence[Span], dialect: str | None = None, resolve: Resolve | None = None
) -> list[Call]:
    """Make calls of the spans of a trace, and return the outermost.

    Args:
        spans: The spans of one trace, in any order.
        dialect: The only dialect that is read; None for all.
        resolve: Texts of documents of which only ids were recorded.

    Raises:
        ValueError: If a span cannot be read, or spans stand inside each other in a
            circle or too deep.
        InputError: If ``resolve`` raises.
    """
    ordered = sorted(spans, key=_outermost_of_the_same_start)
    calls: dict[str, Call] = {}
    for span in ordered:
        calls[span.id] = Call(span, reading_of(span.attributes, dialect))
    if "" in calls:
        raise ValueError("a span cannot be read")
    roots = _put_inside_parents(calls)
    if _count_down_to_deepest(roots) < len(calls):
        raise ValueError("spans stand inside each other in a circle or too deep")
    readings = [call.reading for call in calls.values() if call.reading is not None]
    _restore_ids(readings)
    if resolve is not None:
        _resolve_texts(readings, resolve, ordered[0].trace)
    return roots


def _put_inside_parents(calls: Mapping[str, Call]) -> list[Call]:
    """Put each call, by the id of its span, inside its parent; return the outermost."""
    roots: list[Call] = []
    for call in calls.values():
        parent = calls.get(call.span.parent)
        if parent is None or _is_run_of_batch(call, parent):
            roots.append(call)
        else:
            parent.inside.append(call)
    return roots


def _outermost_of_the_same_start(span: Span) -> tuple[int, int, str]:
    return span.start, -span.end, span.id


def _is_run_of_batch(call: Call, parent: Call) -> bool:
    """Whether two runs of a batch, which Traceloop puts one inside the other."""
    has_name_of_parent = call.span.name == parent.span.name
    is_workflow = call.span.name.endswith(".workflow")
    return has_name_of_parent and is_workflow and not parent.inside


def _count_down_to_deepest(roots: list[Call]) -> int:
    """Count the calls from the roots down to the deepest level that is read.

    Those of a circle hang on no root.
    """
    count = 0
    level = roots
    for _ in range(_DEEPEST):
        count += len(level)
        level = list(chain.from_iterable(call.inside for call in level))
    return count


def _restore_ids(readings: Sequence[Reading]) -> None:
    """Give retrieved documents the ids that were not recorded with their texts.

    Later steps were given the same texts with their ids.
    """
    # The inner dictionaries hold ids in order, each once; their values say nothing.
    ids_by_text: dict[str, dict[str, None]] = {}
    for reading in readings:
        for document in find_instances(reading.input, Document):
            if document.id is not None:
                ids_by_text.setdefault(document.text, {})[document.id] = None
    if not ids_by_text:
        return
    for reading in readings:
        if reading.kind != "retriever" or reading.documents is not None:
            continue
        documents = list(find_instances(reading.output, Document))
        if any(document.id is None for document in documents):
            reading.documents = _with_ids(documents, ids_by_text)
            # else the tree would take its documents, which have no ids
            reading.output = None


def _with_ids(
    documents: Sequence[Document], ids_by_text: Mapping[str, Mapping[str, None]]
) -> tuple[Document, ...]:
    """The documents, those without an id with one that their text has.

    Of several ids of a text each is used once, in their order.
    """
    unused_ids = {text: iter(ids) for text, ids in ids_by_text.items()}
    with_ids: list[Document] = []
    for document in documents:
        name = document.id
        if not name and document.text in unused_ids:
            name = next(unused_ids[document.text], None)
        with_ids.append(replace(document, id=name or None))
    return tuple(with_ids)


def _resolve_texts(readings: Sequence[Reading], resolve: Resolve, trace: str) -> None:
    """Give retrieved documents the texts that the spans do not hold."""
    missing_ids: dict[str, None] = {}
    for reading in readings:
        for document in reading.documents or ():
            if document.id and not document.text:
                missing_ids[document.id] = None
    if not missing_ids:
        return
    texts = _texts_by_id(list(missing_ids), resolve, trace)
    for reading in readings:
        if reading.documents:
            reading.documents = tuple(
                _with_text(document, texts) for document in reading.documents
            )


def _texts_by_id(ids: Sequence[str], resolve: Resolve, trace: str) -> Mapping[str, str]:
    """Return the texts of documents by their ids, as ``resolve`` gives them.

    Raises:
        InputError: If ``resolve`` raises, or returns no mapping.
    """
    if isinstance(resolve, Mapping):
        return resolve
    try:
        texts: object = resolve(ids)
    except _RESOLVE_ERRORS as error:
        raise InputError(
            f"resolve= failed on trace {trace}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(texts, Mapping):
        raise InputError(
            f"resolve= failed on trace {trace}: it must return a mapping of ids to"
            f" texts, got {type(texts).__name__}"
        )
    return texts


def _with_text(document: Document, texts: Mapping[str, str]) -> Document:
    if document.text or not document.id:
        return document
    text = texts.get(document.id) or ""
    return replace(document, text=str(text))


def trees_of(call: Call, session_around: str | None = None) -> Iterator[Tree]:
    """Make the tree of a call's turn.

    Some spans are no turn, and the turns stand below:

    - a loop over runs, or a step around one call that says nothing;
    - a span that bears no known mark, such as that of a web server;
    - a step without a question of its own below which several questions are asked.

    Trees below a span without a mark are joined to one turn, unless several questions
    are asked there.

    Args:
        call: The call.
        session_around: The conversation that the spans around the call name.
    """
    reading = call.reading
    session = session_of(call.span.attributes) or session_around
    may_be_a_turn = reading is not None and not _only_surrounds_turns(call, reading)
    if reading is not None and may_be_a_turn and not _may_surround_questions(reading):
        yield _tree(call, reading, session or _session_below(call))
        return
    trees: list[Tree] = []
    for inner in call.inside:
        trees += trees_of(inner, session)
    if _ask_several_questions(trees):
        yield from trees
    elif reading is not None and may_be_a_turn:
        yield _tree(call, reading, session or _session_below(call))
    elif reading is not None or len(trees) == 1:
        yield from trees
    elif trees:
        yield join_trees(trees, FLOW)


def _may_surround_questions(reading: Reading) -> bool:
    """Whether a call is a step that was asked no single question itself."""
    is_step = reading.kind in (None, "step")
    if not is_step or reading.query is not None:
        return False
    return question_in(reading.input) is None or _holds_several_texts(reading.input)


def _holds_several_texts(inputs: Any) -> bool:
    """Whether the one value that a run was given is a list of texts."""
    values = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    if len(values) != 1 or not isinstance(values[0], tuple):
        return False
    return len(values[0]) > 1 and set(map(type, values[0])) == {str}


def _ask_several_questions(trees: Sequence[Tree]) -> bool:
    """Whether runs below one span ask several questions of the user.

    Either several of the runs were asked and work by themselves. Or their calls stand
    beside each other: several searches for what no model wrote, and several calls of
    models.
    """
    nodes = [node for tree in trees for node in tree.root.walk()]
    replies = [Reply(node.reply) for node in nodes if node.kind == "model"]
    asked_trees = [
        tree for tree in trees if not _is_written(tree.question or "", replies)
    ]
    if _search_and_answer_by_themselves(asked_trees) or _are_asked_unlike(asked_trees):
        return not _is_shown_answers(trees)
    queries = set()
    for tree in trees:
        query = tree.root.query or ""
        is_search = tree.root.kind == "retriever" and query
        if is_search and not _is_written(query, replies):
            queries.add(as_one_line(query))
    n_models_alone = sum(tree.root.kind == "model" for tree in trees)
    return len(queries) > 1 and n_models_alone > 1


def _is_written(text: str, replies: Sequence[Reply]) -> bool:
    """Whether a model wrote what a run was asked or a retriever searched for."""
    line = as_one_line(text)
    return any(reply.writes_query(line) for reply in replies)


def _search_and_answer_by_themselves(trees: Sequence[Tree]) -> bool:
    """Whether several runs each call a retriever and a model.

    A run whose question was only read from its first prompt may be a further step of
    the turn before it.
    """
    n_turns = 0
    for tree in trees:
        kinds = {node.kind for node in tree.root.walk()}
        is_step_of_another = tree.asked_at == _FIRST_PROMPT
        if {"model", "retriever"} <= kinds and not is_step_of_another:
            n_turns += 1
    return n_turns > 1


def _are_asked_unlike(trees: Sequence[Tree]) -> bool:
    """Whether several runs that call a model, retriever or tool ask unlike questions."""
    questions = set()
    for tree in trees:
        kinds = {node.kind for node in tree.root.walk()}
        is_run = tree.root.kind in ("step", "agent")
        if is_run and tree.question and kinds & {"model", "retriever", "tool"}:
            questions.add(as_one_line(tree.question))
    return len(questions) > 1


def _is_shown_answers(trees: Sequence[Tree]) -> bool:
    """Whether a run that searched nothing was shown answers of others, to make one of them.

    An answer that stands in a prompt as the assistant's word is part of a talk.
    """
    answers = []
    for tree in trees:
        answers += [stream(answer.text or "") for answer in tree.answers]
    for tree in trees:
        nodes = list(tree.root.walk())
        if any(node.kind == "retriever" for node in nodes):
            continue
        messages = chain.from_iterable(node.prompt for node in nodes)
        shown = [stream(one.text) for one in messages if one.role != "assistant"]
        if any(stands_in(answer, text) for answer in answers for text in shown):
            return True
    return False


def _only_surrounds_turns(call: Call, reading: Reading) -> bool:
    """Whether a call is a loop over runs, or a step around one call that says nothing."""
    if call.span.name.startswith("RunnableEach<"):
        return True
    return reading.kind == "step" and len(call.inside) == 1 and _says_nothing(reading)


def _says_nothing(reading: Reading) -> bool:
    """Whether neither what went into a call nor what came out was recorded."""
    is_silent = reading.input is None and reading.output is None
    return is_silent and reading.query is None


def _session_below(call: Call) -> str | None:
    """The only conversation that the spans below a call name; None for several."""
    sessions = set()
    for inner in call.walk():
        session = session_of(inner.span.attributes)
        if session is not None:
            sessions.add(session)
    return sessions.pop() if len(sessions) == 1 else None


def _tree(call: Call, reading: Reading, session: str | None) -> Tree:
    """The tree of one turn, whose outermost call is given."""
    root = _node(call, reading)
    tree = Tree(
        root,
        output=reading.output,
        thread=None if session is None else f"{root.name}/{session}",
        conversation=session,
        given={"id": call.span.trace, "metadata": {"span_id": call.span.id}},
        places=(call.span.trace,),
    )
    models = [node for node in root.walk() if node.kind == "model"]
    synthesizers = [node for node in root.walk() if _is_synthesizer(node)]
    _restore_reply_of_stream(call, models, reading.output)
    _tell_question(tree, reading)
    name_authors(root)
    _ignore_other_indices(root, synthesizers)
    _tell_what_was_not_recorded(tree, call)
    _tell_end(tree, call, models)
    tree.answers = _answers(root, reading.output, synthesizers)
    tree.is_query = _is_query(tree, reading, models)
    tree.gives_documents = _gives_only_documents(root, reading.output, models)
    if _shows_no_documents(reading, synthesizers):
        tree.flow = ()
    return tree


def _is_synthesizer(node: Node) -> bool:
    """Whether it is LlamaIndex's step that answers a query from the nodes it is given."""
    return node.kind == "step" and node.query is not None


def _restore_reply_of_stream(call: Call, models: Sequence[Node], output: Any) -> None:
    """Take the run's output as the reply of its only model.

    A stream's own reply may be missing.
    """
    if len(models) != 1 or not isinstance(output, str) or call.span.error:
        return
    model = models[0]
    if model.reply is None:
        model.reply = Message("assistant", output)


def _tell_question(tree: Tree, reading: Reading) -> None:
    """Write into a tree what the run was asked, and was given beside the question."""
    root = tree.root
    is_run = root.kind in ("step", "agent")
    tree.continues = is_run and _continues_a_run(reading.input)
    question, place = _question(tree, reading)
    tree.question = question
    tree.asked_at = place
    if place == _FIRST_PROMPT:
        tree.doubts += (_ASKED_IN_PROMPT,)
    if not is_run:
        return
    handed_in = talk_in(reading.input)
    tree.history = handed_in.turns or history_in(reading.output, question)
    if not tree.history and tree.conversation is not None:
        tree.history = _history_of_first_prompt(root, question)
    tree.doubts += handed_in.doubts
    if not root.taken and not has_written(reading.input):
        root.taken = tuple(documents_in(reading.input))


def _continues_a_run(inputs: Any) -> bool:
    """Whether a run of LangGraph goes on with an interrupted one.

    It is given nothing then, or a command.
    """
    if isinstance(inputs, Mapping):
        return {"resume", "goto"} <= set(inputs)
    return inputs is None


def _question(tree: Tree, reading: Reading) -> tuple[str | None, str]:
    """The user's question and where it was found, in words.

    None and no words if it was not recorded.
    """
    root = tree.root
    question = reading.user_fields.get("question")
    if question is not None:
        return question, "metadata['ragmetrics']['question']"
    if root.kind not in ("step", "agent"):
        return None, ""
    if not tree.continues:
        question = question_in(reading.input)
        if question is not None and not _FIELDS.match(question):
            return question, f"input of {root.name}"
        question = _only_message(reading.input, role="user")
        if question is not None:
            return question, f"input of {root.name}"
    question = question_in_state(reading.output)
    if question is not None:
        return question, f"output of {root.name}"
    if _says_nothing(reading):
        question = _question_of_first_prompt(root)
        if question is not None:
            return question, _FIRST_PROMPT
    return None, ""


def _only_message(value: Any, *, role: str) -> str | None:
    """The text of the only message in a value; None if there are several or none.

    It is the user's or the assistant's, by ``role``.
    """
    messages: list[Message] = list(find_instances(value, Message))
    if len(messages) != 1 or messages[0].role != role:
        return None
    return messages[0].text if messages[0].text.strip() else None


def _history_of_first_prompt(root: Node, question: str | None) -> tuple[Turn, ...]:
    """The turns that stand before the question in the first prompt of a run."""
    for node in root.walk():
        if node.kind == "model":
            places = [
                place
                for place, message in enumerate(node.prompt)
                if message.role == "user" and message.text == question
            ]
            return talk_in(node.prompt[: places[-1] + 1]).turns if places else ()
    return ()


def _question_of_first_prompt(root: Node) -> str | None:
    """The last message of the user that the first model of a run was shown.

    None where something was found before: an application may have put it into that
    message.
    """
    for node in root.walk():
        if node.documents or node.kind == "tool":
            return None
        if node.kind == "model":
            messages = [one.text for one in node.prompt if one.role == "user"]
            texts = [text for text in messages if text.strip()]
            return texts[-1] if texts else None
    return None


def _ignore_other_indices(root: Node, synthesizers: Sequence[Node]) -> None:
    """Ignore retrievers that only lead to other indices.

    The last synthesizer was given what was answered there.
    """
    if not synthesizers:
        return
    last_taken = synthesizers[-1].taken
    if not last_taken or not all(document.author for document in last_taken):
        return
    used_ids: set[str | None] = set()
    for synthesizer in synthesizers:
        used_ids.update(document.id for document in synthesizer.taken)
    for node in root.walk():
        if node.kind == "retriever":
            retrieved_ids = {document.id for document in node.documents or ()}
            if used_ids.isdisjoint(retrieved_ids):
                node.kind = "ignored"


def _take_out_documents_without_text(root: Node) -> list[str | None]:
    """Take documents without text out of the tree, and return their ids, each once."""
    ids: dict[str | None, None] = {}
    for node in root.walk():
        for document in node.documents or ():
            if not document.text:
                ids[document.id] = None
    if not ids:
        return []
    for node in root.walk():
        documents = node.documents or ()
        readable = tuple(document for document in documents if document.text)
        node.documents = readable or None
    return list(ids)


def _tell_what_was_not_recorded(tree: Tree, call: Call) -> None:
    """Write into a tree what of its documents and prompts the spans do not hold."""
    ids_without_text = _take_out_documents_without_text(tree.root)
    cut_spans = [inner for inner in call.walk() if inner.span.dropped > 0]
    tree.other = tuple(Document("", name) for name in ids_without_text)
    tree.unread = len(ids_without_text) + len(cut_spans)
    if cut_spans:
        tree.warnings = (ATTRIBUTES_DROPPED.format(len(cut_spans)),)


def _tell_end(tree: Tree, call: Call, models: Sequence[Node]) -> None:
    """Write into a tree how its run ended.

    It ended with an error, it waits for a person, or it is complete.
    """
    has_output = tree.output is not None
    tree.error = call.span.error
    if tree.error is None and not has_output and _is_abandoned(call):
        tree.error = _ABANDONED
    tree.complete = not tree.error and (has_output or bool(models))
    errors = [node.error or "" for node in tree.root.walk()]
    is_interrupted = any(error.startswith("GraphInterrupt") for error in errors)
    may_go_on = call.span.error is None and tree.conversation is not None
    # the next run of its session goes on with it
    tree.paused = is_interrupted and may_go_on


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


def _shows_no_documents(reading: Reading, synthesizers: Sequence[Node]) -> bool:
    """Whether the framework says that no document reached the answering model."""
    if reading.documents == ():
        return True
    if reading.output is None or not synthesizers:
        return False
    return not synthesizers[-1].taken


def _is_query(tree: Tree, reading: Reading, models: Sequence[Node]) -> bool:
    """Whether a run is a turn even if it retrieved nothing.

    It is one if it is an engine or workflow of LlamaIndex or Haystack that was asked,
    or if models answered after a tool was called. A tool that only hands the run over,
    or the answer in, does not count.
    """
    if tree.root.kind == "agent":
        return bool(models) or reading.query is not None
    has_reply = bool(models) and models[-1].reply is not None
    is_answered = bool(tree.answers) or (_says_nothing(reading) and has_reply)
    tools = [node for node in tree.root.walk() if node.kind == "tool"]
    called_a_tool = any(not tool.control for tool in tools)
    return tree.root.kind == "step" and has_reply and is_answered and called_a_tool


def _gives_only_documents(root: Node, output: Any, models: Sequence[Node]) -> bool:
    """Whether a run returns only documents: another one may answer from them."""
    if root.kind in ("retriever", "reranker"):
        return True
    if root.kind == "tool" and not models:
        return True
    return _holds_only(output, Document)


def _holds_only(output: Any, kind: type) -> bool:
    """Whether an output is a tuple of objects of one kind, and not empty."""
    return isinstance(output, tuple) and set(map(type, output)) == {kind}


def _answers(
    root: Node, output: Any, synthesizers: Sequence[Node]
) -> tuple[Answer, ...]:
    """What a turn answered, from the reply of its model or from its output."""
    if root.kind == "model":
        if root.reply is None or not root.reply.text:
            return ()
        return (Answer(root.reply.text, "the model call", call=root),)
    if _holds_only(output, Answer):
        return tuple(output)
    text, key = answer_in(output)
    if text is None and _is_of_crewai(output):
        text = str(output["raw"])
        key = "raw"
    if text is None and isinstance(output, Mapping):
        text = _only_message(output, role="assistant")
    if text is None:
        return ()
    place = f"output {key}".strip()
    replies = _replies_put_together(text, synthesizers)
    return (Answer(text, place, replies),)


def _is_of_crewai(output: Any) -> bool:
    """Whether an output is that of a crew, which holds the answer beside its tasks."""
    return isinstance(output, Mapping) and {"raw", "tasks_output"} <= set(output)


def _replies_put_together(answer: str, synthesizers: Sequence[Node]) -> tuple[str, ...]:
    """The replies that LlamaIndex's response mode "accumulate" put into an answer."""
    if not synthesizers or "Accumulate" not in synthesizers[-1].name:
        return ()
    texts = []
    for node in synthesizers[-1].walk():
        if node.reply is not None and node.reply.text in answer:
            texts.append(node.reply.text)
    return tuple(texts)


def _node(call: Call, reading: Reading) -> Node:
    """A call as a node of the core's tree, with those inside it.

    Attempts that a later one replaced are left out.
    """
    node = Node(
        reading.kind or "step",
        name=call.span.name,
        began=call.span.start,
        ended=call.span.end,
        children=_children(call),
        error=call.span.error,
    )
    match node.kind:
        case "model":
            _fill_model(node, reading)
        case "retriever" | "reranker":
            _fill_retriever(node, reading)
        case "tool":
            _fill_tool(node, reading)
        case "step" | "agent":
            _fill_step(node, reading)
    if node.error:
        node.documents = None
        node.reply = None
        node.text = None
    return node


def _children(call: Call) -> list[Node]:
    """The calls inside a call as nodes, in the order in which they began."""
    steps = _drop_replaced_attempts(call.inside)
    _take_prompts_of_steps_before(steps)
    children: list[Node] = []
    for step in steps:
        child = _node(step, step.reading or Reading())
        models_beside = _take_out_models_beside(child)
        children += [child, *models_beside]
    return children


def _drop_replaced_attempts(calls: Sequence[Call]) -> list[Call]:
    """Calls beside each other, without failed ones that were tried again."""
    latest_first: list[Call] = []
    later_names: set[str] = set()
    for call in reversed(calls):
        was_tried_again = call.span.name in later_names
        if call.span.error and was_tried_again:
            continue
        latest_first.append(call)
        later_names.add(call.span.name)
    return latest_first[::-1]


def _take_prompts_of_steps_before(steps: Sequence[Call]) -> None:
    """Fill prompts that were recorded only as the output of the step before."""
    for step, following in pairwise(steps):
        model = following.reading
        if model is None or model.kind != "model" or model.prompt:
            continue
        if step.reading is not None:
            model.prompt = tuple(find_instances(step.reading.output, Message))


def _take_out_models_beside(node: Node) -> list[Node]:
    """Take models that ran beside a model out of its calls, and return them.

    MLflow puts one inside the other.
    """
    if node.kind != "model":
        return []
    models_beside = []
    children = []
    for child in node.children:
        # a model with the same prompt is the same call, recorded twice
        if child.kind == "model" and child.prompt != node.prompt:
            models_beside.append(child)
        else:
            children.append(child)
    node.children = children
    return models_beside


def _fill_model(node: Node, reading: Reading) -> None:
    """Write into a call of a model its prompt, its name and its first reply."""
    messages_of_input = messages_in(reading.input)
    # the longer one is whole; the other may be cut, or hold the last message alone
    node.prompt = max(reading.prompt, messages_of_input, key=_n_characters)
    node.model = reading.model
    replies = reading.replies
    if not any(reply.text or reply.calls for reply in replies):
        replies = replies_in(reading.output)
    node.reply = _without_earlier_calls(replies[0], node.prompt) if replies else None


def _without_earlier_calls(reply: Message, prompt: Sequence[Message]) -> Message:
    """A reply without calls of tools that its prompt holds already, with their results.

    OpenInference writes two calls of a model of Google's ADK into one span.
    """
    earlier_ids = {call.id for message in prompt for call in message.calls if call.id}
    if not reply.text or earlier_ids.isdisjoint(call.id for call in reply.calls):
        return reply
    new_calls = tuple(call for call in reply.calls if call.id not in earlier_ids)
    return replace(reply, calls=new_calls)


def _n_characters(messages: Sequence[Message]) -> int:
    return sum(len(message.text) for message in messages)


def _fill_retriever(node: Node, reading: Reading) -> None:
    """Write into a retriever what it was asked, what it was given and what it found.

    Its documents are None where it says nothing of them.
    """
    node.query = reading.query or question_in(reading.input)
    node.taken = reading.input_documents or tuple(
        find_instances(reading.input, Document)
    )
    node.documents = tuple(find_instances(reading.output, Document))
    has_other_output = reading.documents is None and reading.output is not None
    if not node.documents and not has_other_output:
        node.documents = reading.documents
    if node.documents:
        # what it found was recorded, so it was handed on, whatever came afterwards
        node.error = None


def _fill_tool(node: Node, reading: Reading) -> None:
    """Write into a tool its name, what it was asked and what it returned.

    The documents are None if its result holds none.
    """
    message = next(find_instances(reading.output, ToolMessage), None)
    node.name = reading.tool or node.name
    node.query = _argument(reading.input)
    node.text = _result(reading.output)
    node.call = reading.call_id
    node.control = reading.hands_over or node.name in ANSWER_TOOLS
    result = reading.output
    if message is not None:
        node.call = node.call or message.calls[0].id
        result = message.artifact
    # a tool without documents searched nothing that is known
    node.documents = tuple(find_instances(result, Document)) or None


def _fill_step(node: Node, reading: Reading) -> None:
    """Write into a step what it was asked and brought.

    Documents that it was handed and merely passed on are left out.
    """
    node.query = reading.query
    node.taken = reading.input_documents
    if reading.query is not None and isinstance(reading.output, str):
        node.text = reading.output
    passed_on = {_identity(document) for document in documents_in(reading.input)}
    brought = []
    for document in documents_in(reading.output):
        if _identity(document) not in passed_on:
            brought.append(document)
    node.documents = tuple(brought) or None


def _identity(document: Document) -> tuple[str | None, str, float | None]:
    return document.id, document.text, document.score


def _argument(inputs: Any) -> str | None:
    """The one text argument of a tool, else all its arguments as JSON.

    None if it was given nothing.
    """
    if inputs is None:
        return None
    named = _named_arguments(inputs)
    arguments = list(named.values()) if isinstance(named, Mapping) else [named]
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    return compact(named)


def _named_arguments(inputs: Any) -> Any:
    """The arguments by their names, without what smolagents writes beside them."""
    if not isinstance(inputs, Mapping) or not {"args", "kwargs"} <= set(inputs):
        return inputs
    return inputs["kwargs"] or inputs["args"]


def _result(output: Any) -> str | None:
    """The text that a tool returned, else its result as JSON.

    None if it returned nothing.
    """
    if output is None:
        return None
    if isinstance(output, str):
        return output
    if isinstance(output, Message):
        return output.text
    result = _unwrap_result(output)
    if isinstance(result, str):
        return result
    if not isinstance(result, Mapping):
        texts = [text for text in texts_in(result) if text.strip()]
        if len(texts) == 1:
            return texts[0]
    return compact(result)


def _unwrap_result(output: Any) -> Any:
    """The result of a tool without what Google's ADK puts around it.

    ADK writes a text as ``{"result": text}``, and OpenInference the response of ADK as
    ``{"id": …, "name": …, "response": …}``.
    """
    if not isinstance(output, Mapping):
        return output
    if set(output) == {"id", "name", "response"}:
        return _unwrap_result(output["response"])
    if set(output) == {"result"}:
        return output["result"]
    return output
