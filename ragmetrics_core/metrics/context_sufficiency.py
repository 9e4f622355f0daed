"""Context Sufficiency: could the question be answered from the contexts alone?

Beside the score stands what the application did: whether it answered or declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ragmetrics_core.data import (
    Asked,
    Instructions,
    NotAnswered,
    Part,
    Question,
    Sample,
    Share,
    SilentData,
    Undefined,
    Weight,
    ask,
)
from ragmetrics_core.data.asking import Bounds, order_of_digest
from ragmetrics_core.data.errors import JudgeError, SettingError
from ragmetrics_core.data.metric_evidence import CASES_IN_WORDS, AnsweringCase, Sufficed
from ragmetrics_core.data.replies import (
    Comment,
    Findings,
    Mode,
    Overall,
    Texts,
    WordsOf,
)
from ragmetrics_core.data.sample import why_contexts_are_unknown
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.declined import (
    instructions_on_declining,
    question_on_declining,
    standalone_question_part,
)
from ragmetrics_core.metrics.metric import (
    Metric,
    Plan,
    instructions_for_judge,
    weight_of,
)


class SufficientReply(SilentData, extra="ignore"):
    """Whether contexts hold what a question asks for, and what they lack of it.

    A judge that computes verdicts gives the list alone: they suffice if it is empty.
    """

    reason: Comment = ""
    sufficient: Overall = None
    missing: Annotated[Texts, Findings(), WordsOf(("question",))]

    @property
    def is_sufficient(self) -> bool:
        """Whether the contexts hold what is asked."""
        return not self.missing and self.sufficient is not False


class SufficientContexts(Question[SufficientReply]):
    """Can the question be answered from these contexts alone?

    Parts: contexts, question. Answer and reference are no parts of it.
    """


_EXAMPLE = SufficientReply.model_construct(
    reason="Context A says who. " * 10, sufficient=True, missing=()
)


class ContextSufficiency(Metric):
    """Could the question be answered from the contexts alone?

    The judge sees the question and the contexts that the application showed its
    model, and neither the answer nor the reference. With an answer, a question of its
    own says whether that declines; ``Report.answering`` counts both together.

    Args:
        polls: Independent judgements, whose share is the score.
        uncertain: Probabilities, both included, between which the judge is unsure: such
            a sample is counted in no share of ``Report.answering``.
        declining: Ask whether the answer declines, where there is one.
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt; must hold ``{contexts}`` and ``{question}``.

    Returns:
        A score in [0, 1], higher is better: the probability that the contexts are
        enough, which they are above 0.5. Without contexts 0, and nothing is asked of
        them.

    Undefined when:
        The question is missing, or it is not known which contexts were shown: they
        were not recorded, the capture is incomplete, or evidence stands in the ledger
        alone.

    Raises:
        SettingError: If the band is none, or a template lacks a placeholder.

    Source:
        Joren et al. (2024), Sufficient Context, arXiv 2411.06037. Departures: a
        probability in place of a label, and a band in which the case is uncertain.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> from ragmetrics_core.metrics.declined import Declined
        >>> judge = ScriptedJudge({
        ...     SufficientContexts: {"missing": ["the year"]}, Declined: {"declined": 1}
        ... })
        >>> result = ContextSufficiency().score(
        ...     question="When?", contexts=["Anna lit it."], answer="I don't know.", judge=judge
        ... )
        >>> result.value, result.evidence.case
        (0.0, 'rightly_declined')
    """

    version: ClassVar[str] = "14"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("question",),)

    name: str = Field(default="context_sufficiency", min_length=1)
    polls: int = Field(default=5, ge=1, le=1000)
    uncertain: tuple[Share, Share] = (0.4, 0.6)
    declining: bool = True
    examples: str | None = None
    template: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ContextSufficiency:
        """Refuse a band that does not hold one half."""
        low, high = self.uncertain
        if is_yes(low) or high < 0.5:
            raise SettingError(
                "uncertain is a band of probabilities around 0.5, the lower one first,"
                f" e.g. (0.4, 0.6); got {self.uncertain}"
            )
        return self

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how contexts are judged, and whether an answer declines."""
        return (
            instructions_for_judge(
                "sufficient_contexts",
                self.template,
                "contexts question",
                examples=self.examples,
                language=self.language,
            ),
            instructions_on_declining(),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores or cases, for the signature."""
        low, high = self.uncertain
        settings = {"polls": str(self.polls), "uncertain": f"{low:g}-{high:g}"}
        if not self.declining:
            settings["declining"] = "no"
        return settings

    def gap(self, sample: Sample) -> Undefined | None:
        """Why the metric is undefined for a sample: also where contexts are unknown."""
        gap = super().gap(sample)
        if gap is not None:
            return gap
        why = why_contexts_are_unknown(sample)
        return self.undefined(why) if why else None

    def plan(self, sample: Sample) -> Plan:
        """Ask whether the contexts are enough, and whether the answer declines.

        Example: the contexts do not tell who built the bridge, and the answer says "I do
        not know": 0, and the case "rightly_declined".
        """
        on_contexts, _ = self.instructions()
        questions: list[Question[Any]] = []
        texts = sample.texts_as_shown
        if texts:  # of none nothing is asked: they are not sufficient
            questions.append(
                question_on_contexts(sample, texts, on_contexts, polls=self.polls)
            )
        has_answer = self.declining and not sample.missing("answer")
        if has_answer:
            questions.append(question_on_declining(sample))
        replies = yield from ask(questions)

        evidence = SufficiencyEvidence(sufficient=False, probability=0.0)
        reason = "There are no contexts."
        bounds: Bounds | None = None
        if texts:
            on_texts = replies[0]
            if isinstance(on_texts, NotAnswered):
                return self.failed(on_texts.error)
            verdicts = [reply.is_sufficient for reply in on_texts.replies]
            weighed = weight_of(on_texts, verdicts)
            if isinstance(weighed, JudgeError):
                return self.failed(weighed)
            weight, bounds = weighed
            evidence = self._evidence(on_texts, weight, bounds)
            missing = evidence.missing or "the judge does not say what"
            reason = f"Missing: {missing.rstrip('.')}."
            if evidence.sufficient:
                reason = "The contexts hold all that is asked."
            why = [
                reply.reason
                for reply in on_texts.replies
                if reply.is_sufficient == evidence.sufficient
            ]
            reason = f"{reason} {max(why, key=len, default='')}".rstrip()
        if not has_answer:
            return self.scored(evidence.probability, reason, evidence, bounds)
        # what the application did, where the judge can tell
        on_answer = replies[-1]
        further_fields: dict[str, Any] = {}
        if isinstance(on_answer, NotAnswered):
            note = f"not known whether the answer declines: {on_answer.error}"
            further_fields["declined_note"] = note
        else:
            declined = on_answer.reply.declined
            case = case_of(
                sufficient=evidence.sufficient,
                declined=declined,
                uncertain=evidence.uncertain,
            )
            further_fields = {"declined": declined, "case": case}
            reason += f" The application: {CASES_IN_WORDS[case]}."
        evidence = evidence.model_copy(update=further_fields)
        return self.scored(evidence.probability, reason, evidence, bounds)

    def _evidence(
        self, on_texts: Asked[SufficientReply], weight: Weight, bounds: Bounds | None
    ) -> SufficiencyEvidence:
        """Return the evidence of what the judge says of the contexts."""
        is_sufficient = is_yes(weight.p)
        missing = ""
        if not is_sufficient:  # what they lack, by the first reply that says it
            lists = [reply.missing for reply in on_texts.replies if reply.missing]
            missing = "; ".join(text.rstrip(".;") for text in lists[0]) if lists else ""
        # the judge is unsure in a band, also where lost polls could lead into it
        low, high = self.uncertain
        lowest, highest = bounds or (weight.p, weight.p)
        return SufficiencyEvidence(
            sufficient=is_sufficient,
            probability=weight.p,
            mode=weight.mode,
            polls=len(on_texts.replies),
            missing=missing,
            uncertain=lowest <= high and low <= highest,
        )


class SufficiencyEvidence(Sufficed, extra="ignore"):
    """Evidence of Context Sufficiency.

    Attributes:
        probability: p(sufficient); it is the score.
        mode: How the probability was obtained.
        polls: Replies behind it; 0 if nothing was asked.
        missing: What the contexts lack, in the judge's words.
        uncertain: Whether the probability lies in the uncertain band.
        declined_note: Why it is unknown whether the answer declines.
    """

    kind: Literal["context_sufficiency"] = "context_sufficiency"
    probability: Share
    mode: Mode = "verdict"
    polls: int = 0
    missing: str = ""
    uncertain: bool = False
    declined_note: str = ""

    def verdicts(self) -> list[str]:
        """Tell whether the contexts were enough, what they lack, and what was done."""
        verdict = "sufficient" if self.sufficient else "not sufficient"
        lines = [f"{verdict}, {self.probability:.2f}"]
        if self.missing:
            lines.append(f"missing: {self.missing}")
        if self.case is not None:
            lines.append(CASES_IN_WORDS[self.case])
        return lines


def question_on_contexts(
    sample: Sample, texts: Sequence[str], instructions: Instructions, *, polls: int = 1
) -> SufficientContexts:
    """Return the question whether these contexts are enough.

    They are shown in an order that does not depend on their rank, each once.
    """
    ordered = order_of_digest(sample.question, texts)
    return SufficientContexts(
        parts={
            "contexts": Part("Context", ordered, "letters"),
            "question": standalone_question_part(sample),
        },
        instructions=instructions,
        Reply=SufficientReply,
        polls=polls,
        example=_EXAMPLE,
    )


def case_of(*, sufficient: bool, declined: bool, uncertain: bool) -> AnsweringCase:
    """Return what an application did with a question, given what its contexts held.

    Args:
        sufficient: Whether the contexts were enough.
        declined: Whether the answer declines.
        uncertain: Whether the judge is unsure of the contexts; then nothing else counts.

    Examples:
        >>> case_of(sufficient=False, declined=False, uncertain=False)
        'unbacked'
    """
    if uncertain:
        return "uncertain"
    if sufficient:
        return "over_declined" if declined else "answered"
    return "rightly_declined" if declined else "unbacked"
