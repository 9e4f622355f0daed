"""The probability of a label, from the log-probabilities of the token that holds it.

The token is found by the field's place in the reply's text, never by a fixed index.
Variants of a label (``1``, `` 1``, ``1}``, ``"1"``, full-width) count together; ``10``
and ``0.5`` are not labels. A label that is not listed has a probability between 0 and
the smallest listed one: where that could decide the verdict, or where the listed labels
cover too little, there is no probability, never a guess.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from pydantic import BaseModel

from ragmetrics_core.data import (
    Label,
    Mode,
    Question,
    Weigh,
    Weight,
    list_field,
    verdicts_of,
)
from ragmetrics_core.judging.parsing import Found, value_offsets
from ragmetrics_core.models.chat import Choice, TokenAlternatives

MASS_FLOOR = 0.9
# of labels that are 0 and 1
_SYNONYMS: dict[str, Label] = {"false": 0, "true": 1, "no": 0, "yes": 1}
_AROUND = " \t\r\n\"'`,:;{}[]"
_NARROW = {0xFF10: "0", 0xFF11: "1"}
# a token may run on into the next field
_ENDED = re.compile(r"[\s\"'`,:;}\]]*+(?![\w.+-])")
_KEY = re.compile(r"\s*([\w-]+)")
_ROUNDING = 1e-3


def weights(
    found: Found[BaseModel], question: Question[BaseModel]
) -> tuple[Weight | None, ...]:
    """The weights of a reply's cells, in their order, from log-probabilities.

    None where these do not settle it.

    Source:
        Design note "Probabilities from tokens".
    """
    weigh, own = question.weigh or Weigh(""), verdicts_of(found.value)
    text, start, end = found.choice.text, found.start, found.end
    read = label_weights(found.choice, weigh, mode_of(question), start, end)
    unknown = (None,) * len(own)
    if weigh.cell_key is None:
        return read if len(read) == len(own) == 1 else unknown
    keys = [str(getattr(cell, weigh.cell_key)) for cell in own]
    given = [
        match[1]
        for at in value_offsets(text, weigh.cell_key, start, end)
        if (match := _KEY.match(text, at))
    ]
    if len(read) != len(keys) or sorted(given) != sorted(keys):
        return unknown
    return tuple(read[given.index(key)] for key in keys)


def mode_of(question: Question[BaseModel]) -> Mode:
    """Return how log-probabilities are to be read.

    They are read by themselves, after other cells, or after whatever stands before. A
    question without ``weigh`` has none, only a verdict.
    """
    if question.weigh is None:
        return "verdict"
    if list_field(question.Reply) is not None:
        return "sequential"
    return (
        "logprobs"
        if next(iter(question.Reply.model_fields)) == question.weigh.field
        else "conditional"
    )


def label_weights(
    choice: Choice, weigh: Weigh, mode: Mode, start: int, end: int
) -> tuple[Weight | None, ...]:
    """Return the weights of all fields of one name within the reply's object.

    The object begins at ``start`` and ends at ``end`` in the text of the choice.

    In order of appearance; None where the tokens do not settle it. Empty if the reply
    has no log-probabilities or they are not of this text.
    """
    text = choice.text
    written = "".join(token.token for token in choice.tokens)
    shift = written.rfind(text.strip())
    if not choice.tokens or not text.strip() or shift < 0:
        return ()
    shift -= len(text) - len(text.lstrip())
    ends = list(accumulate(len(token.token) for token in choice.tokens))
    offsets = value_offsets(text, weigh.field, start, end)
    return tuple(
        _at(choice.tokens, ends, offset + shift, weigh, mode) for offset in offsets
    )


def _at(
    tokens: Sequence[TokenAlternatives],
    ends: Sequence[int],
    at: int,
    weigh: Weigh,
    mode: Mode,
) -> Weight | None:
    """The weight at the token that holds the character at an offset."""
    index = bisect_right(ends, at)
    if index == len(ends):
        return None
    token = tokens[index]
    before = token.token[: at - (ends[index] - len(token.token))]
    # one text twice is one alternative
    listed = {token.token: token.logprob, **dict(token.alternatives)}
    return settle(
        [
            (_label(text, before, weigh.labels), logprob)
            for text, logprob in listed.items()
        ],
        weigh,
        mode,
    )


def _label(text: str, before: str, labels: Sequence[Label]) -> Label | None:
    """Which label an alternative's text stands for.

    A word may begin in one token and go on in the next.

    ``before`` is what the token that was chosen holds before its label.
    """
    rest = text.removeprefix(before)
    if before.strip(_AROUND) and rest == text:
        return None
    plain = rest.translate(_NARROW).lstrip(_AROUND).casefold()
    for label in labels:
        name = str(label).casefold()
        if plain.startswith(name) and _ENDED.match(plain, len(name)):
            return label
    word = plain.rstrip(_AROUND)
    if word in _SYNONYMS and set(labels) == {0, 1}:
        return _SYNONYMS[word]
    begun = [
        label for label in labels if plain and str(label).casefold().startswith(plain)
    ]
    return begun[0] if len(begun) == 1 else None


def settle(
    listed: Sequence[tuple[Label | None, float]], weigh: Weigh, mode: Mode = "logprobs"
) -> Weight | None:
    """Return the probability of the positive label, from listed alternatives.

    It comes with the mass of the labels, if the alternatives settle it.

    Listed are the label (None for anything else) and natural log-probability of each.
    None if a label that is not listed could decide, if the labels cover less than
    ``MASS_FLOOR``, or if the numbers are no probabilities.
    """
    if not listed or any(
        math.isnan(logprob) or logprob > _ROUNDING for _, logprob in listed
    ):
        return None
    known = [(label, math.exp(min(logprob, 0.0))) for label, logprob in listed]
    one = math.fsum(weight for label, weight in known if label == weigh.positive)
    zero = math.fsum(
        weight
        for label, weight in known
        if label is not None and label != weigh.positive
    )
    total = math.fsum(weight for _, weight in known)
    if zero + one < MASS_FLOOR or total > 1 + _ROUNDING:
        return None
    hidden = max(0.0, min(min(weight for _, weight in known), 1 - total))
    if (not zero and hidden >= one) or (not one and hidden >= zero):
        return None
    return Weight(one / (zero + one), mode, min(zero + one, 1.0))
