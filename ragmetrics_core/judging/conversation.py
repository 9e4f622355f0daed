"""Asks a chat model and reads its replies, with one round of repair for each reply that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ragmetrics_core.data.errors import ContentRefused, CutOffReply, EmptyReply, JudgeError, UnusableReply
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.adapting import gathered
from ragmetrics_core.endpoints.chat import ChatRequest, Choice, Message
from ragmetrics_core.endpoints.stored import Stored
from ragmetrics_core.judging.formats import Format
from ragmetrics_core.judging.parsing import Found, read

T = TypeVar("T")

_LONGER = 4


@dataclass(frozen=True, slots=True, repr=False)
class Outcome(Generic[T]):
    """One reply that was read.

    Args:
        found: The verdict and its place in the reply.
        choice: The reply.
    """

    found: Found[T]
    choice: Choice

    @property
    def value(self) -> T:
        """The verdict."""
        return self.found.value


class Conversation(Generic[T]):
    """All that is asked for one question.

    Args:
        model: The session's model.
        form: The form of the replies.

    Attributes:
        usage: What it cost so far.
    """

    def __init__(self, model: Stored, form: Format[T]) -> None:
        self._model = model
        self._form = form
        self.usage = Usage()

    async def ask(self, request: ChatRequest) -> list[Outcome[T] | JudgeError]:
        """Ask for ``request.n`` replies; an unusable one is repaired once, on its own.

        Returns:
            As many outcomes as replies were asked for, in the order of the polls.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        reply = await self._model.complete(request)
        self.usage += reply.usage
        if request.n == 1:
            return [await self._read(request, reply.outcomes[0])]  # the usual case needs no task of its own
        polls = range(request.first_poll, request.first_poll + request.n)
        single = [replace(request, n=1, first_poll=poll) for poll in polls]
        return await gathered(map(self._read, single, reply.outcomes))

    async def _read(self, request: ChatRequest, choice: Choice | JudgeError) -> Outcome[T] | JudgeError:
        if isinstance(choice, JudgeError):
            return choice
        try:
            return self._usable(choice)
        except UnusableReply as error:
            problem = error
        if choice.origin.unusable:
            return problem
        if isinstance(problem, ContentRefused):
            self._model.reject(request)
            return problem
        if isinstance(problem, EmptyReply):
            self._model.reject(request)  # the repair is the same request
        again = _repair(request, problem)
        reply = await self._model.complete(again)
        self.usage += replace(reply.usage, repairs=reply.usage.calls)
        try:
            outcome: Outcome[T] | JudgeError = self._usable(reply.choices[0]) if reply.choices else reply.failures[0]
        except UnusableReply as error:
            outcome = error
        if isinstance(outcome, JudgeError):
            self._model.reject(request)
            self._model.reject(again)
        elif again is not request:
            self._model.adopt(request, again, outcome.choice)
        return outcome

    def _usable(self, choice: Choice) -> Outcome[T]:
        if choice.finish == "refused":
            raise ContentRefused("the model or a content filter refused to answer", raw=choice.text)
        if not choice.text.strip():
            if choice.finish == "length":
                raise CutOffReply("the reply ended at the token limit, before it began", raw=choice.text)
            raise EmptyReply("the reply is empty", raw=choice.text)
        return Outcome(read(choice, self._form.holder, self._form.parse, self._form.essence), choice)


def _repair(request: ChatRequest, problem: UnusableReply) -> ChatRequest:
    """What to ask after an unusable reply: the same again, with more room, or with the problem named."""
    if isinstance(problem, EmptyReply):
        return request
    if isinstance(problem, CutOffReply):
        limit = request.max_tokens
        return replace(request, max_tokens=None if limit is None else limit * _LONGER)
    said = f"Your reply could not be used: {problem}. Reply again with only the JSON object."
    return replace(request, messages=(*request.messages, Message("assistant", problem.raw), Message("user", said)))


def split(outcomes: list[Outcome[T] | JudgeError]) -> tuple[list[Outcome[T]], list[JudgeError]]:
    """Separate the replies that were read from the errors."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
    return [outcome for outcome in outcomes if not isinstance(outcome, JudgeError)], errors
