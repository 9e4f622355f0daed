"""Context Adherence: is the answer based purely on the contexts? The share of "yes" over chain-of-thought polls."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from ragmetrics_core.data.errors import LimitReached, QuestionNotSupported, SettingError, TooFewPolls
from ragmetrics_core.data.evidence import Polled
from ragmetrics_core.data.frozen import Share, Silent
from ragmetrics_core.data.intervals import wilson
from ragmetrics_core.data.questions import (
    Batch,
    Bit,
    Comment,
    Instructions,
    NotAnswered,
    Part,
    Question,
    Replies,
    about,
    ask,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.metrics.claim_by_claim import by_claims
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan
from ragmetrics_core.metrics.polls import EXAMPLES, Adherent, Poll, Polls, SentenceSupport, too_long
from ragmetrics_core.metrics.templates import checked, shipped

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]


class Sufficiency(Silent, extra="ignore"):
    """Could the question have been answered?

    Args:
        reason: The judge's explanation.
        sufficient: True if the contexts hold what the question asks for.
        on_question: True if the answer answers the question that was asked.
    """

    reason: Comment = ""
    sufficient: Bit
    on_question: Bit


class Sufficient(Question[Sufficiency]):
    """Can the question be answered from these contexts, and does the answer address it? Parts: as ``Adherent``."""


class AdherenceEvidence(Polled, extra="ignore"):
    """Evidence of Context Adherence.

    Args:
        yes: Polls that found the answer grounded.
        no: Polls that found it not grounded.
        abstained: Polls that found no claim in the answer.
        missing: Polls that were not answered.
        polls: Every answered poll.
        probability: p(yes) of a deterministic judge; None for polls.
        early_stopped: True if polling stopped at a decided majority.
        explanation: Explanation from the majority side (a tie surfaces the "no" side).
        dissent: The strongest explanation of the other side; "" if there is none.
        unsupported: Claims that the "no" polls found unsupported.
        cause: Hypothesis why a low score came about.
        remedy: What to do about that cause.
        cause_note: Why the judge thinks so, or why no cause could be determined.
        sentences: Per sentence of the answer, the evidence of a lexical judge.
        windows: In how many windows contexts too long for the judge were judged, claim by claim; None: as a whole.
    """

    kind: Literal["context_adherence"] = "context_adherence"
    yes: int
    no: int
    abstained: int = 0
    missing: int = 0
    polls: tuple[Poll, ...] = ()
    probability: Share | None = None
    early_stopped: bool = False
    explanation: str = ""
    dissent: str = ""
    unsupported: tuple[str, ...] = ()
    cause: Cause | None = None
    remedy: str = ""
    cause_note: str = ""
    sentences: tuple[SentenceSupport, ...] = ()
    windows: int | None = None


_REMEDIES: dict[Cause, str] = {
    "insufficient_context": "Complete the context store, or retrieve more: the contexts do not hold what is asked.",
    "reasoning_error": "The contexts hold what is needed: tell the prompt to stick to the contexts, or use a "
    "stronger model to write answers.",
    "misread_question": "The answer is about something else: check how the question reaches the prompt, and keep "
    "irrelevant chunks out of it.",
}
_SUFFICIENT = (
    Sufficiency(reason="The contexts hold all that is asked. " * 4, sufficient=True, on_question=True),
    Sufficiency(reason="The contexts hold all that is asked. " * 18, sufficient=True, on_question=True),
)


def stopped_estimate(verdicts: Sequence[bool], polls: int) -> float:
    """Unbiased estimate of p(yes) when polling stopped at a decided majority of an odd number of polls.

    Args:
        verdicts: The verdicts in order, up to the one that decided.
        polls: Number of polls that were planned, n >= 3.

    Returns:
        In [0, 1]: (a-1)/(k-1) if the a-th yes came at poll k, y/(k-1) if the b-th no did; yes / answered if
        nothing was decided.

    Source:
        Girshick, Mosteller & Savage (1946), Annals of Mathematical Statistics 17(1).

    Example:
        >>> stopped_estimate([True, False, True, True], 5)
        0.6666666666666666
    """
    yes, count = sum(verdicts), len(verdicts)
    if yes >= polls // 2 + 1:
        return (yes - 1) / (count - 1)
    if count - yes >= (polls + 1) // 2:
        return yes / (count - 1)
    return yes / count


class ContextAdherence(Metric):
    """Is the answer grounded in the contexts? The share of independent chain-of-thought judgements that say yes.

    Args:
        polls: Independent judgements; each explains itself before its verdict.
        temperature: Sampling temperature; 1.0 lets the share estimate the judge's own probability of yes.
        early_stop: Stop when a majority is decided, and report the unbiased estimate for that rule. For gates:
            it is noisier, and saves nothing where one request gives several polls; there all polls are used.
        cause: Ask for a likely cause of scores below 0.5.
        examples: Few-shot examples, written out.
        template: Replaces the prompt; must hold ``{contexts}`` and ``{answer}``.

    Returns:
        A score in [0, 1], higher is better: yes / (yes + no).

    Undefined when:
        Contexts or answer are missing, or most polls find that the answer makes no claim (``abstained``).

    Raises:
        SettingError: If ``early_stop`` is used with an even number of polls or fewer than three, or a template
            lacks a placeholder.

    Source:
        ChainPoll: Friel & Sanyal (2023), arXiv 2310.18344. Departures: an answer without claims is undefined;
        contexts longer than the judge's window are judged claim by claim, a claim being supported if some window
        supports it.

    Example:
        >>> from ragmetrics_core import ScriptedJudge
        >>> no = {"verdict": "no", "reason": "Not in the contexts."}
        >>> judge = ScriptedJudge({Adherent: [{"verdict": "yes"}] * 4 + [no]})
        >>> ContextAdherence().score(contexts=["Paris."], answer="Paris", judge=judge).value
        0.8
    """

    version: ClassVar[str] = "3"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("contexts",), ("answer",))

    name: str = Field(default="context_adherence", min_length=1)
    polls: int = Field(default=5, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    early_stop: bool = False
    cause: bool = True
    examples: str = ""
    template: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ContextAdherence:
        if self.early_stop and (self.polls < 3 or self.polls % 2 == 0):
            raise SettingError(f"early_stop needs an odd number of polls of at least 3, got {self.polls}")
        checked(self._template, required=frozenset({"contexts", "answer"}), optional=frozenset({"question"}))
        return self

    @property
    def _template(self) -> str:
        return self.template if self.template is not None else shipped("adherent")

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings = {"polls": str(self.polls), "T": str(self.temperature)}
        return {**settings, "early_stop": "yes"} if self.early_stop else settings

    def prompts(self) -> tuple[str, ...]:
        """Template and examples."""
        return (self._template, self.examples, shipped("facts_io"))

    def plan(self, sample: Sample) -> Plan:
        """Poll the judge, conclude by majority, and ask for the cause of a low score."""
        polls = yield from self._poll(sample)
        if isinstance(polls, NotAnswered):
            return self.failed(polls.error)
        outcome = self._conclude(polls, sample)
        if outcome.status != "scored" or outcome.value >= 0.5 or not self.cause:
            return outcome
        found = yield from self._find_cause(sample, in_windows=polls.windows is not None)
        assert outcome.evidence is not None  # noqa: S101  # a score always has evidence
        return outcome.model_copy(update={"evidence": outcome.evidence.model_copy(update=found)})

    def _poll(self, sample: Sample) -> Generator[Batch, Replies, Polls | NotAnswered]:
        """All polls in one round, or rounds that never overshoot the deciding poll."""
        whole = Adherent(
            parts=_parts(sample),
            instructions=Instructions(self._template, self.examples, self.language),
            Reply=Poll,
            polls=self.polls,
            temperature=self.temperature,
            example=EXAMPLES,
        )
        total, count = Polls(), self.polls // 2 + 1 if self.early_stop else self.polls
        while count > 0:
            first = total.asked if self.early_stop else None
            (reply,) = yield from ask([replace(whole, polls=count, first_poll=first)])
            if too_long(reply) and not total.answers:
                found = yield from by_claims(whole, Instructions(shipped("facts_io"), language=self.language))
                unknown = isinstance(found, NotAnswered) and isinstance(found.error, QuestionNotSupported)
                return reply if unknown and isinstance(reply, NotAnswered) else found
            if isinstance(reply, NotAnswered):
                if not total.answers or isinstance(reply.error, LimitReached):
                    return reply
                polled = Polls(count, (), (reply.error,) * count)
            else:
                polled = Polls.of(reply)
            total += polled
            if polled.asked < count:  # a deterministic judge: asking again would tell nothing new
                break
            count = min(self.polls - total.asked, self._undecided(total))
        return total

    def _undecided(self, polls: Polls) -> int:
        """How many more polls can be asked at once without overshooting the deciding one."""
        if polls.together or not self.early_stop:
            return self.polls
        yes, no = len(polls.saying("yes")), len(polls.saying("no"))
        return min(self.polls // 2 + 1 - yes, (self.polls + 1) // 2 - no)

    def _conclude(self, polls: Polls, sample: Sample) -> Outcome:
        answers = polls.answers
        if not answers and polls.failures:
            return self.failed(polls.failures[0])
        yes, no = polls.saying("yes"), polls.saying("no")
        missing = polls.asked - len(answers)
        evidence = _evidence(polls, sample)
        if 2 * len(answers) <= polls.asked:
            cause = f"; the first failed with {type(polls.failures[0]).__name__}" if polls.failures else ""
            message = f"only {len(answers)} of {polls.asked} polls were answered, a majority is needed{cause}"
            return self.failed(TooFewPolls(message), evidence)
        if 2 * evidence.abstained > len(answers) or not (yes or no):
            return self.undefined(
                f"{evidence.abstained} of {len(answers)} polls found that the answer makes no claim",
                "abstained",
                evidence,
            )
        value = len(yes) / (len(yes) + len(no)) if evidence.probability is None else evidence.probability
        if self.early_stop and not polls.together and self._undecided(polls) <= 0:
            value = stopped_estimate([poll.verdict == "yes" for poll in (*yes, *no)], self.polls)
            evidence = evidence.model_copy(update={"early_stopped": True})
        if missing:
            count = len(yes) + len(no) + missing
            bounds = (len(yes) / count, (len(yes) + missing) / count)
            evidence = evidence.model_copy(update={"bounds": bounds})
        tie = "The polls are tied; the side against the answer says: " if len(yes) == len(no) else ""
        return self.scored(value, tie + evidence.explanation + _in_windows(polls.windows), evidence)

    def _find_cause(self, sample: Sample, in_windows: bool) -> Generator[Batch, Replies, dict[str, object]]:
        """A hypothesis why the answer does not adhere, from a question of its own."""
        if sample.question is None:
            return {"cause_note": "no cause could be looked for without the question"}
        if in_windows:
            return {"cause_note": "no cause was looked for: the contexts are longer than the judge's window"}
        question = Sufficient(
            parts=_parts(sample),
            instructions=Instructions(shipped("sufficient"), "", self.language),
            Reply=Sufficiency,
            example=_SUFFICIENT,
        )
        (asked,) = yield from ask([question])
        if isinstance(asked, NotAnswered):
            return {"cause_note": f"no cause was determined: {asked.error}"}
        cause = _cause(asked.reply)
        return {"cause": cause, "remedy": _REMEDIES[cause], "cause_note": asked.reply.reason}


def _parts(sample: Sample) -> dict[str, Part]:
    contexts = tuple(context.text for context in sample.contexts if not context.blank)
    return {"contexts": Part("Context", contexts), **about(sample), "answer": Part("Answer", sample.answer or "")}


def _in_windows(count: int | None) -> str:
    return f" (Judged claim by claim in {count} windows of the contexts.)" if count else ""


def _cause(sufficiency: Sufficiency) -> Cause:
    if not sufficiency.on_question:
        return "misread_question"
    return "reasoning_error" if sufficiency.sufficient else "insufficient_context"


def _strongest(polls: Sequence[Poll]) -> str:
    """The explanation that names most unsupported claims, then the longest, then the first."""
    return max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason))).reason if polls else ""


def _evidence(polls: Polls, sample: Sample) -> AdherenceEvidence:
    answers = polls.answers
    yes, no = polls.saying("yes"), polls.saying("no")
    majority, minority = (yes, no) if len(yes) > len(no) else (no, yes)
    ranks = [rank for rank, context in enumerate(sample.contexts, start=1) if not context.blank]
    return AdherenceEvidence(
        asked=polls.asked,
        windows=polls.windows,
        yes=len(yes),
        no=len(no),
        abstained=len(answers) - len(yes) - len(no),
        missing=polls.asked - len(answers),
        polls=tuple(poll.model_copy(update={"sentences": ()}) if poll.sentences else poll for poll in answers),
        probability=polls.probability if polls.asked == 1 else None,
        repeatability=wilson(len(yes), len(yes) + len(no)) if polls.asked > 1 and (yes or no) else None,
        explanation=_strongest(majority),
        dissent=_strongest(minority),
        unsupported=tuple(dict.fromkeys(claim for poll in no for claim in poll.unsupported)),
        sentences=tuple(_placed(line, ranks) for poll in answers for line in poll.sentences),
    )


def _placed(line: SentenceSupport, ranks: Sequence[int]) -> SentenceSupport:
    """With the rank among all contexts instead of that among those that were shown."""
    return line if line.rank is None else line.model_copy(update={"rank": ranks[line.rank - 1]})
