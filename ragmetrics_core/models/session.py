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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Generic, Self, TypeVar

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.attempts import Attempts, Availability, call_authors_code
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    Origin,
    check_prices,
)
from ragmetrics_core.models.decision_forms import request_text, share_usage
from ragmetrics_core.models.fitting import Fitting, Send, gather_all, lacking
from ragmetrics_core.models.limits import Budget, Limiter, RateLimiter, Slots
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore
from ragmetrics_core.models.spending import spending_here
from ragmetrics_core.models.threads import call_in_thread, compute_beside_loop

T = TypeVar("T")
Outcome = Choice | errors.JudgeError

# The schema is sent with every request, once so many replies, and this share of them,
# had another form than the one that the prompt describes.
_MIN_MALFORMED = 3
_MAX_SHARE_MALFORMED = 0.05
# A reply that was cut off is asked for again with so many times the tokens.
_LONGER = 4
_MAX_REPAIRS = 2


@dataclass(frozen=True, slots=True, repr=False)
class Answers(Generic[T]):
    """What came of one request, and what it cost.

    There is an outcome per reply asked for, in the order of the polls: what was read
    from it, or an error.
    """

    outcomes: tuple[T | errors.JudgeError, ...]
    usage: Usage


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Generic[T]):
    """What came of a typed question: what was read, or an error; and its cost."""

    outcome: T | errors.JudgeError
    usage: Usage


@dataclass(slots=True, repr=False)
class _Flight:
    """A reply that somebody is asking for, for all who want the same.

    The future brings None if whoever asked gave up.
    """

    store: ReplyStore
    future: asyncio.Future[Outcome | None]


class _Shared:
    """What all runs of a session share on one event loop.

    Attributes:
        fitting: Leaves out of a request what the endpoint cannot do.
        slots: How many calls may be in flight.
        flights: The replies that somebody is asking for, by their keys.
        memory: Keeps replies where the model's settings are unknown to a store.
        availability: Whether the endpoint answers at all.
        n_read: How many replies were read.
        n_malformed: How many of them had not the form that was asked for.
    """

    def __init__(self, model: ChatModel, found_missing: set[str]) -> None:
        self.fitting = Fitting(model, found_missing)
        self.slots = Slots(0)
        self.flights: dict[str, _Flight] = {}
        self.memory = MemoryStore()
        self.availability = Availability()
        self.n_read = 0
        self.n_malformed = 0

    def note_read(self, results: Sequence[object]) -> None:
        """Count replies as they were read, and those without the form among them."""
        self.n_read += len(results)
        for result in results:
            if isinstance(result, errors.MalformedReply):
                self.n_malformed += 1

    @property
    def often_malformed(self) -> bool:
        """Whether the model often strays from the form that the prompt describes."""
        is_many = self.n_malformed >= _MIN_MALFORMED
        return is_many and self.n_malformed > self.n_read * _MAX_SHARE_MALFORMED


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
    # features that the model turned out to lack
    _found_missing: set[str] = field(default_factory=set)
    _shared_by_loop: dict[asyncio.AbstractEventLoop, _Shared] = field(
        default_factory=dict
    )
    # Those of one run; see ``during``.
    _store: ReplyStore = field(default_factory=MemoryStore)
    _concurrency: int = 32
    _budget: Budget = field(default_factory=Budget)
    _shared: _Shared | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_shared_by_loop": {}, "_shared": None}

    def during(
        self,
        *,
        store: ReplyStore | None,
        concurrency: int,
        budget: Budget | None = None,
    ) -> Self:
        """Return the session for one run.

        All runs together have no more calls in flight than one of them ever might.

        Args:
            store: Where replies are kept; None for memory.
            concurrency: Most calls of the run in flight.
            budget: What the run may spend; None for no limit.
        """
        return replace(
            self,
            _store=MemoryStore() if store is None else store,
            _concurrency=concurrency,
            _budget=budget or Budget(),
        )

    def lacking(self) -> set[str]:
        """The features that the model lacks, as known by now.

        All passes of a run in batches go by what the model states, so that each asks
        the same.
        """
        found_missing = () if _is_in_batches(self._store) else self._found_missing
        return lacking(self.model, found_missing)

    async def prepare(self) -> None:
        """Make the session ready for calls on the running loop.

        The model is imported or connected as it needs, and this run's store, limits and
        attempts are set up. It is done once for a run, and again on another loop.
        """
        loop = asyncio.get_running_loop()
        if self._shared is not None and self._shared is self._shared_by_loop.get(loop):
            return
        await call_authors_code(self.model.name, self.model.prepare)
        check_prices(self.model.name, self.model.prices())
        shared = self._shared_on(loop)  # what all runs share on this loop
        if self._shared is shared:  # another call of the run was faster
            return
        # Asked for once: it may take a while, and shall not change.
        cache_key = self.model.cache_key
        # what tells this model from others in a store and a file of rates
        self._model_identity = (self.model.name, cache_key or "")
        # Replies of a model that does not tell its settings are kept for the process
        # only.
        self._reply_store = shared.memory if cache_key is None else self._store
        self._attempts = self._make_attempts(shared)
        self._shared = shared

    def _make_attempts(self, shared: _Shared) -> Attempts:
        """Make what sends the calls of this run within all limits."""
        shared.slots.most = max(shared.slots.most, self._concurrency)
        limiters: list[Limiter] = [shared.slots]
        if self._budget.limits.per_minute:
            limiters.append(RateLimiter(self._budget, self._model_identity))
        return Attempts(
            self.model,
            shared.availability,
            asyncio.Semaphore(self._concurrency),
            limiters,
            self._budget,
            self._reply_store,
            self.attempts,
            self.timeout,
        )

    @property
    def _prepared(self) -> _Shared:
        """What all runs share on this loop, once ``prepare`` has run."""
        assert self._shared is not None  # noqa: S101  # every way in prepares
        return self._shared

    def _shared_on(self, loop: asyncio.AbstractEventLoop) -> _Shared:
        """What all runs share on this loop; that of closed loops is forgotten."""
        if loop not in self._shared_by_loop:
            for known_loop in list(self._shared_by_loop):
                if known_loop.is_closed():
                    del self._shared_by_loop[known_loop]
            self._shared_by_loop[loop] = _Shared(self.model, self._found_missing)
        return self._shared_by_loop[loop]

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
        """Ask for several replies to one request, and read them.

        Stored replies are taken from the store. A reply that cannot be used is asked
        for again on its own, twice at most.

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
        shared = self._prepared  # what all runs share on this loop
        n_characters = sum(len(message.content) for message in request.messages)
        # The keys go by the request as it is given, whether or not a schema is sent
        # with it.
        make_keys = partial(self._keys, request, schema, polls, first_poll)
        keys = await compute_beside_loop(make_keys, size=n_characters)

        request_with_schema = (
            request if request.schema else replace(request, schema=schema)
        )
        sent_request = request_with_schema if shared.often_malformed else request
        outcomes, usage = await self._replies(_repeat_for_each(sent_request), keys)

        read_all: _ReadAll[T] = partial(
            _read_all_in_thread if own_reader else _read_all, read=read
        )
        results = await read_all(outcomes)
        shared.note_read(results)
        if any(isinstance(result, errors.UnusableReply) for result in results):
            usage += await self._repair_all(
                request_with_schema, keys, outcomes, results, read_all
            )
        # the error of an unusable reply then names the model, and says what to do
        explained = [_explain_error(result, self.model, request) for result in results]
        return Answers(tuple(explained), usage)

    async def _repair_all(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        outcomes: Sequence[Outcome],
        results: list[T | errors.JudgeError],
        read_all: "_ReadAll[T]",
    ) -> Usage:
        """Ask again for all replies that cannot be used, at once; return the cost.

        Args:
            request: The request that brought the replies.
            keys: The key of each reply in the store.
            outcomes: The replies, or why there is none.
            results: What was read of each. What becomes of a reply takes its place
                here.
            read_all: Reads several replies; an error stands for one that cannot be
                used.
        """
        repair_by_place = {}
        for place, (outcome, result) in enumerate(zip(outcomes, results, strict=True)):
            if isinstance(result, errors.UnusableReply) and _may_be_repaired(outcome):
                repair_by_place[place] = self._repair_reply(
                    request, keys[place], outcome, result, read_all
                )
        repaired = await gather_all(repair_by_place.values()) if repair_by_place else []
        usage = Usage()
        for place, (result, cost) in zip(repair_by_place, repaired, strict=True):
            results[place] = result
            usage += cost
        return usage

    async def _repair_reply(
        self,
        request: ChatRequest,
        key: str,
        reply: Outcome,
        problem: errors.UnusableReply,
        read_all: "_ReadAll[T]",
    ) -> tuple[T | errors.JudgeError, Usage]:
        """Ask again for a reply that cannot be used, twice at most.

        A usable reply is kept in the store under the key. If no usable reply comes, the
        store is told to reject what it holds under the key. A model that declined to
        answer is not asked again.

        Args:
            request: The request that brought the reply.
            key: The key under which the reply is stored.
            reply: The reply that cannot be used.
            problem: Why it cannot be used.
            read_all: Reads several replies; an error stands for one that cannot be
                used.

        Returns:
            What was read at last, or the last problem; and what asking again cost.
        """
        stored_reply = self._reply_store.get(key)
        if stored_reply is not None and stored_reply != reply:
            # Another run has repaired it meanwhile.
            (result,) = await read_all([stored_reply])
            return result, Usage()
        usage = Usage()
        for n_repairs in range(1, _MAX_REPAIRS + 1):
            if isinstance(problem, errors.ContentRefused):
                break
            outcome, cost = await self._ask_once_more(request, key, problem, n_repairs)
            usage += cost
            (result,) = await read_all([outcome])
            if not isinstance(result, errors.UnusableReply):
                # Without a call of our own the reply is that of another run, which had
                # asked for the same repair and has kept it.
                if isinstance(outcome, Choice) and cost.calls:
                    self._reply_store.put({key: outcome})
                return result, usage
            problem = result
            if not isinstance(outcome, Choice):  # the call itself failed
                break
        self._reply_store.reject(key)
        return problem, usage

    async def _ask_once_more(
        self,
        request: ChatRequest,
        key: str,
        problem: errors.UnusableReply,
        n_repairs: int,
    ) -> tuple[Outcome, Usage]:
        """Send a request with what was wrong with the last reply; return the new one.

        It is not taken from the store and not kept there. Whoever repairs the same
        reply at the same time shares the call.

        Args:
            request: The request that brought the reply.
            key: The key of the reply; with the number it names this repair.
            problem: Why the last reply cannot be used.
            n_repairs: Which repair it is, from 1.

        Returns:
            The reply or why there is none; and what it cost, as repairs.
        """
        repair_request = _request_for_repair(request, problem)
        (outcome,), cost = await self._replies(
            _repeat_for_each(repair_request), [f"{key}|repair {n_repairs}"], keep=False
        )
        return outcome, replace(cost, repairs=cost.calls)

    def _keys(
        self,
        request: ChatRequest,
        schema: Mapping[str, Any] | None,
        polls: int,
        first_poll: int,
    ) -> list[str]:
        """Return the key of each reply in the store, one per poll.

        It is a digest of everything that changes the reply: the model, the request, the
        number of the repetition, and the index of the poll.

        Args:
            request: The request.
            schema: Schema that repairs of the reply are sent with.
            polls: How many replies are asked for.
            first_poll: Index of the first of them.
        """
        settings = {
            "model": self._model_identity,
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
        digest_of_all = _digest(json.dumps(settings))
        return [
            _digest(f"{digest_of_all}|poll {poll}")
            for poll in range(first_poll, first_poll + polls)
        ]

    async def decide(
        self,
        state: str,
        questions: Sequence[str],
        read: Callable[[str, Choice], T],
    ) -> "dict[str, Decision[T]]":
        """Ask typed questions about one state, in one request.

        Each answer is kept under its own key, so that only those that are missing are
        asked for. An unusable answer is not asked for again: the same request gives the
        same answer.

        Args:
            state: What is asked about, as JSON.
            questions: Different questions, each as JSON.
            read: Reads the answer to a question; raises ``JudgeError`` for what cannot
                be used.

        Returns:
            By question, what came of it. The usages sum to what the request cost.

        Raises:
            SettingError: In a run in batches, as no batch takes typed questions.
        """
        await self.prepare()
        self._refuse_batches()
        question_by_key = self._keys_of_typed(state, questions)
        # those that this call will ask, and so pay, unless somebody else is faster
        asked_by_key = self._not_stored_nor_in_flight(question_by_key)
        request_for = partial(_request_typed, state, question_by_key)
        outcomes, usage = await self._replies(
            request_for, list(question_by_key), fitted=False
        )
        if usage.calls and not asked_by_key:
            # Whoever else had asked for all of them gave up meanwhile.
            asked_by_key = question_by_key
        lengths = [len(question) for question in asked_by_key.values()]
        shares = share_usage(usage, lengths)
        cost_by_key = dict(zip(asked_by_key, shares, strict=True))
        cost_of_stored = Usage(stored=1, models=usage.models)
        decisions: dict[str, Decision[T]] = {}
        for outcome, (key, question) in zip(
            outcomes, question_by_key.items(), strict=True
        ):
            result = _read_decision(outcome, partial(read, question))
            is_unusable = isinstance(result, errors.JudgeError)
            if isinstance(outcome, Choice) and is_unusable:
                self._reply_store.reject(key)
            cost = cost_by_key.get(key, cost_of_stored)
            decisions[question] = Decision(result, cost)
        return decisions

    def _refuse_batches(self) -> None:
        """Refuse, by ``SettingError``, typed questions in a run in batches."""
        if _is_in_batches(self._store):
            raise errors.SettingError(
                f"no batch takes the typed questions of {self.model.name}: leave out"
                " batch="
            )

    def _keys_of_typed(self, state: str, questions: Sequence[str]) -> dict[str, str]:
        """Typed questions by a digest of all that changes their answer."""
        asked_about = json.dumps([self._model_identity, state, self.replicate])
        return {
            _digest(f"{asked_about}|typed|{question}"): question
            for question in questions
        }

    def _not_stored_nor_in_flight(
        self, question_by_key: Mapping[str, str]
    ) -> dict[str, str]:
        """The typed questions that are neither stored nor asked by somebody else."""
        flights = self._prepared.flights
        return {
            key: question
            for key, question in question_by_key.items()
            if key not in flights and self._reply_store.get(key) is None
        }

    # Stored replies, and one call for equal requests in flight.

    async def _replies(
        self,
        request_for: "_RequestFor",
        keys: Sequence[str],
        *,
        keep: bool = True,
        fitted: bool = True,
    ) -> tuple[list[Outcome], Usage]:
        """Return the replies under some keys, wherever they come from.

        A reply comes from the store; else from a call of somebody else that is in
        flight for the same key; else from a call of our own, one for all that are still
        missing. If somebody else gives up, the reply is missing again, and all of this
        is repeated.

        Args:
            request_for: Makes the request for the replies under some of the keys.
            keys: One for each reply.
            keep: Whether replies are taken from the store and kept there.
            fitted: Whether the request is made to fit what the endpoint can do.

        Returns:
            For each key a reply or an error, and what all of it cost.
        """
        shared = self._prepared  # what all runs share on this loop
        usages: list[Usage] = []
        # None for a reply that is not there yet
        outcomes: dict[str, Outcome | None] = dict.fromkeys(keys)
        while None in outcomes.values():
            if keep:
                usages += self._take_stored(outcomes)
            missing = [key for key, outcome in outcomes.items() if outcome is None]
            flights_of_others = {
                key: shared.flights[key] for key in missing if key in shared.flights
            }
            keys_to_fetch = [key for key in missing if key not in shared.flights]
            if keys_to_fetch:
                complete = shared.fitting.complete if fitted else _send_unchanged
                request = request_for(keys_to_fetch)
                usages.append(
                    await self._fetch(request, keys_to_fetch, outcomes, keep, complete)
                )
            usages += await self._await_flights(flights_of_others, outcomes, keep=keep)
        answered = [outcome for outcome in outcomes.values() if outcome is not None]
        return answered, _sum_of_usages(usages)

    def _take_stored(self, outcomes: dict[str, Outcome | None]) -> list[Usage]:
        """Fill in the replies that are stored; return a usage for each of them."""
        usages: list[Usage] = []
        for key, outcome in outcomes.items():
            stored_reply = self._reply_store.get(key) if outcome is None else None
            if stored_reply is None:
                continue
            outcomes[key] = stored_reply
            model = stored_reply.origin.model  # "" if the endpoint did not name it
            usages.append(Usage(stored=1, models=(model,) if model else ()))
        return usages

    async def _await_flights(
        self,
        flights: Mapping[str, _Flight],
        outcomes: dict[str, Outcome | None],
        *,
        keep: bool,
    ) -> list[Usage]:
        """Wait for the replies that others are asking for (flights), and fill them in.

        A reply costs this run nothing, as a stored one. It stays missing (None) if
        whoever asked for it gave up.

        Args:
            flights: What others are asking for, by the key of the reply.
            outcomes: Where the replies are filled in.
            keep: Whether they are kept in the store of this run, too.

        Returns:
            The usage of each reply that came, counted as stored.
        """
        usages: list[Usage] = []
        for key, flight in flights.items():
            # If this call is cancelled, the others still wait for the same future.
            outcome = await asyncio.shield(flight.future)
            outcomes[key] = outcome
            if isinstance(outcome, Choice):
                usages.append(Usage(stored=1))
                if keep and flight.store is not self._reply_store:
                    self._reply_store.put({key: outcome})
        return usages

    def _announce_flights(self, shared: _Shared, keys: Sequence[str]) -> None:
        """Say that these replies are being asked for, so that others wait for them."""
        loop = asyncio.get_running_loop()
        for key in keys:
            shared.flights[key] = _Flight(self._reply_store, loop.create_future())

    async def _fetch(
        self,
        request: ChatRequest,
        keys: list[str],
        outcomes: dict[str, Outcome | None],
        keep: bool,
        complete: Callable[[str, ChatRequest, Send], Awaitable[ChatReply]],
    ) -> Usage:
        """Ask the endpoint for the replies under some keys.

        Each reply is kept as soon as it comes. Another run that wants the same reply
        meanwhile waits for it (a flight) in place of asking for it again.

        Args:
            request: The request for all of them.
            keys: The keys of the replies, in the order in which they come.
            outcomes: By key, the reply or why there is none. Filled in here.
            keep: Whether the replies are kept in the store.
            complete: Makes the calls: one for all replies, or several. It is given a
                name for the request, the request, and the function that sends one call.
                It returns all replies as one, with the failures and the usage of all
                calls.

        Returns:
            What all calls cost.
        """
        shared = self._prepared  # what all runs share on this loop

        async def send(request: ChatRequest, position: int) -> ChatReply:
            """Send one call for the replies from a position among the keys on."""
            keys_wanted = keys[position:]
            return await self._send_call(request, keys_wanted, outcomes, keep=keep)

        self._announce_flights(shared, keys)
        try:
            # the first key names the request, so that a rejection can be remembered
            reply = await complete(keys[0], request, send)
            unanswered = [key for key in keys if outcomes[key] is None]
            # there may be more failures than replies that are missing in the end
            outcomes.update(zip(unanswered, _why_unanswered(reply), strict=False))
        finally:
            _end_flights(shared, keys, outcomes)
        return reply.usage

    async def _send_call(
        self,
        request: ChatRequest,
        keys_wanted: Sequence[str],
        outcomes: dict[str, Outcome | None],
        *,
        keep: bool,
    ) -> ChatReply:
        """Send one call, and keep the replies that it brings.

        Args:
            request: The request.
            keys_wanted: The keys of the replies, in the order in which they come.
            outcomes: By key, the reply or why there is none. Replies are filled in.
            keep: Whether the replies are kept in the store.
        """
        # In a run in batches the store answers in place of the endpoint.
        reply = self._reply_store.reply_from_batch(self.model, keys_wanted, request)
        if reply is not None:
            spending_here().note(reply.usage)
        else:
            reply = await self._attempts.send(request)  # notes what it spends itself
        choices = _choices_by_key(reply, keys_wanted)
        if keep and choices:
            self._reply_store.put(choices)
        outcomes.update(choices)
        return reply


def _end_flights(
    shared: _Shared, keys: Sequence[str], outcomes: Mapping[str, Outcome | None]
) -> None:
    """Hand each outcome to those who wait for it; None says that there is none.

    If a limit of this run was reached, the others ask for themselves: they may belong
    to runs with other limits.
    """
    for key in keys:
        outcome = outcomes[key]
        is_limit_of_this_run = isinstance(outcome, errors.LimitReached)
        flight = shared.flights.pop(key)
        flight.future.set_result(None if is_limit_of_this_run else outcome)


_RequestFor = Callable[[Sequence[str]], ChatRequest]


def _repeat_for_each(request: ChatRequest) -> _RequestFor:
    """Make the same request for as many replies as there are keys."""
    return lambda keys: replace(request, n=len(keys))


def _request_typed(
    state: str, question_by_key: Mapping[str, str], keys: Sequence[str]
) -> ChatRequest:
    """The request for the answers to some typed questions."""
    text = request_text(state, [question_by_key[key] for key in keys])
    return ChatRequest((Message("user", text),), n=len(keys), temperature=None)


async def _send_unchanged(key: str, request: ChatRequest, send: Send) -> ChatReply:
    """Send a request in which nothing can be left out."""
    del key  # as of ``Fitting.complete``
    return await send(request, 0)


def _why_unanswered(reply: ChatReply) -> Iterator[Outcome]:
    """Why replies that were asked for did not come: the failures, then a sentence."""
    yield from reply.failures
    yield from repeat(
        errors.EmptyReply("the endpoint returned fewer replies than asked for")
    )


def _read_decision(
    outcome: Outcome, read: Callable[[Choice], T]
) -> T | errors.JudgeError:
    """What an answer to a typed question says, or why it cannot be used."""
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.JudgeError as error:
        return error


def _is_in_batches(store: ReplyStore) -> bool:
    """Whether a store answers in place of the endpoint."""
    return type(store).reply_from_batch is not ReplyStore.reply_from_batch


def _sum_of_usages(usages: Sequence[Usage]) -> Usage:
    """What several calls cost; the usage of a single one, the usual case, is itself."""
    if len(usages) == 1:
        return usages[0]
    total = Usage()
    for usage in usages:
        total += usage
    return total


def _choices_by_key(reply: ChatReply, keys: Sequence[str]) -> dict[str, Choice]:
    """The choices of a reply, by the keys in their order, as far as there are any."""
    model = next(iter(reply.usage.models), "")
    origin = _origin(model, len(reply.choices))
    return {
        key: Choice(choice.text, choice.finish, choice.tokens, origin)
        for key, choice in zip(keys, reply.choices, strict=False)
    }


_ReadAll = Callable[[Sequence[Outcome]], Awaitable[list[T | errors.JudgeError]]]


def _may_be_repaired(outcome: Outcome) -> bool:
    """Whether it is a reply, and not one that two runs could not use."""
    return isinstance(outcome, Choice) and not outcome.origin.unusable


async def _read_all(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """What each reply says, or why it cannot be used.

    Long replies are read beside the event loop.
    """
    n_characters = sum(
        len(outcome.text) for outcome in outcomes if isinstance(outcome, Choice)
    )
    return await compute_beside_loop(
        lambda: [_read(outcome, read) for outcome in outcomes], size=n_characters
    )


async def _read_all_in_thread(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """Do the same as ``_read_all``, in a thread of its own.

    There a reader that never ends holds up nobody.
    """
    results = call_in_thread(
        lambda: [_read(outcome, read) for outcome in outcomes],
        context=copy_context(),
        name="ragmetrics reader",
    )
    return await asyncio.wrap_future(results)


def _read(outcome: Outcome, read: Callable[[Choice], T]) -> T | errors.JudgeError:
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.UnusableReply as error:
        return error


def _explain_error(
    result: T | errors.JudgeError, model: ChatModel, request: ChatRequest
) -> T | errors.JudgeError:
    """The result; of a reply without a usable verdict whose it is, and what to do."""
    if isinstance(result, errors.CutOffReply) and request.max_tokens is not None:
        return errors.CutOffReply(
            f"{result}. {_advice_on_limit(model, request.max_tokens)}", raw=result.raw
        )
    if not isinstance(result, (errors.MalformedReply, errors.ConflictingVerdicts)):
        return result
    return type(result)(
        f"the reply of {model.name} cannot be used: {result}; read it in the results (raw"
        " reply), and take a model that keeps to a form",
        raw=result.raw,
    )


def _advice_on_limit(model: ChatModel, limit: int) -> str:
    """Say what the token limit of a judge is, how to raise it, and what that costs.

    The advice is for a reply that was cut off twice: at the limit, and at a higher
    limit when it was asked for again.

    Args:
        model: The judge's model, whose prices are shown if they are known.
        limit: Most tokens of a reply, when it was asked for first.
    """
    limit_tried = limit * _LONGER
    limit_advised = limit_tried * _LONGER
    advice = (
        f"The limit is {limit:,} tokens; {limit_tried:,}, where a reply is asked for"
        f" again, did not do either. Raise it by LLMJudge(model,"
        f" max_tokens={limit_advised})"
    )
    prices = model.prices()
    if prices is None:
        return f"{advice}; the price of {model.name} is not known"
    _, price_received = prices  # in dollars, for each token of a prompt and of a reply
    return (
        f"{advice}: a reply of {limit_advised:,} tokens costs"
        f" ${limit_advised * price_received:.4f},"
        f" one of {limit:,} tokens ${limit * price_received:.4f}"
    )


def _request_for_repair(
    request: ChatRequest, problem: errors.UnusableReply
) -> ChatRequest:
    """Return what to ask after an unusable reply.

    It is the same again, with more room, or with the problem named.
    """
    if isinstance(problem, errors.EmptyReply):
        return request
    if isinstance(problem, errors.CutOffReply):
        if request.max_tokens is None:
            return request
        return replace(request, max_tokens=request.max_tokens * _LONGER)
    complaint = (
        f"Your reply could not be used: {problem}. Reply again with only the JSON"
        " object."
    )
    exchange = (Message("assistant", problem.raw), Message("user", complaint))
    return replace(request, messages=(*request.messages, *exchange))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_origin = lru_cache(maxsize=64)(Origin)  # the same for thousands of replies
