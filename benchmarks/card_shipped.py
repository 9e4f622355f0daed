"""The card of the embedded judge, as it stands in docs/cards.

    python benchmarks/card_shipped.py DATA [--limit N]

It judges each source with weights fitted on the other sources, because the shipped ones
were fitted on these very rows. --limit draws rows of each source with seed 0, as
``ragmetrics card`` does. The card of a model is made by ``ragmetrics card`` itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jinja2
from fit_lexical import (
    Item,
    adherence_items,
    fact_items,
    fit,
    usefulness_items,
)
from labelled import EASY

from ragmetrics_core.data import unseen_worth
from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.labelling.labelled_samples import (
    LabelledSample,
    inputs_of,
    read_labelled,
)
from ragmetrics_core.labelling.measured_judges import Ask, asking, measure_judge
from ragmetrics_core.lexical import lexical_judge as embedded
from ragmetrics_core.lexical.features import Weights
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.judge_card import Card, cell

FOLDER = Path(__file__).parents[1] / "docs" / "cards"
LEFT_OUT = (
    "Each source was judged with weights fitted on the other sources; the shipped"
    " weights were fitted on all."
)
UNSEEN = (
    f"Adherence beyond these sources: {unseen_worth()}. Its numbers are"
    " scores of words, and no probabilities."
)
CONSTRUCTED = (
    "Easy by construction, because the texts that do not fit come from other documents"
    " or were cut out:"
    f" {', '.join(sorted(EASY))}."
)


def left_out(judge: Judge, data: Path, items: Sequence[LabelledSample]) -> Ask:
    """A way to ask the embedded judge, with weights that do not know the source that is asked about."""
    fits: dict[str, list[Item]] = {
        "ADHERENT": list(adherence_items(data)),
        "USEFUL": list(usefulness_items(data)),
        "FACT": list(fact_items(data)),
    }
    plain, sources = asking(judge), {item.sample.id: item.source for item in items}

    @cache
    def weights(source: str) -> dict[str, Weights]:
        without = {
            name: [item for item in own if item.source != source]
            for name, own in fits.items()
        }
        return {name: fit(own, name) for name, own in without.items()}

    def source_of(sample: Sample) -> str:
        return sources[(sample.id or "").partition(" | ")[0]]

    def ask(
        metric: Metric, samples: Sequence[Sample], again: bool
    ) -> Sequence[MetricResult]:
        found: dict[int, MetricResult] = {}
        for source in dict.fromkeys(map(source_of, samples)):
            own = [
                at for at, sample in enumerate(samples) if source_of(sample) == source
            ]
            with _weighing(weights(source)):
                found |= zip(
                    own, plain(metric, [samples[at] for at in own], again), strict=True
                )
        return [found[at] for at in range(len(samples))]

    return ask


@contextmanager
def _weighing(weights: dict[str, Weights]) -> Iterator[None]:
    shipped = {name: getattr(embedded, name) for name in weights}
    try:
        for name, own in weights.items():
            setattr(embedded, name, own)
        yield
    finally:
        for name, own in shipped.items():
            setattr(embedded, name, own)


def text(card: Card) -> str:
    """The card of a judge as Markdown."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return made.get_template("card.md.j2").render(card=card, cell=cell)


def main() -> None:
    """Make the cards."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument("--limit", type=int, help="most rows per question and source")
    parser.add_argument("--sources", nargs="+", help="by default all")
    parser.add_argument(
        "--draws", type=int, default=500, help="bootstrap resamples (default 500)"
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="the folder (docs/cards)"
    )
    options = parser.parse_args()
    items, started = read_labelled(options.data, options.limit), time.monotonic()
    items = [
        item for item in items if not options.sources or item.source in options.sources
    ]
    notes = [LEFT_OUT, UNSEEN]
    command = "uv run benchmarks/card_shipped.py DATA"
    if options.limit:
        command += f" --limit {options.limit}"
        notes.append(f"At most {options.limit} rows of each source and question.")
    if options.sources:
        command += f" --sources {' '.join(options.sources)}"
    judge = LexicalJudge()
    ask = left_out(judge, options.data, items)
    card = measure_judge(judge, items, ask, draws=options.draws).model_copy(
        update={
            "command": command,
            "inputs": inputs_of(options.data),
            "notes": (*notes, CONSTRUCTED),
        }
    )
    options.out.mkdir(exist_ok=True)
    file = options.out / "lexical.json"
    file.write_text(card.model_dump_json(indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(text(card), encoding="utf-8")
    print(f"{file} and .md: {len(items)} rows, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
