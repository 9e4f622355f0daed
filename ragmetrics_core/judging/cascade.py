"""A cascade: a cheap judge answers what it is sure of, a strong one the rest."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    JudgeUnavailable,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    SettingError,
    Usage,
)
from ragmetrics_core.judging.judge import Judge


class CascadeJudge(Judge):
    """Asks a strong judge only where a cheap one is unsure.

    The cheap judge's reply counts if it gives a probability for each verdict, none lies
    in the band, and its verdict is on the side of its probability (an encoder says no
    to an answer whose weakest sentence is not supported, however high the mean).
    Otherwise the strong judge is asked; if that does not support the question, the
    cheap reply stands. Polls on adherence by a chat model have no probabilities, so as
    the cheap judge take the embedded one or an encoder. Judges may be cascades
    themselves.

    The usage of each result counts its questions: ``spared`` those that the cheap judge
    decided, ``passed`` those that the strong one was asked. Stored replies are those of
    each judge alone.

    Args:
        cheap: The judge that is always asked.
        strong: The judge that is asked inside the band.
        band: Lowest and highest probability, both included, at which the cheap judge
            counts as unsure.

    Raises:
        SettingError: If the band is none within [0, 1], or one of the two is no judge.

    Examples:
        >>> from ragmetrics_core import ContextAdherence, LexicalJudge, ScriptedJudge
        >>> judge = CascadeJudge(LexicalJudge(), ScriptedJudge({}))
        >>> result = ContextAdherence().score(contexts=["Paris is big."], answer="Paris is big.", judge=judge)
        >>> result.judge, result.usage.spared, result.usage.passed
        ('cascade(lexical, scripted)', 1, 0)
    """

    def __init__(
        self, cheap: Judge, strong: Judge, *, band: tuple[float, float] = (0.2, 0.8)
    ) -> None:
        ends = (
            [end for end in band if isinstance(end, (int, float))]
            if isinstance(band, (tuple, list))
            else []
        )
        if len(ends) != 2 or len(band) != 2 or not 0 <= ends[0] <= ends[1] <= 1:
            raise SettingError(
                "band is two probabilities, the lower one first, e.g. (0.2, 0.8); got"
                f" {band!r}"
            )
        for given in (cheap, strong):
            if not isinstance(given, Judge):
                raise SettingError(
                    "a cascade needs two judges, e.g. LLMJudge(model); got a"
                    f" {type(given).__name__}"
                )
        self.name = f"cascade({cheap.name}, {strong.name})"
        self.cheap, self.strong, self.band, self.models = (
            cheap,
            strong,
            band,
            cheap.models + strong.models,
        )

    @property
    def details(self) -> dict[str, str]:
        """The band, and the settings of both judges."""
        both = (("cheap", self.cheap), ("strong", self.strong))
        own = {
            f"{whose} {name}": value
            for whose, judge in both
            for name, value in judge.details.items()
        }
        return {"band": f"{self.band[0]:g}-{self.band[1]:g}", **own}

    def session(self, **settings: Any) -> CascadeJudge:
        """Return a cascade for one run, made of both judges' sessions.

        They share the run's store and budget.
        """
        judge = copy(self)
        judge.cheap, judge.strong = (
            one.session(**settings) for one in (self.cheap, self.strong)
        )
        return judge

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer by the cheap judge, and where that is unsure by the strong one.

        The reply's error is ``JudgeUnavailable`` if a judge that is asked will answer
        no question.
        """
        first = await self.cheap.answer(question)
        if isinstance(first.reply, NotAnswered) and isinstance(
            first.reply.error, JudgeUnavailable
        ):
            return first
        found = first.reply if isinstance(first.reply, Asked) else Asked(())
        # a reply may hold several verdicts, and then no other
        pairs = zip(found.replies, found.weights, strict=False)
        torn = any(
            getattr(it, "verdict", "") == ("no" if weight.p >= 0.5 else "yes")
            for it, weight in pairs
        )
        if (
            found.weights
            and not torn
            and not any(self.band[0] <= it.p <= self.band[1] for it in found.weights)
        ):
            return replace(first, usage=first.usage + Usage(spared=1))
        try:
            second = await self.strong.answer(question)
        # what the cheap judge was paid is told all the same
        except JudgeUnavailable as error:
            second = Answer(NotAnswered(error))
        unknown = isinstance(second.reply, NotAnswered) and isinstance(
            second.reply.error, QuestionNotSupported
        )
        reply = (
            first.reply if unknown and isinstance(first.reply, Asked) else second.reply
        )
        return Answer(reply, first.usage + second.usage + Usage(passed=1))
