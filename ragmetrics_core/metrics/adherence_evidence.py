"""The evidence of Context Adherence: what the polls of a judge say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

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
            "Per claim, what an encoder says, or any judge of contexts that are too long;"
            " behind them what claims nothing, without a probability."
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
    return AdherenceEvidence(
        asked=polls.asked,
        # contexts too long for one prompt were judged in so many windows (pieces)
        windows=_n_windows(polls),
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
        sentences=_sentences(polls.replies, rank_of_each_text),
        claims=_verdicts_on_claims(polls.replies),
        ledger=grounds,
    )


def _n_windows(polls: Asked[Poll]) -> int | None:
    """In how many windows (pieces) too long contexts were judged; None: as a whole.

    ``polls.windows`` has a number for each verdict of a reply. A poll is one verdict,
    on the answer, so that there is one number at most.
    """
    return polls.windows[0] if polls.windows else None


def _verdicts_on_claims(polls: Sequence[Poll]) -> tuple[ClaimSupport, ...]:
    """Return the verdicts claim by claim, which encoders give, and no language model."""
    claims: list[ClaimSupport] = []
    for poll in polls:
        claims += poll.encoder_claims
    return tuple(claims)


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


def _strongest_explanation(polls: Sequence[Poll]) -> str:
    """Return the explanation that names the most unsupported claims, "" without polls.

    Of several with equally many, it is the longest, then the first.
    """
    if not polls:
        return ""
    strongest = max(polls, key=lambda poll: (len(poll.unsupported), len(poll.reason)))
    return strongest.reason


def _sentences(
    polls: Sequence[Poll], rank_of_each_text: Sequence[int]
) -> tuple[SentenceSupport, ...]:
    """Return the support of each sentence, with ranks among all contexts.

    The judge counts among the contexts that it was shown.
    """
    sentences: list[SentenceSupport] = []
    for poll in polls:
        for sentence in poll.sentences:
            rank = None
            if sentence.rank is not None:
                rank = rank_of_each_text[sentence.rank - 1]
            sentences.append(sentence.model_copy(update={"rank": rank}))
    return tuple(sentences)
