"""From a recorded run, or from what a pipeline returned, to the core's trees of calls: a tree for each answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import (
    answers,
    documents_left,
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

# Sockets that usually hold the question, the usual ones first.
_USUAL = (
    *(
        "question",
        "user_question",
        "query",
        "user_query",
        "text",
        "user_input",
        "input",
        "prompt",
        "queries",
    ),
    *("value", "messages"),
)
_NEVER = frozenset(
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
    """A run, made of a result if it is none.

    A result is that of a pipeline or agent, an answer, or several answers. Such a run
    holds only what was returned. Its contexts are then the documents that the answers
    carry, or the last ones in the result.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(result, Run):
        return result
    value = copied(result)
    value = (value,) if isinstance(value, Answer) else value
    if isinstance(value, tuple) and all(
        isinstance(element, Answer) for element in value
    ):
        value = {"answers": {"answers": value}}
    if not isinstance(value, dict):
        raise SettingError(
            "samples_from() takes a run, a pipeline's result or answers, got"
            f" {type(result).__name__}"
        )
    run = Run(Problems())
    run.nodes.append(
        Node(
            AGENT if "last_message" in value else PIPELINE,
            "",
            "",
            None,
            1,
            closed=1,
            output=value,
        )
    )
    return run


def trees(run: Run, where: Overrides) -> list[Tree]:
    """A tree for each answer, because each may have its own question.

    One for a run without any.
    """
    calls = Calls(run)
    if where.build is None and not calls.models and _is_indexing(run):
        return []
    named_answers: list[Answer] = []
    if isinstance(where.answer_from, str):
        named_answers = replies_of(calls, where.answer_from)
    run_answers = named_answers or ([] if run.error else answers(calls))
    if where.build is not None:  # it reads the run itself
        run_answers = run_answers[:1]
    answer_trees = [_tree(calls, answer, where) for answer in run_answers]
    if not answer_trees:
        answer_trees = [_tree(calls, None, where)]
    if named_answers:
        for tree in answer_trees:
            tree.places = tuple(
                _without(place, where.answer_from) for place in tree.places
            )
    return answer_trees


def _is_indexing(run: Run) -> bool:
    """Whether a run writes documents into a store."""
    return any(
        "documents_written" in component.sockets for component in run.components()
    )


def _without(place: Mapping[str, Any], name: object) -> dict[str, Any]:
    """Values by their names, without the name of the answers, which become trees of their own."""
    return {key: value for key, value in place.items() if key != name}


def _tree(calls: Calls, answer: Answer | None, where: Overrides) -> Tree:
    """The run as one answer tells it, or as a run without any."""
    last_model = calls.models[-1] if calls.models else None
    call = calls.of[last_model] if last_model is not None else None
    if answer is not None:
        call = answer.writing_call
    tree = _tree_without_answer(calls, where)
    _add_question(tree, calls, call, answer)
    if answer is None and last_model is not None:
        tree.flow_documents, tree.flow_place = calls.flow(last_model)
    documents_of_output = documents_left(calls.run)
    if documents_of_output:
        tree.gives_only_documents = answer is None and _ends_with_a_search(calls)
        if tree.gives_only_documents or _has_no_source(answer, call):
            tree.flow_place, tree.flow_documents = documents_of_output[-1]
            answer = answer and replace(answer, documents=None)
    tree.answers = () if answer is None else (answer,)
    return tree


def _add_question(
    tree: Tree, calls: Calls, call: Call | None, answer: Answer | None
) -> None:
    """Write into a tree what was asked and what was said before.

    The tree also says whether the run is a sample even without a retrieval: that is so
    if it gave an answer, or if a model was asked.

    Args:
        tree: The tree.
        calls: The calls of its run.
        call: The call that answered; None if there is none.
        answer: The answer; None for a run without any.
    """
    carried = None if answer is None else answer.question
    prompt_of_call = () if call is None else call.prompt
    given_question = _question(calls, prompt_of_call, carried)
    tree.question, tree.question_place = _question_asked(given_question, answer)
    if given_question is not None and carried and carried != tree.question:
        tree.standalone_question = carried
    began = None if call is None else int(call.began)
    asked = given_question
    if asked is None and tree.question is not None:
        asked = _Given(tree.question)
    earlier = _earlier_talk(calls, began, asked)
    tree.history = earlier.talk.turns
    tree.instructions = earlier.talk.texts
    tree.is_history_of_prompt = earlier.is_of_prompt
    tree.doubts = earlier.talk.doubts
    if given_question is not None and given_question.is_one_of_several:
        tree.doubts = (_ONE_OF_SEVERAL, *tree.doubts)
    is_asked_of_a_model = bool(calls.models) and given_question is not None
    tree.is_always_a_sample = answer is not None or is_asked_of_a_model
    tree.was_routed_away = given_question is not None and _left_a_way_unused(calls.run)


def _tree_without_answer(calls: Calls, where: Overrides) -> Tree:
    """The tree of a run without question and answer.

    It holds what the run tells whatever it answered: its calls, its end, its places and
    warnings.
    """
    run = calls.run
    without_text = _documents_without_text(run)
    return Tree(
        calls.root,
        output=run.output,
        error=run.error,
        is_complete=run.complete,
        task_or_thread=run.task_or_thread,
        resumption_key=repr(run.input) if run.resumable or _resumed(run) else None,
        is_paused=run.paused,
        continues=_resumed(run),
        documents_without_text=without_text,
        warnings=_warnings(run, where, without_text),
        native_run=run,
        places=_places(run),
        to_plain_value=copied,
    )


def _left_a_way_unused(run: Run) -> bool:
    """Whether components never ran that others lead to: a router sent the run somewhere else."""
    outer_nodes = [node for node in run.components() if node.parent is run.root]
    ran = {node.name for node in outer_nodes}
    sockets = [socket for node in outer_nodes for socket in node.gives.values()]
    return any(not ran.issuperset(socket.get("receivers") or ()) for socket in sockets)


def _question_asked(
    given_question: _Given | None, answer: Answer | None
) -> tuple[str | None, str]:
    """The question and where it was found: what the user gave, else what the answer carries."""
    if given_question is not None:
        return given_question.text, ", ".join(given_question.places)
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
    """Images and the like among what the components returned, each once."""
    returned = {
        document.id: document
        for node in run.nodes
        for document in documents_in(node.output)
    }
    return tuple(
        document for document in returned.values() if not document.text.strip()
    )


def _resumed(run: Run) -> bool:
    """True for a run that goes on from a snapshot.

    Its first component was given something by a socket that other components feed.
    """
    first_component = next(run.components(), None)
    if first_component is None:
        return False
    from_the_user = run.input.get(first_component.name) or {}
    sockets_fed = [
        name
        for name, socket in first_component.takes.items()
        if socket.get("senders") and name not in from_the_user
    ]
    return any(first_component.input.get(name) for name in sockets_fed)


def _warnings(
    run: Run, where: Overrides, without_text: Sequence[Document]
) -> tuple[str, ...]:
    """Places of the user that lead nowhere, and documents that are no contexts."""
    warnings: list[str] = []
    for name in ("question", "contexts", "answer"):
        source = getattr(where, f"{name}_from")
        if not isinstance(source, str):
            continue
        is_there, _ = where.find(name, run, *_places(run))
        if not is_there:
            warnings.append(
                f"{name}_from={source!r} is not in this run; the rules were used"
            )
    if without_text:
        warnings.append(f"{len(without_text)} documents without text are no contexts")
    return tuple(warnings)


def _places(run: Run) -> tuple[Mapping[str, Any], ...]:
    """Where the user's keys may lead: the outputs and inputs of components.

    Each is named ``component`` and ``component.socket``. The last visit of a component
    counts. Behind these stand the output and the input of the run.
    """
    outputs_and_inputs: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for node in run.components():
        for values_by_place, values in zip(
            outputs_and_inputs, (node.output, node.input), strict=True
        ):
            if isinstance(values, dict):
                values_by_place[node.path] = values
                values_by_place |= {
                    f"{node.path}.{name}": value for name, value in values.items()
                }
    return (*outputs_and_inputs, run.output, run.input)


# What the user asked, by the names of sockets, and what was said before


@dataclass
class _Given:
    """A text that the user gave.

    Attributes:
        text: The text.
        places: Each ``component.socket`` that got it.
        rank: The rank of the best of their names; lower is better.
        before: The texts before it, where it is the last of a list.
        is_one_of_several: Whether nothing tells it from the other texts of a list.
    """

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL)
    before: tuple[str, ...] = ()
    is_one_of_several: bool = False

    @property
    def is_usual(self) -> bool:
        """Whether a socket of a usual name got it."""
        return self.rank < len(_USUAL)


def _question(
    calls: Calls, messages_shown: Sequence[Message], query: str | None
) -> _Given | None:
    """The question in the user's own words; None if it was not found.

    A text that equals the query of the answer goes first. Otherwise texts count whose
    socket has a usual name, or that a model was shown. Of these those go first that the
    answering call was shown.

    Args:
        calls: The calls of the run.
        messages_shown: The prompt of the answering call.
        query: The question that the answer carries; None if it carries none.
    """
    given_texts = _texts(calls)
    for text in given_texts:
        if query and as_one_line(text.text) == as_one_line(query):
            return text
    shown_here = "\n".join(as_one_line(message.text) for message in messages_shown)
    shown_anywhere = "\n".join(
        as_one_line(message.text) for node in calls.models for message in prompt(node)
    )
    likely = [
        text
        for text in given_texts
        if text.is_usual or (_several(text.text) and _within(text.text, shown_anywhere))
    ]

    def likelihood(text: _Given) -> tuple[bool, bool, int, int]:
        is_shown = _within(text.text, shown_here)
        return text.is_usual and is_shown, is_shown, len(text.places), -text.rank

    if not likely:
        return _templated(calls.run, messages_shown)
    likeliest = max(likely, key=likelihood)
    rivals = [
        text
        for text in likely
        if text.is_one_of_several and likelihood(text) == likelihood(likeliest)
    ]
    if likeliest.is_one_of_several:
        likeliest.is_one_of_several = len(rivals) > 1
    return likeliest


def _texts(calls: Calls) -> list[_Given]:
    """Texts that the user gave, each once, with the places where they were given.

    Of messages it is the user's last one, of lists of texts each.
    """
    asked_inside = _lines_asked_inside(calls)
    given_texts: dict[str, _Given] = {}
    for place, name, value in _inputs(calls.run):
        if name in _NEVER:
            continue
        rank = _USUAL.index(name) if name in _USUAL else len(_USUAL)
        for text in _texts_of(value, asked_inside):
            given_text = given_texts.setdefault(as_one_line(text.text), text)
            given_text.places.append(place)
            given_text.rank = min(given_text.rank, rank)
            given_text.is_one_of_several &= text.is_one_of_several
    return list(given_texts.values())


def _texts_of(value: object, asked_inside: Collection[str]) -> list[_Given]:
    """The texts that a socket was given; empty if it was given none.

    Args:
        value: What the socket was given: a text, texts or messages. Of messages the
            question counts.
        asked_inside: What calls of the run were asked or handed on, each text in one
            line.
    """
    if isinstance(value, tuple) and value:
        texts = [text for text in value if isinstance(text, str)]
        if len(texts) == len(value):
            return _texts_of_list(
                [text for text in texts if text.strip()], asked_inside
            )
    if not isinstance(value, (str, Message, tuple)):
        return []
    text = capture.question_in(value) or capture.question_in(tuple(_messages(value)))
    return [_Given(text)] if text is not None and text.strip() else []


def _texts_of_list(texts: Sequence[str], asked_inside: Collection[str]) -> list[_Given]:
    """Those texts of a list that may be the question.

    A conversation may come as a list of texts, of which a component hands on the last
    one as the query. Where several of the texts were asked inside the run, or none,
    nothing tells by itself which is the question.
    """
    lines_asked = {as_one_line(text) for text in texts} & set(asked_inside)
    is_one_asked = len(lines_asked) == 1
    given_texts = []
    for place, text in enumerate(texts):
        if lines_asked and as_one_line(text) not in lines_asked:
            continue
        is_last = place == len(texts) - 1
        given_text = _Given(
            text,
            before=tuple(texts[:place]) if is_last and is_one_asked else (),
            is_one_of_several=len(texts) > 1 and not is_one_asked,
        )
        given_texts.append(given_text)
    return given_texts


def _lines_asked_inside(calls: Calls) -> set[str]:
    """What calls of a run were asked, and texts that components handed on by themselves.

    Each is in one line.
    """
    lines = {as_one_line(call.query) for call in calls.root.walk() if call.query}
    for node in calls.run.components():
        for value in node.sockets.values():
            if isinstance(value, str):
                lines.add(as_one_line(value))
    return lines


def _inputs(run: Run) -> Iterator[tuple[str, str, Any]]:
    """Yield what the user gave: the place, the name of the socket and the value.

    Variables of a template count by themselves as well.
    """
    parts = {"": run.input} if run.root.operation == AGENT else run.input
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                yield from (
                    (f"{place}.{key}", key, field_value)
                    for key, field_value in value.items()
                )


def _several(text: str) -> bool:
    """True for a text of several words on one line, which may be a question.

    A long text without spaces counts where its language may write none.
    """
    line = text.strip()
    return "\n" not in line and (" " in line or (len(line) > 4 and not line.isascii()))


def _within(text: str, longer_text: str) -> bool:
    """True if a text stands in a longer one, as whole words where its language has spaces."""
    edges = (r"(?<!\w)", r"(?!\w)") if as_one_line(text).isascii() else ("", "")
    return (
        re.search(edges[0] + re.escape(as_one_line(text)) + edges[1], longer_text)
        is not None
    )


def _templated(run: Run, messages_shown: Sequence[Message]) -> _Given | None:
    """The user's message as rendered, where the template came with the call.

    It stands for the question. None if no template came, or if documents were rendered.
    """
    places = [
        place for place, name, value in _inputs(run) if name == "template" and value
    ]
    builders = [node for node in run.components() if f"{node.path}.template" in places]
    text = capture.question_in(tuple(messages_shown))
    fits = bool(builders) and not any(
        any(documents_in(node.input)) for node in builders
    )
    return _Given(text, places) if text is not None and fits else None


@dataclass(frozen=True)
class _Earlier:
    """What was said before the question.

    Attributes:
        talk: The turns, with what is uncertain about them.
        is_of_prompt: Whether a component wrote the turns around the question: they may
            be examples then.
    """

    talk: EarlierConversation = field(default_factory=EarlierConversation)
    is_of_prompt: bool = False


def _earlier_talk(calls: Calls, before: int | None, asked: _Given | None) -> _Earlier:
    """Earlier turns of the conversation.

    They are those that a memory brought back before the answer, whether shown or not,
    else those that the user handed in.

    Args:
        calls: The calls of the run.
        before: When the answering call began; None if no call is known.
        asked: What is asked now; None if that is not known.
    """
    question = None if asked is None else asked.text
    handed_in = [
        (_messages(value), False)
        for _, name, value in _inputs(calls.run)
        if name not in _NEVER
    ]
    earlier = _Earlier()
    for messages, is_of_prompt in [
        *handed_in,
        *_messages_of_components(calls, before, question),
    ]:
        turns = _turns_of(messages, question) if messages else ()
        if turns:
            earlier = _Earlier(EarlierConversation(turns), is_of_prompt)
    if earlier.talk.turns:
        return earlier
    return _Earlier(_talk_in_texts(calls.run, asked))


def _turns_of(messages: Sequence[Message], question: str | None) -> tuple[Turn, ...]:
    """The turns of messages, without the question of now at their end.

    A last message of the user that does not hold the question is an earlier one. Where
    the question is not known, the last message of the user is taken for it.
    """
    asked = as_one_line(question)
    is_question_last = False
    if messages and messages[-1].role == "user":
        is_question_last = asked in as_one_line(messages[-1].text)
    if not is_question_last:
        messages = [*messages, Message("user", "now")]
    return capture.history_in(messages)


def _talk_in_texts(run: Run, asked: _Given | None) -> EarlierConversation:
    """Earlier turns that the user handed in as texts.

    They stand under a name that says so, or in one list before the question.
    """
    question = None if asked is None else asked.text
    values = {
        name: value for _, name, value in _inputs(run) if capture.names_a_talk(name)
    }
    talk = capture.talk_in(values, question)
    if talk.turns or talk.texts or asked is None:
        return talk
    return capture.talk_in({"history": asked.before}, question)


def _messages_of_components(
    calls: Calls, answer_began: int | None, question: str | None
) -> list[tuple[list[Message], bool]]:
    """Return the lists of messages that components gave before the answer.

    Such a component is a memory, for example. Prompt builders, models and agents are
    none: their lists are left out. Their messages are also taken out of the lists of
    later components.

    Args:
        calls: The calls of the run.
        answer_began: The tick at which the answering call began; None if no call is
            known. Ticks count up with each beginning and end of a component.
        question: What is asked now; None if that is not known.

    Returns:
        Each list with a flag, in the order in which the components ended. The flag is
        True if the component composed the list as a prompt for the question. Its
        messages may be examples then, and no earlier turns.
    """
    all_documents = _documents_of(calls)
    written: list[Message] = []  # by builders, models and agents so far
    lists_with_flag: list[tuple[list[Message], bool]] = []
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        returned = [_messages(value) for value in node.sockets.values()]
        is_builder = "Builder" in node.type.rpartition(".")[2]
        if is_builder or calls.of[node].kind in ("model", "agent"):
            for messages in returned:
                written += messages
            continue
        has_ended = node.closed > 0  # ``closed`` is 0 while the component runs
        is_before_answer = answer_began is None or node.closed < answer_began
        if not has_ended or not is_before_answer:
            continue
        for messages in returned:
            of_others = _drop_written(messages, written)
            lists_with_flag.append(
                _earlier_messages(calls, node, of_others, question, all_documents)
            )
    return lists_with_flag


def _documents_of(calls: Calls) -> list[Document]:
    """All documents that calls of a run took or returned."""
    documents: list[Document] = []
    for call in calls.root.walk():
        documents += [*call.input_documents, *(call.documents or ())]
    return documents


def _earlier_messages(
    calls: Calls,
    node: Node,
    messages: list[Message],
    question: str | None,
    documents: Sequence[Document],
) -> tuple[list[Message], bool]:
    """What a component returned of earlier turns, perhaps with the question behind it.

    Args:
        calls: The calls of the run.
        node: The visit of the component.
        messages: A list of messages that it returned.
        question: What is asked now; None if that is not known.
        documents: The documents of the run. Messages that only show these are no
            earlier turns.

    Returns:
        The messages, and whether the component composed them as a prompt for the
        question. There are none if the user said nothing in them: words of the
        assistant alone are a step's.
    """
    handed_in = [
        message for value in node.input.values() for message in _messages(value)
    ]
    earlier = capture.messages_up_to_question(messages, question, handed_in)
    earlier = capture.drop_shown_documents(earlier, documents)
    if not any(message.role == "user" for message in earlier):
        return [], False
    *before, last_message = earlier
    is_new = any(message not in handed_in for message in before)
    # a memory passes the question on, and is handed no documents
    is_composed = last_message not in handed_in or bool(calls.of[node].input_documents)
    return earlier, is_new and last_message.role == "user" and is_composed


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
    """The messages of a list, also where they are mappings of a role and its words."""
    if not isinstance(value, tuple):
        return []
    messages = [element for element in value if isinstance(element, Message)]
    if messages or not all(isinstance(element, Mapping) for element in value):
        return messages
    talk = capture.talk_in({"history": value})
    return [Message(turn.role, turn.content) for turn in talk.turns]
