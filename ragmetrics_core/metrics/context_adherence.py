"""Context Adherence: is the answer based purely on the contexts?

The share of "yes" over chain-of-thought polls.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from ragmetrics_core.data import (
    Asked,
    Bit,
    Comment,
    NotAnswered,
    Sample,
    Share,
    Silent,
    stopped_estimate,
    wilson,
)
from ragmetrics_core.data.asking import Batch, Instructions, Question, Replies, ask
from ragmetrics_core.data.errors import (
    LimitReached,
    QuestionNotSupported,
    SettingError,
    TooFewPolls,
)
from ragmetrics_core.data.metric_evidence import Grounds, Polled
from ragmetrics_core.metrics.ledger_calls import Groups, groups
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, turn
from ragmetrics_core.metrics.polls import (
    EXAMPLES,
    Adherent,
    Poll,
    SentenceSupport,
    by_claims,
    rests_on,
    too_long,
)
from ragmetrics_core.metrics.templates import prompt

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]


class Sufficiency(Silent, extra="ignore"):
    """A judgement whether the question could have been answered.

    Do the contexts hold what it asks, and is the answer one to it?
    """

    reason: Comment = ""
    sufficient: Bit
    on_question: Bit


class Sufficient(Question[Sufficiency]):
    """Can the question be answered from these contexts, and does the answer address it?

    Parts: as ``Adherent``.
    """


class AdherenceEvidence(Polled, extra="ignore"):
    """Evidence of Context Adherence."""

    kind: Literal["context_adherence"] = "context_adherence"
    yes: int = Field(description="Polls that found the answer grounded.")
    no: int = Field(description="Polls that found it not grounded.")
    abstained: int = Field(0, description="Polls that found no claim in the answer.")
    missing: int = Field(0, description="Polls that were not answered.")
    polls: tuple[Poll, ...] = Field((), description="Every answered poll.")
    probability: Share | None = Field(
        None, description="p(yes) of a deterministic judge; None for polls."
    )
    early_stopped: bool = Field(
        False, description="True if polling stopped at a decided majority."
    )
    explanation: str = Field(
        "", description='From the majority side (a tie surfaces the "no" side).'
    )
    dissent: str = Field(
        "",
        description='The strongest explanation of the other side; "" if there is none.',
    )
    unsupported: tuple[str, ...] = Field(
        (), description='Claims that the "no" polls found unsupported.'
    )
    cause: Cause | None = Field(
        None, description="Hypothesis why a low score came about."
    )
    remedy: str = Field("", description="What to do about that cause.")
    cause_note: str = Field(
        "", description="Why the judge thinks so, or why no cause could be determined."
    )
    sentences: tuple[SentenceSupport, ...] = Field(
        (), description="Per sentence, the evidence of a lexical judge."
    )
    windows: int | None = Field(
        None,
        description="Windows in which claims were judged one by one; None: as a whole.",
    )

    def verdicts(self) -> list[str]:
        """How the polls went, or how sure a deterministic judge is."""
        if self.probability is not None:
            why = (
                " (fitted on labels of people; words alone never reach 1)"
                if self.sentences
                else ""
            )
            return [
                f"{'supported' if self.yes else 'not supported'}, probability"
                f" {self.probability:.2f}{why}"
            ]
        kinds = (
            ("yes", self.yes),
            ("no", self.no),
            ("no claim", self.abstained),
            ("not answered", self.missing),
        )
        return [
            f"{count} of {self.asked} polls: {kind}" for kind, count in kinds if count
        ]


_REMEDIES: dict[Cause, str] = {
    "insufficient_context": (
        "Complete the context store, or retrieve more: the contexts do not hold what is"
        " asked."
    ),
    "reasoning_error": (
        "The contexts hold what is needed: tell the prompt to stick to the contexts, or"
        " use a stronger model to write answers."
    ),
    "misread_question": (
        "The answer is about something else: check how the question reaches the prompt,"
        " and keep irrelevant chunks out of it."
    ),
}
_SHORT, _LONG = (
    Sufficiency.model_construct(
        reason="The contexts hold it all. " * n, sufficient=True, on_question=True
    )
    for n in (6, 26)
)


class ContextAdherence(Metric):
    """Is the answer grounded in the contexts?

    The share of independent chain-of-thought judgements that say yes.

    Evidence of a sample with a ledger is what its calls brought, too. Where there are
    earlier turns, or texts that models of the application wrote, polls label what each
    claim rests on, and the verdict is computed from that.

    Returns:
        A score in [0, 1], higher is better: yes / (yes + no).

    Undefined when:
        Evidence or answer are missing, or most polls find that the answer makes no
        claim (``abstained``).

    Raises:
        SettingError: If ``early_stop`` is used with an even number of polls or fewer
            than three, or a template lacks a placeholder.

    Source:
        ChainPoll: Friel & Sanyal (2023), arXiv 2310.18344. Departures: an answer
        without claims is undefined; contexts longer than the judge's window are judged
        claim by claim, a claim being supported if some window supports it.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> no = {"verdict": "no", "reason": "Not in the contexts."}
        >>> judge = ScriptedJudge({Adherent: [{"verdict": "yes"}] * 4 + [no]})
        >>> ContextAdherence().score(contexts=["Paris."], answer="Paris", judge=judge).value
        0.8
    """

    version: ClassVar[str] = "3"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("contexts", "ledger"),
        ("answer",),
    )

    name: str = Field(default="context_adherence", min_length=1)
    polls: int = Field(
        5,
        ge=1,
        description="Independent judgements; each explains itself before its verdict.",
    )
    temperature: float = Field(
        1.0,
        ge=0,
        le=2,
        description="At 1.0 the share estimates the judge's own p(yes).",
    )
    early_stop: bool = Field(
        False,
        description=(
            "Stop at a decided majority, except where one request gives all polls. For"
            " gates: noisier."
        ),
    )
    cause: bool = Field(True, description="Ask for a likely cause of scores below 0.5.")
    examples: str = Field("", description="Few-shot examples, written out.")
    template: str | None = Field(
        None,
        description="Replaces the prompt; must hold ``{contexts}`` and ``{answer}``.",
    )

    @model_validator(mode="after")
    def _check(self) -> ContextAdherence:
        if self.early_stop and (self.polls < 3 or self.polls % 2 == 0):
            raise SettingError(
                "early_stop needs an odd number of polls of at least 3, got"
                f" {self.polls}"
            )
        return self

    def instructions(self) -> tuple[Instructions, ...]:
        """Return the instructions: for the answer, its claims, and a cause.

        They say how an answer is judged, how claims are listed, and how a cause is
        looked for.
        """
        return (
            prompt(
                "adherent",
                self.template,
                "contexts answer",
                "question",
                self.examples,
                self.language,
            ),
            prompt("facts_io", None, "reference", "question", language=self.language),
            prompt(
                "sufficient", None, "contexts question answer", language=self.language
            ),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings = {"polls": str(self.polls), "T": str(self.temperature)}
        return {**settings, "early_stop": "yes"} if self.early_stop else settings

    def plan(self, sample: Sample) -> Plan:
        """Poll the judge, conclude by majority, and seek the cause of a low score."""
        found, parts = groups(sample), turn(sample)
        parts["contexts"] = replace(
            parts["contexts"], text=found.evidence + found.earlier
        )
        if not parts["contexts"].texts:
            return self.undefined("no contexts")
        polls, grounds = yield from self._poll(found, parts)
        if isinstance(polls, NotAnswered):
            return self.failed(polls.error)
        outcome = self._conclude(polls, found.ranks, grounds)
        if (
            outcome.status != "scored"
            or outcome.value >= 0.5
            or not self.cause
            or outcome.evidence is None
        ):
            return outcome
        cause = yield from self._find_cause(parts, in_windows=bool(polls.windows))
        return outcome.model_copy(
            update={"evidence": outcome.evidence.model_copy(update=cause)}
        )

    def _poll(
        self, found: Groups, parts: Mapping[str, Any]
    ) -> Generator[Batch, Replies, tuple[Asked[Poll] | NotAnswered, Grounds | None]]:
        """Poll the judge, and return the polls with the grounds of the claims.

        Polls label the claims where these may rest on earlier turns and the judge can
        label.
        """
        whole = Adherent(
            parts=parts,
            instructions=self.instructions()[0],
            Reply=Poll,
            polls=self.polls,
            temperature=self.temperature,
            example=EXAMPLES,
        )
        note = "the metric has a prompt or examples of its own"
        if found.go_beyond_this_turn and self.template is None and not self.examples:
            labelled = yield from self._rounds(rests_on(found, whole, self.language))
            if not isinstance(labelled, NotAnswered):
                polls = replace(
                    labelled, replies=tuple(one.poll for one in labelled.replies)
                )
                return polls, Grounds.of(
                    [one.claims for one in labelled.replies], found.earlier_shown
                )
            unknown = isinstance(labelled.error, QuestionNotSupported)
            if not unknown and not too_long(labelled):
                return labelled, None
            note = (
                "the judge cannot label claims"
                if unknown
                else "all groups are longer than the judge's window"
            )
        given = yield from self._rounds(whole)
        note = (
            "Asked over the evidence of this and earlier turns, without labels:"
            f" {note}."
        )
        return given, Grounds(
            kept=found.earlier_shown, note=note
        ) if found.go_beyond_this_turn else None

    def _rounds(
        self, whole: Question[Any]
    ) -> Generator[Batch, Replies, Asked[Any] | NotAnswered]:
        """All polls in one round, or rounds that never overshoot the deciding poll."""
        total: Asked[Any] = Asked(())
        left = self.polls // 2 + 1 if self.early_stop else self.polls
        while left > 0:
            first = total.asked if self.early_stop else None
            reply: Asked[Any] | NotAnswered
            (reply,) = yield from ask([replace(whole, polls=left, first_poll=first)])
            if too_long(reply) and not total.replies and isinstance(whole, Adherent):
                found = yield from by_claims(whole, self.instructions()[1])
                unknown = isinstance(found, NotAnswered) and isinstance(
                    found.error, QuestionNotSupported
                )
                return reply if unknown else found
            if isinstance(reply, NotAnswered):
                if not total.replies or isinstance(reply.error, LimitReached):
                    return reply
                reply = Asked((), (reply.error,) * left)
            together = total.together or reply.together
            replies, failures = (
                total.replies + reply.replies,
                total.failures + reply.failures,
            )
            total = Asked(replies, failures, reply.weights, reply.windows, together)
            # a deterministic judge: asking again would tell nothing new
            if reply.asked < left:
                break
            left = min(self.polls - total.asked, self._undecided(total))
        return total

    def _undecided(self, polls: Asked[Any]) -> int:
        """Return how many more polls can be asked at once.

        Where polling stops early, none of them comes after the deciding poll.
        """
        if polls.together or not self.early_stop:
            return self.polls
        yes, no = len(_saying("yes", polls)), len(_saying("no", polls))
        return min(self.polls // 2 + 1 - yes, (self.polls + 1) // 2 - no)

    def _conclude(
        self, polls: Asked[Poll], ranks: Sequence[int], grounds: Grounds | None
    ) -> Outcome:
        answered, asked, missing = len(polls.replies), polls.asked, len(polls.failures)
        if not answered and polls.failures:
            return self.failed(polls.failures[0])
        yes, no, evidence = (
            _saying("yes", polls),
            _saying("no", polls),
            _evidence(polls, ranks, grounds),
        )
        if 2 * answered <= asked:
            cause = (
                f"; the first failed with {type(polls.failures[0]).__name__}"
                if polls.failures
                else ""
            )
            message = (
                f"only {answered} of {asked} polls were answered, a majority is"
                f" needed{cause}"
            )
            return self.failed(TooFewPolls(message), evidence)
        if 2 * evidence.abstained > answered or not (yes or no):
            said = (
                "beyond the user's own words"
                if grounds is not None and any(grounds.claims)
                else ""
            )
            reason = (
                f"{evidence.abstained} of {answered} polls found that the answer makes"
                f" no claim {said}".rstrip()
            )
            return self.undefined(reason, "abstained", evidence)
        value = (
            len(yes) / (len(yes) + len(no))
            if evidence.probability is None
            else evidence.probability
        )
        if self.early_stop and not polls.together and self._undecided(polls) <= 0:
            value = stopped_estimate(
                [poll.verdict == "yes" for poll in (*yes, *no)], self.polls
            )
            evidence = evidence.model_copy(update={"early_stopped": True})
        if missing:
            most = len(yes) + len(no) + missing
            evidence = evidence.model_copy(
                update={"bounds": (len(yes) / most, (len(yes) + missing) / most)}
            )
        tie = (
            "The polls are tied; the side against the answer says: "
            if len(yes) == len(no)
            else ""
        )
        windows = (
            f" (Judged claim by claim in {evidence.windows} windows of the contexts.)"
            if evidence.windows
            else ""
        )
        return self.scored(value, tie + evidence.explanation + windows, evidence)

    def _find_cause(
        self, parts: Mapping[str, Any], in_windows: bool
    ) -> Generator[Batch, Replies, dict[str, object]]:
        """A hypothesis why the answer does not adhere, from a question of its own."""
        if parts["question"].text is None:
            return {"cause_note": "no cause could be looked for without the question"}
        if in_windows:
            return {
                "cause_note": (
                    "no cause was looked for: the contexts are longer than the judge's"
                    " window"
                )
            }
        told = self.instructions()[2]
        question = Sufficient(
            parts=parts, instructions=told, Reply=Sufficiency, example=(_SHORT, _LONG)
        )
        (asked,) = yield from ask([question])
        if isinstance(asked, NotAnswered):
            return {"cause_note": f"no cause was determined: {asked.error}"}
        cause: Cause = (
            "reasoning_error" if asked.reply.sufficient else "insufficient_context"
        )
        cause = cause if asked.reply.on_question else "misread_question"
        return {
            "cause": cause,
            "remedy": _REMEDIES[cause],
            "cause_note": asked.reply.reason,
        }


def _saying(verdict: str, polls: Asked[Any]) -> list[Any]:
    return [poll for poll in polls.replies if poll.verdict == verdict]


def _strongest(polls: Sequence[Poll]) -> str:
    """Return the explanation that names the most unsupported claims, "" without polls.

    Of several with equally many, it is the longest, then the first.
    """
    return (
        max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason))).reason
        if polls
        else ""
    )


def _evidence(
    polls: Asked[Poll], ranks: Sequence[int], grounds: Grounds | None
) -> AdherenceEvidence:
    answers, asked = polls.replies, polls.asked
    yes, no = _saying("yes", polls), _saying("no", polls)
    majority, minority = (yes, no) if len(yes) > len(no) else (no, yes)
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
        repeatability=(
            wilson(len(yes), len(yes) + len(no)) if asked > 1 and (yes or no) else None
        ),
        explanation=_strongest(majority),
        dissent=_strongest(minority),
        unsupported=tuple(
            dict.fromkeys(claim for poll in no for claim in poll.unsupported)
        ),
        # The rank among all contexts instead of that among those that were shown.
        sentences=tuple(
            (
                it
                if it.rank is None
                else it.model_copy(update={"rank": ranks[it.rank - 1]})
            )
            for it in lines
        ),
        ledger=grounds,
    )
