"""The probability of a label, from the log-probabilities of the token that holds it.

A model writes a verdict such as ``"useful": 1``. For the token that holds the ``1`` the
endpoint lists alternatives, each with its log-probability. They tell how probable the
label 1 was, against the label 0.

- The token is found by the field's place in the reply's text, never by a fixed index.
- Variants of a label (``1``, `` 1``, ``1}``, ``"1"``, full-width) count together;
  ``10`` and ``0.5`` are not labels.
- A label that is not listed has a probability between 0 and the smallest listed one. If
  that could decide the verdict, there is no probability, never a guess.
- If the listed labels cover too little, there is none either.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
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
from ragmetrics_core.judging.reading import ReadReply, keys_before, value_offsets
from ragmetrics_core.models.chat import Choice, TokenAlternatives

MASS_FLOOR = 0.9
"""Least probability that all labels have together; with less there is no weight."""

# Words for the labels 0 and 1.
_SYNONYMS: dict[str, Label] = {"false": 0, "true": 1, "no": 0, "yes": 1}
# What may stand around a label in its token.
_SIGNS_AROUND = " \t\r\n\"'`,:;{}[]"
# The full-width digits, as models write them in Chinese or Japanese, and the plain
# ones.
_PLAIN_DIGITS = {0xFF10: "0", 0xFF11: "1"}
# Matches where a label ends. Signs may follow in its token, but no word or number.
_END_OF_LABEL = re.compile(r"[\s\"'`,:;}\]]*+(?![\w.+-])")
_ID = re.compile(r"\s*([\w-]+)")
# By so much endpoints round probabilities up.
_ROUNDING = 1e-3


def read_weights(
    reply: ReadReply[BaseModel], question: Question[BaseModel]
) -> tuple[Weight | None, ...]:
    """Return for each verdict of a reply how probable "1" (or "yes") was in its place.

    The log-probabilities of the reply's tokens tell it. Example: the reply holds a
    verdict on text A, ``{"label": "A", "useful": 1}``, and one on text B, ``{"label":
    "B", "useful": 0}``. (.9, None) is returned: the "1" of A had a probability of .9,
    and the tokens of B do not tell. All are None if the question wants no probability,
    if the verdicts cannot be matched with the model's text, or if the model wrote
    anything before a verdict: the probability is then that of one chain of thought.

    Args:
        reply: The reply, with its tokens.
        question: The question. Its ``wanted_probability`` names the field with the
            verdict ("useful"), and the field with the id of the text ("label").

    Source:
        Design note "Probabilities from tokens".
    """
    verdicts = verdicts_of(reply.value)
    all_unknown = (None,) * len(verdicts)
    wanted_probability = question.wanted_probability
    if wanted_probability is None:
        return all_unknown
    if not _comes_each_verdict_first(reply, question, wanted_probability):
        return all_unknown
    # in a list of verdicts each depends on those written before
    is_list = list_field(question.Reply) is not None
    mode: Mode = "sequential" if is_list else "logprobs"
    weights_in_text_order = label_weights(
        reply.choice, wanted_probability, mode, reply.start, reply.end
    )
    if len(weights_in_text_order) != len(verdicts):
        return all_unknown
    id_field = wanted_probability.item_id_field
    if id_field is None:
        is_single_verdict = len(verdicts) == 1
        return weights_in_text_order if is_single_verdict else all_unknown
    # the model may have written B before A: the order of the verdicts is wanted
    ids = [str(getattr(verdict, id_field)) for verdict in verdicts]
    ids_in_text_order = _ids_in_text(reply, id_field)
    return _reorder(weights_in_text_order, ids_in_text_order, ids) or all_unknown


def _comes_each_verdict_first(
    reply: ReadReply[BaseModel],
    question: Question[BaseModel],
    wanted_probability: LabelProbability,
) -> bool:
    """Tell whether nothing but the id of its text stands before each verdict."""
    places = {"", list_field(question.Reply), wanted_probability.item_id_field}
    keys = keys_before(
        reply.choice.text, wanted_probability.field, reply.start, reply.end
    )
    return places.issuperset(keys)


def _reorder(
    weights: Sequence[Weight | None], ids: Sequence[str], wanted_order: Sequence[str]
) -> tuple[Weight | None, ...]:
    """Bring weights into the order in which their ids are wanted.

    Example: the model wrote the verdict B before A, so that the weights (.2, .9) have
    the ids B and A. Wanted are A and B: (.9, .2). () if the ids are not those wanted.
    """
    if sorted(ids) != sorted(wanted_order):
        return ()
    return tuple(weights[ids.index(id_)] for id_ in wanted_order)


def _ids_in_text(reply: ReadReply[BaseModel], id_field: str) -> list[str]:
    """Return the ids of a reply's verdicts in text order, e.g. the claims' numbers."""
    text = reply.choice.text
    ids = []
    for offset in value_offsets(text, id_field, reply.start, reply.end):
        match = _ID.match(text, offset)
        if match is not None:
            ids.append(match[1])
    return ids


def label_weights(
    choice: Choice,
    wanted_probability: LabelProbability,
    mode: Mode,
    start: int,
    end: int,
) -> tuple[Weight | None, ...]:
    """Return the weights of all fields of one name in the reply's JSON object.

    A weight is the probability of the positive label. Example with the labels "1" and
    "0": the token of a field may be "1" with 90 %, "0" with 10 %: the weight is .9. It
    is None where the token does not tell the labels apart.

    Args:
        choice: The reply, with its tokens.
        wanted_probability: Which field has the label, which labels there are, and which
            of them is the positive one.
        mode: How the probability came about, such as "logprobs"; each weight notes it.
        start: Where the object begins in the text of the choice.
        end: Where it ends.

    Returns:
        The weights in order of appearance. () without log-probabilities, or if the
        tokens are not those of the text.
    """
    # the tokens may begin with a reasoning that the text lacks: its length is added
    shift = _shift_to_tokens(choice)
    if shift is None:
        return ()
    # where each token ends in the joined text of all tokens
    token_ends = list(accumulate(len(token.token) for token in choice.tokens))
    weights: list[Weight | None] = []
    for offset in value_offsets(choice.text, wanted_probability.field, start, end):
        token_and_text = _find_token(choice.tokens, token_ends, offset + shift)
        if token_and_text is None:
            weights.append(None)
        else:
            # a token may also hold text before the label, as a space before "1"
            token, text_before_label = token_and_text
            weight = _weight_in(token, text_before_label, wanted_probability, mode)
            weights.append(weight)
    return tuple(weights)


def _shift_to_tokens(choice: Choice) -> int | None:
    """Return what turns an index in a reply's text into one in its joined tokens.

    The tokens may begin with a reasoning that is not in the text. None if there are no
    tokens, or if they do not hold the text.
    """
    text = choice.text
    if not choice.tokens or not text.strip():
        return None
    text_of_tokens = "".join(token.token for token in choice.tokens)
    start_in_tokens = text_of_tokens.rfind(text.strip())
    if start_in_tokens < 0:
        return None
    n_leading_spaces = len(text) - len(text.lstrip())
    return start_in_tokens - n_leading_spaces


def _find_token(
    tokens: Sequence[TokenAlternatives], token_ends: Sequence[int], label_start: int
) -> tuple[TokenAlternatives, str] | None:
    """Find the token in which a label begins, and its text before the label.

    In the token ``": 1`` the text before the label 1 is ``": ``. None if the tokens end
    before the label.

    Args:
        tokens: The tokens of the reply.
        token_ends: Where each token ends in the joined text of all tokens.
        label_start: Where the label begins in the joined text.
    """
    index = bisect_right(token_ends, label_start)
    if index == len(token_ends):
        return None
    token = tokens[index]
    token_start = token_ends[index] - len(token.token)
    return token, token.token[: label_start - token_start]


def _weight_in(
    token: TokenAlternatives,
    before_label: str,
    wanted_probability: LabelProbability,
    mode: Mode,
) -> Weight | None:
    """Return the weight of the label that begins in a token; None if unsettled.

    ``before_label`` is the token's text before the label.
    """
    # The token is usually listed among its alternatives; in a mapping it counts once.
    logprob_by_text = {token.token: token.logprob, **dict(token.alternatives)}
    labels_with_logprobs = [
        (_label_of_text(text, before_label, wanted_probability.labels), logprob)
        for text, logprob in logprob_by_text.items()
    ]
    return probability_of_positive(labels_with_logprobs, wanted_probability, mode)


def _label_of_text(
    text: str, before_label: str, labels: Sequence[Label]
) -> Label | None:
    """Return the label that a token's text stands for; None for anything else.

    Args:
        text: The token that the model wrote, or an alternative to this token.
        before_label: The text before the label in the token that the model wrote, e.g.
            ``": `` in ``": 1``.
        labels: The labels.
    """
    if _has_words(before_label) and not text.startswith(before_label):
        return None  # beside the token "is 1", the alternative "0" is no label
    plain_text = _without_signs_before(text.removeprefix(before_label))
    label = _label_at_start(plain_text, labels)
    if label is None:
        label = _label_by_synonym(plain_text, labels)
    if label is None:
        label = _label_begun(plain_text, labels)
    return label


def _has_words(text: str) -> bool:
    """Tell whether a text holds more than signs: ``is `` does, ``": `` does not."""
    return text.strip(_SIGNS_AROUND) != ""


def _without_signs_before(text: str) -> str:
    """A text in lower case and plain digits, without leading spaces and quotes."""
    return text.translate(_PLAIN_DIGITS).lstrip(_SIGNS_AROUND).casefold()


def _label_at_start(text: str, labels: Sequence[Label]) -> Label | None:
    """Return the label at the start of a text: 1 of ``1, "``, but None of ``12``."""
    for label in labels:
        name = str(label).casefold()
        if text.startswith(name) and _END_OF_LABEL.match(text, len(name)):
            return label
    return None


def _label_by_synonym(text: str, labels: Sequence[Label]) -> Label | None:
    """Return the label 0 or 1 that a word stands for: 1 for ``true``."""
    if set(labels) != {0, 1}:
        return None
    return _SYNONYMS.get(text.rstrip(_SIGNS_AROUND))


def _label_begun(text: str, labels: Sequence[Label]) -> Label | None:
    """Return the only label that begins with a text: "supported" for ``sup``."""
    if not text:
        return None
    begun_labels = [label for label in labels if str(label).casefold().startswith(text)]
    return begun_labels[0] if len(begun_labels) == 1 else None


def probability_of_positive(
    listed: Sequence[tuple[Label | None, float]],
    wanted_probability: LabelProbability,
    mode: Mode = "logprobs",
) -> Weight | None:
    """Return the probability of the positive label, from the alternatives of a token.

    Example: "1" has .72 and "0" has .24: the share is .75.

    Args:
        listed: The label of each alternative (None for anything else) and its natural
            log-probability.
        wanted_probability: Which labels there are, and which of them is the positive
            one, whose probability is wanted.
        mode: How the log-probabilities were got; it is only noted in the result.

    Returns:
        The share. It is None if the numbers are no log-probabilities, if the labels
        together have less than ``MASS_FLOOR``, or if a label that is not listed might
        win.
    """
    if not listed or not all(_is_log_probability(logprob) for _, logprob in listed):
        return None
    probabilities = [(label, math.exp(min(logprob, 0.0))) for label, logprob in listed]
    total = math.fsum(probability for _, probability in probabilities)
    positive = _probability_of({wanted_probability.positive}, probabilities)
    negative_labels = set(wanted_probability.labels) - {wanted_probability.positive}
    negative = _probability_of(negative_labels, probabilities)
    mass_of_labels = positive + negative
    if mass_of_labels < MASS_FLOOR or total > 1 + _ROUNDING:
        return None
    if _may_be_decided_by_unlisted(positive, negative, probabilities):
        return None
    share = positive / mass_of_labels
    return Weight(share, mode, min(mass_of_labels, 1.0))


def _probability_of(
    labels: Collection[Label], probabilities: Sequence[tuple[Label | None, float]]
) -> float:
    """Sum the probabilities of some labels. A label may be listed several times."""
    return math.fsum(
        probability for label, probability in probabilities if label in labels
    )


def _may_be_decided_by_unlisted(
    probability_of_yes: float,
    probability_of_no: float,
    probabilities: Sequence[tuple[Label | None, float]],
) -> bool:
    """Tell whether "yes" or "no", where the token lists only the other, may still win.

    A token lists only its most probable alternatives. Example: "yes" has .4, "maybe"
    has .35, and "no" is not listed. At most .25 is left for "no", which cannot win:
    False.

    Args:
        probability_of_yes: The probability of the positive label; 0 if not listed.
        probability_of_no: The probability of the negative labels; 0 if not listed.
        probabilities: All listed alternatives with their probabilities.
    """
    # the unlisted are below the least one listed, and share what is left of 1
    least_listed = min(probability for _, probability in probabilities)
    total = math.fsum(probability for _, probability in probabilities)
    most_unlisted = max(0.0, min(least_listed, 1 - total))
    is_yes_listed = probability_of_yes > 0
    is_no_listed = probability_of_no > 0
    no_may_win = not is_no_listed and most_unlisted >= probability_of_yes
    yes_may_win = not is_yes_listed and most_unlisted >= probability_of_no
    return no_may_win or yes_may_win


def _is_log_probability(logprob: float) -> bool:
    """Tell whether a number is the logarithm of a probability, but for rounding."""
    return not math.isnan(logprob) and logprob <= _ROUNDING
