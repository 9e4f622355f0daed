"""Asks a chat model and reads its replies, with one round of repair for each reply that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ragmetrics_core.data.errors import ContentRefused, CutOffReply, EmptyReply, JudgeError, UnusableReply
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.adapting import gathered
from ragmetrics_core.endpoints.chat import Capabilities, ChatRequest, Choice, Message
from ragmetrics_core.endpoints.stored import Stored

T = TypeVar("T")

_LONGER = 4


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


class Conversation:
    """All that is asked in one run.

    Args:
        model: The session's model.
    """

    def __init__(self, model: Stored) -> None:
        self._model = model

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known by now."""
        return self._model.capabilities()

    async def prepare(self) -> None:
        """Load what the first call needs."""
        await self._model.prepare()

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
        if polls != 1 or first_poll:
            request = replace(request, n=polls, first_poll=first_poll)
        reply = await self._model.complete(request)
        outcomes = [_outcome(choice, read) for choice in reply.outcomes]
        broken = [place for place, choice in enumerate(reply.outcomes) if _to_repair(choice, outcomes[place])]
        if not broken:  # the usual case needs no task of its own
            return Answers(tuple(outcomes), reply.usage)
        usages = [reply.usage]
        single = (replace(request, n=1, first_poll=first_poll + place) for place in broken)
        problems = (outcomes[place] for place in broken)
        repaired = await gathered(self._repaired(*pair, read, usages) for pair in zip(single, problems, strict=True))
        for place, outcome in zip(broken, repaired, strict=True):
            outcomes[place] = outcome
        return Answers(tuple(outcomes), sum(usages, Usage()))

    async def _repaired(
        self, request: ChatRequest, problem: Any, read: Callable[[Choice], T], usages: list[Usage]
    ) -> Read[T] | JudgeError:
        """What became of an unusable reply after one repair."""
        if isinstance(problem, ContentRefused):
            self._model.reject(request)
            refused: JudgeError = problem
            return refused
        if isinstance(problem, EmptyReply):
            self._model.reject(request)  # the repair is the same request
        again = _repair(request, problem)
        reply = await self._model.complete(again)
        usages.append(replace(reply.usage, repairs=reply.usage.calls))
        outcome = _outcome(reply.outcomes[0], read)
        if isinstance(outcome, JudgeError):
            self._model.reject(request)
            self._model.reject(again)
        elif again is not request:
            self._model.adopt(request, again, outcome.choice)
        return outcome


def _outcome(choice: Choice | JudgeError, read: Callable[[Choice], T]) -> Read[T] | JudgeError:
    if isinstance(choice, JudgeError):
        return choice
    try:
        return Read(read(choice), choice)
    except UnusableReply as error:
        return error


def _to_repair(choice: Choice | JudgeError, outcome: object) -> bool:
    return isinstance(choice, Choice) and isinstance(outcome, JudgeError) and not choice.origin.unusable


def _repair(request: ChatRequest, problem: UnusableReply) -> ChatRequest:
    """What to ask after an unusable reply: the same again, with more room, or with the problem named."""
    if isinstance(problem, EmptyReply):
        return request
    if isinstance(problem, CutOffReply):
        limit = request.max_tokens
        return replace(request, max_tokens=None if limit is None else limit * _LONGER)
    said = f"Your reply could not be used: {problem}. Reply again with only the JSON object."
    return replace(request, messages=(*request.messages, Message("assistant", problem.raw), Message("user", said)))
