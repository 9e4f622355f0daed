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
    LabelProbability,
    Mode,
    Question,
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


def read_weights(
    found: Found[BaseModel], question: Question[BaseModel]
) -> tuple[Weight | None, ...]:
    """Return the weight of each verdict of a reply, from log-probabilities.

    A weight is the probability of the positive label. The weights are in the order of
    the verdicts; None where log-probabilities do not settle one.

    Source:
        Design note "Probabilities from tokens".
    """
    weigh = question.weigh or LabelProbability("")
    verdicts = verdicts_of(found.value)
    in_text_order = label_weights(
        found.choice, weigh, mode_of(question), found.start, found.end
    )
    unsettled = (None,) * len(verdicts)
    if weigh.cell_key is None:
        is_single = len(in_text_order) == len(verdicts) == 1
        return in_text_order if is_single else unsettled

    # Validation may have sorted the verdicts: each finds its weight by its key.
    keys = [str(getattr(verdict, weigh.cell_key)) for verdict in verdicts]
    keys_in_text = _written_keys(found, weigh.cell_key)
    if len(in_text_order) != len(keys) or sorted(keys_in_text) != sorted(keys):
        return unsettled
    return tuple(in_text_order[keys_in_text.index(key)] for key in keys)


def _written_keys(found: Found[BaseModel], key_field: str) -> list[str]:
    """The keys of a reply's verdicts, in the order in which its text has them."""
    text = found.choice.text
    keys = []
    for offset in value_offsets(text, key_field, found.start, found.end):
        match = _KEY.match(text, offset)
        if match is not None:
            keys.append(match[1])
    return keys


def mode_of(question: Question[BaseModel]) -> Mode:
    """Return how log-probabilities are to be read.

    They are read by themselves, after other cells, or after whatever stands before. A
    question without ``weigh`` has none, only a verdict.
    """
    if question.weigh is None:
        return "verdict"
    if list_field(question.Reply) is not None:
        return "sequential"
    first_field = next(iter(question.Reply.model_fields))
    return "logprobs" if first_field == question.weigh.field else "conditional"


def label_weights(
    choice: Choice, weigh: LabelProbability, mode: Mode, start: int, end: int
) -> tuple[Weight | None, ...]:
    """Return the weights of all fields of one name within the reply's object.

    The object begins at ``start`` and ends at ``end`` in the text of the choice. The
    weights are in order of appearance; None where the tokens do not settle it. There
    are none if the reply has no log-probabilities, or they are not of this text.
    """
    offsets = list(value_offsets(choice.text, weigh.field, start, end))
    return weights_at(choice, offsets, weigh, mode)


def weights_at(
    choice: Choice, offsets: Sequence[int], weigh: LabelProbability, mode: Mode
) -> tuple[Weight | None, ...]:
    """Return the weights of the labels that begin at some places of a reply's text.

    None where the tokens do not settle one. There are none if the reply has no
    log-probabilities, or they are not of this text.
    """
    text = choice.text
    if not choice.tokens or not text.strip():
        return ()
    text_of_tokens = "".join(token.token for token in choice.tokens)
    found_at = text_of_tokens.rfind(text.strip())
    if found_at < 0:
        return ()
    n_leading_spaces = len(text) - len(text.lstrip())
    shift = found_at - n_leading_spaces
    token_ends = list(accumulate(len(token.token) for token in choice.tokens))
    return tuple(
        _weight_at(choice.tokens, token_ends, offset + shift, weigh, mode)
        for offset in offsets
    )


def _weight_at(
    tokens: Sequence[TokenAlternatives],
    token_ends: Sequence[int],
    offset: int,
    weigh: LabelProbability,
    mode: Mode,
) -> Weight | None:
    """The weight at the token that holds the character at an offset."""
    index = bisect_right(token_ends, offset)
    if index == len(token_ends):
        return None
    token = tokens[index]
    token_start = token_ends[index] - len(token.token)
    before_label = token.token[: offset - token_start]
    # A dict, because one text that is listed twice is one alternative.
    alternatives = {token.token: token.logprob, **dict(token.alternatives)}
    listed = [
        (_label_of_text(text, before_label, weigh.labels), logprob)
        for text, logprob in alternatives.items()
    ]
    return probability_of_positive(listed, weigh, mode)


def _label_of_text(text: str, before: str, labels: Sequence[Label]) -> Label | None:
    """Return the label that an alternative's text stands for; None for anything else.

    ``before`` is what the token that was chosen holds before its label. A word may begin
    in one token and go on in the next.
    """
    rest = text.removeprefix(before)
    lacks_what_stands_before = rest == text and before.strip(_AROUND)
    if lacks_what_stands_before:
        return None
    plain = rest.translate(_NARROW).lstrip(_AROUND).casefold()
    for label in labels:
        name = str(label).casefold()
        if plain.startswith(name) and _ENDED.match(plain, len(name)):
            return label
    word = plain.rstrip(_AROUND)
    if word in _SYNONYMS and set(labels) == {0, 1}:
        return _SYNONYMS[word]
    if not plain:
        return None
    begun_labels = [
        label for label in labels if str(label).casefold().startswith(plain)
    ]
    return begun_labels[0] if len(begun_labels) == 1 else None


def probability_of_positive(
    listed: Sequence[tuple[Label | None, float]],
    weigh: LabelProbability,
    mode: Mode = "logprobs",
) -> Weight | None:
    """Return the probability of the positive label, from the alternatives of a token.

    It comes with the mass of all labels.

    Args:
        listed: The label of each alternative (None for anything else) and its natural
            log-probability.
        weigh: Which label is the positive one.
        mode: How the log-probabilities are to be read.

    Returns:
        None if a label that is not listed could decide, if the labels cover less than
        ``MASS_FLOOR``, if half of that or more is set aside, or if the numbers are no
        probabilities.
    """
    if not listed or not all(_is_log_probability(logprob) for _, logprob in listed):
        return None
    probabilities = [(label, math.exp(min(logprob, 0.0))) for label, logprob in listed]
    positive = math.fsum(p for label, p in probabilities if label == weigh.positive)
    others = {weigh.positive, weigh.aside, None}
    negative = math.fsum(p for label, p in probabilities if label not in others)
    aside = _probability_of_aside(probabilities, weigh)
    mass = positive + negative + aside
    total = math.fsum(p for _, p in probabilities)
    if mass < MASS_FLOOR or total > 1 + _ROUNDING:
        return None
    # A label that is not listed is at most as probable as the least probable one listed.
    least_listed = min(p for _, p in probabilities)
    most_unlisted = max(0.0, min(least_listed, 1 - total))
    negative_may_win = not negative and most_unlisted >= positive
    positive_may_win = not positive and most_unlisted >= negative
    is_decided = positive + negative > aside
    if negative_may_win or positive_may_win or not is_decided:
        return None
    return Weight(positive / (positive + negative), mode, min(mass, 1.0))


def _probability_of_aside(
    probabilities: Sequence[tuple[Label | None, float]], weigh: LabelProbability
) -> float:
    """The probability of the label that is neither for nor against; 0 without one."""
    if weigh.aside is None:
        return 0.0
    return math.fsum(p for label, p in probabilities if label == weigh.aside)


def _is_log_probability(logprob: float) -> bool:
    return not math.isnan(logprob) and logprob <= _ROUNDING
