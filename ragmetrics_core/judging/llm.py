"""The LLM judge: asks a chat model any question, and says what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, cast

from pydantic import BaseModel

from ragmetrics_core.data import (
    Answer,
    Asked,
    LabelProbability,
    NotAnswered,
    Question,
    R,
    Usage,
    Weight,
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
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.judging.probabilities import read_weights, with_probable_bits
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
        # a single verdict without a probability is no draw
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
        weights_of_tokens = read_weights(reply, self._question)
        known_weights = tuple(
            weight for weight in weights_of_tokens if weight is not None
        )
        probable_reply = with_probable_bits(reply, self._question)
        are_all_known = 0 < len(known_weights) == len(weights_of_tokens)
        if are_all_known and probable_reply is not None:
            return Asked((probable_reply,), weights=known_weights)
        # a verdict, or a bit beside it, was drawn, and no token tells its probability
        is_draw = bool(reply.choice.tokens) and (
            not known_weights or probable_reply is None
        )
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
        return replace(polls, weights=shares)

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
