"""``ragmetrics card``: what a judge is worth on labelled rows; two prompts compared; the band of a cascade."""

import argparse
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.agreement import compared
from ragmetrics_core.cli.options import add, command, positive, show
from ragmetrics_core.data import EMBEDDED, SettingError, read_text, write_text
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.labelling.measured_judges import (
    ASKING,
    Ask,
    LabelledSamples,
    asking,
    judged,
    measured,
)
from ragmetrics_core.labelling.published import inputs_of, read_labelled
from ragmetrics_core.metrics.registry import METRICS, full_name
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.models.urls import public
from ragmetrics_core.page.render import check_page, write_html
from ragmetrics_core.reporting.judge_card import CASCADED, cell, reach
from ragmetrics_core.statistics.deciding import Decided, left_out, reached
from ragmetrics_core.statistics.rater_agreement import Labelled

_SHIPPED = Path("shipped")
_BANDS = (
    "take adherence or utilization, and as cheap judge the embedded one or an encoder"
)


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = command(commands, "card", _card)
    shared.add_judge(parser)
    told = (
        "labelled rows, a file or a folder: our own form, LLM-AggreFact or RAGTruth;"
        " see docs/judges.md"
    )
    add(parser, "--data", told, "DIR", Path, required=True)
    add(
        parser,
        "--limit",
        "at most N samples per question and source, drawn at random with seed 0",
        "N",
        positive,
    )
    told = (
        "only what this metric asks; by default everything labelled, with --template"
        " and --band adherence"
    )
    add(parser, "--metric", told, "NAME")
    add(
        parser,
        "--out",
        "write the card as JSON; reports quote those in RAGMETRICS_CARDS",
        "CARD.json",
        Path,
    )
    add(parser, "--html", "write the card as an HTML page", "CARD.html", Path)
    add(parser, "--draws", "bootstrap resamples (500)", "N", positive, 500)
    asked = parser.add_argument_group(
        "instead of a card"
    ).add_mutually_exclusive_group()
    add(
        asked,
        "--template",
        "compare this prompt with another one on the same rows",
        "FILE",
        Path,
    )
    told = (
        "propose the band of a cascade: outside it this judge is wrong on at most this"
        " share of the verdicts, on each source"
    )
    add(asked, "--band", told, "LOSS", shared.share)
    add(
        parser,
        "--against",
        "with --template: the other prompt, a file or shipped (the default)",
        "PROMPT",
        Path,
    )
    shared.add_calls(parser)
    shared.add_settings(parser.add_argument_group("limits"), Limits)


def _card(options: argparse.Namespace) -> int:
    judge, limits = (
        shared.judge_from(options.judge, options),
        shared.settings_from(options, Limits),
    )
    whole = options.template is None and options.band is None
    _check(options, judge, whole)
    items: LabelledSamples = read_labelled(options.data, options.limit)
    if name := options.metric or (None if whole else "adherence"):
        items = [
            item
            for item in items
            if ASKING[item.question] is METRICS.get(full_name(name))
        ]
        if not items:
            raise SettingError(
                f"nothing is labelled for {name}; --metric names another metric"
            )
    work = partial(
        _measured if whole else _two_prompts if options.template else _bands,
        options,
        judge,
        items,
    )
    if options.dry_run:
        more = "\nNot counted: each sample is asked once more."
        return shared.dry_run(
            judge, len(items), "samples", lambda counter: work(asking(counter)), more
        )
    how = {"concurrency": options.concurrency, "progress": options.progress}
    show(
        "\n".join(
            work(asking(judge, store=shared.store(options), limits=limits, **how))
        )
    )
    return 0


def _check(options: argparse.Namespace, judge: Judge, whole: bool) -> None:
    """Refuse what does not go together or cannot be written.

    The check comes before anything is judged.
    """
    if options.against and not options.template:
        raise SettingError(
            "--against names the other prompt; the first one is --template FILE"
        )
    if (options.out or options.html) and not whole:
        raise SettingError(
            "--out and --html are for a card; what --template and --band find is"
            " printed"
        )
    if options.template and judge.name in EMBEDDED:
        raise SettingError(
            "the embedded judge reads no prompt; name a model: --judge gpt-4o-mini"
        )
    if options.html:
        check_page(options.html)


def _measured(
    options: argparse.Namespace, judge: Judge, items: LabelledSamples, ask: Ask
) -> list[str]:
    """Return the figures over all sources.

    The whole card is written first, where it is wanted.
    """
    draws = 0 if options.dry_run else options.draws
    card = measured(judge, items, ask, draws=draws)
    made_by = {
        "command": _command(options, judge),
        "inputs": inputs_of(options.data),
    }
    card = card.model_copy(update=made_by)
    if options.out and not options.dry_run:
        write_text(options.out, card.model_dump_json(indent=1) + "\n", "the card")
    if options.html and not options.dry_run:
        shown = {"card": card, "cell": cell, "reach": reach}
        write_html(options.html, "card.html.j2", (), shown)
    lines = [
        f"{card.judge}, 95 % intervals; n: sources, from abstained on answers. Each"
        " source: --html, --out"
    ]
    for question, figures in card.figures.items():
        lines.append(f"{question}, asked by {card.signatures[question]}")
        for figure in figures:
            if figure.source is None:
                lines.append(f"  {figure.measure:44} {cell(figure)}")
    written = [path for path in (options.out, options.html) if path]
    return lines + [f"Card: {path}" for path in written]


def _command(options: argparse.Namespace, judge: Judge) -> str:
    """The command that makes the card again, without the place of the data and keys."""
    words = ["--judge", options.judge or judge.name]
    words += ["--data", options.data.resolve().name, "--draws", options.draws]
    if options.api_base:
        words += ["--api-base", public(options.api_base)]
    if options.api_key_env:
        words += ["--api-key-env", options.api_key_env]
    for name in ("limit", "metric"):
        if value := getattr(options, name):
            words += [f"--{name}", value]
    return f"ragmetrics card {shlex.join(map(str, words))}"


def _two_prompts(
    options: argparse.Namespace, _: Judge, items: LabelledSamples, ask: Ask
) -> list[str]:
    """Return the differences of two prompts, and where their verdicts differ.

    The differences are over the verdicts that both prompts gave.
    """
    kind, given = (
        ASKING[items[0].question],
        (options.template, options.against or _SHIPPED),
    )
    metrics = [
        kind() if own == _SHIPPED else kind(template=read_text(own)) for own in given
    ]
    first, second = (judged(ask, metric, items) for metric in metrics)
    both = [
        (it.verdicts, own.verdicts)
        for it, own in zip(first, second, strict=True)
        if it.verdicts and own.verdicts
    ]
    if not both:
        raise SettingError(
            "no sample was scored by both prompts, so nothing can be compared"
        )
    told = (
        f"{len(both)} of {len(items)} samples were scored by both prompts; the first"
        " less the second:"
    )
    groups = [
        [
            replace(a, rival=b.score, rival_verdict=b.verdict)
            for a, b in zip(*pair, strict=True)
        ]
        for pair in both
    ]
    return [told, *compared(groups, 0.5, options.draws)]


def _bands(
    options: argparse.Namespace, _: Judge, items: LabelledSamples, ask: Ask
) -> list[str]:
    """Return the band, and what it would cost on each source.

    The cost on a source is that of the band chosen on the other sources.
    """
    rows, metric = list[Labelled](), ASKING[items[0].question]()
    # the first one shows whether the others are worth their price
    for part in (items[:1], items[1:]):
        rows += [row for it in judged(ask, metric, part) for row in it.verdicts]
        if any(row.verdict is None for row in rows) and not options.dry_run:
            raise SettingError(
                f"a cascade sees no probability of these verdicts by {metric.name};"
                f" {_BANDS}"
            )
    if not rows:
        raise SettingError("nothing was scored, so no band is known")
    question_type = CASCADED[items[0].question]
    loss = options.band
    chosen = reached(rows, rows, "lost", loss, source=None)
    lines = [
        f"band={{{question_type!r}: ({chosen.low:g}, {chosen.high:g})}}",
        f"It {_in_words(chosen)}, means over sources. Chosen on {len(rows)} verdicts;"
        " the strong judge is taken to be always right.",
    ]
    others = left_out(rows, "lost", loss)
    lines += [
        f"  {one.source}, with the band of the other sources"
        f" ({one.low:g}, {one.high:g}): {_in_words(one)}"
        for one in others
    ]
    if others:
        mean_loss = fmean(one.lost for one in others)
        lines.append(f"  Sources that the band does not know lose {mean_loss:.3f}.")
    return lines


def _in_words(one: Decided) -> str:
    """What a band asks the strong judge for, and what it loses."""
    return f"asks for {1 - one.decided:.0%} of the verdicts and loses {one.lost:.3f}"
