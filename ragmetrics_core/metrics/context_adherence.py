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
    Part,
    Sample,
    Scored,
    Share,
    SilentData,
    stopped_estimate,
    wilson,
)
from ragmetrics_core.data.asking import (
    Batch,
    Instructions,
    LabelProbability,
    Question,
    Replies,
    ask,
)
from ragmetrics_core.data.errors import (
    LimitReached,
    QuestionNotSupported,
    SettingError,
    TooFewPolls,
)
from ragmetrics_core.data.metric_evidence import Grounds, Polled
from ragmetrics_core.data.typed import Chances, Decided, State, Typed
from ragmetrics_core.metrics.answer_relevance import ANSWER_ADDRESSES_QUESTION
from ragmetrics_core.metrics.context_sufficiency import CHUNKS_HOLD_ALL
from ragmetrics_core.metrics.labelled_examples import (
    LabelledExample,
    drop_examples_about,
    quote_examples,
)
from ragmetrics_core.metrics.ledger_calls import Groups, groups_of_texts
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, parts_of_turn
from ragmetrics_core.metrics.polls import (
    EXAMPLES,
    Adherent,
    ClaimSupport,
    LabelledPoll,
    Poll,
    PollVerdict,
    SentenceSupport,
    poll_by_claims,
    question_what_claims_rest_on,
    was_too_long,
)
from ragmetrics_core.metrics.supported_sentences import LABELS, SENTENCES
from ragmetrics_core.metrics.templates import instructions_for_judge
from ragmetrics_core.metrics.typed_states import state_of_answer

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]


# Ways to obtain a probability that read it from the token of the verdict.
_BY_TOKEN = frozenset({"logprobs", "conditional"})


class Sufficiency(SilentData, extra="ignore"):
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


def _state_of_cause(question: Sufficient) -> State:
    """What a judge of typed questions is shown: the question, the chunks, the answer."""
    return state_of_answer(question, question["contexts"])


def _typed_questions_on_cause(question: Sufficient) -> list[Typed]:
    """Two predicates: are the chunks enough, and does the answer address the question?"""
    del question  # the same for all
    return [
        Typed("predicate", f"{CHUNKS_HOLD_ALL}."),
        ANSWER_ADDRESSES_QUESTION,
    ]


def _judgement_of_probabilities(
    question: Sufficient, answers: Sequence[Chances]
) -> Asked[Sufficiency]:
    """Return the judgement of two probabilities, each a yes above one half."""
    (sufficient,), (on_question,) = answers
    judgement = {
        "sufficient": int(sufficient > 0.5),
        "on_question": int(on_question > 0.5),
        "reason": (
            f"p(sufficient) = {sufficient:.2f}, p(on the question) = {on_question:.2f}"
        ),
    }
    return Asked((question.read(judgement),))


_TYPED_CAUSE: Decided[Sufficiency] = Decided(
    _state_of_cause, _typed_questions_on_cause, _judgement_of_probabilities
)


class AdherenceEvidence(Polled, extra="ignore"):
    """Evidence of Context Adherence."""

    kind: Literal["context_adherence"] = "context_adherence"
    yes: int = Field(description="Polls that found the answer grounded.")
    no: int = Field(description="Polls that found it not grounded.")
    abstained: int = Field(
        default=0, description="Polls that found no claim in the answer."
    )
    missing: int = Field(default=0, description="Polls that were not answered.")
    polls: tuple[Poll, ...] = Field(default=(), description="Every answered poll.")
    probability: Share | None = Field(
        default=None,
        description=(
            "p(yes) of a deterministic judge, of the embedded one its score of words;"
            " None for polls."
        ),
    )
    early_stopped: bool = Field(
        default=False, description="True if polling stopped at a decided majority."
    )
    explanation: str = Field(
        default="", description='From the majority side (a tie surfaces the "no" side).'
    )
    dissent: str = Field(
        default="",
        description='The strongest explanation of the other side; "" if there is none.',
    )
    unsupported: tuple[str, ...] = Field(
        default=(), description='Claims that the "no" polls found unsupported.'
    )
    cause: Cause | None = Field(
        default=None, description="Hypothesis why a low score came about."
    )
    remedy: str = Field(default="", description="What to do about that cause.")
    cause_note: str = Field(
        default="",
        description="Why the judge thinks so, or why no cause could be determined.",
    )
    sentences: tuple[SentenceSupport, ...] = Field(
        default=(), description="Per sentence, the evidence of a lexical judge."
    )
    claims: tuple[ClaimSupport, ...] = Field(
        default=(),
        description=(
            "Per claim, what an encoder or a judge of typed questions says; behind them"
            " what claims nothing, without a probability."
        ),
    )
    windows: int | None = Field(
        default=None,
        description="Windows in which claims were judged one by one; None: as a whole.",
    )

    def verdicts(self) -> list[str]:
        """Return how the polls went, or how sure a deterministic judge is."""
        if self.probability is not None:
            return [self._probable_verdict(self.probability)]
        counts = {
            "yes": self.yes,
            "no": self.no,
            "no claim": self.abstained,
            "not answered": self.missing,
        }
        return [
            f"{count} of {self.asked} polls: {verdict}"
            for verdict, count in counts.items()
            if count
        ]

    def _probable_verdict(self, probability: float) -> str:
        """The verdict of a judge that gives a probability, or a score of words."""
        verdict = "supported" if self.yes else "not supported"
        if self.sentences:  # of the embedded judge
            return f"{verdict}, score of words {probability:.2f} (no probability)"
        return f"{verdict}, probability {probability:.2f}"


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
_SUFFICIENCY_EXAMPLES = (
    Sufficiency.model_construct(
        reason="The contexts hold it all. " * 6, sufficient=True, on_question=True
    ),
    Sufficiency.model_construct(
        reason="The contexts hold it all. " * 26, sufficient=True, on_question=True
    ),
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
        ``verdict_tokens``: Wang et al. (2025), arXiv 2503.03064. ``labelled_examples``:
        arXiv 2505.04847.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> no = {"verdict": "no", "reason": "Not in the contexts."}
        >>> judge = ScriptedJudge({Adherent: [{"verdict": "yes"}] * 4 + [no]})
        >>> ContextAdherence().score(contexts=["Paris."], answer="Paris", judge=judge).value
        0.8
    """

    version: ClassVar[str] = "4"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("contexts", "ledger"),
        ("answer",),
    )

    name: str = Field(default="context_adherence", min_length=1)
    polls: int = Field(
        default=5,
        ge=1,
        description="Independent judgements; each explains itself before its verdict.",
    )
    temperature: float = Field(
        default=1.0,
        ge=0,
        le=2,
        description="At 1.0 the share estimates the judge's own p(yes).",
    )
    early_stop: bool = Field(
        default=False,
        description=(
            "Stop at a decided majority, except where one request gives all polls. For"
            " gates: noisier."
        ),
    )
    cause: bool = Field(
        default=True, description="Ask for a likely cause of scores below 0.5."
    )
    examples: str = Field(default="", description="Few-shot examples, written out.")
    verdict_tokens: bool = Field(
        default=False,
        description=(
            "Take the probability of the verdict's token in one reply, where the"
            " endpoint gives it, else poll. Off: no card on labels speaks for it yet."
        ),
    )
    labelled_examples: tuple[LabelledExample, ...] = Field(
        default=(),
        description=(
            "Examples from labelled rows of your own (``draw_examples``); none shares"
            " the answer or a context with what is judged."
        ),
    )
    template: str | None = Field(
        default=None,
        description="Replaces the prompt; must hold ``{contexts}`` and ``{answer}``.",
    )

    @model_validator(mode="after")
    def _check(self) -> ContextAdherence:
        """Refuse settings of early stopping that cannot hold."""
        if self.early_stop and (self.polls < 3 or self.polls % 2 == 0):
            raise SettingError(
                "early_stop needs an odd number of polls of at least 3, got"
                f" {self.polls}"
            )
        if self.early_stop and self.verdict_tokens:
            raise SettingError(
                "early_stop is for polls; verdict_tokens asks once: choose one of them"
            )
        return self

    def instructions(self) -> tuple[Instructions, ...]:
        """Return the instructions: for the answer, its claims, and a cause.

        They say how an answer is judged, how claims are listed, and how a cause is
        looked for.
        """
        adherent = instructions_for_judge(
            "adherent",
            self.template,
            "contexts answer",
            "question",
            self.examples,
            self.language,
        )
        return (
            replace(adherent, quoted=quote_examples(self.labelled_examples)),
            instructions_for_judge(
                "facts_io", None, "reference", "question", language=self.language
            ),
            instructions_for_judge(
                "sufficient", None, "contexts question answer", language=self.language
            ),
        )

    def _instructions_for(self, sample: Sample, groups: Groups) -> Instructions:
        """Return the instructions, without examples that are about this very sample."""
        instructions = self.instructions()[0]
        if not self.labelled_examples:  # comparing every context would be for nothing
            return instructions
        others = drop_examples_about(
            self.labelled_examples,
            sample.answer or "",
            (*groups.evidence, *groups.earlier),
        )
        if len(others) == len(self.labelled_examples):
            return instructions
        return replace(instructions, quoted=quote_examples(others))

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings = {"polls": str(self.polls), "T": str(self.temperature)}
        if self.verdict_tokens:
            settings["verdict_tokens"] = "yes"
        if self.early_stop:
            settings["early_stop"] = "yes"
        return settings

    def plan(self, sample: Sample) -> Plan:
        """Poll the judge whether the answer rests on the contexts, and score the polls.

        Example: 4 of 5 polls say yes: .8. The judge is shown the texts of this turn,
        then the texts of earlier turns. If the setting ``cause`` is on and the score is
        low, the judge is also asked why, and its answer is added to the evidence.
        """
        groups = groups_of_texts(sample)
        parts = parts_of_turn(sample)
        texts_of_this_turn = groups.evidence
        texts_of_all_turns = texts_of_this_turn + groups.earlier
        if not texts_of_all_turns:
            return self.undefined("no contexts")
        parts["contexts"] = replace(parts["contexts"], text=texts_of_all_turns)
        # ``grounds``: what the answer's claims rest on; None if that was not asked
        polls, grounds = yield from self._poll(
            groups, parts, self._instructions_for(sample, groups)
        )
        if isinstance(polls, NotAnswered):
            return self.failed(polls.error)
        outcome = self._conclude(polls, groups.ranks, grounds)
        evidence = outcome.evidence
        wants_cause = self.cause and _is_low(outcome)
        if not wants_cause or evidence is None:
            return outcome
        # too long for one prompt, the contexts were judged in several windows
        are_contexts_too_long = bool(polls.windows)
        fields_of_cause = yield from self._find_cause(
            parts, are_contexts_too_long=are_contexts_too_long
        )
        return outcome.model_copy(
            update={"evidence": evidence.model_copy(update=fields_of_cause)}
        )

    def _poll(
        self, groups: Groups, parts: Mapping[str, Part], instructions: Instructions
    ) -> Generator[Batch, Replies, tuple[Asked[Poll] | NotAnswered, Grounds | None]]:
        """Poll the judge whether the answer is based on the texts.

        If the answer may rest on earlier turns, the judge is first asked for labels:
        what each claim rests on, such as 2 on contexts and 1 on an earlier turn. If it
        cannot give labels, the judge is asked for the bare verdict.

        Args:
            groups: The texts that the answer may rest on: those of this turn, and those
                of earlier turns.
            parts: What the judge is shown.
            instructions: What the judge is told.

        Returns:
            The polls; and what the claims rest on, or a note why there are no labels.
            The second value is None if the answer can rest on this turn only, or if the
            judge failed.
        """
        question_of_verdict = self._question_of_verdict(parts, instructions)
        if not groups.go_beyond_this_turn:
            polls = yield from self._poll_in_rounds(question_of_verdict)
            return polls, None
        # a prompt or examples of the user's own ask for a verdict, not for labels
        if self.template is not None or instructions.examples or instructions.quoted:
            why_unlabelled = "the metric has a prompt or examples of its own"
        else:
            labelled = yield from self._poll_for_labels(question_of_verdict, groups)
            if isinstance(labelled, Asked):
                return _drop_labels(labelled), _grounds_of_labels(labelled, groups)
            if not _may_verdict_succeed(labelled):  # such as a refused key
                return labelled, None
            why_unlabelled = _why_unlabelled(labelled)
        polls = yield from self._poll_in_rounds(question_of_verdict)
        note = (
            "Asked over the evidence of this and earlier turns, without labels:"
            f" {why_unlabelled}."
        )
        return polls, Grounds(kept=groups.earlier_shown, note=note)

    def _question_of_verdict(
        self, parts: Mapping[str, Part], instructions: Instructions
    ) -> Adherent:
        """Return the question whether the answer is based on the texts."""
        return Adherent(
            parts=parts,
            instructions=instructions,
            Reply=Poll,
            polls=self.polls,
            temperature=self.temperature,
            weigh=_verdict_token(self.polls) if self.verdict_tokens else None,
            # a judge of typed questions reads no prompt, and cannot follow a template
            decided=SENTENCES if self.template is None else None,
            example=EXAMPLES,
        )

    def _poll_for_labels(
        self, question_of_verdict: Adherent, groups: Groups
    ) -> Generator[Batch, Replies, Asked[LabelledPoll] | NotAnswered]:
        """Ask what each claim of the answer rests on, in as many polls as for a verdict."""
        question_of_labels = replace(
            question_what_claims_rest_on(groups, question_of_verdict, self.language),
            decided=LABELS,  # how judges are asked that read no prompts
        )
        return (yield from self._poll_in_rounds(question_of_labels))

    def _poll_in_rounds(
        self, question: Question[Any]
    ) -> Generator[Batch, Replies, Asked[Any] | NotAnswered]:
        """Ask for all polls: in one round, or in several if polling may stop early.

        Example: five polls that may stop early. Three are asked first. Three times yes
        decides. After two times yes and one no, a fourth poll is asked.

        If the first round fails, ``NotAnswered`` is returned; but texts too long for
        the judge are asked about claim by claim. If a later round fails, its polls
        count as missing.
        """
        polls_so_far: Asked[Any] = Asked(())
        # 3 of 5: with fewer no majority says yes
        n_polls = self._decisive_yes if self.early_stop else self.polls
        while n_polls > 0:
            # a later round goes on counting: its polls are no repeats of earlier ones
            first_poll = polls_so_far.asked if self.early_stop else None
            reply: Asked[Any] | NotAnswered
            (reply,) = yield from ask(
                [replace(question, polls=n_polls, first_poll=first_poll)]
            )
            if isinstance(reply, NotAnswered):
                is_any_answered = bool(polls_so_far.replies)
                if not is_any_answered and was_too_long(reply):
                    return (yield from self._claim_by_claim(question, reply))
                if not is_any_answered or isinstance(reply.error, LimitReached):
                    return reply
                # a later round failed: what was answered so far counts
                reply = Asked((), failures=(reply.error,) * n_polls)
            polls_so_far = _add_polls(polls_so_far, reply)
            # a judge of probabilities answers once, however many polls are asked for
            answers_only_once = reply.asked < n_polls
            if answers_only_once:
                break
            n_not_asked = self.polls - polls_so_far.asked
            # 0 ends the loop: all were asked, or the majority is decided
            n_polls = min(n_not_asked, self._most_polls_before_decision(polls_so_far))
        return polls_so_far

    def _claim_by_claim(
        self, question: Question[Any], too_long_reply: NotAnswered
    ) -> Generator[Batch, Replies, Asked[Any] | NotAnswered]:
        """Make polls on the answer from polls on its claims, for texts too long to show.

        Only the question for a verdict can be asked so. For the question what claims
        rest on, and for a judge that cannot list claims, ``too_long_reply`` is returned.

        Args:
            question: The question that was too long.
            too_long_reply: The judge's reply to it: that it was too long.
        """
        if not isinstance(question, Adherent):
            return too_long_reply
        polls = yield from poll_by_claims(question, self.instructions()[1])
        if isinstance(polls, NotAnswered) and isinstance(
            polls.error, QuestionNotSupported
        ):
            return too_long_reply
        return polls

    @property
    def _decisive_yes(self) -> int:
        """How many times yes decide the majority: 3 of 5, and 3 of 4."""
        return self.polls // 2 + 1

    @property
    def _decisive_no(self) -> int:
        """How many times no decide that no majority says yes: 3 of 5, and 2 of 4."""
        return (self.polls + 1) // 2

    def _most_polls_before_decision(self, polls: Asked[Any]) -> int:
        """Return how many more polls can be asked before one of them may be useless.

        Where polling stops early, a poll is useless once the majority is decided. 0 or
        less: it is decided.
        """
        if polls.together or not self.early_stop:
            return self.polls
        yes, no = _polls_saying("yes", polls), _polls_saying("no", polls)
        return min(self._decisive_yes - len(yes), self._decisive_no - len(no))

    def _conclude(
        self, polls: Asked[Poll], ranks: Sequence[int], grounds: Grounds | None
    ) -> Outcome:
        """Return the outcome of all polls.

        - failed: no majority of the polls was answered, such as 2 of 5;
        - undefined: most polls say that the answer makes no claim;
        - else a score: the share of polls that say yes, such as .75 for 3 of 4, or the
          probability of yes.

        Args:
            polls: The polls that were answered, and those that failed.
            ranks: For each text that the judge was shown, its rank.
            grounds: What the answer's claims rest on; None if that was not asked.
        """
        n_answered = len(polls.replies)
        if n_answered == 0 and polls.failures:
            return self.failed(polls.failures[0])
        evidence = _evidence(polls, ranks, grounds)
        is_majority_answered = 2 * n_answered > polls.asked
        if not is_majority_answered:
            return self.failed(_too_few(polls), evidence)
        n_decided = evidence.yes + evidence.no
        do_most_abstain = 2 * evidence.abstained > n_answered
        if do_most_abstain or n_decided == 0:
            return self.undefined(
                _reason_without_claim(evidence), "abstained", evidence
            )
        value = evidence.yes / n_decided
        if evidence.probability is not None:  # a single yes with .83 scores .83
            value = evidence.probability
        # three times yes, and two polls not asked: the share of five is estimated
        if self._has_stopped_early(polls):
            value = self._estimate_after_early_stop(evidence)
            evidence = evidence.model_copy(update={"early_stopped": True})
        if evidence.missing:  # failed polls: the lowest and highest score with them
            bounds = _bounds_with_missing_polls(evidence)
            evidence = evidence.model_copy(update={"bounds": bounds})
        return self.scored(value, _reason(evidence), evidence)

    def _has_stopped_early(self, polls: Asked[Any]) -> bool:
        """Tell whether polling ended at a decided majority.

        It never does where one request gives all polls.
        """
        if not self.early_stop or polls.together:
            return False
        return self._most_polls_before_decision(polls) <= 0

    def _estimate_after_early_stop(self, evidence: AdherenceEvidence) -> float:
        """Estimate the share of yes of all polls: the bare share would be biased."""
        verdicts = [True] * evidence.yes + [False] * evidence.no
        return stopped_estimate(verdicts, self.polls)

    def _find_cause(
        self, parts: Mapping[str, Part], *, are_contexts_too_long: bool
    ) -> Generator[Batch, Replies, dict[str, object]]:
        """Ask for the likely cause of a low score, by one more question.

        The judge is asked whether the contexts suffice to answer the question, and
        whether the answer addresses it. Example: the contexts do not suffice, so the
        retrieval is the likely cause.

        Args:
            parts: What the judge is shown.
            are_contexts_too_long: Whether the contexts are too long for the judge, so
                that it is not asked.

        Returns:
            Fields of the evidence: the cause, a remedy and the judge's reason; or only
            a note why no cause was determined.
        """
        if parts["question"].text is None:
            return {"cause_note": "no cause could be looked for without the question"}
        if are_contexts_too_long:
            return {
                "cause_note": (
                    "no cause was looked for: the contexts are longer than the judge's"
                    " window"
                )
            }
        _, _, instructions_on_cause = self.instructions()
        question_on_cause = Sufficient(
            parts=parts,
            instructions=instructions_on_cause,
            Reply=Sufficiency,
            decided=_TYPED_CAUSE,  # how judges are asked that read no prompts
            example=_SUFFICIENCY_EXAMPLES,
        )
        (asked,) = yield from ask([question_on_cause])
        if isinstance(asked, NotAnswered):
            return {"cause_note": f"no cause was determined: {asked.error}"}
        cause = _likely_cause(asked.reply)
        return {
            "cause": cause,
            "remedy": _REMEDIES[cause],
            "cause_note": asked.reply.reason,
        }


def _is_low(outcome: Outcome) -> bool:
    """Whether a score is so low that its cause is looked for."""
    return isinstance(outcome, Scored) and outcome.value < 0.5


def _drop_labels(labelled: Asked[LabelledPoll]) -> Asked[Poll]:
    """Turn polls whose verdicts are made of labels into polls without labels."""
    polls = tuple(reply.poll for reply in labelled.replies)
    return Asked(
        replies=polls,
        failures=labelled.failures,
        weights=labelled.weights,
        windows=labelled.windows,
        together=labelled.together,
    )


def _may_verdict_succeed(labelled: NotAnswered) -> bool:
    """Tell whether a judge that failed to label claims may still give a verdict alone.

    A refused key, for example, would fail again.
    """
    return isinstance(labelled.error, QuestionNotSupported) or was_too_long(labelled)


def _why_unlabelled(labelled: NotAnswered) -> str:
    """Say why claims have no labels."""
    if was_too_long(labelled):
        return "all groups are longer than the judge's window"
    return "the judge cannot label claims"


def _grounds_of_labels(labelled: Asked[LabelledPoll], groups: Groups) -> Grounds:
    """Return what the claims rest on, by the labels of all polls."""
    claims = [reply.claims for reply in labelled.replies]
    return Grounds.of(claims, groups.earlier_shown)


def _add_polls(earlier_polls: Asked[Any], new_polls: Asked[Any]) -> Asked[Any]:
    """Return the polls of all rounds.

    Weights and windows are those of the last round.
    """
    return Asked(
        replies=earlier_polls.replies + new_polls.replies,
        failures=earlier_polls.failures + new_polls.failures,
        weights=new_polls.weights,
        windows=new_polls.windows,
        together=earlier_polls.together or new_polls.together,
    )


def _polls_saying(verdict: PollVerdict, polls: Asked[Any]) -> list[Any]:
    """Return the polls with this verdict, in their order."""
    return [poll for poll in polls.replies if poll.verdict == verdict]


def _too_few(polls: Asked[Poll]) -> TooFewPolls:
    """Return the error where too many polls are missing to have a majority."""
    message = (
        f"only {len(polls.replies)} of {polls.asked} polls were answered, a majority"
        " is needed"
    )
    if polls.failures:
        message += f"; the first failed with {type(polls.failures[0]).__name__}"
    return TooFewPolls(message)


def _reason_without_claim(evidence: AdherenceEvidence) -> str:
    """Say why the score is undefined where most polls abstain."""
    n_answered = evidence.asked - evidence.missing
    reason = (
        f"{evidence.abstained} of {n_answered} polls found that the answer makes no"
        " claim"
    )
    has_labels = evidence.ledger is not None and any(evidence.ledger.claims)
    return f"{reason} beyond the user's own words" if has_labels else reason


def _bounds_with_missing_polls(evidence: AdherenceEvidence) -> tuple[float, float]:
    """Return the shares of yes that missing polls could have led to."""
    n_polls = evidence.yes + evidence.no + evidence.missing
    return evidence.yes / n_polls, (evidence.yes + evidence.missing) / n_polls


def _reason(evidence: AdherenceEvidence) -> str:
    """Return the explanation, and how it came about where that is not usual."""
    reason = evidence.explanation
    if evidence.yes == evidence.no:
        reason = f"The polls are tied; the side against the answer says: {reason}"
    if evidence.windows:
        reason += (
            f" (Judged claim by claim in {evidence.windows} windows of the contexts.)"
        )
    return reason


def _likely_cause(judgement: Sufficiency) -> Cause:
    """Return the cause of a low score that a judgement points to."""
    if not judgement.on_question:
        return "misread_question"
    if judgement.sufficient:
        return "reasoning_error"
    return "insufficient_context"


def _verdict_token(polls: int) -> LabelProbability:
    """Asks for the probability of the verdict, with so many polls where there is none."""
    return LabelProbability(
        "verdict",
        positive="yes",
        labels=("yes", "no", "abstains"),
        fallback_polls=polls,
        aside="abstains",
    )


def _evidence(
    polls: Asked[Poll], ranks: Sequence[int], grounds: Grounds | None
) -> AdherenceEvidence:
    """Assemble what the polls say: counts, explanations and claims, but no score.

    Example: yes, yes, no and a failed poll are 4 asked, 2 yes, 1 no and 1 missing. The
    explanation is taken from a yes, the dissent from the no.

    Args:
        polls: The polls that were answered, and those that failed.
        ranks: For each text that the judge was shown, its rank among all contexts.
        grounds: What the claims rest on; None if that was not asked.
    """
    # a single poll that says "no", where its token makes "yes" likelier, counts as yes
    polls = _with_verdict_of_token(polls)
    yes_polls = _polls_saying("yes", polls)
    no_polls = _polls_saying("no", polls)
    n_decided = len(yes_polls) + len(no_polls)
    is_majority_yes = len(yes_polls) > len(no_polls)
    majority = yes_polls if is_majority_yes else no_polls
    minority = no_polls if is_majority_yes else yes_polls
    # verdicts claim by claim, which encoders give and language models do not
    claims: list[ClaimSupport] = []
    for poll in polls.replies:
        claims += poll.encoder_claims
    return AdherenceEvidence(
        asked=polls.asked,
        # in how many pieces the contexts were judged, where they were too long
        windows=polls.windows[0] if polls.windows else None,
        yes=len(yes_polls),
        no=len(no_polls),
        abstained=len(polls.replies) - n_decided,
        missing=len(polls.failures),
        polls=tuple(_without_support(poll) for poll in polls.replies),
        probability=_probability_of_single_poll(polls, n_decided),
        repeatability=_repeatability(polls, len(yes_polls), n_decided),
        explanation=_strongest_explanation(majority),
        dissent=_strongest_explanation(minority),
        unsupported=_unsupported_claims(no_polls),
        sentences=_sentences(polls.replies, ranks),
        claims=tuple(claims),
        ledger=grounds,  # by the ledger, the record of the application's calls
    )


def _without_support(poll: Poll) -> Poll:
    """Drop sentences and claims from a poll, which evidence holds elsewhere."""
    return poll.model_copy(update={"sentences": (), "encoder_claims": ()})


def _probability_of_single_poll(polls: Asked[Poll], n_decided: int) -> float | None:
    """Return the probability of yes that one deterministic poll came with.

    None for several polls, for a poll that abstains, and without a probability.
    """
    if polls.asked > 1 or n_decided == 0 or not polls.weights:
        return None
    return polls.weights[0].p


def _repeatability(
    polls: Asked[Poll], n_yes: int, n_decided: int
) -> tuple[float, float] | None:
    """Return the interval of the share of yes over polls.

    Returns None for one poll, or none decided.
    """
    if polls.asked == 1 or n_decided == 0:
        return None
    return wilson(n_yes, n_decided)


def _unsupported_claims(no_polls: Sequence[Poll]) -> tuple[str, ...]:
    """Return the claims that polls against the answer name, each once."""
    claims: dict[str, None] = {}
    for poll in no_polls:
        claims.update(dict.fromkeys(poll.unsupported))
    return tuple(claims)


def _with_verdict_of_token(polls: Asked[Poll]) -> Asked[Poll]:
    """Replace the verdict of a single poll by the one that its token makes likelier.

    A model draws its reply at random, so that a reply may hold the less likely verdict.
    Example: the reply says "no", and its token gives "yes" a probability of .7: "yes".
    Any other polls are returned as they are.
    """
    if polls.asked != 1 or not polls.weights:
        return polls
    is_chance_of_a_token = polls.weights[0].mode in _BY_TOKEN
    if not is_chance_of_a_token:
        return polls
    (poll,) = polls.replies
    is_made_of_verdicts_on_claims = bool(poll.encoder_claims)
    if is_made_of_verdicts_on_claims:
        return polls
    chance = polls.weights[0].p
    verdict: PollVerdict = "yes" if chance >= 0.5 else "no"
    if poll.verdict == verdict:
        return polls
    reason = (
        f'The verdict\'s token says "{verdict}" (p(yes) = {chance:.2f}); the reply'
        f' that was drawn says "{poll.verdict}": {poll.reason}'
    )
    settled = poll.model_copy(update={"verdict": verdict, "reason": reason})
    return replace(polls, replies=(settled,))


def _strongest_explanation(polls: Sequence[Poll]) -> str:
    """Return the explanation that names the most unsupported claims, "" without polls.

    Of several with equally many, it is the longest, then the first.
    """
    if not polls:
        return ""
    strongest = max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason)))
    return strongest.reason


def _sentences(
    polls: Sequence[Poll], ranks: Sequence[int]
) -> tuple[SentenceSupport, ...]:
    """Return the support of each sentence, with ranks among all contexts.

    The judge counts among the contexts that it was shown.
    """
    sentences: list[SentenceSupport] = []
    for poll in polls:
        for sentence in poll.sentences:
            rank = None if sentence.rank is None else ranks[sentence.rank - 1]
            sentences.append(sentence.model_copy(update={"rank": rank}))
    return tuple(sentences)
