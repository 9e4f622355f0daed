"""A talk that stands in a prompt as text: whether an answer is an earlier turn of it, or is worked on. Pure.

Applications that write their history into a template show an earlier answer in the same
place in which others show a draft. What tells them apart is who is named before it, and
who is named behind it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from ragmetrics_core.capture.letters import Text, letters_of
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
# who speaks at the head of a line, by names that nothing but a talk has
_SPEAKER_OF_A_TALK = re.compile(
    r"^\W{0,3}(?:(?P<assistant>ai|assistant|bot|chatbot)|human|user)[^\w\s:]{0,3}:",
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
class EarlierConversation:
    """Earlier turns of a conversation that were read from text.

    Attributes:
        turns: The turns, oldest first.
        doubts: What is uncertain about them, in words.
        texts: What was handed in as an earlier talk, where no turns can be read from
            it. It is no evidence where a prompt shows it.
    """

    turns: tuple[Turn, ...] = ()
    doubts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def talk_of(texts: Sequence[str]) -> EarlierConversation:
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
    turns: list[Turn] = []
    is_labelled = True
    for text in texts:
        turns_of_text = list(_turns_by_label(text))
        turns += turns_of_text
        is_labelled = is_labelled and bool(turns_of_text)
    if is_labelled:
        return EarlierConversation(tuple(turns))
    return EarlierConversation(tuple(_turns_by_position(texts)), (_NAMELESS,))


def _turns_by_position(texts: Sequence[str]) -> Iterator[Turn]:
    """Yield texts in turn as the user's and the assistant's, whose is the last one."""
    n_texts = len(texts)
    for place, text in enumerate(texts, start=1):
        n_behind = n_texts - place
        is_assistant = n_behind % 2 == 0
        yield Turn(role="assistant" if is_assistant else "user", content=text.strip())


def turns_of_fields(text_by_speaker: Mapping[str, object]) -> tuple[Turn, ...]:
    """The turns of a mapping from who speaks to what was said; none of another mapping.

    A mapping of a role and what was said in it is one turn.

    Examples:
        >>> turns_of_fields({"question": "Open?", "answer": "Yes."})
        (Turn(role='user'), Turn(role='assistant'))
        >>> turns_of_fields({"role": "human", "content": "Open?"})
        (Turn(role='user'),)
    """
    role = text_by_speaker.get("role")
    content = text_by_speaker.get("content")
    if isinstance(role, str) and isinstance(content, str):
        return _turns_of_role(role.lower(), content)
    question = _first_text_of(_USERS, text_by_speaker)
    answer = _first_text_of(_REPLIES, text_by_speaker)
    if question is None or answer is None:
        return ()
    return (
        Turn(role="user", content=question),
        Turn(role="assistant", content=answer),
    )


def _turns_of_role(role: str, content: str) -> tuple[Turn, ...]:
    """What user or assistant said, as a turn; none of another role, or of a blank text."""
    if not content.strip():
        return ()
    if role in _USERS:
        return (Turn(role="user", content=content),)
    if role in _ASSISTANTS:
        return (Turn(role="assistant", content=content),)
    return ()


def _first_text_of(
    names: Collection[str], text_by_speaker: Mapping[str, object]
) -> str | None:
    """What the first speaker said that has one of some names; None if none did."""
    for speaker, text in text_by_speaker.items():
        if speaker.lower() not in names:
            continue
        if isinstance(text, str) and text.strip():
            return text
    return None


def _turns_by_label(text: str) -> Iterator[Turn]:
    """The turns of a text that begins with who speaks; none of another text."""
    # where a speaker begins, and which
    labels: list[tuple[re.Match[str], str]] = []
    last_role = ""
    for label in _LABEL.finditer(text):
        role = "assistant" if label["assistant"] else "user"
        # a heading inside of an answer is no other turn
        if role != last_role:
            labels.append((label, role))
            last_role = role
    ends = [label.start() for label, _ in labels] + [len(text)]
    begins_with_label = ends[0] == 0 and bool(labels)
    if not begins_with_label:
        return
    for (label, role), end in zip(labels, ends[1:], strict=True):
        words = text[label.end() : end].strip()
        if words:
            yield Turn(role=role, content=words)


def words_of_assistant(text: str) -> list[str]:
    r"""What the assistant says in a text that tells a talk, where the user speaks again behind it.

    Only names count that nothing but a talk has: a question with its answer may be a
    page of frequent questions.

    Examples:
        >>> words_of_assistant("Before:\nUser: Open?\nAssistant: At ten.\nUser: And when?")
        ['At ten.']
        >>> words_of_assistant("Question: Open?\nAnswer: At ten.\nQuestion: And when?")
        []
    """
    speakers = list(_SPEAKER_OF_A_TALK.finditer(text))
    words = []
    for speaker, next_speaker in pairwise(speakers):
        if speaker["assistant"] and not next_speaker["assistant"]:
            words.append(text[speaker.end() : next_speaker.start()].strip())
    return words


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
    question_ends = []
    askers = set()
    for question in questions:
        for start, end in _places(question, host):
            question_ends.append(end)
            asker, _ = _name_before(host.raw, start)
            if asker:
                askers.add(asker)
    quotations = [
        _quotation_at(host.raw, start, end, askers, question_ends)
        for start, end in _places(answer, host)
    ]
    return min(quotations, key=QUOTATIONS.index, default="nowhere")


def _quotation_at(
    text: str,
    start: int,
    end: int,
    askers: Collection[str],
    question_ends: Collection[int],
) -> Quotation:
    """How the answer that stands at one place is quoted.

    Args:
        text: The message.
        start: Where the answer begins.
        end: Where it ends.
        askers: The names that stand before its question.
        question_ends: Where its question ends, at each place of it.
    """
    name, separator = _name_before(text, start)
    is_assistant = name in _ASSISTANTS
    if is_assistant and _OF_A_MESSAGE.search(separator):
        return "said"
    # an answer behind which the user speaks again is over; a draft stands last
    later_speakers = {name[1].lower() for name in _SPEAKER.finditer(text, end)}
    if is_assistant and not later_speakers.isdisjoint(_USERS):
        return "said"
    is_beside = _is_right_behind(text, start, question_ends)
    if is_beside and not later_speakers.isdisjoint(askers):
        return "said"
    if is_assistant:
        return "perhaps said"
    return "beside its question" if is_beside else "elsewhere"


def _is_right_behind(text: str, start: int, question_ends: Collection[int]) -> bool:
    """Whether an answer begins right behind one of some questions."""
    for question_end in question_ends:
        if question_end > start:
            continue
        letters_between = letters_of(text[question_end:start])
        if len(letters_between) <= _MOST_LETTERS_BETWEEN:
            return True
    return False


def _name_before(text: str, start: int) -> tuple[str, str]:
    """The name that stands right before a place, in lower case, and what is between.

    Both are empty if there is no name.
    """
    words_before = text[max(start - _LONGEST_NAME, 0) : start]
    name = _NAME.search(words_before)
    if name is None:
        return "", ""
    return name[1].lower(), name[2]


def _places(text: str, host: Text) -> Iterator[tuple[int, int]]:
    """Where a text stands in a message, whatever its white space and escapes."""
    letters = letters_of(text)
    if not letters:
        return
    end = 0
    for _ in range(_MOST_PLACES):
        start = host.letters.find(letters, end)
        if start < 0:
            return
        end = start + len(letters)
        yield host.offsets_of(start, end)
