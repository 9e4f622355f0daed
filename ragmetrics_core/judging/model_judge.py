"""What judges that ask one model have in common: its session, and their settings."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Self

from ragmetrics_core.data import Answer, Question, R
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.judging import windows
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import ChatModel, check_model
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.models.session import Session

_CALLS_OF_A_QUESTION_ALONE = 32  # most in flight where a question belongs to no run


@dataclass(eq=False, repr=False)
class ModelJudge(Judge):
    """A judge that asks one model, through a session of its own.

    A class on it answers a question with all its texts, by ``_answer_whole``.

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
        kind = type(self).__name__
        check_number(f"{kind}(attempts=)", self.attempts, least=1)
        if self.timeout is not None:
            check_number(
                f"{kind}(timeout=)",
                self.timeout,
                least=0,
                whole=False,
                excludes_least=True,
            )
        self.name = self.model.name
        self.models = (self.model,)
        self._session = Session(
            self.model, attempts=self.attempts, timeout=self.timeout
        )
        # set in the copy of this judge that works for a run, with the run's store and budget
        self._run_session: Session | None = None

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

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        If a text is too long for the model, its parts are asked about where the
        question says how.

        A run of many questions shares a ``session``. If no question will be answered,
        the reply's error is ``JudgeUnavailable``, and the usage says what was paid
        before.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
            SettingError: If the template shows a part that the question does not have.
        """
        if self._run_session is None:  # somebody asks outside of a run
            alone = self.session(concurrency=_CALLS_OF_A_QUESTION_ALONE, store=None)
            return await alone.answer(question)
        answer = await self._answer_whole(self._run_session, question)
        partial_questions = windows.halve_questions(question, answer)
        if not partial_questions:
            return answer
        partial_answers = await gather_all(map(self.answer, partial_questions))
        return windows.join_verdicts(question, answer, partial_answers)

    @abstractmethod
    async def _answer_whole(self, session: Session, question: Question[R]) -> Answer[R]:
        """Ask a question with all its texts, and return the answer with what it cost."""
