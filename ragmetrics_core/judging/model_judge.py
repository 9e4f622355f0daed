"""What judges that ask one model have in common: its session, settings, and windows.

Texts longer than the model's context window are judged in overlapping windows. The
question's ``if_too_long`` says which text is divided. Of each verdict the window counts
that says yes most clearly. A group of texts is judged as two shorter groups. What was
judged in windows says so, and its usage lists windows among the fallbacks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Any, Self

from pydantic import BaseModel

from ragmetrics_core.data import (
    Answer,
    Asked,
    ContextWindowExceeded,
    NotAnswered,
    Question,
    R,
    Usage,
    cut_in_halves,
    divide_texts,
    list_field,
    verdicts_of,
)
from ragmetrics_core.data.frozen import check_number, check_seconds
from ragmetrics_core.data.replies import failed_with
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import ChatModel, check_model
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.models.session import Session

_CALLS_OF_A_QUESTION_ALONE = 32  # most in flight where a question belongs to no run
_FALLBACK = "windows"  # how the usage names what was judged in windows


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
            check_seconds(f"{kind}(timeout=)", self.timeout)
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
        partial_questions = halve_questions(question, answer)
        if not partial_questions:
            return answer
        partial_answers = await gather_all(map(self.answer, partial_questions))
        return join_verdicts(question, answer, partial_answers)

    @abstractmethod
    async def _answer_whole(self, session: Session, question: Question[R]) -> Answer[R]:
        """Ask a question with all its texts, and return the answer with what it cost."""


def halve_questions(
    question: Question[Any], answer: Answer[Any]
) -> tuple[Question[Any], ...]:
    """Return the same question about each half, if an answer failed for its length.

    Example: one context is too long for the judge: two questions, about its first and
    its second half. ``question.if_too_long`` names the part to divide. Returns no
    question if the answer did not fail for its length, or if another part is longer.
    """
    if question.if_too_long is None or not failed_with(
        answer.reply, ContextWindowExceeded
    ):
        return ()
    name = question.if_too_long.part
    length_by_part = {
        part_name: sum(len(text) for text in part.texts)
        for part_name, part in question.parts.items()
    }
    length = length_by_part.pop(name)
    if length <= max(length_by_part.values(), default=0):
        return ()
    part = question.parts[name]
    halves: Iterable[str | tuple[str, ...]]
    if isinstance(part.text, str):
        halves = cut_in_halves(part.text)
    else:  # several contexts: some of them to each question
        halves = divide_texts(part.texts)
    half_parts = [replace(part, text=half) for half in halves]
    return tuple(
        replace(question, parts={**question.parts, name: half_part})
        for half_part in half_parts
    )


def join_verdicts(
    question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]
) -> Answer[Any]:
    """Combine the answers to the halves of a question that was too long for the judge.

    Several texts were divided into two groups: the verdicts on each text are put in one
    list. A single text was cut in windows, or all texts have one verdict: a fact that one
    window covers with .2 and the other with .9 has .9. A half that was not answered
    might have said yes: its error is returned, unless all verdicts on windows are a yes
    without it.

    Args:
        question: The whole question; its ``if_too_long`` names the field of a verdict
            whose value is above 0 for a yes.
        failed: The answer to it.
        answers: The answer about each half.
    """
    windows = question.if_too_long
    assert windows is not None  # noqa: S101  # a question without is not halved
    usage = failed.usage + Usage(fallbacks=(_FALLBACK,))
    for answer in answers:
        usage += answer.usage
    replies = [answer.reply for answer in answers]
    unanswered = [reply for reply in replies if isinstance(reply, NotAnswered)]
    answered = [reply for reply in replies if isinstance(reply, Asked)]
    if not answered:
        return Answer(unanswered[0], usage)

    # each verdict as if it had been asked for alone; of several polls the first counts
    verdicts_by_half: list[list[Asked[Any]]] = []
    for reply in answered:
        verdicts_of_half = [
            Asked(
                (verdict,),
                weights=reply.weights[index : index + 1],
                windows=reply.windows[index : index + 1] or (1,),  # judged whole
            )
            for index, verdict in enumerate(verdicts_of(reply.reply))
        ]
        verdicts_by_half.append(verdicts_of_half)

    form: type[BaseModel] = question.Reply
    name_of_list = list_field(form)
    if len(question.parts[windows.part].texts) > 1 and name_of_list is not None:
        verdicts = list(chain.from_iterable(verdicts_by_half))
        is_complete = not unanswered  # each text is in one group only
    else:
        verdicts = []
        for same_verdict in zip(*verdicts_by_half, strict=True):
            strengths = [
                _strength(verdict, windows.deciding_field) for verdict in same_verdict
            ]
            clearest = same_verdict[strengths.index(max(strengths))]
            n_windows = sum(verdict.windows[0] for verdict in same_verdict)
            verdicts.append(replace(clearest, windows=(n_windows,)))
        do_all_say_yes = all(
            _strength(verdict, windows.deciding_field)[0] for verdict in verdicts
        )
        is_complete = do_all_say_yes or not unanswered
    if not is_complete:
        return Answer(unanswered[0], usage)

    joined: BaseModel = verdicts[0].reply
    if name_of_list is not None:
        items = tuple(verdict.reply for verdict in verdicts)
        joined = answered[0].reply.model_copy(update={name_of_list: items})
    n_windows_of_verdicts = [verdict.windows[0] for verdict in verdicts]
    is_any_text_cut = max(n_windows_of_verdicts) > 1
    weights = chain.from_iterable(verdict.weights for verdict in verdicts)
    return Answer(
        Asked(
            (joined,),
            weights=tuple(weights),
            windows=tuple(n_windows_of_verdicts) if is_any_text_cut else (),
        ),
        usage,
    )


def _strength(verdict: Asked[Any], field: str) -> tuple[bool, float]:
    """Return whether a verdict says yes, and how clearly: its probability or its field."""
    if verdict.weights:
        probability = verdict.weights[0].p
        return is_yes(probability), probability
    value = float(getattr(verdict.reply, field))
    return value > 0, value
