"""What a run says of conversations, from its samples' ledgers.

Its numbers are by turn, by conversation, and by what claims rest on.
"""

from array import array

from pydantic import Field

from ragmetrics_core.data import Frozen, Ledger, Polled, Scored, Share
from ragmetrics_core.statistics.means import mean

_MOST_TURNS_SHOWN = 10


class Conversations(Frozen):
    """One metric over the samples that have a ledger.

    A ledger records what was said and shown in the turns of a conversation. A number
    that does not exist is None.
    """

    by_turn: dict[int, float] = Field(
        description="mean score by number of the turn, from 1"
    )
    count: int = Field(description="conversations with a score")
    threshold: Share = Field(description="the score under which a turn is low")
    sound: Share | None = Field(
        description=(
            "share of those conversations without a scored turn under the threshold"
        )
    )
    own: Share | None = Field(
        description="mean share of claims that rest on the assistant's own words"
    )
    kept: Share | None = Field(
        description="share of earlier items that the prompts still showed"
    )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the scores say of conversations, in up to four sentences.

        They are on the mean score by turn, on conversations without a low turn
        (``sound``), on claims that rest on the assistant's own words (``own``), and on
        earlier evidence that the prompts still showed (``kept``). A sentence whose
        number does not exist is left out. Example: "mean by turn 1: 0.900, 2: 0.700",
        and "80% of the earlier evidence was still shown".
        """
        sentences = []
        if len(self.by_turn) > 1:  # some conversation has a second turn
            means = [f"{turn}: {value:.3f}" for turn, value in self.by_turn.items()]
            if len(means) > _MOST_TURNS_SHOWN:
                means[_MOST_TURNS_SHOWN - 1 : -1] = ["…"]  # the last turn stays
            sentences.append(f"mean by turn {', '.join(means)}")
            if self.count:
                share_without_low_turn = self.sound or 0.0
                n_without_low_turn = round(share_without_low_turn * self.count)
                sentences.append(
                    "conversations without a scored turn under"
                    f" {self.threshold:g}: {n_without_low_turn} of {self.count}"
                )
        if self.own is not None:
            sentences.append(
                f"on average {self.own:.0%} of an answer's claims rest on the"
                " assistant's own words"
            )
        if self.kept is not None:
            sentences.append(f"{self.kept:.0%} of the earlier evidence was still shown")
        return tuple(sentences)


class TurnTally:
    """What one metric's scores say of conversations.

    It keeps eight bytes per score and a number per conversation.
    """

    def __init__(self) -> None:
        self._scores_by_turn: dict[int, array[float]] = {}
        self._lowest_by_conversation: dict[str, float] = {}
        # share of each answer's claims that rest on the assistant's own words
        self._own_words_shares = array("d")
        # documents of earlier turns of which it is known whether prompts still show
        # them
        self._n_earlier_documents = 0
        self._n_still_shown = 0

    def add(self, ledger: Ledger, result: Scored) -> None:
        """Count the score of one sample.

        Args:
            ledger: What was recorded of the sample's conversation: which one, which
                turn.
            result: The score.
        """
        scores_of_turn = self._scores_by_turn.setdefault(ledger.turn, array("d"))
        scores_of_turn.append(result.value)
        if ledger.conversation is not None:
            lowest = self._lowest_by_conversation.get(ledger.conversation, 1.0)
            lowest = min(result.value, lowest)
            self._lowest_by_conversation[ledger.conversation] = lowest
        if isinstance(result.evidence, Polled):
            self._add_sources_of_claims(result.evidence)

    def _add_sources_of_claims(self, evidence: Polled) -> None:
        """Count what the answer's claims rest on, and which earlier texts were shown."""
        sources = evidence.ledger
        if sources is None:
            return
        if sources.shares is not None:
            share_of_own_words = sources.shares.get("own", 0.0)
            self._own_words_shares.append(share_of_own_words)
        if sources.kept is not None:
            n_still_shown, n_earlier_documents = sources.kept
            self._n_still_shown += n_still_shown
            self._n_earlier_documents += n_earlier_documents

    def summary(self, threshold: float) -> Conversations | None:
        """Sum up the scores of conversations so far.

        Returns None if no sample had a ledger: a record of what was said and shown in
        the turns of a conversation. Example: the turns of conversation "a" scored 1 and
        .9, those of "b" 1 and .2, threshold .5: ``by_turn`` is {1: 1, 2: .55}, and
        ``sound`` is .5.

        Args:
            threshold: A score below this makes a turn a low one.
        """
        if not self._scores_by_turn:
            return None
        mean_by_turn = {
            turn: mean(scores) or 0.0
            for turn, scores in sorted(self._scores_by_turn.items())
        }
        has_no_low_turn = [
            lowest >= threshold for lowest in self._lowest_by_conversation.values()
        ]
        # Of the documents of earlier turns: the share that later prompts still showed.
        share_still_shown = None
        if self._n_earlier_documents:
            share_still_shown = self._n_still_shown / self._n_earlier_documents
        return Conversations(
            by_turn=mean_by_turn,
            count=len(has_no_low_turn),
            threshold=threshold,
            # the share of conversations without a low turn
            sound=mean(has_no_low_turn),
            # the mean share of an answer's claims that rest only on what the assistant
            # itself said in earlier turns
            own=mean(self._own_words_shares),
            kept=share_still_shown,
        )
