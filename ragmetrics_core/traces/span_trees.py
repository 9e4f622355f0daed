"""From the spans of one trace to the core's trees: a tree for each turn, of nodes.

A **call** is a span with what it says, and with the calls inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.history import history_in
from ragmetrics_core.capture.plain_values import (
    answer_in,
    documents_in,
    has_written,
    note_documents_of_step,
    note_what_was_left_out,
    question_in,
    texts_in,
)
from ragmetrics_core.capture.structures import as_one_line, compact, find_instances
from ragmetrics_core.capture.tree import FLOW, Answer, Document, Message, Node, Tree
from ragmetrics_core.capture.turns import join_trees
from ragmetrics_core.data import InputError
from ragmetrics_core.traces.dialects import (
    FORM_NOT_READ,
    Reading,
    found_texts,
    holds_only_numbers,
    reading_of,
    session_of,
)
from ragmetrics_core.traces.notes import (
    ATTRIBUTES_DROPPED,
    DOCUMENTS_IN_PART,
    FOUND_NOT_RECORDED,
    VALUES_CUT,
)
from ragmetrics_core.traces.span_values import ToolMessage, messages_in, replies_in
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.unread import (
    PROVIDER_SEARCHED,
    are_documents_cut,
    cut_spans_of,
    says_that_provider_searched,
    unrecorded_evidence_of,
)

Resolve = Mapping[str, str] | Callable[[Sequence[str]], Mapping[str, str]]
_DEEPEST = 250  # levels of calls inside one another that are read
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
        is_cut: Whether values of the span were cut at a limit of their length.
    """

    span: Span
    reading: Reading | None
    inside: list[Call] = field(default_factory=list)
    is_cut: bool = False

    def walk(self) -> Iterator[Call]:
        """Yield the call and all below it, in the order in which they began."""
        yield self
        for inner in self.inside:
            yield from inner.walk()


def calls_of(
    spans: Sequence[Span], dialect: str | None = None, resolve: Resolve | None = None
) -> list[Call]:
    """Put the spans of a trace inside each other, and return the outermost as calls.

    Example: the spans of a query and of the retriever that it calls become one call,
    the query, with the retriever's call inside. Each call gets a **reading**: what its
    span says, by the names of its dialect.

    Args:
        spans: The spans of one trace, in any order.
        dialect: The only dialect that is read; None for all.
        resolve: Texts of documents, by id, where the spans hold only ids.

    Raises:
        ValueError: If a span cannot be read, or spans stand inside each other in a
            circle or too deep.
        InputError: If ``resolve`` raises.
    """
    # spans that began first, and of these the longest, come first
    ordered = sorted(spans, key=lambda span: (span.start, -span.end, span.id))
    ids_of_cut_spans = cut_spans_of(ordered)
    calls: dict[str, Call] = {}
    for span in ordered:
        is_cut = span.id in ids_of_cut_spans
        reading = reading_of(span.attributes, dialect)
        calls[span.id] = Call(span, reading, is_cut=is_cut)
    has_unreadable_span = "" in calls  # such a span has no id
    if has_unreadable_span:
        raise ValueError("a span cannot be read")

    roots: list[Call] = []
    for call in calls.values():
        parent = calls.get(call.span.parent)
        # Traceloop puts a run of a batch inside the one before it.
        is_run_of_batch = (
            parent is not None
            and call.span.name == parent.span.name
            and call.span.name.endswith(".workflow")
            and not parent.inside
        )
        if parent is None or is_run_of_batch:
            roots.append(call)
        else:
            parent.inside.append(call)
    # calls in a circle, or too deep, are not reached from the roots
    n_reached = 0
    level = roots
    for _ in range(_DEEPEST):
        n_reached += len(level)
        level = list(chain.from_iterable(call.inside for call in level))
    if n_reached < len(calls):
        raise ValueError("spans stand inside each other in a circle or too deep")
    readings = [call.reading for call in calls.values() if call.reading is not None]
    if resolve is not None:
        _resolve_texts(readings, resolve, ordered[0].trace)
    return roots


def _resolve_texts(readings: Sequence[Reading], resolve: Resolve, trace: str) -> None:
    """Give retrieved documents the texts that the spans do not hold.

    Example: a document has the id "7" and no text, and ``resolve`` is {"7": "Rome is
    old."}: it gets this text.

    Args:
        readings: What the spans of a trace say; their documents are changed.
        resolve: What the user gives: texts by ids, or a function that returns them. It
            is called once a trace.
        trace: The id of the trace, for a message.

    Raises:
        InputError: If the function raises, or returns no mapping.
    """
    missing_ids: dict[str, None] = {}  # each once, in order; the values are unused
    for reading in readings:
        for document in reading.documents or ():
            if document.id and not document.text:
                missing_ids[document.id] = None
    if not missing_ids:
        return
    texts: object = resolve
    if not isinstance(resolve, Mapping):
        try:
            texts = resolve(list(missing_ids))
        except _RESOLVE_ERRORS as error:
            raise InputError(
                f"resolve= failed on trace {trace}: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(texts, Mapping):
        raise InputError(
            f"resolve= failed on trace {trace}: it must return a mapping of ids to"
            f" texts, got {type(texts).__name__}"
        )
    for reading in readings:
        if reading.documents:
            documents = []
            for document in reading.documents:
                if document.id and not document.text:
                    text = str(texts.get(document.id) or "")
                    document = replace(document, text=text)
                documents.append(document)
            reading.documents = tuple(documents)


_ASKED_UNLIKE = Doubt(
    "which_turn",
    "runs beside each other under one span may be steps of one turn, or several turns;"
    " put a span of its own around each turn",
)
_ANSWER_NOT_READ = (
    "the answer stands in an object that the instrumentation writes as Python writes it"
)
# Tools of smolagents and of Pydantic AI by which a model gives its answer.
_ONE_TEXT_WITHOUT_IDS = (
    "a search returned one text several times, and the ids that tell whether these are"
    " one document were not recorded"
)
ANSWER_TOOLS = frozenset({"final_answer", "final_result"})
_ABANDONED = "the stream was abandoned before its end"


_ASKED_IN_PROMPT = Doubt("question_guessed")
# of an object that was recorded as its text
_FIELD_OF_OBJECT = re.compile(r"\w+=['\"]")


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
    reading = call.reading
    # A loop of LangChain over runs, or a step that says nothing around one call. A span
    # of no known instrumentation is none of these.
    is_only_around_turns = reading is not None and (
        call.span.name.startswith("RunnableEach<")
        or (reading.kind == "step" and len(call.inside) == 1 and reading.says_nothing)
    )
    # A step is one turn if it was asked a single question itself. A call that is no step,
    # such as a retriever or a model, counts as asked.
    is_asked = False
    if reading is not None and not is_only_around_turns:
        is_asked = reading.kind not in (None, "step") or (
            not holds_several_texts(reading.input)
            and question_in(reading.input) is not None
        )
    if is_asked:
        yield _tree_of_turn(call, session)
        return
    trees_inside: list[Tree] = []
    for inner in call.inside:
        trees_inside += trees_of(inner, session)
    # the runs that call a retriever and a model, and were asked their own question
    n_turns = 0
    for tree in trees_inside:
        kinds = {node.kind for node in tree.root.walk()}
        is_step_of_another = _ASKED_IN_PROMPT in tree.doubts
        if {"model", "retriever"} <= kinds and not is_step_of_another:
            n_turns += 1
    if is_only_around_turns or n_turns > 1:
        if 1 < n_turns < len(trees_inside):
            _doubt(trees_inside)
        yield from trees_inside
    elif reading is not None:  # the runs inside are steps of its one turn
        yield _tree_of_turn(call, session)
    elif len(trees_inside) == 1:
        yield trees_inside[0]
    elif trees_inside:
        # one turn as well, but the span is a stranger's, as a web server's
        questions = set()
        for tree in trees_inside:
            queries = (node.query for node in tree.root.walk())
            asked = tree.question or next(filter(None, queries), "")
            questions.add(as_one_line(asked))
        if len(questions - {""}) > 1:
            _doubt(trees_inside)
        yield join_trees(trees_inside, FLOW)


def _doubt(trees: Sequence[Tree]) -> None:
    """Write into runs beside each other that they may be steps of one turn, or several."""
    for tree in trees:
        tree.doubts += (_ASKED_UNLIKE,)


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
    if session is None:
        # Some instrumentations name the conversation on the calls of models alone. None
        # if the spans inside name several.
        names = {session_of(inner.span.attributes) for inner in call.walk()} - {None}
        session = names.pop() if len(names) == 1 else None
    tree = Tree(
        root,
        # a later run with the same key may resume this one, if it was interrupted
        resumption_key=None if session is None else f"{root.name}/{session}",
        conversation_id=session,
        given_fields={"id": call.span.trace, "metadata": {"span_id": call.span.id}},
    )
    tree.output = reading.output
    # The order counts: each step reads what those before it have written into the calls.
    _add_question(tree, reading)
    _note_what_was_not_recorded(tree, call)
    _add_end(tree, call, models)  # its error, and whether it came to its end
    tree.answers = _answers(root, reading.output)
    # another run may answer from the documents that this one returns
    tree.gives_only_documents = root.kind == "reranker" or (
        isinstance(reading.output, tuple)
        and set(map(type, reading.output)) == {Document}
    )
    texts_of_models = {node.reply.text for node in models if node.reply}
    has_provider_searched = any(
        says_that_provider_searched(inner.span.attributes, texts_of_models)
        for inner in call.walk()
    )
    if has_provider_searched and models:
        models[-1].evidence_not_recorded += (PROVIDER_SEARCHED,)
        models[-1].may_have_searched = True
    if reading.has_unread_output and not tree.answers:
        # the reply of the only model is likely to be the answer
        # a tool that only hands the run over, or the answer in, does not count
        nodes = root.walk()
        called_a_tool = any(n.kind == "tool" and not n.is_control for n in nodes)
        if len(models) == 1 and not called_a_tool:
            tree.doubts += (Doubt("answer_guessed", _ANSWER_NOT_READ),)
        else:
            root.evidence_not_recorded += (_ANSWER_NOT_READ,)
    if reading.says_nothing:
        tree.resumption_key = None  # what it was given, or returned, is not known
    return tree


def _n_found_without_text_and_id(node: Node) -> int:
    """How many documents retrievers found of which neither text nor id was recorded.

    Retrievers inside another one found the same: the larger number counts.
    """
    n_found = 0
    if node.kind == "retriever":
        for document in node.documents or ():
            n_found += not document.text and document.id is None
    return max(n_found, sum(map(_n_found_without_text_and_id, node.children)))


def _note_what_was_not_recorded(tree: Tree, call: Call) -> None:
    """Note in a tree which texts of documents and prompts its spans do not hold.

    Args:
        tree: The tree of a turn, which is changed.
        call: The outermost call of the turn, with its spans.
    """
    # Searches of which no span says what they found; some instrumentations record a
    # search in several spans inside each other. First, since documents without text are
    # taken out next.
    for path in tree.root.paths():
        search = path[-1]
        if search.kind != "retriever" or search.error or search.evidence_not_recorded:
            continue
        # those that a call found, and those that it passed on to the next step
        is_held_around = any(
            each.documents is not None or each.documents_passed_on for each in path
        )
        is_held_inside = any(each.documents is not None for each in search.walk())
        if not (is_held_around or is_held_inside):
            search.evidence_not_recorded = (FOUND_NOT_RECORDED,)
    # Documents without text: those with an id once each, as they may stand in several
    # calls. Of those without one the retrievers' are counted, and one if only other
    # calls hold any.
    found = chain.from_iterable(node.documents or () for node in tree.root.walk())
    without_text = [document for document in found if not document.text]
    ids = dict.fromkeys(each.id for each in without_text if each.id is not None)
    n_without_id = 0
    if any(each.id is None for each in without_text):
        n_without_id = max(1, _n_found_without_text_and_id(tree.root))
    names = [*ids, *[None] * n_without_id]
    if names:  # a call that had no others: its documents are then not known
        for node in tree.root.walk():
            documents = node.documents or ()
            readable = tuple(document for document in documents if document.text)
            node.documents = readable or None
    tree.documents_without_text = tuple(Document("", name) for name in names)
    tree.n_without_text = len(names)
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
    # Was a stream left before its end? The parser of its text has nothing then, or the
    # model never ended.
    for inner in call.walk():
        if tree.error is not None or has_output or inner.reading is None:
            continue
        span = inner.span
        is_unparsed = span.name.endswith("Parser") and inner.reading.output is None
        is_model = inner.reading.kind == "model"
        if is_unparsed or (is_model and not span.end and not span.error):
            tree.error = _ABANDONED
    tree.is_complete = not tree.error and (has_output or bool(models))
    # Paused: LangGraph interrupted the run, say to ask a person, and the conversation
    # may go on. An abandoned run, whose stream was left before its end, may be paused,
    # too: so only the span's own error counts here.
    may_go_on = call.span.error is None and tree.conversation_id is not None
    errors = [node.error or "" for node in tree.root.walk()]
    is_interrupted = any(error.startswith("GraphInterrupt") for error in errors)
    tree.is_paused = may_go_on and is_interrupted


def _answers(root: Node, output: Any) -> tuple[Answer, ...]:
    """Find the answer of a turn; () if there is none.

    Example: the output {"result": "Anna"} gives "Anna". A model that was called alone answers by its reply.

    Args:
        root: The outermost call of the turn.
        output: What the outermost call returned.
    """
    if root.kind == "model":
        if root.reply is None or not root.reply.text:
            return ()
        return (Answer(root.reply.text, writing_call=root),)
    text = answer_in(output)
    if text is None and isinstance(output, Mapping):
        if {"raw", "tasks_output"} <= set(output):  # a crew's, beside its tasks
            text = str(output["raw"])
        else:
            text = only_message(output, role="assistant")
    return () if text is None else (Answer(text),)


def _add_question(tree: Tree, reading: Reading) -> None:
    """Write into a tree what its run was asked: question, earlier turns and documents.

    Of a model or a retriever that was called alone only the question is written.

    Args:
        tree: The calls of one run, whose outermost is the root; it is changed.
        reading: What the span of the root says.
    """
    is_run = tree.root.kind == "step"
    # A run of LangGraph goes on with an interrupted one if it is given nothing, or a
    # command.
    inputs = reading.input
    is_command = isinstance(inputs, Mapping) and {"resume", "goto"} <= set(inputs)
    tree.continues = is_run and (inputs is None or is_command)
    # what the user said of the sample counts first
    tree.question = reading.user_fields.get("question")
    is_asked_here = is_run and not tree.continues and not holds_several_texts(inputs)
    if tree.question is None and is_asked_here:
        question = question_in(inputs)
        # a text such as "query='…'" is an object as Python writes it
        if question is None or _FIELD_OF_OBJECT.match(question):
            question = only_message(inputs, role="user")
        tree.question = question
    if tree.question is None and is_run and reading.says_nothing:
        tree.question = _question_of_first_prompt(tree.root)
        if tree.question is not None:
            tree.doubts += (_ASKED_IN_PROMPT,)
    if not is_run:
        return
    # the earlier turns that were handed in or returned; those of a prompt are read later
    tree.lookup_inputs = (inputs,)
    tree.history = history_in(inputs) or history_in(reading.output, tree.question)
    # A run that was given an answer beside the documents grades that answer: it answers
    # nothing from the documents.
    is_grader = has_written(inputs)
    if not tree.root.input_documents and not is_grader:
        tree.root.input_documents = tuple(documents_in(inputs))


def only_message(value: Any, *, role: str) -> str | None:
    """The text of the only message in a value; None if there are several or none.

    It is the user's or the assistant's, by ``role``.
    """
    messages: list[Message] = list(find_instances(value, Message))
    if len(messages) != 1 or messages[0].role != role:
        return None
    return messages[0].text if messages[0].text.strip() else None


def _question_of_first_prompt(root: Node) -> str | None:
    """The last message of the user that the first model of a run was shown.

    None if it may hold more than the question: what was found before, or a template's
    words around what was searched for before.
    """
    queries = []
    for node in root.walk():
        if node.documents or node.kind == "tool":
            return None
        if node.kind == "retriever" and node.query:
            queries.append(as_one_line(node.query))
        if node.kind == "model":
            texts = [message.text for message in node.prompt if message.role == "user"]
            text = next((text for text in reversed(texts) if text.strip()), None)
            # a query with words before it: "Question: Who?" around "Who?"
            line = as_one_line(text)
            has_words_before = line not in queries and line.endswith(tuple(queries))
            return None if has_words_before else text
    return None


def holds_several_texts(inputs: Any) -> bool:
    """Whether the one value that a run was given is a list of texts."""
    values = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    if len(values) != 1:
        return False
    (value,) = values
    has_several = isinstance(value, tuple) and len(value) > 1
    return has_several and all(type(text) is str for text in value)


def node_of(call: Call, reading: Reading) -> Node:
    """Make a node of a call: the form in which the rules of all frameworks read calls.

    Example: the span of ``chat gpt-4o`` becomes a node of the kind "model" with its
    prompt and its reply. The calls inside the call become nodes inside the node; failed
    attempts that were repeated are left out. What a failed call returned is dropped.

    Args:
        call: The call, which is a span and the calls inside it.
        reading: What its span says.
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
            # the longer one is whole; the other may be cut, or hold the last message alone
            node.prompt = max(
                reading.prompt,
                messages_in(reading.input),
                key=lambda messages: sum(len(message.text) for message in messages),
            )
            node.model = reading.model
            replies = reading.replies
            if not any(reply.text or reply.tool_calls for reply in replies):
                replies = replies_in(reading.output)
            node.reply = replies[0] if replies else None
            unrecorded_evidence_of(call.span.attributes).add_to(node)
        case "retriever" | "reranker":
            _fill_retriever(node, reading)
        case "tool":
            _fill_tool(node, reading)
        case "step":
            node.input_documents = reading.input_documents
            node.documents_among_inputs = tuple(documents_in(reading.input))
            note_documents_of_step(node, reading.input, reading.output)
    if node.error:
        node.documents = None
        node.reply = None
        node.text = None
    if node.kind == "retriever" and node.documents is not None:
        note_what_was_left_out(node)
    return node


def _children(call: Call) -> list[Node]:
    """The calls inside a call as nodes, in the order in which they began."""
    latest_first: list[Call] = []
    later_names: set[str] = set()
    for step in reversed(call.inside):
        # failed calls that were tried again are left out
        was_tried_again = step.span.name in later_names
        if not (step.span.error and was_tried_again):
            latest_first.append(step)
            later_names.add(step.span.name)
    children: list[Node] = []
    for step in reversed(latest_first):
        child = node_of(step, step.reading or Reading())
        children.append(child)
        if child.kind == "model":
            # MLflow puts models that ran beside a model inside it. But a model with the
            # same prompt is the same call, recorded twice.
            calls_of_child = child.children
            child.children = []
            for inner in calls_of_child:
                if inner.kind == "model" and inner.prompt != child.prompt:
                    children.append(inner)
                else:
                    child.children.append(inner)
    return children


def _fill_retriever(node: Node, reading: Reading) -> None:
    """Write into a retriever's node what it was asked, was given and found.

    Example: the input "Who?" and an output with two documents: the query "Who?" and
    these documents. What was found is (), if the output says that it was nothing, and
    None if it is not known.
    """
    node.query = reading.query or question_in(reading.input)
    node.input_documents = reading.input_documents or tuple(
        find_instances(reading.input, Document)
    )
    # What was found is looked for in three places, until one has it. First: objects in
    # the output that have the fields of a framework's documents, and bare texts beside
    # these.
    found = tuple(find_instances(reading.output, Document))
    if found:
        with_bare_texts = found_texts(reading.output) or ()
        node.documents = with_bare_texts if len(with_bare_texts) > len(found) else found
    # Second: attributes that list documents. A reranker's may list scores alone, without
    # ids or texts.
    listed = reading.documents
    has_ids_or_texts = any(document.id or document.text for document in listed or ())
    if node.documents is None and (
        node.kind != "reranker" or not listed or has_ids_or_texts
    ):
        node.documents = listed
    # Third: an output in the application's own form, such as a list of texts. If a
    # reranker returns numbers alone, nobody knows which documents it kept, and in which
    # order; but it brought no others.
    output = reading.output
    is_of_numbers = node.kind == "reranker" and holds_only_numbers(output)
    if node.documents is None and output is not None and not is_of_numbers:
        node.documents = found_texts(output)
        if node.documents is None:
            node.evidence_not_recorded += (FORM_NOT_READ,)
    texts_without_id = [
        document.text for document in node.documents or () if document.id is None
    ]
    if len(set(texts_without_id)) < len(texts_without_id):
        node.remarks += (_ONE_TEXT_WITHOUT_IDS,)
    if node.documents:
        # what was found is recorded, so the error came later and does not undo it
        node.error = None


def _fill_tool(node: Node, reading: Reading) -> None:
    """Write into a tool's node its name, what it was asked and what it returned.

    Example: ``search("Rome")`` that returned a text and two documents.
    """
    node.name = reading.tool or node.name
    node.query = _argument(reading.input)
    node.text = _result(reading.output)
    # a tool by which a model gives its answer brings no evidence
    node.is_control = node.name in ANSWER_TOOLS
    message = next(find_instances(reading.output, ToolMessage), None)
    if message is None:
        node.tool_call_id = reading.call_id
        documents = find_instances(reading.output, Document)
    else:
        # The result was recorded as a message to the model: it names the call that it
        # answers, its only call, and documents may stand beside its text.
        node.tool_call_id = reading.call_id or message.tool_calls[0].id
        documents = find_instances(message.artifact, Document)
    # Without documents it is None, "not known": the tool may have put what it found
    # into its text. () would say that it searched, and found nothing.
    node.documents = tuple(documents) or None


def _argument(inputs: Any) -> str | None:
    """The one text argument of a tool, else all its arguments as JSON.

    None if it was given nothing.
    """
    if inputs is None:
        return None
    named = inputs
    if isinstance(inputs, Mapping) and {"args", "kwargs"} <= set(inputs):
        named = inputs["kwargs"] or inputs["args"]  # as smolagents writes them
    arguments = list(named.values()) if isinstance(named, Mapping) else [named]
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    return compact(named)


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
