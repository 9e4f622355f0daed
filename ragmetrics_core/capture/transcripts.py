"""A talk that stands in a prompt as text: whether an answer is an earlier turn of it, or is worked on. Pure.

Applications that write their history into a template show an earlier answer in the same
place in which others show a draft. What tells them apart is who is named before it, and
who is named behind it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ragmetrics_core.capture.letters import Text, stream
from ragmetrics_core.data import Turn

# - said: it is an earlier turn; it is the assistant's word, and somebody speaks after it
# - perhaps said: it is the assistant's word, and nobody is named behind it
# - beside its question: it stands right behind its question, and nobody is named
# - elsewhere: it stands among other words
# - nowhere: it does not stand there
Quotation = Literal[
    "said", "perhaps said", "beside its question", "elsewhere", "nowhere"
]
QUOTATIONS: tuple[Quotation, ...] = get_args(Quotation)  # the surest first

_ASSISTANTS = frozenset(
    ["a", "agent", "ai", "aimessage", "assistant", "bot", "chatbot", "gpt", "model"]
)
_USERS = frozenset(
    [
        "customer",
        "human",
        "humanmessage",
        "input",
        "q",
        "query",
        "question",
        "user",
        "you",
    ]
)
# names before what was said in a history; before a draft some of them stand, too
_REPLIES = _ASSISTANTS | {"answer", "reply", "response"}
# the name of who speaks, right before a text: "User: ", "AIMessage(content='"
_NAME = re.compile(
    r"([^\W\d_]+)(\W{1,12}(?:(?:content|end_header_id)\W{1,8})?)\Z", re.DOTALL
)
# of a name in a list of messages or a model's template, not at the head of a line
_OF_A_MESSAGE = re.compile(r"content|[(,|>]")
# a name at the head of a line or of a message, and what ends it
_SPEAKER = re.compile(
    r"(?:^|[>|#*\[('\"{])[^\S\n]*([^\W\d_]+)(?:[^\w\s]|[^\S\n]*\n)", re.MULTILINE
)
# a name before what was said: "User: ", "[ai]:, ", "**Assistant**: "
_LABEL = re.compile(
    rf"^\W{{0,3}}(?:(?P<assistant>{'|'.join(sorted(_REPLIES))})"
    rf"|(?:{'|'.join(sorted(_USERS))}))[^\w\s:]{{0,3}}:[^\w\s]{{0,3}}\s*",
    re.MULTILINE | re.IGNORECASE,
)
_LONGEST_NAME = 80
_MOST_PLACES = 20
_MOST_LETTERS_BETWEEN = 24


_NAMELESS = (
    "the history is a list of texts that do not say who speaks; they are taken in turn"
    " as the user's and the assistant's"
)


@dataclass(frozen=True)
class Talk:
    """Earlier turns of a conversation that were read from text.

    Attributes:
        turns: The turns, oldest first.
        doubts: What is uncertain about them, in words.
    """

    turns: tuple[Turn, ...] = ()
    doubts: tuple[str, ...] = ()


def talk_of(texts: Sequence[str]) -> Talk:
    r"""The turns of a history that is a list of texts.

    Args:
        texts: What was said, the earliest first. A text may name who speaks, and may
            hold several turns.

    Returns:
        The turns, without the names. Where a text names nobody, all texts are taken in
        turn as the user's and the assistant's, whose is the last one.

    Examples:
        >>> talk = talk_of(["Question: Open?\nAnswer: Yes.", "Question: When?\nAnswer: At ten."])
        >>> [f"{turn.role}: {turn.content}" for turn in talk.turns]
        ['user: Open?', 'assistant: Yes.', 'user: When?', 'assistant: At ten.']
        >>> len(talk_of(["Open?", "Yes."]).doubts)
        1
    """
    texts = [text for text in texts if text.strip()]
    labelled = [list(_turns_by_label(text)) for text in texts]
    if all(labelled):
        return Talk(tuple(turn for turns in labelled for turn in turns))
    roles = ["assistant" if place % 2 else "user" for place in range(len(texts) + 1)]
    roles = roles[len(texts) % 2 :]
    turns = [
        Turn(role=role, content=text.strip())
        for role, text in zip(roles, texts, strict=False)
    ]
    return Talk(tuple(turns), (_NAMELESS,))


def turns_of_fields(said: Mapping[str, object]) -> tuple[Turn, ...]:
    """The turns of a mapping from who speaks to what was said; none of another mapping.

    Examples:
        >>> turns_of_fields({"question": "Open?", "answer": "Yes."})
        (Turn(role='user'), Turn(role='assistant'))
    """
    turns = []
    for roles, role in ((_USERS, "user"), (_REPLIES, "assistant")):
        texts = [
            text
            for name, text in said.items()
            if name.lower() in roles and isinstance(text, str) and text.strip()
        ]
        turns += [Turn(role=role, content=text) for text in texts[:1]]
    return tuple(turns) if len(turns) == 2 else ()


def _turns_by_label(text: str) -> Iterator[Turn]:
    """The turns of a text that begins with who speaks; none of another text."""
    labels = []
    role = ""
    for label in _LABEL.finditer(text):
        speaker = "assistant" if label["assistant"] else "user"
        # a heading inside of an answer is no other turn
        if speaker != role:
            labels.append(label)
            role = speaker
    if not labels or labels[0].start() > 0:
        return
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=True):
        said = text[label.end() : end].strip()
        if said:
            role = "assistant" if label["assistant"] else "user"
            yield Turn(role=role, content=said)


def quotation(answer: str, questions: Collection[str], host: Text) -> Quotation:
    r"""Say how a message of a prompt quotes an earlier answer.

    Args:
        answer: The answer.
        questions: What was asked, in the words that are known of it.
        host: The message.

    Returns:
        The surest of all places at which the answer stands.

    Examples:
        >>> talk = "User: When did it open?\nAssistant: In 1874.\nUser: And the ferry?"
        >>> quotation("In 1874.", ["When did it open?"], Text(talk))
        'said'
        >>> draft = "Question: When did it open?\nDraft: In 1874.\nMake it longer."
        >>> quotation("In 1874.", ["When did it open?"], Text(draft))
        'beside its question'
    """
    ends = [end for question in questions for _, end in _places(question, host)]
    names = {
        name
        for question in questions
        for start, _ in _places(question, host)
        if (name := _name_before(host.raw, start)[0])
    }
    quoted = [
        _way(host.raw, start, end, names, ends) for start, end in _places(answer, host)
    ]
    return min(quoted, key=QUOTATIONS.index, default="nowhere")


def _way(
    text: str, start: int, end: int, askers: Collection[str], asked: Collection[int]
) -> Quotation:
    """How the answer that stands at one place is quoted.

    Args:
        text: The message.
        start: Where the answer begins.
        end: Where it ends.
        askers: The names that stand before its question.
        asked: Where its question ends.
    """
    name, separator = _name_before(text, start)
    is_assistant = name in _ASSISTANTS
    if is_assistant and _OF_A_MESSAGE.search(separator):
        return "said"
    # an answer behind which the user speaks again is over; a draft stands last
    later = {found[1].lower() for found in _SPEAKER.finditer(text, end)}
    if is_assistant and not later.isdisjoint(_USERS):
        return "said"
    is_beside = any(
        place <= start and len(stream(text[place:start])) <= _MOST_LETTERS_BETWEEN
        for place in asked
    )
    if is_beside and not later.isdisjoint(askers):
        return "said"
    if is_assistant:
        return "perhaps said"
    return "beside its question" if is_beside else "elsewhere"


def _name_before(text: str, start: int) -> tuple[str, str]:
    """The name that stands right before a place, in lower case, and what is between.

    Both are empty if there is no name.
    """
    found = _NAME.search(text[max(start - _LONGEST_NAME, 0) : start])
    return (found[1].lower(), found[2]) if found else ("", "")


def _places(text: str, host: Text) -> Iterator[tuple[int, int]]:
    """Where a text stands in a message, whatever its white space and escapes."""
    letters = stream(text)
    at = host.stream.find(letters) if letters else -1
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield host.span(at, at + len(letters))
        at = host.stream.find(letters, at + len(letters))
