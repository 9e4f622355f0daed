"""What a run says of conversations, from its samples' ledgers.

Its numbers are by turn, by conversation, and by what claims rest on.
"""

from array import array

from pydantic import Field

from ragmetrics_core.data import Frozen, Ledger, Polled, Scored, Share
from ragmetrics_core.statistics.means import mean


class Conversations(Frozen):
    """One metric over the samples that have a ledger.

    A number that does not exist is None.
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
        """The numbers in words.

        There are none where every conversation has one turn and no claim is labelled.
        """
        sentences = []
        if len(self.by_turn) > 1:
            turns = [f"{turn}: {value:.3f}" for turn, value in self.by_turn.items()]
            if len(turns) > 10:
                turns[9:-1] = ["…"]
            sentences.append(f"mean by turn {', '.join(turns)}")
            if self.count:
                n_sound = round((self.sound or 0) * self.count)
                sentences.append(
                    "conversations without a scored turn under"
                    f" {self.threshold:g}: {n_sound} of {self.count}"
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
        self._turns: dict[int, array[float]] = {}
        self._lowest: dict[str, float] = {}
        self._own_shares = array("d")  # of the assistant's own words, per score
        self._items_shown = 0
        self._items_known = 0  # whether they were shown

    def add(self, ledger: Ledger, result: Scored) -> None:
        """Count one score."""
        self._turns.setdefault(ledger.turn, array("d")).append(result.value)
        if ledger.conversation is not None:
            lowest = self._lowest.get(ledger.conversation, 1.0)
            self._lowest[ledger.conversation] = min(result.value, lowest)
        if not isinstance(result.evidence, Polled) or result.evidence.ledger is None:
            return
        grounds = result.evidence.ledger
        if grounds.shares is not None:
            self._own_shares.append(grounds.shares.get("own", 0.0))
        if grounds.kept is not None:
            n_shown, n_known = grounds.kept
            self._items_shown += n_shown
            self._items_known += n_known

    def summary(self, threshold: float) -> Conversations | None:
        """The numbers so far; None without a ledger."""
        if not self._turns:
            return None
        by_turn = {
            turn: mean(values) or 0.0 for turn, values in sorted(self._turns.items())
        }
        sound = [lowest >= threshold for lowest in self._lowest.values()]
        kept = self._items_shown / self._items_known if self._items_known else None
        return Conversations(
            by_turn=by_turn,
            count=len(sound),
            threshold=threshold,
            sound=mean(sound),
            own=mean(self._own_shares),
            kept=kept,
        )
