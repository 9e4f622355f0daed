"""Attempts at a call, the backoff between them, and what limits them.

A request is sent until it is answered, or until another attempt makes no sense.
"""

import asyncio
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_args
from uuid import uuid4

from ragmetrics_core.data import Usage, errors, sendable_text
from ragmetrics_core.models.chat import (
    CONNECTING_SECONDS,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Finish,
    TokenAlternatives,
)
from ragmetrics_core.models.endpoint_errors import (
    MOST_BYTES,
    error_of_client,
    error_of_large_reply,
)
from ragmetrics_core.models.endpoint_sentences import add_sentence
from ragmetrics_core.models.features import EndpointState, refused_feature
from ragmetrics_core.models.judge_work import JudgedRow, judged_row, spending_here
from ragmetrics_core.models.limits import Budget, RateLimiter, Slots, late_error
from ragmetrics_core.models.openai_form import add_price
from ragmetrics_core.models.threads import await_users_code, is_being_cancelled

T = TypeVar("T")

_FINISHES = get_args(Finish)
# All durations are in seconds.
# The longest wait before the second attempt. It doubles before each further attempt.
_FIRST_LONGEST_WAIT = 0.5
# The longest wait between two attempts, unless the endpoint asks for more.
_LONGEST_WAIT = 60.0
# Enough doublings to reach the longest wait; more would only make large numbers.
_MOST_DOUBLINGS = 10
# How long after its first call a request may be sent again.
_REPEATING_SECONDS = 600.0
# An endpoint that in a run never answered is none after so many times of a call, and at
# least so many seconds.
_MOST_TIMES_OF_SILENCE = 10
_LEAST_SILENCE = 60.0
# A word, signs behind one, or five letters of a script without spaces: at least a token.
_WORD_OR_SIGNS = re.compile(
    r"[\u3040-\u9fff\uac00-\ud7af]{1,5}|[^\W\u3040-\u9fff\uac00-\ud7af]+"
    r"|[^\w\s]+(?=\s|$)"
)
# Servers that only estimate their tokens take some four characters for one.
_MOST_CHARACTERS_OF_A_TOKEN = 5
# Of English texts no count is below 1.09; some tokenizers join frequent words.
_LEAST_TOKENS_OF_A_WORD = 0.9
# A server may leave the tokens of its cache out of its count, as Ollama 0.30 does: of a
# prompt whose instructions it has read before it mostly counts less.
_MOST_TOKENS_BESIDE_CACHE = 1_000


@dataclass(slots=True, repr=False)
class Attempts:
    """The calls of one run to one model.

    Args:
        model: The model.
        endpoint: Knows whether the model's endpoint answers at all.
        slots_of_run: Bounds the calls in flight of this run.
        slots: Bounds the calls in flight of all runs of the session.
        rate: Bounds the calls per minute of this run.
        budget: What the run may spend.
        most_attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call; None for no limit.
        failed_rows: Gets the rows for which a call failed that may be sent again.
        refusal: Why the run sends no further call; None while it does.
    """

    model: ChatModel
    endpoint: EndpointState
    slots_of_run: asyncio.Semaphore
    slots: Slots
    rate: RateLimiter
    budget: Budget
    most_attempts: int
    timeout: float | None
    failed_rows: set[JudgedRow | None]
    refusal: errors.JudgeUnavailable | None = None

    async def send(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, an error that will not pass, or no attempt left.

        An error is not raised: the reply then has no choices, and its ``failures`` say
        why. While an endpoint that is in doubt is probed, other requests wait.

        The usage counts every call that was sent, whether or not it was answered. All
        calls but the last count as faults. Example: a 503, a pause of a second, then a
        reply: the reply, with ``calls`` 2 and ``faults`` 1.
        """
        sent_at: list[float] = []  # when each call was sent, by the monotonic clock
        usage = Usage()
        n_failures = 0
        is_probe = False
        try:
            async with self.budget.in_time():
                while True:
                    is_probe = is_probe or await self.endpoint.wait_in_doubt()
                    n_answers_before = self.endpoint.n_answers
                    began_at = self.budget.clock()
                    reply = await self._call_in_turn(request, sent_at, is_probe)
                    if reply is None:  # the endpoint came into doubt
                        continue
                    usage += reply.usage
                    error = reply.error
                    if not isinstance(error, errors.TransientJudgeError):
                        break
                    self.failed_rows.add(judged_row.get())
                    # A rate limit while others are answered is no failure: the request
                    # may try again as often as it needs.
                    others_are_answered = self.endpoint.n_answers > n_answers_before
                    is_rate_limited = isinstance(error, errors.RateLimited)
                    if not (is_rate_limited and others_are_answered):
                        n_failures += 1
                    wait = self._wait_after(error, n_failures, sent_at, began_at)
                    self.budget.fault = ""
                    if isinstance(wait, errors.JudgeError):
                        reply = _reply_of_failures(request, wait)
                        break
                    self.budget.fault = str(error)
                    await self.budget.pause(wait)
        except errors.LimitReached as reached:
            reply = _reply_of_failures(request, reached)
        finally:
            if is_probe:
                self.endpoint.probing.release()
        n_calls = len(sent_at)
        n_faults = max(n_calls - 1, 0)
        usage = replace(usage, calls=n_calls, faults=n_faults)
        return ChatReply(reply.choices, usage, reply.failures)

    def _wait_after(
        self,
        error: errors.TransientJudgeError,
        n_failures: int,
        sent_at: Sequence[float],
        began_at: float,
    ) -> float | errors.JudgeError:
        """Return the seconds until the next attempt; an error if no other is due.

        An endpoint that never answered, and cannot be reached, fails for a minute or
        stays silent for long, is in an outage.

        Args:
            error: How the last call ended.
            n_failures: How many calls for the request failed so far.
            sent_at: When each was sent.
            began_at: When the last call was begun, by the clock of the budget.
        """
        is_rate_limited = isinstance(error, errors.RateLimited)
        is_long_wait = (error.retry_after or 0) >= _REPEATING_SECONDS
        if is_long_wait and self.endpoint.is_told_to_wait_again(sent_at[-1]):
            return self.budget.stop(str(error))  # a later run asks the rest
        may_be_loading = self.endpoint.n_answers == 0 and not is_rate_limited
        time_of_a_call = self.budget.clock() - began_at
        if isinstance(error, errors.NoReplyInTime):
            time_of_a_call = self.model.timeout or self.timeout or math.inf
        # one that answered may fail for one row's texts
        is_outage = may_be_loading and self.budget.seconds_silent > max(
            _MOST_TIMES_OF_SILENCE * time_of_a_call, _LEAST_SILENCE
        )
        # a page, twice: the address is wrong, or a sign-in stands before it
        is_outage |= may_be_loading and error.is_of_other and n_failures > 1
        # Where another request was sent to its last attempt, this one has no other.
        is_in_vain = self.endpoint.has_failed and not is_rate_limited
        wait = seconds_until_next_attempt(
            error,
            n_failures,
            seconds_tried=time.monotonic() - sent_at[0],
            most_attempts=self.most_attempts,
            may_be_loading=may_be_loading,
        )
        if wait is not None and not is_outage and not is_in_vain:
            return wait
        self.endpoint.has_failed |= not is_rate_limited
        if isinstance(error, errors.NoReplyInTime) and may_be_loading:
            waited = math.ceil(self.budget.seconds_silent)
            error = errors.NoReplyInTime(
                f"{error}; it never answered, in {waited} s: check that it runs"
            )
        # Other requests need not find out again that nobody is there.
        if is_outage or (may_be_loading and not error.is_sent):
            unavailable = errors.JudgeUnavailable(str(error))
            self.endpoint.begin_outage(unavailable)
            return unavailable
        return error

    async def count_again(
        self, request: ChatRequest, reply: ChatReply, cut: errors.ContextWindowExceeded
    ) -> ChatReply:
        """Return a reply whose count of tokens is too low; failures if its prompt was cut.

        Some servers, such as Ollama, cut what is longer than their context length, and
        answer as if nothing was missing. Their own count of tokens tells, unless they
        leave out of it what they have in their cache. So the count is made again, of a
        prompt that begins as none did before.

        Args:
            request: The request.
            reply: The reply.
            cut: The error of a prompt that was cut.
        """
        first, *others = request.messages
        new = replace(first, content=f"{uuid4()}\n{first.content}")
        counted = await self.send(replace(request, messages=(new, *others), n=1))
        usage = reply.usage + counted.usage
        failures = counted.failures
        if counted.choices:
            reads_more = counted.usage.prompt_tokens > reply.usage.prompt_tokens
            if reads_more and not error_of_cut_prompt(self.model, request, counted):
                return replace(reply, usage=usage)
            failures = (cut,)
        return ChatReply((), usage, failures[:1] * request.n)

    # Slots, rate, budget, and the call.

    async def _call_in_turn(
        self, request: ChatRequest, sent_at: list[float], is_probe: bool
    ) -> ChatReply | None:
        """Call as soon as slots, rate and budget allow it, and tell them how it ended.

        The call is counted at once, before it is answered. Example: a first call notes
        ``Usage(calls=1)``; its repetition after an error ``Usage(calls=1, faults=1)``.

        Args:
            request: The request.
            sent_at: When earlier calls for the request were sent; this call is added.
            is_probe: Whether it may call an endpoint in doubt.

        Returns:
            The reply, or one with the error in place of choices; None if the endpoint
            came into doubt before there was a slot.
        """
        spending = spending_here()
        reply: ChatReply | None = None
        outcome: ChatReply | errors.JudgeError | None = None  # it was given up
        async with self.slots_of_run:
            ticket = await self.slots.acquire(request.n)
            began_at = time.monotonic()
            try:
                if self.endpoint.is_in_doubt and not is_probe:
                    return None
                await self.rate.acquire()
                refusal = self.refusal or self.endpoint.outage
                if refusal is not None:
                    raise refusal.with_traceback(None)  # without earlier calls
                number = await self.budget.acquire()
                usage: Usage | None = None
                try:
                    # the call before this one failed
                    spending.append(Usage(calls=1, faults=1 if sent_at else 0))
                    sent_at.append(time.monotonic())
                    async with asyncio.timeout(self.timeout):
                        received = await call_authors_code(
                            self.model.name,
                            await_users_code,
                            self.model,
                            partial(self.model.complete, request),
                        )
                    reply = check_reply(self.model, received, request.max_tokens)
                    # The call itself was counted when it was sent.
                    spending.append(replace(reply.usage, calls=0, faults=0))
                    outcome, usage = reply.error or reply, reply.usage
                    if reply.error is not None:  # it was broken off
                        usage = replace(usage, faults=1)
                except TimeoutError:
                    assert self.timeout is not None  # noqa: S101  # else nothing ends in time
                    outcome = late_error(self.model.name, self.timeout)
                except errors.JudgeError as error:
                    add_sentence(error, request)
                    outcome = error
                    if (
                        isinstance(error, errors.ContextWindowExceeded)
                        and error.may_be_shared
                        and self.slots.taken > self.slots.of_call(request.n)
                    ):
                        # alone it may fit; several such narrow the slots
                        outcome = errors.TransientJudgeError(str(error), retry_after=1)
                        outcome.raw = error.raw
                    elif refused_feature(error, request) is not None:
                        # Whatever its status, it says nothing of the key or the model.
                        outcome = errors.RequestRejected(str(error))
                        outcome.topics, outcome.raw = error.topics, error.raw
                finally:
                    self.budget.observe(number, usage)
                    self.endpoint.observe(outcome)
            except errors.JudgeError as error:  # it let no call leave
                outcome = error
            finally:
                self.slots.observe(
                    ticket,
                    outcome,
                    n_replies=request.n,
                    seconds=time.monotonic() - began_at,
                    time_of_a_call=self.model.timeout or self.timeout or math.inf,
                )
        if reply is None and isinstance(outcome, errors.JudgeError):
            return _reply_of_failures(request, outcome)
        return reply


def _reply_of_failures(request: ChatRequest, error: errors.JudgeError) -> ChatReply:
    """Return a reply without choices, with the error as the failure of each."""
    return ChatReply((), failures=(error,) * request.n)


def seconds_until_next_attempt(
    error: errors.TransientJudgeError,
    n_failures: int,
    *,
    seconds_tried: float,
    most_attempts: int = 8,
    may_be_loading: bool = False,
) -> float | None:
    """Return how many seconds to wait before a failed request is sent again.

    The longest wait doubles with each failure, and a random part of it is waited
    (exponential backoff with full jitter), nearly all of it where the endpoint may be
    loading or limits the rate. If the endpoint names a wait, the result is no shorter.
    Example: after 3 failures 0 to 2 s; with "Retry-After: 5", 5 to 5.5 s.

    Args:
        error: How the last attempt ended.
        n_failures: How many attempts failed so far.
        seconds_tried: Seconds since the first attempt was sent.
        most_attempts: The number of attempts after which there is no further one.
        may_be_loading: Whether the endpoint never answered.

    Returns:
        The seconds; None for no further attempt: all are used up, or the wait would
        end too late.
    """
    if n_failures >= most_attempts:
        return None
    n_doublings = min(max(n_failures - 1, 0), _MOST_DOUBLINGS)
    longest_wait = min(_FIRST_LONGEST_WAIT * 2**n_doublings, _LONGEST_WAIT)
    # eight attempts then take a minute, after which most rates begin anew
    names_no_wait = isinstance(error, errors.RateLimited) and error.retry_after is None
    least_wait = 0.95 * longest_wait if may_be_loading or names_no_wait else 0.0
    wait = random.uniform(least_wait, longest_wait)  # noqa: S311 - jitter is no secret
    if error.retry_after is not None:
        # Not all requests shall come at the very moment that the endpoint names.
        spread = min(wait, _FIRST_LONGEST_WAIT)
        wait = max(wait, error.retry_after + spread)
    # few where nothing listens at the address
    most_seconds = _REPEATING_SECONDS if error.is_sent else CONNECTING_SECONDS
    if seconds_tried + wait > most_seconds:
        return None
    return wait


async def call_authors_code(
    name: str, call: Callable[..., Awaitable[T]], *arguments: Any
) -> T:
    """Call code that a model's author may have written.

    Whatever it raises becomes a judge error, except for errors of ragmetrics.
    """
    try:
        return await call(*arguments)
    except errors.RagMetricsError:
        raise
    except (
        Exception,
        SystemExit,
        KeyboardInterrupt,
        asyncio.CancelledError,
    ) as raised:  # nobody knows what a client raises
        if isinstance(raised, asyncio.CancelledError) and is_being_cancelled():
            raise
        error = error_of_client(raised, name)
    # Raised outside of the handlers, so that the client's exception, which may hold
    # keys and texts, is not attached to it.
    raise error


def check_reply(
    model: ChatModel, reply: ChatReply, limit: int | None = None
) -> ChatReply:
    """Check the reply of a model, and return it with its price and clean texts.

    The price is added where the model gave none. Lone surrogates and NUL are replaced,
    because no file or next request can carry them. Choices that used up the limit of
    their length were cut off there: some clients complete such a call of a tool, and
    say that it ended. Example: a reply of 100 + 10 tokens without a cost, at a
    millionth of a dollar for each token, costs 0.00011.

    Args:
        model: The model that replied.
        reply: What it returned.
        limit: The limit of each choice's length, in tokens; None without one.

    Raises:
        JudgeError: If a part of the reply is not of its type, or the texts are too
            long.
    """
    if not _is_reply(reply):
        raise errors.JudgeError(
            f"{model.name} could not answer: its complete must return a ChatReply with a"
            f" tuple of Choices, each of a text and a finish of {', '.join(_FINISHES)},"
            " and a Usage of numbers of at least 0"
        )
    if sum(len(choice.text) for choice in reply.choices) > MOST_BYTES:
        raise error_of_large_reply(model.name)
    if not reply.usage.cost:
        reply = add_price(reply, model.prices())
    choices = list(reply.choices)
    n_allowed = (limit or 0) * len(choices)
    is_cut_off = 0 < n_allowed == reply.usage.completion_tokens
    for index, choice in enumerate(choices):
        if is_cut_off and choice.finish in ("stop", "tool_calls"):
            choices[index] = choice = replace(choice, finish="length")
        text = sendable_text(choice.text)
        if text != choice.text:
            tokens = tuple(
                replace(token, token=sendable_text(token.token))
                for token in choice.tokens
            )
            choices[index] = replace(choice, text=text, tokens=tokens)
    usage = reply.usage
    models = tuple(map(sendable_text, usage.models))
    if models != usage.models:
        usage = replace(usage, models=models)
    return ChatReply(tuple(choices), usage, reply.failures)


def error_of_cut_prompt(
    model: ChatModel, request: ChatRequest, reply: ChatReply
) -> errors.ContextWindowExceeded | None:
    """Return the error of a prompt that the server cut, by its own count of tokens.

    No tokenizer makes fewer tokens of so many words and signs. A count that is missing,
    or only somewhat low, tells nothing: of English prose, a cut of less than a quarter is
    not seen. Example: an error for a prompt of 6,000 words and a count of 2,050 tokens.
    """
    n_tokens = reply.usage.prompt_tokens
    n_characters = sum(len(message.content) for message in request.messages)
    most_tokens = n_characters / _MOST_CHARACTERS_OF_A_TOKEN  # by any count
    if not _MOST_TOKENS_BESIDE_CACHE <= n_tokens < most_tokens:
        return None
    n_words = sum(
        len(_WORD_OR_SIGNS.findall(message.content)) for message in request.messages
    )
    if n_tokens >= _LEAST_TOKENS_OF_A_WORD * n_words:
        return None
    return errors.ContextWindowExceeded(
        f"{model.name} read {n_tokens:,} tokens of a prompt of {n_words:,} words and"
        " signs, by its own count: the server cut it to its context length. Raise that"
        " (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx, llama.cpp: -c, vLLM:"
        " --max-model-len), or use shorter contexts"
    )


def _is_reply(reply: object) -> bool:
    """Whether each part of what a model returned is of its type."""
    if not isinstance(reply, ChatReply) or not isinstance(reply.choices, (tuple, list)):
        return False
    for choice in reply.choices:
        if not isinstance(choice, Choice) or not isinstance(choice.text, str):
            return False
        if choice.finish not in _FINISHES:
            return False
        if not all(isinstance(token, TokenAlternatives) for token in choice.tokens):
            return False
    return isinstance(reply.usage, Usage) and reply.usage.is_a_count
