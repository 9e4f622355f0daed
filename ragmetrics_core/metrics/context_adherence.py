"""Context Adherence: is the answer based purely on the contexts?

The share of "yes" over chain-of-thought polls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from ragmetrics_core.data import (
    Asked,
    NotAnswered,
    Part,
    Sample,
    Scored,
    Share,
    Undefined,
    stopped_estimate,
    wilson,
)
from ragmetrics_core.data.asking import (
    Asking,
    Instructions,
    LabelProbability,
    Question,
    ask,
    bounds_of_share,
    error_of_lost_polls,
)
from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    LimitReached,
    QuestionNotSupported,
    SettingError,
)
from ragmetrics_core.data.metric_evidence import Grounds, Polled
from ragmetrics_core.data.replies import Weight, failed_with
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.answer_relevance import question_on_answer
from ragmetrics_core.metrics.citation_support import (
    question_on_support,
    support_in_replies,
)
from ragmetrics_core.metrics.context_sufficiency import question_on_contexts
from ragmetrics_core.metrics.declined import (
    instructions_on_declining,
    undefined_if_declined,
)
from ragmetrics_core.metrics.fact_matrix import question_for_facts
from ragmetrics_core.metrics.ledger_calls import Groups, groups_of_texts
from ragmetrics_core.metrics.metric import (
    Metric,
    Outcome,
    Plan,
    error_of_unanswered,
    instructions_for_judge,
    parts_of_turn,
)
from ragmetrics_core.metrics.polls import (
    EXAMPLE,
    AdherenceAlone,
    AdherenceReply,
    Adherent,
    ClaimSupport,
    Poll,
    PollVerdict,
    SentenceSupport,
    adherence_reply,
    polls_of,
    question_what_claims_rest_on,
)


class ContextAdherence(Metric):
    """Is the answer grounded in the contexts?

    The share of independent chain-of-thought judgements that say yes.

    Evidence of a sample with a ledger is what its calls brought, too. Where there are
    earlier turns, or texts that models of the application wrote, polls label what each
    claim rests on, and the verdict is computed from that.

    Args:
        polls: Independent judgements; each explains itself before its verdict.
        temperature: At 1.0 the share estimates the judge's own p(yes).
        method: Polls that explain themselves; or p(supported) of a verdict without a
            reason, which small models judge better by.
        early_stop: Stop at a decided majority, except where one request gives all
            polls. For gates: noisier.
        cause: Ask for a likely cause of scores below 0.5.
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt; must hold ``{contexts}`` and ``{answer}``.

    Returns:
        A score in [0, 1], higher is better: yes / (yes + no).

    Undefined when:
        Evidence or answer are missing, or most polls find that the answer makes no
        claim (``no_claim``); or the answer declines (``declined``).

    Raises:
        SettingError: If ``early_stop`` is used with an even number of polls or fewer
            than three, or a template lacks a placeholder.

    Source:
        ChainPoll: Friel & Sanyal (2023), arXiv 2310.18344. Departures: an answer
        without claims is undefined; contexts longer than the judge's window are judged
        claim by claim, a claim being supported if some window supports it.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> yes = {"unsupported": [], "claims": 1}
        >>> no = {"unsupported": ["Paris"], "claims": 1, "reason": "Not in the contexts."}
        >>> judge = ScriptedJudge({Adherent: [yes] * 4 + [no]})
        >>> ContextAdherence().score(contexts=["Paris."], answer="Paris", judge=judge).value
        0.8
    """

    version: ClassVar[str] = "20"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("contexts", "ledger"),
        ("answer",),
    )

    name: str = Field(default="context_adherence", min_length=1)
    polls: int = Field(default=5, ge=1, le=1000)
    temperature: float = Field(default=1.0, ge=0, le=2)
    method: Literal["polls", "probability"] = "polls"
    early_stop: bool = False
    cause: bool = True
    examples: str | None = None
    template: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ContextAdherence:
        """Refuse settings of early stopping that cannot hold."""
        if self.early_stop and (self.polls < 3 or self.polls % 2 == 0):
            raise SettingError(
                "early_stop needs an odd number of polls of at least 3, got"
                f" {self.polls}"
            )
        if self.early_stop and self.method == "probability":
            raise SettingError(
                "early_stop is about polls: leave it out with method='probability'"
            )
        return self

    def instructions(self) -> tuple[Instructions, ...]:
        """Return the instructions: for the answer, its claims, and a cause.

        They say how an answer is judged, how claims are listed, and how a cause is
        looked for.
        """
        return (
            instructions_for_judge(
                "adherent" if self.method == "polls" else "adherent_probability",
                self.template,
                "contexts answer",
                "question",
                self.examples,
                self.language,
            ),
            instructions_for_judge("facts_io", None, "reference", "question"),
            instructions_for_judge(
                "supports", None, "statement passages", "question before"
            ),
            instructions_for_judge(
                "sufficient_contexts", None, "contexts question", language=self.language
            ),
            instructions_for_judge(
                "addresses", None, "question answer", language=self.language
            ),
            instructions_on_declining(),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores, for the signature."""
        settings = {"polls": str(self.polls), "T": str(self.temperature)}
        if self.method == "probability":
            settings = {"method": "probability", "fallback": str(self.polls)}
        if self.early_stop:
            settings["early_stop"] = "yes"
        return settings

    def plan(self, sample: Sample) -> Plan:
        """Poll the judge whether the answer rests on the contexts, and score the polls.

        Example: 4 of 5 polls say yes: .8. If the setting ``cause`` is on and the score
        is low, the judge is also asked why, and its answer is added to the evidence.
        """
        groups = groups_of_texts(sample)  # by where texts come from, e.g. earlier turns
        # the texts that the judge is shown: those of this turn, then of earlier turns
        shown_texts = groups.evidence + groups.earlier
        if not shown_texts:
            # what a model of the application wrote may stand among contexts: no evidence
            if sample.contexts is None or sample.context_texts:
                return self.undefined("no contexts")
            # an answer that rests on nothing scores 0, unless it declines
            outcome = self.scored(
                0.0,
                "The answer rests on no context.",
                AdherenceEvidence(asked=0, yes=0, no=0),
            )
            return (yield from undefined_if_declined(outcome, sample))
        # contexts, question and answer, by these names
        parts = parts_of_turn(sample, shown_texts)
        # ``grounds``: what the answer's claims rest on; None if that was not asked
        question = self._question_of_verdict(parts)
        grounds: Grounds | None = None
        polls: Asked[Poll] | NotAnswered
        # may a claim rest on more than this turn's evidence and question?
        if groups.earlier or groups.assistant or len(groups.user) > 1:
            polls, grounds = yield from self._poll_beyond_this_turn(question, groups)
        else:
            replies = yield from self._poll_or_judge_claims(question)
            polls = polls_of(replies) if isinstance(replies, Asked) else replies
        if isinstance(polls, NotAnswered):
            return self.failed(polls.error)
        # the judge names a text by its place among the shown ones, evidence by its rank
        outcome = self._conclude(polls, groups.rank_of_each_text, grounds)
        # too long for one prompt, the contexts were judged in several windows
        are_texts_too_long = bool(polls.windows)
        # Where a poll says that the answer claims nothing, does it decline? Claim by
        # claim nobody sees that: "the sources do not say" is a claim without support.
        is_low = isinstance(outcome, Scored) and not is_yes(outcome.value)
        may_decline = is_low and not all(poll.finds_claims for poll in polls.replies)
        if isinstance(outcome, Undefined) or are_texts_too_long or may_decline:
            outcome = yield from undefined_if_declined(outcome, sample)
            is_low = isinstance(outcome, Scored) and is_low
        if outcome.evidence is None or not (self.cause and is_low):
            return outcome
        # why is the score low? the judge's answer is added to the evidence
        on_contexts, on_answer = self.instructions()[3:5]
        fields_of_cause = yield from find_cause(
            sample,
            shown_texts,
            on_contexts,
            on_answer,
            are_texts_too_long=are_texts_too_long,
        )
        evidence = outcome.evidence.model_copy(update=fields_of_cause)
        return outcome.model_copy(update={"evidence": evidence})

    def _poll_beyond_this_turn(
        self, question_of_verdict: Adherent, groups: Groups
    ) -> Asking[tuple[Asked[Poll] | NotAnswered, Grounds | None]]:
        """Poll for labels, which say what each claim rests on, else for the bare verdict.

        Example: 2 claims rest on contexts, and 1 on an earlier turn.

        Args:
            question_of_verdict: Asks for the bare verdict.
            groups: The texts of this turn and of earlier turns.

        Returns:
            The polls, and the labels of the claims, or a note why there are none. None
            in place of these if the judge failed.
        """
        # a prompt or examples of the user's own show replies with a verdict
        is_usual = self.template is None and not self.examples
        if is_usual and self.method == "polls":
            question_of_labels = question_what_claims_rest_on(
                groups, question_of_verdict, self.language
            )
            labelled = yield from self._poll_or_judge_claims(question_of_labels)
            if isinstance(labelled, Asked):
                claims = [reply.claims for reply in labelled.replies]
                grounds = Grounds.of(claims, groups.n_earlier_shown_and_known)
                return polls_of(labelled), grounds
            may_judge = (QuestionNotSupported, ContextWindowExceeded)
            if not isinstance(labelled.error, may_judge):  # such as a refused key
                return labelled, None
        polls = yield from self._poll_or_judge_claims(question_of_verdict)
        note = "Asked over the evidence of this and earlier turns, without labels."
        if isinstance(polls, Asked):
            polls = polls_of(polls)
        return polls, Grounds(kept=groups.n_earlier_shown_and_known, note=note)

    def _question_of_verdict(self, parts: Mapping[str, Part]) -> Adherent:
        """Return the question whether the answer is based on the texts."""
        if self.method == "probability":
            return Adherent(
                parts=parts,
                instructions=self.instructions()[0],
                Reply=AdherenceAlone,
                wanted_probability=LabelProbability(
                    "supported", fallback_polls=self.polls
                ),
                example=AdherenceAlone(supported=True, claims=True),
            )
        return Adherent(
            parts=parts,
            instructions=self.instructions()[0],
            Reply=AdherenceReply,
            polls=self.polls,
            temperature=self.temperature,
            example=EXAMPLE,
        )

    def _poll_or_judge_claims(
        self, question: Question[Any]
    ) -> Asking[Asked[Any] | NotAnswered]:
        """Ask for all polls. If the texts are too long for the judge, claim by claim."""
        polls = yield from self._poll_in_rounds(question)
        # only the question for a verdict can be asked claim by claim
        is_too_long = failed_with(polls, ContextWindowExceeded)
        if not (is_too_long and isinstance(question, Adherent)):
            return polls
        on_claims, on_support = self.instructions()[1:3]
        by_claims = yield from _poll_by_claims(question, on_claims, on_support)
        # a judge that cannot list claims: the texts were too long for it
        return polls if failed_with(by_claims, QuestionNotSupported) else by_claims

    def _poll_in_rounds(
        self, question: Question[Any]
    ) -> Asking[Asked[Any] | NotAnswered]:
        """Ask for all polls: in one round, or in several if polling may stop early.

        Example: five polls that may stop early. Three are asked first, since two could
        not decide the majority. Three times yes decides it. After two times yes and one
        no, a fourth poll is asked.

        Returns:
            The polls. ``NotAnswered`` if the first round fails, or a later one because
            of a limit; if it fails otherwise, its polls count as missing.
        """
        polls_so_far: Asked[Any] = Asked(())
        n_polls = self._decisive_yes if self.early_stop else self.polls
        while n_polls > 0:
            # A store keeps each poll under its number. So the polls of a later round
            # have the numbers behind those of earlier rounds, and the judge answers anew.
            first_poll = polls_so_far.asked if self.early_stop else None
            round_question = replace(question, polls=n_polls, first_poll=first_poll)
            (new_polls,) = yield from ask([round_question])
            if isinstance(new_polls, NotAnswered):
                is_first_round = not polls_so_far.replies
                if is_first_round or isinstance(new_polls.error, LimitReached):
                    return new_polls
                new_polls = Asked((), failures=(new_polls.error,) * n_polls)
            polls_so_far = Asked(
                replies=polls_so_far.replies + new_polls.replies,
                failures=polls_so_far.failures + new_polls.failures,
                weights=new_polls.weights,  # those of the last round
                windows=new_polls.windows,
                together=polls_so_far.together or new_polls.together,
            )
            # A judge that computes probabilities gives one reply, however many polls
            # it is asked for. Other judges reply or fail ``n_polls`` times.
            if len(new_polls.replies) + len(new_polls.failures) < n_polls:
                break
            n_polls = self.polls - polls_so_far.asked
            # if one request brings all polls, stopping early would save nothing
            if self.early_stop and not polls_so_far.together:
                n_polls = min(n_polls, self._fewest_polls_to_decision(polls_so_far))
        return polls_so_far

    @property
    def _decisive_yes(self) -> int:
        """How many times yes decide the majority: 3 of 5, and 3 of 4."""
        return self.polls // 2 + 1

    def _fewest_polls_to_decision(self, polls: Asked[Any]) -> int:
        """How many more polls could decide the majority; 0 or less if it is decided.

        Example: of 5 polls 3 yes or 3 no decide. After 2 yes and 1 no it is 1.
        """
        n_yes_to_decision = self._decisive_yes - len(polls_saying("yes", polls))
        decisive_no = (self.polls + 1) // 2  # that no majority says yes: 2 of 4
        n_no_to_decision = decisive_no - len(polls_saying("no", polls))
        return min(n_yes_to_decision, n_no_to_decision)

    def _conclude(
        self,
        polls: Asked[Poll],
        rank_of_each_text: Sequence[int],
        grounds: Grounds | None,
    ) -> Outcome:
        """Return the outcome of all polls.

        - failed: polls were lost that could turn the verdict, such as 3 of 5;
        - undefined: most polls say that the answer makes no claim;
        - else a score, such as .75 if 3 of 4 polls say yes.

        Args:
            polls: The polls that were answered, and those that failed.
            rank_of_each_text: For each text that the judge was shown, its rank.
            grounds: What the answer's claims rest on; None if that was not asked.
        """
        evidence = evidence_of_polls(polls, rank_of_each_text, grounds)
        if error := error_of_lost_polls(polls, evidence.yes, evidence.no):
            return self.failed(error, evidence)

        n_decided = evidence.yes + evidence.no
        if evidence.abstained > n_decided:
            reason = (
                f"{evidence.abstained} of {len(polls.replies)} polls found that the"
                " answer makes no claim"
            )
            if evidence.ledger is not None and any(evidence.ledger.claims):
                reason += " beyond the user's own words"
            return self.undefined(reason, "no_claim", evidence)

        score = evidence.yes / n_decided
        if evidence.probability is not None:
            # A single reply that came with the probability of "yes": .83 scores .83.
            score = evidence.probability
        # where one request gives all polls, none was left out
        may_stop_early = self.early_stop and not polls.together
        if may_stop_early and self._fewest_polls_to_decision(polls) <= 0:
            # Three times yes, and two polls were not asked. Not all five need say yes:
            # the bare share would be biased.
            evidence = evidence.model_copy(update={"early_stopped": True})
            verdicts = [True] * evidence.yes + [False] * evidence.no
            score = stopped_estimate(verdicts, self.polls)
        bounds = bounds_of_share(polls, evidence.yes, evidence.no)
        reason = evidence.explanation
        if evidence.yes == evidence.no:
            reason = f"The polls are tied; the side against the answer says: {reason}"
        if evidence.windows:
            reason += (
                f" (Judged claim by claim in {evidence.windows} windows of the"
                " contexts.)"
            )
        return self.scored(score, reason, evidence, bounds)


def _poll_by_claims(
    question_about_answer: Adherent, on_claims: Instructions, on_support: Instructions
) -> Asking[Asked[AdherenceReply] | NotAnswered]:
    """Judge an answer claim by claim, where the contexts are too long for the judge.

    The answer is split into claims once. A claim is supported if some window of the
    contexts supports it, the answer if all of its claims are.

    Args:
        question_about_answer: The question that was too long.
        on_claims: The instructions for the judge to list the claims of the answer.
        on_support: The instructions whether texts support a claim.

    Returns:
        One poll on the answer, with the probability of its weakest claim; without claims
        it abstains. ``NotAnswered`` if the judge did not answer one of the questions.
    """
    question = question_about_answer.parts["question"]
    listing = question_for_facts(
        question_about_answer["answer"], on_claims, {"question": question}
    )
    (listed,) = yield from ask([listing])
    if isinstance(listed, NotAnswered):
        return listed
    claims: tuple[str, ...] = listed.reply.facts
    if not claims:
        return Asked((adherence_reply("abstains", "The answer makes no claim."),))
    replies = yield from ask(
        [
            question_on_support(
                claim,
                question_about_answer["contexts"],
                question,
                on_support,
                question_about_answer.polls,
            )
            for claim in claims
        ]
    )
    if error := error_of_unanswered(replies):
        return NotAnswered(error)
    supports = [
        support_in_replies(reply) for reply in replies if isinstance(reply, Asked)
    ]
    chances = [support.p for support in supports]
    lowest = min(chances)
    unsupported = [
        claim
        for claim, chance in zip(claims, chances, strict=True)
        if not is_yes(chance)
    ]
    poll = adherence_reply(
        verdict="no" if unsupported else "yes",
        reason=(
            f"{len(claims) - len(unsupported)} of {len(claims)} claims rest on the"
            f" contexts; the weakest has p = {lowest:.2f}:"
            f' "{claims[chances.index(lowest)]}"'
        ),
        unsupported=unsupported,
        encoder_claims=[
            ClaimSupport(text=claim, probability=chance)
            for claim, chance in zip(claims, chances, strict=True)
        ],
    )
    n_windows = max(support.windows or 1 for support in supports)
    weight = Weight(lowest, supports[0].mode)
    return Asked((poll,), weights=(weight,), windows=(n_windows,))


def find_cause(
    sample: Sample,
    texts: Sequence[str],
    on_contexts: Instructions,
    on_answer: Instructions,
    *,
    are_texts_too_long: bool,
) -> Asking[dict[str, object]]:
    """Ask for the likely cause of a low score, by two more questions.

    Example: the contexts do not hold what is asked, so the retrieval is the likely
    cause.

    Args:
        sample: The sample.
        texts: What the answer may rest on.
        on_contexts: The instructions whether contexts suffice.
        on_answer: The instructions whether an answer addresses its question.
        are_texts_too_long: Whether the texts are too long for the judge, so that it is
            not asked.

    Returns:
        Fields of the evidence: the cause, a remedy and the judge's reason; or only
        a note why no cause was determined.
    """
    if sample.missing("question"):
        return {"cause_note": "no cause could be looked for without the question"}
    if are_texts_too_long:
        return {
            "cause_note": (
                "no cause was looked for: the contexts are longer than the judge's"
                " window"
            )
        }
    questions: list[Question[Any]] = [
        question_on_contexts(sample, texts, on_contexts),
        question_on_answer(sample, on_answer),
    ]
    replies = yield from ask(questions)
    for reply in replies:
        if isinstance(reply, NotAnswered):
            return {"cause_note": f"no cause was determined: {reply.error}"}
    sufficiency, relevance = (reply.reply for reply in replies)
    cause: Cause = "insufficient_context"
    note = sufficiency.reason or "; ".join(sufficiency.missing)
    if relevance.grade < _ADDRESSES_A_PART:
        cause = "misread_question"
        note = relevance.reason
    elif sufficiency.is_sufficient:
        cause = "reasoning_error"
        note = sufficiency.reason
    return {"cause": cause, "remedy": _REMEDIES[cause], "cause_note": note}


Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]

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
# The lowest grade of an answer that addresses a part of its question.
_ADDRESSES_A_PART = 2


class AdherenceEvidence(Polled, extra="ignore"):
    """Evidence of Context Adherence.

    Attributes:
        yes: Polls that found the answer grounded.
        no: Polls that found it not grounded.
        abstained: Polls that found no claim in the answer.
        missing: Polls that were not answered.
        polls: Every answered poll.
        probability: p(yes) of a deterministic judge, of the embedded one its score of
            words; None for polls.
        early_stopped: True if polling stopped at a decided majority.
        explanation: From the majority side (a tie surfaces the "no" side).
        dissent: The strongest explanation of the other side; "" if there is none.
        unsupported: Claims that the "no" polls found unsupported.
        cause: Hypothesis why a low score came about.
        remedy: What to do about that cause.
        cause_note: Why the judge thinks so, or why no cause could be determined.
        sentences: Per sentence, the evidence of a lexical judge.
        claims: Per claim, what an encoder says, or any judge of contexts that are too
            long; behind them what claims nothing, without a probability.
        windows: Windows in which claims were judged one by one; None: as a whole.
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
    claims: tuple[ClaimSupport, ...] = ()
    windows: int | None = None

    def verdicts(self) -> list[str]:
        """Return how the polls went, or how sure a deterministic judge is."""
        if self.probability is not None:
            verdict = "supported" if self.yes else "not supported"
            if self.sentences:  # of the embedded judge
                score = f"score of words {self.probability:.2f} (no probability)"
                return [f"{verdict}, {score}"]
            return [f"{verdict}, probability {self.probability:.2f}"]
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


def polls_saying(verdict: PollVerdict, polls: Asked[Any]) -> list[Any]:
    """Return the polls with this verdict, in their order."""
    return [poll for poll in polls.replies if poll.verdict == verdict]


def evidence_of_polls(
    polls: Asked[Poll], rank_of_each_text: Sequence[int], grounds: Grounds | None
) -> AdherenceEvidence:
    """Assemble what the polls say: counts, explanations and claims, but no score.

    Example: yes, yes, no and a failed poll are 4 asked, 2 yes, 1 no and 1 missing. The
    explanation is taken from a yes, the dissent from the no.

    Args:
        polls: The polls that were answered, and those that failed.
        rank_of_each_text: For each text that the judge was shown, its rank among all
            contexts; ``(1, 3)`` if context 2 was not shown.
        grounds: What the claims rest on, e.g. two on contexts and one on an earlier
            turn; None if that was not asked.
    """
    yes_polls = polls_saying("yes", polls)
    no_polls = polls_saying("no", polls)
    n_decided = len(yes_polls) + len(no_polls)
    is_majority_yes = len(yes_polls) > len(no_polls)
    majority = yes_polls if is_majority_yes else no_polls
    minority = no_polls if is_majority_yes else yes_polls
    unsupported: dict[str, None] = {}  # each claim once
    for poll in no_polls:
        unsupported.update(dict.fromkeys(poll.unsupported))

    # one deterministic poll may come with its probability, several have an interval
    probability = None
    repeatability = None
    if n_decided and polls.asked > 1:
        repeatability = wilson(len(yes_polls), n_decided)
    elif n_decided and polls.weights:
        probability = polls.weights[0].p

    # Sentences and claims stand in the evidence itself, and in no poll of it. The judge
    # counts ranks among the contexts that it was shown.
    sentences: list[SentenceSupport] = []
    claims: list[ClaimSupport] = []
    for poll in polls.replies:
        claims += poll.encoder_claims
        for sentence in poll.sentences:
            rank = None
            if sentence.rank is not None:
                rank = rank_of_each_text[sentence.rank - 1]
            sentences.append(sentence.model_copy(update={"rank": rank}))
    without_support = {"sentences": (), "encoder_claims": ()}
    return AdherenceEvidence(
        asked=polls.asked,
        # contexts too long for one prompt were judged in so many windows (pieces)
        windows=polls.windows[0] if polls.windows else None,
        yes=len(yes_polls),
        no=len(no_polls),
        abstained=len(polls.replies) - n_decided,
        missing=len(polls.failures),
        polls=tuple(poll.model_copy(update=without_support) for poll in polls.replies),
        probability=probability,
        repeatability=repeatability,
        explanation=_strongest_explanation(majority),
        dissent=_strongest_explanation(minority),
        unsupported=tuple(unsupported),
        sentences=tuple(sentences),
        claims=tuple(claims),
        ledger=grounds,
    )


def _strongest_explanation(polls: Sequence[Poll]) -> str:
    """Return the explanation that names the most unsupported claims, "" without polls.

    Of several with equally many, it is the longest, then the first.
    """
    if not polls:
        return ""
    strongest = max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason)))
    return strongest.reason
