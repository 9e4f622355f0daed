"""The methods paragraph of a report: what was measured, how, by which judge, with references."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ragmetrics_core.data import EMBEDDED
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import Summary

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("methods.toml").read_text("utf-8"))
_METRICS, _COMBINATIONS, _REFERENCES = (_TEXTS[name] for name in ("definitions", "combinations", "references"))


def paragraphs(summary: Summary, run: RunFacts) -> tuple[str, ...]:
    """How the numbers of a report came about, for a paper or a protocol: paragraphs, and the references they name."""
    kinds = {numbers.metric: _kind(numbers.metric, run) for numbers in summary.metrics}
    definitions = [_definition(kind, run) for kind in _METRICS if kind in kinds.values()]
    others = [metric for metric, kind in kinds.items() if kind not in _METRICS]
    judges = ", ".join(run.judges) or "not recorded"
    models = f" (returned as {', '.join(summary.usage.models)})" if summary.usage.models else ""
    made = f"ragmetrics {run.version or 'of unknown version'}"
    first = f"{summary.judged} samples were evaluated with {made}; the judge was {judges}{models}."
    if definitions:
        first += f" {'. '.join(definitions)}."
    if others:
        first += f" Also measured: {', '.join(others)}."
    text = f"{first} {_intervals(summary)}"
    references = [reference for key, reference in _REFERENCES.items() if key in text]
    signatures = "; ".join(map(str, run.metrics.values()))
    second = f"Signatures: {signatures}." if signatures else ""
    return tuple(filter(None, (text, " ".join((*quoted(run), *summary.warnings)), second, " ".join(references))))


def _kind(metric: str, run: RunFacts) -> str:
    """The published name behind a metric's own: the first part of its prompt's signature, else the name."""
    return metric if metric in _METRICS or metric not in run.metrics else run.metrics[metric].metric


def _definition(kind: str, run: RunFacts) -> str:
    settings = run.metrics[kind].settings if kind in run.metrics else {}
    polls = settings.get("polls")
    known = f", {polls} polls at most" if polls else ""
    definition = _COMBINATIONS.get(settings.get("combination", ""), _METRICS[kind])
    if kind == "retrieval_accuracy" and definition == _METRICS[kind] and {*EMBEDDED} & {*run.judges}:
        definition += _TEXTS["lexical"][kind]
    return definition + known


def _intervals(summary: Summary) -> str:
    methods = dict.fromkeys(numbers.interval.method for numbers in summary.metrics if numbers.interval)
    missing = sum(sum(m.undefined.values()) + sum(m.failed.values()) for m in summary.metrics)
    kind = "Bounds (Waudby-Smith & Ramdas 2024) are" if summary.decisions else "Intervals are at 95 %"
    words = f"{kind} for the {summary.caption}; method: {'; '.join(methods)}." if methods else ""
    return words + f" Undefined and failed results ({missing}) stand outside the means and are counted." * bool(missing)


@cache
def card_of(judge: str) -> dict[str, Any]:
    """What ``benchmarks/cards.py`` measured of a judge, of those that ship; {} if there is nothing."""
    shipped, checkout = Path(__file__).with_name("cards"), Path(__file__).parents[2] / "docs" / "cards"
    found = [path for folder in (shipped, checkout) for path in folder.glob("*.json") if path.stem == judge]
    return json.loads(found[0].read_text("utf-8")) if found else {}


def quoted(run: RunFacts) -> list[str]:
    """What the card of each judge says of the metrics of a run, as set, with 95 % intervals, or that there is none."""
    asked, lines = [signature.model_dump() for signature in run.metrics.values()], []
    for judge in run.judges:
        card, told = card_of(judge), []
        for question in (at for at, own in card.get("signatures", {}).items() if own in asked):
            own = {it["measure"]: it for it in card["figures"][question] if it["source"] is None}
            cell = "{measure} {value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"
            cells = ", ".join(cell.format(**own[name]) for name in ("AUROC", "balanced accuracy"))
            told.append(f"{card['signatures'][question]['metric']} {cells}, mean over {own['AUROC']['count']} sources")
        known = "; ".join(told) or "how well it agrees with people is not measured (benchmarks/cards.py)"
        lines.append(f"{judge}, against labels of people: {known}.")
    return lines
