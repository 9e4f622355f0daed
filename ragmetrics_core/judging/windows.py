"""Texts longer than the model's context window: judged in overlapping windows, as the question's ``split`` says.

Of each verdict that window counts which says yes most clearly; a group of texts is judged as two shorter groups. What
was judged in windows says so, and among the fallbacks of its usage.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.data import ContextWindowExceeded, Question, divided, halves
from ragmetrics_core.data.replies import Answer, Asked, NotAnswered, Usage, Weight, list_field, verdicts_of

_MARK = "windows"


def smaller(question: Question[Any], answer: Answer[Any]) -> tuple[Question[Any], ...]:
    """The questions about each half of the text or of the group, if an answer failed for its length; else none.

    None either if the text is shorter than what it is judged against, which is then what is too long.
    """
    failed = isinstance(answer.reply, NotAnswered) and isinstance(answer.reply.error, ContextWindowExceeded)
    if question.split is None or not failed:
        return ()
    name, part = question.split.part, question.parts[question.split.part]
    others = max((sum(map(len, other.texts)) for key, other in question.parts.items() if key != name), default=0)
    if sum(map(len, part.texts)) <= others:
        return ()
    texts = halves(part.text) if isinstance(part.text, str) else divided(part.texts)
    return tuple(replace(question, parts={**question.parts, name: replace(part, text=text)}) for text in texts)


def joined(question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]) -> Answer[Any]:
    """The verdicts about the whole, from the answers about its parts; ``failed`` is the one that was too long."""
    usage = sum((answer.usage for answer in answers), failed.usage) + Usage(fallbacks=(_MARK,))
    replies = [answer.reply for answer in answers if isinstance(answer.reply, Asked)]
    missing = next((answer.reply for answer in answers if isinstance(answer.reply, NotAnswered)), None)
    assert question.split is not None  # noqa: S101  # only such a question has parts
    if len(question.parts[question.split.part].texts) > 1:  # each text is in one part
        return Answer(_together(replies) if missing is None else missing, usage)
    if not replies:
        return Answer(missing or failed.reply, usage)
    best = _clearest(replies, question.split.field)
    sure = all(_strength(best, place, question.split.field)[0] for place in range(len(verdicts_of(best.reply))))
    return Answer(best if missing is None or sure else missing, usage)


def _strength(asked: Asked[Any], place: int, field: str) -> tuple[bool, float]:
    """Whether a verdict says yes, and how clearly."""
    if asked.weights:
        return asked.weights[place].p > 0.5, asked.weights[place].p
    value = float(getattr(verdicts_of(asked.reply)[place], field))
    return value > 0, value


def _clearest(replies: Sequence[Asked[Any]], field: str) -> Asked[Any]:
    """Of each verdict that of the window which says yes most clearly, with the number of windows."""
    chosen = [
        (max(replies, key=lambda asked: _strength(asked, place, field)), place)  # called at once
        for place in range(len(verdicts_of(replies[0].reply)))
    ]
    windows = tuple(sum(_windows(asked)[place] for asked in replies) for _, place in chosen)
    return _made_of(chosen, windows)


def _together(replies: Sequence[Asked[Any]]) -> Asked[Any]:
    """The verdicts of several groups, one after the other."""
    chosen = [(asked, place) for asked in replies for place in range(len(verdicts_of(asked.reply)))]
    windows = tuple(_windows(asked)[place] for asked, place in chosen)
    return _made_of(chosen, windows if max(windows) > 1 else ())


def _made_of(chosen: Sequence[tuple[Asked[Any], int]], windows: tuple[int, ...]) -> Asked[Any]:
    """One outcome from verdicts of several; of polls the first reply stands for all."""
    weights: tuple[Weight, ...] = tuple(asked.weights[place] for asked, place in chosen if asked.weights)
    reply: BaseModel = chosen[0][0].reply
    name = list_field(type(reply))
    if name is not None:
        reply = reply.model_copy(update={name: tuple(verdicts_of(asked.reply)[place] for asked, place in chosen)})
    return Asked((reply,), (), weights, windows)


def _windows(asked: Asked[Any]) -> tuple[int, ...]:
    return asked.windows or (1,) * len(verdicts_of(asked.reply))
