"""Everything around a call to a chat model, in the order in which a request meets it.

Stored replies, and one call for equal requests in flight → what the endpoint can do
(``features``) → attempts with backoff, slots, rate and budget (``attempts``, ``limits``)
→ the call. A reply that cannot be used is asked for again, once.

A session belongs to a judge. All its runs share the calls in flight, what was learned
about the endpoint, the slots, and the first call, which is sent alone, so that a wrong
key costs one; after ten seconds the others go on beside it. Each run brings its store,
its limits and its concurrency. What is shared lives on one event loop; pickle and fork
leave it behind.
"""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from ragmetrics_core.data import Usage, errors, sendable_text
from ragmetrics_core.data.replies import SAID_TWICE
from ragmetrics_core.models.addresses import is_on_this_machine
from ragmetrics_core.models.attempts import (
    Attempts,
    call_authors_code,
    error_of_cut_prompt,
)
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    Origin,
    check_prices,
)
from ragmetrics_core.models.decision_forms import request_text
from ragmetrics_core.models.endpoint_errors import ADVICE_ON_REFUSED_CONTENT
from ragmetrics_core.models.endpoint_sentences import add_sentence
from ragmetrics_core.models.features import (
    EndpointState,
    FittedRequest,
    gather_all,
    stated_missing,
)
from ragmetrics_core.models.judge_work import JudgedRow, judged_row, spending_here
from ragmetrics_core.models.limits import (
    FIRST_SLOTS_ON_THIS_MACHINE,
    Budget,
    RateLimiter,
    Slots,
)
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore
from ragmetrics_core.models.threads import (
    await_users_code,
    call_in_thread,
    compute_beside_loop,
)

_logger = logging.getLogger("ragmetrics_core")

T = TypeVar("T")
ReplyOrError = Choice | errors.JudgeError

# A reply that was cut off is asked for again with so many times the tokens.
_LONGER = 4
# A judge that since its last usable reply answered none of so many rows is none. A filter
# of contents may refuse the first few rows of a table.
_MOST_FAILED_ROWS = 20
# So many characters of an unusable reply are shown to the model that is asked again.
_MOST_SHOWN = 20_000


@dataclass(frozen=True, slots=True, repr=False)
class Answers(Generic[T]):
    """The replies to one request, as they were read, and what they cost.

    There is an outcome for each reply that was asked for, in that order: what was read
    from the reply, or an error.
    """

    outcomes: tuple[T | errors.JudgeError, ...]
    usage: Usage


@dataclass(slots=True, repr=False)
class Fetched:
    """What became of the replies under some keys.

    Attributes:
        outcomes: By key, the reply or why there is none; None for a reply that is not
            there yet.
        usage: What it cost.
    """

    outcomes: dict[str, ReplyOrError | None]
    usage: Usage = field(default_factory=Usage)

    @property
    def missing(self) -> list[str]:
        """The keys without an outcome."""
        return [key for key, outcome in self.outcomes.items() if outcome is None]

    def in_order(self) -> list[ReplyOrError]:
        """Return the outcomes in the order of their keys, once none is missing."""
        return [outcome for outcome in self.outcomes.values() if outcome is not None]

    def add_stored(self, key: str, reply: Choice) -> None:
        """Fill in a reply that costs nothing: a stored one, or one of another run."""
        self.outcomes[key] = reply
        model = reply.origin.model  # "" if the endpoint did not name it
        self.usage += Usage(stored=1, models=(model,) if model else ())


class _Shared:
    """What all runs of a session share on one event loop.

    Attributes:
        endpoint: What is known of the endpoint.
        slots: How many calls may be in flight.
        in_flight: What runs are calling for now, by the key of the reply. The future
            gives the reply or an error; None if that run gave up its call.
        memory: Keeps the replies of a model whose settings are not known, as no store
            on disk can tell them from those of another model.
    """

    def __init__(self, found_missing: set[str], first_slots: int | None) -> None:
        self.endpoint = EndpointState(found_missing)
        self.slots = Slots(0, first_slots)
        self.in_flight: dict[str, asyncio.Future[ReplyOrError | None]] = {}
        self.memory = MemoryStore()


_SharedByLoop = WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared]


@dataclass(eq=False, repr=False)
class Session:
    """Sends requests to a chat model: stores replies, repeats and limits calls.

    Args:
        model: The model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
    """

    model: ChatModel
    _: KW_ONLY
    attempts: int = 8
    timeout: float | None = 300.0
    # features that the model turned out to lack
    _found_missing: set[str] = field(default_factory=set)
    _shared_by_loop: _SharedByLoop = field(default_factory=WeakKeyDictionary)
    # Settings of one run; see ``during``.
    _store: ReplyStore = field(default_factory=MemoryStore)
    _concurrency: int = 32
    _budget: Budget = field(default_factory=Budget)
    _shared: _Shared | None = field(default=None, init=False)
    # The run's rows for which calls failed since the last usable reply, those that got
    # a usable one, and how many replies each waits for.
    _failed_rows: set[JudgedRow | None] = field(default_factory=set, init=False)
    _answered_rows: WeakSet[JudgedRow] = field(default_factory=WeakSet, init=False)
    _n_awaited: Counter[JudgedRow | None] = field(default_factory=Counter, init=False)
    _has_usable_reply: bool = field(default=False, init=False)

    def __getstate__(self) -> dict[str, Any]:
        of_this_process = ("_shared_by_loop", "_shared", "_answered_rows")
        return {**vars(self), **dict.fromkeys(of_this_process)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._shared_by_loop = WeakKeyDictionary()
        self._answered_rows = WeakSet()

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
        found = set[str]() if self._is_in_batches else self._found_missing
        return stated_missing(self.model.capabilities()) | found

    @property
    def _is_in_batches(self) -> bool:
        """Whether the store belongs to a run in batches: it answers for the endpoint."""
        return type(self._store).reply_from_batch is not ReplyStore.reply_from_batch

    # Making ready

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
        await call_authors_code(
            self.model.name, await_users_code, self.model, self.model.prepare
        )
        check_prices(self.model.name, self.model.prices())
        # Another task of this run may have set it up while the model was prepared.
        if self._is_prepared_on(loop):
            return
        is_local = is_on_this_machine(self.model.address)
        first_slots = FIRST_SLOTS_ON_THIS_MACHINE if is_local else None
        shared = self._shared_by_loop.setdefault(
            loop, _Shared(self._found_missing, first_slots)
        )
        shared.slots.most = max(shared.slots.most, self._concurrency)
        # Asked for once: it may take a while, and shall not change.
        cache_key = self.model.cache_key
        # Tells this model from others in the store.
        self._model_identity = (self.model.name, cache_key or "")
        # Without a key nobody knows the model's settings: replies then stay in memory.
        self._reply_store = shared.memory if cache_key is None else self._store
        if cache_key is None and not isinstance(self._store, MemoryStore):
            _logger.warning(
                "replies of %s are not stored, as nothing tells its settings: give the"
                " model object a cache_key",
                self.model.name,
            )
        self._attempts = Attempts(
            self.model,
            shared.endpoint,
            asyncio.Semaphore(self._concurrency),
            shared.slots,
            RateLimiter(self._budget),
            self._budget,
            self.attempts,
            self.timeout,
            self._failed_rows,
        )
        # Each run asks for itself: since an earlier one was refused, the model may have
        # been installed, or the account paid.
        shared.endpoint.end_outage()
        self._in_flight = shared.in_flight
        self._shared = shared

    def _is_prepared_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this run is set up, and uses what all runs share on this loop."""
        return self._shared is not None and self._shared is self._shared_by_loop.get(
            loop
        )

    # Asking in words

    async def ask(
        self,
        request: ChatRequest,
        read: Callable[[Choice], T],
        *,
        polls: int = 1,
        first_poll: int = 0,
        is_users_reader: bool = False,
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
            is_users_reader: Whether ``read`` is code of a user's own, which may take any
                time.

        Returns:
            An outcome for each reply; ``JudgeUnavailable`` for a call that cannot
            succeed. The usage counts every call that was sent.
        """
        await self.prepare()
        row = judged_row.get()
        self._n_awaited[row] += 1
        try:
            keys = await self._keys(request, polls, first_poll)
            fetched = await self._fetch(request, keys)

            async def read_here(outcome: ReplyOrError) -> T | errors.JudgeError:
                """Read a reply beside the event loop; return why it cannot be used."""
                work = partial(_read, outcome, read)
                if is_users_reader:
                    # in a thread of its own: one that never ends holds up nobody
                    result = call_in_thread(
                        work, context=copy_context(), name="ragmetrics reader"
                    )
                    return await asyncio.wrap_future(result)
                n_characters = len(outcome.text) if isinstance(outcome, Choice) else 0
                return await compute_beside_loop(work, size=n_characters)

            outcomes = fetched.in_order()
            results = [await read_here(outcome) for outcome in outcomes]
            if any(isinstance(result, errors.UnusableReply) for result in results):
                results = await gather_all(
                    self._repaired(request, poll, outcome, result, read_here, fetched)
                    for poll, (outcome, result) in enumerate(
                        zip(outcomes, results, strict=True), start=first_poll
                    )
                )
        finally:
            self._n_awaited -= Counter((row,))  # drops what is zero
        self._note_row(results)
        return Answers(tuple(results), fetched.usage)

    def _note_row(self, results: Sequence[object]) -> None:
        """End a run whose judge gives nothing that can be used, row after row.

        Refusals, failures to the last attempt and replies that cannot be read count
        alike; not what is too long, or refused for its texts. Nor what is rejected once
        the run has a usable reply: then it is for the row's texts. A row that got a
        usable reply, or waits for one, is none of these.

        Args:
            results: What was read of the replies to a request, or the errors.
        """
        if self._is_in_batches:
            return
        row = judged_row.get()
        for result in results:
            if not isinstance(result, errors.JudgeError):
                self._failed_rows.clear()
                self._has_usable_reply = True
                if row is not None:
                    self._answered_rows.add(row)
                return
        error = results[0]
        is_of_texts = isinstance(
            error, (errors.ContextWindowExceeded, errors.ContentRefused)
        )
        is_of_texts |= self._has_usable_reply and isinstance(
            error, errors.RequestRejected
        )
        ends_all = isinstance(error, errors.JudgeUnavailable) and not error.single
        may_be_answered = row in self._answered_rows or row in self._n_awaited
        if is_of_texts or ends_all or may_be_answered:
            return
        self._failed_rows.add(row)
        n_rows = len(self._failed_rows)
        if n_rows >= _MOST_FAILED_ROWS and self._attempts.refusal is None:
            # The run's own: whatever comes for calls in flight, none leaves any more.
            self._attempts.refusal = errors.JudgeUnavailable(
                f"{error}; it answered none of the last {n_rows} rows"
            )

    async def _repaired(
        self,
        request: ChatRequest,
        poll: int,
        outcome: ReplyOrError,
        result: T | errors.JudgeError,
        read: Callable[[ReplyOrError], Awaitable[T | errors.JudgeError]],
        fetched: Fetched,
    ) -> T | errors.JudgeError:
        """Return what was read of a reply; ask again, once, for one that cannot be used.

        The repair is a request like any other: it is stored, and equal ones of one poll
        share a call. If it brings nothing usable, both replies are forgotten, so that the
        next run begins anew.

        Args:
            request: The request that brought the reply.
            poll: The index of the reply among those to the request.
            outcome: The reply, or why there is none: then nothing is repaired.
            result: What was read of the reply; an error for an unusable reply.
            read: Reads a reply.
            fetched: Gets what asking again costs.

        Returns:
            What was read of the reply or of the new one, or an error that names the
            model and says what to do.
        """
        if not isinstance(outcome, Choice) or not isinstance(
            result, errors.UnusableReply
        ):
            return result
        first, n_written = result, 0
        keys = await self._keys(request, 1, poll)
        is_cut_off = outcome.finish == "length"
        # A model that declines to answer would decline again.
        if not isinstance(result, errors.ContentRefused):
            # The conversation goes on, with the reply and what is wrong with it: an equal
            # request would bring an equal reply.
            conversation = list(request.messages)
            if result.raw.strip():
                conversation.append(Message("assistant", result.raw[:_MOST_SHOWN]))
            complaint = (
                f"Your reply could not be used: {result}. Reply again with only the JSON"
                " object."
            )
            conversation.append(Message("user", complaint))
            limit = request.max_tokens
            if is_cut_off and limit is not None:
                limit *= _LONGER
            repair = replace(
                request,
                messages=tuple(conversation),
                max_tokens=limit,
                # an endpoint that holds replies to the schema may have ended it for that
                schema=None if outcome.finish == "other" else request.schema,
            )
            repair_keys = await self._keys(repair, 1, poll)
            repaired = await self._fetch(repair, repair_keys)
            fetched.usage += replace(repaired.usage, repairs=repaired.usage.calls)
            n_written = repaired.usage.completion_tokens
            (new_outcome,) = repaired.in_order()
            result = await read(new_outcome)
            keys += repair_keys
        if not isinstance(result, errors.UnusableReply):
            return result
        if first.verdict is not None and first.verdict == result.verdict:  # twice
            fetched.usage += Usage(fallbacks=(SAID_TWICE,))
            return cast("T", result.read)
        self._reject(keys)

        if is_cut_off and request.max_tokens is not None:
            limit_tried = request.max_tokens * _LONGER
            is_below = 0 < n_written < limit_tried / 2
            advice = (
                f"{n_written:,} tokens were all that the model's own limit, or the window"
                " of its server, left: raise that, or take another model"
                if is_below
                else f"{limit_tried:,} tokens, where a reply is asked for again, were not"
                " enough: raise the limit by LLMJudge(model,"
                f" max_tokens={limit_tried * _LONGER})"
            )
        elif isinstance(result, errors.ContentRefused):
            advice = ADVICE_ON_REFUSED_CONTENT
        elif not result.raw.strip():
            advice = "another model may answer"
        else:
            advice = (
                "read it in the results (raw reply), and take a model that keeps to a"
                " form"
            )
        return type(result)(
            f"the reply of {self.model.name} cannot be used: {result}; {advice}",
            raw=result.raw,
        )

    async def _keys(
        self, request: ChatRequest, polls: int, first_poll: int
    ) -> list[str]:
        """Return the key of each reply in the store, one per poll.

        A key is a digest of everything that changes the reply: the model, the request
        and the index of the poll. Example: 3 polls of one request have 3 keys; the same
        request in a later run has the same keys. Keys of a long request are made in a
        thread.
        """

        def make_keys() -> list[str]:
            digest_of_all = self._digest(
                [(message.role, message.content) for message in request.messages],
                request.schema,
                request.temperature,
                request.top_logprobs,
                request.max_tokens,
            )
            return [
                _digest(f"{digest_of_all}|poll {poll}")
                for poll in range(first_poll, first_poll + polls)
            ]

        n_characters = sum(len(message.content) for message in request.messages)
        return await compute_beside_loop(make_keys, size=n_characters)

    # Asking typed questions

    async def ask_typed(
        self, state: str, questions: Sequence[str], read: Callable[[str, Choice], T]
    ) -> tuple[dict[str, T | errors.JudgeError], Usage]:
        """Ask typed questions about the same texts, in one request.

        Each answer is stored under its own key, so that only missing answers are asked
        for. An unusable answer is not asked for again: the same request would give the
        same answer. Example: of 4 questions 1 is stored; the request asks 3.

        Args:
            state: The texts that the questions are about, as JSON.
            questions: Different questions, each as JSON.
            read: Reads the answer to a question; raises ``JudgeError`` if the answer
                cannot be used.

        Returns:
            By question the answer as it was read, or an error; and what all cost.
        """
        await self.prepare()
        question_by_key = {
            self._digest(state, "typed", question): question for question in questions
        }
        texts = ChatRequest((Message("user", state),), temperature=None)
        fetched = await self._fetch(texts, list(question_by_key), question_by_key)
        answers: dict[str, T | errors.JudgeError] = {}
        for (key, question), outcome in zip(
            question_by_key.items(), fetched.in_order(), strict=True
        ):
            answer = _read(outcome, partial(read, question))
            if isinstance(outcome, Choice) and isinstance(answer, errors.JudgeError):
                self._reject([key])
            answers[question] = answer
        self._note_row(list(answers.values()))
        return answers, fetched.usage

    # Keys, stored replies, and one call for equal requests at the same time

    def _digest(self, *parts: object) -> str:
        """Return a digest of data of JSON, and of the model."""
        return _digest(json.dumps([self._model_identity, *parts]))

    def _reject(self, keys: Sequence[str]) -> None:
        """Forget replies that cannot be used: the next run asks again."""
        for key in keys:
            self._reply_store.reject(key)

    async def _fetch(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        question_by_key: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Return the replies under some keys: stored, awaited, or called for.

        Example: of 5 keys 2 are stored, another run is calling for 1, which is awaited,
        and 2 are called for. If the other run gives up its call, that reply is missing
        again, and the next round of the loop calls for it.

        Args:
            request: The request for one of the replies; of typed questions their texts.
            keys: The key of each reply in the store.
            question_by_key: The typed questions, each as JSON; None for a chat request.
        """
        in_flight = self._in_flight
        fetched = Fetched(dict.fromkeys(keys))
        while fetched.missing:
            for key in fetched.missing:
                stored_reply = self._reply_store.get(key)
                if stored_reply is not None:
                    fetched.add_stored(key, stored_reply)

            missing = fetched.missing
            # Looked up now: while this run calls, the others may end.
            futures = {key: in_flight[key] for key in missing if key in in_flight}
            to_call_for = [key for key in missing if key not in futures]
            # Other runs that want equal replies meanwhile wait for this call.
            for key in to_call_for:
                in_flight[key] = asyncio.get_running_loop().create_future()
            try:
                if to_call_for:
                    await self._call_for(request, to_call_for, question_by_key, fetched)
            finally:
                for key in to_call_for:
                    outcome = fetched.outcomes[key]
                    # What ends this run ends no other: they call for it themselves.
                    is_of_run = (
                        isinstance(outcome, errors.LimitReached)
                        or outcome is self._attempts.refusal
                    )
                    in_flight.pop(key).set_result(None if is_of_run else outcome)

            # Shielded: if this run is cancelled, the future is not, as others wait for
            # it.
            for key, future in futures.items():
                outcome = await asyncio.shield(future)
                fetched.outcomes[key] = outcome
                if isinstance(outcome, Choice):
                    fetched.add_stored(key, outcome)
                    # The other run may have another store.
                    if self._reply_store.get(key) is None:
                        self._reply_store.put({key: outcome})
        return fetched

    async def _call_for(
        self,
        request: ChatRequest,
        keys: Sequence[str],
        question_by_key: Mapping[str, str] | None,
        fetched: Fetched,
    ) -> None:
        """Call the endpoint for the replies under some keys, and fill them in.

        Example: of 5 polls 2 are stored; ``keys`` has the other 3, and 3 replies are
        asked for. ``fetched`` gets the replies, or why there is none.
        """
        endpoint = self._attempts.endpoint
        send_call = partial(self._send_call, keys, fetched)
        request = replace(request, n=len(keys))
        if question_by_key is None:
            if self._is_in_batches:
                # what an earlier pass has sent is fetched, and counts
                request = replace(request, needs_logprobs=False)
            fitted = FittedRequest(
                self.model,
                endpoint,
                request,
                send_call,
                may_guess=not self._is_in_batches,  # each guess would be a batch
            )
            reply = await fitted.complete()
            fetched.usage += reply.usage
        else:  # of several questions; it has no feature to leave out
            questions = [question_by_key[key] for key in keys]
            text = request_text(request.messages[0].content, questions)
            request = replace(request, messages=(Message("user", text),))
            async with endpoint.first_with(set):
                reply = await send_call(request, 0)
        # The failures of all calls are given out in turn. There may be more of them
        # than missing replies, since a later call may have succeeded.
        failures = iter(reply.failures)
        too_few = errors.UnusableReply(
            "the endpoint returned fewer replies than asked for"
        )
        for key in keys:
            if fetched.outcomes[key] is None:
                fetched.outcomes[key] = next(failures, too_few)

    async def _send_call(
        self,
        keys: Sequence[str],
        fetched: Fetched,
        request: ChatRequest,
        first_index: int,
    ) -> ChatReply:
        """Send one call for ``request.n`` replies, store those that come, note the cost.

        Example: of 3 replies that are asked for, 2 come: they are filled in under the
        first two keys, and the third stays None. ``keys`` are those of all replies that
        are wanted; the call is for those from ``first_index`` on.
        """
        keys_of_call = keys[first_index : first_index + request.n]
        # In a run in batches the store answers in place of the endpoint.
        reply = self._reply_store.reply_from_batch(self.model, keys_of_call, request)
        if reply is None:
            reply = await self._attempts.send(request)  # which notes the cost
        else:
            for failure in set(reply.failures):  # one error for all replies
                add_sentence(failure, request)
            # Noted, it is counted even if the question ends in a crash.
            spending_here().append(reply.usage)
        cut = error_of_cut_prompt(self.model, request, reply)
        if cut is not None and self._is_in_batches:  # nothing can be counted again
            reply = replace(reply, choices=(), failures=(cut,) * request.n)
        elif cut is not None:
            reply = await self._attempts.count_again(request, reply, cut)
        fetched.usage += reply.usage
        refusal = reply.error
        if isinstance(refusal, errors.UnusableReply) and refusal.finish:
            # Like any reply that cannot be used it is asked for again.
            written = Choice(sendable_text(refusal.raw), refusal.finish)
            reply = replace(reply, choices=(written,) * request.n, failures=())
        if reply.choices:
            model = next(iter(reply.usage.models), "")
            origin = Origin(model, len(reply.choices))
            choices = {
                key: Choice(choice.text, choice.finish, choice.tokens, origin)
                for key, choice in zip(keys_of_call, reply.choices, strict=False)
            }
            self._reply_store.put(choices)
            fetched.outcomes.update(choices)
        return reply


def _read(outcome: ReplyOrError, read: Callable[[Choice], T]) -> T | errors.JudgeError:
    """Read a reply; return an error if there is none, or it cannot be used."""
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.JudgeError as error:
        return error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
