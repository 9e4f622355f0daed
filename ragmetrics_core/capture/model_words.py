"""Which parts of an answer its model wrote, and which the application added. Pure.

An application may add a list of links to the model's reply, or join several replies. A
mark that the model did not write cites nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import marks_in

_NUMBER = lazy_pattern(r"\d+")


def spans_of_the_model(
    answer: str, reply: Reply | None, reply_texts: Iterable[str]
) -> list[Span] | None:
    """Return the parts of an answer that the model wrote; None if its marks were changed.

    Example: the model replied "It fell [1].", and the application returned this with a
    list of links below it: (0, 12).

    Args:
        answer: The answer.
        reply: The reply of the call that wrote it; None if that call is not known.
        reply_texts: What that call and those that contributed to it said.
    """
    whole_answer = [(0, len(answer))]
    if reply is None:
        return whole_answer
    answer_line = as_one_line(answer)
    # in the reply's text, or a whole field of it, as in {"answer": "It fell [1]."}
    if answer_line in reply.line or answer_line in reply.fields:
        return whole_answer
    # else replies may stand in the answer: a synthesizer may join several, and an
    # application may add to them
    reply_texts_once = {text.strip() for text in reply_texts} - {""}
    spans = [
        found.span()
        for text in reply_texts_once
        for found in re.finditer(re.escape(text), answer)
    ]
    if spans:
        return sorted(spans)
    # else the application edited the reply; with the same marks as before, it is taken
    # for the model's
    return whole_answer if _has_the_marks_of(reply, answer) else None


def _has_the_marks_of(reply: Reply, answer: str) -> bool:
    """Whether the marks of an answer stand in a reply in the same order."""
    of_answer = [mark.labels for mark in marks_in(answer)]
    of_reply = [mark.labels for mark in marks_in(reply.text)]
    return _stands_in(of_answer, of_reply)


def _stands_in(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether a sequence is a contiguous part of another, as [2, 3] is of [1, 2, 3]."""
    starts = range(len(whole) - len(part) + 1)
    return any(whole[start : start + len(part)] == part for start in starts)


def has_the_numbers_of(reply: Reply | None, answer: str) -> bool:
    """Whether the application kept the numbers of a reply, whatever stands around them.

    Example: of the reply "It fell <3>." an answer "It fell <1>." has other numbers. An
    answer that was cut out of the reply has its numbers; so has any answer whose reply
    is not known.
    """
    if reply is None or as_one_line(answer) in (reply.line, *reply.fields):
        return True
    of_answer = _NUMBER.findall(answer)
    of_reply = _NUMBER.findall(reply.text)
    return _stands_in(of_answer, of_reply)


def has_lost_its_marks(answer: str, reply: Reply | None) -> bool:
    """Whether the model wrote marks, and the application took all of them out.

    A structured reply has none: its brackets are lists.
    """
    if reply is None or reply.values:
        return False
    return bool(marks_in(reply.text)) and not marks_in(answer)


def only_spans(text: str, spans: Sequence[Span]) -> str:
    """Return a text with blanks outside of some spans; each character keeps its place."""
    pieces = []
    end_of_last = 0
    for start, end in spans:
        n_blanks = max(0, start - end_of_last)
        pieces.append(" " * n_blanks + text[max(start, end_of_last) : end])
        end_of_last = max(end, end_of_last)
    return "".join(pieces)


def without_spans(text: str, spans: Iterable[Span]) -> str:
    """Return a text with blanks in place of some spans; each character keeps its place."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)
