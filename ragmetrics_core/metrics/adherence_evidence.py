"""The evidence of Context Adherence: what the polls of a judge say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ragmetrics_core.data import Asked, Share, wilson
from ragmetrics_core.data.metric_evidence import Grounds, Polled
from ragmetrics_core.metrics.adherence_cause import Cause
from ragmetrics_core.metrics.polls import (
    ClaimSupport,
    Poll,
    PollVerdict,
    SentenceSupport,
)


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
