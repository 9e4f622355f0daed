"""Everything around a call to a chat model, in the order in which a request meets it.

Stored replies, and one call for equal requests in flight → what the endpoint can do
(``fitting``) → attempts with backoff, slots, rate and budget (``attempts``, ``limits``)
→ the call. A reply that cannot be used is repaired twice.

A session belongs to a judge. All its runs share the calls in flight, what was learned
about the endpoint, the slots, and the first call, which is sent alone, so that a wrong
key costs one; after two seconds the others go on beside it. Each run brings its store,
its limits and its concurrency. What is shared lives on one event loop; pickle and fork
leave it behind.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Any, Generic, Self, TypeVar

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.attempts import Attempts, Availability, typed
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    Origin,
    check_prices,
)
from ragmetrics_core.models.fitting import Fitting, gathered, lacking
from ragmetrics_core.models.limits import Budget, Limiter, RateLimiter, Slots
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore
from ragmetrics_core.models.spending import spending_here
from ragmetrics_core.models.threads import computed, in_thread

T = TypeVar("T")
Outcome = Choice | errors.JudgeError

# replies of another form than the one described, from which on the schema is always
# sent
_STRAYS, _OFTEN = 3, 0.05
_LONGER = 4  # times as many tokens for a reply that was cut off
_REPAIRS = 2  # of one reply


@dataclass(frozen=True, slots=True, repr=False)
class Answers(Generic[T]):
    """What came of one request, and what it cost.

    There is an outcome per reply asked for, in the order of the polls.
    """

    outcomes: tuple[T | errors.JudgeError, ...]  # replies as they were read
    usage: Usage


class _Shared:
    """What all runs of a session share on one event loop."""

    def __init__(self, model: ChatModel, learned: set[str]) -> None:
        self.fitting = Fitting(model, learned)
        self.slots = Slots(0)
        self.flights: dict[str, tuple[ReplyStore, asyncio.Future[Outcome | None]]] = {}
        self.memory = MemoryStore()
        self.availability = Availability()
        self.read = self.malformed = 0


@dataclass(eq=False, repr=False)
class Session:
    """The way to a chat model.

    Args:
        model: The model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
        replicate: Number of an independent repetition; stored replies of one are not
            used for another.
    """

    model: ChatModel
    _: KW_ONLY
    attempts: int = 8
    timeout: float | None = 300.0
    replicate: int = 0
    _learned: set[str] = field(default_factory=set)
    _by_loop: dict[asyncio.AbstractEventLoop, _Shared] = field(default_factory=dict)
    # Of one run: see ``during``.
    _store: ReplyStore = field(default_factory=MemoryStore)
    _concurrency: int = 32
    _budget: Budget = field(default_factory=Budget)
    _here: _Shared | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_by_loop": {}, "_here": None}

    def during(
        self,
        *,
        store: ReplyStore | None,
        concurrency: int,
        budget: Budget | None = None,
    ) -> Self:
        """Return the session for one run.

        It keeps replies in ``store`` (None: in memory) and spends from ``budget``.

        Most ``concurrency`` calls of it are in flight; all runs together have no more
        than one of them ever might.
        """
        store = MemoryStore() if store is None else store
        return replace(
            self, _store=store, _concurrency=concurrency, _budget=budget or Budget()
        )

    def lacking(self) -> set[str]:
        """The features that the model lacks, as known by now.

        All passes of a run in batches go by what is stated.
        """
        return lacking(
            self.model,
            self._learned if type(self._store).parked is ReplyStore.parked else (),
        )

    async def prepare(self) -> None:
        """Load what the first call needs."""
        loop = asyncio.get_running_loop()
        if self._here is not None and self._here is self._by_loop.get(loop):
            return
        await typed(self.model.name, self.model.prepare)
        check_prices(self.model.name, self.model.prices())
        if loop not in self._by_loop:
            for other in [other for other in self._by_loop if other.is_closed()]:
                del self._by_loop[other]
            self._by_loop[loop] = _Shared(self.model, self._learned)
        shared = self._by_loop[loop]
        if self._here is shared:  # another call of the run was faster
            return
        # asked for once: it may take a while, and shall not change
        key = self.model.cache_key
        self._place = (self.model.name, key or "")
        shared.slots.most = max(shared.slots.most, self._concurrency)
        rates = (
            [RateLimiter(self._budget, self._place)]
            if self._budget.limits.per_minute
            else []
        )
        limiters: list[Limiter] = [shared.slots, *rates]
        self._kept = shared.memory if key is None else self._store
        own = asyncio.Semaphore(self._concurrency)
        self._attempts = Attempts(
            self.model,
            shared.availability,
            own,
            limiters,
            self._budget,
            self._kept,
            self.attempts,
            self.timeout,
        )
        self._here = shared

    async def ask(
        self,
        request: ChatRequest,
        read: Callable[[Choice], T],
        *,
        schema: Mapping[str, Any] | None = None,
        polls: int = 1,
        first_poll: int = 0,
        own_reader: bool = False,
    ) -> Answers[T]:
        """Ask for several replies.

        An unusable one is repaired on its own, twice at most.

        Args:
            request: The request.
            read: Reads a reply; raises ``UnusableReply`` for what cannot be used.
            schema: Schema of the reply, for requests without one: sent with repairs of
                malformed replies, and with every request to a model that often needs
                them.
            polls: How many replies.
            first_poll: Index of the first of them.
            own_reader: Whether ``read`` is code of a user's own, of which nobody knows
                how long it takes.

        Returns:
            An outcome per reply; that of a call which cannot succeed is
            ``JudgeUnavailable``. The usage counts every call that left.
        """
        await self.prepare()
        assert self._here is not None  # noqa: S101  # prepared
        length = sum(len(message.content) for message in request.messages)
        # The keys are those of the request however the form is asked for.
        keys = await computed(
            partial(self._keys, request, schema, polls, first_poll), size=length
        )
        bound, shared = (
            request if request.schema else replace(request, schema=schema),
            self._here,
        )
        strays = shared.malformed >= _STRAYS and shared.malformed > shared.read * _OFTEN
        outcomes, usage = await self._replies(bound if strays else request, keys)
        reading = _read_apart if own_reader else _all_read
        known = await reading(outcomes, read)
        shared.read += len(known)
        shared.malformed += sum(
            isinstance(error, errors.MalformedReply) for error in known
        )
        repairs = {
            place: self._repaired(
                bound, keys[place], outcome, error, partial(reading, read=read)
            )
            for place, (outcome, error) in enumerate(zip(outcomes, known, strict=True))
            if isinstance(outcome, Choice)
            and isinstance(error, errors.UnusableReply)
            and not outcome.origin.unusable
        }
        for place, repair in zip(
            repairs, await gathered(repairs.values()) if repairs else (), strict=True
        ):
            known[place], usage = repair[0], usage + repair[1]
        return Answers(tuple(known), usage)

    async def _repaired(
        self,
        request: ChatRequest,
        key: str,
        reply: Choice,
        problem: errors.UnusableReply,
        read_all: Callable[[Sequence[Outcome]], Awaitable[list[T | errors.JudgeError]]],
    ) -> tuple[T | errors.JudgeError, Usage]:
        """Ask again for a reply that cannot be used.

        A usable reply is kept in its place.
        """
        # somebody else's repair was faster
        if (kept := self._kept.get(key)) is not None and kept != reply:
            (known,) = await read_all([kept])
            return known, Usage()
        if isinstance(problem, errors.ContentRefused):
            self._kept.reject(key)
            return problem, Usage()
        usage = Usage()
        for repair in range(1, _REPAIRS + 1):
            repair_key = f"{key}|repair {repair}"
            (again,), spent = await self._replies(
                _repair(request, problem), [repair_key], keep=False
            )
            usage += replace(spent, repairs=spent.calls)
            (answer,) = await read_all([again])
            if not isinstance(answer, errors.UnusableReply):
                # else whoever asked has kept it
                if isinstance(again, Choice) and spent.calls:
                    self._kept.put({key: again})
                return answer, usage
            problem = answer
            if not isinstance(again, Choice) or isinstance(
                problem, errors.ContentRefused
            ):
                break
        self._kept.reject(key)
        return problem, usage

    def _keys(
        self,
        request: ChatRequest,
        schema: Mapping[str, Any] | None,
        polls: int,
        first_poll: int,
    ) -> list[str]:
        """Return one key per reply.

        It stands for everything that changes the reply, in the order in which it is
        sent.
        """
        asked = {
            "model": self._place,
            "messages": [
                (message.role, message.content) for message in request.messages
            ],
            "schema": request.schema,
            "schema of repairs": schema,
            "temperature": request.temperature,
            "top_logprobs": request.top_logprobs,
            "max_tokens": request.max_tokens,
            "replicate": self.replicate,
        }
        common = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        polled = range(first_poll, first_poll + polls)
        return [
            hashlib.sha256(f"{common}|poll {poll}".encode()).hexdigest()
            for poll in polled
        ]

    # Stored replies, and one call for equal requests in flight.

    async def _replies(
        self, request: ChatRequest, keys: Sequence[str], *, keep: bool = True
    ) -> tuple[list[Outcome], Usage]:
        """Stored replies, and those of one call for all that are missing.

        And what it cost.
        """
        assert self._here is not None  # noqa: S101  # prepared
        spent: list[Usage] = []
        flights = self._here.flights
        outcomes: dict[str, Outcome | None] = dict.fromkeys(keys)
        while missing := [key for key, outcome in outcomes.items() if outcome is None]:
            own, awaited = [], []
            for key in missing:
                if keep and (found := self._kept.get(key)) is not None:
                    outcomes[key] = found
                    spent.append(
                        Usage(
                            stored=1,
                            models=(found.origin.model,) if found.origin.model else (),
                        )
                    )
                elif key in flights:
                    awaited.append((key, *flights[key]))
                else:
                    own.append(key)
            if own:
                spent.append(
                    await self._fetch(self._here, request, own, outcomes, keep)
                )
            for key, store, flight in awaited:
                # None if its owner gave up: ask again
                outcomes[key] = given = await asyncio.shield(flight)
                if isinstance(given, Choice):
                    spent.append(Usage(stored=1))
                    if keep and store is not self._kept:
                        self._kept.put({key: given})
        usage = spent[0] if len(spent) == 1 else sum(spent, Usage())
        return [outcome for outcome in outcomes.values() if outcome is not None], usage

    async def _fetch(
        self,
        shared: _Shared,
        request: ChatRequest,
        keys: list[str],
        outcomes: dict[str, Outcome | None],
        keep: bool,
    ) -> Usage:
        """Ask for several replies.

        Each is kept as it comes, and handed to whoever waits.
        """

        async def send(request: ChatRequest, position: int) -> ChatReply:
            parked = self._kept.parked(self.model, keys[position:], request)
            if parked is not None:
                spending_here().note(parked.usage)
            reply = parked or await self._attempts.send(request)
            origin = _origin(next(iter(reply.usage.models), ""), len(reply.choices))
            pairs = zip(keys[position:], reply.choices, strict=False)
            named = {
                key: Choice(given.text, given.finish, given.tokens, origin)
                for key, given in pairs
            }
            if keep and named:
                self._kept.put(named)
            outcomes.update(named)
            return reply

        request = replace(request, n=len(keys))
        loop = asyncio.get_running_loop()
        shared.flights.update((key, (self._kept, loop.create_future())) for key in keys)
        try:
            reply = await shared.fitting.complete(keys[0], request, send)
            if unanswered := [key for key in keys if outcomes[key] is None]:
                none = errors.EmptyReply(
                    "the endpoint returned fewer replies than asked for"
                )
                outcomes.update(
                    zip(unanswered, chain(reply.failures, repeat(none)), strict=False)
                )
        finally:
            for key in keys:
                given = outcomes[key]
                shared.flights.pop(key)[1].set_result(
                    None if isinstance(given, errors.LimitReached) else given
                )
        return reply.usage


async def _all_read(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """What each reply says, or why it cannot be used.

    Long replies are read beside the event loop.
    """
    length = sum(
        len(outcome.text) for outcome in outcomes if isinstance(outcome, Choice)
    )
    return await computed(
        lambda: [_read(outcome, read) for outcome in outcomes], size=length
    )


async def _read_apart(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """Do the same as ``_all_read``, in a thread of its own.

    There a reader that never ends holds up nobody.
    """
    begun = in_thread(
        lambda: [_read(outcome, read) for outcome in outcomes],
        context=copy_context(),
        name="ragmetrics reader",
    )
    return await asyncio.wrap_future(begun)


def _read(outcome: Outcome, read: Callable[[Choice], T]) -> T | errors.JudgeError:
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.UnusableReply as error:
        return error


def _repair(request: ChatRequest, problem: errors.UnusableReply) -> ChatRequest:
    """Return what to ask after an unusable reply.

    It is the same again, with more room, or with the problem named.
    """
    if isinstance(problem, errors.EmptyReply):
        return request
    if isinstance(problem, errors.CutOffReply):
        return replace(
            request, max_tokens=request.max_tokens and request.max_tokens * _LONGER
        )
    said = (
        f"Your reply could not be used: {problem}. Reply again with only the JSON"
        " object."
    )
    return replace(
        request,
        messages=(
            *request.messages,
            Message("assistant", problem.raw),
            Message("user", said),
        ),
    )


_origin = lru_cache(maxsize=64)(Origin)  # the same for thousands of replies
