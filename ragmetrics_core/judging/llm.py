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
from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    JudgeError,
    JudgeUnavailable,
    SettingError,
    TooFewPolls,
)
from ragmetrics_core.judging import windows
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.judging.parsing import ReadReply
from ragmetrics_core.judging.probabilities import mode_of, read_weights
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.judging.reply_forms import names_every_field, read, schema_of
from ragmetrics_core.models.chat import ChatRequest
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.fitting import gather_all
from ragmetrics_core.models.guard_model import GuardModel
from ragmetrics_core.models.session import Session
from ragmetrics_core.models.threads import compute_beside_loop

# modules whose replies are read in proportion to their length
_OURS = "ragmetrics_core."


@dataclass(eq=False, repr=False)
class LLMJudge(ModelJudge):
    """A judge that asks a chat model.

    Args:
        model: The chat model.
        max_tokens: Limit of a reply's length, in tokens; a reply that it cuts off is
            asked again with four times as much.
        top_logprobs: Alternatives per token, where log-probabilities are asked for.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
        replicate: Number of an independent repetition, e.g. of a noise study: stored
            replies of one are not used for another.

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
    top_logprobs: int = 5

    def __post_init__(self) -> None:
        if isinstance(self.model, DecisionModel):
            raise SettingError(
                f"{self.model.name} answers typed questions and writes nothing: take"
                " DecisionJudge(model), or its name as the judge"
            )
        if isinstance(self.model, GuardModel):
            raise SettingError(
                f"{self.model.name} replies one word about one text: take"
                " GuardJudge(model), or its name as the judge"
            )
        self._check_number("max_tokens", least=1)
        self._check_number("top_logprobs", least=0)
        super().__post_init__()

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        If a text is too long for the model, the question is asked window by window
        where that can be.

        A run of many questions shares a ``session``. If no question will be answered,
        the reply's error is ``JudgeUnavailable``, and the usage says what was paid
        before.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
            SettingError: If the template shows a part that the question does not have.
        """
        if self._run_session is None:
            return await self._for_one_call().answer(question)
        answer = await self._answer_whole(self._run_session, question)
        partial_questions = windows.halve_questions(question, answer)
        if not partial_questions:
            return answer
        partial_answers = await gather_all(map(self.answer, partial_questions))
        return windows.join_verdicts(question, answer, partial_answers)

    async def _answer_whole(self, session: Session, question: Question[R]) -> Answer[R]:
        """Ask a question with all its texts, and return the answer with what it cost.

        If the question wants the probability of a label (``weigh``), the reply gets it
        from log-probabilities or polls. Otherwise ``question.polls`` says how many
        replies are asked for.
        """
        await session.prepare()
        # Creating the object renders the prompt. For a long question that is done in a
        # thread, because it would hold up the event loop.
        create_asking = partial(
            _Asking, self, session, cast("Question[BaseModel]", question)
        )
        asking = await compute_beside_loop(create_asking, size=question.n_characters)
        reply: Asked[R] | NotAnswered
        try:
            if question.weigh is None:
                reply = await asking.poll()
            else:
                reply = await asking.ask_for_weights(question.weigh)
        except JudgeError as error:
            reply = NotAnswered(error.with_traceback(None))
        return Answer(reply, asking.usage)


class _Asking:
    """One question to a chat model, and what it has cost so far.

    Attributes:
        usage: What all calls for the question cost.
    """

    def __init__(
        self, judge: LLMJudge, session: Session, question: Question[BaseModel]
    ) -> None:
        """Render the question as a request; nothing is sent.

        The request has the JSON schema of the reply, unless the prompt names all fields
        of the reply. If the request has no schema, the session adds the schema only when
        it asks again after a malformed reply.
        """
        self.usage = Usage()
        self._session = session
        self._question = question
        self._schema = schema_of(question.Reply)
        template = question.instructions.template
        does_prompt_name_fields = names_every_field(question.Reply, template)
        self._request = ChatRequest(
            messages=render(question),
            schema=None if does_prompt_name_fields else self._schema,
            temperature=question.temperature,
            max_tokens=judge.max_tokens,
        )
        # how many alternatives of a token to ask for; 0 where the model gives none
        self._top_logprobs = judge.top_logprobs
        # the session lists the features that it knows the model not to have
        if "logprobs" in session.lacking():
            self._top_logprobs = 0

    async def poll(self) -> Asked[Any]:
        """Ask for as many independent replies (polls) as the question wants.

        Returns:
            The replies that could be read, and the errors of the others.

        Raises:
            JudgeError: If no reply could be read: the error of the first poll. An error
                that says that the texts are too long goes before it, because the texts
                can then be divided and asked about again.
        """
        question = self._question
        replies, errors = await self._ask(
            self._request, question.polls, question.first_poll or 0
        )
        if not replies:
            for error in errors:
                if isinstance(error, ContextWindowExceeded):
                    raise error
            raise errors[0]
        # ``together`` is how many replies one request gave. Who adds polls one by one
        # needs to know: stopping early saves nothing where one request gives several.
        came_together = any(reply.choice.origin.together > 1 for reply in replies)
        values = tuple(reply.value for reply in replies)
        return Asked(values, tuple(errors), together=came_together)

    async def ask_for_weights(self, label_probability: LabelProbability) -> Asked[Any]:
        """Ask for a reply with a weight for each verdict: the probability of a label.

        The weights come from the first of these that works:

        1. The log-probabilities of the tokens that hold the labels, if they settle every
           verdict.
        2. Polls: the question is asked several times, and a weight is the share of
           replies with the label.
        3. The verdicts themselves, if only one poll is allowed and the reply lists
           several verdicts: 1 for the label, else 0. A verdict that its token settled
           keeps the weight of its token.

        Args:
            label_probability: The label whose probability is wanted, and how often to
                poll for it.

        Raises:
            TooFewPolls: If no majority of the polls was answered.
            JudgeError: If there is no reply at all.
        """
        replies_read: list[ReadReply[Any]] = []
        # One for each verdict; None if its token does not settle it. () if the endpoint
        # gives no log-probabilities.
        weights_of_tokens: tuple[Weight | None, ...] = ()
        request = replace(
            self._request, temperature=1.0, top_logprobs=self._top_logprobs
        )
        if self._top_logprobs:
            replies_read, errors = await self._ask(request, polls=1, first_poll=0)
            if errors:
                raise errors[0]
            weights_of_tokens = read_weights(replies_read[0], self._question)
            settled = tuple(
                weight for weight in weights_of_tokens if weight is not None
            )
            if settled and len(settled) == len(weights_of_tokens):
                # case 1: the log-probabilities settle every verdict
                return Asked((replies_read[0].value,), weights=settled)

        n_polls = label_probability.fallback_polls
        without_logprobs = replace(request, top_logprobs=0)
        replies = await self._poll_to_majority(without_logprobs, n_polls, replies_read)
        mode = mode_of(self._question)
        lists_verdicts = mode == "sequential"  # one reply lists all verdicts
        if n_polls > 1 or not lists_verdicts:
            # case 2: shares of the polls; with a single verdict also the share of one poll
            shares = weights_by_share(replies, label_probability, "polls")
            return Asked(replies, weights=shares)
        # Case 3: with one reply the share is 1 or 0. These weights have the same mode as
        # those that were read from tokens, since both are weights of one reply.
        weights_of_verdicts = weights_by_share(replies, label_probability, mode)
        if not weights_of_tokens:
            return Asked(replies, weights=weights_of_verdicts)
        weights = _fill_unsettled(weights_of_tokens, weights_of_verdicts)
        return Asked(replies, weights=weights)

    async def _poll_to_majority(
        self,
        request: ChatRequest,
        n_polls: int,
        read_before: Sequence[ReadReply[Any]],
    ) -> tuple[BaseModel, ...]:
        """Poll until ``n_polls`` replies were asked for; return those that were read.

        Args:
            request: The request for one reply.
            n_polls: How many replies are wanted in all.
            read_before: Replies to the same question that count among them.

        Raises:
            TooFewPolls: If no majority of the polls was answered.
            JudgeError: If there is no reply at all.
        """
        read_now: list[ReadReply[Any]] = []
        errors: list[JudgeError] = []
        n_missing = n_polls - len(read_before)
        if n_missing > 0:
            read_now, errors = await self._ask(
                request, polls=n_missing, first_poll=len(read_before)
            )
        replies = tuple(reply.value for reply in (*read_before, *read_now))
        if errors and not replies:
            raise errors[0]
        has_majority = 2 * len(replies) > n_polls
        if has_majority:
            return replies
        first_error = errors[0] if errors else None
        raise TooFewPolls(
            f"{len(replies)} of {n_polls} polls were answered, a majority is needed; ask"
            " again"
        ) from first_error

    async def _ask(
        self, request: ChatRequest, polls: int, first_poll: int
    ) -> tuple[list[ReadReply[Any]], list[JudgeError]]:
        """Ask for several independent replies (polls), and add their cost to ``usage``.

        Args:
            request: The request for one reply.
            polls: How many replies.
            first_poll: Index of the first of them among all replies to the question.

        Returns:
            The replies that could be read, and the errors of the other polls.

        Raises:
            JudgeUnavailable: If a poll was refused, or was not sent because of a limit
                of the run. Scoring only the polls before it would give a score that a
                complete run would not repeat.
        """
        # A user's own reply class may check replies by slow code.
        module_of_reply = self._question.Reply.__module__
        is_users_own_reply = not module_of_reply.startswith(_OURS)
        answers = await self._session.ask(
            request,
            partial(read, question=self._question),
            schema=self._schema,
            polls=polls,
            first_poll=first_poll,
            own_reader=is_users_own_reply,
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


def _fill_unsettled(
    by_token: Sequence[Weight | None], by_verdict: Sequence[Weight]
) -> tuple[Weight, ...]:
    """Return the weight of each verdict by its token, else by the verdict itself.

    Args:
        by_token: The weights by tokens; None where a token does not settle the verdict.
        by_verdict: The weights by verdicts alone: 1 or 0.
    """
    weights: list[Weight] = []
    for weight_of_token, weight_of_verdict in zip(by_token, by_verdict, strict=True):
        if weight_of_token is None:
            weights.append(weight_of_verdict)
        else:
            weights.append(weight_of_token)
    return tuple(weights)
