"""What a judge is worth on labelled data; two prompts compared; the band of a cascade.

    python benchmarks/cards.py --judge gpt-4o-mini --data labelled/ --limit 50 --out gpt-4o-mini.json

``docs/judges.md`` says what stands in a card, and which forms of labelled rows are read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from card_measuring import ASKING, Judged, asking, band, judged, measured
from card_page import card_text, inputs_of, write_card
from card_rows import LabelledSample, labelled_files, read_labelled

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.agreement import measured_lines
from ragmetrics_core.cli.options import add, positive, show
from ragmetrics_core.data import RagMetricsError, SettingError, read_text, write_text
from ragmetrics_core.endpoints.limits import Limits
from ragmetrics_core.engine.dry_run import Estimate, counting_judges
from ragmetrics_core.metrics.registry import full_name
from ragmetrics_core.statistics.agreement import Labelled, measure_all, rival_measures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default with those of the process, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared.add_judge(parser)
    told = "labelled rows, a file or a folder: our own form, LLM-AggreFact or RAGTruth; see docs/judges.md"
    add(parser, "--data", told, "DIR", Path, required=True)
    add(parser, "--limit", "at most N samples per question and source, drawn at random with seed 0", "N", positive)
    add(parser, "--out", "write the card as JSON", "FILE", Path)
    add(parser, "--html", "write the card as an HTML page", "FILE", Path)
    add(parser, "--draws", "bootstrap resamples (500)", "N", int, 500)
    asked = parser.add_argument_group("instead of a card")
    add(asked, "--template", "compare this prompt with another one on the same rows", "FILE", Path)
    add(asked, "--against", "the other prompt: a file, or shipped (the default)", "PROMPT", Path, Path("shipped"))
    told = "propose the band of a cascade: outside it this judge alone is wrong on at most this share of all verdicts"
    add(asked, "--band", told, "LOSS", shared.share)
    add(asked, "--metric", "the metric that asks (adherence)", "NAME", default="adherence")
    shared.add_calls(parser)
    shared.add_settings(parser.add_argument_group("limits"), Limits)
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except RagMetricsError as error:
        print(f"cards.py: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    files = labelled_files(options.data)
    for path in (options.out, options.html):
        if path is not None and path.resolve() in [file.resolve() for file in files]:
            raise SettingError(f"{path} holds the labelled rows: name another file to write")
    judge = shared.judge_from(options.judge, options.api_base)
    items = drawn(read_labelled(options.data), options.limit)
    if options.dry_run:
        low, high = counting_judges(judge)
        for counter in (low, high):
            measured(counter, items, asking(counter), draws=0)
        show(f"{Estimate(len(items), low.total, high.total).text()}\nNot counted: each sample is asked once more.")
        return 0
    limits, store = shared.settings_from(options, Limits), shared.store(options)
    how = {"concurrency": options.concurrency, "progress": options.progress}
    ask = asking(judge, store=store, limits=limits, **how)
    question = next(name for name, kind in ASKING.items() if kind().name == full_name(options.metric))
    own = [item for item in items if item.question == question]
    if options.template is not None:
        prompts = [path for path in (options.template, options.against) if str(path) != "shipped"]
        made = [*(ASKING[question](template=read_text(path)) for path in prompts), ASKING[question]()]
        first, second = (judged(ask, metric, own) for metric in made[:2])
        show("\n".join(_compared(first, second, options.draws)))
    elif options.band is not None:
        rows = [row for it in judged(ask, ASKING[question](), own) for row in it.verdicts]
        show("\n".join(_band(rows, options.band)))
    else:
        card = measured(judge, items, ask, draws=options.draws, inputs=inputs_of(files))
        if options.out:
            write_text(options.out, card.model_dump_json(indent=1) + "\n", "the card")
        if options.html:
            write_card(options.html, card)
        show(card_text(card))
    return 0


def drawn(items: Sequence[LabelledSample], limit: int | None) -> list[LabelledSample]:
    """At most so many samples per question and source, drawn at random."""
    places: dict[tuple[str, str], list[LabelledSample]] = {}
    for item in items:
        places.setdefault((item.question, item.source), []).append(item)
    draw = Random(0)
    return [item for own in places.values() for item in draw.sample(own, min(limit or len(own), len(own)))]


def _compared(first: Sequence[Judged], second: Sequence[Judged], draws: int) -> list[str]:
    """The differences of two prompts over the verdicts that both gave, and where their verdicts differ."""
    pairs = [(one.item, replace(mine, rival=other.score)) for one, two in zip(first, second, strict=True)
             for mine, other in zip(one.verdicts, two.verdicts, strict=False)]  # fmt: skip
    lines = [f"{len(pairs)} verdicts by both prompts, of {len(first)} samples; the first less the second:"]
    lines += measured_lines(measure_all([row for _, row in pairs], rival_measures(0.5), draws=draws))
    apart = [(it, row) for it, row in pairs if row.rival is not None and (row.score >= 0.5) != (row.rival >= 0.5)]
    lines.append(f"Verdicts that differ: {len(apart)}; source, id, label, first and second score")
    return lines + [f"  {it.source} {it.sample.id} {row.yes:d} {row.score:.3f} {row.rival:.3f}" for it, row in apart]


def _band(rows: Sequence[Labelled], loss: float) -> list[str]:
    """The band, and what it would cost on each source if it were chosen on the others."""
    if not rows:
        raise SettingError("nothing is labelled for this metric, or nothing was scored; --metric names another one")
    found, lines = band(rows, rows, loss), []
    for source in dict.fromkeys(row.source for row in rows):
        others, own = ([row for row in rows if (row.source == source) is wanted] for wanted in (False, True))
        if others:
            lines.append(f"  {source}, with the band of the other sources: {band(others, own, loss)}")
    return [f"{found}. Chosen on {len(rows)} verdicts; the strong judge is taken to be always right.", *lines]


if __name__ == "__main__":
    sys.exit(main())
