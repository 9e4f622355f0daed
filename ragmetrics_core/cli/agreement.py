"""``ragmetrics label draw`` and ``ragmetrics agreement``, on labels of people.

The second says how well a judge's scores agree with the labels.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import add, command, flag, positive, share, show
from ragmetrics_core.data import InputError, SettingError, find_metric
from ragmetrics_core.labelling.labels import (
    Label,
    calibrate,
    certify_precision,
    describe_left_over,
    draw,
    group_by_cluster,
    match_labels,
    read_labels,
)
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.calibration import curve
from ragmetrics_core.statistics.means import FEWEST_CLUSTERS
from ragmetrics_core.statistics.rater_agreement import (
    Labelled,
    Measured,
    measure_all,
    measures,
    rival_measures,
)

_RESULTS = "results of a run; samples need ids"


def add_to(commands: Any) -> None:
    """Add both commands to the parser."""
    parser = command(commands, "agreement", _agreement)
    add(parser, "results", _RESULTS, "RESULTS.jsonl", Path)
    help_text = (
        'lines such as {"id": "s1", "label": 1, "source": "faq"}; label may be a list,'
        " one per annotator"
    )
    add(parser, "labels", help_text, "LABELS.jsonl", Path)
    shared.add_metric(parser)
    add(
        parser,
        "--label",
        "where the label is, e.g. labels.adherent",
        "PATH",
        default="label",
    )
    add(
        parser,
        "--threshold",
        "scores from T on are a yes (0.5); fix it on other data than these",
        "T",
        share,
        0.5,
    )
    add(
        parser, "--against", "results of another judge, to compare", "OTHER.jsonl", Path
    )
    flag(
        parser,
        "--calibrate",
        "also the mean that people would give, from labels drawn at random (PPI++)",
    )
    shared.add_cluster(parser)
    help_text = (
        "also the lowest threshold from which on at least this share of scores is"
        " right, with 95 %% confidence"
    )
    add(parser, "--certify-precision", help_text, "P", float)
    flag(parser, "--assume-random", "labels that no draw recorded are a random sample")
    add(parser, "--draws", "bootstrap resamples (500)", "N", positive, 500)
    labels = shared.group(commands, "label")
    drawing = command(labels, "draw", _draw)
    add(drawing, "results", _RESULTS, "RESULTS.jsonl", Path)
    add(drawing, "--n", "how many (100)", "N", int, 100)
    shared.add_metric(drawing)
    add(
        drawing,
        "--stratify-by",
        "draw evenly over the range of scores",
        choices=("score",),
    )
    add(
        drawing,
        "--seed",
        "of the draw, so that it can be repeated",
        "N",
        int,
        required=True,
    )
    add(
        drawing, "--out", "fill in the labels here", "LABELS.jsonl", Path, required=True
    )


def _draw(options: argparse.Namespace) -> int:
    """Draw samples to be labelled by people, and write them to a new file."""
    report = Report.from_jsonl(options.results)
    metric = _metric(report, options.metric)
    rows = draw(
        report,
        metric,
        options.n,
        seed=options.seed,
        by_score=options.stratify_by is not None,
    )
    try:
        with options.out.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(map(json_line, rows))
    except FileExistsError:
        raise InputError(
            f"{options.out} exists, and may hold labels; name another file"
        ) from None
    except OSError as error:
        raise InputError(
            f"the labels cannot be written to {options.out}: {error.strerror}"
        ) from error
    show(
        f"{len(rows)} samples drawn: {options.out}. Put 1 or 0 in the place of each"
        f" null, then: ragmetrics agreement {options.results} {options.out} --metric"
        f" {metric} --calibrate"
    )
    return 0


def _agreement(options: argparse.Namespace) -> int:
    """Print how a judge agrees with people, and what else was asked for."""
    report = Report.from_jsonl(options.results)
    rival = Report.from_jsonl(options.against) if options.against else None
    metric = _metric(report, options.metric)
    labels = read_labels(options.labels, column=options.label)
    rows = match_labels(report, metric, labels, rival)
    clusters = group_by_cluster(rows, report, rival, cluster=options.cluster)
    figures = measure_all(clusters, measures(options.threshold), draws=options.draws)
    lines = [_what_was_measured(report, metric, len(rows), len(clusters), options)]
    lines += _warnings_of_few_clusters(clusters)
    lines += [
        f"! {sentence}" for sentence in describe_left_over(report, metric, labels)
    ]
    lines += _lines_on_figures(figures)
    lines += _lines_on_calibration_curve(clusters)
    if rival is not None:
        judges = ", ".join(rival.run.judges) or "the other judge"
        lines.append(f"Minus {judges}, on the same rows:")
        lines += lines_on_rival(clusters, options.threshold, options.draws)
    lines += _lines_on_labels_of_people(report, metric, labels, options)
    show("\n".join(lines))
    return 0


def _lines_on_labels_of_people(
    report: Report, metric: str, labels: list[Label], options: argparse.Namespace
) -> list[str]:
    """The calibrated mean and the certified threshold, where they are asked for."""
    sentences = []
    if options.calibrate:
        calibrated = calibrate(
            report,
            metric,
            labels,
            cluster=options.cluster,
            assume_random=options.assume_random,
        )
        sentences.append(calibrated.sentence)
    if options.certify_precision is not None:
        certified = certify_precision(
            report,
            metric,
            labels,
            options.certify_precision,
            assume_random=options.assume_random,
        )
        sentences.append(certified.sentence)
    return sentences


def _what_was_measured(
    report: Report,
    metric: str,
    n_rows: int,
    n_clusters: int,
    options: argparse.Namespace,
) -> str:
    """Whose scores were held against labels, and how the intervals are made."""
    judges = ", ".join(report.run.judges) or "an unknown judge"
    resampled = "each is resampled by itself"
    if n_clusters < n_rows:
        resampled = (
            f"{n_clusters} clusters of them are resampled whole, and n counts those"
        )
    return (
        f"{metric} by {judges}: {n_rows} labelled scores; 95 % intervals from"
        f" {options.draws} resamples ({resampled}); verdicts from"
        f" {options.threshold:g} on; nothing is pooled."
    )


def _metric(report: Report, name: str | None) -> str:
    """The metric that is meant: by its name or short name, or the run's only one."""
    if name is not None:
        return find_metric(name, report.metrics, place="in this report")
    if len(report.metrics) != 1:
        raise SettingError(
            "--metric says which to measure:"
            f" {', '.join(report.metrics) or 'the report has none'}"
        )
    return report.metrics[0]


def lines_on_rival(
    groups: Sequence[Sequence[Labelled]], threshold: float, draws: int
) -> list[str]:
    """Return the differences between judge and rival on the same rows, in words.

    Then come the rows where their verdicts differ.
    """
    lines = _lines_on_figures(
        measure_all(groups, rival_measures(threshold), draws=draws)
    )
    rows = [row for group in groups for row in group]
    apart = [
        row
        for row in rows
        if row.rival_score is not None
        and row.is_judged_yes(threshold)
        != row.as_judged_by_rival().is_judged_yes(threshold)
    ]
    lines.append(
        f"Verdicts that differ: {len(apart)}; source, id, label, first and second score"
    )
    return lines + [
        f"  {row.source} {row.id} {row.is_labelled_yes:d} {row.score:.3f} {row.rival_score:.3f}"
        for row in apart
    ]


def _lines_on_figures(figures: Sequence[Measured]) -> list[str]:
    """One line per source and measure.

    The mean only where there are several sources.
    """
    # the mean over sources is one of them
    n_sources = len({figure.source for figure in figures}) - 1
    lines = []
    for figure in figures:
        is_mean = figure.source is None
        if figure.value is None or (is_mean and n_sources < 2):
            continue
        place = "mean over sources" if is_mean else figure.source
        lines.append(
            f"  {figure.measure:18} {place:20} n={figure.count:<5} {figure.value:.3f}"
            f" {_interval_in_words(figure)}"
        )
    return lines


def _interval_in_words(figure: Measured) -> str:
    """The interval of a figure, or why it has none."""
    if figure.interval:
        low, high = figure.interval
        return f"[{low:.3f}, {high:.3f}]"
    of_source = "of one source " if figure.source is None else ""
    return f"no interval: all resamples {of_source}agree"


def _warnings_of_few_clusters(groups: Sequence[Sequence[Labelled]]) -> list[str]:
    """A warning for each source with few clusters, where rows share any."""
    if all(len(group) == 1 for group in groups):
        return []
    n_clusters = Counter(group[0].source for group in groups)
    return [
        f"! {source}: few clusters: {count}, under {FEWEST_CLUSTERS}; the intervals are"
        " a rough guide."
        for source, count in n_clusters.items()
        if count < FEWEST_CLUSTERS
    ]


def _lines_on_calibration_curve(groups: Sequence[Sequence[Labelled]]) -> list[str]:
    """The calibration curve of each source."""
    lines = []
    for source in dict.fromkeys(group[0].source for group in groups):
        groups_of_source = [group for group in groups if group[0].source == source]
        pairs = [
            (row.score, row.is_labelled_yes)
            for group in groups_of_source
            for row in group
        ]
        clusters = [
            number for number, group in enumerate(groups_of_source) for _ in group
        ]
        method = "Wilson" if len(groups_of_source) == len(pairs) else "clustered"
        lines.append(
            f"Calibration, {source}: mean score → share of yes [{method} 95 %]"
        )
        lines += [
            f"  {b.score:.3f} → {b.share:.3f} [{b.low:.3f}, {b.high:.3f}]  n={b.count}"
            for b in curve(pairs, clusters=clusters)
        ]
    return lines
