"""Everything around a call to a chat model, in the order in which a request meets it.

Stored replies, and one call for equal requests in flight → what the endpoint can do (``fitting``) → attempts with
backoff → slots, rate and budget (``slots``, ``limits``) → the call. Behind it, a reply that cannot be used is repaired
once.

A session belongs to a judge. All its runs share the calls in flight, what was learned about the endpoint, the slots,
and the first call, which is sent alone: a wrong key costs one. Each run brings its store, its limits and its
concurrency. What is shared lives on one event loop; pickle and fork leave it behind.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Generic, Self, TypeVar

from ragmetrics_core.data.errors import (
    ConnectionFailed,
    ContentRefused,
    ContextWindowExceeded,
    CutOffReply,
    EmptyReply,
    JudgeError,
    JudgeTimeout,
    JudgeUnavailable,
    LimitReached,
    RateLimited,
    TransientJudgeError,
    Unreachable,
    UnusableReply,
)
from ragmetrics_core.data.frozen import safe
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice, Message, Origin
from ragmetrics_core.endpoints.endpoint_errors import MOST_BYTES, too_large
from ragmetrics_core.endpoints.fitting import Feature, Fitting, gathered
from ragmetrics_core.endpoints.limits import Budget, Limiter, RateLimiter
from ragmetrics_core.endpoints.slots import SharedSlots, Slots
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore

T = TypeVar("T")
Outcome = Choice | JudgeError

_LONGER = 4  # times as many tokens for a reply that was cut off
_SHORTEST_WAIT = 0.5  # most seconds before the second attempt; they double with each further one
_LONGEST_WAIT = 60.0  # seconds between two attempts, unless the endpoint asks for more
_GIVEN_UP = 600.0  # seconds from which on a request is not repeated
_CONNECTING = 10.0  # the same, while no connection can be made
_OUTAGE = 30.0  # seconds for which an endpoint that refuses everything is left alone
_REFUSALS = 32  # in a row, from which on an endpoint that has answered is taken to refuse everything


@dataclass(frozen=True, slots=True, repr=False)
class Read(Generic[T]):
    """One reply that was read."""

    value: T
    choice: Choice


@dataclass(frozen=True, slots=True, repr=False)
class Answers(Generic[T]):
    """What came of one request: an outcome per reply asked for, in the order of the polls, and what it cost."""

    outcomes: tuple[Read[T] | JudgeError, ...]
    usage: Usage


@dataclass(slots=True)
class _Tries:
    """The calls for one request.

    Attributes:
        calls: How many left.
        since: When the first one did.
    """

    calls: int = 0
    since: float = 0.0


class _Shared:
    """What all runs of a session share on one event loop."""

    def __init__(self, model: ChatModel, learned: set[Feature]) -> None:
        self.fitting = Fitting(model, learned)
        self.slots = SharedSlots()
        self.flights: dict[str, tuple[ReplyStore, list[asyncio.Future[Outcome | None]]]] = {}
        self.memory = MemoryStore()
        self.alone = asyncio.Lock()
        self.open = False  # whether a first call got through, so that others need not wait for it
        self.answers = 0
        self.refusals = 0
        self.outage: tuple[float, JudgeUnavailable] | None = None

    def check(self) -> None:
        """Raise what the endpoint refuses everything with, as long as it is left alone."""
        if self.outage is not None and time.monotonic() < self.outage[0] + _OUTAGE:
            raise self.outage[1].with_traceback(None)

    def observe(self, outcome: ChatReply | JudgeError) -> None:
        """Learn whether the endpoint answers at all.

        Of one that has answered, a refused call tells little, e.g. a firewall may have taken offence at its text.
        """
        if isinstance(outcome, ChatReply):
            self.answers += 1
            self.refusals = 0
            self.open, self.outage = True, None
        elif isinstance(outcome, JudgeUnavailable):
            self.refusals += 1
            outcome.single = bool(self.answers) and self.refusals < _REFUSALS
            self.open = outcome.single
            if not outcome.single:
                self.refuse(outcome)
        elif self.outage is None or time.monotonic() >= self.outage[0] + _OUTAGE:
            self.open, self.outage = bool(self.answers) or not isinstance(outcome, Unreachable), None

    def refuse(self, error: JudgeUnavailable) -> JudgeUnavailable:
        """Leave the endpoint alone for a while; then a call is sent alone again."""
        self.open, self.outage = False, (time.monotonic(), error)
        return error


class _Shares:
    """What is shared, by event loop.

    Args:
        model: The model.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._learned: set[Feature] = set()
        self._by_loop: dict[asyncio.AbstractEventLoop, _Shared] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shares, (self._model,)

    def here(self) -> _Shared:
        """What is shared on the running loop."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            self._by_loop = {other: kept for other, kept in self._by_loop.items() if not other.is_closed()}
            found = self._by_loop[loop] = _Shared(self._model, self._learned)
        return found

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known by now."""
        return Fitting(self._model, self._learned).capabilities()


class Session:
    """The way to a chat model.

    Args:
        model: The model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no limit.
        replicate: Number of an independent repetition; stored replies of one are not used for another.
        limiters: Further ones that every call passes through.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        attempts: int = 8,
        timeout: float | None = 300.0,
        replicate: int = 0,
        limiters: Sequence[Limiter] = (),
    ) -> None:
        self.model = model
        self._attempts = attempts
        self._timeout = timeout
        self._replicate = replicate
        self._further = tuple(limiters)
        self._shares = _Shares(model)
        self.concurrency = 32
        self.store: ReplyStore = MemoryStore()
        self.budget = Budget()
        self._here: _Shared | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_here": None}

    def during(self, *, store: ReplyStore | None, concurrency: int, budget: Budget | None = None) -> Self:
        """The session for one run.

        Args:
            store: Where the run's replies are kept; None for memory of its own.
            concurrency: Most calls of the run in flight; all runs together have no more than the one with the most.
            budget: What the run may spend; None for no limit.
        """
        run = copy.copy(self)
        run.store = MemoryStore() if store is None else store
        run.concurrency = concurrency
        run.budget = budget or Budget()
        return run

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known by now."""
        return self._shares.capabilities()

    async def prepare(self) -> None:
        """Load what the first call needs."""
        shared = self._shares.here()
        if self._here is shared:
            return
        await self.model.prepare()
        limits = self.budget.limits
        limiters = [Slots(self.concurrency, shared.slots), *self._further]
        if limits.requests_per_minute is not None or limits.tokens_per_minute is not None:
            limiters.append(RateLimiter(self.budget))
        self._limiters: Sequence[Limiter] = limiters
        key = self.model.cache_key  # asked for once: it may take a while, and shall not change
        self._place = (self.model.name, key or "")
        self._kept = shared.memory if key is None else self.store
        self._here = shared

    async def ask(
        self, request: ChatRequest, read: Callable[[Choice], T], *, polls: int = 1, first_poll: int = 0
    ) -> Answers[T]:
        """Ask for several replies; an unusable one is repaired once, on its own.

        Args:
            request: The request.
            read: Reads a reply; raises ``UnusableReply`` for what cannot be used.
            polls: How many replies.
            first_poll: Index of the first of them.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        await self.prepare()
        keys = self._keys(request, polls, first_poll)
        spent: list[Usage] = []
        outcomes = await self._replies(request, keys, spent)
        if polls == 1:  # the usual case needs no task of its own
            known = [await self._read(request, keys[0], outcomes[0], read, spent)]
        else:
            pairs = zip(keys, outcomes, strict=True)
            known = await gathered(self._read(request, key, outcome, read, spent) for key, outcome in pairs)
        return Answers(tuple(known), spent[0] if len(spent) == 1 else sum(spent, Usage()))

    async def _read(
        self, request: ChatRequest, key: str, outcome: Outcome, read: Callable[[Choice], T], spent: list[Usage]
    ) -> Read[T] | JudgeError:
        """Read a reply; one that cannot be used is asked again, once, and the new one kept in its place."""
        if isinstance(outcome, JudgeError):
            return outcome
        try:
            return Read(read(outcome), outcome)
        except UnusableReply as error:
            problem = error
        if outcome.origin.unusable:
            return problem  # as it was in earlier runs
        if (kept := self._kept.get(key)) is not None and kept != outcome:  # somebody else's repair was faster
            return await self._read(request, key, kept, read, spent)
        if isinstance(problem, ContentRefused):
            self._kept.reject(key)
            return problem
        paid: list[Usage] = []
        (again,) = await self._replies(_repair(request, problem), [f"{key}|repair"], paid, keep=False)
        usage = sum(paid, Usage())
        spent.append(replace(usage, repairs=usage.calls))
        if isinstance(again, JudgeError):
            return again
        try:
            repaired = Read(read(again), again)
        except UnusableReply as error:
            self._kept.reject(key)
            return error
        if usage.calls:  # else whoever asked has kept it
            self._kept.put({key: again}, usage)
        return repaired

    def _keys(self, request: ChatRequest, polls: int, first_poll: int) -> list[str]:
        """One key per reply: everything that changes it."""
        content = [
            *self._place,
            [(message.role, message.content) for message in request.messages],
            request.schema,
            request.temperature,
            request.top_logprobs,
            request.max_tokens,
            self._replicate,
        ]
        common = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        keys = []
        for poll in range(first_poll, first_poll + polls):
            key = common.copy()
            key.update(f"|poll {poll}".encode())
            keys.append(key.hexdigest())
        return keys

    # Stored replies, and one call for equal requests in flight.

    async def _replies(
        self, request: ChatRequest, keys: Sequence[str], spent: list[Usage], *, keep: bool = True
    ) -> list[Outcome]:
        """Stored replies, and those of one call for all that are missing; ``spent`` gets what it cost."""
        shared = self._shares.here()
        outcomes: dict[str, Outcome | None] = dict.fromkeys(keys)
        while missing := [key for key, outcome in outcomes.items() if outcome is None]:
            own, awaited = [], []
            for key in missing:
                if keep and (found := self._kept.get(key)) is not None:
                    outcomes[key] = found
                    models = (found.origin.model,) if found.origin.model else ()
                    spent.append(Usage(stored=1, models=models))
                elif (flight := shared.flights.get(key)) is None:
                    own.append(key)
                else:
                    flight[1].append(asyncio.get_running_loop().create_future())
                    awaited.append((key, flight[0], flight[1][-1]))
            if own:
                spent.append(await self._fetch(shared, request, own, outcomes, keep))
            for key, store, future in awaited:
                outcomes[key] = given = await future  # None if its owner gave up: ask again
                if isinstance(given, Choice):
                    spent.append(Usage(stored=1))
                    if keep and store is not self._kept:
                        self._kept.put({key: given}, Usage())
        return [outcome for outcome in outcomes.values() if outcome is not None]

    async def _fetch(
        self, shared: _Shared, request: ChatRequest, keys: list[str], outcomes: dict[str, Outcome | None], keep: bool
    ) -> Usage:
        """Ask for several replies, keep each as it comes, and hand them to whoever waits."""

        def arrived(position: int, reply: ChatReply) -> None:
            origin = _origin(next(iter(reply.usage.models), ""), len(reply.choices))
            pairs = zip(keys[position:], reply.choices, strict=False)
            named = {key: replace(choice, origin=origin) for key, choice in pairs}
            if keep:
                self._kept.put(named, reply.usage)
            outcomes.update(named)

        if request.n != len(keys):
            request = replace(request, n=len(keys))
        shared.flights.update((key, (self._kept, [])) for key in keys)
        try:
            reply = await shared.fitting.complete(keys[0], request, self._send, arrived)
            unanswered = [key for key in keys if outcomes[key] is None]
            none = EmptyReply("the endpoint returned fewer replies than asked for")
            outcomes.update(zip(unanswered, chain(reply.failures, repeat(none)), strict=False))
        finally:
            for key in keys:
                given = outcomes[key]
                for future in shared.flights.pop(key)[1]:
                    if not future.done():
                        future.set_result(None if isinstance(given, LimitReached) else given)
        return reply.usage

    # Attempts.

    async def _send(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, an error that will not pass, or no attempt left.

        Returns:
            The reply, or its failures as values; ``usage`` counts every call and the faults survived.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        tries = _Tries()
        try:
            async with asyncio.timeout(self.budget.remaining) as deadline:
                return await self._attempted(request, tries)
        except LimitReached as error:
            reached = error
        except TimeoutError:
            if not deadline.expired():
                raise
            reached = self.budget.expire()
        return ChatReply((), Usage(calls=tries.calls), (reached,) * request.n)

    async def _attempted(self, request: ChatRequest, tries: _Tries) -> ChatReply:
        shared, counted = self._shares.here(), 0
        while True:
            answers = shared.answers
            try:
                reply = await self._in_turn(shared, request, tries)
            except JudgeUnavailable:
                raise
            except JudgeError as error:
                # told to slow down while others are answered: it takes its turn again, as often as it needs
                counted += not (isinstance(error, RateLimited) and shared.answers > answers)
                wait = self._wait(error, counted, tries, new=not shared.answers)
                if wait is not None:
                    await self.budget.pause(wait)
                    continue
                if isinstance(error, Unreachable) and not shared.answers:
                    raise shared.refuse(JudgeUnavailable(str(error))) from None
                return ChatReply((), Usage(calls=tries.calls, faults=tries.calls - 1), (error,) * request.n)
            if not reply.choices:
                reply = replace(reply, failures=(EmptyReply("the endpoint returned no reply"),) * request.n)
            if tries.calls == reply.usage.calls == 1:
                return reply  # nothing to correct
            return replace(reply, usage=replace(reply.usage, calls=tries.calls, faults=tries.calls - 1))

    def _wait(self, error: JudgeError, counted: int, tries: _Tries, *, new: bool) -> float | None:
        """Seconds until the next attempt, by exponential backoff with full jitter; None if there shall be none."""
        if not isinstance(error, TransientJudgeError) or counted >= self._attempts:
            return None
        longest = min(_SHORTEST_WAIT * 2 ** min(tries.calls - 1, 10), _LONGEST_WAIT)
        wait = jitter = random.uniform(0, longest)  # noqa: S311 - jitter is no secret
        if error.retry_after is not None:
            wait = max(jitter, error.retry_after + min(jitter, _SHORTEST_WAIT))
        connecting = isinstance(error, Unreachable) or (new and isinstance(error, ConnectionFailed))
        left = tries.since + (_CONNECTING if connecting else _GIVEN_UP) - time.monotonic()
        return wait if wait <= left else None

    # Slots, rate, budget, and the call.

    async def _in_turn(self, shared: _Shared, request: ChatRequest, tries: _Tries) -> ChatReply:
        """Call as soon as the limits allow it; alone, as long as no call got through."""
        if not shared.open:
            async with shared.alone:
                if not shared.open:
                    return await self._limited(shared, request, tries)
        return await self._limited(shared, request, tries)

    async def _limited(self, shared: _Shared, request: ChatRequest, tries: _Tries) -> ChatReply:
        tokens = sum(len(message.content) for message in request.messages) / 4
        held: list[tuple[Limiter, Any]] = []
        outcome: ChatReply | JudgeError | None = None
        try:
            for limiter in self._limiters:
                held.append((limiter, await limiter.acquire(tokens)))
            shared.check()
            await self._kept.settled()
            await self.budget.acquire(tokens)
            held.append((self.budget, None))
            outcome = await self._call(shared, request, tries)
        except JudgeError as error:
            outcome = error
            raise
        finally:
            for limiter, ticket in reversed(held):
                limiter.observe(ticket, outcome)
        return outcome

    async def _call(self, shared: _Shared, request: ChatRequest, tries: _Tries) -> ChatReply:
        tries.calls += 1
        tries.since = tries.since or time.monotonic()
        error: JudgeError
        try:
            async with asyncio.timeout(self._timeout) as timer:
                reply = _cleaned(self.model.name, await self.model.complete(request))
        except TimeoutError:
            within = f"within {self._timeout:g} s" if timer.expired() else "in time"
            error = JudgeTimeout(f"{self.model.name} sent no reply {within}")
        except ContextWindowExceeded as raised:
            error = _counted(raised, request)
        except JudgeError as raised:
            error = raised
        else:
            shared.observe(reply)
            return reply
        shared.observe(error)
        raise error


def _repair(request: ChatRequest, problem: UnusableReply) -> ChatRequest:
    """What to ask after an unusable reply: the same again, with more room, or with the problem named."""
    if isinstance(problem, EmptyReply):
        return request
    if isinstance(problem, CutOffReply):
        limit = request.max_tokens
        return replace(request, max_tokens=None if limit is None else limit * _LONGER)
    said = f"Your reply could not be used: {problem}. Reply again with only the JSON object."
    return replace(request, messages=(*request.messages, Message("assistant", problem.raw), Message("user", said)))


def _counted(error: ContextWindowExceeded, request: ChatRequest) -> ContextWindowExceeded:
    """The same error with the length of the request, estimated where the endpoint did not say it."""
    if error.tokens is not None or not error.where:
        return error
    tokens = sum(len(message.content) for message in request.messages) // 4
    return ContextWindowExceeded.counted(error.where, tokens, error.window, about="about ")


def _cleaned(name: str, reply: ChatReply) -> ChatReply:
    """The reply without lone surrogates and NUL, which neither a file nor the next request can carry.

    Raises:
        MalformedReply: If it is too long.
    """
    if sum(len(choice.text) for choice in reply.choices) > MOST_BYTES:
        raise too_large(name)
    models = tuple(map(safe, reply.usage.models))
    if models != reply.usage.models:
        reply = replace(reply, usage=replace(reply.usage, models=models))
    if any(safe(choice.text) != choice.text for choice in reply.choices):
        return replace(reply, choices=tuple(map(_cleaned_choice, reply.choices)))
    return reply


def _cleaned_choice(choice: Choice) -> Choice:
    tokens = tuple(replace(token, token=safe(token.token)) for token in choice.tokens)
    return replace(choice, text=safe(choice.text), tokens=tokens)


_origin = lru_cache(maxsize=64)(Origin)  # the same for thousands of replies
