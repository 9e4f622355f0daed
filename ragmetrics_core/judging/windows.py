"""Judges texts longer than the model's context window in overlapping windows.

The question's ``split`` says which text is divided.

Of each verdict that window counts which says yes most clearly; a group of texts is
judged as two shorter groups. What was judged in windows says so, and among the
fallbacks of its usage.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.data import ContextWindowExceeded, Question, divided, halves
from ragmetrics_core.data.replies import (
    Answer,
    Asked,
    NotAnswered,
    Usage,
    list_field,
    verdicts_of,
)

_MARK = "windows"


def smaller(question: Question[Any], answer: Answer[Any]) -> tuple[Question[Any], ...]:
    """Return the questions about each half, if an answer failed for its length.

    The halves are those of the text or of the group. There are none if the answer did
    not fail for its length. There are none either if the text is no longer than what it
    is judged against, which is then what is too long.
    """
    failed = isinstance(answer.reply, NotAnswered) and isinstance(
        answer.reply.error, ContextWindowExceeded
    )
    if question.split is None or not failed:
        return ()
    name, part = question.split.part, question.parts[question.split.part]
    others = max(
        (
            sum(map(len, other.texts))
            for key, other in question.parts.items()
            if key != name
        ),
        default=0,
    )
    if sum(map(len, part.texts)) <= others:
        return ()
    texts = halves(part.text) if isinstance(part.text, str) else divided(part.texts)
    return tuple(
        replace(question, parts={**question.parts, name: replace(part, text=text)})
        for text in texts
    )


def joined(
    question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]
) -> Answer[Any]:
    """Return the verdicts about the whole, from the answers about its parts.

    ``failed`` is the answer to the question that was too long.
    """
    usage = sum((answer.usage for answer in answers), failed.usage) + Usage(
        fallbacks=(_MARK,)
    )
    replies = [answer.reply for answer in answers if isinstance(answer.reply, Asked)]
    missing = next(
        (answer.reply for answer in answers if isinstance(answer.reply, NotAnswered)),
        None,
    )
    assert question.split is not None  # noqa: S101  # only such a question has parts
    each, strength = (
        [_each(asked) for asked in replies],
        partial(_strength, field=question.split.field),
    )
    if len(question.parts[question.split.part].texts) > 1:  # each text is in one part
        return Answer(
            _made_of(replies[0].reply, [*chain(*each)]) if missing is None else missing,
            usage,
        )
    if not replies:
        return Answer(missing or failed.reply, usage)
    # of each verdict that of the window which says yes most clearly, with the number of
    # windows
    best = [
        replace(
            max(windows, key=strength),
            windows=(sum(one.windows[0] for one in windows),),
        )
        for windows in zip(*each, strict=True)
    ]
    sure = all(strength(verdict)[0] for verdict in best)
    return Answer(
        _made_of(replies[0].reply, best) if missing is None or sure else missing, usage
    )


def _each(asked: Asked[Any]) -> list[Asked[Any]]:
    """Return each verdict of the first reply as if it had been asked alone.

    Of polls the first reply stands for all.
    """
    return [
        Asked(
            (verdict,),
            (),
            asked.weights[place : place + 1],
            asked.windows[place : place + 1] or (1,),
        )
        for place, verdict in enumerate(verdicts_of(asked.reply))
    ]


def _strength(asked: Asked[Any], field: str) -> tuple[bool, float]:
    """Whether a verdict says yes, and how clearly."""
    if asked.weights:
        return asked.weights[0].p > 0.5, asked.weights[0].p
    value = float(getattr(asked.reply, field))
    return value > 0, value


def _made_of(reply: BaseModel, each: Sequence[Asked[Any]]) -> Asked[Any]:
    """A reply with these verdicts."""
    verdicts, name = tuple(asked.reply for asked in each), list_field(type(reply))
    reply = verdicts[0] if name is None else reply.model_copy(update={name: verdicts})
    weights = tuple(chain(*(one.weights for one in each)))
    windows = tuple(chain(*(one.windows for one in each)))
    return Asked((reply,), (), weights, windows if max(windows) > 1 else ())
