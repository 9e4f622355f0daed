"""From a recorded run, or from what a pipeline returned, to the core's trees of calls: a tree for each answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import (
    answers,
    documents_in_output,
    replies_of,
)
from haystack_integrations.tracing.ragmetrics.components import Calls, prompt
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    PIPELINE,
    Node,
    Run,
    copied,
)

from ragmetrics_core import Turn, capture
from ragmetrics_core.capture import (
    Answer,
    Document,
    EarlierConversation,
    Message,
    Overrides,
    Problems,
    SettingError,
    Tree,
    as_one_line,
    documents_in,
)
from ragmetrics_core.capture import Node as Call

# Names of sockets that usually hold the question, the likeliest first.
_USUAL_NAMES = (
    "question",
    "user_question",
    "query",
    "user_query",
    "text",
    "user_input",
    "input",
    "prompt",
    "queries",
    "value",
    "messages",
)
# Names of sockets that hold settings.
_NEVER_A_QUESTION = frozenset(
    {
        "template",
        "prompt_template",
        "system_prompt",
        "filters",
        "generation_kwargs",
        "meta",
    }
)


_ONE_OF_SEVERAL = (
    "the question is one of several texts that were handed in together; nothing tells"
    " which of them was asked"
)


def as_run(result: object) -> Run:
    """Return a run as it is, or make one of what an application got from Haystack.

    Example: the result {"llm": {"replies": ["Anna"]}} becomes a run without calls whose
    output it is.

    Args:
        result: A run, the result of a pipeline or agent, an answer, or several answers.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(result, Run):
        return result
    output = _by_component(copied(result))
    if not isinstance(output, dict):
        raise SettingError(
            "samples_from() takes a run, a pipeline's result or answers, got"
            f" {type(result).__name__}"
        )
    is_of_agent = "last_message" in output
    root = Node(
        AGENT if is_of_agent else PIPELINE,
        name="",
        type="",
        parent=None,
        opened=1,
        closed=1,
        output=output,
    )
    run = Run(Problems())
    run.nodes.append(root)
    return run


def _by_component(output: object) -> object:
    """Return an answer, or several, as a pipeline's component returns them; else as it is."""
    several = (output,) if isinstance(output, Answer) else output
    if not isinstance(several, tuple):
        return output
    are_answers = all(isinstance(element, Answer) for element in several)
    return {"answers": {"answers": several}} if are_answers else output


def trees(run: Run, where: Overrides) -> list[Tree]:
    """Make a tree for each answer of a run, since each may have a question of its own.

    Example: ``answer_from="llm"`` with two replies of "llm" gives two trees. A run
    without an answer gives one tree; a run that only fills a document store gives none.
    With ``build``, the user's function, one tree is made, from which it makes samples.

    Args:
        run: The run.
        where: Where the user says that question, contexts and answer are.
    """
    calls = Calls(run)
    if where.build is None and not calls.models and _is_indexing(run):
        return []
    named_answers: list[Answer] = []
    if isinstance(where.answer_from, str):
        named_answers = replies_of(calls, where.answer_from)
    if named_answers:
        run_answers = named_answers
    elif run.error:
        run_answers = []  # it broke off: a text in its output is no answer
    else:
        run_answers = answers(calls)
    if where.build is not None:
        run_answers = run_answers[:1]  # the user's function takes the whole run once
    if not run_answers:
        return [_tree(calls, None, where)]
    answer_trees = [_tree(calls, answer, where) for answer in run_answers]
    if named_answers:
        for tree in answer_trees:
            # The tree has its answer. Drop the name "llm": else the core looks it up
            # once more, and each tree gets the replies of all trees.
            _drop_lookup(tree, where.answer_from)
    return answer_trees


def _drop_lookup(tree: Tree, name: object) -> None:
    """Drop a name from the values in which the core looks up the user's names.

    Example: "llm" has two replies, and each got a tree. If the core looked up "llm" in
    one of the trees, it would find both.
    """
    lookup_inputs = []
    for values in tree.lookup_inputs:
        lookup_inputs.append({key: values[key] for key in values if key != name})
    tree.lookup_inputs = tuple(lookup_inputs)


def _is_indexing(run: Run) -> bool:
    """Whether a run writes documents into a store."""
    return any(
        "documents_written" in component.output_by_socket
        for component in run.components()
    )


def _tree(calls: Calls, answer: Answer | None, where: Overrides) -> Tree:
    """Make the tree of a run for one of its answers.

    A **tree** is a run in the terms of the core. Example: a run with a retriever and
    two generators has two answers, so it gets two trees.

    Args:
        calls: The calls of the run.
        answer: The answer; None for a run without any.
        where: Where the user says that question, contexts and answer are.
    """
    call = _answering_call(calls, answer)  # the model's call that wrote the answer
    user_text = _question(
        calls,
        messages_shown=() if call is None else call.prompt,
        query=None if answer is None else answer.question,
    )
    tree = _tree_without_answer(calls, where)
    _add_question(tree, user_text, answer)
    _add_history(tree, calls, call, user_text)
    if user_text is not None:
        # A router sent "Hi" to a plain model, and the retriever never ran. Without a
        # question there was nothing to be routed.
        tree.was_routed_away = _skipped_a_branch(calls.run)
    is_asked_of_a_model = bool(calls.models) and user_text is not None
    # kept as a sample even if nothing was retrieved
    tree.is_always_a_sample = answer is not None or is_asked_of_a_model
    if answer is None:
        _add_documents_without_answer(tree, calls)
    else:
        tree.answers = (answer,)
        _add_documents_of_answer(tree, answer, calls)
    return tree


def _answering_call(calls: Calls, answer: Answer | None) -> Call | None:
    """The call that wrote an answer; without an answer the last call of a model."""
    if answer is not None:
        return answer.writing_call
    return calls.call_by_span[calls.models[-1]] if calls.models else None


def _add_documents_of_answer(tree: Tree, answer: Answer, calls: Calls) -> None:
    """Give an answer the documents of the run's output, if nothing else tells its own.

    Example: a component of the user returns "Anna" and documents. Usually the answer,
    or the model's call that wrote it, names its documents: these stay.
    """
    is_without_source = answer.writing_call is None and not answer.documents
    document_lists = documents_in_output(calls.run)
    if is_without_source and document_lists:
        tree.flow_place, tree.flow_documents = document_lists[-1]
        # None makes the core take the flow documents; () would mean none
        tree.answers = (replace(answer, documents=None),)


def _add_documents_without_answer(tree: Tree, calls: Calls) -> None:
    """Write into a tree what its run found last, or else what reached its last model."""
    document_lists = documents_in_output(calls.run)
    if document_lists and _ends_with_a_search(calls):
        tree.gives_only_documents = True
        tree.flow_place, tree.flow_documents = document_lists[-1]
    elif calls.models:
        last_model = calls.models[-1]
        tree.flow_documents, tree.flow_place = calls.documents_that_reached(last_model)


def _add_question(
    tree: Tree, user_text: _UserText | None, answer: Answer | None
) -> None:
    """Write the question into a tree, from the user's text or else from the answer.

    Example: the user asks "And when?", and the answer's query is "When was Rome
    built?". The first is the question, the second the standalone question.

    Args:
        tree: The tree.
        user_text: The question as the user handed it in; None if it is not found.
        answer: The answer, which may carry the question; None for a run without any.
    """
    question_of_answer = None if answer is None else answer.question
    if user_text is None:
        # no input is a question, but the answer has ``query="Who?"``
        if answer is not None and question_of_answer:
            tree.question = question_of_answer
            tree.question_place = f"{answer.place} query"
        return
    tree.question = user_text.text
    tree.question_place = ", ".join(user_text.places)
    if user_text.is_one_of_several:
        # the user handed in ["Who?", "When?"], and nothing tells which was asked
        tree.doubts = (_ONE_OF_SEVERAL,)
    if question_of_answer and question_of_answer != user_text.text:
        # a component rewrote the user's question before it was answered
        tree.standalone_question = question_of_answer


def _add_history(
    tree: Tree, calls: Calls, call: Call | None, user_text: _UserText | None
) -> None:
    """Write into a tree the earlier turns of the conversation, with their doubts.

    Example: messages [user "Hi", assistant "Hello", user "Who?"] for the question
    "Who?" give the turns "Hi" and "Hello".

    Args:
        tree: The tree, which has its question.
        calls: The calls of its run.
        call: The call that answered; None if there is none.
        user_text: The question as the user handed it in; None if it is not found.
    """
    asked = user_text
    # the question is known from the answer alone
    if asked is None and tree.question is not None:
        asked = _UserText(tree.question)
    # what components returned later is no earlier turn
    answer_began = None if call is None else int(call.began)
    history = _earlier_history(calls, answer_began, asked)
    tree.history = history.conversation.turns
    tree.instructions = history.conversation.texts
    tree.is_history_of_prompt = history.is_of_prompt
    tree.doubts = (*tree.doubts, *history.conversation.doubts)


def _tree_without_answer(calls: Calls, where: Overrides) -> Tree:
    """Make the tree of a run, with all but its question and answer.

    It holds the calls of the run, how the run ended, where the user's keys are looked
    up, and warnings. A run that was paused and a run that resumes it have one key, the
    input.
    """
    run = calls.run
    without_text = _documents_without_text(run)
    return Tree(
        calls.root,
        output=run.output,
        error=run.error,
        is_complete=run.complete,
        task_or_thread=run.task_or_thread,
        resumption_key=repr(run.input) if run.resumable or _is_resumed(run) else None,
        is_paused=run.paused,
        continues=_is_resumed(run),
        documents_without_text=without_text,
        warnings=_warnings(run, where, without_text),
        native_run=run,
        lookup_inputs=_values_by_place(run),
        to_plain_value=copied,
    )


def _skipped_a_branch(run: Run) -> bool:
    """Whether a router sent the run past components, so that they never ran.

    Example: a router could send "Hi" to a retriever or to a generator, and only the
    generator ran. The skipped component takes an output of a component that ran.
    """
    outer_nodes = [node for node in run.components() if node.parent is run.root]
    ran = {node.name for node in outer_nodes}
    receivers: set[str] = set()
    for node in outer_nodes:
        for socket in node.output_sockets.values():
            receivers.update(socket.get("receivers") or ())
    return not receivers <= ran


def _ends_with_a_search(calls: Calls) -> bool:
    """Whether a run searched after its last call of a model.

    Its models then only wrote queries. True also for a run that called no model. False
    for a run that failed.
    """
    run = calls.run
    if run.error is not None:
        return False
    if not calls.models:
        return True
    closed = calls.models[-1].closed
    return any(node.opened > closed and calls.retrieves(node) for node in run.nodes)


def _documents_without_text(run: Run) -> tuple[Document, ...]:
    """Find images and the like among what the components returned, each id once."""
    document_by_id = {}
    for node in run.nodes:
        for document in documents_in(node.output):
            document_by_id[document.id] = document
    return tuple(
        document for document in document_by_id.values() if not document.text.strip()
    )


def _is_resumed(run: Run) -> bool:
    """Whether a run goes on from a snapshot of an earlier one.

    The first component of such a run is given inputs that other components send,
    although none of these ran.
    """
    first_component = next(run.components(), None)
    if first_component is None:
        return False
    from_the_user = run.input.get(first_component.name) or {}
    sockets_fed = [
        name
        for name, socket in first_component.input_sockets.items()
        if socket.get("senders") and name not in from_the_user
    ]
    return any(first_component.input.get(name) for name in sockets_fed)


def _warnings(
    run: Run, where: Overrides, without_text: Sequence[Document]
) -> tuple[str, ...]:
    """List what the user should know of names that lead nowhere and of blank documents.

    Example: with ``answer_from="llm"`` and no component "llm" in the run, a
    warning says so; the answer is then found by the rules, as if no name were given.
    """
    warnings: list[str] = []
    # outputs and inputs by component and socket, and of the whole run
    mappings = _values_by_place(run)
    for name in ("question", "contexts", "answer"):
        # ``question_from="builder.query"`` names a value; a function is not checked
        source = getattr(where, f"{name}_from")
        if isinstance(source, str):
            is_in_run, _ = where.find(name, run, *mappings)
            if not is_in_run:
                warnings.append(
                    f"{name}_from={source!r} is not in this run; the rules were used"
                )
    if without_text:
        warnings.append(f"{len(without_text)} documents without text are no contexts")
    return tuple(warnings)


def _values_by_place(run: Run) -> tuple[Mapping[str, Any], ...]:
    """The mappings in which the user's keys, such as ``contexts_from``, are looked up.

    Example: ``contexts_from="retriever.documents"`` is found in the first. The first
    two hold the outputs and the inputs of the components, under the names ``component``
    and ``component.socket``; the last run of a component counts. Behind these stand the
    output and the input of the whole run.
    """
    outputs: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    for node in run.components():
        _add_values(outputs, node.path, node.output)
        _add_values(inputs, node.path, node.input)
    return outputs, inputs, run.output, run.input


def _add_values(values_by_place: dict[str, Any], path: str, values: object) -> None:
    """Add the values of a component's sockets under the component's path."""
    if not isinstance(values, dict):
        return
    values_by_place[path] = values
    for name, value in values.items():
        values_by_place[f"{path}.{name}"] = value


# What the user asked, by the names of sockets, and what was said before


@dataclass
class _UserText:
    """A text that the user handed in, which may be the question.

    Attributes:
        text: The text.
        places: Each ``component.socket`` that got it.
        rank: The place in ``_USUAL_NAMES`` of its socket's name; lower is likelier to
            be the question.
        before: The texts before it, if it is the last text of a list.
        is_one_of_several: Whether nothing tells which text of a list is the question.
    """

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL_NAMES)
    before: tuple[str, ...] = ()
    is_one_of_several: bool = False

    def add_input(self, place: str, name: str) -> None:
        """Note an input that got the text; the likeliest of the names counts."""
        self.places.append(place)
        if name in _USUAL_NAMES:
            self.rank = min(self.rank, _USUAL_NAMES.index(name))

    @property
    def is_usual(self) -> bool:
        """Whether a socket of a usual name got it."""
        return self.rank < len(_USUAL_NAMES)


def _question(
    calls: Calls, messages_shown: Sequence[Message], query: str | None
) -> _UserText | None:
    """Choose the question among the user's texts; None if no text may be the question.

    Example: ``run({"builder": {"question": "Who?", "tone": "kind"}})`` asks "Who?": the
    name "question" is usual. If the answer carries a query, an equal text is chosen.

    Args:
        calls: The calls of the run.
        messages_shown: The prompt of the answering call.
        query: The question that the answer carries; None if it carries none.
    """
    user_texts = _user_texts(calls)
    for text in user_texts:
        if query and as_one_line(text.text) == as_one_line(query):
            return text
    messages_of_models = [message for node in calls.models for message in prompt(node)]
    shown_to_models = _lines_of(messages_of_models)
    likely = [text for text in user_texts if _may_be_asked(text, shown_to_models)]
    if not likely:
        # the user may have written the question into a template
        return _rendered_question(calls.run, messages_shown)
    return _likeliest(likely, _lines_of(messages_shown))


def _lines_of(messages: Sequence[Message]) -> str:
    """The texts of messages, one a line."""
    return "\n".join(as_one_line(message.text) for message in messages)


def _may_be_asked(text: _UserText, shown_to_models: str) -> bool:
    """Whether a text has an input of a usual name, or several words that a model was shown."""
    if text.is_usual:
        return True
    return _has_several_words(text.text) and _holds_words(shown_to_models, text.text)


def _likeliest(texts: Sequence[_UserText], shown_here: str) -> _UserText:
    """Choose the text that is most likely the question.

    Example: the inputs are query="Who?" and language="plain English", and the prompt
    shows "Who?": it is chosen. A list ["Who?", "When?"] stays in doubt
    (``is_one_of_several``) if the prompt shows both; if it shows "Who?", that is clear.

    Args:
        texts: The texts; at least one.
        shown_here: The prompt of the answering call.
    """

    def likelihood(text: _UserText) -> tuple[bool, bool, int, int]:
        is_shown = _holds_words(shown_here, text.text)
        # an input named "query" or "question" first; then what the prompt shows; then
        # what most inputs got; then the likelier name of an input
        return text.is_usual and is_shown, is_shown, len(text.places), -text.rank

    likeliest = max(texts, key=likelihood)
    # the texts of a list that are as likely, the chosen text among them
    rivals = [
        text
        for text in texts
        if text.is_one_of_several and likelihood(text) == likelihood(likeliest)
    ]
    if len(rivals) < 2:
        likeliest.is_one_of_several = False
    return likeliest


def _user_texts(calls: Calls) -> list[_UserText]:
    """Collect each text that the user handed in, once, with all inputs that got it.

    Example: ``run({"retriever": {"query": "Who?"}, "builder": {"question": "Who?"}})``
    gives one text, "Who?", with two places. The list ["Hi", "Who?"] gives two texts,
    each marked as one of several. But if the run itself searched for "Who?", only
    "Who?" is taken from the list.
    """
    lines_asked_inside = _lines_asked_inside(calls)  # queries of the run's own calls
    text_by_line: dict[str, _UserText] = {}
    for place, name, value in _inputs(calls.run):
        if name in _NEVER_A_QUESTION:
            continue
        for found_text in _texts_in_input(value, lines_asked_inside):
            line = as_one_line(found_text.text)
            # the same text in an earlier input, else this one
            user_text = text_by_line.setdefault(line, found_text)
            user_text.add_input(place, name)
            # One input got the list ["Who?", "When?"], another got the text "Who?": the
            # user asked "Who?", so it is no longer marked as one of several.
            is_handed_in_alone = not found_text.is_one_of_several
            if is_handed_in_alone:
                user_text.is_one_of_several = False
    return list(text_by_line.values())


def _texts_in_input(
    value: object, lines_asked_inside: Collection[str]
) -> list[_UserText]:
    """Find the texts in one input of a component that may be the question.

    Example: "Who?" gives itself, ["Who?", "When?"] gives both, and messages give the
    user's last message. If the run searched for "Who?", the list gives "Who?" alone.

    Args:
        value: The input.
        lines_asked_inside: What the run itself asked with, each text in one line.
    """
    # copied inputs hold lists as tuples
    if isinstance(value, tuple):
        texts = [text for text in value if isinstance(text, str)]
        is_list_of_texts = len(texts) == len(value)
        if texts and is_list_of_texts:
            texts_with_words = [text for text in texts if text.strip()]
            return _texts_in_list(texts_with_words, lines_asked_inside)
    # one text, or messages; a number or another object has no text
    text = _text_or_last_message(value)
    return [_UserText(text)] if text is not None and text.strip() else []


def _text_or_last_message(value: object) -> str | None:
    """Return a text, or the user's last text in messages; None for any other value."""
    if not isinstance(value, (str, Message, tuple)):
        return None
    # messages may also be mappings of a role and a text
    return capture.question_in(value) or capture.question_in(tuple(_messages(value)))


def _texts_in_list(
    texts: Sequence[str], lines_asked_inside: Collection[str]
) -> list[_UserText]:
    """Return the texts of a list that the run sent to its calls; all, if it sent none.

    Example: the user handed in ["Hi", "Who?"], and the run searched for "Who?". "Who?"
    is returned, with "Hi" as an earlier turn (``before``), because "Who?" is the last
    text. If the run searched for both or for neither, both are returned, and each is
    marked as ``is_one_of_several``.

    Args:
        texts: The list.
        lines_asked_inside: What the run sent to its own calls, each text in one line.
    """
    lines_asked = {as_one_line(text) for text in texts} & set(lines_asked_inside)
    is_one_asked = len(lines_asked) == 1
    user_texts = []
    for index, text in enumerate(texts):
        if lines_asked and as_one_line(text) not in lines_asked:
            continue
        if is_one_asked:
            # surely the question; if it is the last text, the others are earlier turns
            is_last = index == len(texts) - 1
            before = tuple(texts[:index]) if is_last else ()
            user_texts.append(_UserText(text, before=before))
        else:
            user_texts.append(_UserText(text, is_one_of_several=len(texts) > 1))
    return user_texts


def _lines_asked_inside(calls: Calls) -> set[str]:
    """The queries of the run's own calls, and the texts that its components hand on.

    Each text is in one line.
    """
    lines = {as_one_line(call.query) for call in calls.root.walk() if call.query}
    for node in calls.run.components():
        for value in node.output_by_socket.values():
            if isinstance(value, str):
                lines.add(as_one_line(value))
    return lines


def _inputs(run: Run) -> Iterator[tuple[str, str, Any]]:
    """Yield what the user handed in: for each input its place, its name and its value.

    Example: ``run({"retriever": {"query": "Who?"}})`` yields ("retriever.query",
    "query", "Who?"). Variables of a template are yielded as inputs as well.
    """
    # A pipeline's inputs are grouped by component. An agent's are not: they are put
    # under a component without a name, so that one loop reads both.
    inputs_by_component = run.input
    if run.root.operation == AGENT:
        inputs_by_component = {"": run.input}
    for component, inputs in inputs_by_component.items():
        if not isinstance(inputs, dict):
            continue
        for name, value in inputs.items():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                for variable, variable_value in value.items():
                    yield f"{place}.{variable}", variable, variable_value


def _has_several_words(text: str) -> bool:
    """True for a text of several words on one line, which may be a question.

    A text of more than four characters that are not all ASCII counts even without a
    space: its language, such as Chinese, may write none.
    """
    line = text.strip()
    if "\n" in line:
        return False
    return " " in line or (len(line) > 4 and not line.isascii())


def _holds_words(longer_text: str, text: str) -> bool:
    """Whether a longer text holds a text, at the borders of words.

    Borders count only for ASCII: other languages may write no spaces.
    """
    line = as_one_line(text)
    pattern = re.escape(line)
    if line.isascii():
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return re.search(pattern, longer_text) is not None


def _rendered_question(run: Run, messages_shown: Sequence[Message]) -> _UserText | None:
    """Return the rendered prompt as the question, if the user handed in its template.

    Example: ``run({"builder": {"template": "Translate {{word}}", "word": "iron"}})``
    asks "Translate iron". None without a template. None if the builder got documents:
    a prompt with documents is more than the question.

    Args:
        run: The run.
        messages_shown: The prompt of the answering call.
    """
    # such as ["builder.template"]
    template_places = [
        place for place, name, value in _inputs(run) if name == "template" and value
    ]
    # the components that got such a template
    prompt_builders = [
        node for node in run.components() if f"{node.path}.template" in template_places
    ]
    if not prompt_builders:
        return None
    for builder in prompt_builders:
        if any(documents_in(builder.input)):
            return None
    text = capture.question_in(tuple(messages_shown))
    return None if text is None else _UserText(text, template_places)


@dataclass(frozen=True)
class _MessageList:
    """Messages that may hold earlier turns of the conversation.

    Attributes:
        messages: The messages.
        may_be_examples: Whether a component composed them as a prompt for the question:
            they may be few-shot examples then.
    """

    messages: list[Message]
    may_be_examples: bool = False


@dataclass(frozen=True)
class _History:
    """What was said before the question.

    Attributes:
        conversation: The turns, with what is uncertain about them.
        is_of_prompt: Whether the turns stand in a prompt alone, and may be examples.
    """

    conversation: EarlierConversation
    is_of_prompt: bool = False


def _earlier_history(
    calls: Calls, answer_began: int | None, asked: _UserText | None
) -> _History:
    """Find the earlier turns of the conversation; without any if nothing was said before.

    Example: the user handed in [user "Hi", assistant "Hello", user "Who?"]: the first
    two are the turns. Messages of a memory go before these; texts come last.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        asked: The question of now; None if it is not known.
    """
    question = None if asked is None else asked.text
    message_lists = _message_lists_handed_in(calls.run)
    message_lists += _message_lists_of_components(calls, answer_began, question)
    for message_list in reversed(message_lists):
        turns = _turns_of(message_list.messages, question)
        if turns:
            conversation = EarlierConversation(turns)
            return _History(conversation, message_list.may_be_examples)
    return _History(_conversation_in_texts(calls.run, asked))


def _message_lists_handed_in(run: Run) -> list[_MessageList]:
    """The messages in each input that the user handed in."""
    message_lists = []
    for _, name, value in _inputs(run):
        if name not in _NEVER_A_QUESTION:
            message_lists.append(_MessageList(_messages(value)))
    return message_lists


def _turns_of(messages: Sequence[Message], question: str | None) -> tuple[Turn, ...]:
    """The turns of messages, without the question of now at their end.

    Example: "Hi", "Hello", "Who?" and the question "Who?" give "Hi" and "Hello". If the
    question is not known, a last message of the user is taken for it.
    """
    if not messages:
        return ()
    is_question_last = False
    if messages[-1].role == "user":
        is_question_last = as_one_line(question) in as_one_line(messages[-1].text)
    if not is_question_last:
        # history_in() takes off the last message as the question: give it one
        messages = [*messages, Message("user", "now")]
    return capture.history_in(messages)


def _conversation_in_texts(run: Run, asked: _UserText | None) -> EarlierConversation:
    """Find earlier turns that the user handed in as texts.

    They stand in an input whose name says so, such as "chat_history", or in one list
    before the question, as "Hi" in ["Hi", "Who?"].
    """
    question = None if asked is None else asked.text
    values = {
        name: value for _, name, value in _inputs(run) if capture.names_a_history(name)
    }
    conversation = capture.find_conversation(values, question)
    if conversation.turns or conversation.texts or asked is None:
        return conversation
    return capture.find_conversation({"history": asked.before}, question)


def _message_lists_of_components(
    calls: Calls, answer_began: int | None, question: str | None
) -> list[_MessageList]:
    """Return the messages that components, such as a memory, gave before the answer.

    Example: a memory returns [user "Hi", assistant "Hello", user "Who?"] before the
    model answers "Who?": the list is kept. What a prompt builder or a model of this run
    wrote is left out, also where a memory returns it again. A list that a component
    composed as a prompt is kept, too, but marked: it may be few-shot examples.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        question: What is asked now; None if that is not known.
    """
    all_documents = _documents_of(calls)
    written_in_run: list[Message] = []
    message_lists: list[_MessageList] = []
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        if _writes_messages(node, calls):
            written_in_run += _messages_among(node.output_by_socket)
        elif _ended_before(node, answer_began):
            # a component that takes documents composes a prompt, not a memory's turns
            took_documents = bool(calls.call_by_span[node].input_documents)
            for value in node.output_by_socket.values():
                from_elsewhere = _drop_written(_messages(value), written_in_run)
                # the turns up to the question that is asked now
                earlier = _earlier_messages(
                    node, from_elsewhere, question, all_documents
                )
                is_composed = _is_composed_as_prompt(node, earlier, took_documents)
                message_lists.append(_MessageList(earlier, is_composed))
    return message_lists


def _writes_messages(node: Node, calls: Calls) -> bool:
    """Whether a component is a prompt builder, a model or an agent."""
    is_builder = "Builder" in node.type.rpartition(".")[2]
    return is_builder or calls.call_by_span[node].kind in ("model", "agent")


def _ended_before(node: Node, moment: int | None) -> bool:
    """Whether a component ended before a moment; True if the moment is not known."""
    return moment is None or node.closed < moment


def _documents_of(calls: Calls) -> list[Document]:
    """Collect all documents that calls of a run took or returned."""
    documents: list[Document] = []
    for call in calls.root.walk():
        documents += [*call.input_documents, *(call.documents or ())]
    return documents


def _earlier_messages(
    node: Node,
    messages: list[Message],
    question: str | None,
    documents: Sequence[Document],
) -> list[Message]:
    """Keep what a component returned of earlier turns, up to the question of now.

    Nothing is kept if the user said nothing in the rest: words of the assistant alone
    are those of a step.

    Args:
        node: The span of the component.
        messages: A list of messages that it returned.
        question: What is asked now; None if that is not known.
        documents: Messages that only show these are dropped.
    """
    messages_taken = _messages_among(node.input)
    earlier = capture.messages_up_to_question(messages, question, messages_taken)
    earlier = capture.drop_shown_documents(earlier, documents)
    if any(message.role == "user" for message in earlier):
        return earlier
    return []


def _is_composed_as_prompt(
    node: Node, messages: list[Message], took_documents: bool
) -> bool:
    """Whether a component composed messages as a prompt for the question.

    A memory also adds messages that it was not given, but hands the last one on as it
    was given, and takes no documents.

    Args:
        node: The span of the component.
        messages: What it returned of earlier turns, with the question at the end.
        took_documents: Whether the component was given documents.
    """
    if not messages or messages[-1].role != "user":
        return False
    messages_taken = _messages_among(node.input)
    adds_messages = any(message not in messages_taken for message in messages[:-1])
    adds_last_message = messages[-1] not in messages_taken
    return adds_messages and (adds_last_message or took_documents)


def _messages_among(values: Mapping[str, Any]) -> list[Message]:
    """All messages among the inputs or outputs of a component."""
    return [message for value in values.values() for message in _messages(value)]


def _drop_written(messages: list[Message], written: list[Message]) -> list[Message]:
    """Return messages without the messages that the run itself wrote.

    If a message stands in the list several times, only the last one is dropped: the
    others belong to earlier turns.
    """
    remaining = list(messages)
    for place in reversed(range(len(remaining))):
        is_new = remaining[place] not in messages[place + 1 :]
        if remaining[place] in written and is_new:
            del remaining[place]
    return remaining


def _messages(value: object) -> list[Message]:
    """The messages of a list, whose elements are messages or mappings of a role and a text."""
    if not isinstance(value, tuple):
        return []
    messages = [element for element in value if isinstance(element, Message)]
    if messages or not all(isinstance(element, Mapping) for element in value):
        return messages
    conversation = capture.find_conversation({"history": value})
    return [Message(turn.role, turn.content) for turn in conversation.turns]
