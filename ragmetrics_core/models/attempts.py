"""Attempts at a call, the backoff between them, and what limits them.

The module also knows whether the endpoint answers at all.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from ragmetrics_core.data import Usage, errors, sendable_text
from ragmetrics_core.models.chat import (
    CONNECTING_SECONDS,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Finish,
    TokenAlternatives,
    check_prices,
)
from ragmetrics_core.models.endpoint_errors import (
    MOST_BYTES,
    error_of_client,
    error_of_large_reply,
)
from ragmetrics_core.models.limits import Budget, Limiter
from ragmetrics_core.models.openai_form import MOST_TOKENS, add_price
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.models.spending import spending_here
from ragmetrics_core.models.threads import is_being_cancelled

T = TypeVar("T")

_ENDS = get_args(Finish)
# most seconds before the second attempt; they double with each further one
_SHORTEST_WAIT = 0.5
_LONGEST_WAIT = 60.0  # seconds between two attempts, unless the endpoint asks for more
_GIVEN_UP = 600.0  # seconds from which on a request is not repeated
_OUTAGE = 30.0  # seconds for which an endpoint that refuses everything is left alone
_ALONE = 2.0  # seconds for which all others wait for a call that is sent alone
# of them at a time, so that a loop that a client's import blocks for seconds counts as
# one
_SLICE = 0.1
# in a row, from which on an endpoint that has answered is taken to refuse everything
_REFUSALS = 32


class Availability:
    """Whether an endpoint answers at all, as far as the calls of all runs tell."""

    def __init__(self) -> None:
        self.open = False  # a first call got through: others need not wait for it
        self.alone = asyncio.Lock()  # held by a call that is sent alone
        self._waited = 0.0  # seconds for which others have waited for it
        self.answers = 0
        self._refusals = 0
        self._outage: tuple[float, errors.JudgeUnavailable] | None = None

    def check(self) -> None:
        """Raise the error with which the endpoint refuses everything.

        It is raised as long as the endpoint is left alone.
        """
        if self._outage is not None and time.monotonic() < self._outage[0] + _OUTAGE:
            raise self._outage[1].with_traceback(None)

    async def is_first(self) -> bool:
        """Wait until a call got through.

        For one that is sent alone and takes long, two seconds at most.

        Returns:
            True if the caller's own call is the one to be sent alone: it releases
            ``alone`` when that has ended.
        """
        while not self.open:
            before = self._waited
            if self.alone.locked() and before >= _ALONE:
                return False
            try:
                async with asyncio.timeout(_SLICE if self.alone.locked() else None):
                    await self.alone.acquire()
            except TimeoutError:
                self._waited = max(self._waited, before + _SLICE)
                continue  # by now it may be another call that is sent alone
            if self.open:
                self.alone.release()
                return False
            self._waited = 0.0
            return True
        return False

    def observe(
        self, ticket: None, outcome: ChatReply | errors.JudgeError | None
    ) -> None:
        """Learn from a call.

        One refusal tells little of an endpoint that has answered.
        """
        del ticket  # as of a ``Limiter``
        if isinstance(outcome, ChatReply):
            self.answers += 1
            self._refusals = 0
            self.open, self._outage = True, None
        elif isinstance(outcome, errors.JudgeUnavailable):
            self._refusals += 1
            outcome.single = self.open = (
                bool(self.answers) and self._refusals < _REFUSALS
            )
            if not outcome.single:
                self.refuse(outcome)
        elif outcome is not None and (
            self._outage is None or time.monotonic() >= self._outage[0] + _OUTAGE
        ):
            self.open, self._outage = (
                bool(self.answers) or not isinstance(outcome, errors.ConnectionFailed),
                None,
            )

    def refuse(self, error: errors.JudgeUnavailable) -> errors.JudgeUnavailable:
        """Leave the endpoint alone for a while; then a call is sent alone again."""
        self.open, self._outage = False, (time.monotonic(), error)
        return error


@dataclass(slots=True, repr=False)
class Attempts:
    """The calls of one run."""

    model: ChatModel
    endpoint: Availability
    slots: asyncio.Semaphore  # of this run alone
    limiters: Sequence[Limiter]  # beside the budget
    budget: Budget
    store: ReplyStore  # a call leaves only when the replies received before it are kept
    most: int  # calls for one request that fails for a passing reason
    timeout: float | None

    async def send(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, an error that will not pass, or no attempt left.

        Failures are values.

        The usage counts every call that left, whether or not it was answered.
        """
        sent: list[float] = []  # when each call left
        try:
            async with self.budget.in_time():
                reply = await self._attempt(request, sent)
        except errors.LimitReached as reached:
            reply = _reply_of_failures(request, reached)
        if len(sent) == reply.usage.calls <= 1:
            return reply  # nothing to correct
        return replace(
            reply,
            usage=replace(reply.usage, calls=len(sent), faults=max(len(sent) - 1, 0)),
        )

    async def _attempt(self, request: ChatRequest, sent: list[float]) -> ChatReply:
        counted = 0
        while True:
            answers = self.endpoint.answers
            try:
                return await self._call_in_turn(request, sent)
            except errors.JudgeUnavailable as error:
                return _reply_of_failures(request, error)
            except errors.JudgeError as error:
                # told to slow down while others are answered: it takes its turn again,
                # as often as it needs
                counted += not (
                    isinstance(error, errors.RateLimited)
                    and self.endpoint.answers > answers
                )
                wait = seconds_until_next_attempt(
                    error, counted, sent, self.most, self.endpoint.answers > 0
                )
                if wait is not None:
                    await self.budget.pause(wait)
                    continue
                if (
                    isinstance(error, errors.ConnectionFailed)
                    and not self.endpoint.answers
                ):
                    return _reply_of_failures(
                        request,
                        self.endpoint.refuse(errors.JudgeUnavailable(str(error))),
                    )
                return _reply_of_failures(request, error)

    # Slots, rate, budget, and the call.

    async def _call_in_turn(self, request: ChatRequest, sent: list[float]) -> ChatReply:
        """Call as soon as the limits allow it.

        As long as no call got through, alone.
        """
        alone = await self.endpoint.is_first()
        try:
            async with self.slots:
                return await self._call_within_limits(request, sent)
        finally:
            if alone:
                self.endpoint.alone.release()

    async def _call_within_limits(
        self, request: ChatRequest, sent: list[float]
    ) -> ChatReply:
        tokens = sum(len(message.content) for message in request.messages) / 4
        outcome: ChatReply | errors.JudgeError | None = None
        # each limiter observes how the call ended, even if another one fails at it
        with ExitStack() as observing:

            def observe(limiter: Limiter | Availability, ticket: Any) -> None:
                limiter.observe(ticket, outcome)

            try:
                for limiter in self.limiters:
                    observing.callback(observe, limiter, await limiter.acquire(tokens))
                self.endpoint.check()
                await self.store.settled()
                observing.callback(
                    observe, self.budget, await self.budget.acquire(tokens)
                )
                observing.callback(observe, self.endpoint, None)
                outcome = await self._call(request, tokens, sent)
            except errors.JudgeError as error:
                outcome = error
                raise
        return outcome

    async def _call(
        self, request: ChatRequest, tokens: float, sent: list[float]
    ) -> ChatReply:
        spending = spending_here()
        spending.note(Usage(calls=1, faults=int(bool(sent))))
        sent.append(time.monotonic())
        try:
            async with asyncio.timeout(self.timeout):
                reply = await call_authors_code(
                    self.model.name, self._complete, request
                )
        except TimeoutError:
            raise errors.JudgeTimeout(
                f"{self.model.name} sent no reply within {self.timeout:g} s"
            ) from None
        except errors.ContextWindowExceeded as error:
            if not error.where or error.tokens is not None:
                raise
            raise error.from_counts(
                error.where, int(tokens), error.window, about="about "
            ) from None
        spending.note(replace(reply.usage, calls=0, faults=0))  # counted when it left
        return reply

    async def _complete(self, request: ChatRequest) -> ChatReply:
        return check_reply(self.model, await self.model.complete(request))


def _reply_of_failures(request: ChatRequest, error: errors.JudgeError) -> ChatReply:
    """A reply without a choice, which says of each why."""
    return ChatReply((), failures=(error,) * request.n)


def seconds_until_next_attempt(
    error: errors.JudgeError,
    counted: int,
    sent: Sequence[float],
    most: int = 8,
    answered: bool = True,
) -> float | None:
    """Seconds until the next attempt, by exponential backoff with full jitter.

    None if there shall be none.
    """
    if not isinstance(error, errors.TransientJudgeError) or counted >= most:
        return None
    longest = min(_SHORTEST_WAIT * 2 ** min(max(counted - 1, 0), 10), _LONGEST_WAIT)
    wait = jitter = random.uniform(0, longest)  # noqa: S311 - jitter is no secret
    if error.retry_after is not None:
        wait = max(jitter, error.retry_after + min(jitter, _SHORTEST_WAIT))
    connecting = errors.Unreachable if answered else errors.ConnectionFailed
    seconds_left = (
        sent[0]
        + (CONNECTING_SECONDS if isinstance(error, connecting) else _GIVEN_UP)
        - time.monotonic()
    )
    return wait if wait <= seconds_left else None


async def call_authors_code(
    name: str, call: Callable[..., Awaitable[T]], *given: Any
) -> T:
    """Call what a model's author may have written.

    What it raises, unless an error of ours, becomes a judge error.
    """
    try:
        return await call(*given)
    except errors.RagMetricsError:
        raise
    except asyncio.CancelledError as raised:
        if is_being_cancelled():
            raise
        error = error_of_client(raised, name)
    except (
        Exception,  # noqa: BLE001
        SystemExit,
        KeyboardInterrupt,
    ) as raised:  # nobody knows what a client raises
        error = error_of_client(raised, name)
    raise error  # outside of any handler: what a client raised may hold keys and texts


def check_reply(model: ChatModel, reply: ChatReply) -> ChatReply:
    """Return the reply with what it cost, in a form that can be kept.

    Lone surrogates and NUL are replaced, because no file or next request can carry
    them.
    """
    if wrong := _what_is_wrong(reply):
        raise errors.JudgeError(
            f"{model.name} could not answer: its complete returned {wrong}"
        )
    if sum(len(choice.text) for choice in reply.choices) > MOST_BYTES:
        raise error_of_large_reply(model.name)
    if not reply.usage.cost:
        prices = model.prices()
        check_prices(model.name, prices)
        reply = add_price(reply, prices)
    models = tuple(map(sendable_text, reply.usage.models))
    if models == reply.usage.models and all(
        sendable_text(choice.text) == choice.text for choice in reply.choices
    ):
        return reply
    return replace(
        reply,
        choices=tuple(map(_clean_text, reply.choices)),
        usage=replace(reply.usage, models=models),
    )


def _clean_text(choice: Choice) -> Choice:
    tokens = tuple(
        replace(token, token=sendable_text(token.token)) for token in choice.tokens
    )
    return replace(choice, text=sendable_text(choice.text), tokens=tokens)


def _what_is_wrong(reply: object) -> str:
    """What of a reply is not of its type, in words that do not hold it; "" if all is."""
    if not isinstance(reply, ChatReply) or not isinstance(reply.choices, (tuple, list)):
        return f"a {type(reply).__name__}, not a ChatReply with a tuple of Choices"
    for it in reply.choices:
        whole = (
            isinstance(it, Choice) and isinstance(it.text, str) and it.finish in _ENDS
        )
        if not whole or not all(
            isinstance(token, TokenAlternatives) for token in it.tokens
        ):
            return (
                f"what is no Choice with a text, a finish of {', '.join(_ENDS)}, and"
                " TokenAlternatives or none"
            )
    if not isinstance(reply.usage, Usage):
        return f"a usage that is a {type(reply.usage).__name__}, no Usage"
    counts = (
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
        reply.usage.cost or 0,
    )
    counted = all(
        isinstance(count, (int, float)) and 0 <= count <= MOST_TOKENS
        for count in counts
    )
    return (
        ""
        if counted
        else f"a usage whose tokens or cost are no numbers from 0 to {MOST_TOKENS}"
    )
