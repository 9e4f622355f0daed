"""Which turns of a history are earlier ones, and which are the turn that is judged.

A memory that is read after a turn holds that turn, too: its question and its answer.
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
    """Return the turns of a history that come before this question and its answer.

    If the history ends with the question and the answer, or with the question alone, word
    for word, these turns are dropped.

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
    """Return the turns of a conversation that do not give the answer away.

    They are for a judge that must not see the answer. Left out are this question, if it
    is the user's last, with the replies after it, and every turn that says the answer.

    Args:
        history: The turns, oldest first.
        question: The question that the answer belongs to.
        answer: The answer; "" for none.
    """
    last_replies_start = _start_of_last_replies(history)
    if last_replies_start > 0:
        last_user_turn = history[last_replies_start - 1]
        if _asks(last_user_turn.content, question):
            history = history[: last_replies_start - 1]
    return tuple(
        turn
        for index, turn in enumerate(history)
        if not _says(turn.content, answer, is_last_reply=index >= last_replies_start)
    )


def _start_of_last_replies(history: Sequence[Turn]) -> int:
    """Return the index after the user's last turn, where the last replies begin."""
    start = len(history)
    while start > 0 and not _is_of_user(history[start - 1]):
        start -= 1
    return start


def _is_of_user(turn: Turn) -> bool:
    """Tell whether the user said a turn, by whatever name its role has."""
    return turn.role.casefold() in ("user", "human", "customer")


def _same_words(text: str, other: str) -> bool:
    """Tell whether two texts hold the same words.

    Texts without a word are never the same.
    """
    return bool(text.split()) and text.split() == other.split()


def _asks(text: str, question: str) -> bool:
    """Tell whether a turn asks a question; punctuation and letter case do not matter.

    A long question may also stand within a longer turn, such as a prompt.
    """
    letters_of_question = _letters(question)
    if not letters_of_question:
        return False
    letters = _letters(text)
    without_speaker = _letters(_SPEAKER.sub("", text, count=1))
    if letters_of_question in (letters, without_speaker):
        return True
    is_long = len(letters_of_question) >= _FEWEST_LETTERS_OF_QUESTION
    return is_long and letters_of_question in letters


def _says(text: str, answer: str, *, is_last_reply: bool) -> bool:
    """Tell whether a turn says an answer; citation marks and punctuation do not matter.

    A short answer such as "In 1903" may stand in any longer turn by chance. There it
    counts only in the last replies, which may be this answer with words added.
    """
    letters_of_answer = _letters(answer)
    if not letters_of_answer:
        return _same_words(text, answer)
    letters = _letters(text)
    without_speaker = _letters(_SPEAKER.sub("", text, count=1))
    if letters_of_answer in (letters, without_speaker):
        return True
    fewest = _FEWEST_LETTERS_OF_LAST if is_last_reply else _FEWEST_LETTERS
    return len(letters_of_answer) >= fewest and letters_of_answer in letters


def _letters(text: str) -> str:
    """Return the letters and digits of a text without the marks of its citations."""
    without_marks = _MARK.sub("", normalize("NFKC", text))
    return "".join(filter(str.isalnum, without_marks.casefold()))
