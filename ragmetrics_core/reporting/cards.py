"""The card of a judge, what it is worth per question and source, and where reports find the one to quote."""

import os
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from ragmetrics_core.data import Frozen, Signature
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.agreement import Measured


class Card(Frozen):
    """What a judge is worth; verdicts are scores from one half on."""

    judge: str = Field(description="name of the judge")
    details: dict[str, str] = Field({}, description="its settings that change replies")
    signatures: dict[str, Signature] = Field(description="by question, the metric that asked it")
    version: str = Field(description="version of ragmetrics")
    made: str = Field(description="when it was measured, ISO 8601 in UTC")
    command: str = Field("", description="what made it")
    inputs: tuple[Input, ...] = Field((), description="the files of labelled data")
    notes: tuple[str, ...] = Field((), description="what else a reader must know")
    figures: dict[str, tuple[Measured, ...]] = Field(
        description="by question; source None: the mean over sources, of shares and costs that over all answers"
    )


def cell(one: Measured) -> str:
    """A figure with its interval and n."""
    return f"{one.value:.2f}" + (" [{:.2f}, {:.2f}]".format(*one.interval) if one.interval else "") + f" n={one.count}"


def card_of(judge: str) -> Card | None:
    """The newest card of a judge in the folder or file ``RAGMETRICS_CARDS``, else the one that ships, if any is."""
    package, own = Path(__file__).parents[1], os.environ.get("RAGMETRICS_CARDS")
    for folder in (*([Path(own)] if own else ()), package / "page" / "cards", package.parent / "docs" / "cards"):
        found = []
        for path in [folder] if folder.is_file() else folder.glob("*.json"):
            with suppress(OSError, ValidationError):  # no report should fail for what is no card
                found.append(Card.model_validate_json(path.read_bytes()))
        if found := [card for card in found if card.judge == judge]:
            return max(found, key=lambda card: card.made)
    return None
