"""How each type of question is put to a chat model: how often, at which temperature, with what to read off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Generic, TypeVar

from ragmetrics_core.data.errors import JudgeError, LimitReached, TooFewPolls
from ragmetrics_core.data.questions import (
    Adherent,
    ChunkVerdict,
    FactInContext,
    FactVerdict,
    Mode,
    Poll,
    Polls,
    Useful,
)
from ragmetrics_core.endpoints.chat import ChatRequest
from ragmetrics_core.judging.conversation import Conversation, Outcome, split
from ragmetrics_core.judging.parsing import value_offsets
from ragmetrics_core.judging.probabilities import LabelProbability, label_probabilities
from ragmetrics_core.judging.rendering import fact_labels, labels

T = TypeVar("T")

Cells = tuple[LabelProbability | None, ...]
_LABEL = re.compile(r"\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Asking(Generic[T]):
    """One question to a chat model.

    Args:
        conversation: Where it is asked.
        request: The request, at temperature 0, without log-probabilities.
        top_logprobs: Alternatives per token to ask for; 0 if the model is known to give none.
    """

    conversation: Conversation[T]
    request: ChatRequest
    top_logprobs: int

    async def one(self, request: ChatRequest) -> Outcome[T]:
        """Ask for one reply.

        Raises:
            JudgeError: If there is none that can be used.
        """
        (outcome,) = await self.conversation.ask(request)
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    def weighing(self) -> ChatRequest:
        """The request for a reply whose label tokens are weighed."""
        return replace(self.request, temperature=1.0, top_logprobs=self.top_logprobs)

    async def polls(self, count: int, given: tuple[Outcome[T], ...] = ()) -> list[T]:
        """Poll until ``count`` replies were asked for, those already given included.

        Raises:
            TooFewPolls: If no majority was answered.
            JudgeError: The common error, if none was answered.
        """
        rest = replace(self.request, temperature=1.0, n=count - len(given), first_poll=len(given))
        answers, errors = split(await self.conversation.ask(rest)) if rest.n > 0 else ([], [])
        _check_limit(errors)
        values = [outcome.value for outcome in (*given, *answers)]
        if errors and not values:
            raise errors[0]
        if 2 * len(values) <= count:
            raise TooFewPolls(f"{len(values)} of {count} polls were answered, a majority is needed; ask again") from (
                errors[0] if errors else None
            )
        return values


async def once(asking: Asking[T], question: object) -> T:
    """One reply at temperature 0."""
    del question
    return (await asking.one(asking.request)).value


async def adherent(asking: Asking[Poll], question: Adherent) -> Polls:
    """As many independent polls as asked for; those that failed are listed."""
    request = replace(
        asking.request, n=question.polls, first_poll=question.first_poll, temperature=question.temperature
    )
    answers, errors = split(await asking.conversation.ask(request))
    _check_limit(errors)
    batched = any(outcome.choice.origin.together > 1 for outcome in answers)
    return Polls(question.polls, tuple(outcome.value for outcome in answers), tuple(errors), batched=batched)


def _check_limit(errors: Sequence[JudgeError]) -> None:
    """A score from the polls before a limit of the run would be another one than the next run gives.

    Raises:
        LimitReached: If a poll was not asked for a limit.
    """
    for error in errors:
        if isinstance(error, LimitReached):
            raise error


async def useful(asking: Asking[tuple[ChunkVerdict, ...]], question: Useful) -> tuple[ChunkVerdict, ...]:
    """Bare verdicts, or p(useful) from the label tokens, else from polls."""
    if not question.probabilities or question.scale == "graded":
        return await once(asking, question)
    given: tuple[Outcome[tuple[ChunkVerdict, ...]], ...] = ()
    if asking.top_logprobs:
        outcome = await asking.one(asking.weighing())
        names = labels(len(question.chunks)) if question.listwise else ()
        cells = _cells(outcome, "useful", names)
        settled = [cell for cell in cells if cell is not None]
        if len(settled) == len(question.chunks):
            mode: Mode = "sequential" if question.listwise else "logprobs"
            return tuple(
                replace(verdict, useful=cell.p > 0.5, probability=cell.p, mode=mode, mass=cell.mass)
                for verdict, cell in zip(outcome.value, settled, strict=True)
            )
        given = (outcome,)
    replies = await asking.polls(max(question.polls, 1), given)
    return tuple(_share(verdicts) for verdicts in zip(*replies, strict=True))


def _share(verdicts: tuple[ChunkVerdict, ...]) -> ChunkVerdict:
    """The share of polls that found a chunk useful, with the explanation of one of the majority."""
    share = fmean(verdict.useful for verdict in verdicts)
    reason = next(verdict.reason for verdict in verdicts if verdict.useful == (share > 0.5) or share == 0.5)
    return ChunkVerdict(share > 0.5, probability=share, reason=reason, mode="polls")


async def facts(asking: Asking[tuple[FactVerdict, ...]], question: FactInContext) -> tuple[FactVerdict, ...]:
    """p(covered) from the label tokens; without them from polls, or for lists of facts the bare verdicts."""
    if question.together:
        return await _facts_together(asking, question)
    given: tuple[Outcome[tuple[FactVerdict, ...]], ...] = ()
    if asking.top_logprobs:
        outcome = await asking.one(asking.weighing())
        cells = _cells(outcome, "covered", ())
        if len(cells) == 1 and (cell := cells[0]) is not None:
            return (FactVerdict(cell.p, mode="logprobs", mass=cell.mass),)
        given = (outcome,)
    replies = await asking.polls(max(question.polls, 1), given)
    return (FactVerdict(fmean(verdict.probability for (verdict,) in replies), mode="polls"),)


async def _facts_together(asking: Asking[tuple[FactVerdict, ...]], question: FactInContext) -> tuple[FactVerdict, ...]:
    outcome = await asking.one(asking.weighing() if asking.top_logprobs else asking.request)
    cells = _cells(outcome, "covered", fact_labels(len(question.facts)))
    return tuple(
        FactVerdict(
            probability=verdict.probability if cell is None else cell.p,
            mode="sequential",
            mass=None if cell is None else cell.mass,
        )
        for verdict, cell in zip(outcome.value, cells or (None,) * len(question.facts), strict=True)
    )


def _cells(outcome: Outcome[Any], field: str, names: tuple[str, ...]) -> Cells:
    """The probabilities of a reply's cells, in the order of their labels; () where they cannot be assigned."""
    text, start, end = outcome.choice.text, outcome.found.start, outcome.found.end
    cells = label_probabilities(outcome.choice, field, start, end)
    if not names:
        return cells if len(cells) == 1 else ()
    found = [match[1] for at in value_offsets(text, "label", start, end) if (match := _LABEL.match(text, at))]
    if len(cells) != len(names) or sorted(found) != sorted(names):
        return ()
    return tuple(cells[found.index(name)] for name in names)
