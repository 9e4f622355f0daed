"""The card of a judge.

It says what the judge is worth per question and source. Reports find here the card to
quote.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from ragmetrics_core.data import (
    EMBEDDED,
    Frozen,
    SettingError,
    Signature,
    read_text,
    unseen_worth,
)
from ragmetrics_core.reporting.run_facts import Input, RunFacts
from ragmetrics_core.statistics.corrected_means import CorrectedMean
from ragmetrics_core.statistics.rater_agreement import Measured

_QUOTED_MEASURES = ("AUROC", "balanced accuracy")

_warn = cache(logging.getLogger("ragmetrics_core").warning)  # once for each file


class Card(Frozen):
    """What a judge is worth.

    Verdicts are the judge's own where it gives them, else scores above one half.

    Attributes:
        judge: Name of the judge.
        details: Its settings that change replies.
        endpoints: The addresses that it was asked at, as ``RunFacts.endpoints``.
        models: Names of the models that replied, as their endpoints returned them.
        signatures: By question, the metric that asked it.
        version: Version of ragmetrics.
        made: When it was measured, ISO 8601 in UTC.
        command: What made it.
        inputs: The files of labelled data.
        notes: What else a reader must know.
        figures: By question; source None: the mean over sources, of shares and costs
            that over all answers.
        run: The run that was labelled: its ``key``; "" for labelled data.
        corrected: By metric, the mean of the run that people would give, where its rows
            were drawn at random.
    """

    judge: str
    details: dict[str, str] = Field(default={})
    endpoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    signatures: dict[str, Signature]
    version: str
    made: str
    command: str = ""
    inputs: tuple[Input, ...] = ()
    notes: tuple[str, ...] = ()
    figures: dict[str, tuple[Measured, ...]]
    run: str = ""
    corrected: dict[str, CorrectedMean] = Field(default={})

    @classmethod
    def read(cls, path: str | Path) -> "Card":
        """The card that ``ragmetrics card --out`` wrote.

        Args:
            path: The file.

        Returns:
            The card.

        Raises:
            SettingError: If the file is no card of this version, or cannot be read.
        """
        try:
            return cls.model_validate_json(read_text(Path(path)), extra="ignore")
        except ValidationError as error:
            raise SettingError(
                f"{path} is no card of this version; 'ragmetrics card --out' makes one"
            ) from error


def cell(figure: Measured) -> str:
    """A figure with its interval and n."""
    interval = ""
    if figure.interval:
        low, high = figure.interval
        interval = f" [{low:.2f}, {high:.2f}]"
    return f"{figure.value:.2f}{interval} n={figure.count}"


def figures_of_cards(
    judge: str, run: RunFacts
) -> dict[Signature, tuple[str, tuple[Measured, ...]]]:
    """Find what cards say of the agreement of a run's judge with people's labels.

    A card holds figures for each question to the judge, and for each question the
    signature of the metric that asks it. A card fits if it is about the same judge with
    the same settings, as far as is known at the same address and by the same model, and
    if a metric of the run has the same signature, which means that it is measured in
    the same way.

    For each metric the first card that fits counts. Cards in the folder or file that
    the environment variable ``RAGMETRICS_CARDS`` names come first, then the cards that
    ship with the package.

    Args:
        judge: Name of the judge.
        run: The facts of the run, with its metrics and the settings of its judges.

    Returns:
        What the first card that fits says of each metric, by the metric's signature:
        the question to the judge, and how well its answers agree with people's labels.
        Metrics without such a card are left out. Example: a run of adherence and
        recall, and a card of the same judge on adherence alone: one entry.
    """
    signatures_of_run = set(run.metrics.values())
    figures_by_signature: dict[Signature, tuple[str, tuple[Measured, ...]]] = {}
    for card in _cards():
        if card.judge != judge or card.details != run.details.get(judge):
            continue
        if not _may_be_of_one_model(card, run):
            continue
        for question, figures in card.figures.items():
            signature = card.signatures[question]
            if signature in signatures_of_run:
                figures_by_signature.setdefault(signature, (question, figures))
    return figures_by_signature


def quotes_of_cards(run: RunFacts) -> list[str]:
    """Say of each judge of a run how well it agrees with people.

    The figures are those of the judge's card, where its agreement with people's labels
    was measured.
    """
    sentences = []
    for judge in run.judges:
        phrases = []
        for signature, (_, figures) in figures_of_cards(judge, run).items():
            cells = [
                f"{figure.measure} {cell(figure)} sources".replace(
                    " n=", ", mean over "
                )
                for figure in figures
                if figure.source is None and figure.measure in _QUOTED_MEASURES
            ]
            agreement = ", ".join(cells) or "one class only"
            phrases.append(f"{signature.metric} {agreement}")
            if judge == EMBEDDED and signature.metric == "context_adherence":
                # its weights were fitted on the card's sources: add the worth on others
                phrases.append(unseen_worth())
        if not phrases:
            has_other_card = any(
                card.judge == judge and not _may_be_of_one_model(card, run)
                for card in _cards()
            )
            measured = " at this address, by this model," if has_other_card else ""
            phrases.append(
                f"how well it agrees with people{measured} is not measured (ragmetrics"
                " card)"
            )
        sentences.append(f"{judge}, against labels of people: {'; '.join(phrases)}.")
    return sentences


def _may_be_of_one_model(card: Card, run: RunFacts) -> bool:
    """Whether card and run name no different addresses or models of the card's judge.

    Under one name of a judge another model may reply elsewhere, or later. What either
    does not know contradicts nothing.
    """
    if run.has_other_endpoints(card.judge, card.endpoints):
        return False
    if not card.models or not run.models:
        return True
    if {*run.judges} <= {card.judge, EMBEDDED}:
        return {*card.models} == {*run.models}
    # a run does not tell which models are whose
    return {*card.models} <= {*run.models}


def corrected_means(run: RunFacts) -> dict[str, CorrectedMean]:
    """Return the means of a run that people would give, by metric, as cards know them.

    They stand in the cards that were made of labels of this very run.
    """
    mean_by_metric: dict[str, CorrectedMean] = {}
    for card in _cards():
        if card.run and card.run == run.key:
            for metric, mean in card.corrected.items():
                mean_by_metric.setdefault(metric, mean)
    return mean_by_metric


def _cards() -> Iterator[Card]:
    """All cards in the order in which they count: your own first, then the newest."""
    named = os.environ.get("RAGMETRICS_CARDS")
    if named:
        cards = _cards_in(Path(named))
        if not cards and not Path(named).is_dir():
            _warn(
                f"RAGMETRICS_CARDS: {named} is no card of this version and no folder of"
                " cards; none of it is quoted"
            )
        yield from cards
    package = Path(__file__).parents[1]
    yield from _cards_in(package / "page" / "cards")
    yield from _cards_in(package.parent / "docs" / "cards")


def _cards_in(place: Path) -> list[Card]:
    """The cards of a folder, or of a file, the newest first."""
    cards = []
    for path in place.glob("*.json") if place.is_dir() else [place]:
        # no report should fail for what is no card
        with suppress(OSError, ValidationError):
            text = path.read_bytes()
            cards.append(Card.model_validate_json(text, extra="ignore"))
    return sorted(cards, key=lambda card: card.made, reverse=True)
