"""A cascade: a cheap judge answers what it is sure of, a strong one the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

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
from ragmetrics_core.data.number_values import is_number
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.replies import failed_with
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore

Band = tuple[float, float]
"""Lowest and highest probability at which a judge is unsure, both included."""


class CascadeJudge(Judge):
    """Asks a strong judge only where a cheap one is unsure.

    The cheap judge's reply counts if it gives a probability for each verdict, none lies
    in the band, and its verdict is on the side of its probability.
    Otherwise the strong judge is asked; if that does not support the question, the
    cheap reply stands. Polls on adherence by a chat model have no probabilities, so as
    the cheap judge take the embedded one or an encoder. Judges may be cascades
    themselves.

    The band has no default, because what a probability is worth differs from judge to
    judge: outside a band that was guessed a judge may be wrong on every fourth answer.
    Measure it on labelled rows, or take it from a card of the cheap judge.

    The usage of each result counts its questions: ``spared`` those that the cheap judge
    decided, ``passed`` those that the strong one was asked. Stored replies are those of
    each judge alone.

    Args:
        cheap: The judge that is always asked.
        strong: The judge that is asked inside the band.
        band: Lowest and highest probability, both included, at which the cheap judge
            counts as unsure. Or one such pair for each type of question by its name,
            as ``Card.bands`` gives them, e.g. ``{"Adherent": (0.25, 0.98)}``: of all
            other questions the cheap judge counts as unsure.

    Raises:
        SettingError: If there is no band, or none within [0, 1], or one of the two is
            no judge.

    Examples:
        >>> from ragmetrics_core import ContextAdherence, LexicalJudge, ScriptedJudge
        >>> judge = CascadeJudge(LexicalJudge(), ScriptedJudge({}), band=(0.2, 0.8))
        >>> result = ContextAdherence().score(contexts=["Paris is big."], answer="Paris is big.", judge=judge)
        >>> result.judge, result.usage.spared, result.usage.passed
        ('cascade(lexical, scripted)', 1, 0)
    """

    def __init__(
        self,
        cheap: Judge,
        strong: Judge,
        *,
        band: Band | Mapping[str, Band] | None = None,
    ) -> None:
        """Check both judges and the band, and keep them; nothing is asked.

        The band is the range of probabilities in which the cheap judge is unsure: with
        (.2, .8) the strong judge is asked at .5, and not at .9. A mapping has a band
        for each type of question.

        Raises:
            SettingError: If one of the two is no judge, or if the band is missing or
                is not two ascending probabilities.
        """
        for judge in (cheap, strong):
            if not isinstance(judge, Judge):
                raise SettingError(
                    "a cascade needs two judges, e.g. LLMJudge(model); got a"
                    f" {type(judge).__name__}"
                )
        if band is None or band == {}:
            raise SettingError(_advice_without_band(cheap.name))
        if isinstance(band, Mapping):
            for band_of_type in band.values():
                _check_band(band_of_type)
        else:
            _check_band(band)
        self.name = f"cascade({cheap.name}, {strong.name})"
        self.cheap = cheap
        self.strong = strong
        self.band = dict(band) if isinstance(band, Mapping) else band
        self.models = cheap.models + strong.models

    @property
    def details(self) -> dict[str, str]:
        """The band, and the settings of both judges."""
        details = {"band": _band_in_words(self.band)}
        for role, judge in (("cheap", self.cheap), ("strong", self.strong)):
            for setting, value in judge.details.items():
                details[f"{role} {setting}"] = value
        return details

    def session(
        self,
        *,
        concurrency: int,
        store: ReplyStore | None,
        budget: Budget | None = None,
    ) -> CascadeJudge:
        """Return a cascade for one run, made of both judges' sessions.

        They share the run's store and budget.
        """
        return self.with_parts(
            lambda judge: judge.session(
                concurrency=concurrency, store=store, budget=budget
            )
        )

    def with_parts(self, made_of: Callable[[Judge], Judge]) -> CascadeJudge:
        """Copy the cascade, each of its judges replaced by ``made_of(judge)``."""
        cascade = copy(self)
        cascade.cheap = made_of(self.cheap)
        cascade.strong = made_of(self.strong)
        return cascade

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer by the cheap judge, and where that is unsure by the strong one.

        The reply's error is ``JudgeUnavailable`` if a judge that is asked will answer
        no question.
        """
        answer = await self.cheap.answer(question)
        if failed_with(answer.reply, JudgeUnavailable):
            # The user has to mend the cheap judge, e.g. its key: its error stays the
            # answer, and the strong judge, which costs more, is not asked.
            return answer
        if self._is_sure(question, answer):
            # the strong judge is spared one question
            return replace(answer, usage=answer.usage + Usage(spared=1))
        try:
            strong_answer = await self.strong.answer(question)
        except JudgeUnavailable as error:
            # no error here, as the answer also says what the cheap judge was paid
            strong_answer = Answer(NotAnswered(error))
        return _combine_answers(answer, strong_answer)

    def _is_sure(self, question: Question[Any], answer: Answer[Any]) -> bool:
        """Tell whether the cheap judge is sure of its answer.

        If not, the strong judge is asked. The cheap judge is sure if all probabilities
        lie outside the band, and none contradicts its verdict.
        """
        band = self._band_of(question)
        if band is None:
            return False  # questions of this type always go to the strong judge
        reply = answer.reply
        if not isinstance(reply, Asked) or not reply.weights:
            return False  # it did not answer, or gave no probability
        low, high = band
        if any(low <= weight.p <= high for weight in reply.weights):
            return False
        # A "no" with a probability of 0.9 for "yes" is not sure. Only a reply with one
        # verdict, and so one weight, has a field ``verdict`` that can contradict.
        return not _contradicts(reply.reply, reply.weights[0].p)

    def _band_of(self, question: Question[Any]) -> Band | None:
        """Return the band for a question; None if the cheap judge has none for it."""
        if isinstance(self.band, Mapping):
            return self.band.get(type(question).__name__)
        return self.band


def _combine_answers(
    cheap_answer: Answer[Any], strong_answer: Answer[Any]
) -> Answer[Any]:
    """Return the strong judge's answer.

    If only the cheap judge supports the question, its answer is returned.
    """
    usage = cheap_answer.usage + strong_answer.usage + Usage(passed=1)
    cheap_answered = isinstance(cheap_answer.reply, Asked)
    if cheap_answered and failed_with(strong_answer.reply, QuestionNotSupported):
        return Answer(cheap_answer.reply, usage)
    return Answer(strong_answer.reply, usage)


def _advice_without_band(cheap: str) -> str:
    """Say what to do where no band is given."""
    return (
        "a cascade needs a band, the probabilities between which the strong judge is"
        " asked: measure it on labelled rows by 'ragmetrics card --judge"
        f" {cheap} --data labelled/ --out card.json', then"
        ' band=Card.read("card.json").bands(0.05)'
    )


def _band_in_words(band: Band | Mapping[str, Band]) -> str:
    """Return a band for the signature, e.g. ``0.2-0.8``."""
    if isinstance(band, Mapping):
        return ", ".join(
            f"{name} {_band_in_words(band[name])}" for name in sorted(band)
        )
    low, high = band
    return f"{low:g}-{high:g}"


def _check_band(band: object) -> None:
    """Raise ``SettingError`` unless a band is a pair of ascending probabilities."""
    if isinstance(band, (tuple, list)) and len(band) == 2:
        low, high = band
        if is_number(low) and is_number(high) and 0 <= low <= high <= 1:
            return
    raise SettingError(
        f"band is two probabilities, the lower one first, e.g. (0.2, 0.8); got {band!r}"
    )


def _contradicts(reply: BaseModel, probability: float) -> bool:
    """Tell whether a reply says "no" although yes is more probable, or the reverse.

    Only replies with a field ``verdict`` can contradict.
    """
    less_probable = "no" if is_yes(probability) else "yes"
    return getattr(reply, "verdict", "") == less_probable
