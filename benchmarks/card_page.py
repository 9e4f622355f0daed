"""The card of a judge, what it is worth per question and source, and how it is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
from pydantic import Field

import ragmetrics_core.page
from ragmetrics_core.data import Frozen, InputError, Signature, write_text
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.agreement import Measured

EASY = frozenset({"clapnq", "clapnq_sentences", "clapnq_ablated", "mtrag_un", "xquad_en"})
"""Sources that are easy by construction: negatives from other documents, or cut out of the contexts."""


class Card(Frozen):
    """What a judge is worth; verdicts are scores from one half on."""

    judge: str = Field(description="name of the judge")
    details: dict[str, str] = Field({}, description="its settings that change replies")
    signatures: dict[str, Signature] = Field(description="by question, the metric that asked it")
    version: str = Field(description="version of ragmetrics")
    made: str = Field(description="when it was measured, ISO 8601 in UTC")
    inputs: tuple[Input, ...] = Field((), description="the files of labelled data")
    notes: tuple[str, ...] = Field((), description="what else a reader must know")
    figures: dict[str, tuple[Measured, ...]] = Field(
        description="by question; source None: the mean over sources, of shares and costs that over all answers"
    )


def cell(one: Measured) -> str:
    """A figure with its interval and n."""
    return f"{one.value:.2f}" + (" [{:.2f}, {:.2f}]".format(*one.interval) if one.interval else "") + f" n={one.count}"


def inputs_of(paths: Iterable[Path]) -> list[Input]:
    """Files as facts of a run name them; ``InputError`` if one cannot be read."""
    try:
        return [Input(name=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None


def card_text(card: Card) -> str:
    """The card of a judge as Markdown."""
    return _rendered("card.md.j2", card)


def write_card(path: Path, card: Card) -> None:
    """Write the card of a judge as one HTML page."""
    style = Path(*ragmetrics_core.page.__path__, "report.css").read_text(encoding="utf-8")
    script_hash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="  # of no script
    write_text(path, _rendered("card.html.j2", card, style=style, script_hash=script_hash), "the page")


def _rendered(template: str, card: Card, **more: Any) -> str:
    folders = [Path(__file__).parent, *ragmetrics_core.page.__path__]
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders), autoescape=template.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return made.get_template(template).render(card=card, cell=cell, easy=EASY, **more)
