"""Which turns of a history are earlier ones, and which are the turn that is judged.

A memory that is read behind a turn holds that turn, too: its question and its answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:  # a sample asks here which turns are earlier ones
    from collections.abc import Sequence

    from ragmetrics_core.data.sample import Turn

# A turn that says so many letters and digits of the answer gives it away, also where it
# says more. A shorter answer, such as "In 1903", may stand in any earlier turn.
_FEWEST_LETTERS = 20
_FEWEST_LETTERS_OF_LAST = 4  # of the same in the last reply
_FEWEST_LETTERS_OF_QUESTION = 15
_MARK = re.compile(r"\[[^\[\]\n]{1,60}\]|【[^【】\n]{1,60}】")
_SPEAKER = re.compile(r"\A\s*\w{1,12}[ \t]*:")  # as in "AI: It was in May."


def before_this_turn(
    history: Sequence[Turn], questions: Sequence[str], answer: str
) -> tuple[Turn, ...]:
    """The turns of a history before the turn of this question and answer.

    The history ends before this turn where its last turns are the question and the
    answer, or the question alone, word for word.

    Args:
        history: The turns, oldest first.
        questions: The question of this turn in all its wordings.
        answer: The answer; "" for none.
    """
    questions_and_replies = list(history)
    if questions_and_replies and _same_words(history[-1].content, answer):
        questions_and_replies.pop()
    if not questions_and_replies:
        return tuple(history)
    last_question = questions_and_replies.pop().content
    if any(_same_words(last_question, question) for question in questions):
        return tuple(questions_and_replies)
    return tuple(history)


def turns_without_answer(
    history: Sequence[Turn], question: str, answer: str
) -> tuple[Turn, ...]:
    """The turns that may be shown to a judge who must not see the answer.

    Two kinds of turns are left out. One is the last turn that asks this question, if
    only replies follow it, and these replies: they are this turn. The other is each
    turn that says the answer.

    Args:
        history: The turns, oldest first.
        question: The question of this turn.
        answer: The answer; "" for none.
    """
    # The replies at the end are whatever stands behind the last turn of the user.
    n_before_replies = len(history)
    while n_before_replies > 0 and not _is_of_user(history[n_before_replies - 1]):
        n_before_replies -= 1
    if n_before_replies > 0 and _asks(history[n_before_replies - 1].content, question):
        history = history[: n_before_replies - 1]
    return tuple(
        turn
        for place, turn in enumerate(history)
        if not _says(turn.content, answer, is_last_reply=place >= n_before_replies)
    )


def _is_of_user(turn: Turn) -> bool:
    """Whether the user said a turn, by whatever name its role has."""
    return turn.role.casefold() in ("user", "human", "customer")


def _same_words(text: str, other: str) -> bool:
    """Whether two texts hold the same words; texts without a word are never the same."""
    return bool(text.split()) and text.split() == other.split()


def _asks(text: str, question: str) -> bool:
    """Whether a turn asks a question, whatever its signs and letter case.

    A long question may also stand within a prompt.
    """
    letters_of_question = _letters(question)
    if not letters_of_question:
        return False
    letters = _letters(text)
    behind_speaker = _letters(_SPEAKER.sub("", text, count=1))
    if letters_of_question in (letters, behind_speaker):
        return True
    return len(letters_of_question) >= _FEWEST_LETTERS_OF_QUESTION and (
        letters_of_question in letters
    )


def _says(text: str, answer: str, *, is_last_reply: bool) -> bool:
    """Whether a turn says all of an answer, whatever its marks, signs and letter case.

    Within a longer turn a short answer counts only in the last reply, which may be this
    turn's, before or behind what the application did to it.
    """
    letters_of_answer = _letters(answer)
    if not letters_of_answer:
        return _same_words(text, answer)
    letters = _letters(text)
    behind_speaker = _letters(_SPEAKER.sub("", text, count=1))
    if letters_of_answer in (letters, behind_speaker):
        return True
    fewest = _FEWEST_LETTERS_OF_LAST if is_last_reply else _FEWEST_LETTERS
    return len(letters_of_answer) >= fewest and letters_of_answer in letters


def _letters(text: str) -> str:
    """The letters and digits of a text without the marks of its citations."""
    without_marks = _MARK.sub("", normalize("NFKC", text))
    return "".join(filter(str.isalnum, without_marks.casefold()))
