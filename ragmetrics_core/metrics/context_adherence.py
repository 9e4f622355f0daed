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
from ragmetrics_core.data.questions import Asked, Batch, Bit, Comment, Instructions, NotAnswered, Question, Replies, ask
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, turn
from ragmetrics_core.metrics.polls import EXAMPLES, Adherent, Poll, SentenceSupport, by_claims, count, too_long
from ragmetrics_core.metrics.templates import prompt

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
_SHORT, _LONG = (
    Sufficiency(reason="The contexts hold all that is asked. " * n, sufficient=True, on_question=True) for n in (4, 18)
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
        return self

    def instructions(self) -> tuple[Instructions, ...]:
        """How an answer is judged, how claims are listed, and how a cause is looked for."""
        return (
            prompt("adherent", self.template, "contexts answer", "question", self.examples, self.language),
            prompt("facts_io", None, "reference", "question", language=self.language),
            prompt("sufficient", None, "contexts question answer", language=self.language),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings = {"polls": str(self.polls), "T": str(self.temperature)}
        return {**settings, "early_stop": "yes"} if self.early_stop else settings

    def plan(self, sample: Sample) -> Plan:
        """Poll the judge, conclude by majority, and ask for the cause of a low score."""
        polls = yield from self._poll(sample)
        if isinstance(polls, NotAnswered):
            return self.failed(polls.error)
        outcome = self._conclude(polls, sample)
        if outcome.status != "scored" or outcome.value >= 0.5 or not self.cause or outcome.evidence is None:
            return outcome
        found = yield from self._find_cause(sample, in_windows=bool(polls.windows))
        return outcome.model_copy(update={"evidence": outcome.evidence.model_copy(update=found)})

    def _poll(self, sample: Sample) -> Generator[Batch, Replies, Asked[Poll] | NotAnswered]:
        """All polls in one round, or rounds that never overshoot the deciding poll."""
        told, listing, _ = self.instructions()
        whole = Adherent(
            parts=turn(sample),
            instructions=told,
            Reply=Poll,
            polls=self.polls,
            temperature=self.temperature,
            example=EXAMPLES,
        )
        total: Asked[Poll] = Asked(())
        left = self.polls // 2 + 1 if self.early_stop else self.polls
        while left > 0:
            first = count(total) if self.early_stop else None
            (reply,) = yield from ask([replace(whole, polls=left, first_poll=first)])
            if too_long(reply) and not total.replies:
                found = yield from by_claims(whole, listing)
                unknown = isinstance(found, NotAnswered) and isinstance(found.error, QuestionNotSupported)
                return reply if unknown else found
            if isinstance(reply, NotAnswered):
                if not total.replies or isinstance(reply.error, LimitReached):
                    return reply
                reply = Asked((), (reply.error,) * left)
            together = total.together or reply.together
            replies, failures = total.replies + reply.replies, total.failures + reply.failures
            total = Asked(replies, failures, reply.weights, together=together)
            if count(reply) < left:  # a deterministic judge: asking again would tell nothing new
                break
            left = min(self.polls - count(total), self._undecided(total))
        return total

    def _undecided(self, polls: Asked[Poll]) -> int:
        """How many more polls can be asked at once without overshooting the deciding one."""
        if polls.together or not self.early_stop:
            return self.polls
        yes, no = len(_saying("yes", polls)), len(_saying("no", polls))
        return min(self.polls // 2 + 1 - yes, (self.polls + 1) // 2 - no)

    def _conclude(self, polls: Asked[Poll], sample: Sample) -> Outcome:
        answered, asked, missing = len(polls.replies), count(polls), len(polls.failures)
        if not answered and polls.failures:
            return self.failed(polls.failures[0])
        yes, no, evidence = _saying("yes", polls), _saying("no", polls), _evidence(polls, sample)
        if 2 * answered <= asked:
            cause = f"; the first failed with {type(polls.failures[0]).__name__}" if polls.failures else ""
            message = f"only {answered} of {asked} polls were answered, a majority is needed{cause}"
            return self.failed(TooFewPolls(message), evidence)
        if 2 * evidence.abstained > answered or not (yes or no):
            reason = f"{evidence.abstained} of {answered} polls found that the answer makes no claim"
            return self.undefined(reason, "abstained", evidence)
        value = len(yes) / (len(yes) + len(no)) if evidence.probability is None else evidence.probability
        if self.early_stop and not polls.together and self._undecided(polls) <= 0:
            value = stopped_estimate([poll.verdict == "yes" for poll in (*yes, *no)], self.polls)
            evidence = evidence.model_copy(update={"early_stopped": True})
        if missing:
            most = len(yes) + len(no) + missing
            evidence = evidence.model_copy(update={"bounds": (len(yes) / most, (len(yes) + missing) / most)})
        tie = "The polls are tied; the side against the answer says: " if len(yes) == len(no) else ""
        windows = f" (Judged claim by claim in {evidence.windows} windows of the contexts.)" if evidence.windows else ""
        return self.scored(value, tie + evidence.explanation + windows, evidence)

    def _find_cause(self, sample: Sample, in_windows: bool) -> Generator[Batch, Replies, dict[str, object]]:
        """A hypothesis why the answer does not adhere, from a question of its own."""
        if sample.question is None:
            return {"cause_note": "no cause could be looked for without the question"}
        if in_windows:
            return {"cause_note": "no cause was looked for: the contexts are longer than the judge's window"}
        told = self.instructions()[2]
        question = Sufficient(parts=turn(sample), instructions=told, Reply=Sufficiency, example=(_SHORT, _LONG))
        (asked,) = yield from ask([question])
        if isinstance(asked, NotAnswered):
            return {"cause_note": f"no cause was determined: {asked.error}"}
        cause: Cause = "reasoning_error" if asked.reply.sufficient else "insufficient_context"
        cause = cause if asked.reply.on_question else "misread_question"
        return {"cause": cause, "remedy": _REMEDIES[cause], "cause_note": asked.reply.reason}


def _saying(verdict: str, polls: Asked[Poll]) -> list[Poll]:
    return [poll for poll in polls.replies if poll.verdict == verdict]


def _strongest(polls: Sequence[Poll]) -> str:
    """The explanation that names most unsupported claims, then the longest, then the first."""
    return max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason))).reason if polls else ""


def _evidence(polls: Asked[Poll], sample: Sample) -> AdherenceEvidence:
    answers, asked = polls.replies, count(polls)
    yes, no = _saying("yes", polls), _saying("no", polls)
    majority, minority = (yes, no) if len(yes) > len(no) else (no, yes)
    ranks = [rank for rank, context in enumerate(sample.contexts, start=1) if not context.blank]
    lines = (line for poll in answers for line in poll.sentences)
    return AdherenceEvidence(
        asked=asked,
        windows=polls.windows[0] if polls.windows else None,
        yes=len(yes),
        no=len(no),
        abstained=len(answers) - len(yes) - len(no),
        missing=len(polls.failures),
        polls=tuple(poll.model_copy(update={"sentences": ()}) for poll in answers),
        probability=polls.weights[0].p if asked == 1 and polls.weights else None,
        repeatability=wilson(len(yes), len(yes) + len(no)) if asked > 1 and (yes or no) else None,
        explanation=_strongest(majority),
        dissent=_strongest(minority),
        unsupported=tuple(dict.fromkeys(claim for poll in no for claim in poll.unsupported)),
        # The rank among all contexts instead of that among those that were shown.
        sentences=tuple(
            line if line.rank is None else line.model_copy(update={"rank": ranks[line.rank - 1]}) for line in lines
        ),
    )
