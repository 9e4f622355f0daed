"""``ragmetrics card``: what a judge is worth on labelled rows."""

import argparse
import shlex
from collections.abc import Iterable

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.printing import show
from ragmetrics_core.data import SettingError, write_text
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.labelling.labelled_samples import inputs_of, read_labelled
from ragmetrics_core.labelling.labels import draw, metric_of_labels, read_labels
from ragmetrics_core.labelling.measured_judges import (
    ASKING,
    Ask,
    LabelledSamples,
    asking,
    measure_judge,
    measure_run,
)
from ragmetrics_core.metrics.registry import NAMED_METRICS, full_name
from ragmetrics_core.models.addresses import public_address
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.page.render import write_html, write_page
from ragmetrics_core.reporting.judge_card import Card, cell
from ragmetrics_core.reporting.report import Report

_LONGEST_SETTING = 60


def run(options: argparse.Namespace) -> int:
    """Make a judge's card: how well it does on samples that people have labelled.

    The judge is asked, or with ``--results`` the scores of a run are taken. With
    ``--dry-run`` the calls are only counted, with ``--to-label`` rows are drawn to be
    labelled.

    Returns:
        The exit code, 0.

    Raises:
        SettingError: If options are missing, or do not go together.
    """
    if options.data is None and not options.to_label:
        raise SettingError(
            "--data names labelled rows, or labels of the rows of --results;"
            " --results with --to-label N draws rows to be labelled"
        )
    if options.results is not None:
        # options of a judge that is asked: a run was judged
        for name in ("judge", "limit", "settings", "dry_run"):
            if getattr(options, name):
                option = "set" if name == "settings" else name.replace("_", "-")
                raise SettingError(
                    f"--{option} is for a judge that is asked, and the rows of --results"
                    " are judged: leave one of them out"
                )
        return _draw_rows(options) if options.to_label else _measure_results(options)
    judge = chosen_judges.judge_from(options.judge, options)
    limits = shared.settings_from(options, Limits)
    samples: LabelledSamples = read_labelled(options.data, options.limit)
    if options.metric is not None:
        kind = NAMED_METRICS.get(full_name(options.metric))
        samples = [sample for sample in samples if ASKING[sample.question] is kind]
        if not samples:
            raise SettingError(
                f"nothing is labelled for {options.metric}; --metric names another"
                " metric"
            )
    if options.dry_run:
        return chosen_judges.dry_run(
            judge,
            len(samples),
            "samples",
            lambda counter: _make_card(options, judge, samples, asking(counter)),
            "\nNot counted: each sample is asked once more.",
        )
    ask = asking(
        judge,
        store=shared.store(options),
        limits=limits,
        concurrency=options.concurrency,
        progress=options.progress,
    )
    _show_and_write(_make_card(options, judge, samples, ask), options)
    return 0


def _draw_rows(options: argparse.Namespace) -> int:
    """Draw rows of a run, write the page on which people label them; return exit code 0.

    Raises:
        SettingError: If no page is named, or labels are.
    """
    if options.report is None or options.data or options.out:
        raise SettingError(
            "--to-label writes the page on which people label: it takes --results and"
            " --report, and no --data or --out"
        )
    report = Report.from_jsonl(options.results)
    ids = draw(report, options.to_label)
    write_page(
        options.report,
        report.results,
        report.summary(),
        report.run,
        report.glance(),
        to_label=ids,
    )
    show(
        f"{len(ids)} rows drawn. Label them on {options.report}, download the labels,"
        f" then: ragmetrics card --results {options.results} --data"
        " labels.METRIC.jsonl"
    )
    return 0


def _measure_results(options: argparse.Namespace) -> int:
    """Make the card of a run's judge by labels of the run's rows; return exit code 0."""
    report = Report.from_jsonl(options.results)
    labels = read_labels(options.data)
    metric = metric_of_labels(report, labels, options.metric)
    card, left_over = measure_run(
        report,
        metric,
        labels,
        cluster=options.cluster,
        draws=options.draws,
        assume_random=options.assume_random,
    )
    words = ["--results", options.results.name, "--data", options.data.name]
    words += ["--metric", metric, "--draws", options.draws]
    _show_and_write(_with_origin(card, words, options), options, left_over)
    return 0


def _make_card(
    options: argparse.Namespace, judge: Judge, samples: LabelledSamples, ask: Ask
) -> Card:
    """Measure a judge."""
    # Intervals rest on so many resamples, drawn at random. A dry run shows none.
    draws = 0 if options.dry_run else options.draws
    card = measure_judge(judge, samples, ask, draws=draws, settings=options.settings)
    words: list[object] = ["--judge", options.judge or judge.name]
    words += ["--data", options.data.resolve().name, "--draws", options.draws]
    if options.api_base:
        words += ["--api-base", public_address(options.api_base)]
    if options.api_key_env:
        words += ["--api-key-env", options.api_key_env]
    if options.limit:
        words += ["--limit", options.limit]
    if options.metric:
        words += ["--metric", options.metric]
    for setting in options.settings:
        may_hold_text_of_sample = len(setting) > _LONGEST_SETTING
        words += ["--set", "…" if may_hold_text_of_sample else setting]
    return _with_origin(card, words, options)


def _show_and_write(
    card: Card, options: argparse.Namespace, left_over: Iterable[str] = ()
) -> None:
    """Print a card, and write it as JSON and as a page, where these are asked for.

    Example: with ``--out card.json`` the last line is "Card: card.json".
    """
    paths = [path for path in (options.out, options.report) if path is not None]
    show(
        *_lines_on_card(card),
        *(f"! {sentence}" for sentence in left_over),
        *(f"Card: {path}" for path in paths),
    )
    if options.out:
        write_text(options.out, card.model_dump_json(indent=1) + "\n", "the card")
    if options.report:
        data = {"card": card, "cell": cell}
        write_html(options.report, "card.html.j2", (), data)


def _lines_on_card(card: Card) -> list[str]:
    """Return lines with the figures over all sources for each question, and notes."""
    lines = [
        f"{card.judge}, 95 % intervals; n: answers or clusters of them, above abstained"
        " sources where there are several. Each source: --report, --out"
    ]
    for question, figures in card.figures.items():
        lines.append(f"{question}, asked by {card.signatures[question]}")
        sources = {figure.source for figure in figures} - {None}
        # the mean over one source is that source, whose figure counts its answers
        only_source = sources.pop() if len(sources) == 1 else None
        shown = {}
        for figure in figures:
            if figure.source == only_source:
                shown[figure.measure] = figure
            elif figure.source is None:
                shown.setdefault(figure.measure, figure)
        for measure, figure in shown.items():
            lines.append(f"  {measure:44} {cell(figure)}")
    for mean in card.corrected.values():
        lines.append(f"{mean.sentence}.")
    return [*lines, *card.notes]


def _with_origin(
    card: Card, words: Iterable[object], options: argparse.Namespace
) -> Card:
    """Name in a card the command line of these words, and the files of labelled data."""
    command = f"ragmetrics card {shlex.join(map(str, words))}"
    origin = {"command": command, "inputs": inputs_of(options.data)}
    return card.model_copy(update=origin)
