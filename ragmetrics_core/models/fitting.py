"""Fits requests to what an endpoint can do, and learns it where nobody knows.

A feature that may be missing is tried once. An endpoint that rejects it, or that
accepts and ignores it, is remembered, and the request is served without: several
replies by several calls, log-probabilities not at all (the judge polls instead), a JSON
schema by the prompt alone. Each such fallback is named in the usage. Two features have
two forms, and an endpoint may know only one form: the schema, and the limit of a
reply's length.
"""

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ragmetrics_core.data import (
    ContextWindowExceeded,
    JudgeError,
    RequestRejected,
    Usage,
)
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice

T = TypeVar("T")
Send = Callable[[ChatRequest, int], Awaitable[ChatReply]]
"""Sends one call.

It is given a request, and the index of the first reply that the call is for among all
replies that are wanted. It raises no failure: the reply that it returns holds them.
"""


class _Feature(NamedTuple):
    """A feature of requests.

    ``is_used`` says whether a request uses it, ``without`` what changes in a request
    that does without, and ``spellings`` how a rejection names it.
    """

    is_used: Callable[[ChatRequest], bool]
    without: Mapping[str, Any]
    spellings: tuple[str, ...]


# In the order in which they are given up.
_FEATURES: dict[str, _Feature] = {
    "logprobs": _Feature(
        is_used=lambda request: request.top_logprobs > 0,
        without={"top_logprobs": 0},
        spellings=("logprobs",),
    ),
    "n": _Feature(
        is_used=lambda request: request.n > 1,
        without={},
        spellings=("param n", "parameter n", "'n'"),
    ),
    "schema_form": _Feature(
        is_used=lambda request: (
            request.schema is not None and not request.schema_in_object
        ),
        without={"schema_in_object": True},
        spellings=("response_format", "json_schema"),
    ),
    "json_schema": _Feature(
        is_used=lambda request: request.schema is not None,
        without={"schema": None},
        spellings=("response_format", "json_schema"),
    ),
    "temperature": _Feature(
        is_used=lambda request: request.temperature is not None,
        without={"temperature": None},
        spellings=("temperature",),
    ),
    "limit_form": _Feature(
        is_used=lambda request: request.max_tokens is not None,
        without={"newer_limit": True},
        spellings=("max_tokens",),
    ),
}
# Two forms of one feature: a request in the other form lacks nothing.
_FORMS = frozenset({"schema_form", "limit_form"})
# The limit of a reply's length is so many times higher for a model that reasons.
_REASONING_FACTOR = 16
# After so many requests that were rejected whatever was removed, only a feature that
# the rejection names is removed from a request.
_MAX_GUESSES = 2
# Rejected requests that are not sent again, and for how long.
_MAX_REMEMBERED = 1_000
_REMEMBERED_SECONDS = 600.0


async def gather_all(
    work: Iterable[Coroutine[Any, Any, T] | asyncio.Future[T]],
) -> list[T]:
    """Wait until all work has ended; return the results, or raise the first error.

    If the caller is cancelled, all work is cancelled.
    """
    awaitables = list(work)
    if len(awaitables) == 1:
        return [await awaitables[0]]  # the usual case needs no task of its own
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    # return_exceptions, so that all are done before the first error is raised.
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


@dataclass(slots=True, repr=False)
class _Progress:
    """The replies to one request so far, from all calls made for it.

    Args:
        request: The request, with all its features. Its ``n`` replies are counted from
            0.
        send: Sends one call.
        left_out: The features that the request leaves out when it is sent.

    Attributes:
        indices_without_reply: The indices of the replies that are still missing.
        choices: The replies.
        failures: Why replies did not come when they were asked for last.
        usage: What all calls cost.
    """

    request: ChatRequest
    send: Send
    left_out: set[str]
    indices_without_reply: list[int] = field(init=False)
    choices: list[Choice] = field(default_factory=list)
    failures: tuple[JudgeError, ...] = ()
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.indices_without_reply = list(range(self.request.n))

    async def call(self, request: ChatRequest, first_index: int) -> None:
        """Send one call, and note its replies, or why there is none.

        Example: 0, 1, 2 are missing, and a call with ``n=3`` from index 0 brings two
        replies: 2 is still missing.

        Args:
            request: What is sent; its ``n`` says how many replies are asked for.
            first_index: Index of the first of these replies among all.
        """
        reply = await self.send(request, first_index)
        if self.usage.calls:
            self.usage += reply.usage
        else:
            self.usage = reply.usage  # saves the time of adding to an empty usage
        if not reply.choices:
            self.failures += reply.failures
            return
        choices = reply.choices[: request.n]  # an endpoint may send more than asked for
        self.choices += choices
        answered_indices = range(first_index, first_index + len(choices))
        self.indices_without_reply = [
            index
            for index in self.indices_without_reply
            if index not in answered_indices
        ]

    @property
    def is_rejected(self) -> bool:
        """Whether all failures may mean that the endpoint lacks a feature."""
        return bool(self.failures) and all(map(_may_lack_feature, self.failures))

    def reply(self, *, reported_as_left_out: Collection[str]) -> ChatReply:
        """Return the replies and failures, with a usage that names features left out.

        Args:
            reported_as_left_out: The features left out. Those that the request never
                wanted are not named.
        """
        usage = self.usage
        fallbacks = _fallbacks_of(self.request, reported_as_left_out)
        if fallbacks:
            usage += Usage(fallbacks=fallbacks)
        return ChatReply(tuple(self.choices), usage, self.failures)


def _may_lack_feature(error: JudgeError) -> bool:
    """Whether an error may mean that the endpoint lacks a feature of the request.

    A rejection may, unless the request is too long.
    """
    is_too_long = isinstance(error, ContextWindowExceeded)
    return isinstance(error, RequestRejected) and not is_too_long


class Fitting:
    """Leaves out of requests the features that the model lacks, and learns which.

    Shared by all runs of a session.
    """

    def __init__(self, model: ChatModel, found_missing: set[str]) -> None:
        # Features that the model turned out to lack.
        self.features_found_lacking = found_missing
        self._model = model
        # How many requests were rejected with and without each of their features.
        self._n_rejected_in_every_form = 0
        # The time and the error of such a rejection, by the key of the request.
        self._rejection_by_key: dict[str, tuple[float, JudgeError]] = {}
        # Held while a rejected request finds out which feature the endpoint lacks.
        self._finding_out = asyncio.Lock()

    async def complete(self, key: str, request: ChatRequest, send: Send) -> ChatReply:
        """Send a request without the features that the model lacks.

        If the endpoint rejects a feature that nobody knew to be missing, the request is
        sent again without it, and later requests leave it out from the start. Example:
        "logprobs not supported": the request goes again without, and the usage says so.

        Args:
            key: Digest of the request. If it was rejected in every form lately, it is
                not sent again.
            request: The request; its ``n`` says how many replies are wanted.
            send: Sends one call, as ``Send`` says.

        Returns:
            The replies. Failures are not raised: they are in ``failures``. The usage
            names the features that the request had to do without.
        """
        rejection = self._recent_rejection(key)
        if rejection is not None:
            return ChatReply((), failures=(rejection,) * request.n)

        known_lacking = lacking(self._model, self.features_found_lacking)
        # Gets the replies or failures of each call that is sent below.
        progress = _Progress(request, send, left_out=set(known_lacking))
        await self._ask(progress)
        if progress.is_rejected:
            # Other rejected requests wait here, and then go by what this one finds out.
            async with self._finding_out:
                await self._ask_with_less(progress)
        if progress.is_rejected:
            self._remember_rejection(key, progress.failures[0])
            # What was left out to find the reason did not help, and is not reported.
            return progress.reply(reported_as_left_out=known_lacking)
        self._note_ignored_logprobs(progress)
        return progress.reply(reported_as_left_out=progress.left_out)

    def _note_ignored_logprobs(self, progress: _Progress) -> None:
        """Note that the endpoint lacks log-probabilities if it ignored the wish for them."""
        if "logprobs" in progress.left_out:
            return
        if _lacks_logprobs(progress.request, progress.choices):
            self.features_found_lacking.add("logprobs")
            progress.left_out.add("logprobs")

    def _recent_rejection(self, key: str) -> JudgeError | None:
        """Return why a request was rejected in every form lately; None if it was not."""
        if key not in self._rejection_by_key:
            return None
        rejected_at, rejection = self._rejection_by_key[key]
        is_recent = time.monotonic() < rejected_at + _REMEMBERED_SECONDS
        return rejection if is_recent else None

    def _remember_rejection(self, key: str, rejection: JudgeError) -> None:
        """Remember a request that was rejected in every form."""
        self._n_rejected_in_every_form += 1
        self._rejection_by_key[key] = (time.monotonic(), rejection)
        if len(self._rejection_by_key) > _MAX_REMEMBERED:
            oldest_key = next(iter(self._rejection_by_key))
            del self._rejection_by_key[oldest_key]

    async def _ask_with_less(self, progress: _Progress) -> None:
        """Send a rejected request again, each time without one more of its features.

        This ends when the endpoint takes the request, or no feature is left to try.
        Only the feature that was left out last is then noted as missing: without the
        others alone the request was still rejected. Example: rejected without "n",
        taken without "n" and "logprobs": "logprobs" is noted.

        Args:
            progress: The request, and why it was rejected. Each time it is sent, gets
                the replies, or the new failures.
        """
        lacking_by_now = lacking(self._model, self.features_found_lacking)
        if lacking_by_now - progress.left_out:
            # Another request has found out meanwhile what the endpoint lacks.
            progress.left_out |= lacking_by_now
            await self._ask(progress, one_call_first=True)
        while progress.is_rejected:
            suspect = self._suspect(progress)
            if suspect is None:
                return
            progress.left_out.add(suspect)
            n_replies_before = len(progress.choices)
            # One call shows whether the suspect was the reason: five would be rejected
            # like one. If it is taken, the calls for the other replies follow.
            await self._ask(progress, one_call_first=True)
            # That no rejection came proves nothing: in a run in batches the call may be
            # put off until the next batch. A reply proves it.
            if len(progress.choices) > n_replies_before:
                self.features_found_lacking.add(suspect)

    def _suspect(self, progress: _Progress) -> str | None:
        """Return the feature that a rejected request leaves out next; None for none.

        That is the feature that the rejection names, such as "temperature" of
        "temperature is not supported", else the next in order.
        """
        rejection = str(progress.failures[0])
        untried = [
            name
            for name, feature in _FEATURES.items()
            if name not in progress.left_out and feature.is_used(progress.request)
        ]
        for name in untried:
            if any(spelling in rejection for spelling in _FEATURES[name].spellings):
                return name
        # The rejection names none. Guessing is no use where earlier requests were
        # rejected whatever was left out.
        if self._n_rejected_in_every_form >= _MAX_GUESSES:
            return None
        for name in untried:
            # "limit_form" leaves nothing out: it sends the limit of the reply's length
            # under its newer name. Only a rejection that names the limit asks for that.
            if name != "limit_form":
                return name
        return None

    async def _ask(self, progress: _Progress, *, one_call_first: bool = False) -> None:
        """Ask for the missing replies: all in one call, if the model knows ``n``.

        Otherwise each is asked for in a call of its own. Example: 5 replies are wanted.
        One call with ``n=5`` brings only 1: the other 4 are asked for one by one.

        Args:
            progress: The request, which replies are missing, and ``left_out``: the
                features that are left out, e.g. {"n", "logprobs"}. Each call notes here
                its replies, or why they did not come.
            one_call_first: Whether one call is sent before all others, as the endpoint
                may reject the request.
        """
        progress.failures = ()
        request = self._fit_request(progress.request, progress.left_out)
        if len(progress.indices_without_reply) > 1 and "n" not in progress.left_out:
            await self._ask_for_all_at_once(progress, request)
            if not progress.indices_without_reply or progress.failures:
                return
            # Fewer replies came than were asked for: the endpoint does not know ``n``.
            self.features_found_lacking.add("n")
            progress.left_out.add("n")
            one_call_first = False  # the endpoint has taken the request
        request_for_one = replace(request, n=1)
        await self._ask_one_by_one(
            progress, request_for_one, one_call_first=one_call_first
        )

    async def _ask_one_by_one(
        self, progress: _Progress, request_for_one: ChatRequest, *, one_call_first: bool
    ) -> None:
        """Ask for each missing reply in a call of its own.

        With ``one_call_first`` the first call is sent alone. If it fails, the others
        are not sent, and its failure stands for each of them.
        """
        if one_call_first or len(progress.indices_without_reply) == 1:
            await progress.call(request_for_one, progress.indices_without_reply[0])
            if progress.failures:
                progress.failures *= len(progress.indices_without_reply)
                return
        calls = [
            progress.call(request_for_one, index)
            for index in progress.indices_without_reply
        ]
        await gather_all(calls)

    async def _ask_for_all_at_once(
        self, progress: _Progress, request: ChatRequest
    ) -> None:
        """Ask for all missing replies in one call.

        Replies come in order, so that the missing ones have the last indices.
        """
        request_for_all = replace(request, n=len(progress.indices_without_reply))
        await progress.call(request_for_all, progress.indices_without_reply[0])

    def _fit_request(self, request: ChatRequest, left_out: set[str]) -> ChatRequest:
        """Return a request without the features to leave out.

        For a model that reasons, the limit of the reply's length is raised, since it
        writes much before its reply. Models that take no temperature usually reason.
        Example: without "temperature" the request has none, and its limit of 1,000
        tokens is raised.
        """
        changes: dict[str, Any] = {}
        for name in left_out:
            if _FEATURES[name].is_used(request):
                changes.update(_FEATURES[name].without)
        reasons = "temperature" in left_out or self._model.capabilities().reasoning
        if reasons and request.max_tokens is not None:
            changes["max_tokens"] = request.max_tokens * _REASONING_FACTOR
        return replace(request, **changes) if changes else request


def _fallbacks_of(request: ChatRequest, left_out: Collection[str]) -> tuple[str, ...]:
    """Return the names of the features that a request wanted and did without.

    The other form of a feature is not counted: it lacks nothing.
    """
    lost_features = [
        name
        for name in left_out
        if name not in _FORMS and _FEATURES[name].is_used(request)
    ]
    return tuple(sorted(lost_features))


def _lacks_logprobs(request: ChatRequest, choices: Sequence[Choice]) -> bool:
    """Whether log-probabilities were asked for, and a complete reply has none."""
    if not request.top_logprobs:
        return False
    complete_replies = [
        choice for choice in choices if choice.finish == "stop" and choice.text.strip()
    ]
    return not all(reply.tokens for reply in complete_replies)


def lacking(model: ChatModel, found_missing: Collection[str]) -> set[str]:
    """Return the features that a model says it lacks, or turned out to lack."""
    stated = model.capabilities()
    missing = {name for name in _FEATURES if getattr(stated, name, None) is False}
    missing.update(found_missing)
    if "temperature" in missing:
        # Several replies of one call would be the same without a temperature.
        missing.add("n")
    if "json_schema" in missing:
        missing.add("schema_form")  # without a schema, it has no other form either
    return missing
