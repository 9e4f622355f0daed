"""Attempts at a call, the backoff between them, and what limits them.

``Attempts`` sends a request until it is answered, or until another attempt makes no
sense. ``Availability`` knows whether the endpoint answers at all: as long as no call
got through, one call is sent alone and all others wait for it.
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

_FINISHES = get_args(Finish)
# All durations are in seconds.
# At most so long before the second attempt; twice as long before each further one.
_FIRST_LONGEST_WAIT = 0.5
# At most so long between two attempts, unless the endpoint asks for more.
_LONGEST_WAIT = 60.0
# A wait does not grow further after so many doublings: it is at its longest by then.
_MOST_DOUBLINGS = 10
# So long after its first call a request is not repeated any more.
_REPEATING_SECONDS = 600.0
# So long an endpoint that refuses everything is left alone.
_OUTAGE_SECONDS = 30.0
# So long all others wait for a call that is sent alone.
_WAITING_FOR_FIRST = 2.0
# They wait in slices: a loop that a client's import blocks for seconds counts as one.
_WAITING_SLICE = 0.1
_CHARACTERS_PER_TOKEN = 4  # about so many, for estimates
# After so many refusals in a row, an endpoint that has answered before is taken to
# refuse everything.
_MOST_REFUSALS = 32


class Availability:
    """Whether an endpoint answers at all, as far as the calls of all runs tell."""

    def __init__(self) -> None:
        # A call got through, so that others need not wait for a first one.
        self._is_open = False
        # Held by the call that is sent alone.
        self._first_call = asyncio.Lock()
        # Seconds for which others have waited for the call that is sent alone.
        self._waited = 0.0
        # How many calls were answered.
        self.n_answers = 0
        # How many calls were refused since the last answer.
        self._n_refusals = 0
        # The error with which the endpoint refuses everything, and since when.
        self._outage: errors.JudgeUnavailable | None = None
        self._outage_began_at = 0.0

    def check(self) -> None:
        """Raise the error with which the endpoint refuses everything, if it does.

        It is raised as long as the endpoint is left alone.
        """
        if self._outage is not None and not self._is_outage_over():
            raise self._outage.with_traceback(None)

    async def is_first(self) -> bool:
        """Wait until a call got through, or until it is this caller's turn to try.

        Where another call is sent alone and takes long, the wait is two seconds.

        Returns:
            True if the caller's own call is the one to be sent alone. The caller then
            calls ``end_first_call`` when it has ended.
        """
        while not self._is_open:
            another_is_sent = self._first_call.locked()
            waited_before = self._waited
            if another_is_sent and waited_before >= _WAITING_FOR_FIRST:
                return False
            try:
                async with asyncio.timeout(_WAITING_SLICE if another_is_sent else None):
                    await self._first_call.acquire()
            except TimeoutError:
                # All callers wait for the same slice, which is counted once.
                self._waited = max(self._waited, waited_before + _WAITING_SLICE)
                continue  # by now it may be another call that is sent alone
            if self._is_open:
                self._first_call.release()
                return False
            self._waited = 0.0
            return True
        return False

    def end_first_call(self) -> None:
        """Tell that the call that was sent alone has ended."""
        self._first_call.release()

    def observe(
        self, ticket: None, outcome: ChatReply | errors.JudgeError | None
    ) -> None:
        """Learn from how a call ended whether the endpoint answers at all.

        After an answer the endpoint is open: calls need not wait for each other. After
        a refusal that would meet every call, such as a wrong key, an outage begins: for
        a while no more calls are sent. For an endpoint that has answered before, an
        outage begins only after many refusals in a row; until then a refusal is marked
        as ``single``, and fails its own request alone.

        Args:
            ticket: Not used; limiters have a method of the same form.
            outcome: The reply or the error; None for a call that never left.
        """
        del ticket
        if isinstance(outcome, ChatReply):
            self.n_answers += 1
            self._n_refusals = 0
            self._outage = None
            self._is_open = True
        elif isinstance(outcome, errors.JudgeUnavailable):
            self._n_refusals += 1
            # One refusal tells little of an endpoint that has answered before.
            is_single = self.n_answers > 0 and self._n_refusals < _MOST_REFUSALS
            outcome.single = is_single
            if is_single:
                self._is_open = True
            else:
                self.refuse(outcome)
        elif outcome is not None:
            if self._outage is not None and not self._is_outage_over():
                return  # the late end of a call that left before the outage
            # Any other error comes from an endpoint that is there, unless the
            # connection itself failed.
            is_reached = not isinstance(outcome, errors.ConnectionFailed)
            self._is_open = is_reached or self.n_answers > 0
            self._outage = None

    def refuse(self, error: errors.JudgeUnavailable) -> errors.JudgeUnavailable:
        """Leave the endpoint alone for a while; then a call is sent alone again."""
        self._is_open = False
        self._outage = error
        self._outage_began_at = time.monotonic()
        return error

    def _is_outage_over(self) -> bool:
        """Whether the endpoint was left alone for long enough."""
        return time.monotonic() >= self._outage_began_at + _OUTAGE_SECONDS


@dataclass(slots=True, repr=False)
class Attempts:
    """The calls of one run to one model.

    Args:
        model: The model.
        endpoint: Whether its endpoint answers at all, as all runs know.
        slots: Bounds the calls in flight, of this run alone.
        limiters: What limits calls beside the budget.
        budget: What the run may spend.
        store: Where replies are kept; a call leaves only when those received before it
            are kept.
        most_attempts: So many calls are made at most for one request that fails for a
            passing reason.
        timeout: Seconds for one call; None for no limit.
    """

    model: ChatModel
    endpoint: Availability
    slots: asyncio.Semaphore
    limiters: Sequence[Limiter]
    budget: Budget
    store: ReplyStore
    most_attempts: int
    timeout: float | None

    async def send(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, an error that will not pass, or no attempt left.

        An error is not raised: the reply then has no choices, and its ``failures`` say
        why.

        The usage counts every call that left, whether or not it was answered. All but
        the last of them count as faults.
        """
        sent_at: list[float] = []  # when each call left
        try:
            async with self.budget.in_time():
                reply = await self._call_until_it_succeeds(request, sent_at)
        except errors.LimitReached as reached:
            reply = _reply_of_failures(request, reached)
        n_calls = len(sent_at)
        if n_calls <= 1 and reply.usage.calls == n_calls:
            return reply  # nothing to correct
        n_faults = max(n_calls - 1, 0)
        usage = replace(reply.usage, calls=n_calls, faults=n_faults)
        return replace(reply, usage=usage)

    async def _call_until_it_succeeds(
        self, request: ChatRequest, sent_at: list[float]
    ) -> ChatReply:
        """Call again after each error that may pass, until no further attempt is due.

        If none is due any more, or the endpoint refuses everything, a reply without
        choices that holds the error is returned.

        Args:
            request: The request.
            sent_at: Gets the time at which each call leaves.
        """
        n_counted_failures = 0
        while True:
            n_answers_before = self.endpoint.n_answers
            try:
                return await self._call_in_turn(request, sent_at)
            except errors.JudgeUnavailable as error:
                return _reply_of_failures(request, error)
            except errors.JudgeError as error:
                others_are_answered = self.endpoint.n_answers > n_answers_before
                is_rate_limited = isinstance(error, errors.RateLimited)
                # Told to slow down while others are answered, a request takes its turn
                # again as often as it needs.
                if not (is_rate_limited and others_are_answered):
                    n_counted_failures += 1
                wait = seconds_until_next_attempt(
                    error,
                    n_counted_failures,
                    sent_at,
                    most_attempts=self.most_attempts,
                    has_answered=self.endpoint.n_answers > 0,
                )
                if wait is None:
                    return _reply_of_failures(request, self._error_to_tell(error))
            await self.budget.pause(wait)

    def _error_to_tell(self, error: errors.JudgeError) -> errors.JudgeError:
        """The error after the last attempt.

        An endpoint that never answered and cannot be reached is one that refuses
        everything, which the other requests need not find out again.
        """
        never_answered = self.endpoint.n_answers == 0
        if isinstance(error, errors.ConnectionFailed) and never_answered:
            return self.endpoint.refuse(errors.JudgeUnavailable(str(error)))
        return error

    # Slots, rate, budget, and the call.

    async def _call_in_turn(
        self, request: ChatRequest, sent_at: list[float]
    ) -> ChatReply:
        """Call as soon as the limits allow it; alone as long as no call got through."""
        is_sent_alone = await self.endpoint.is_first()
        try:
            async with self.slots:
                return await self._call_within_limits(request, sent_at)
        finally:
            if is_sent_alone:
                self.endpoint.end_first_call()

    async def _call_within_limits(
        self, request: ChatRequest, sent_at: list[float]
    ) -> ChatReply:
        """Call once every limiter and the budget allow it.

        All of them, and the record of whether the endpoint answers, are told how the
        call ended: with a reply, with an error, or with None where it never left.

        Args:
            request: The request.
            sent_at: Gets the time at which the call leaves.
        """
        n_characters = sum(len(message.content) for message in request.messages)
        n_tokens = n_characters / _CHARACTERS_PER_TOKEN
        outcome: ChatReply | errors.JudgeError | None = None
        # The stack runs all its callbacks, even if one of them fails.
        with ExitStack() as at_the_end:

            def tell(limiter: Limiter | Availability, ticket: Any) -> None:
                # runs when the call has ended, and tells the outcome of that moment
                limiter.observe(ticket, outcome)

            try:
                for limiter in self.limiters:
                    # the ticket tells the limiter later which call has ended
                    ticket = await limiter.acquire(n_tokens)
                    at_the_end.callback(tell, limiter, ticket)
                self.endpoint.check()  # raises if the endpoint is left alone by now
                # replies that were paid for are on the disk before more are bought
                await self.store.settled()
                budget_ticket = await self.budget.acquire(n_tokens)
                at_the_end.callback(tell, self.budget, budget_ticket)
                at_the_end.callback(tell, self.endpoint, None)
                outcome = await self._call(request, n_tokens, sent_at)
            except errors.JudgeError as error:
                outcome = error
                raise
        return outcome

    async def _call(
        self, request: ChatRequest, n_tokens: float, sent_at: list[float]
    ) -> ChatReply:
        """Send one call, and count it from the moment at which it leaves.

        Args:
            request: The request.
            n_tokens: About how many tokens it has, for the message of an error.
            sent_at: When earlier calls for the request left; this one is added.

        Raises:
            JudgeError: For whatever the model raises, and if no reply comes in time.
        """
        is_repeated = bool(sent_at)
        spending = spending_here()
        spending.note(Usage(calls=1, faults=int(is_repeated)))
        sent_at.append(time.monotonic())
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
            is_made_of_counts = bool(error.where)
            if not is_made_of_counts or error.tokens is not None:
                raise
            # The endpoint did not say how long the request was: our estimate is shown.
            raise error.from_counts(
                error.where, int(n_tokens), error.window, about="about "
            ) from None
        # The call itself was counted when it left.
        spending.note(replace(reply.usage, calls=0, faults=0))
        return reply

    async def _complete(self, request: ChatRequest) -> ChatReply:
        return check_reply(self.model, await self.model.complete(request))


def _reply_of_failures(request: ChatRequest, error: errors.JudgeError) -> ChatReply:
    """A reply without a choice, which says of each why."""
    return ChatReply((), failures=(error,) * request.n)


def seconds_until_next_attempt(
    error: errors.JudgeError,
    n_failures: int,
    sent_at: Sequence[float],
    *,
    most_attempts: int = 8,
    has_answered: bool = True,
) -> float | None:
    """Seconds to wait before a request is sent again after a failed attempt.

    The longest wait doubles with each failure, and a random part of it is waited
    (exponential backoff with full jitter). If the endpoint names a wait, it is no less.

    Args:
        error: How the last attempt ended.
        n_failures: How many attempts failed so far.
        sent_at: When each attempt left, by the monotonic clock.
        most_attempts: So many attempts are made at most.
        has_answered: Whether the endpoint ever answered a call.

    Returns:
        None if there shall be no further attempt: the error will not pass, all attempts
        are used up, or the wait would end too late.
    """
    if not isinstance(error, errors.TransientJudgeError):
        return None
    if n_failures >= most_attempts:
        return None
    n_doublings = min(max(n_failures - 1, 0), _MOST_DOUBLINGS)
    longest_wait = min(_FIRST_LONGEST_WAIT * 2**n_doublings, _LONGEST_WAIT)
    wait = random.uniform(0, longest_wait)  # noqa: S311 - jitter is no secret
    if error.retry_after is not None:
        # Requests are spread: not all come at the moment that the endpoint names.
        spread = min(wait, _FIRST_LONGEST_WAIT)
        wait = max(wait, error.retry_after + spread)
    # An endpoint that never answered is given up after any failed connection; one that
    # has answered, only where nothing listens at its address.
    connection_error = errors.Unreachable if has_answered else errors.ConnectionFailed
    patience = _REPEATING_SECONDS
    if isinstance(error, connection_error):
        patience = CONNECTING_SECONDS
    seconds_left = sent_at[0] + patience - time.monotonic()
    return wait if wait <= seconds_left else None


async def call_authors_code(
    name: str, call: Callable[..., Awaitable[T]], *arguments: Any
) -> T:
    """Call what a model's author may have written.

    Whatever it raises becomes a judge error, but for errors of ours.
    """
    try:
        return await call(*arguments)
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
    """Check the reply of a model, and return it with its price and clean texts.

    The price is added where the model gave none. Lone surrogates and NUL are replaced,
    because no file or next request can carry them.

    Raises:
        JudgeError: If a part of the reply has not its type, or the texts are too large.
    """
    mistake = _mistake_of(reply)
    if mistake:
        raise errors.JudgeError(
            f"{model.name} could not answer: its complete returned {mistake}"
        )
    if sum(len(choice.text) for choice in reply.choices) > MOST_BYTES:
        raise error_of_large_reply(model.name)
    if not reply.usage.cost:
        prices = model.prices()
        check_prices(model.name, prices)
        reply = add_price(reply, prices)
    clean_models = tuple(sendable_text(name) for name in reply.usage.models)
    has_clean_texts = all(
        sendable_text(choice.text) == choice.text for choice in reply.choices
    )
    if has_clean_texts and clean_models == reply.usage.models:
        return reply
    return replace(
        reply,
        choices=tuple(_clean_text(choice) for choice in reply.choices),
        usage=replace(reply.usage, models=clean_models),
    )


def _clean_text(choice: Choice) -> Choice:
    """A choice without lone surrogates and NUL in its text and its tokens."""
    tokens = tuple(
        replace(token, token=sendable_text(token.token)) for token in choice.tokens
    )
    return replace(choice, text=sendable_text(choice.text), tokens=tokens)


def _mistake_of(reply: object) -> str:
    """Say what in a model's reply is not of its type; "" if everything is.

    The words continue "its complete returned". They hold nothing of the reply itself.
    """
    if not isinstance(reply, ChatReply) or not isinstance(reply.choices, (tuple, list)):
        return f"a {type(reply).__name__}, not a ChatReply with a tuple of Choices"
    if not all(_is_choice(choice) for choice in reply.choices):
        return (
            f"what is no Choice with a text, a finish of {', '.join(_FINISHES)}, and"
            " TokenAlternatives or none"
        )
    usage = reply.usage
    if not isinstance(usage, Usage):
        return f"a usage that is a {type(usage).__name__}, no Usage"
    known_cost = usage.cost or 0  # None for an unknown cost
    for number in (usage.prompt_tokens, usage.completion_tokens, known_cost):
        if not isinstance(number, (int, float)) or not 0 <= number <= MOST_TOKENS:
            return (
                f"a usage whose tokens or cost are no numbers from 0 to {MOST_TOKENS}"
            )
    return ""


def _is_choice(value: object) -> bool:
    """Whether a value is a choice whose fields are of their types."""
    if not isinstance(value, Choice) or not isinstance(value.text, str):
        return False
    if value.finish not in _FINISHES:
        return False
    return all(isinstance(token, TokenAlternatives) for token in value.tokens)
