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

    Such a run holds only what was returned. Its contexts are the documents that the
    answers carry, or the last ones in the result.

    Args:
        result: A run, the result of a pipeline or agent, an answer, or several answers.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(result, Run):
        return result
    output = copied(result)
    answers_alone = (output,) if isinstance(output, Answer) else output
    if isinstance(answers_alone, tuple) and all(
        isinstance(element, Answer) for element in answers_alone
    ):
        # as a pipeline returns them: by the names of a component and of its output
        output = {"answers": {"answers": answers_alone}}
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


def trees(run: Run, where: Overrides) -> list[Tree]:
    """Make a tree for each answer of a run, since each may have a question of its own.

    A run without an answer gives one tree. A run that only fills a document store gives
    none.

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
    # in a run that failed, only what the user names counts as an answer
    run_answers = named_answers or ([] if run.error else answers(calls))
    if where.build is not None:
        # ``build``, the user's function, makes all samples of the run from one tree
        run_answers = run_answers[:1]
    answer_trees = [_tree(calls, answer, where) for answer in run_answers]
    if not answer_trees:
        answer_trees = [_tree(calls, None, where)]
    if named_answers:
        # ``lookup_inputs`` is what the run was given. The core looks up ``answer_from``
        # there, and would find all named answers again. So the name is removed there:
        # each tree keeps its answer.
        for tree in answer_trees:
            tree.lookup_inputs = tuple(
                _without(place, where.answer_from) for place in tree.lookup_inputs
            )
    return answer_trees


def _is_indexing(run: Run) -> bool:
    """Whether a run writes documents into a store."""
    return any(
        "documents_written" in component.output_by_socket
        for component in run.components()
    )


def _without(place: Mapping[str, Any], name: object) -> dict[str, Any]:
    """A copy of a mapping without one of its names."""
    return {key: value for key, value in place.items() if key != name}


def _tree(calls: Calls, answer: Answer | None, where: Overrides) -> Tree:
    """Make the tree of a run for one of its answers, or for none.

    The documents behind the answer come from one of three places:

    - Usually the answer, or the call that wrote it, names them.
    - Without an answer they are the documents that reached the last model through the
      pipeline: they flowed to it ("flow documents").
    - The documents of the run's output replace them in two cases: the run ended with a
      search and no answer, or an answer has no source: no call wrote it, and it
      carries no documents.

    Args:
        calls: The calls of the run.
        answer: The answer; None for a run without any.
        where: Where the user says that question, contexts and answer are.
    """
    last_model = calls.models[-1] if calls.models else None
    answering_call = None
    if answer is not None:
        answering_call = answer.writing_call
    elif last_model is not None:
        answering_call = calls.call_by_span[last_model]
    tree = _tree_without_answer(calls, where)
    _add_question(tree, calls, answering_call, answer)
    if answer is None and last_model is not None:
        tree.flow_documents, tree.flow_place = calls.documents_that_reached(last_model)
    document_lists = documents_in_output(calls.run)
    if document_lists:
        is_search = answer is None and _ends_with_a_search(calls)
        tree.gives_only_documents = is_search
        if is_search or _has_no_source(answer, answering_call):
            tree.flow_place, tree.flow_documents = document_lists[-1]
            if answer is not None:
                # None makes the core take the flow documents; () would mean none
                answer = replace(answer, documents=None)
    tree.answers = () if answer is None else (answer,)
    return tree


def _add_question(
    tree: Tree, calls: Calls, call: Call | None, answer: Answer | None
) -> None:
    """Write into a tree the question, and the conversation before it.

    The tree also says whether the run is a sample even without a retrieval: that is so
    if it gave an answer, or if a model was asked.

    Args:
        tree: The tree.
        calls: The calls of its run.
        call: The call that answered; None if there is none.
        answer: The answer; None for a run without any.
    """
    # an answer object may carry the question that it answers
    question_of_answer = None if answer is None else answer.question
    prompt_of_call = () if call is None else call.prompt
    # the question as the user handed it in, if it is found there
    user_text = _question(calls, prompt_of_call, question_of_answer)
    # the tree gets the user's text, else the question that the answer carries
    tree.question, tree.question_place = _question_and_place(user_text, answer)
    is_rewritten = bool(question_of_answer) and question_of_answer != tree.question
    if user_text is not None and is_rewritten:
        # a component rewrote the user's question before it was answered
        tree.standalone_question = question_of_answer
    # the earlier turns are looked for before the text that became the tree's question
    text_of_question = user_text
    if text_of_question is None and tree.question is not None:
        text_of_question = _UserText(tree.question)
    _add_history(tree, calls, call, text_of_question)
    if user_text is not None and user_text.is_one_of_several:
        tree.doubts = (_ONE_OF_SEVERAL, *tree.doubts)
    is_asked_of_a_model = bool(calls.models) and user_text is not None
    tree.is_always_a_sample = answer is not None or is_asked_of_a_model
    # a router may have sent the question past the components that search or answer
    tree.was_routed_away = user_text is not None and _skipped_a_branch(calls.run)


def _add_history(
    tree: Tree, calls: Calls, call: Call | None, asked: _UserText | None
) -> None:
    """Write into a tree the earlier turns of the conversation, with their doubts.

    Args:
        tree: The tree.
        calls: The calls of its run.
        call: The call that answered; None if there is none.
        asked: The question; None if it is not known.
    """
    answer_began = None if call is None else int(call.began)
    history = _earlier_history(calls, answer_began, asked)
    tree.history = history.conversation.turns
    tree.instructions = history.conversation.texts
    tree.is_history_of_prompt = history.is_of_prompt
    tree.doubts = history.conversation.doubts


def _tree_without_answer(calls: Calls, where: Overrides) -> Tree:
    """Make the tree of a run, with all but its question and answer.

    It holds the calls of the run, how the run ended, the places and warnings.
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

    Such a component takes an output of one that ran.
    """
    outer_nodes = [node for node in run.components() if node.parent is run.root]
    ran = {node.name for node in outer_nodes}
    receivers: set[str] = set()
    for node in outer_nodes:
        for socket in node.output_sockets.values():
            receivers.update(socket.get("receivers") or ())
    return not receivers <= ran


def _question_and_place(
    user_text: _UserText | None, answer: Answer | None
) -> tuple[str | None, str]:
    """The question and where it was found: what the user gave, else what the answer carries."""
    if user_text is not None:
        return user_text.text, ", ".join(user_text.places)
    if answer is not None and answer.question:
        return answer.question, f"{answer.place} query"
    return None, ""


def _ends_with_a_search(calls: Calls) -> bool:
    """Whether a run searched after its last call of a model.

    Its models then only wrote queries. True also for a run that called no model, and
    False for one that failed.
    """
    run = calls.run
    if run.error is not None:
        return False
    if not calls.models:
        return True
    closed = calls.models[-1].closed
    return any(node.opened > closed and calls.retrieves(node) for node in run.nodes)


def _has_no_source(answer: Answer | None, call: Call | None) -> bool:
    """Whether nothing tells what an answer was made of.

    No call wrote it, and it carries no documents.
    """
    return answer is not None and call is None and not answer.documents


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
    """List what the user should know: places that lead nowhere, and documents without text."""
    warnings: list[str] = []
    for name in ("question", "contexts", "answer"):
        source = getattr(where, f"{name}_from")
        if not isinstance(source, str):
            continue
        is_there, _ = where.find(name, run, *_values_by_place(run))
        if not is_there:
            warnings.append(
                f"{name}_from={source!r} is not in this run; the rules were used"
            )
    if without_text:
        warnings.append(f"{len(without_text)} documents without text are no contexts")
    return tuple(warnings)


def _values_by_place(run: Run) -> tuple[Mapping[str, Any], ...]:
    """The mappings in which the user's keys, such as ``contexts_from``, are looked up.

    The first two hold the outputs and the inputs of the components, under the names
    ``component`` and ``component.socket``; the last run of a component counts. Behind
    these stand the output and the input of the whole run.
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

    @property
    def is_usual(self) -> bool:
        """Whether a socket of a usual name got it."""
        return self.rank < len(_USUAL_NAMES)


def _question(
    calls: Calls, messages_shown: Sequence[Message], query: str | None
) -> _UserText | None:
    """Choose the user's text that is the question.

    1. A text that equals the query of the answer is the question.
    2. Else a text may be the question if its input has a usual name for questions
       (``is_usual``), or if it has several words and any model was shown it. Of
       several such texts the ones that the answering call was shown go first, among
       them those of a usual name. Then texts that more inputs got go first, then texts
       of the likelier name (the lower ``rank``).
    3. Else the question is the user's message as a template rendered it.

    ``is_one_of_several`` of the chosen text stays True only if another text of a list
    is as likely.

    Args:
        calls: The calls of the run.
        messages_shown: The prompt of the answering call.
        query: The question that the answer carries; None if it carries none.

    Returns:
        The text; None if none is found.
    """
    user_texts = _user_texts(calls)
    for text in user_texts:
        if query and as_one_line(text.text) == as_one_line(query):
            return text
    shown_here = "\n".join(as_one_line(message.text) for message in messages_shown)
    shown_anywhere = "\n".join(
        as_one_line(message.text) for node in calls.models for message in prompt(node)
    )
    likely = []
    for text in user_texts:
        is_shown = _has_several_words(text.text) and _holds_words(
            shown_anywhere, text.text
        )
        if text.is_usual or is_shown:
            likely.append(text)
    if not likely:
        return _rendered_question(calls.run, messages_shown)

    def likelihood(text: _UserText) -> tuple[bool, bool, int, int]:
        is_shown = _holds_words(shown_here, text.text)
        return text.is_usual and is_shown, is_shown, len(text.places), -text.rank

    likeliest = max(likely, key=likelihood)
    rivals = [
        text
        for text in likely
        if text.is_one_of_several and likelihood(text) == likelihood(likeliest)
    ]
    # e.g. a model was shown only one text of the list: nothing is left in doubt then
    is_only_one_left = len(rivals) < 2
    if is_only_one_left:
        likeliest.is_one_of_several = False
    return likeliest


def _user_texts(calls: Calls) -> list[_UserText]:
    """Collect the texts that the user handed in, each once, with all their places."""
    asked_inside = _lines_asked_inside(calls)
    text_by_line: dict[str, _UserText] = {}
    for place, name, value in _inputs(calls.run):
        if name in _NEVER_A_QUESTION:
            continue
        rank = _USUAL_NAMES.index(name) if name in _USUAL_NAMES else len(_USUAL_NAMES)
        for text in _texts_in_input(value, asked_inside):
            user_text = text_by_line.setdefault(as_one_line(text.text), text)
            user_text.places.append(place)
            user_text.rank = min(user_text.rank, rank)
            # handed in by itself at any place, it is no longer one of several
            if not text.is_one_of_several:
                user_text.is_one_of_several = False
    return list(text_by_line.values())


def _texts_in_input(value: object, asked_inside: Collection[str]) -> list[_UserText]:
    """The texts in one input of a component that may be the question.

    Of messages it is the last one of the user.

    Args:
        value: The input: a text, texts or messages.
        asked_inside: The queries of the run's own calls, and the texts that its
            components hand on, each in one line. They tell which of several texts the
            run went on with.

    Returns:
        The texts; empty if the input holds none.
    """
    if isinstance(value, tuple) and value:
        texts = [text for text in value if isinstance(text, str)]
        are_all_texts = len(texts) == len(value)
        if are_all_texts:
            texts_with_words = [text for text in texts if text.strip()]
            return _texts_in_list(texts_with_words, asked_inside)
    if not isinstance(value, (str, Message, tuple)):
        return []
    text = capture.question_in(value)
    if not text:
        # messages may also be mappings of a role and a text
        text = capture.question_in(tuple(_messages(value)))
    return [_UserText(text)] if text is not None and text.strip() else []


def _texts_in_list(
    texts: Sequence[str], asked_inside: Collection[str]
) -> list[_UserText]:
    """Those texts of a list that may be the question.

    A conversation may come as a list of texts, of which a component hands on the last
    one as the query. So if exactly one of the texts was asked inside the run, it is the
    question, and if it is the last one, the texts before it are earlier turns. If
    several were asked, any of them may be the question; if none was, any text may be.

    Args:
        texts: The list.
        asked_inside: The queries of the run's own calls, and the texts that its
            components hand on, each in one line.
    """
    lines_asked = {as_one_line(text) for text in texts} & set(asked_inside)
    is_one_asked = len(lines_asked) == 1
    user_texts = []
    for index, text in enumerate(texts):
        if lines_asked and as_one_line(text) not in lines_asked:
            continue
        is_last = index == len(texts) - 1
        user_text = _UserText(text)
        if is_last and is_one_asked:
            user_text.before = tuple(texts[:index])
        user_text.is_one_of_several = len(texts) > 1 and not is_one_asked
        user_texts.append(user_text)
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

    Variables of a template are yielded as inputs as well.
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
    """Return the user's message as a template rendered it, if it stands for the question.

    It stands for the question if the user handed in the template, and if no prompt
    builder that rendered such a template was given documents.

    Args:
        run: The run.
        messages_shown: The prompt of the answering call.

    Returns:
        The message, with the paths of the inputs that hold the template; None if the
        message does not stand for the question.
    """
    places = [
        place for place, name, value in _inputs(run) if name == "template" and value
    ]
    builders = [node for node in run.components() if f"{node.path}.template" in places]
    if not builders:
        return None
    for node in builders:
        if any(documents_in(node.input)):
            return None
    text = capture.question_in(tuple(messages_shown))
    return None if text is None else _UserText(text, places)


@dataclass(frozen=True)
class _History:
    """What was said before the question.

    Attributes:
        conversation: The turns, with what is uncertain about them.
        is_of_prompt: Whether a component wrote the turns into a prompt around the
            question: they may be examples then.
    """

    conversation: EarlierConversation
    is_of_prompt: bool = False


def _earlier_history(
    calls: Calls, answer_began: int | None, asked: _UserText | None
) -> _History:
    """Find the earlier turns of the conversation.

    The first of these places that holds any turn gives them:

    1. the last messages that a component such as a memory returned before the answer;
    2. messages that the user handed in;
    3. earlier texts that the user handed in.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        asked: The question of now; None if it is not known.

    Returns:
        The turns; without any if nothing was said before.
    """
    question = None if asked is None else asked.text
    # pairs of a list and ``is_of_prompt``: whether its messages may be examples of a
    # prompt, and no earlier turns
    lists_with_flag = []
    for _, name, value in _inputs(calls.run):
        if name not in _NEVER_A_QUESTION:
            is_of_prompt = False  # the user handed them in
            lists_with_flag.append((_messages(value), is_of_prompt))
    lists_with_flag += _message_lists_of_components(calls, answer_began, question)
    # components come behind inputs, and later components behind earlier ones
    for messages, is_of_prompt in reversed(lists_with_flag):
        turns = _turns_of(messages, question) if messages else ()
        if turns:
            return _History(EarlierConversation(turns), is_of_prompt)
    return _History(_conversation_in_texts(calls.run, asked))


def _turns_of(messages: Sequence[Message], question: str | None) -> tuple[Turn, ...]:
    """The turns of messages, without the question of now at their end.

    Where the question is not known, a last message of the user is taken for it.
    """
    asked = as_one_line(question)
    is_question_last = False
    if messages and messages[-1].role == "user":
        is_question_last = asked in as_one_line(messages[-1].text)
    if not is_question_last:
        # history_in() takes off the last message as the question: give it one
        messages = [*messages, Message("user", "now")]
    return capture.history_in(messages)


def _conversation_in_texts(run: Run, asked: _UserText | None) -> EarlierConversation:
    """Earlier turns that the user handed in as texts.

    They stand in an input whose name says so, or in one list before the question.
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
) -> list[tuple[list[Message], bool]]:
    """Return the lists of messages that components, such as a memory, gave before the answer.

    The lists of prompt builders, models and agents are left out, since the run itself
    wrote their messages. Where a later component returns such messages again, they are
    taken out of its lists.

    Args:
        calls: The calls of the run.
        answer_began: The tick at which the answering call began; None if no call is
            known. Ticks count up with each beginning and end of a component.
        question: What is asked now; None if that is not known.

    Returns:
        Each list with a flag, in the order in which the components ended. The flag says
        whether the messages may be examples instead of earlier turns: it is True if the
        component composed the list as a prompt for the question.
    """
    all_documents = _documents_of(calls)
    written_in_run: list[Message] = []  # by builders, models and agents so far
    lists_with_flag: list[tuple[list[Message], bool]] = []
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        message_lists = [_messages(value) for value in node.output_by_socket.values()]
        is_builder = "Builder" in node.type.rpartition(".")[2]
        if is_builder or calls.call_by_span[node].kind in ("model", "agent"):
            for messages in message_lists:
                written_in_run += messages
            continue
        has_ended = node.closed > 0  # ``closed`` is 0 while the component runs
        is_before_answer = answer_began is None or node.closed < answer_began
        if not has_ended or not is_before_answer:
            continue
        for messages in message_lists:
            from_elsewhere = _drop_written(messages, written_in_run)
            # only those before the question of now, and none that shows a document
            earlier = _earlier_messages(node, from_elsewhere, question, all_documents)
            took_documents = bool(calls.call_by_span[node].input_documents)
            is_composed = _is_composed_as_prompt(node, earlier, took_documents)
            lists_with_flag.append((earlier, is_composed))
    return lists_with_flag


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

    Messages that only show documents of the run are dropped. Nothing is kept if the
    user said nothing in the rest: words of the assistant alone are those of a step.

    Args:
        node: The span of the component.
        messages: A list of messages that it returned.
        question: What is asked now; None if that is not known.
        documents: The documents of the run.
    """
    earlier = capture.messages_up_to_question(messages, question, _messages_taken(node))
    earlier = capture.drop_shown_documents(earlier, documents)
    if any(message.role == "user" for message in earlier):
        return earlier
    return []


def _is_composed_as_prompt(
    node: Node, messages: list[Message], took_documents: bool
) -> bool:
    """Whether a component composed messages as a prompt for the question.

    A prompt ends with a message of the user, and holds messages that the component was
    not given. A memory also returns messages that it was not given, but hands the last
    one on as it was given, and takes no documents.

    Args:
        node: The span of the component.
        messages: What it returned of earlier turns, with the question at the end.
        took_documents: Whether the component was given documents.
    """
    if not messages or messages[-1].role != "user":
        return False
    messages_taken = _messages_taken(node)
    adds_messages = any(message not in messages_taken for message in messages[:-1])
    adds_last_message = messages[-1] not in messages_taken
    return adds_messages and (adds_last_message or took_documents)


def _messages_taken(node: Node) -> list[Message]:
    """All messages among the inputs of a component."""
    return [message for value in node.input.values() for message in _messages(value)]


def _drop_written(messages: list[Message], written: list[Message]) -> list[Message]:
    """Return messages without those that the run itself wrote.

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
