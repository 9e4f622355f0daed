"""p(1) of a 0/1 field, from the log-probabilities of the token that holds it.

The token is found by the field's place in the reply's text, never by a fixed index. Variants of a label
(``1``, `` 1``, ``1}``, ``"1"``, full-width) count together; ``10`` and ``0.5`` are not labels. A label that is not
listed has a probability between 0 and the smallest listed one: where that could decide the verdict, or where
the listed labels cover too little, there is no probability, never a guess.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ragmetrics_core.endpoints.chat import Choice, TokenAlternatives
from ragmetrics_core.judging.parsing import value_offsets

MASS_FLOOR = 0.9
_LABELS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1}
_AROUND = " \t\r\n\"'`,:;{}[]"
_NARROW = {0xFF10: "0", 0xFF11: "1"}
_DIGIT = re.compile(r"([01])[\s\"'`,:;}\]]*+(?![\w.+-])")  # a token may run on into the next field
_ROUNDING = 1e-3


class LabelProbability(NamedTuple):
    """Probability of a label.

    Args:
        p: p(1) / (p(0) + p(1)).
        mass: p(0) + p(1), the probability that the labels cover.
    """

    p: float
    mass: float


def label_probabilities(choice: Choice, field: str, start: int, end: int) -> tuple[LabelProbability | None, ...]:
    """Probabilities of all fields of one name within the reply's object.

    Args:
        choice: A reply with log-probabilities.
        field: The field's name; its values are 0 or 1.
        start: Where the object begins in the reply's text.
        end: Where it ends.

    Returns:
        In order of appearance; None where the tokens do not settle it. Empty if the reply has no
        log-probabilities or they are not of this text.

    Source:
        Design note "Probabilities from tokens".
    """
    text = choice.text
    written = "".join(token.token for token in choice.tokens)
    shift = written.rfind(text.strip())
    if not choice.tokens or not text.strip() or shift < 0:
        return ()
    shift -= len(text) - len(text.lstrip())
    ends = list(accumulate(len(token.token) for token in choice.tokens))
    return tuple(_at(choice.tokens, ends, offset + shift) for offset in value_offsets(text, field, start, end))


def _at(tokens: Sequence[TokenAlternatives], ends: Sequence[int], offset: int) -> LabelProbability | None:
    """The probability at the token that holds the character at an offset."""
    index = bisect_right(ends, offset)
    if index == len(ends):
        return None
    token = tokens[index]
    before = token.token[: offset - (ends[index] - len(token.token))]
    listed = {token.token: token.logprob, **dict(token.alternatives)}  # one text twice is one alternative
    return settle([(_label(text, before), logprob) for text, logprob in listed.items()])


def _label(text: str, before: str) -> int | None:
    """Which label a token's text stands for.

    Args:
        text: An alternative's text.
        before: What the token that was chosen holds before its label.
    """
    rest = text.removeprefix(before)
    if before.strip(_AROUND) and rest == text:
        return None
    plain = rest.translate(_NARROW).lstrip(_AROUND)
    digit = _DIGIT.match(plain)
    return _LABELS.get(digit[1] if digit else plain.rstrip(_AROUND).lower())


def settle(listed: Sequence[tuple[int | None, float]]) -> LabelProbability | None:
    """Turn listed alternatives into p(1), if they settle it.

    Args:
        listed: Label (None for anything else) and natural log-probability of each alternative.

    Returns:
        The probability and its mass; None if a label that is not listed could decide, if the labels cover
        less than ``MASS_FLOOR``, or if the numbers are no probabilities.
    """
    if not listed or any(math.isnan(logprob) or logprob > _ROUNDING for _, logprob in listed):
        return None
    weights = [(label, math.exp(min(logprob, 0.0))) for label, logprob in listed]
    zero, one = (math.fsum(weight for label, weight in weights if label == wanted) for wanted in (0, 1))
    total = math.fsum(weight for _, weight in weights)
    if zero + one < MASS_FLOOR or total > 1 + _ROUNDING:
        return None
    hidden = max(0.0, min(min(weight for _, weight in weights), 1 - total))
    if (not zero and hidden >= one) or (not one and hidden >= zero):
        return None
    return LabelProbability(one / (zero + one), min(zero + one, 1.0))
