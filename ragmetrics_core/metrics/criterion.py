"""A criterion in one sentence: does a turn of an application meet it?"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import (
    Instructions,
    LabelProbability,
    NotAnswered,
    Part,
    Question,
    Sample,
    Share,
    SilentData,
    Undefined,
    ask,
    question_part,
)
from ragmetrics_core.data.errors import JudgeError, QuestionNotSupported, SettingError
from ragmetrics_core.data.metric_evidence import Evidence
from ragmetrics_core.data.replies import Bit, Comment, Mode
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.metric import (
    Metric,
    Plan,
    digest_of_prompt,
    instructions_for_judge,
    weight_of,
)


class CriterionReply(SilentData, extra="ignore"):
    """Whether a criterion is met, behind the reason."""

    reason: Comment = ""
    met: Bit


class CriterionAlone(CriterionReply):
    """The verdict alone: its token's probability is wanted."""

    reason: SkipJsonSchema[Comment] = ""


class Meets(Question[CriterionReply]):
    """Is the criterion met? Parts: contexts, question, reference, answer, criterion.

    Only what the criterion reads is shown.
    """


class Criterion(Metric):
    """Is the criterion met?

    Args:
        name: Key of the results and of gates, e.g. ``polite``.
        sentence: What must hold of a turn, in one sentence.
        **settings: The settings below.

    Returns:
        A score in [0, 1], higher is better: the share of the polls that say that the
        criterion is met, or its probability.

    Undefined when:
        The sample lacks what the criterion reads, or the judge cannot judge criteria, as
        one that only compares words.

    Raises:
        SettingError: If a setting is invalid.

    Source:
        Polls as in ChainPoll (arXiv 2310.18344), on a criterion of the user's own.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> polite = Criterion("polite", "The answer addresses the customer politely.")
        >>> judge = ScriptedJudge({Meets: {"reason": "It says please.", "met": 1}})
        >>> polite.score(answer="Please wait.", judge=judge).value
        1.0
    """

    version: ClassVar[str] = "3"

    sentence: str = Field(min_length=1)
    reads: tuple[Literal["question", "answer", "contexts", "reference"], ...] = Field(
        default=("answer",), min_length=1
    )
    method: Literal["polls", "probability"] = "polls"
    polls: int = Field(default=5, ge=1, le=1000)

    def __init__(self, name: str, sentence: str, **settings: Any) -> None:
        """Take the name and the sentence; see the class."""
        super().__init__(name=name, sentence=sentence, **settings)

    @classmethod
    def of_line(cls, line: str, **settings: Any) -> Self:
        """Make a criterion of "name: sentence".

        Raises:
            SettingError: If the line has another form, or a setting is invalid.
        """
        name, _, sentence = (part.strip() for part in line.partition(":"))
        if not name or not sentence:
            raise SettingError(
                "a criterion is written NAME: SENTENCE, e.g. 'polite: The answer"
                f" addresses the customer politely.'; got {line!r}"
            )
        return cls(name, sentence, **settings)

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """What the criterion reads, each field by itself."""
        return tuple((field,) for field in self.reads)

    @property
    def asks(self) -> str:
        """The criterion itself."""
        return self.sentence

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how a criterion is judged."""
        template = "criterion" if self.method == "polls" else "criterion_probability"
        others = "contexts question reference answer"
        return (
            instructions_for_judge(
                template, None, "criterion", others, language=self.language
            ),
        )

    def settings(self) -> dict[str, str]:
        """The criterion as a digest, what it reads, and how it is asked."""
        return {
            "criterion": digest_of_prompt(self.sentence),
            "reads": ",".join(sorted(self.reads)),
            "method": self.method,
            "polls": str(self.polls),
        }

    def gap(self, sample: Sample) -> Undefined | None:
        """Why the metric is undefined: also where no context was found to be read."""
        gap = super().gap(sample)
        if gap is None and "contexts" in self.reads and not sample.context_texts:
            return self.undefined("no context was found, which the criterion reads")
        return gap

    def plan(self, sample: Sample) -> Plan:
        """Ask whether the sample meets the criterion; the probability is the score.

        Example: 4 of 5 polls say that it is met: .8, for the reason of the first of
        these.
        """
        [asked] = yield from ask([self._question(sample)])
        if isinstance(asked, NotAnswered):
            if isinstance(asked.error, QuestionNotSupported):
                return self.undefined(str(asked.error), "other")
            return self.failed(asked.error)
        verdicts = [reply.met for reply in asked.replies]
        weighed = weight_of(asked, verdicts)
        if isinstance(weighed, JudgeError):
            return self.failed(weighed)
        weight, bounds = weighed
        met = is_yes(weight.p)
        evidence = CriterionEvidence(
            met=met, probability=weight.p, mode=weight.mode, polls=len(asked.replies)
        )
        reasons = [reply.reason for reply in asked.replies if reply.met == met]
        reason = next(filter(None, reasons), "met" if met else "not met")

        return self.scored(weight.p, reason, evidence, bounds)

    def _question(self, sample: Sample) -> Meets:
        """Return the question, which shows what the criterion reads."""
        # a part without a text shows nothing
        texts = {
            "contexts": sample.texts_as_shown,
            "reference": sample.reference,
            "answer": sample.answer,
        }
        read = {field: text for field, text in texts.items() if field in self.reads}
        parts = {
            "contexts": Part("Context", read.get("contexts")),
            **question_part(sample),
            "reference": Part("Expected answer", read.get("reference")),
            "answer": Part("Answer", read.get("answer")),
            "criterion": Part("Criterion", self.sentence),
        }
        [instructions] = self.instructions()
        if self.method == "probability":
            return Meets(
                parts=parts,
                instructions=instructions,
                Reply=CriterionAlone,
                wanted_probability=LabelProbability("met", fallback_polls=self.polls),
                example=CriterionAlone(met=True),
            )
        return Meets(
            parts=parts,
            instructions=instructions,
            Reply=CriterionReply,
            polls=self.polls,
            example=CriterionReply(
                reason="It does so in the first sentence.", met=True
            ),
        )


class CriterionEvidence(Evidence, extra="ignore"):
    """Evidence of a criterion.

    Attributes:
        met: Whether the criterion is met.
        probability: p(met); it is the score.
        mode: How the probability was obtained.
        polls: Replies behind it.
    """

    kind: Literal["criterion"] = "criterion"
    met: bool
    probability: Share
    mode: Mode
    polls: int

    def verdicts(self) -> list[str]:
        """Tell whether the criterion is met."""
        verdict = "met" if self.met else "not met"
        return [f"{verdict}, {self.probability:.2f}"]
