"""What a judge is worth on labelled data; two prompts compared; the band of a cascade.

    python benchmarks/cards.py --judge gpt-4o-mini --data labelled/ --limit 50 --out gpt-4o-mini.json

``docs/judges.md`` says what stands in a card, and which forms of labelled rows are read.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from card_measures import ASKING, Ask, Items, asking, band, judged, measured
from card_rows import labelled_files, read_labelled

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.agreement import measured_lines
from ragmetrics_core.cli.options import add, positive, show
from ragmetrics_core.data import RagMetricsError, SettingError, read_text, told, write_text
from ragmetrics_core.endpoints.limits import Limits
from ragmetrics_core.engine.dry_run import Estimate, counting_judges
from ragmetrics_core.metrics.registry import full_name
from ragmetrics_core.page.render import check_page, write_html
from ragmetrics_core.reporting.cards import Card, cell
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.agreement import measure_all, rival_measures

SHIPPED = Path("shipped")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default with those of the process, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared.add_judge(parser)
    told = "labelled rows, a file or a folder: our own form, LLM-AggreFact or RAGTruth; see docs/judges.md"
    add(parser, "--data", told, "DIR", Path, required=True)
    add(parser, "--limit", "at most N samples per question and source, drawn at random with seed 0", "N", positive)
    add(parser, "--out", "write the card as JSON, which reports quote from the folder RAGMETRICS_CARDS", "FILE", Path)
    add(parser, "--html", "write the card as an HTML page", "FILE", Path)
    add(parser, "--draws", "bootstrap resamples (500)", "N", int, 500)
    asked = parser.add_argument_group("instead of a card")
    add(asked, "--template", "compare this prompt with another one on the same rows", "FILE", Path)
    add(asked, "--against", "the other prompt: a file, or shipped (the default)", "PROMPT", Path, SHIPPED)
    told = "propose the band of a cascade: outside it this judge alone is wrong on at most this share of all verdicts"
    add(asked, "--band", told, "LOSS", shared.share)
    add(asked, "--metric", "the metric that asks (adherence)", "NAME", default="adherence")
    shared.add_calls(parser)
    shared.add_settings(parser.add_argument_group("limits"), Limits)
    options = parser.parse_args(arguments)
    try:
        files = [file.resolve() for file in labelled_files(options.data)]
        for path in (options.out, options.html):
            if path is not None and path.resolve() in files:
                raise SettingError(f"{path} would overwrite labelled rows: name another file to write")
        return _card(options)
    except RagMetricsError as error:
        print(f"cards.py: {error}", file=sys.stderr)
        return 2


def _card(options: argparse.Namespace) -> int:
    judge, limits = shared.judge_from(options.judge, options.api_base), shared.settings_from(options, Limits)
    if options.html:
        check_page(options.html)
    items, draws = read_labelled(options.data, options.limit), 0 if options.dry_run else options.draws
    work: Callable[[Ask], Card | list[str]] = partial(measured, judge, items, draws=draws)
    if options.template or options.band is not None:
        work = partial(_two_prompts if options.template else _bands, options, items)
    if options.dry_run:
        low, high = counting_judges(judge)
        for counter in (low, high):
            work(asking(counter))
        show(f"{Estimate(len(items), low.total, high.total).text()}\nNot counted: each sample is asked once more.")
        return 0
    how = {"concurrency": options.concurrency, "progress": options.progress}
    made = work(asking(judge, store=shared.store(options), limits=limits, **how))
    show("\n".join(_written(made, options) if isinstance(made, Card) else made))
    return 0


def _written(card: Card, options: argparse.Namespace) -> list[str]:
    """The figures over all sources, after the whole card was written where it is wanted."""
    given = ["--judge", card.judge, "--data", options.data.name, "--draws", str(options.draws)]
    given += ["--limit", str(options.limit)] if options.limit else []
    more = {
        "command": f"python benchmarks/cards.py {shlex.join(given)}",
        "inputs": inputs_of(labelled_files(options.data)),
    }
    card = card.model_copy(update=more)
    if options.out:
        write_text(options.out, card.model_dump_json(indent=1) + "\n", "the card")
    if options.html:
        write_html(options.html, "card.html.j2", (), {"card": card, "cell": cell})
    lines = [f"{card.judge}, 95 % intervals; n: sources, from abstained on answers. Each source: --html, --out"]
    for question, own in card.figures.items():
        lines += [f"{question}, asked by {card.signatures[question]}"]
        lines += [f"  {one.measure:44} {cell(one)}" for one in own if one.source is None]
    return lines


def inputs_of(paths: Iterable[Path]) -> tuple[Input, ...]:
    """Files as facts of a run name them; ``InputError`` if one cannot be read."""
    with told("labelled rows cannot be read"):
        return tuple(Input(name=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths)


def _judged(options: argparse.Namespace, items: Items, ask: Ask, template: Path = SHIPPED) -> Items:
    """The verdicts by the metric that ``--metric`` names, asked with a prompt of its own where there is one."""
    question = next((name for name, kind in ASKING.items() if kind().name == full_name(options.metric)), "")
    own = [item for item in items if item.question == question]
    if not own:
        raise SettingError(f"nothing is labelled for {options.metric}; --metric names another metric")
    return judged(ask, ASKING[question](**{} if template == SHIPPED else {"template": read_text(template)}), own)


def _two_prompts(options: argparse.Namespace, items: Items, ask: Ask) -> list[str]:
    """The differences of two prompts over the verdicts that both gave, and where their verdicts differ."""
    first, second = (_judged(options, items, ask, template) for template in (options.template, options.against))
    pairs = [(one, replace(mine, rival=other.score)) for one, two in zip(first, second, strict=True)
             for mine, other in zip(one.verdicts, two.verdicts, strict=False)]  # fmt: skip
    lines = [f"{len(pairs)} verdicts by both prompts, of {len(first)} samples; the first less the second:"]
    lines += measured_lines(measure_all([row for _, row in pairs], rival_measures(0.5), draws=options.draws))
    apart = [(it, row) for it, row in pairs if row.rival is not None and (row.score >= 0.5) != (row.rival >= 0.5)]
    lines.append(f"Verdicts that differ: {len(apart)}; source, id, label, first and second score")
    return lines + [f"  {it.source} {it.sample.id} {row.yes:d} {row.score:.3f} {row.rival:.3f}" for it, row in apart]


def _bands(options: argparse.Namespace, items: Items, ask: Ask) -> list[str]:
    """The band, and what it would cost on each source if it were chosen on the others."""
    rows = [row for it in _judged(options, items, ask) for row in it.verdicts]
    if not rows:
        raise SettingError("nothing was scored, so no band is known")
    lines = []
    for source in dict.fromkeys(row.source for row in rows):
        others, own = ([row for row in rows if (row.source == source) is wanted] for wanted in (False, True))
        if others:
            lines.append(f"  {source}, with the band of the other sources: {band(others, own, options.band)}")
    told = f"Chosen on {len(rows)} verdicts; the strong judge is taken to be always right."
    return [f"{band(rows, rows, options.band)}. {told}", *lines]


if __name__ == "__main__":
    sys.exit(main())
