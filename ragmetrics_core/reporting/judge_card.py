"""The card of a judge.

It says what the judge is worth per question and source. Reports find here the card to
quote.
"""

import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from ragmetrics_core.data import Frozen, Signature
from ragmetrics_core.reporting.run_facts import Input, RunFacts
from ragmetrics_core.statistics.rater_agreement import Measured

_warn = cache(logging.getLogger("ragmetrics_core").warning)  # once for each file


class Card(Frozen):
    """What a judge is worth.

    Verdicts are the judge's own where it gives them, else scores from one half on.
    """

    judge: str = Field(description="name of the judge")
    details: dict[str, str] = Field({}, description="its settings that change replies")
    signatures: dict[str, Signature] = Field(
        description="by question, the metric that asked it"
    )
    version: str = Field(description="version of ragmetrics")
    made: str = Field(description="when it was measured, ISO 8601 in UTC")
    command: str = Field("", description="what made it")
    inputs: tuple[Input, ...] = Field((), description="the files of labelled data")
    notes: tuple[str, ...] = Field((), description="what else a reader must know")
    figures: dict[str, tuple[Measured, ...]] = Field(
        description=(
            "by question; source None: the mean over sources, of shares and costs that"
            " over all answers"
        )
    )


def cell(one: Measured) -> str:
    """A figure with its interval and n."""
    return (
        f"{one.value:.2f}"
        + (" [{:.2f}, {:.2f}]".format(*one.interval) if one.interval else "")
        + f" n={one.count}"
    )


def fitting(
    judge: str, run: RunFacts
) -> dict[Signature, tuple[str, tuple[Measured, ...]]]:
    """Return what the newest card of a judge says of a run's metrics.

    The judge of the card is set as in the run. For each metric there is the question
    and the figures.

    Cards are those in ``RAGMETRICS_CARDS``, a folder or a file, then those that ship.
    """
    found: dict[Signature, tuple[str, tuple[Measured, ...]]] = {}
    package, own = Path(__file__).parents[1], os.environ.get("RAGMETRICS_CARDS")
    for folder in (
        *([Path(own)] if own else ()),
        package / "page" / "cards",
        package.parent / "docs" / "cards",
    ):
        cards = []
        for path in folder.glob("*.json") if folder.is_dir() else [folder]:
            # no report should fail for what is no card
            with suppress(OSError, ValidationError):
                cards.append(Card.model_validate_json(path.read_bytes()))
        if own and folder == Path(own) and not cards and not folder.is_dir():
            _warn(
                f"RAGMETRICS_CARDS: {own} is no card of this version and no folder of"
                " cards; none of it is quoted"
            )
        for card in sorted(cards, key=lambda card: card.made, reverse=True):
            if (card.judge, card.details) == (judge, run.details.get(judge)):
                fit = {
                    card.signatures[name]: (name, figures)
                    for name, figures in card.figures.items()
                }
                found = {
                    one: told
                    for one, told in fit.items()
                    if one in run.metrics.values()
                } | found
    return found
