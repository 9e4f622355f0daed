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

    It says who uses the feature, what a request is without it, and how a rejection
    spells it.
    """

    used: Callable[[ChatRequest], bool]
    without: Mapping[str, Any]
    spelled: tuple[str, ...]


# In the order in which they are given up.
_FEATURES: dict[str, _Feature] = {
    "logprobs": _Feature(
        lambda request: request.top_logprobs > 0, {"top_logprobs": 0}, ("logprobs",)
    ),
    "n": _Feature(lambda request: request.n > 1, {}, ("param n", "parameter n", "'n'")),
    "schema_form": _Feature(
        lambda request: request.schema is not None and not request.schema_in_object,
        {"schema_in_object": True},
        ("response_format", "json_schema"),
    ),
    "json_schema": _Feature(
        lambda request: request.schema is not None,
        {"schema": None},
        ("response_format", "json_schema"),
    ),
    "temperature": _Feature(
        lambda request: request.temperature is not None,
        {"temperature": None},
        ("temperature",),
    ),
    "limit_form": _Feature(
        lambda request: request.max_tokens is not None,
        {"newer_limit": True},
        ("max_tokens",),
    ),
}
_FORMS = frozenset({"schema_form", "limit_form"})  # another form is no loss
_REASONING_FACTOR = 16
_GUESSES = 2  # requests from which everything may be removed in vain
_REMEMBERED, _REMEMBERED_SECONDS = 1_000, 600.0


async def gathered(
    work: Iterable[Coroutine[Any, Any, T] | asyncio.Future[T]],
) -> list[T]:
    """Run all to their end, and return their results or raise the first error.

    Who leaves leaves none running.
    """
    work = list(work)
    if len(work) == 1:
        return [await work[0]]  # the usual case needs no task of its own
    running = [asyncio.ensure_future(one) for one in work]
    # also of results that are errors, which are values here
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]


@dataclass(slots=True, repr=False)
class _Asking:
    """One request on its way."""

    request: ChatRequest
    send: Send
    left: list[int]  # positions of the replies that are still missing
    choices: list[Choice] = field(default_factory=list)
    # why they were not given, when they were asked for last
    failures: tuple[JudgeError, ...] = ()
    usage: Usage = field(default_factory=Usage)

    async def call(self, request: ChatRequest, position: int) -> None:
        """Send a call for the reply at a position, or for several from there on."""
        reply = await self.send(request, position)
        self.usage = self.usage + reply.usage if self.usage.calls else reply.usage
        self.failures += () if reply.choices else reply.failures
        given = reply.choices[: request.n]
        if given:
            self.choices += given
            self.left = [
                place
                for place in self.left
                if not position <= place < position + len(given)
            ]

    @property
    def rejected(self) -> bool:
        """True if the endpoint rejected what is left for its form."""
        form = [
            isinstance(it, RequestRejected)
            and not isinstance(it, ContextWindowExceeded)
            for it in self.failures
        ]
        return bool(form) and all(form)


class Fitting:
    """What is known of a model, and how requests are made to fit.

    Shared by all runs of a session.
    """

    def __init__(self, model: ChatModel, learned: set[str]) -> None:
        self.learned = learned  # what it lacks, as known from trying
        self._model = model
        self._in_vain = 0
        self._rejected: dict[str, tuple[float, JudgeError]] = {}
        self._removing = asyncio.Lock()

    async def complete(self, key: str, request: ChatRequest, send: Send) -> ChatReply:
        """Send a request without the features that the model does not have.

        Failures are values.

        Args:
            key: Digest of the request; one that was rejected in every form is not sent
                again for a while.
            request: The request.
            send: Sends a request for the reply at a position, or several from there on;
                gives failures as values.
        """
        since, error = self._rejected.get(key, (0.0, None))
        if error is not None and time.monotonic() < since + _REMEMBERED_SECONDS:
            return ChatReply((), failures=(error,) * request.n)
        lacked = lacking(self._model, self.learned)
        missing, asking = set(lacked), _Asking(request, send, [*range(request.n)])
        await self._ask(asking, missing)
        if asking.rejected:
            async with self._removing:  # one request finds out for all
                await self._with_less(asking, missing)
        complete = (
            choice
            for choice in asking.choices
            if choice.finish == "stop" and choice.text.strip()
        )
        if asking.rejected:
            self._in_vain += 1
            self._rejected[key] = time.monotonic(), asking.failures[0]
            if len(self._rejected) > _REMEMBERED:
                self._rejected.pop(next(iter(self._rejected)))
            missing &= lacked  # nothing was gained by what was removed
        elif (
            request.top_logprobs
            and "logprobs" not in missing
            and not all(choice.tokens for choice in complete)
        ):
            self.learned.add("logprobs")
            missing.add("logprobs")
        lost = sorted(
            name for name in missing - _FORMS if _FEATURES[name].used(request)
        )
        usage = asking.usage + Usage(fallbacks=tuple(lost)) if lost else asking.usage
        return ChatReply(tuple(asking.choices), usage, asking.failures)

    async def _with_less(self, asking: _Asking, missing: set[str]) -> None:
        """Give up one feature after the other until the endpoint takes the request.

        Adds them to ``missing``.
        """
        # another request has found out meanwhile
        if (known := lacking(self._model, self.learned)) - missing:
            missing |= known
            await self._ask(asking, missing, careful=True)
        untried = [
            name
            for name, feature in _FEATURES.items()
            if name not in missing and feature.used(asking.request)
        ]
        while asking.rejected and (
            name := self._suspect(untried, str(asking.failures[0]))
        ):
            untried.remove(name)
            missing.add(name)
            left = len(asking.left)
            await self._ask(asking, missing, careful=True)
            if len(asking.left) < left:  # what waits for a batch has taught nothing
                self.learned.add(name)

    def _suspect(self, untried: Sequence[str], said: str) -> str | None:
        """The feature that the rejection names, else the next to give up.

        Only models that say so want another limit.

        Where everything was removed in vain before, nothing is removed that the
        rejection does not name.
        """
        named = (
            name
            for name in untried
            if any(spelling in said for spelling in _FEATURES[name].spelled)
        )
        guesses = (
            name
            for name in untried
            if name != "limit_form" and self._in_vain < _GUESSES
        )
        return next(named, None) or next(guesses, None)

    async def _ask(
        self, asking: _Asking, missing: set[str], *, careful: bool = False
    ) -> None:
        """Ask for the replies that are left, without what is missing.

        Of several calls the first alone, if careful.
        """
        request, asking.failures = self._fitted(asking.request, missing), ()
        if len(asking.left) > 1 and "n" not in missing:
            await asking.call(replace(request, n=len(asking.left)), asking.left[0])
            if not asking.left or asking.failures:
                return
            self.learned.add("n")  # the endpoint gave fewer
            missing.add("n")
            careful = False
        request = replace(request, n=1)
        if careful or len(asking.left) == 1:
            await asking.call(request, asking.left[0])
            if asking.failures:
                asking.failures *= len(asking.left)
                return
        await gathered([asking.call(request, position) for position in asking.left])

    def _fitted(self, request: ChatRequest, missing: set[str]) -> ChatRequest:
        changes: dict[str, Any] = {}
        for name in missing:
            if _FEATURES[name].used(request):
                changes.update(_FEATURES[name].without)
        if request.max_tokens is not None and (
            "temperature" in missing or self._model.capabilities().reasoning
        ):
            changes["max_tokens"] = request.max_tokens * _REASONING_FACTOR
        return replace(request, **changes) if changes else request


def lacking(model: ChatModel, learned: Collection[str]) -> set[str]:
    """The features that a model says it lacks, or turned out to lack."""
    stated = model.capabilities()
    missing = {
        *learned,
        *(name for name in _FEATURES if getattr(stated, name, None) is False),
    }
    missing |= {"n"} if "temperature" in missing else set()
    # there is none to put into another form
    return missing | ({"schema_form"} if "json_schema" in missing else set())
