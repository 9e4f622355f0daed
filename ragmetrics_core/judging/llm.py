"""The LLM judge: asks a chat model any question, and says what it cost.

Where a question wants the probability of a label, it is read from the log-probabilities
of the token that holds it. A model writes a verdict such as ``"useful": 1``. For the
token that holds the ``1`` the endpoint lists alternatives, each with its
log-probability. They tell how probable the label 1 was, against the label 0.

- The token is found by the field's place in the reply's text, never by a fixed index.
- Variants of a label (``1``, `` 1``, ``1}``, ``"1"``, full-width) count together;
  ``10`` and ``0.5`` are not labels.
- A label that is not listed has a probability between 0 and the smallest listed one. If
  that could decide the verdict, there is no probability, never a guess.
- If the listed labels cover too little, there is none either.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, cast

from pydantic import BaseModel

from ragmetrics_core.data import (
    Answer,
    Asked,
    Label,
    LabelProbability,
    Mode,
    NotAnswered,
    Question,
    R,
    Usage,
    Weight,
    list_field,
    verdicts_of,
    weights_by_share,
)
from ragmetrics_core.data.asking import error_of_lost_polls
from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    JudgeError,
    JudgeUnavailable,
    SettingError,
    is_ours,
)
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.judging.reading import ReadReply, read
from ragmetrics_core.judging.rendering import render, schema_of
from ragmetrics_core.models.chat import ChatRequest
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.features import no_logprobs
from ragmetrics_core.models.session import Session
from ragmetrics_core.models.threads import compute_beside_loop

# Alternatives per token, where log-probabilities are asked for.
_ALTERNATIVES = 5


@dataclass(eq=False, repr=False)
class LLMJudge(ModelJudge):
    """A judge that asks a chat model.

    Args:
        model: The chat model.
        max_tokens: Limit of a reply's length, in tokens; a reply that it cuts off is
            asked again with four times as much.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.

    Raises:
        SettingError: If the model is none, or lacks its name or its method, or a number
            is out of range.

    Examples:
        >>> from ragmetrics_core import LiteLLMModel
        >>> LLMJudge(LiteLLMModel("openai/gpt-4o-mini")).name
        'openai/gpt-4o-mini'
    """

    _: KW_ONLY
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if isinstance(self.model, DecisionModel):
            raise SettingError(
                f"{self.model.name} answers typed questions and writes nothing: take"
                " DecisionJudge(model), or its name as the judge"
            )
        check_number("LLMJudge(max_tokens=)", self.max_tokens, least=1)
        super().__post_init__()

    async def _answer_whole(self, session: Session, question: Question[R]) -> Answer[R]:
        """Ask a question with all its texts, and return the answer with what it cost.

        If the question wants the probability of a label (``wanted_probability``), the
        reply gets it from log-probabilities or polls: 2 yes of 3 polls give .67.
        Otherwise ``question.polls`` says how many replies are asked for. An error of
        the judge is returned, not raised.
        """
        await session.prepare()
        wanted = question.wanted_probability
        has_logprobs = "logprobs" not in session.lacking()
        if wanted is not None and wanted.needs_tokens and not has_logprobs:
            return Answer(NotAnswered(no_logprobs(self.name)))
        # rendering a long question would hold up the event loop
        create_question = partial(
            _ModelQuestion, self, session, cast("Question[BaseModel]", question)
        )
        model_question = await compute_beside_loop(
            create_question, size=question.n_characters
        )
        reply: Asked[R] | NotAnswered
        try:
            if wanted is None:
                reply = await model_question.poll()
            # a single reply is asked for alike at every endpoint, and so stored alike
            elif has_logprobs or wanted.fallback_polls == 1:
                reply = await model_question.ask_for_weights(wanted)
            else:
                reply = await model_question.weigh_by_polls(wanted)
        except JudgeError as error:
            reply = NotAnswered(error.with_traceback(None))
        return Answer(reply, model_question.usage)


class _ModelQuestion:
    """One question to a chat model, and what it has cost so far.

    Attributes:
        usage: What all calls for the question cost.
    """

    def __init__(
        self, judge: LLMJudge, session: Session, question: Question[BaseModel]
    ) -> None:
        """Render the question as a request; nothing is sent.

        The request has the JSON schema of the reply.
        """
        self.usage = Usage()
        self._session = session
        self._judge_name = judge.name
        self._question = question
        wanted = question.wanted_probability
        # polls in place of a probability are drawn at 1.0; a single verdict is no draw.
        # With log-probabilities ``features._as_sent`` makes it 1.0, too.
        is_polled = wanted is not None and wanted.fallback_polls > 1
        self._request = ChatRequest(
            messages=render(question),
            schema=schema_of(question.Reply),
            temperature=1.0 if is_polled else question.temperature,
            needs_logprobs=wanted is not None and wanted.needs_tokens,
            max_tokens=judge.max_tokens,
        )

    async def poll(self) -> Asked[Any]:
        """Ask for as many independent replies (polls) as the question wants.

        Example: of 3 polls one cannot be read: two replies and one error.

        Returns:
            The replies that could be read, and the errors of the others. ``together``
            says whether one request brought several replies, as with ``n=3``.

        Raises:
            JudgeError: If no reply could be read: the error of the first poll, or the
                error "texts too long" if any poll ended with it.
        """
        question = self._question
        # behind 3 polls of an earlier round, ``first_poll`` is 3
        first_poll = question.first_poll or 0
        replies, errors = await self._ask(self._request, question.polls, first_poll)
        if not replies:
            for error in errors:
                if isinstance(error, ContextWindowExceeded):
                    raise error
            raise errors[0]
        # one request with n=5 brought five replies
        came_together = any(reply.choice.origin.together > 1 for reply in replies)
        values = tuple(reply.value for reply in replies)
        return Asked(values, tuple(errors), together=came_together)

    async def ask_for_weights(self, wanted_probability: LabelProbability) -> Asked[Any]:
        """Ask for a reply, and for the probability that each of its verdicts is positive.

        The probability is called the weight of the verdict. It is read from the tokens
        of the reply: the token "1" with probability .9 gives the weight .9. If they do
        not tell it for every verdict, the model is polled: "1" in 2 of 3 replies gives
        2/3. A single verdict is asked for at the question's own temperature, 0; not the
        first one of an endpoint that leaves out probabilities without an error.

        Args:
            wanted_probability: Which label of a verdict is the positive one, such as 1
                of 0 and 1; and how many polls are asked if the tokens do not tell.

        Raises:
            TooFewPolls: If polls were lost that could turn a verdict, or
                ``NoReplyInTime``.
            QuestionNotSupported: If the model tells no probabilities of tokens, and the
                question is not asked without.
            JudgeError: If there is no reply at all.
        """
        with_logprobs = replace(self._request, top_logprobs=_ALTERNATIVES)
        replies, errors = await self._ask(with_logprobs, polls=1, first_poll=0)
        if errors:
            raise errors[0]
        (reply,) = replies
        if wanted_probability.needs_tokens and not reply.choice.tokens:
            raise no_logprobs(self._judge_name)
        # None for a verdict whose token does not tell
        weights_of_tokens = read_weights(reply, self._question, wanted_probability)
        known_weights = tuple(
            weight for weight in weights_of_tokens if weight is not None
        )
        has_tokens = bool(reply.choice.tokens)
        probable_reply = (
            with_probable_bits(reply, wanted_probability) if has_tokens else None
        )
        are_all_known = 0 < len(known_weights) == len(weights_of_tokens)
        if are_all_known and probable_reply is not None:
            return Asked((probable_reply,), weights=known_weights)
        # a verdict, or a bit beside it, was drawn, and no token tells its probability
        is_draw = has_tokens and (not known_weights or probable_reply is None)
        if is_draw and wanted_probability.fallback_polls == 1:
            return await self.weigh_by_polls(wanted_probability)
        return await self.weigh_by_polls(
            wanted_probability, first_poll=reply, weights_of_tokens=weights_of_tokens
        )

    async def weigh_by_polls(
        self,
        wanted_probability: LabelProbability,
        first_poll: ReadReply[Any] | None = None,
        weights_of_tokens: Sequence[Weight | None] = (),
    ) -> Asked[Any]:
        """Poll the model; a verdict's weight is the share of polls that say "positive".

        Example: 3 polls say 1, 1 and 0, and 1 is the positive label: 2/3.

        Args:
            wanted_probability: Which label's probability is wanted, and how many polls
                are asked.
            first_poll: A reply to the question that counts as the first poll.
            weights_of_tokens: The weights that the tokens of this reply tell, None for a
                verdict whose token does not tell.

        Raises:
            TooFewPolls: If polls were lost that could turn a verdict, or
                ``NoReplyInTime``.
            JudgeError: If there is no reply at all.
        """
        replies_so_far = [] if first_poll is None else [first_poll]
        new_replies: list[ReadReply[Any]] = []
        errors: list[JudgeError] = []
        n_missing = wanted_probability.fallback_polls - len(replies_so_far)
        if n_missing > 0:
            new_replies, errors = await self._ask(
                self._request, polls=n_missing, first_poll=len(replies_so_far)
            )
        replies = tuple(reply.value for reply in (*replies_so_far, *new_replies))
        if not replies:
            raise errors[0]

        polls = Asked(replies, tuple(errors))
        shares = weights_by_share(replies, wanted_probability)
        for share in shares:
            n_yes = round(share.p * len(replies))
            error = error_of_lost_polls(polls, n_yes, len(replies) - n_yes)
            if error is not None:
                raise error
        if len(replies) == 1 and weights_of_tokens:
            # of a single reply 1 and 0 are no probabilities, unless its token tells one
            shares = tuple(
                share if weight_of_token is None else weight_of_token
                for weight_of_token, share in zip(
                    weights_of_tokens, shares, strict=True
                )
            )
        return Asked(replies, polls.failures, shares)

    async def _ask(
        self, request: ChatRequest, polls: int, first_poll: int
    ) -> tuple[list[ReadReply[Any]], list[JudgeError]]:
        """Ask for several independent replies (polls), and add their cost to ``usage``.

        Of five polls four may be readable: four replies and one error are returned.

        Args:
            request: The request for one reply.
            polls: How many replies.
            first_poll: Index of the first of them among all replies to the question.

        Returns:
            The replies that could be read, and the errors of the other polls.

        Raises:
            JudgeUnavailable: If a poll was refused, or not sent because of a limit of
                the run.
        """
        answers = await self._session.ask(
            request,
            partial(read, question=self._question),
            polls=polls,
            first_poll=first_poll,
            is_users_reader=not is_ours(self._question.Reply),  # then read in a thread
        )
        self.usage += answers.usage
        replies: list[ReadReply[Any]] = []
        errors: list[JudgeError] = []
        for outcome in answers.outcomes:
            if isinstance(outcome, JudgeUnavailable):
                raise outcome
            if isinstance(outcome, JudgeError):
                errors.append(outcome)
            else:
                replies.append(outcome)
        return replies, errors


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
_STRING = re.compile(r'"(?P<text>(?:[^"\\]++|\\.)*+)"', re.DOTALL)
_VALUE = re.compile(r"\s*+:\s*+\"?\s*+")
# By so much endpoints round probabilities up.
_ROUNDING = 1e-3


def read_weights(
    reply: ReadReply[BaseModel],
    question: Question[BaseModel],
    wanted_probability: LabelProbability,
) -> tuple[Weight | None, ...]:
    """Return for each verdict of a reply how probable "1" (or "yes") was in its place.

    The log-probabilities of the reply's tokens tell it. Example: the reply holds a
    verdict on text A, ``{"label": "A", "useful": 1}``, and one on text B, ``{"label":
    "B", "useful": 0}``. (.9, None) is returned: the "1" of A had a probability of .9,
    and the tokens of B do not tell. All are None if the verdicts cannot be matched with
    the model's text, or if the model wrote anything before a verdict: the probability is
    then that of one chain of thought.

    Args:
        reply: The reply, with its tokens.
        question: The question.
        wanted_probability: Names the field with the verdict ("useful"), and the field
            with the id of the text ("label").

    Source:
        Design note "Probabilities from tokens".
    """
    verdicts = verdicts_of(reply.value)
    all_unknown = (None,) * len(verdicts)
    # nothing but the id of its text may stand before a verdict
    keys = _keys_in(reply)
    names = [name for name, _ in keys]
    field = wanted_probability.field.casefold()
    id_field = wanted_probability.item_id_field
    name_of_list = list_field(question.Reply)
    for name_before, name in zip(["", *names], names, strict=False):
        if name == field and name_before not in ("", name_of_list, id_field):
            return all_unknown

    # in a list of verdicts each depends on those written before
    mode: Mode = "logprobs" if name_of_list is None else "sequential"
    weights_in_text_order = label_weights(reply, wanted_probability, mode)
    if len(weights_in_text_order) != len(verdicts):
        return all_unknown
    if id_field is None:
        is_single_verdict = len(verdicts) == 1
        return weights_in_text_order if is_single_verdict else all_unknown

    # the model may have written B before A: the order of the verdicts is wanted
    ids_in_text_order: list[str] = []
    for name, offset in keys:
        id_in_text = _ID.match(reply.choice.text, offset)
        if name == id_field.casefold() and id_in_text is not None:
            ids_in_text_order.append(id_in_text[1])
    ids = [str(getattr(verdict, id_field)) for verdict in verdicts]
    if sorted(ids_in_text_order) != sorted(ids):
        return all_unknown
    return tuple(weights_in_text_order[ids_in_text_order.index(id_)] for id_ in ids)


def with_probable_bits(
    reply: ReadReply[BaseModel], wanted_probability: LabelProbability
) -> BaseModel | None:
    """Return a reply whose bits beside the verdict are the more probable ones.

    At temperature 1 a bit that is 1 with .9 is written as 0 in one of ten replies.

    Returns:
        The reply; None if the token of such a bit does not tell.
    """
    probable_bits: dict[str, bool] = {}
    for name, info in type(reply.value).model_fields.items():
        if info.annotation is not bool or name == wanted_probability.field:
            continue
        weights = label_weights(reply, LabelProbability(name), "logprobs")
        for weight in weights:  # none for a bit that the model left out
            if weight is None:
                return None
            probable_bits[name] = is_yes(weight.p)
    return reply.value.model_copy(update=probable_bits)


def _keys_in(reply: ReadReply[Any]) -> list[tuple[str, int]]:
    """Return the keys of a reply, in lower case, and where in the text values begin.

    A quote and spaces before a value are skipped. Names inside strings are no keys.
    """
    keys: list[tuple[str, int]] = []
    text = reply.choice.text
    for string in _STRING.finditer(text, reply.start, reply.end):
        value = _VALUE.match(text, string.end(), reply.end)
        if value is not None:
            keys.append((string["text"].strip().casefold(), value.end()))
    return keys


def label_weights(
    reply: ReadReply[Any], wanted_probability: LabelProbability, mode: Mode
) -> tuple[Weight | None, ...]:
    """Return the weights of all fields of one name in the reply's JSON object.

    A weight is the probability of the positive label. Example with the labels "1" and
    "0": the token of a field may be "1" with 90 %, "0" with 10 %: the weight is .9. It
    is None where the token does not tell the labels apart.

    Args:
        reply: The reply, with its tokens.
        wanted_probability: Which field has the label, which labels there are, and which
            of them is the positive one.
        mode: How the probability came about, such as "logprobs"; each weight notes it.

    Returns:
        The weights in order of appearance. () without log-probabilities, or if the
        tokens are not those of the text.
    """
    text, tokens = reply.choice.text, reply.choice.tokens
    # the tokens may begin with a reasoning that the text lacks: its length is added
    text_of_tokens = "".join(token.token for token in tokens)
    start_in_tokens = text_of_tokens.rfind(text.strip())
    if start_in_tokens < 0:
        return ()
    n_leading_spaces = len(text) - len(text.lstrip())
    shift = start_in_tokens - n_leading_spaces

    labels = wanted_probability.labels
    # where each token ends in the joined text of all tokens
    token_ends = list(accumulate(len(token.token) for token in tokens))
    weights: list[Weight | None] = []
    for name, offset in _keys_in(reply):
        if name != wanted_probability.field.casefold():
            continue
        label_start = offset + shift
        index = bisect_right(token_ends, label_start)
        if index == len(token_ends):
            weights.append(None)
            continue
        token = tokens[index]
        # a token may also hold text before the label, as ``": `` before 1
        token_start = token_ends[index] - len(token.token)
        before_label = token.token[: label_start - token_start]
        # The token is usually listed among its alternatives; in a mapping it counts once.
        logprob_by_text = {token.token: token.logprob, **dict(token.alternatives)}
        labels_with_logprobs = [
            (_label_of_text(token_text, before_label, labels), logprob)
            for token_text, logprob in logprob_by_text.items()
        ]
        weight = probability_of_positive(labels_with_logprobs, wanted_probability, mode)
        weights.append(weight)
    return tuple(weights)


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
    has_words_before = before_label.strip(_SIGNS_AROUND) != ""
    if has_words_before and not text.startswith(before_label):
        return None  # beside the token "is 1", the alternative "0" is no label
    plain_text = text.removeprefix(before_label).translate(_PLAIN_DIGITS)
    plain_text = plain_text.lstrip(_SIGNS_AROUND).casefold()
    labels_by_name = [(str(label).casefold(), label) for label in labels]

    # the label at the start of the text: 1 of ``1, "``, but none of ``12``
    for name, label in labels_by_name:
        if plain_text.startswith(name) and _END_OF_LABEL.match(plain_text, len(name)):
            return label
    # the label that a word stands for: 1 for ``true``
    synonym = _SYNONYMS.get(plain_text.rstrip(_SIGNS_AROUND))
    if synonym is not None and set(labels) == {0, 1}:
        return synonym
    # the only label that begins with the text: "supported" for ``sup``
    begun_labels = [
        label for name, label in labels_by_name if name.startswith(plain_text)
    ]
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
    # NaN is no logarithm of a probability, nor a number above 0, but for rounding
    if not listed or not all(logprob <= _ROUNDING for _, logprob in listed):
        return None
    probabilities = [(label, math.exp(min(logprob, 0.0))) for label, logprob in listed]
    total = math.fsum(probability for _, probability in probabilities)
    positive = _probability_of({wanted_probability.positive}, probabilities)
    negative_labels = set(wanted_probability.labels) - {wanted_probability.positive}
    negative = _probability_of(negative_labels, probabilities)
    mass_of_labels = positive + negative
    if mass_of_labels < MASS_FLOOR or total > 1 + _ROUNDING:
        return None

    # A token lists only its most probable alternatives. Those unlisted are below the
    # least one listed, and share what is left of 1. Example: "yes" has .4, "maybe" has
    # .35, and "no" is not listed. At most .25 is left for "no", which cannot win.
    least_listed = min(probability for _, probability in probabilities)
    most_unlisted = max(0.0, min(least_listed, 1 - total))
    is_yes_listed = positive > 0
    is_no_listed = negative > 0
    no_may_win = not is_no_listed and most_unlisted >= positive
    yes_may_win = not is_yes_listed and most_unlisted >= negative
    if no_may_win or yes_may_win:
        return None
    share = positive / mass_of_labels
    if len(listed) == 1:  # what is left of 1 may be the other label's
        share = positive if is_yes_listed else 1 - negative
    return Weight(share, mode, min(mass_of_labels, 1.0))


def _probability_of(
    labels: Collection[Label], probabilities: Sequence[tuple[Label | None, float]]
) -> float:
    """Sum the probabilities of some labels. A label may be listed several times."""
    return math.fsum(
        probability for label, probability in probabilities if label in labels
    )
