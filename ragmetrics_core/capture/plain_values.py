"""Finds question, history, answer and documents in what was given and returned. Pure.

These are **plain values**: texts, messages, documents, mappings and sequences of them.
In ``{"question": "And when?", "chat_history": ["Open?", "Yes."]}`` the question stands
under a usual name, and the history is two texts whose speakers are not named. A run,
and each step of it, is given and returns such values: ``{"documents": [A, B]}``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragmetrics_core.capture.structures import (
    ANSWER_KEYS,
    ANSWER_NAMES,
    compact,
    find_instances,
)
from ragmetrics_core.capture.tree import (
    Answer,
    Document,
    DocumentKey,
    Message,
    Node,
    last_words_of_user,
)
from ragmetrics_core.data import (
    USUAL_NAMES,
    RowError,
    Sample,
    SettingError,
    follow_path,
)

FieldPlace = str | Callable[[Any], Any]
"""Where the user says that a field stands: a key, a path, or a callable."""

_PLACES = ("question_from", "contexts_from", "answer_from")  # that the user names
QUESTION_KEYS = (
    "question",
    "query",
    "query_str",
    "input",
    "user_input",
    "user_question",
    "prompt",
    "messages",
)
# those under which inputs hold an answer that was given before
_GIVEN_ANSWER_KEYS = (*ANSWER_NAMES, "output_text", "result")
_REFERENCE_KEYS = ("reference", *USUAL_NAMES["reference"], *ANSWER_KEYS)
_DEPTH = 4  # mappings inside of each other in which a question is looked for
# names under which an application hands in what was said, or what it remembers
_HISTORY_LIKE_NAME = re.compile(
    r"histor|memor|conversation|dialog|transcript|messages\Z", re.IGNORECASE
)
_INDEX = re.compile(r"\[(-?\d+)\]")  # in a path: "messages[-1].text"
# who speaks, as roles and in transcripts
ASSISTANTS = frozenset(
    ["a", "agent", "ai", "aimessage", "assistant", "bot", "chatbot", "gpt", "model"]
)
USERS = frozenset(["customer", "human", "humanmessage", "q", "user", "you"])
# what str() makes of an object, such as a stream that was not read
_OBJECT_AS_TEXT = re.compile(r"<[\w.]+ object(?: [\w.<>]+)? at 0x[0-9a-fA-F]+>")


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
        question: The question itself, in the caller's own words.
        keep_prompts: Whether a sample keeps the prompt that its answer was written from.

    Raises:
        SettingError: If a place is neither a text nor callable, or names are given as
            one text.
    """

    question_from: FieldPlace | None = None
    contexts_from: FieldPlace | None = None
    answer_from: FieldPlace | None = None
    context_tools: Collection[str] | None = None
    question: str | None = None
    keep_prompts: bool = False

    def __post_init__(self) -> None:
        """Raise ``SettingError`` for a place or names of another type."""
        for name in _PLACES:
            place = getattr(self, name)
            is_path = place is None or isinstance(place, str)
            if not is_path and not callable(place):
                raise SettingError(
                    f"{name} must be a key, a path or a callable, got"
                    f" {type(place).__name__}"
                )
        if isinstance(self.context_tools, str):
            raise SettingError(
                "context_tools must be a set of names, got one text; write"
                f" {{{self.context_tools!r}}}"
            )

    @property
    def places(self) -> tuple[str, ...]:
        """The places that the user names, as messages name them: "answer_from='body'"."""
        places = [(name, getattr(self, name)) for name in _PLACES]
        return tuple(f"{name}={name_of(each)}" for name, each in places if each)

    @property
    def names_looked_up(self) -> frozenset[str]:
        """What the user's paths may begin with: of "write.draft" "write", and all of it."""
        paths = [getattr(self, name) for name in _PLACES]
        steps = [
            _INDEX.sub(r".\1", path).split(".")
            for path in paths
            if isinstance(path, str)
        ]
        return frozenset(
            ".".join(each[:length])
            for each in steps
            for length in range(1, len(each) + 1)
        )

    def find(self, field: str, runs: Iterable[Any], *mappings: Any) -> tuple[bool, Any]:
        """Look a field up as the user said.

        Args:
            field: "question", "contexts" or "answer".
            runs: The framework's own runs, which a callable of the user gets one after
                the other; the first hit counts.
            mappings: What the run was given and returned. A key or path of the user is
                looked up in each; the first hit counts.

        Returns:
            Whether something was found, and what. Nothing is found where the user did
            not say where the field is, or where a callable returned None for each run.

        Raises:
            SettingError: If a callable of the user raises. Its words are left out, since
                they may hold texts of the application.
        """
        place = getattr(self, f"{field}_from")
        if place is None:
            return False, None
        if isinstance(place, str):
            # a key may itself hold dots
            paths = ([place], _INDEX.sub(r".\1", place).split("."))
            for mapping in mappings:
                for path in paths:
                    is_found, value = _follow(mapping, path)
                    if is_found:
                        return True, value
            return False, None
        for run in runs:
            try:
                value = place(run)
            except Exception as error:
                raise SettingError(
                    f"{field}_from={name_of(place)} raised {type(error).__name__}; it"
                    f" was given the run, a {type(run).__name__}"
                ) from error
            if value is not None:
                return True, value
        return False, None


def _follow(mapping: object, path: Sequence[str]) -> tuple[bool, Any]:
    """Follow a path, whose last step may name what a message or document has: its text."""
    is_found, value = follow_path(mapping, path)
    if is_found or len(path) == 1:
        return is_found, value
    _, holder = follow_path(mapping, path[:-1])
    is_copy = isinstance(holder, (Message, Document))
    if is_copy and hasattr(holder, path[-1]):
        return True, getattr(holder, path[-1])
    return False, None


def name_of(place: FieldPlace) -> str:
    """Return how a message names a place of the user: a path in quotes, a callable by name."""
    if isinstance(place, str):
        return repr(place)
    return getattr(place, "__name__", type(place).__name__)


def documents_in(value: object) -> Iterator[Document]:
    """Yield the documents in a value and in its mappings and sequences."""
    return find_instances(value, Document)


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a value, also texts of messages, but not of documents."""
    return map(str, find_instances(value, str, Message))


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
    text_by_key = {
        key: text
        for key, text in value.items()
        if isinstance(text, str) and text.strip()
    }
    # {"topic": "bridges", "k": 3}: its only text; of several texts none is surely asked
    if text_by_key:
        if len(text_by_key) > 1:
            return None
        ((name, text),) = text_by_key.items()
        # an answer that was given before, such as to a step that grades it, asks nothing
        return None if name in _GIVEN_ANSWER_KEYS else text
    # {"payload": {"question": "When did it open?"}}
    if len(value) == 1:
        (only_value,) = value.values()
        return question_in(only_value, depth=depth - 1)
    return None


@lru_cache(maxsize=1024)
def names_a_history(key: object) -> bool:
    """Return whether a name, such as "memory_notes", says that its value is a history."""
    return isinstance(key, str) and _HISTORY_LIKE_NAME.search(key) is not None


def has_written(value: object) -> bool:
    """Return whether inputs hold an answer already, as the inputs of a grader do."""
    if not isinstance(value, Mapping):
        return False
    answers = [value.get(key) for key in _GIVEN_ANSWER_KEYS]
    return any(isinstance(answer, (str, Message)) for answer in answers)


def answer_in(output: object) -> str | None:
    """Return the answer in what a run returned, perhaps under a usual name; None without one."""
    if not isinstance(output, Mapping):
        return answer_text(output)
    for key in ("structured_response", *ANSWER_KEYS, "messages"):
        answer = answer_text(output.get(key))
        if answer is not None:
            return answer
    return None


def answer_text(value: object) -> str | None:
    """Return the answer in a value that a run returned; None if it holds none.

    A text is the answer itself, and a list of messages holds it in the last reply. Of a
    framework's answers the last counts, of those cut out of documents the first.
    ``{"answer": "At ten."}`` gives "At ten.". A mapping without such a field is itself
    the answer, written as text: ``{"sql": "SELECT 1"}``.
    """
    if isinstance(value, str):
        # "<Stream object at 0x7f2a>" is no answer
        is_name_of_object = _OBJECT_AS_TEXT.fullmatch(value.strip()) is not None
        return None if is_name_of_object or not value.strip() else value
    if isinstance(value, Message):
        # a message of the user or the system answers nothing
        may_answer = value.role in ("assistant", "other", "tool")
        return value.text if may_answer and value.text.strip() else None
    answers = list(find_instances(value, Answer))
    if answers:
        # a reader lists the best one first, and perhaps one that says there is none
        extracted = [each for each in answers if each.is_extracted and each.text]
        return (extracted or answers[::-1])[0].text
    if isinstance(value, (list, tuple)):
        # a list of bare texts, such as queries, is no conversation
        if any(isinstance(element, str) for element in value):
            return None
        messages = conversation(value) or ()
        return _last_answer(messages)
    if isinstance(value, Mapping):
        answer = answer_in(value)
        has_documents = any(documents_in(value))
        if answer is not None or not value or has_documents:
            return answer
        return compact(value)
    return None


def _last_answer(messages: tuple[Message, ...]) -> str | None:
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
    for message in messages[-1:]:
        if message.role == "tool" and message.text.strip():
            return message.text
    return None


def sample_in(
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    to_plain_value: Callable[[object], Any],
) -> Sample:
    """Make the sample of what was given and returned where no search was recorded.

    Example: the inputs {"question": "Who?", "contexts": ["Anna lit it."]} and outputs
    {"answer": "Anna"}: an application that retrieved before the run. Contexts are taken
    from fields that have a usual name of contexts; what cannot be read as such is
    unknown.
    """
    fields = {**inputs, **outputs}
    names_of_contexts = fields.keys() & set(USUAL_NAMES["contexts"])
    found = Sample()
    with suppress(RowError):
        found = Sample.from_row({name: fields[name] for name in names_of_contexts})
    return Sample(
        question=question_in(to_plain_value(inputs)),
        contexts=found.contexts,
        capture=found.capture,  # whether one text may be several contexts
        answer=answer_in(to_plain_value(outputs)),
    )


def reference_in(
    outputs: Mapping[str, Any],
    place: FieldPlace | None,
    example: object,
    to_plain_value: Callable[[object], Any],
) -> tuple[tuple[str, ...], str]:
    """Find the expected answers in an example of a data set, or say why there are none.

    Example: the outputs {"answer": "Anna"} give (("Anna",), ""). A single output counts
    by any name.

    Args:
        outputs: The expected outputs.
        place: Where the user says that the answers are: a key or path into the
            outputs, or a callable that gets the example. None looks for a usual name.
        example: The framework's own example.
        to_plain_value: Turns a value of the framework into plain values.
    """
    if place is not None:
        # ``reference_from`` is read by the rules of ``answer_from``: "a.b" is a path, …
        places = Overrides(answer_from=place)
        is_found, value = places.find("answer", [example], outputs)
        if is_found:
            return _expected_answers(to_plain_value(value)), ""
        return (), "reference_from leads to nothing in the example's outputs"
    for key in _REFERENCE_KEYS:
        texts = _expected_answers(to_plain_value(outputs.get(key)))
        if texts:
            return texts, ""
    if len(outputs) == 1:
        (only_value,) = outputs.values()
        return _expected_answers(to_plain_value(only_value)), ""
    if not outputs:
        return (), "the example has no outputs"
    names = ", ".join(map(str, outputs))
    return (
        (),
        f"the example's outputs have the fields {names}: name one by reference_from=",
    )


def _expected_answers(value: Any) -> tuple[str, ...]:
    """One or several expected answers."""
    is_list = isinstance(value, (list, tuple)) and bool(value)
    if is_list and all(isinstance(element, str) for element in value):
        return tuple(value)
    text = answer_text(value)
    return (text,) if text else ()


# Which documents a step of an application was given, brought and passed on: a node of a
# graph, a step of a workflow or a function in a chain.

# under which recorders put the value that a step was given, or returned
_WRAPPERS = ("outputs", "output", "inputs", "input")


def note_documents_of_step(node: Node, given: object, returned: object) -> None:
    """Write into a step's call which documents it brought, and which it passed on.

    Example: a step was given [A], and returned [A, B]: it passed A on, and brought B. A
    with another text or score counts as brought. A step that returned an empty list in
    the place of its documents dropped them all: its documents are ().

    Args:
        node: The call, with its ``documents_among_inputs``; it is changed.
        given: What the step was given.
        returned: What it returned.
    """
    identities_given = {_identity(document) for document in node.documents_among_inputs}
    documents = list(documents_in(returned))
    brought = [each for each in documents if _identity(each) not in identities_given]
    passed_on = [each for each in documents if _identity(each) in identities_given]
    # an empty list stands where it was given documents
    given_by_name, returned_by_name = _by_name(given), _by_name(returned)
    emptied = [
        given_by_name.get(name)
        for name, value in returned_by_name.items()
        if isinstance(value, (list, tuple)) and not value
    ]
    drops_all = not documents and any(any(documents_in(each)) for each in emptied)
    node.documents = tuple(brought) if brought or drops_all else None
    node.documents_passed_on = tuple(passed_on)
    n_lists = sum(any(documents_in(each)) for each in returned_by_name.values())
    node.sorts_documents = n_lists > 1


def note_what_was_left_out(node: Node) -> None:
    """Make a retriever that left out what retrievers inside it found a reranker.

    Example: a ``ContextualCompressionRetriever`` returns one of five documents. The
    search is the one that found five.
    """
    inside = [inner for child in node.children for inner in child.walk()]
    searches = [inner for inner in inside if inner.kind == "retriever"]
    kept_by_key: dict[DocumentKey, list[Document]] = {}
    for document in node.documents or ():
        kept_by_key.setdefault(document.key, []).append(document)
    for search in searches:
        for document in search.documents or ():
            if document not in kept_by_key.get(document.key, ()):
                node.kind = "reranker"


def _by_name(value: object) -> Mapping[Any, object]:
    """Return a value without what a recorder put around it; under "" if it has no names."""
    if not isinstance(value, Mapping):
        return {"": value}
    for name in _WRAPPERS:
        if name in value:
            return _by_name(value[name])
    return value


def _identity(document: Document) -> tuple[str | None, str, float | None]:
    """Return what must be equal for a document to count as passed on, not brought."""
    return document.id, document.text, document.score
