"""Fits requests to what an endpoint can do, and learns it where nobody knows.

A feature that may be missing is tried once. An endpoint that rejects it, or that
accepts and ignores it, is remembered, and the request is served without: several
replies by several calls, log-probabilities not at all (the judge polls instead), a JSON
schema by the prompt alone. Each such fallback is named in the usage. Two features have
two forms, of which an endpoint may know only one: the schema, and the limit of a
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
_FORMS = frozenset({"schema_form", "limit_form"})  # another form is no loss
_REASONING_FACTOR = 16
# Requests of which every feature may be removed in vain; later ones keep what the
# rejection does not name.
_MAX_GUESSES = 2
# Rejected requests that are not sent again, and for how long.
_MAX_REMEMBERED = 1_000
_REMEMBERED_SECONDS = 600.0


async def gather_all(
    work: Iterable[Coroutine[Any, Any, T] | asyncio.Future[T]],
) -> list[T]:
    """Run all to their end, and return their results or raise the first error.

    A caller that is cancelled leaves none running.
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
    """What one request has brought so far, over all calls made for it.

    Args:
        request: What is asked for, with all its features.
        send: Sends a call for the reply at a position, or for several from there on.
        missing_places: Positions of the replies that are still missing.
        choices: The replies.
        failures: Why replies were not given when they were asked for last.
        usage: What all calls cost.
    """

    request: ChatRequest
    send: Send
    missing_places: list[int]
    choices: list[Choice] = field(default_factory=list)
    failures: tuple[JudgeError, ...] = ()
    usage: Usage = field(default_factory=Usage)

    async def call(self, request: ChatRequest, position: int) -> None:
        """Send one call, and note what it brings.

        Args:
            request: What is sent; its ``n`` says how many replies are asked for.
            position: The place of the first of them among all replies.
        """
        reply = await self.send(request, position)
        self.usage = self.usage + reply.usage if self.usage.calls else reply.usage
        if not reply.choices:
            self.failures += reply.failures
            return
        choices = reply.choices[: request.n]  # an endpoint may send more than asked for
        self.choices += choices
        answered_places = range(position, position + len(choices))
        self.missing_places = [
            place for place in self.missing_places if place not in answered_places
        ]

    @property
    def is_rejected(self) -> bool:
        """Whether the endpoint rejected what is missing for its form."""
        return bool(self.failures) and all(map(_is_about_form, self.failures))


def _is_about_form(error: JudgeError) -> bool:
    """Whether an endpoint rejected a request, and not because it is too long."""
    is_too_long = isinstance(error, ContextWindowExceeded)
    return isinstance(error, RequestRejected) and not is_too_long


class Fitting:
    """What is known of a model, and how requests are made to fit.

    Shared by all runs of a session.
    """

    def __init__(self, model: ChatModel, found_missing: set[str]) -> None:
        self.found_missing = found_missing  # features that the model turned out to lack
        self._model = model
        # requests that were rejected in every form
        self._n_rejected_in_every_form = 0
        # of these, by the digest of the request: when, and the rejection
        self._rejection_by_key: dict[str, tuple[float, JudgeError]] = {}
        # held while a request finds out what the endpoint does not take
        self._finding_out = asyncio.Lock()

    async def complete(self, key: str, request: ChatRequest, send: Send) -> ChatReply:
        """Send a request without the features that the model does not have.

        If the endpoint rejects a feature that nobody knew to be missing, the request is
        sent again without it, and later requests go without it from the start.

        Args:
            key: Digest of the request; one that was rejected in every form is not sent
                again for a while.
            request: The request.
            send: Sends a request for the reply at a position, or for several from there
                on. It raises no failure, but returns a reply that holds it.

        Returns:
            The replies, and the failures, which are not raised. The usage names the
            features that the request had to do without.
        """
        rejection = self._recent_rejection(key)
        if rejection is not None:
            return ChatReply((), failures=(rejection,) * request.n)

        lacking_before = lacking(self._model, self.found_missing)
        # features that the request does without; more are added while it is sent
        left_out = set(lacking_before)
        progress = _Progress(request, send, list(range(request.n)))
        await self._ask(progress, left_out)
        if progress.is_rejected:
            async with self._finding_out:  # one request finds out for all
                await self._ask_with_less(progress, left_out)
        if progress.is_rejected:
            self._remember_rejection(key, progress.failures[0])
            # what was left out since was left out in vain, and is not reported
            left_out &= lacking_before
        elif "logprobs" not in left_out and _lacks_logprobs(request, progress.choices):
            self.found_missing.add("logprobs")
            left_out.add("logprobs")
        usage = progress.usage
        fallbacks = _fallbacks_of(request, left_out)
        if fallbacks:
            usage += Usage(fallbacks=fallbacks)
        return ChatReply(tuple(progress.choices), usage, progress.failures)

    def _recent_rejection(self, key: str) -> JudgeError | None:
        """Why a request was rejected in every form lately; None if it was not."""
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

    async def _ask_with_less(self, progress: _Progress, left_out: set[str]) -> None:
        """Give up one feature after the other until the endpoint takes the request.

        A feature is tried if the rejection may mean it. If the endpoint takes the
        request without it, all later requests of the model do without it too.

        Args:
            progress: The request, which was rejected, and what it has brought.
            left_out: Features that the request does without; those given up are added.
        """
        known_by_now = lacking(self._model, self.found_missing)
        if known_by_now - left_out:  # another request has found out meanwhile
            left_out |= known_by_now
            await self._ask(progress, left_out, careful=True)
        untried = [
            name
            for name, feature in _FEATURES.items()
            if name not in left_out and feature.is_used(progress.request)
        ]
        while progress.is_rejected:
            suspect = self._suspect(untried, str(progress.failures[0]))
            if suspect is None:
                return
            untried.remove(suspect)
            left_out.add(suspect)
            n_missing_before = len(progress.missing_places)
            await self._ask(progress, left_out, careful=True)
            # A call that is put off until the next batch brings no reply and teaches
            # nothing.
            if len(progress.missing_places) < n_missing_before:
                self.found_missing.add(suspect)

    def _suspect(self, untried: Sequence[str], rejection: str) -> str | None:
        """The feature that a rejection names, else the next to give up.

        Only a rejection that says so asks for another form of the limit. Where
        everything was removed in vain before, nothing is removed that the rejection
        does not name.
        """
        for name in untried:
            if any(spelling in rejection for spelling in _FEATURES[name].spellings):
                return name
        if self._n_rejected_in_every_form >= _MAX_GUESSES:
            return None
        guesses = [name for name in untried if name != "limit_form"]
        return guesses[0] if guesses else None

    async def _ask(
        self, progress: _Progress, left_out: set[str], *, careful: bool = False
    ) -> None:
        """Ask for the replies that are missing, without the features to leave out.

        All are asked for in one call (``n``) if the model can do that, else each in a
        call of its own. Each call fills in its replies, so that they are missing no
        longer, or adds its failures.

        Args:
            progress: The replies that are wanted, those that are there, and failures.
                It is changed by each call.
            left_out: Features that the request must not use. If the model turns out not
                to support ``n``, that is added.
            careful: Send the first of several calls alone, and the others only if it
                does not fail.
        """
        progress.failures = ()
        request = self._fit_request(progress.request, left_out)
        if len(progress.missing_places) > 1 and "n" not in left_out:
            request_for_all = replace(request, n=len(progress.missing_places))
            # its replies fill the missing places from the first one on
            await progress.call(request_for_all, position=progress.missing_places[0])
            if not progress.missing_places or progress.failures:
                return
            # The endpoint gave fewer than asked for: the rest is asked one by one. It
            # has answered, so no call needs to be sent ahead of the others.
            self.found_missing.add("n")
            left_out.add("n")
            careful = False
        request_for_one = replace(request, n=1)
        if careful or len(progress.missing_places) == 1:
            await progress.call(request_for_one, position=progress.missing_places[0])
            if progress.failures:
                # the same failure stands for every reply that was not asked for
                progress.failures *= len(progress.missing_places)
                return
        calls = [
            progress.call(request_for_one, place) for place in progress.missing_places
        ]
        await gather_all(calls)

    def _fit_request(self, request: ChatRequest, left_out: set[str]) -> ChatRequest:
        """Return a request without the features to leave out.

        A model that reasons writes much before its reply, so the limit of the reply's
        length is raised for it. A model that takes no temperature counts as one that
        reasons, too.
        """
        changes: dict[str, Any] = {}
        for name in left_out:
            if _FEATURES[name].is_used(request):
                # ``without`` holds the request's fields as they are without the feature
                changes.update(_FEATURES[name].without)
        reasons = "temperature" in left_out or self._model.capabilities().reasoning
        if reasons and request.max_tokens is not None:
            changes["max_tokens"] = request.max_tokens * _REASONING_FACTOR
        return replace(request, **changes) if changes else request


def _fallbacks_of(request: ChatRequest, left_out: Collection[str]) -> tuple[str, ...]:
    """The features that a request wanted and did without, by name.

    Another form of the same feature is no loss.
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
    complete = [
        choice for choice in choices if choice.finish == "stop" and choice.text.strip()
    ]
    return not all(choice.tokens for choice in complete)


def lacking(model: ChatModel, found_missing: Collection[str]) -> set[str]:
    """The features that a model says it lacks, or turned out to lack."""
    stated = model.capabilities()
    missing = {name for name in _FEATURES if getattr(stated, name, None) is False}
    missing.update(found_missing)
    if "temperature" in missing:
        missing.add("n")
    if "json_schema" in missing:  # there is none to put into another form
        missing.add("schema_form")
    return missing
