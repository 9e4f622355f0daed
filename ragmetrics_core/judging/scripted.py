"""A judge for tests and documentation whose replies are written down beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragmetrics_core.data.errors import JudgeError, QuestionNotSupported
from ragmetrics_core.data.questions import Answer, NotAnswered, Question, R
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.judging.judge import Judge


class ScriptedJudge(Judge):
    """Answers each question type from a script; deterministic, no I/O.

    Args:
        script: For a question type, the reply to every such question, or a callable that gets the question
            and returns the reply. A ``JudgeError`` as reply means that the question is not answered; a
            callable may also raise it.
        name: Name in results.

    Attributes:
        asked: Every question that was asked, in order.

    Example:
        >>> from ragmetrics_core import ChunkVerdict, ContextUtilization, Useful
        >>> judge = ScriptedJudge({Useful: lambda question: (ChunkVerdict("Paris" in question.chunks[0]),)})
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
        if type(question) not in self._script:
            return Answer(
                NotAnswered(QuestionNotSupported(f"the script has no reply for questions of type {question.kind!r}"))
            )
        reply = self._script[type(question)]
        try:
            reply = reply(question) if callable(reply) else reply
        except JudgeError as error:
            reply = error
        if isinstance(reply, JudgeError):
            reply = NotAnswered(reply)
        return Answer(reply, Usage(calls=1))
