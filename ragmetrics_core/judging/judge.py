"""What a judge is, from the engine's point of view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ragmetrics_core.data.questions import Answer, Question, R

if TYPE_CHECKING:
    from ragmetrics_core.endpoints.limits import Budget
    from ragmetrics_core.endpoints.store import ReplyStore


class Judge(ABC):
    """Answers questions.

    Attributes:
        name: Name in every result, e.g. ``"lexical"`` or ``"gpt-4o-mini"``.
        details: Settings that change replies, for the signature, e.g. ``{"T": "1.0"}``.
    """

    name: str

    @property
    def details(self) -> dict[str, str]:
        """Settings that change replies, for the signature of results."""
        return {}

    @abstractmethod
    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        Args:
            question: Any question of ``ragmetrics_core.data.questions``.

        Returns:
            The reply, or ``NotAnswered`` with a typed error, and what it cost. Never raises for a reply that
            is missing or unusable.

        Raises:
            JudgeUnavailable: If no question will be answered; the run ends with that sentence.
        """

    def session(self, *, concurrency: int, store: ReplyStore | None, budget: Budget | None = None) -> Judge:
        """Return a judge for one run, with ``concurrency`` model calls in flight at most.

        Replies are kept in ``store``, or a fresh one of this run; ``budget`` is what the run may spend, or no limit.
        """
        del concurrency, store, budget  # only judges that call a model have a use for them
        return self
