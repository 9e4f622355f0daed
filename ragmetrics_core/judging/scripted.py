"""A judge for tests and documentation whose replies are written down beforehand."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ragmetrics_core.data.errors import JudgeError, MalformedReply, QuestionNotSupported
from ragmetrics_core.data.questions import Answer, Asked, NotAnswered, Question, R, check_template, shares
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.judging.judge import Judge


class ScriptedJudge(Judge):
    """Answers each question type from a script; deterministic, no I/O.

    Args:
        script: For a question type, what every such question is answered with, or a callable that gets the question
            and returns it: a reply or its fields (each poll says the same), a list of them (one per poll), a whole
            ``Asked``, or a ``JudgeError``, which a callable may also raise.
        name: Name in results.

    Attributes:
        asked: Every question that was asked, in order.

    Example:
        >>> from ragmetrics_core import ContextUtilization
        >>> from ragmetrics_core.metrics.context_utilization import Useful
        >>> judge = ScriptedJudge({Useful: lambda question: {"useful": "Paris" in question["chunk"]}})
        >>> ContextUtilization().score(question="?", answer="!", contexts=["Rome", "Paris"], judge=judge).value
        0.5
    """

    def __init__(
        self, script: Mapping[type[Question[Any]], Any | Callable[[Any], Any]], *, name: str = "scripted"
    ) -> None:
        self.name = name
        self.asked: list[Question[Any]] = []
        self._script = dict(script)

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer from the script; a type that is not in it is not supported."""
        self.asked.append(question)
        check_template(question.instructions, tuple(question.parts))
        if type(question) not in self._script:
            kind = type(question).__name__
            message = f"the script has no reply for questions of type {kind}; add one, or ask a language model"
            return Answer(NotAnswered(QuestionNotSupported(message)))
        said = self._script[type(question)]
        try:
            said = said(question) if callable(said) else said
            if not isinstance(said, (Asked, JudgeError)):
                said = _asked(question, said)
        except JudgeError as error:
            said = error
        except ValidationError as error:
            said = MalformedReply(f"the script's reply has not the form of {question.Reply.__name__}", raw=str(error))
        return Answer(NotAnswered(said) if isinstance(said, JudgeError) else said, Usage(calls=1))


def _asked(question: Question[R], said: Any) -> Asked[R]:
    polls = said if isinstance(said, list) else [said] * question.polls
    replies = tuple(it if isinstance(it, question.Reply) else question.read(it) for it in polls)
    return Asked(replies, weights=shares(replies, question.weigh) if question.weigh else ())
