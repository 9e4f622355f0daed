"""Question, history and answer in plain values (texts, messages, documents, mappings, sequences)."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile
from typing import Any

from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.transcripts import Talk, talk_of, turns_of_fields
from ragmetrics_core.capture.tree import Document, Message
from ragmetrics_core.data import Context, Sample, SettingError, Turn, follow_path

Source = str | Callable[[Any], Any]
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
_STATED_ANSWER_KEYS = ("answer", "response")
HISTORY_KEYS = ("chat_history", "history")
_STATED = ("question", "query", "user_input", "user_question")
_WRITTEN = ("generation", "answer", "response", "output_text", "result")
_SIDES = ("user", "assistant")
_DEPTH = 4
# what str() makes of an object
_STREAM = re.compile(r"<[\w.]+ object(?: [\w.<>]+)? at 0x[0-9a-fA-F]+>")


@dataclass(frozen=True)
class Overrides:
    """Where to find a field, instead of the adapter's rules; see ``FrontDoor.capture``.

    None leaves a field to the rules.

    Attributes:
        question_from: Where the question is: a key, a path or a callable.
        contexts_from: Where the contexts are.
        answer_from: Where the answer is.
        context_tools: Names of tools whose text is a context.
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
    # in the caller's own words; no place needs to be looked at
    question: str | None = None

    def __post_init__(self) -> None:
        """Raise ``SettingError`` for a source or names of another type."""
        for name in ("question_from", "contexts_from", "answer_from"):
            source = getattr(self, name)
            if (
                source is not None
                and not isinstance(source, str)
                and not callable(source)
            ):
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
        return any(
            source is not None
            for source in (
                self.question_from,
                self.contexts_from,
                self.answer_from,
                self.build,
            )
        )

    def find(self, field: str, run: Any, *places: Any) -> tuple[bool, Any]:
        """Look a field up as the user said.

        A callable gets the run. Keys and paths lead into the first place that fits.

        Returns:
            Whether something was found, and what. Nothing is found where the user did
            not say where the field is.
        """
        source = getattr(self, f"{field}_from")
        if source is None:
            return False, None
        if callable(source):
            return True, source(run)
        lookups = (
            follow_path(place, path)
            for place in places
            for path in ([source], source.split("."))
        )
        return next((lookup for lookup in lookups if lookup[0]), (False, None))


def as_one_line(text: str | None) -> str:
    """A text with every run of white space as one space: texts are compared so."""
    return " ".join((text or "").split())


def find_instances(value: object, *kinds: type, depth: int = 8) -> Iterator[Any]:
    """Values of some kinds in a value and its mappings and sequences."""
    if isinstance(value, kinds):
        yield value
    elif depth and isinstance(value, (Mapping, list, tuple)):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from find_instances(element, *kinds, depth=depth - 1)


def documents_in(value: object) -> Iterator[Document]:
    """Documents in a value and its mappings and sequences."""
    return find_instances(value, Document, depth=_DEPTH)


def contexts_in(value: object) -> list[Context]:
    """Contexts that the user points at: documents, objects with a text, else all texts.

    Raises:
        RowError: If an object has no text under a usual name: its other fields, such as
            its source, are no contexts.
    """
    documents = [document.context() for document in documents_in(value)]
    if documents:
        return documents
    objects = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(element, Mapping) for element in objects):
        return list(Sample.from_row({"contexts": list(objects)}).contexts)
    return [Context(text=text) for text in texts_in(value)]


def texts_in(value: object) -> Iterator[str]:
    """Texts in a value, those of messages included, of documents not."""
    return (
        element.text if isinstance(element, Message) else element
        for element in find_instances(value, str, Message, depth=_DEPTH)
    )


def is_message(value: object, text: str) -> bool:
    """True if a text stands in a value as a message."""
    return any(
        message.text == text for message in find_instances(value, Message, depth=_DEPTH)
    )


def conversation(value: object) -> tuple[Message, ...] | None:
    """Messages of a sequence, a bare text being the user's.

    None if it holds anything else.
    """
    if not isinstance(value, (list, tuple)) or not value:
        return None
    elements = [
        Message("user", element) if isinstance(element, str) else element
        for element in value
    ]
    messages = tuple(element for element in elements if isinstance(element, Message))
    return messages if len(messages) == len(elements) else None


def question_in(value: object, *, depth: int = _DEPTH) -> str | None:
    """The question in what a run was given; None if there is none.

    It is a text, the last message of the user, a field of a usual name, or the only
    text of a mapping.
    """
    messages = conversation([value] if isinstance(value, (str, Message)) else value)
    if messages is not None:
        return next(
            (
                message.text
                for message in reversed(messages)
                if message.role == "user" and message.text.strip()
            ),
            None,
        )
    if not depth or not isinstance(value, Mapping):
        return None
    if named := next(
        filter(
            None,
            (question_in(value.get(key), depth=depth - 1) for key in QUESTION_KEYS),
        ),
        None,
    ):
        return named
    texts = {
        key: field_value
        for key, field_value in value.items()
        if isinstance(field_value, str) and field_value.strip()
    }
    if len(texts) == 1:
        return next((text for key, text in texts.items() if key not in _WRITTEN), None)
    return (
        question_in(next(iter(value.values())), depth=depth - 1)
        if len(value) == 1 and not texts
        else None
    )


def question_in_state(output: object) -> str | None:
    """The question that a resumed graph keeps in its state.

    Never its messages, which steps rewrite.
    """
    state = output if isinstance(output, Mapping) else {}
    return next(
        (
            text
            for key in _STATED
            if isinstance(text := state.get(key), str) and text.strip()
        ),
        None,
    )


def has_written(value: object) -> bool:
    """True for inputs that hold an answer already: they are given to a grader."""
    return isinstance(value, Mapping) and any(
        isinstance(value.get(key), (str, Message)) for key in _WRITTEN
    )


def history_in(
    value: object, question: str | None = None, *, needs_question: bool = False
) -> tuple[Turn, ...]:
    """Earlier turns of a conversation, by ``talk_in``."""
    return talk_in(value, question, needs_question=needs_question).turns


def talk_in(
    value: object,
    question: str | None = None,
    *,
    depth: int = 3,
    needs_question: bool = False,
) -> Talk:
    """Earlier turns of a conversation.

    They stand before the question, else before the user's last message.

    Args:
        value: Messages, pairs of texts, or a mapping that holds some under a usual name.
        question: What is asked now.
        depth: How many mappings deep is looked.
        needs_question: There is none where the question does not stand among the
            messages: a run that took it out of its state writes others there.
    """
    messages = conversation(value)
    # a list of texts alone may be one of queries
    if messages is not None and any(find_instances(value, Message)):
        user_places = [
            place for place, message in enumerate(messages) if message.role == "user"
        ]
        same = [
            place
            for place in user_places
            if as_one_line(messages[place].text) == as_one_line(question)
        ]
        before = same if needs_question else same or user_places
        return Talk(spoken(messages[: max(before, default=0)]))
    if not depth or not isinstance(value, Mapping):
        return Talk()
    for key in HISTORY_KEYS:
        talk = _talk_of_history(value.get(key))
        if talk.turns:
            return talk
    for key in ("input", "messages", *(value if len(value) == 1 else ())):
        talk = talk_in(
            value.get(key), question, depth=depth - 1, needs_question=needs_question
        )
        if talk.turns:
            return talk
    return Talk()


def _talk_of_history(value: object) -> Talk:
    """The turns of what an application names its history: messages, texts or pairs of texts."""
    listed = value if isinstance(value, (list, tuple)) else ()
    if listed and all(isinstance(element, str) for element in listed):
        return talk_of(listed)
    if listed and all(isinstance(element, Mapping) for element in listed):
        each_pair = map(turns_of_fields, listed)
        return Talk(tuple(turn for pair in each_pair for turn in pair))
    return Talk(spoken(conversation(value) or ()) or _pairs(value))


def _pairs(value: object) -> tuple[Turn, ...]:
    """Turns of pairs of texts: what the user said, and what the assistant said."""
    pairs = value if isinstance(value, (list, tuple)) else ()
    if not all(
        isinstance(pair, (list, tuple)) and list(map(type, pair)) == [str, str]
        for pair in pairs
    ):
        return ()
    return tuple(
        Turn(role=role, content=text)
        for pair in pairs
        for role, text in zip(_SIDES, pair, strict=True)
    )


def spoken(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """What user and assistant said; no tool calls and no instructions."""
    spoken_messages = (
        message
        for message in messages
        if message.role in _SIDES and message.text.strip()
    )
    return tuple(
        Turn(role=message.role, content=message.text) for message in spoken_messages
    )


def drop_shown_documents(
    messages: Sequence[Message], documents: Iterable[Document]
) -> list[Message]:
    """Leave out messages in the user's name that show what was found.

    An application shows documents in a message of their own, beside that of the
    question. Where the assistant answered such a message, it is an earlier turn that
    was kept with its documents, and stays.

    Args:
        messages: Messages of a conversation, oldest first.
        documents: What this run found.
    """
    spoken_messages = [message for message in messages if message.role in _SIDES]
    answered = {
        id(message)
        for message, reply in pairwise(spoken_messages)
        if reply.role == "assistant" and reply.text.strip()
    }
    texts = [stream(document.text) for document in documents]
    kept_messages: list[Message] = []
    for message in messages:
        host = stream(message.text)
        is_open = message.role == "user" and id(message) not in answered
        if not (is_open and any(share_a_passage(text, host) for text in texts)):
            kept_messages.append(message)
    return kept_messages


def answer_in(output: object) -> tuple[str | None, str]:
    """The answer in what a run returned, and the key it was found at.

    None and an empty text if there is none.
    """
    if not isinstance(output, Mapping):
        return answer_text(output), ""
    answers_and_keys = (
        (answer_text(output.get(key)), key)
        for key in ("structured_response", *ANSWER_KEYS, "messages")
    )
    return next(
        (
            answer_and_key
            for answer_and_key in answers_and_keys
            if answer_and_key[0] is not None
        ),
        (None, ""),
    )


def answer_text(value: object) -> str | None:
    """The answer in one value; None if it holds none.

    It is a text, a message, or the last of several messages. Of a structure it is a
    field for the answer, else all of it as JSON; documents are no answer.
    """
    if isinstance(value, str):
        return value if value.strip() and not _STREAM.fullmatch(value.strip()) else None
    if isinstance(value, Message):
        if value.role not in ("assistant", "other", "tool"):
            return None
        return (
            value.text
            if value.text.strip()
            else answer_text(value.calls[-1].arguments)
            if value.calls
            else None
        )
    if isinstance(value, (list, tuple)):
        return last_answer(
            ()
            if any(isinstance(element, str) for element in value)
            else conversation(value) or ()
        )
    if not isinstance(value, Mapping):
        return None
    named_answer = answer_in(value)[0]
    if named_answer is not None:
        return named_answer
    if not value or any(documents_in(value)):
        return None
    return compact(value)


def has_no_answer(value: object) -> bool:
    """Whether a structure leaves its field for the answer empty.

    Nothing was found then that answers.

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
    stated = [value[key] for key in _STATED_ANSWER_KEYS if key in value]
    return bool(stated) and all(
        text is None or (isinstance(text, str) and not text.strip()) for text in stated
    )


def last_answer(messages: tuple[Message, ...]) -> str | None:
    """The last message of the assistant after the user's last that calls no tool.

    Else a direct result of a tool.
    """
    # the latest first
    after = list(takewhile(lambda message: message.role != "user", reversed(messages)))
    spoken = (
        message
        for message in after
        if message.role == "assistant" and not message.calls
    )
    direct = (message for message in after[:1] if message.role == "tool")
    return next(
        (message.text for message in chain(spoken, direct) if message.text.strip()),
        None,
    )


def compact(value: object) -> str:
    """A structured value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, Message):
        return value.text
    return dict(value) if isinstance(value, Mapping) else str(value)


def parse_json(text: str) -> object:
    """What a text that is JSON, perhaps fenced, stands for; None for any other text."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.strip("`").partition("\n")[2]
    if stripped[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(stripped)
    return None
