"""What a judge is, from the engine's point of view.

And one for tests, whose replies are written down beforehand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ragmetrics_core.data import (
    Answer,
    Asked,
    JudgeError,
    NotAnswered,
    QuestionNotSupported,
    R,
    SettingError,
    UnusableReply,
    Usage,
    Weight,
)
from ragmetrics_core.data.asking import Question, check_template, weights_by_share
from ragmetrics_core.data.errors import as_setting_error

if TYPE_CHECKING:
    from ragmetrics_core.models.chat import ChatModel
    from ragmetrics_core.models.limits import Budget
    from ragmetrics_core.models.reply_store import ReplyStore


class Judge(ABC):
    """Answers questions.

    Attributes:
        name: Name in every result, e.g. ``"lexical"`` or ``"gpt-4o-mini"``.
        details: Settings that change replies, for the signature, e.g. ``{"T": "1.0"}``.
        models: The chat models that it may call.
        free: Whether asking costs nothing: no call, no money. No limit of a run counts
            its questions.
    """

    name: str
    models: tuple[ChatModel, ...] = ()
    free: bool = False

    @property
    def details(self) -> dict[str, str]:
        """Settings that change replies, for the signature of results."""
        return {}

    @abstractmethod
    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        Judges of users share an event loop: what blocks or computes for long belongs
        into ``await asyncio.to_thread(...)``, or their questions wait for each other.

        Args:
            question: Any question of ``ragmetrics_core.data.asking``.

        Returns:
            The reply, or ``NotAnswered`` with a typed error, and what it cost. Never
            raises for a reply that is missing or unusable. An error of type
            ``JudgeUnavailable`` says that no question will be answered: the run ends
            with that sentence.

        Raises:
            JudgeUnavailable: In the same case, if nothing was paid.
        """

    def session(
        self,
        *,
        concurrency: int,
        store: ReplyStore | None,
        budget: Budget | None = None,
    ) -> Judge:
        """Return a judge for one run, which keeps the limits of the run.

        By default it is the judge itself. The run then keeps its limits for it: each
        question counts as one call. A judge that calls models of ragmetrics hands the
        limits on to the sessions of its models, and is not counted beside.

        Args:
            concurrency: Most calls in flight.
            store: Where replies are kept; None for a fresh store of this run.
            budget: What the run may spend; None for no limit.
        """
        # only judges that call a model have a use for them
        del concurrency, store, budget
        return self


def check_judge(judge: object) -> None:
    """Refuse what cannot be used as a judge in a run.

    ``judge`` is what a judge's ``session()`` returned. Example: an object whose
    ``name`` is "" is refused.

    Raises:
        SettingError: If it is no judge, if reading its name or its models fails, if
            its name is no text or blank, or if its models are no chat models.
    """
    name_of_class = type(judge).__name__
    if not isinstance(judge, Judge):
        raise SettingError(
            "the session of a judge must be a Judge; its session() returned"
            f" {name_of_class}"
        )
    with as_setting_error(
        f"{name_of_class} cannot be used as a judge: its name or its models",
        "; a judge has a name, and models, a tuple of the chat models that it may call",
    ):
        name = judge.name
        models = tuple(judge.models)
    if not isinstance(name, str) or not name.strip():
        raise SettingError(
            f"{name_of_class} has no name, which results show: give it a text, e.g."
            " name = 'panel'"
        )
    if not all(hasattr(model, "address") for model in models):
        raise SettingError(
            f"the models of the judge {name} must be chat models, those that it may"
            " call"
        )


class ScriptedJudge(Judge):
    """Answers each question type from a script; deterministic, no I/O.

    Args:
        script: For a question type, what every such question is answered with, or a
            callable that gets the question and returns it: a reply or its fields (each
            poll says the same), a list of them (one per poll), a whole ``Asked``, or a
            ``JudgeError``, which a callable may also raise.
        name: Name in results.

    Attributes:
        asked: Every question of a type in the script that was asked, in order.

    Examples:
        >>> from ragmetrics_core import ContextUtilization
        >>> from ragmetrics_core.metrics.context_utilization import Useful
        >>> judge = ScriptedJudge({Useful: lambda question: {"useful": "Paris" in question["chunk"]}})
        >>> ContextUtilization().score(question="?", answer="Paris", contexts=["Rome", "Paris"], judge=judge).value
        0.5
    """

    def __init__(
        self,
        script: Mapping[type[Question[Any]], Any | Callable[[Any], Any]],
        *,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.asked: list[Question[Any]] = []
        self._script = dict(script)

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer from the script; a question of a type in it is noted in ``asked``.

        Example: the script ``{Useful: reply}`` answers each question of that type with
        the same reply. A type of question that is not in the script is not supported.
        Each answer from the script counts as one call.

        Raises:
            SettingError: If the question's template does not fit its parts.
        """
        check_template(question.instructions, tuple(question.parts))
        if type(question) not in self._script:
            name_of_type = type(question).__name__
            message = (
                f"the script has no reply for questions of type {name_of_type}; add one,"
                " or ask a language model"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        self.asked.append(question)
        reply = self._scripted(question)
        if isinstance(reply, JudgeError):
            return Answer(NotAnswered(reply), Usage(calls=1))
        return Answer(reply, Usage(calls=1))

    def _scripted(self, question: Question[Any]) -> Asked[Any] | JudgeError:
        """Return what the script says to a question: replies, or an error."""
        try:
            line = self._script[type(question)]
            if callable(line):
                line = line(question)
            if isinstance(line, (Asked, JudgeError)):
                return line
            # a list has a reply for each poll; anything else is the reply of all polls
            polls = line if isinstance(line, list) else [line] * question.polls
            replies = tuple(
                poll if isinstance(poll, question.Reply) else question.read(poll)
                for poll in polls
            )
            weights: tuple[Weight, ...] = ()
            if question.wanted_probability:
                weights = weights_by_share(replies, question.wanted_probability)
            return Asked(replies, weights=weights)
        except JudgeError as error:
            return error
        except ValidationError as error:
            return UnusableReply(
                f"the script's reply has not the form of {question.Reply.__name__}",
                raw=str(error),
            )
