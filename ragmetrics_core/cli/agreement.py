"""``ragmetrics agreement draw`` and ``ragmetrics agreement``, on labels of people.

The second says how well a judge's scores agree with the labels.
"""

import argparse
from collections import Counter
from collections.abc import Sequence

from ragmetrics_core.cli.printing import show
from ragmetrics_core.data import SettingError, find_metric, write_text
from ragmetrics_core.labelling.labels import (
    calibrate,
    describe_left_over,
    describe_not_drawn,
    draw,
    fill_in_draw,
    group_by_cluster,
    match_labels,
    read_labels,
)
from ragmetrics_core.page.render import write_page
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.calibration import curve
from ragmetrics_core.statistics.means import FEWEST_CLUSTERS
from ragmetrics_core.statistics.rater_agreement import (
    Labelled,
    Measured,
    measure_all,
    measures,
)


def draw_samples(options: argparse.Namespace) -> int:
    """Draw samples to be labelled by people, and write them to a new file.

    Example: with ``--n 50`` the file gets 50 lines, each with a null where a person
    puts 1 or 0.

    Returns:
        The exit code, 0.

    Raises:
        InputError: If the file cannot be written.
    """
    report = Report.from_jsonl(options.results)
    metric = _metric(report, options.metric)
    rows = draw(report, metric, options.n, seed=options.seed)
    write_text(options.out, "".join(map(json_line, rows)), "the labels")
    how = (
        "Put 1 or 0 in the place of each null, then: ragmetrics agreement"
        f" {options.results} {options.out}"
    )
    if options.report:
        write_page(
            options.report,
            report.results,
            report.summary(),
            report.run,
            report.glance(),
            to_label=[str(row["id"]) for row in rows],
        )
        labels = f"{options.results} labels.{metric}.jsonl --drawn {options.out}"
        how = (
            f"Label them on {options.report}, download the labels, then: ragmetrics"
            f" agreement {labels}"
        )
    show(
        f"{len(rows)} samples drawn: {options.out}. {how} --metric {metric} --calibrate"
    )
    return 0


def run(options: argparse.Namespace) -> int:
    """Print how well a judge agrees with people.

    ``--calibrate`` asks also for the mean that people would give. Example of a line:
    "  kappa            faq                  n=120  0.610 …".

    Returns:
        The exit code, 0.
    """
    report = Report.from_jsonl(options.results)
    metric = _metric(report, options.metric)
    labels = read_labels(options.labels, column=options.label)
    left_over = []
    if options.drawn:
        drawn = read_labels(options.drawn, column=options.label)
        left_over += describe_not_drawn(drawn, labels)
        labels = fill_in_draw(drawn, labels)
    rows = match_labels(report, metric, labels)
    # rows of one cluster are not independent, so they are resampled together
    clusters = group_by_cluster(rows, report, cluster=options.cluster)
    figures = measure_all(clusters, measures(options.threshold), draws=options.draws)
    lines = [_what_was_measured(report, metric, len(rows), len(clusters), options)]
    lines += _warnings_of_few_clusters(clusters)
    left_over += describe_left_over(report, metric, labels)
    lines += [f"! {sentence}" for sentence in left_over]
    lines += _lines_on_figures(figures)
    lines += _lines_on_calibration_curve(clusters)
    if options.calibrate:
        calibrated = calibrate(
            report,
            metric,
            labels,
            cluster=options.cluster,
            assume_random=options.assume_random,
        )
        lines.append(calibrated.sentence)
        if options.report:
            write_page(
                options.report,
                report.results,
                report.summary(cluster=options.cluster),
                report.run,
                report.glance(),
                by_people={metric: calibrated},
            )
            lines.append(f"page   {options.report}")
    show(*lines)
    return 0


def _what_was_measured(
    report: Report,
    metric: str,
    n_rows: int,
    n_clusters: int,
    options: argparse.Namespace,
) -> str:
    """Say whose scores were compared with labels, and how the intervals are made."""
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
    """Return the metric of this name or short name, or the run's only metric."""
    if name is not None:
        return find_metric(name, report.metrics, place="in this report")
    if len(report.metrics) != 1:
        raise SettingError(
            "--metric says which to measure:"
            f" {', '.join(report.metrics) or 'the report has none'}"
        )
    return report.metrics[0]


def _lines_on_figures(figures: Sequence[Measured]) -> list[str]:
    """Lay out figures as lines: the measure, the source, the value and its interval.

    Figures that are undefined are left out. So is the mean over sources where there is
    only one source. Example of a line: "  accuracy           mean over sources    n=120
    0.850 …".
    """
    sources = {figure.source for figure in figures} - {None}  # None: the mean
    lines = []
    for figure in figures:
        is_mean = figure.source is None
        is_mean_of_one = is_mean and len(sources) < 2
        if figure.value is None or is_mean_of_one:
            continue
        source = "mean over sources" if is_mean else figure.source
        lines.append(
            f"  {figure.measure:18} {source:20} n={figure.count:<5} {figure.value:.3f}"
            f" {_interval_in_words(figure)}"
        )
    return lines


def _interval_in_words(figure: Measured) -> str:
    """Return the interval of a figure in words, or why it has none."""
    if figure.interval:
        low, high = figure.interval
        return f"[{low:.3f}, {high:.3f}]"
    of_source = "of one source " if figure.source is None else ""
    return f"no interval: all resamples {of_source}agree"


def _warnings_of_few_clusters(groups: Sequence[Sequence[Labelled]]) -> list[str]:
    """Return a warning for each source with few clusters, if rows share clusters."""
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
    """Lay out the calibration curve of each source in lines of text.

    The curve says how often people say yes where scores are low, and where they are
    high. Each line is about rows with similar scores: their mean score, the share of
    yes among people's labels, and the interval of this share. Example:
    "  0.912 → 0.875 [0.701, 0.956]  n=40".

    Args:
        groups: Scored and labelled rows. The rows of one group have one source, and
            depend on each other, e.g. because they are about one document.
    """
    groups_by_source: dict[str, list[Sequence[Labelled]]] = {}
    for group in groups:
        groups_by_source.setdefault(group[0].source, []).append(group)
    lines = []
    for source, groups_of_source in groups_by_source.items():
        pairs = []
        group_numbers = []
        for group_number, group in enumerate(groups_of_source):
            for row in group:
                pairs.append((row.score, row.is_labelled_yes))
                group_numbers.append(group_number)
        # Without rows that depend on each other, every group holds a single row.
        has_groups_of_one = len(groups_of_source) == len(pairs)
        method = "Wilson" if has_groups_of_one else "clustered"
        lines.append(
            f"Calibration, {source}: mean score → share of yes [{method} 95 %]"
        )
        for each_bin in curve(pairs, clusters=group_numbers):
            lines.append(
                f"  {each_bin.score:.3f} → {each_bin.share:.3f}"
                f" [{each_bin.low:.3f}, {each_bin.high:.3f}]  n={each_bin.count}"
            )
    return lines
