"""Everything around a call to a chat model, in the order in which a request meets it.

Stored replies, and one call for equal requests in flight → what the endpoint can do
(``features``) → attempts with backoff, slots, rate and budget (``attempts``, ``limits``)
→ the call. A reply that cannot be used is repaired once.

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
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic, Self, TypeVar

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.attempts import Attempts, call_authors_code
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    Origin,
    check_prices,
)
from ragmetrics_core.models.decision_forms import cost_of_each, request_text
from ragmetrics_core.models.endpoint_state import EndpointState
from ragmetrics_core.models.features import (
    FittedRequest,
    Send,
    gather_all,
    stated_missing,
)
from ragmetrics_core.models.limits import Budget, Limiter, RateLimiter, Slots
from ragmetrics_core.models.reply_reading import (
    Outcome,
    ReadAll,
    explain_error,
    read_all_here,
    read_all_in_thread,
    request_for_repair,
)
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore
from ragmetrics_core.models.spending import spending_here
from ragmetrics_core.models.threads import compute_beside_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Answers(Generic[T]):
    """The replies to one request, as they were read, and what they cost.

    There is an outcome for each reply that was asked for, in that order: what was read
    from the reply, or an error.
    """

    outcomes: tuple[T | errors.JudgeError, ...]
    usage: Usage


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Generic[T]):
    """The answer to a typed question as it was read, or an error; and its cost."""

    outcome: T | errors.JudgeError
    usage: Usage


@dataclass(slots=True, repr=False)
class _ReplyOnItsWay:
    """A reply that a run is calling for, and that other runs may want as well.

    Attributes:
        store: Where the run that calls keeps the reply.
        future: Gives the reply or an error; None if that run gave up its call.
    """

    store: ReplyStore
    future: asyncio.Future[Outcome | None]


class _Shared:
    """What all runs of a session share on one event loop.

    Attributes:
        slots: How many calls may be in flight.
        replies_on_their_way: What runs are calling for now, by the key of the reply.
        memory: Keeps the replies of a model whose settings are not known, as no store
            on disk can tell them from those of another model.
        endpoint: What is known of the endpoint.
    """

    def __init__(self, found_missing: set[str]) -> None:
        self.endpoint = EndpointState(found_missing)
        self.slots = Slots(0)
        self.replies_on_their_way: dict[str, _ReplyOnItsWay] = {}
        self.memory = MemoryStore()


@dataclass(eq=False, repr=False)
class Session:
    """Sends requests to a chat model: stores replies, repeats and limits calls.

    Args:
        model: The model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
        replicate: Number of an independent repetition of the same requests. Each
            repetition has stored replies of its own.
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
    # Settings of one run; see ``during``.
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

        All runs together have no more calls in flight than the run with the highest
        concurrency may have.

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
        """Return the features that the model lacks, as far as that is known by now."""
        # A run in batches makes the same requests again to find their replies. So it
        # goes by what the model states, and not by what was found out meanwhile.
        if _is_in_batches(self._store):
            return stated_missing(self.model)
        return stated_missing(self.model) | self._found_missing

    async def prepare(self) -> None:
        """Make the session ready for calls on the running loop.

        The model is imported or connected as it needs, and this run's store and limits
        are set up. A second call does nothing, unless it comes on another loop.
        Example: a model without a key for the store: its replies are kept in memory
        alone.
        """
        loop = asyncio.get_running_loop()
        if self._is_prepared_on(loop):
            return
        await call_authors_code(self.model.name, self.model.prepare)
        check_prices(self.model.name, self.model.prices())
        # Another task of this run may have set it up while the model was prepared.
        if not self._is_prepared_on(loop):
            self._set_up_run(self._shared_on(loop))

    def _is_prepared_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this run is set up, and uses what all runs share on this loop."""
        shared_on_loop = self._shared_by_loop.get(loop)
        return self._shared is not None and self._shared is shared_on_loop

    def _set_up_run(self, shared: _Shared) -> None:
        """Choose where this run keeps replies, and make what sends its calls.

        Args:
            shared: What all runs share on the running loop.
        """
        # Asked for once: it may take a while, and shall not change.
        cache_key = self.model.cache_key
        # Tells this model from others in the store.
        self._model_identity = (self.model.name, cache_key or "")
        # Without a key nobody knows the model's settings: replies then stay in memory.
        self._reply_store = shared.memory if cache_key is None else self._store
        self._attempts = self._make_attempts(shared)
        self._shared = shared

    def _make_attempts(self, shared: _Shared) -> Attempts:
        """Return the object that sends the calls of this run within all limits."""
        shared.slots.most = max(shared.slots.most, self._concurrency)
        limiters: list[Limiter] = [shared.slots]
        per_minute = self._budget.limits.requests_per_minute
        if per_minute is not None:
            limiters.append(RateLimiter(self._budget, per_minute))
        return Attempts(
            self.model,
            shared.endpoint,
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
        """Return what all runs share on this loop; forget the same for closed loops."""
        if loop not in self._shared_by_loop:
            for known_loop in list(self._shared_by_loop):
                if known_loop.is_closed():
                    del self._shared_by_loop[known_loop]
            self._shared_by_loop[loop] = _Shared(self._found_missing)
        return self._shared_by_loop[loop]

    async def ask(
        self,
        request: ChatRequest,
        read: Callable[[Choice], T],
        *,
        polls: int = 1,
        first_poll: int = 0,
        own_reader: bool = False,
    ) -> Answers[T]:
        """Ask for several replies to one request, and read them.

        Stored replies are taken from the store. A reply that cannot be used is asked
        for again on its own, once. Example: ``polls=5`` with 3 stored replies
        sends a request for 2; ``polls=5, first_poll=5`` asks for five fresh ones.

        Args:
            request: The request.
            read: Reads a reply; raises ``UnusableReply`` if the reply cannot be used.
            polls: How many replies.
            first_poll: Index of the first reply. The same request with other indices
                gets fresh replies.
            own_reader: Whether ``read`` is code of a user's own, which may take any
                time.

        Returns:
            An outcome for each reply; ``JudgeUnavailable`` for a call that cannot
            succeed. The usage counts every call that was sent.
        """
        await self.prepare()
        # the key under which the store keeps each reply
        keys = await self._make_keys(request, polls, first_poll)
        outcomes, usage = await self._replies(
            _request_maker(request), keys, self._complete
        )
        read_all: ReadAll[T] = partial(
            read_all_in_thread if own_reader else read_all_here, read=read
        )
        results, cost_of_repairs = await self._read_and_repair(
            request, keys, outcomes, read_all
        )
        explained = [
            explain_error(result, outcome, self.model, request)
            for outcome, result in zip(outcomes, results, strict=True)
        ]
        return Answers(tuple(explained), usage + cost_of_repairs)

    async def _read_and_repair(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        outcomes: Sequence[Outcome],
        read_all: ReadAll[T],
    ) -> tuple[list[T | errors.JudgeError], Usage]:
        """Read replies, and ask again for those that cannot be used.

        Args:
            request: The request, as it is sent again.
            keys: The key of each reply in the store.
            outcomes: The replies, or why there is none.
            read_all: Reads several replies; returns an error for an unusable reply.

        Returns:
            What was read of each reply or of its repair, or an error; and what asking
            again cost.
        """
        results = await read_all(outcomes)
        if not any(isinstance(result, errors.UnusableReply) for result in results):
            return results, Usage()
        # This replaces, in ``results``, each unusable reply by its repair.
        cost = await self._repair_all(request, keys, outcomes, results, read_all)
        return results, cost

    async def _complete(self, request: ChatRequest, send: Send) -> ChatReply:
        """Send a request, without the features that the endpoint refuses."""
        endpoint = self._prepared.endpoint
        if _is_in_batches(self._store):
            # what an earlier pass has sent is fetched, and counts
            request = replace(request, needs_logprobs=False)
        return await FittedRequest(self.model, endpoint, request, send).complete()

    async def _complete_typed(self, request: ChatRequest, send: Send) -> ChatReply:
        """Send typed questions, which have no feature to leave out."""
        async with self._prepared.endpoint.first_with(()):
            return await send(request, 0)

    async def _make_keys(
        self, request: ChatRequest, polls: int, first_poll: int
    ) -> list[str]:
        """Return the key of each reply; keys of a long request are made in a thread."""
        n_characters = sum(len(message.content) for message in request.messages)
        make_keys = partial(self._keys, request, polls, first_poll)
        return await compute_beside_loop(make_keys, size=n_characters)

    async def _repair_all(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        outcomes: Sequence[Outcome],
        results: list[T | errors.JudgeError],
        read_all: ReadAll[T],
    ) -> Usage:
        """Ask again for all replies that cannot be used, at once; return the cost.

        Example: of 5 replies the third is no valid JSON. One call asks for it again,
        and ``results[2]`` becomes what was read of the new reply.

        Args:
            request: The request that brought the replies.
            keys: The key of each reply in the store.
            outcomes: The replies, or why there is none.
            results: What was read of each reply. The result of a repair replaces the
                one of its reply here.
            read_all: Reads several replies; returns an error for an unusable reply.
        """
        # by the index of a reply: the coroutine that asks for it again
        repair_by_index = {}
        for index, (outcome, result) in enumerate(zip(outcomes, results, strict=True)):
            is_reply = isinstance(outcome, Choice)  # else the call itself failed
            if is_reply and isinstance(result, errors.UnusableReply):
                repair_by_index[index] = self._repair_reply(
                    request, keys[index], outcome, result, read_all
                )
        repaired = await gather_all(repair_by_index.values()) if repair_by_index else []
        usage = Usage()
        for index, (result, cost) in zip(repair_by_index, repaired, strict=True):
            results[index] = result
            usage += cost
        return usage

    async def _repair_reply(
        self,
        request: ChatRequest,
        key: str,
        reply: Outcome,
        problem: errors.UnusableReply,
        read_all: ReadAll[T],
    ) -> tuple[T | errors.JudgeError, Usage]:
        """Ask again, once, for a reply that cannot be used.

        Example: the model says "Sure!" instead of JSON. Its second reply is JSON, which
        replaces "Sure!" in the store.

        Args:
            request: The request that brought the reply.
            key: The key under which the reply is stored.
            reply: The reply that cannot be used.
            problem: Why it cannot be used.
            read_all: Reads several replies; returns an error for an unusable reply.

        Returns:
            What was read of the last reply, or why it cannot be used, or the error of a
            call that failed; and what asking again cost.
        """
        stored_reply = self._reply_store.get(key)
        if stored_reply is not None and stored_reply != reply:
            # Another run has repaired the reply meanwhile.
            (result,) = await read_all([stored_reply])
            return result, Usage()
        if isinstance(problem, errors.ContentRefused):
            # The model declines to answer, and would decline again.
            self._reply_store.reject(key)
            return problem, Usage()
        new_reply, usage = await self._ask_once_more(request, key, reply, problem)
        (result,) = await read_all([new_reply])
        if isinstance(result, errors.UnusableReply):
            self._reply_store.reject(key)
        elif isinstance(new_reply, Choice):
            self._reply_store.put({key: new_reply})
        # Else the call failed, e.g. at a limit. A later run may repair the reply.
        return result, usage

    async def _ask_once_more(
        self,
        request: ChatRequest,
        key: str,
        reply: Outcome,
        problem: errors.UnusableReply,
    ) -> tuple[Outcome, Usage]:
        """Send a request again, with the problem of the last reply; return the new reply.

        The new reply is not taken from the store, and not stored. Runs that repair the
        same reply at the same time share the call.

        Args:
            request: The request that brought the reply.
            key: The key of the reply. The key of the repair is made of it.
            reply: The last reply.
            problem: Why the last reply cannot be used.

        Returns:
            The reply or why there is none; and what it cost, as repairs.
        """
        repair_request = request_for_repair(request, reply, problem)
        (outcome,), cost = await self._replies(
            _request_maker(repair_request),
            [f"{key}|repair"],
            self._complete,
            keep=False,
        )
        return outcome, replace(cost, repairs=cost.calls)

    def _keys(self, request: ChatRequest, polls: int, first_poll: int) -> list[str]:
        """Return the key of each reply in the store, one per poll.

        A key is a digest of everything that changes the reply: the model, the request,
        the number of the repetition, and the index of the poll. Example: 3 polls of one
        request have 3 keys; the same request in a later run has the same keys.

        Args:
            request: The request.
            polls: How many replies are asked for.
            first_poll: Index of the first of them.
        """
        settings = {
            "model": self._model_identity,
            "messages": [
                (message.role, message.content) for message in request.messages
            ],
            "schema": request.schema,
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
        """Ask typed questions about the same texts, in one request.

        A typed question is answered with probabilities. Each answer is stored under its
        own key, so that only missing answers are asked for. An unusable answer is not
        asked for again: the same request would give the same answer. Example: of 4
        questions 1 is stored; the request asks 3, which share its cost.

        Args:
            state: The texts that the questions are about, as JSON.
            questions: Different questions, each as JSON.
            read: Reads the answer to a question; raises ``JudgeError`` if the answer
                cannot be used.

        Returns:
            The answer and cost of each question, by the question. The costs sum to what
            the request cost.
        """
        await self.prepare()
        question_by_key = self._keys_of_typed(state, questions)
        # Noted before the request, to share out its cost: afterwards all are stored.
        unanswered_by_key = self._not_stored_nor_on_their_way(question_by_key)
        # The stored answers, and one request for those that are missing.
        outcomes, usage = await self._replies(
            partial(_request_typed, state, question_by_key),
            list(question_by_key),
            # Typed questions have no optional features to leave out.
            self._complete_typed,
        )
        cost_by_key = cost_of_each(usage, question_by_key, unanswered_by_key)
        decisions: dict[str, Decision[T]] = {}
        for outcome, (key, question) in zip(
            outcomes, question_by_key.items(), strict=True
        ):
            result = _read_decision(outcome, partial(read, question))
            is_unusable = isinstance(result, errors.JudgeError)
            if isinstance(outcome, Choice) and is_unusable:
                self._reply_store.reject(key)
            decisions[question] = Decision(result, cost_by_key[key])
        return decisions

    def _keys_of_typed(self, state: str, questions: Sequence[str]) -> dict[str, str]:
        """Return typed questions by the keys of their answers in the store.

        A key is a digest of everything that changes the answer.
        """
        settings = json.dumps([self._model_identity, state, self.replicate])
        return {
            _digest(f"{settings}|typed|{question}"): question for question in questions
        }

    def _not_stored_nor_on_their_way(
        self, question_by_key: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the typed questions that this run has to send, and so to pay.

        Their answers are not stored, and no other run is calling for them.
        """
        on_their_way = self._prepared.replies_on_their_way
        return {
            key: question
            for key, question in question_by_key.items()
            if key not in on_their_way and self._reply_store.get(key) is None
        }

    # Stored replies, and one call for equal requests at the same time.

    async def _replies(
        self,
        make_request: "_RequestMaker",
        keys: Sequence[str],
        complete: "_Complete",
        *,
        keep: bool = True,
    ) -> tuple[list[Outcome], Usage]:
        """Return the replies to a request: stored, awaited, or called for.

        Example: of 5 keys 2 are stored, another run is calling for 1, which is awaited,
        and 2 are called for. If the other run gives up its call, that reply is missing
        again, and the next round of the loop calls for it.

        Args:
            make_request: Makes the request for the replies under some of the keys.
            keys: The key of each reply in the store.
            complete: Sends that request, in one call or several.
            keep: Whether replies are taken from the store and kept there. Either way
                replies that other runs are calling for are awaited.

        Returns:
            For each key a reply or an error, and what all of it cost.
        """
        # Replies that other runs are calling for at this moment, by key.
        on_their_way = self._prepared.replies_on_their_way
        usages: list[Usage] = []
        # By key; None for a reply that is not there yet. Each of the three steps below
        # fills in its replies here, and returns what they cost.
        outcomes: dict[str, Outcome | None] = dict.fromkeys(keys)
        while None in outcomes.values():
            if keep:
                usages += self._fill_in_stored(outcomes)
            missing = [key for key, outcome in outcomes.items() if outcome is None]
            to_await = {
                key: on_their_way[key] for key in missing if key in on_their_way
            }
            keys_to_call_for = [key for key in missing if key not in to_await]
            if keys_to_call_for:
                request = make_request(keys_to_call_for)
                cost_of_call = await self._call_and_fill_in(
                    request, keys_to_call_for, outcomes, keep, complete
                )
                usages.append(cost_of_call)
            usages += await self._await_and_fill_in(to_await, outcomes, keep=keep)
        answered = [outcome for outcome in outcomes.values() if outcome is not None]
        return answered, _sum_of_usages(usages)

    def _fill_in_stored(self, outcomes: dict[str, Outcome | None]) -> list[Usage]:
        """Fill in the stored replies; return a usage for each of them.

        Example: 5 keys without a reply, 2 of them stored: ``outcomes`` gets 2 replies,
        and 2 usages with ``stored=1`` are returned.

        Args:
            outcomes: By key, the reply; None for a missing reply.
        """
        usages: list[Usage] = []
        for key, outcome in outcomes.items():
            stored_reply = self._reply_store.get(key) if outcome is None else None
            if stored_reply is None:
                continue
            outcomes[key] = stored_reply
            model = stored_reply.origin.model  # "" if the endpoint did not name it
            usages.append(Usage(stored=1, models=(model,) if model else ()))
        return usages

    async def _await_and_fill_in(
        self,
        on_their_way: Mapping[str, _ReplyOnItsWay],
        outcomes: dict[str, Outcome | None],
        *,
        keep: bool,
    ) -> list[Usage]:
        """Wait for the replies that other runs are calling for, and fill them in.

        Such a reply costs this run nothing, like a stored one. It stays missing (None)
        if the other run gave up its call. Example: two replies come, a third call is
        given up: two usages with ``stored=1``, and the third outcome is None.

        Args:
            on_their_way: What other runs are calling for, by the key of the reply.
            outcomes: By key, the reply. The replies are filled in here.
            keep: Whether they are kept in the store of this run, too.

        Returns:
            The usage of each reply that came, counted as stored.
        """
        usages: list[Usage] = []
        for key, reply_on_its_way in on_their_way.items():
            # Shielded: if this run is cancelled, the future is not, as others wait for
            # it.
            outcome = await asyncio.shield(reply_on_its_way.future)
            outcomes[key] = outcome
            if isinstance(outcome, Choice):
                usages.append(Usage(stored=1))
                if keep and reply_on_its_way.store is not self._reply_store:
                    self._reply_store.put({key: outcome})
        return usages

    def _announce(self, keys: Sequence[str]) -> None:
        """Note that this run calls for these replies, so that other runs wait for them."""
        loop = asyncio.get_running_loop()
        for key in keys:
            self._prepared.replies_on_their_way[key] = _ReplyOnItsWay(
                self._reply_store, loop.create_future()
            )

    async def _call_and_fill_in(
        self,
        request: ChatRequest,
        keys: list[str],
        outcomes: dict[str, Outcome | None],
        keep: bool,
        complete: "_Complete",
    ) -> Usage:
        """Call the endpoint for the replies under some keys, and fill them in.

        Another run that wants an equal reply meanwhile waits for this call. Example: of
        5 polls 2 are stored; ``keys`` has the other 3, and 3 replies are asked for.

        Args:
            request: The request for all of the replies.
            keys: The keys of the replies, in the order in which they come.
            outcomes: By key, the reply or why there is none. Filled in here.
            keep: Whether the replies are kept in the store.
            complete: Sends the request in one call or several, each through ``send``
                (below), and joins the replies.

        Returns:
            What all calls cost.
        """

        async def send(request: ChatRequest, first_index: int) -> ChatReply:
            """Send one call for ``request.n`` replies; the first has the given index."""
            keys_of_call = keys[first_index : first_index + request.n]
            return await self._send_call(request, keys_of_call, outcomes, keep=keep)

        self._announce(keys)
        try:
            reply = await complete(request, send)
            missing = [key for key in keys if outcomes[key] is None]
            outcomes.update(_reasons_of_missing(missing, reply))
        finally:
            self._hand_over(keys, outcomes)
        return reply.usage

    def _hand_over(
        self, keys: Sequence[str], outcomes: Mapping[str, Outcome | None]
    ) -> None:
        """Give what this run called for to the runs that wait for it.

        A missing reply (None) makes the others call for it themselves. So does a limit
        of this run: other runs may have other limits.
        """
        for key in keys:
            outcome = outcomes[key]
            is_limit_of_this_run = isinstance(outcome, errors.LimitReached)
            reply_on_its_way = self._prepared.replies_on_their_way.pop(key)
            reply_on_its_way.future.set_result(
                None if is_limit_of_this_run else outcome
            )

    async def _send_call(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        outcomes: dict[str, Outcome | None],
        *,
        keep: bool,
    ) -> ChatReply:
        """Send one call, and keep the replies that it brings.

        Example: of 3 replies that are asked for, 2 come: they are filled in under the
        first two keys, and the third stays None.

        Args:
            request: The request; its ``n`` says how many replies it asks for.
            keys: The keys of these replies, in the order in which they come.
            outcomes: By key, the reply or why there is none. Replies are filled in.
            keep: Whether the replies are kept in the store.
        """
        # In a run in batches the store answers in place of the endpoint.
        reply = self._reply_store.reply_from_batch(self.model, keys, request)
        if reply is not None:
            # A reply from a batch bypasses ``_attempts``, which else notes the cost.
            # Noted, it is counted even if the question ends in a crash.
            spending_here().note(reply.usage)
        else:
            reply = await self._attempts.send(request)  # which notes the cost itself
        choices = _choices_by_key(reply, keys)
        if keep and choices:
            self._reply_store.put(choices)
        outcomes.update(choices)
        return reply


_RequestMaker = Callable[[Sequence[str]], ChatRequest]
"""Makes the request for the replies under the keys that it is given."""

_Complete = Callable[[ChatRequest, Send], Awaitable[ChatReply]]
"""Sends a request in one call or several."""


def _request_maker(request: ChatRequest) -> _RequestMaker:
    """Return a function that asks in one request for a reply under each key."""
    return lambda keys: replace(request, n=len(keys))


def _request_typed(
    state: str, question_by_key: Mapping[str, str], keys: Sequence[str]
) -> ChatRequest:
    """Make the request for the answers to some typed questions.

    Args:
        state: The texts that the questions are about, as JSON.
        question_by_key: All questions, by the keys of their answers.
        keys: The keys of the answers that are wanted.
    """
    text = request_text(state, [question_by_key[key] for key in keys])
    return ChatRequest((Message("user", text),), n=len(keys), temperature=None)


def _reasons_of_missing(
    missing: Sequence[str], reply: ChatReply
) -> dict[str, errors.JudgeError]:
    """Return why each missing reply did not come, by its key.

    The failures of all calls are given out in turn. There may be more of them than
    missing replies, since a later call may have succeeded. Without a failure left, the
    endpoint sent fewer replies than it was asked for.

    Args:
        missing: The keys of the missing replies.
        reply: What all calls have brought.
    """
    too_few = errors.UnusableReply("the endpoint returned fewer replies than asked for")
    failures = iter(reply.failures)
    return {key: next(failures, too_few) for key in missing}


def _read_decision(
    outcome: Outcome, read: Callable[[Choice], T]
) -> T | errors.JudgeError:
    """Read the answer to a typed question; return why it cannot be used if so."""
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.JudgeError as error:
        return error


def _is_in_batches(store: ReplyStore) -> bool:
    """Whether a store belongs to a run in batches: it answers instead of the endpoint."""
    return type(store).reply_from_batch is not ReplyStore.reply_from_batch


def _sum_of_usages(usages: Sequence[Usage]) -> Usage:
    """Add up what several calls cost."""
    if len(usages) == 1:  # the usual case
        return usages[0]
    total = Usage()
    for usage in usages:
        total += usage
    return total


def _choices_by_key(reply: ChatReply, keys: Sequence[str]) -> dict[str, Choice]:
    """Return the choices of a reply by their keys.

    Args:
        reply: The reply.
        keys: The keys in the order of the choices. Keys without a choice are left out.
    """
    model = next(iter(reply.usage.models), "")
    origin = _origin(model, len(reply.choices))
    return {
        key: Choice(choice.text, choice.finish, choice.tokens, origin)
        for key, choice in zip(keys, reply.choices, strict=False)
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_origin = lru_cache(maxsize=64)(Origin)  # the same for thousands of replies
