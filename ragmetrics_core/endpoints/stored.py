"""The outermost wrapper around a chat model: stored replies, and one call for equal requests in flight."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, repeat

from ragmetrics_core.data.errors import EmptyReply, JudgeError
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatModel, ChatReply, ChatRequest, Choice, Origin
from ragmetrics_core.endpoints.store import ReplyStore
from ragmetrics_core.endpoints.wrappers import Wrapper

_MOST_ADOPTED = 1_000

_Outcome = Choice | JudgeError | None
_Outcomes = dict[str, _Outcome]
_Flight = asyncio.Future[_Outcome]


class Stored(Wrapper):
    """Takes replies from the store where they are known; equal requests in flight share one call.

    Thousands of requests wait here at a time: what each of them holds meanwhile is kept small.

    Args:
        inner: The model.
        store: Where single replies are kept.
    """

    def __init__(self, inner: ChatModel, store: ReplyStore) -> None:
        super().__init__(inner)
        self._place = (inner.name, inner.cache_key)  # asked for once: it may take a while, and shall not change
        self._store = store
        self._flights: dict[str, list[asyncio.Future[_Outcome]]] = {}
        self._adopted: dict[str, str] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return stored replies, and those of one call for all that are missing.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        outcomes: _Outcomes = dict.fromkeys(self._keys(request))
        usage = _NOTHING
        while missing := _unknown(outcomes):
            own, awaited = self._divided(missing, outcomes)
            usage += _from_store(outcomes, missing)
            if own:
                usage += await self._fetch(request, own, outcomes)
            for key, flight in awaited:
                outcomes[key] = await flight  # None if its owner gave up: ask again
                usage += Usage(stored=isinstance(outcomes[key], Choice))
        return _reply(outcomes, usage)

    def reject(self, request: ChatRequest) -> None:
        """Mark the stored replies to a request as unusable, so that they are asked again."""
        for key in self._keys(request):
            self._store.reject(key)

    def adopt(self, request: ChatRequest, repair: ChatRequest, choice: Choice) -> None:
        """Keep the reply to a repair, with what it cost, in place of the unusable one, which is set aside."""
        (key,), (source,) = self._keys(request), self._keys(repair)
        self._store.adopt(key, source, choice)
        self._adopted[source] = key  # for who got the same unusable reply and asks for the same repair
        if len(self._adopted) > _MOST_ADOPTED:
            del self._adopted[next(iter(self._adopted))]

    def _divided(self, missing: list[str], outcomes: _Outcomes) -> tuple[list[str], list[tuple[str, _Flight]]]:
        """Take what is stored; of the rest, which keys to ask for, and which others are asking for already."""
        own: list[str] = []
        awaited: list[tuple[str, _Flight]] = []
        for key in missing:
            outcomes[key] = self._store.get(self._adopted.get(key, key))
            if outcomes[key] is not None:
                continue
            if (waiting := self._flights.get(key)) is None:
                own.append(key)
            else:
                waiting.append(asyncio.get_running_loop().create_future())
                awaited.append((key, waiting[-1]))
        return own, awaited

    async def _fetch(self, request: ChatRequest, keys: list[str], outcomes: _Outcomes) -> Usage:
        """Ask for several replies in one call, keep each as it comes, and hand them to whoever waits."""
        self._flights.update((key, []) for key in keys)
        try:
            reply = await self.inner.complete(self._asked(request, keys, outcomes))
            if reply.choices and not any(map(outcomes.get, keys)):
                self._keep(keys, outcomes, 0, reply)
            if len(reply.choices) < len(keys):
                none = EmptyReply("the endpoint returned fewer replies than asked for")
                unanswered = [key for key in keys if outcomes.get(key) is None]
                outcomes.update(zip(unanswered, chain(reply.failures, repeat(none)), strict=False))
        finally:
            for key in keys:
                for flight in self._flights.pop(key):
                    if not flight.done():
                        flight.set_result(outcomes[key])
        return reply.usage

    def _asked(self, request: ChatRequest, keys: list[str], outcomes: _Outcomes) -> ChatRequest:
        if request.n == 1:
            return request
        return replace(request, n=len(keys), arrived=partial(self._keep, keys, outcomes))

    def _keep(self, keys: list[str], outcomes: _Outcomes, position: int, reply: ChatReply) -> None:
        """Put replies that one call gave into the store; the first of them belongs to the key at the position."""
        origin = _origin(next(iter(reply.usage.models), ""), len(reply.choices))
        named = {
            key: replace(choice, origin=origin) for key, choice in zip(keys[position:], reply.choices, strict=False)
        }
        self._store.put(named, reply.usage)
        outcomes.update(named)

    def _keys(self, request: ChatRequest) -> list[str]:
        """One key per reply: everything that changes it."""
        content = [
            *self._place,
            [(message.role, message.content) for message in request.messages],
            request.schema,
            request.temperature,
            request.top_logprobs,
            request.max_tokens,
            request.replicate,
        ]
        common = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        keys = []
        for poll in range(request.first_poll, request.first_poll + request.n):
            key = common.copy()
            key.update(f"|poll {poll}".encode())
            keys.append(key.hexdigest())
        return keys


def _unknown(outcomes: _Outcomes) -> list[str]:
    return [key for key, outcome in outcomes.items() if outcome is None]


def _from_store(outcomes: _Outcomes, keys: list[str]) -> Usage:
    """What was taken from the store."""
    found = [outcome for key in keys if isinstance(outcome := outcomes[key], Choice)]
    models = {choice.origin.model for choice in found if choice.origin.model}
    return Usage(stored=len(found), models=tuple(sorted(models))) if found else _NOTHING


def _reply(outcomes: _Outcomes, usage: Usage) -> ChatReply:
    known = tuple(outcome for outcome in outcomes.values() if outcome is not None)
    return ChatReply(
        choices=tuple(outcome for outcome in known if isinstance(outcome, Choice)),
        usage=usage,
        failures=tuple(outcome for outcome in known if isinstance(outcome, JudgeError)),
        outcomes=known,
    )


_NOTHING = Usage()
_origin = lru_cache(maxsize=64)(Origin)  # the same for thousands of replies
