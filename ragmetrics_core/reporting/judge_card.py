"""The card of a judge.

It says what the judge is worth per question and source. Reports find here the card to
quote.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
from ragmetrics_core.statistics.deciding import LOSSES, Reach, fewest_rows
from ragmetrics_core.statistics.rater_agreement import Measured

CASCADED = {"adherent": "Adherent", "relevant": "Useful"}
"""The type of question that a cascade asks, by the question of a card.

Of other questions a cascade sees other probabilities than a card: it decides each cell
of a matrix of facts, and a card each fact.
"""

_UNSCORED = frozenset({"abstained", "undefined", "failed"})
"""The measures that say what share of the rows has no score."""

_QUOTED_MEASURES = ("AUROC", "balanced accuracy")

_warn = cache(logging.getLogger("ragmetrics_core").warning)  # once for each file


class Card(Frozen):
    """What a judge is worth.

    Verdicts are the judge's own where it gives them, else scores from one half on.
    """

    judge: str = Field(description="name of the judge")
    details: dict[str, str] = Field(
        default={}, description="its settings that change replies"
    )
    signatures: dict[str, Signature] = Field(
        description="by question, the metric that asked it"
    )
    version: str = Field(description="version of ragmetrics")
    made: str = Field(description="when it was measured, ISO 8601 in UTC")
    command: str = Field(default="", description="what made it")
    inputs: tuple[Input, ...] = Field(
        default=(), description="the files of labelled data"
    )
    notes: tuple[str, ...] = Field(
        default=(), description="what else a reader must know"
    )
    figures: dict[str, tuple[Measured, ...]] = Field(
        description=(
            "by question; source None: the mean over sources, of shares and costs that"
            " over all answers"
        )
    )
    decided: dict[str, tuple[Reach, ...]] = Field(
        default={},
        description=(
            "by question, what the judge may decide alone within limits of what may be"
            " wrong; missing where it gives no probabilities"
        ),
    )

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
            return cls.model_validate_json(read_text(Path(path)))
        except ValidationError as error:
            raise SettingError(
                f"{path} is no card of this version; 'ragmetrics card --out' makes one"
            ) from error

    def bands(self, loss: float) -> dict[str, tuple[float, float]]:
        """Return the bands of scores in which a stronger judge should be asked.

        A card says how good a judge was on labelled data. A cascade asks this judge
        first. Where its score lies in a band around one half, the cascade asks a
        stronger judge. Example: with ``{"Adherent": (.2, .8)}`` a score of .5 is passed
        on, and .9 is not.

        Args:
            loss: The share of all rows that this judge may decide wrongly, in each of
                the data sets on which it was measured: 0.02, 0.05 or 0.1.

        Returns:
            Lower and upper end of a band, for each type of question that was measured
            on enough rows, as ``CascadeJudge(band=)`` takes them.

        Raises:
            SettingError: If the card has no band for this loss, or too few rows to
                know one.
        """
        band_by_question = self._bands_over_all_sources(loss)
        if not band_by_question:
            raise SettingError(
                f"the card of {self.judge} has no band for a loss of {loss}; bands are"
                f" measured for {', '.join(map(str, LOSSES))}, of a judge that gives"
                " probabilities"
            )
        known_bands = {}
        for question, band in band_by_question.items():
            if self._n_scored(question) >= fewest_rows(loss):
                # a card says "adherent", the argument ``band=`` says "Adherent"
                question_type = CASCADED[question]
                known_bands[question_type] = band
        if not known_bands:
            most_scored = max(self._n_scored(question) for question in band_by_question)
            raise SettingError(
                f"the card of {self.judge} knows no band:"
                f" {too_few_rows(most_scored, loss)}"
            )
        return known_bands

    def _bands_over_all_sources(self, loss: float) -> dict[str, tuple[float, float]]:
        """By question of the card, the band that was chosen on all rows for a loss."""
        band_by_question = {}
        for question, reaches in self.decided.items():
            for reach in reaches:
                is_for_loss = reach.goal == "lost" and reach.limit == loss
                if is_for_loss and reach.source is None:
                    band_by_question[question] = (reach.low, reach.high)
        return band_by_question

    def _n_scored(self, question: str) -> int:
        """How many rows of a question the judge scored."""
        shares = {
            figure.measure: figure
            for figure in self.figures.get(question, ())
            if figure.source is None and figure.measure in _UNSCORED
        }
        if not shares:
            return 0
        n_asked = max(figure.count for figure in shares.values())
        unscored = sum(figure.value or 0.0 for figure in shares.values())
        return round(n_asked * (1 - unscored))


def too_few_rows(n_rows: int, loss: float) -> str:
    """Why so few rows make no band for a loss, and how many do."""
    return (
        f"a loss of at most {loss:.0%} needs {fewest_rows(loss)} labelled rows at least,"
        f" and {n_rows} are scored. In fewer a judge that loses more may lose none by"
        " chance (more often than 1 in 20). Label more rows, or allow a higher loss"
    )


def cell(figure: Measured) -> str:
    """A figure with its interval and n."""
    interval = ""
    if figure.interval:
        low, high = figure.interval
        interval = f" [{low:.2f}, {high:.2f}]"
    return f"{figure.value:.2f}{interval} n={figure.count}"


def reach(decided_alone: Reach) -> str:
    """What a judge decides alone, and what of that is wrong."""
    wrong = "" if decided_alone.wrong is None else f", wrong {decided_alone.wrong:.2f}"
    return f"{decided_alone.decided:.2f}{wrong}"


class CardFigures(NamedTuple):
    """What a card says of a judge with one metric.

    Args:
        question: The question to the judge that the card is about.
        figures: How well the judge's answers agree with people's labels.
    """

    question: str
    figures: tuple[Measured, ...]


def figures_of_cards(judge: str, run: RunFacts) -> dict[Signature, CardFigures]:
    """Find what cards say of the agreement of a run's judge with people's labels.

    A card holds figures for each question to the judge, and for each question the
    signature of the metric that asks it. A card fits if it is about the same judge with
    the same settings, and if a metric of the run has the same signature, which means
    that it is measured in the same way.

    For each metric the first card that fits counts. Cards in the folder or file that
    the environment variable ``RAGMETRICS_CARDS`` names come first, then the cards that
    ship with the package.

    Args:
        judge: Name of the judge.
        run: The facts of the run, with its metrics and the settings of its judges.

    Returns:
        What the first card that fits says of each metric, by the metric's signature.
        Metrics without such a card are left out. Example: a run of adherence and
        recall, and a card of the same judge on adherence alone: one entry.
    """
    signatures_of_run = set(run.metrics.values())
    figures_by_signature: dict[Signature, CardFigures] = {}
    for card in _cards():
        if card.judge != judge or card.details != run.details.get(judge):
            continue
        for question, figures in card.figures.items():
            signature = card.signatures[question]
            if signature in signatures_of_run:
                card_figures = CardFigures(question, figures)
                figures_by_signature.setdefault(signature, card_figures)
    return figures_by_signature


def quotes_of_cards(run: RunFacts) -> list[str]:
    """Say of each judge of a run how well it agrees with people.

    The figures are those of the judge's card, where its agreement with people's labels
    was measured.
    """
    sentences = []
    for judge in run.judges:
        phrases = _measured_agreement(judge, run)
        if not phrases:
            phrases.append(
                "how well it agrees with people is not measured (ragmetrics card)"
            )
        sentences.append(f"{judge}, against labels of people: {'; '.join(phrases)}.")
    return sentences


def _measured_agreement(judge: str, run: RunFacts) -> list[str]:
    """Quote the judge's card for each metric of the run; empty if no card fits."""
    phrases = []
    for signature, card_figures in figures_of_cards(judge, run).items():
        agreement = _means_over_sources(card_figures.figures)
        phrases.append(f"{signature.metric} {agreement}")
        if judge == EMBEDDED and signature.metric == "context_adherence":
            # its weights were fitted on the card's sources: add the worth on others
            phrases.append(unseen_worth())
    return phrases


def _means_over_sources(figures: Iterable[Measured]) -> str:
    """The two figures of a card that are quoted, as means over its sources."""
    cells = [
        f"{figure.measure} {cell(figure)} sources".replace(" n=", ", mean over ")
        for figure in figures
        if figure.source is None and figure.measure in _QUOTED_MEASURES
    ]
    return ", ".join(cells) or "one class only"


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
            cards.append(Card.model_validate_json(path.read_bytes()))
    return sorted(cards, key=lambda card: card.made, reverse=True)
