"""What judges that ask one model have in common: its session, and their settings."""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Self

from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import ChatModel, check_model
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.models.session import Session

_CALLS_OF_A_QUESTION_ALONE = 32  # most in flight where a question belongs to no run


@dataclass(eq=False, repr=False)
class ModelJudge(Judge):
    """A judge that asks one model, through a session of its own.

    A class on it answers questions by ``_run_session``, the session of a run. Outside
    of a run it is None, and ``_for_one_call()`` makes a judge with a session.

    Args:
        model: The model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.

    Raises:
        SettingError: If the model is none, or lacks its name or its method, or a number
            is out of range.
    """

    model: ChatModel
    _: KW_ONLY
    attempts: int = 8
    timeout: float | None = 300.0

    def __post_init__(self) -> None:
        """Check the settings, and make the session to the model; nothing is sent."""
        check_model(self.model)
        self._check_number("attempts", least=1)
        if self.timeout is not None:
            self._check_is_positive("timeout")
        self.name = self.model.name
        self.models = (self.model,)
        self._session = Session(
            self.model, attempts=self.attempts, timeout=self.timeout
        )
        # set in the copy of this judge that works for a run, with the run's store and budget
        self._run_session: Session | None = None

    def _check_number(self, name: str, *, least: int) -> None:
        """Refuse a whole number of that name that is too small."""
        place = f"{type(self).__name__}({name}=)"
        check_number(place, getattr(self, name), least=least)

    def _check_is_positive(self, name: str) -> None:
        """Refuse a number of that name that is not above 0."""
        place = f"{type(self).__name__}({name}=)"
        check_number(
            place, getattr(self, name), least=0, whole=False, excludes_least=True
        )

    def session(
        self,
        *,
        concurrency: int,
        store: ReplyStore | None,
        budget: Budget | None = None,
    ) -> Self:
        """Return a judge for one run.

        Calls in flight, and what is learned, are shared by all runs of this object.
        """
        judge = copy(self)
        vars(judge)["_run_session"] = self._session.during(
            store=store, concurrency=concurrency, budget=budget
        )
        return judge

    def _for_one_call(self) -> Self:
        """Return a judge for one call of somebody who has made no session."""
        return self.session(concurrency=_CALLS_OF_A_QUESTION_ALONE, store=None)
