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
        turns = [f"{turn}: {value:.3f}" for turn, value in self.by_turn.items()]
        shown = turns if len(turns) <= 10 else [*turns[:9], "…", turns[-1]]
        without_low_turn = round((self.sound or 0) * self.count)
        sound = (
            f"conversations without a scored turn under {self.threshold:g}:"
            f" {without_low_turn} of {self.count}"
        )
        lines = [f"mean by turn {', '.join(shown)}"] if len(turns) > 1 else []
        lines += [sound] if len(turns) > 1 and self.count else []
        if self.own is not None:
            lines.append(
                f"on average {self.own:.0%} of an answer's claims rest on the"
                " assistant's own words"
            )
        return (
            *lines,
            *(
                []
                if self.kept is None
                else [f"{self.kept:.0%} of the earlier evidence was still shown"]
            ),
        )


class TurnTally:
    """What one metric's scores say of conversations.

    It keeps eight bytes per score and a number per conversation.
    """

    def __init__(self) -> None:
        self._turns: dict[int, array[float]] = {}
        self._lowest: dict[str, float] = {}
        self._own, self._shown, self._known = array("d"), 0, 0

    def add(self, ledger: Ledger, result: Scored) -> None:
        """Count one score."""
        self._turns.setdefault(ledger.turn, array("d")).append(result.value)
        if ledger.conversation is not None:
            self._lowest[ledger.conversation] = min(
                result.value, self._lowest.get(ledger.conversation, 1.0)
            )
        grounds = (
            result.evidence.ledger if isinstance(result.evidence, Polled) else None
        )
        if grounds is not None and grounds.shares is not None:
            self._own.append(grounds.shares.get("own", 0.0))
        shown, known = (grounds and grounds.kept) or (0, 0)
        self._shown, self._known = self._shown + shown, self._known + known

    def summary(self, threshold: float) -> Conversations | None:
        """The numbers so far; None without a ledger."""
        if not self._turns:
            return None
        sound = [value >= threshold for value in self._lowest.values()]
        return Conversations(
            by_turn={
                turn: mean(values) or 0.0
                for turn, values in sorted(self._turns.items())
            },
            count=len(sound),
            threshold=threshold,
            sound=mean(sound),
            own=mean(self._own),
            kept=self._shown / self._known if self._known else None,
        )
