"""Judges texts longer than the model's context window in overlapping windows.

The question's ``split`` says which text is divided. Of each verdict the window counts
that says yes most clearly. A group of texts is judged as two shorter groups. What was
judged in windows says so, and its usage lists windows among the fallbacks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.data import (
    ContextWindowExceeded,
    Question,
    cut_in_halves,
    divide_texts,
)
from ragmetrics_core.data.asking import Part
from ragmetrics_core.data.replies import (
    Answer,
    Asked,
    NotAnswered,
    Usage,
    Weight,
    list_field,
    verdicts_of,
)

_FALLBACK = "windows"  # how the usage names what was judged in windows
Reply = Asked[Any] | NotAnswered


def halve_questions(
    question: Question[Any], answer: Answer[Any]
) -> tuple[Question[Any], ...]:
    """Return the same question about each half, if an answer failed for its length.

    ``question.split`` names the part to divide: one text, which is cut in two that
    overlap, or a group of texts, which becomes two shorter groups.

    Returns no question if the answer did not fail for its length, or if the question
    names no part to divide. It also returns none if another part is at least as long as
    the part to divide: then dividing it would not help.

    Args:
        question: The question.
        answer: The answer to it.
    """
    if question.split is None or not _was_too_long(answer):
        return ()
    name = question.split.part
    part = question.parts[name]
    lengths_of_others = [
        _length(other_part)
        for other_name, other_part in question.parts.items()
        if other_name != name
    ]
    if _length(part) <= max(lengths_of_others, default=0):
        return ()
    halves: Iterable[str | tuple[str, ...]]
    if isinstance(part.text, str):
        halves = cut_in_halves(part.text)
    else:
        halves = divide_texts(part.texts)
    half_parts = [replace(part, text=half) for half in halves]
    return tuple(
        replace(question, parts={**question.parts, name: half_part})
        for half_part in half_parts
    )


def _was_too_long(answer: Answer[Any]) -> bool:
    """Whether there is no answer because the texts did not fit the model's context."""
    reply = answer.reply
    return isinstance(reply, NotAnswered) and isinstance(
        reply.error, ContextWindowExceeded
    )


def _length(part: Part) -> int:
    """How many characters the texts of a part have together."""
    return sum(len(text) for text in part.texts)


def join_verdicts(
    question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]
) -> Answer[Any]:
    """Make one answer of the answers about the parts of a text that was too long.

    Its usage sums that of all calls, and notes that the text was read in parts
    (windows) as a fallback.

    Args:
        question: The question.
        failed: The answer to it, which failed for its length.
        answers: The answers to the same question about each part.
    """
    assert question.split is not None  # noqa: S101  # only such a question has parts
    usage = failed.usage + Usage(fallbacks=(_FALLBACK,))
    for answer in answers:
        usage += answer.usage
    replies = [answer.reply for answer in answers]
    is_group = len(question.parts[question.split.part].texts) > 1
    if is_group:
        return Answer(_join_group(replies), usage)
    return Answer(_join_text(replies, question.split.field), usage)


def _join_group(replies: Sequence[Reply]) -> Reply:
    """Verdicts about a group of texts.

    Each text stands in one window only, so every window has to be answered.
    """
    verdicts: list[Asked[Any]] = []
    form: BaseModel | None = None  # the first reply; the joined one has its form
    for reply in replies:
        if isinstance(reply, NotAnswered):
            return reply
        if form is None:
            form = reply.reply
        verdicts += _single_verdicts(reply)
    assert form is not None  # noqa: S101  # a text is cut into two windows at least
    return _combine_verdicts(form, verdicts)


def _join_text(replies: Sequence[Reply], field: str) -> Reply:
    """Join what was said of the windows of one text.

    For each verdict that window counts which says yes most clearly. A window that was
    not answered might have said yes. So if every verdict is a yes, the yes stands; if
    one is a no, there is no reply, but the error of that window.

    Args:
        replies: The reply about each window.
        field: The field of a verdict whose value is above 0 for a yes.
    """
    answered = [reply for reply in replies if isinstance(reply, Asked)]
    unanswered = [reply for reply in replies if isinstance(reply, NotAnswered)]
    if not answered:
        return unanswered[0]
    verdicts_of_windows = [_single_verdicts(reply) for reply in answered]
    # of each verdict the one in the window that says yes most clearly
    clearest_verdicts = [
        _find_clearest(verdict_by_window, field)
        for verdict_by_window in zip(*verdicts_of_windows, strict=True)
    ]
    do_all_say_yes = all(_says_yes(verdict, field) for verdict in clearest_verdicts)
    if unanswered and not do_all_say_yes:
        return unanswered[0]
    return _combine_verdicts(answered[0].reply, clearest_verdicts)


def _single_verdicts(reply: Asked[Any]) -> list[Asked[Any]]:
    """Return each verdict of the first reply as if it had been asked alone.

    Of polls the first reply stands for all.
    """
    return [
        Asked(
            replies=(verdict,),
            weights=reply.weights[place : place + 1],
            windows=reply.windows[place : place + 1] or (1,),
        )
        for place, verdict in enumerate(verdicts_of(reply.reply))
    ]


def _find_clearest(verdict_by_window: Sequence[Asked[Any]], field: str) -> Asked[Any]:
    """The verdict that says yes most clearly, with the number of windows of all."""

    def clarity(verdict: Asked[Any]) -> tuple[bool, float]:
        return _says_yes(verdict, field), _strength(verdict, field)

    clearest = max(verdict_by_window, key=clarity)
    n_windows = sum(verdict.windows[0] for verdict in verdict_by_window)
    return replace(clearest, windows=(n_windows,))


def _says_yes(verdict: Asked[Any], field: str) -> bool:
    """Whether a verdict says yes: more probable than not, or a value above 0."""
    least = 0.5 if verdict.weights else 0.0
    return _strength(verdict, field) > least


def _strength(verdict: Asked[Any], field: str) -> float:
    """How clearly a verdict says yes: its probability, else the value of the field."""
    if verdict.weights:
        return verdict.weights[0].p
    return float(getattr(verdict.reply, field))


def _combine_verdicts(reply: BaseModel, verdicts: Sequence[Asked[Any]]) -> Asked[Any]:
    """Make one reply of several verdicts, with their weights and their windows.

    Args:
        reply: A reply of the same form: with a list of verdicts, or a single one.
        verdicts: The verdicts, each as if it had been asked alone.
    """
    list_name = list_field(type(reply))
    if list_name is None:
        combined = verdicts[0].reply
    else:
        replies_to_one = tuple(verdict.reply for verdict in verdicts)
        combined = reply.model_copy(update={list_name: replies_to_one})
    weights: list[Weight] = []
    n_windows_by_verdict: list[int] = []
    for verdict in verdicts:
        weights += verdict.weights
        n_windows_by_verdict += verdict.windows
    windows: tuple[int, ...] = ()  # as where no text was cut
    if max(n_windows_by_verdict) > 1:
        windows = tuple(n_windows_by_verdict)
    return Asked((combined,), weights=tuple(weights), windows=windows)
