"""Judges texts longer than the model's context window in overlapping windows.

The question's ``if_too_long`` says which text is divided. Of each verdict the window
counts that says yes most clearly. A group of texts is judged as two shorter groups. What was
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
    failed_with,
    list_field,
    verdicts_of,
)

_FALLBACK = "windows"  # how the usage names what was judged in windows
Reply = Asked[Any] | NotAnswered


def halve_questions(
    question: Question[Any], answer: Answer[Any]
) -> tuple[Question[Any], ...]:
    """Return the same question about each half, if an answer failed for its length.

    Example: one context is too long for the judge: two questions, about its first and
    its second half. ``question.if_too_long`` names the part to divide. Returns no
    question if the answer did not fail for its length, or if another part is longer.
    """
    if question.if_too_long is None or not failed_with(
        answer.reply, ContextWindowExceeded
    ):
        return ()
    name = question.if_too_long.part
    if not _is_longest_part(name, question):
        return ()
    part = question.parts[name]
    halves: Iterable[str | tuple[str, ...]]
    if isinstance(part.text, str):
        halves = cut_in_halves(part.text)
    else:  # several contexts: some of them to each question
        halves = divide_texts(part.texts)
    half_parts = [replace(part, text=half) for half in halves]
    return tuple(
        replace(question, parts={**question.parts, name: half_part})
        for half_part in half_parts
    )


def _is_longest_part(name: str, question: Question[Any]) -> bool:
    """Tell whether a part of a question is longer than each of the others."""
    lengths_of_others = [
        _length(part)
        for other_name, part in question.parts.items()
        if other_name != name
    ]
    return _length(question.parts[name]) > max(lengths_of_others, default=0)


def _length(part: Part) -> int:
    """Return how many characters the texts of a part have together."""
    return sum(len(text) for text in part.texts)


def join_verdicts(
    question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]
) -> Answer[Any]:
    """Combine the answers to the halves of a question that was too long for the judge.

    Several texts were divided into two groups: the verdicts on each text are put in one
    list. A single text was cut in halves, or all texts have one verdict: a fact that one
    half covers with .2 and the other with .9 has .9. ``failed`` is the answer to the
    whole question.
    """
    windows = question.if_too_long
    assert windows is not None  # noqa: S101  # a question without is not halved
    usage = failed.usage + Usage(fallbacks=(_FALLBACK,))
    for answer in answers:
        usage += answer.usage
    replies = [answer.reply for answer in answers]
    divided_texts = question.parts[windows.part].texts
    form: type[BaseModel] = question.Reply
    has_verdict_on_each = list_field(form) is not None
    if len(divided_texts) > 1 and has_verdict_on_each:
        return Answer(_list_verdicts_of_groups(replies), usage)
    return Answer(_choose_clearest_verdicts(replies, windows.deciding_field), usage)


def _list_verdicts_of_groups(replies: Sequence[Reply]) -> Reply:
    """Put the verdicts on two groups of texts into one reply.

    Each text is in one group only. So if a group was not answered, its error is returned.
    """
    verdicts: list[Asked[Any]] = []
    first_reply: BaseModel | None = None
    for reply in replies:
        if isinstance(reply, NotAnswered):
            return reply
        if first_reply is None:
            first_reply = reply.reply
        verdicts += _single_verdicts(reply)
    assert first_reply is not None  # noqa: S101  # a question is cut into two halves
    return _combine_verdicts(first_reply, verdicts)


def _choose_clearest_verdicts(replies: Sequence[Reply], field: str) -> Reply:
    """Take each verdict from the window of a text that says yes most clearly.

    Example: window 1 says yes of fact 1 and no of fact 2, window 2 says yes of fact 2:
    yes and yes. A window that was not answered might have said yes. Its error is
    returned, unless all verdicts are a yes without it.

    Args:
        replies: The reply about each window.
        field: The field of a verdict whose value is above 0 for a yes.
    """
    answered = [reply for reply in replies if isinstance(reply, Asked)]
    unanswered = [reply for reply in replies if isinstance(reply, NotAnswered)]
    if not answered:
        return unanswered[0]
    verdicts_by_window = [_single_verdicts(reply) for reply in answered]
    clearest_verdicts = [
        _find_clearest(same_verdict_by_window, field)
        for same_verdict_by_window in zip(*verdicts_by_window, strict=True)
    ]
    do_all_say_yes = all(_says_yes(verdict, field) for verdict in clearest_verdicts)
    if unanswered and not do_all_say_yes:
        return unanswered[0]
    return _combine_verdicts(answered[0].reply, clearest_verdicts)


def _single_verdicts(reply: Asked[Any]) -> list[Asked[Any]]:
    """Return each verdict of the first reply as if it had been asked for alone.

    Each has one number of windows: 1 if its text was judged whole. If the question was
    asked several times (polls), only the first reply counts.
    """
    return [
        Asked(
            replies=(verdict,),
            weights=reply.weights[index : index + 1],
            windows=reply.windows[index : index + 1] or (1,),
        )
        for index, verdict in enumerate(verdicts_of(reply.reply))
    ]


def _find_clearest(verdict_by_window: Sequence[Asked[Any]], field: str) -> Asked[Any]:
    """Return the verdict that says yes most clearly, counted for all its windows."""

    def clarity(verdict: Asked[Any]) -> tuple[bool, float]:
        return _says_yes(verdict, field), _strength(verdict, field)

    clearest = max(verdict_by_window, key=clarity)
    n_windows = sum(verdict.windows[0] for verdict in verdict_by_window)
    return replace(clearest, windows=(n_windows,))


def _says_yes(verdict: Asked[Any], field: str) -> bool:
    """Tell whether a verdict says yes: more probable than not, or a value above 0."""
    least = 0.5 if verdict.weights else 0.0
    return _strength(verdict, field) > least


def _strength(verdict: Asked[Any], field: str) -> float:
    """Measure how clearly a verdict says yes: its probability, else its field."""
    if verdict.weights:
        return verdict.weights[0].p
    return float(getattr(verdict.reply, field))


def _combine_verdicts(reply: BaseModel, verdicts: Sequence[Asked[Any]]) -> Asked[Any]:
    """Make one reply of several verdicts, with their weights and numbers of windows.

    Args:
        reply: A reply to copy the other fields from.
        verdicts: Each verdict, with the number of windows (pieces) into which its text
            was cut; 1 for a text that was not cut.
    """
    weights = [weight for verdict in verdicts for weight in verdict.weights]
    windows = [number for verdict in verdicts for number in verdict.windows]
    was_any_text_cut = max(windows) > 1
    return Asked(
        (_with_verdicts(reply, verdicts),),
        weights=tuple(weights),
        windows=tuple(windows) if was_any_text_cut else (),
    )


def _with_verdicts(reply: BaseModel, verdicts: Sequence[Asked[Any]]) -> BaseModel:
    """Return a reply that lists these verdicts; without a list, the only verdict."""
    list_name = list_field(type(reply))
    if list_name is None:
        verdict: BaseModel = verdicts[0].reply
        return verdict
    items = tuple(verdict.reply for verdict in verdicts)
    return reply.model_copy(update={list_name: items})
