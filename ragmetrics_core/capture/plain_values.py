"""Finds question, history and answer in what a run was given and returned. Pure.

These are **plain values**: texts, messages, documents, mappings and sequences of them.
In ``{"question": "And when?", "chat_history": ["Open?", "Yes."]}`` the question stands
under a usual name, and the history is two texts whose speakers are not named.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.shown import shows, shows_some
from ragmetrics_core.capture.transcripts import (
    EarlierConversation,
    turns_of_fields,
)
from ragmetrics_core.capture.tree import Document, Message
from ragmetrics_core.data import Context, Sample, SettingError, Turn, follow_path
from ragmetrics_core.data.lazy_patterns import lazy_pattern

Source = str | Callable[[Any], Any]
_Kind = TypeVar("_Kind")
QUESTION_KEYS = (
    "question",
    "query",
    "input",
    "user_input",
    "user_question",
    "prompt",
    "messages",
)
ANSWER_KEYS = (
    "answer",
    "result",
    "output_text",
    "output",
    "response",
    "generation",
    "text",
    "content",
)
# those of a structure that can hold nothing but its answer
_ANSWER_ALONE_KEYS = ("answer", "response")
HISTORY_KEYS = ("chat_history", "history", "conversation_history")
# other names under which an application hands in what was said, or what it remembers
_HISTORY_LIKE_NAME = lazy_pattern(
    "histor|memor|conversation|dialog|transcript", re.IGNORECASE
)
# those under which a graph's state keeps the question itself
_STATE_QUESTION_KEYS = ("question", "query", "user_input", "user_question")
# those under which inputs hold an answer that was given before
_GIVEN_ANSWER_KEYS = ("generation", "answer", "response", "output_text", "result")
_SPEAKERS = ("user", "assistant")  # of a conversation, in the order of a pair
# what an application writes around the user's words is at least so long
_FEWEST_LETTERS_AROUND = 24
_DEPTH = 4  # mappings and sequences inside of each other that are looked into
# what str() makes of an object, such as a stream that was not read
_OBJECT_AS_TEXT = lazy_pattern(r"<[\w.]+ object(?: [\w.<>]+)? at 0x[0-9a-fA-F]+>")
_UNDIVIDED_HISTORY = (
    "an earlier talk was handed in under {} as text that does not say who speaks: no"
    " history was read from it"
)


@dataclass(frozen=True)
class Overrides:
    """Where to find a field, instead of the adapter's rules; see ``FrontDoor.capture``.

    None leaves a field to the rules.

    Attributes:
        question_from: Where the question is: a key, a path or a callable.
        contexts_from: Where the contexts are.
        answer_from: Where the answer is.
        context_tools: Names of tools whose text is a context; an empty set if there are
            none, None if the user says nothing.
        build: Makes the samples of a run in place of the rules.
        question: The question itself, in the caller's own words.

    Raises:
        SettingError: If a source is neither a text nor callable, or names are given as
            one text.
    """

    question_from: Source | None = None
    contexts_from: Source | None = None
    answer_from: Source | None = None
    context_tools: Collection[str] | None = None
    build: Callable[[Any], Iterable[Sample]] | None = None
    question: str | None = None

    def __post_init__(self) -> None:
        """Raise ``SettingError`` for a source or names of another type."""
        for name in ("question_from", "contexts_from", "answer_from"):
            source = getattr(self, name)
            is_path = source is None or isinstance(source, str)
            if not is_path and not callable(source):
                raise SettingError(
                    f"{name} must be a key, a path or a callable, got"
                    f" {type(source).__name__}"
                )
        if isinstance(self.context_tools, str):
            raise SettingError(
                "context_tools must be a set of names, got one text; write"
                f" {{{self.context_tools!r}}}"
            )

    @property
    def needs_data(self) -> bool:
        """Whether a run's inputs and outputs are needed whole.

        Keys, paths and callables of the user may ask for anything in them.
        """
        sources = (
            self.question_from,
            self.contexts_from,
            self.answer_from,
            self.build,
        )
        return any(source is not None for source in sources)

    def find(self, field: str, run: Any, *mappings: Any) -> tuple[bool, Any]:
        """Look a field up as the user said.

        Args:
            field: "question", "contexts" or "answer".
            run: The framework's own run, which a callable of the user gets.
            mappings: What the run was given and returned. A key or path of the user is
                looked up in each; the first hit counts.

        Returns:
            Whether something was found, and what. Nothing is found where the user did
            not say where the field is.
        """
        source = getattr(self, f"{field}_from")
        if source is None:
            return False, None
        if callable(source):
            return True, source(run)
        # a key may itself hold dots
        paths = ([source], source.split("."))
        for mapping in mappings:
            for path in paths:
                is_found, value = follow_path(mapping, path)
                if is_found:
                    return True, value
        return False, None


def as_one_line(text: str | None) -> str:
    """Return a text with each run of white space as one space: texts are compared so."""
    return " ".join((text or "").split())


def find_instances(
    value: object, *kinds: type[_Kind], depth: int = 8
) -> Iterator[_Kind]:
    """Yield the objects of some types in a value and in its mappings and sequences.

    Args:
        value: The value.
        kinds: The types.
        depth: How many mappings and sequences inside of each other are looked into.
    """
    if isinstance(value, kinds):
        yield value
    elif depth and isinstance(value, (Mapping, list, tuple)):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from find_instances(element, *kinds, depth=depth - 1)


def documents_in(value: object) -> Iterator[Document]:
    """Yield the documents in a value and in its mappings and sequences."""
    return find_instances(value, Document, depth=_DEPTH)


def contexts_in(value: object) -> list[Context]:
    """Return the contexts that a user points at: documents, objects with a text, else texts.

    Example: ``[{"text": "It fell.", "id": "b"}]`` gives a context with the id "b".

    Raises:
        RowError: If an object has no text under a usual name: its other fields, such as
            its source, are no contexts.
    """
    documents = [document.context() for document in documents_in(value)]
    if documents:
        return documents
    objects = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(element, Mapping) for element in objects):
        return list(Sample.from_row({"contexts": list(objects)}).known_contexts)
    return [Context(text=text) for text in texts_in(value)]


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a value, also texts of messages, but not of documents."""
    for element in find_instances(value, str, Message, depth=_DEPTH):
        yield element.text if isinstance(element, Message) else str(element)


def is_message(value: object, text: str) -> bool:
    """Return whether a value holds a message with a text."""
    messages = find_instances(value, Message, depth=_DEPTH)
    return any(message.text == text for message in messages)


def conversation(value: object) -> tuple[Message, ...] | None:
    """Return the messages of a list; a bare text counts as the user's message.

    Example: ``["Open?", Message("assistant", "Yes.")]`` gives a message of the user and
    the assistant's. None if the value is no list, is empty, or holds anything else.
    """
    if not isinstance(value, (list, tuple)) or not value:
        return None
    messages = []
    for element in value:
        if isinstance(element, str):
            messages.append(Message("user", element))
        elif isinstance(element, Message):
            messages.append(element)
        else:
            return None
    return tuple(messages)


def question_in(value: object, *, depth: int = _DEPTH) -> str | None:
    """Find the question in what a run of the application was given; None without one.

    Examples: the text "When did it open?"; the last message of the user in a list of
    messages; the value of "question" in ``{"question": "When did it open?", "k": 3}``.

    Args:
        value: The input of the run.
        depth: How many mappings inside of each other may be looked into.
    """
    is_one_message = isinstance(value, (str, Message))
    messages = conversation([value] if is_one_message else value)
    if messages is not None:
        return last_words_of_user(messages)
    if depth == 0 or not isinstance(value, Mapping):
        return None
    # a key such as "question" or "query"
    for key in QUESTION_KEYS:
        question = question_in(value.get(key), depth=depth - 1)
        if question:
            return question
    text_by_key: dict[object, str] = {}
    for key, text in value.items():
        if isinstance(text, str) and text.strip():
            text_by_key[key] = text
    # {"topic": "bridges", "k": 3}: its only text; of several texts none is surely asked
    if text_by_key:
        return _only_text_unless_answer(text_by_key)
    # {"payload": {"question": "When did it open?"}}
    if len(value) == 1:
        (only_value,) = value.values()
        return question_in(only_value, depth=depth - 1)
    return None


def _only_text_unless_answer(text_by_key: Mapping[object, str]) -> str | None:
    """Return the only text of a mapping; None if there are several.

    None also for an answer that was given before, such as to a step that grades it.
    """
    if len(text_by_key) > 1:
        return None
    ((key, text),) = text_by_key.items()
    return None if key in _GIVEN_ANSWER_KEYS else text


def last_words_of_user(messages: Sequence[Message]) -> str | None:
    """Return the last message of the user that is not blank; None without one."""
    for message in reversed(messages):
        if message.role == "user" and message.text.strip():
            return message.text
    return None


def question_in_state(output: object) -> str | None:
    """Return the question that a resumed graph keeps in its state; None without one.

    The messages of the state do not count: steps of the graph rewrite them.
    """
    if not isinstance(output, Mapping):
        return None
    for key in _STATE_QUESTION_KEYS:
        text = output.get(key)
        if isinstance(text, str) and text.strip():
            return text
    return None


def has_written(value: object) -> bool:
    """Return whether inputs hold an answer already, as the inputs of a grader do."""
    if not isinstance(value, Mapping):
        return False
    answers = [value.get(key) for key in _GIVEN_ANSWER_KEYS]
    return any(isinstance(answer, (str, Message)) for answer in answers)


def history_in(value: object, question: str | None = None) -> tuple[Turn, ...]:
    """Find the earlier turns of a conversation; see ``find_conversation``."""
    return find_conversation(value, question).turns


def find_conversation(
    value: object,
    question: str | None = None,
    *,
    depth: int = 3,
    only_before_question: bool = False,
) -> EarlierConversation:
    """Find the earlier turns of a conversation in what a run was given.

    ``{"input": "When?", "chat_history": [("Open?", "Yes.")]}`` has two earlier turns:
    the user's "Open?" and the assistant's "Yes.". So has a list of three messages,
    "Open?", "Yes." and "When?".

    Args:
        value: A list of messages, or a mapping that may hold a history or messages.
        question: What is asked now; None if it is not known.
        depth: How many levels of nested mappings are searched.
        only_before_question: Whether messages are earlier turns only if a later message
            is the question. If not, any messages before the user's last one are.

    Returns:
        The turns; else texts that do not say who speaks, such as a memory's note "They
        spoke about the bridge."; else an empty conversation.
    """
    messages = conversation(value)
    # ["When did it open?", "Who built it?"] may be a list of queries
    if messages is not None and any(find_instances(value, Message)):
        n_earlier = _messages_before_question(
            messages, question, only_before_question=only_before_question
        )
        return EarlierConversation(spoken(messages[:n_earlier]))
    if depth == 0 or not isinstance(value, Mapping):
        return EarlierConversation()
    return (
        _conversation_in_history_fields(value, question)
        or _conversation_in_inner_parts(value, question, depth, only_before_question)
        or _texts_without_speakers(value, question)
    )


def _conversation_in_history_fields(
    inputs: Mapping[Any, Any], question: str | None
) -> EarlierConversation | None:
    """Read the first field such as "chat_history" that has turns; None without one."""
    for key in HISTORY_KEYS:
        earlier = _history_before_question(inputs.get(key), question)
        if earlier.turns:
            return earlier
    return None


def _conversation_in_inner_parts(
    inputs: Mapping[Any, Any],
    question: str | None,
    depth: int,
    only_before_question: bool,
) -> EarlierConversation | None:
    """Find a conversation in a field that may hold messages; None without one."""
    for part in _parts_that_may_hold_messages(inputs):
        earlier = find_conversation(
            part,
            question,
            depth=depth - 1,
            only_before_question=only_before_question,
        )
        if earlier.turns or earlier.texts:
            return earlier
    return None


def _parts_that_may_hold_messages(inputs: Mapping[Any, Any]) -> list[object]:
    """Return the input and the messages of a mapping, and its only value."""
    parts = [inputs.get("input"), inputs.get("messages")]
    if len(inputs) == 1:
        parts.extend(inputs.values())
    return parts


def _history_before_question(
    value: object, question: str | None
) -> EarlierConversation:
    """Read the turns of a value that stands under a name such as "chat_history".

    If its last turn is the current question, that turn is dropped.
    """
    earlier = _read_history(value)
    if not earlier.turns:
        return earlier
    last_turn = earlier.turns[-1]
    is_question = as_one_line(last_turn.content) == as_one_line(question)
    if last_turn.role == "user" and is_question:
        return replace(earlier, turns=earlier.turns[:-1])
    return earlier


def _read_history(value: object) -> EarlierConversation:
    """Read a chat history in any of its usual forms; no turns for another value.

    Texts do not surely tell who speaks, be it "User: Open? Assistant: Yes.".
    """
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(element, str) for element in value):  # who speaks is not told
            return EarlierConversation()
        # [{"role": "user", "content": "Open?"}]
        if all(isinstance(element, Mapping) for element in value):
            turns: list[Turn] = []
            for fields in value:
                turns += turns_of_fields(fields)
            return EarlierConversation(tuple(turns))
    messages = conversation(value)
    if messages is not None:  # [Message("user", "Open?"), "Yes."]
        # "Yes." was a mere text in ``value``: after a user's message it is the answer
        messages_with_answers = _with_texts_as_answers(messages, value)
        # what user and assistant said, without messages of tools or the system
        return EarlierConversation(spoken(messages_with_answers))
    return EarlierConversation(_turns_of_pairs(value))  # [("Open?", "Yes.")]


def _with_texts_as_answers(
    messages: Sequence[Message], history: object
) -> list[Message]:
    """Return the messages of a history; a text right after a user's message answers it.

    Some applications append to their history the message that they sent, and then the
    mere text of the reply: ``[Message("user", "Open?"), "Yes."]``.

    Args:
        messages: The messages of ``history``; bare texts count as the user's there.
        history: What the application kept, one element for each message.
    """
    elements = history if isinstance(history, (list, tuple)) else ()
    messages_with_answers: list[Message] = []
    for message, element in zip(messages, elements, strict=False):
        last_role = messages_with_answers[-1].role if messages_with_answers else ""
        if isinstance(element, str) and last_role == "user":
            message = replace(message, role="assistant")
        messages_with_answers.append(message)
    return messages_with_answers


def names_a_history(key: object) -> bool:
    """Return whether a name, such as "memory_notes", says that its value is a history."""
    return isinstance(key, str) and _HISTORY_LIKE_NAME.search(key) is not None


def _texts_without_speakers(
    value: Mapping[Any, Any], question: str | None
) -> EarlierConversation:
    """Collect the texts of an earlier conversation that do not say who speaks.

    ``{"memory_notes": ["Likes ferries."]}`` gives this text, no turns, and a doubt that
    names "memory_notes". Fields with other names are passed over.
    """
    field_names: list[str] = []
    texts: list[str] = []
    for key, notes in value.items():
        if not names_a_history(key):
            continue
        # the question that is asked now is no part of the earlier conversation
        texts_of_field = _sentences_besides_question(notes, question)
        if texts_of_field:
            field_names.append(key)
            texts += texts_of_field
    if not texts:
        return EarlierConversation()
    doubt = _UNDIVIDED_HISTORY.format(", ".join(field_names))
    return EarlierConversation(turns=(), doubts=(doubt,), texts=tuple(texts))


def _sentences_besides_question(notes: object, question: str | None) -> list[str]:
    """Return the texts of notes without the question and texts of one word, such as ids."""
    sentences: list[str] = []
    for text in _texts_alone(notes):
        is_one_word = " " not in text.strip()
        is_question = as_one_line(text) == as_one_line(question)
        if not is_one_word and not is_question:
            sentences.append(text)
    return sentences


def _texts_alone(value: object) -> list[str]:
    """Return a text, or the texts of a list of nothing else; empty for other values."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        return []
    if not all(isinstance(text, str) for text in texts):
        return []
    return list(texts)


def _messages_before_question(
    messages: Sequence[Message], question: str | None, *, only_before_question: bool
) -> int:
    """Count the messages before the question, else before the user's last message.

    Example: user "Open?", assistant "Yes.", user "And when?": 2 for "And when?".

    Args:
        messages: The messages.
        question: What is asked now; None if it is not known. Of several messages that
            ask it, the last one counts.
        only_before_question: Whether the count is 0 if no message asks the question.
    """
    n_before_question: int | None = None
    n_before_last_of_user = 0
    for n_before, message in enumerate(messages):
        if message.role != "user":
            continue
        n_before_last_of_user = n_before
        if as_one_line(message.text) == as_one_line(question):
            n_before_question = n_before
    if n_before_question is not None:
        return n_before_question
    return 0 if only_before_question else n_before_last_of_user


def _turns_of_pairs(value: object) -> tuple[Turn, ...]:
    """Read a chat history of pairs, such as ``[("Open?", "Yes.")]``, as turns.

    Each pair gives two turns: the user's "Open?" and the assistant's "Yes.". Empty if
    the value is no list, or if an element is no pair of texts.
    """
    if not isinstance(value, (list, tuple)):
        return ()
    turns = []
    for pair in value:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == len(_SPEAKERS)
        if not is_pair or not all(type(text) is str for text in pair):
            return ()  # another structure, such as a list of messages
        for role, text in zip(_SPEAKERS, pair, strict=True):
            turns.append(Turn(role=role, content=text))
    return tuple(turns)


def spoken(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """Return the messages of user and assistant as turns, without blank messages.

    Of the user's "Open?" and, right after it, the user's "Answer from these documents:
    … Question: Open?" only the first is a turn: the other is the prompt made of it.
    """
    turns: list[Turn] = []
    for message in messages:
        if message.role not in _SPEAKERS or not message.text.strip():
            continue
        words_of_user_just_before = ""  # "" if the last turn is not the user's
        if turns and turns[-1].role == message.role == "user":
            words_of_user_just_before = turns[-1].content
        if not _is_prompt_around(words_of_user_just_before, message.text):
            turns.append(Turn(role=message.role, content=message.text))
    return tuple(turns)


def _is_prompt_around(words_of_user: str, text: str) -> bool:
    """Return whether a text is a longer prompt in which the user's words stand apart.

    They are a line of it, or stand after a label such as "Question:".
    """
    words = words_of_user.strip()
    n_characters_around = len(as_one_line(text)) - len(as_one_line(words))
    if not words or n_characters_around < _FEWEST_LETTERS_AROUND:
        return False
    return shows([text], words)


def drop_shown_documents(
    messages: Sequence[Message], documents: Iterable[Document]
) -> list[Message]:
    """Leave out the user's messages that show documents instead of asking something.

    Example: "Context: Porto lies on the Douro, in …" where this run found that passage.
    It stays if the assistant's message right after it answers it.

    Args:
        messages: Messages of a conversation, oldest first.
        documents: The documents that this run found.
    """
    ids_of_answered = _ids_of_answered(messages)  # id() of each answered message
    unanswered = [
        message
        for message in messages
        if message.role == "user" and id(message) not in ids_of_answered
    ]
    if not unanswered:
        return list(messages)
    # each text once, though a search and a reranker return the same documents
    texts = dict.fromkeys(document.text for document in documents)
    normalized_documents = [letters_of(text) for text in texts]
    ids_of_shown_documents: set[int] = set()  # id() of each message that shows some
    for message in unanswered:
        normalized = letters_of(message.text)
        if any(shows_some(normalized, each) for each in normalized_documents):
            ids_of_shown_documents.add(id(message))
    return [
        message for message in messages if id(message) not in ids_of_shown_documents
    ]


def _ids_of_answered(messages: Sequence[Message]) -> set[int]:
    """Return the identities of the messages right before a text of the assistant."""
    spoken_messages = [message for message in messages if message.role in _SPEAKERS]
    ids_of_answered = set()
    for message, next_message in pairwise(spoken_messages):
        if next_message.role == "assistant" and next_message.text.strip():
            ids_of_answered.add(id(message))
    return ids_of_answered


def answer_in(output: object) -> tuple[str | None, str]:
    """Find the answer in what a run returned, and the key under which it stands.

    Returns:
        The answer, None if there is none; and the key, empty if the answer is the value
        itself or if there is none.
    """
    if not isinstance(output, Mapping):
        return answer_text(output), ""
    for key in ("structured_response", *ANSWER_KEYS, "messages"):
        answer = answer_text(output.get(key))
        if answer is not None:
            return answer, key
    return None, ""


def answer_text(value: object) -> str | None:
    """Return the answer in a value that a run returned; None if it holds none.

    A text is the answer itself, and a list of messages holds it in the last reply.
    ``{"answer": "At ten."}`` gives "At ten.". A mapping without such a field is itself
    the answer, written as text: ``{"sql": "SELECT 1"}``.
    """
    if isinstance(value, str):
        # "<Stream object at 0x7f2a>" is no answer
        is_name_of_object = _OBJECT_AS_TEXT.fullmatch(value.strip()) is not None
        return None if is_name_of_object or not value.strip() else value
    if isinstance(value, Message):
        return _answer_of_message(value)
    if isinstance(value, (list, tuple)):
        # a list of bare texts, such as queries, is no conversation
        if any(isinstance(element, str) for element in value):
            return None
        messages = conversation(value) or ()
        return last_answer(messages)
    if isinstance(value, Mapping):
        return _answer_of_mapping(value)
    return None


def _answer_of_mapping(output: Mapping[Any, Any]) -> str | None:
    """Return the field for an answer, else the mapping as JSON unless it holds documents."""
    answer, _ = answer_in(_fields_of_element(output))
    if answer is not None:
        return answer
    if not output or any(documents_in(output)):
        return None
    return compact(output)


def _fields_of_element(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the fields of an XML element that a parser made a mapping of.

    Example: ``<reply><answer>At ten.</answer><ids/></reply>`` is ``{"reply":
    [{"answer": "At ten."}, {"ids": None}]}`` in LangChain. Its fields are ``{"answer":
    "At ten.", "ids": None}``. Any other mapping is returned as it is, also one with a
    list of a single field, ``{"facts": [{"text": "It fell."}]}``.
    """
    if len(value) != 1:
        return value
    (inner_elements,) = value.values()
    if not isinstance(inner_elements, (list, tuple)):
        return value
    fields: dict[Any, Any] = {}
    for element in inner_elements:
        if not isinstance(element, Mapping) or len(element) != 1:
            return value
        if not fields.keys().isdisjoint(element):
            return value  # a list of equal things, and no element with fields
        fields.update(element)
    return fields if len(fields) > 1 else value


def _answer_of_message(message: Message) -> str | None:
    """Return the answer in a message; None if there is none.

    A message of the user or the system answers nothing. A blank message that calls a
    tool may answer in the tool's arguments.
    """
    if message.role not in ("assistant", "other", "tool"):
        return None
    if message.text.strip():
        return message.text
    if not message.tool_calls:
        return None
    return answer_text(message.tool_calls[-1].arguments)


def has_no_answer(value: object) -> bool:
    """Return whether a structured reply leaves all its fields for an answer empty.

    The model found no answer then.

    Examples:
        >>> has_no_answer({"answer": None, "citations": []})
        True
        >>> has_no_answer({"answer": None, "response": "At ten."})
        False
        >>> has_no_answer({"sql": "SELECT 1"})
        False
    """
    if not isinstance(value, Mapping):
        return False
    answers = [value[key] for key in _ANSWER_ALONE_KEYS if key in value]
    if not answers:
        return False
    return all(_is_blank(answer) for answer in answers)


def _is_blank(answer: object) -> bool:
    """Return whether a field is None or a blank text."""
    if answer is None:
        return True
    return isinstance(answer, str) and not answer.strip()


def last_answer(messages: tuple[Message, ...]) -> str | None:
    """Return the text of the last message that answers; None without one.

    It is the assistant's last message after the user's last that calls no tool and is
    not blank: "Yes." of user "Open?", assistant "Yes.". Without one it is the result of
    a tool, if that is the last message.
    """
    for message in reversed(messages):
        if message.role == "user":
            break
        is_reply = message.role == "assistant" and not message.tool_calls
        if is_reply and message.text.strip():
            return message.text
    if not messages:
        return None
    last_message = messages[-1]
    if last_message.role == "tool" and last_message.text.strip():
        return last_message.text
    return None


def compact(value: object) -> str:
    """Return a structured value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    """Return a value of another type as a value that JSON can hold."""
    if isinstance(value, Message):
        return value.text
    return dict(value) if isinstance(value, Mapping) else str(value)


def parse_json(text: str) -> object:
    """Return the value of a text that is JSON, perhaps in a fence; None for other texts."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.strip("`").partition("\n")[2]
    if stripped[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(stripped)
    return None
