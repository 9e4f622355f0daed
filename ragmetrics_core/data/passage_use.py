"""What was measured of each passage: what became of the answer without it.

The texts of samples stand in it; no log and no ``repr`` shows them.
"""

from typing import Literal

from pydantic import Field

from ragmetrics_core.data.frozen import Frozen, Share, Text
from ragmetrics_core.data.replies import Usage

UseVerdict = Literal["used", "redundant", "not used", "cannot tell"]


class PromptMessage(Frozen):
    """One message of the prompt that an answer was written from."""

    role: str = Field(description="``system``, ``user``, ``assistant`` or ``tool``.")
    content: Text = Field(
        repr=False, description="Its text; of calls of tools the calls in words."
    )


class PassageUse(Frozen):
    """What became of the answer when one passage was taken out of its prompt."""

    verdict: UseVerdict = Field(
        description=(
            "``used``: without it the answer is another; ``redundant``: it is another"
            " only without a further passage as well, which holds the same; ``not"
            " used``: the answer stays, also without all others that are not used;"
            " ``cannot tell``: the answer varies as much by itself, or ``why`` says why."
        )
    )
    effect: Share | None = Field(
        default=None,
        description="1 - word F1 of the answers with and without it; None: unknown.",
    )
    answer: Text | None = Field(
        default=None, repr=False, description="The answer without it."
    )
    why: str = Field(default="", description="What the verdict rests on, in words.")


class MeasuredUse(Frozen):
    """What each passage did to the answer, by asking the model again without it."""

    model: str = Field(description="The model that was asked.")
    judge: str | None = Field(
        default=None,
        description="Who was asked whether two answers say the same; None: nobody.",
    )
    why_not: str | None = Field(
        default=None, description="Why nothing was measured, in words; None: it was."
    )
    answers: tuple[Text, ...] = Field(
        default=(), repr=False, description="The answers to the whole prompt, repeated."
    )
    spread: Share | None = Field(
        default=None, description="How far these are from each other at most."
    )
    answer_without_any: Text | None = Field(
        default=None, repr=False, description="The answer without any passage."
    )
    effect_of_all: Share | None = Field(
        default=None, description="How far that is from the answer with all."
    )
    passages: tuple[PassageUse, ...] = Field(
        default=(), description="One for each context, in order."
    )
    redundant: tuple[tuple[int, ...], ...] = Field(
        default=(),
        description="Places, from 0, of contexts that hold the same, group by group.",
    )
    usage: Usage = Field(default_factory=Usage, description="What measuring cost.")

    def __str__(self) -> str:
        """A line for each passage; no text of it."""
        if self.why_not is not None:
            return f"not measured: {self.why_not}"
        lines = [f"answers of {self.model} without each passage:"]
        for number, passage in enumerate(self.passages, start=1):
            effect = "  ? " if passage.effect is None else f"{passage.effect:4.2f}"
            why = f"  ({passage.why})" if passage.why else ""
            lines.append(f"{number:3}  {effect}  {passage.verdict}{why}")
        return "\n".join(lines)
