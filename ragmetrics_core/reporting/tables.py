"""Reports as tables: plain text for terminals, HTML for notebooks, and pandas.

Pandas is for everything else.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data import (
    EMBEDDED,
    SampleResult,
    clean,
    element,
    extra,
    judges_in_words,
    table,
)
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import MetricSummary, Summary

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"\s*[=+\-@|%]|[\t\r\n]")
_HEADINGS = (
    "metric",
    "mean",
    "95 % interval",
    "median",
    "sd",
    "min–max",
    "scored/undef./failed",
)


def _headings(summary: Summary) -> tuple[str, ...]:
    """What the columns hold: the bounds of a run until decided are no intervals."""
    return tuple(
        "bounds" if summary.decisions and "interval" in own else own
        for own in _HEADINGS
    )


def _shown(digits: int, *numbers: float | None) -> str:
    """Numbers joined by a dash; a dash alone where one is missing."""
    return (
        "-"
        if None in numbers
        else "–".join(f"{number:.{digits}f}" for number in numbers)
    )


def _cells(numbers: MetricSummary) -> tuple[str, ...]:
    """One row of the table, in the order of the headings."""
    interval = numbers.interval
    return (
        numbers.metric,
        _shown(3, numbers.mean),
        _shown(3, *((interval.low, interval.high) if interval else (None,))),
        _shown(2, numbers.median),
        _shown(2, numbers.sd),
        _shown(2, numbers.min, numbers.max),
        f"{numbers.count}/{sum(numbers.undefined.values())}/{sum(numbers.failed.values())}",
    )


def footnotes(summary: Summary, run: RunFacts) -> tuple[str, ...]:
    """Return what must stand under a table of these numbers.

    That is what the intervals mean, rows that were not evaluated, and an early end.
    """
    methods = dict.fromkeys(
        numbers.interval.method for numbers in summary.metrics if numbers.interval
    )
    lines = (
        [f"Intervals: {summary.caption}. Method: {'; '.join(methods)}."]
        if methods
        else []
    )
    for numbers in summary.metrics:
        if (own := numbers.interval) is not None and own.clusters is not None:
            effect = (
                ""
                if own.design_effect is None
                else f", design effect {own.design_effect:.2f}"
            )
            lines.append(
                f"{numbers.metric}: {own.clusters}"
                f" cluster{'s' * (own.clusters > 1)}{effect}."
            )
    uncertain = (numbers for numbers in summary.metrics if numbers.uncertain)
    lines += [
        f"{it.metric}: the judge is uncertain of {it.uncertain} of {it.count} scores."
        for it in uncertain
    ]
    for numbers in (
        numbers for numbers in summary.metrics if numbers.useful_share is not None
    ):
        with_useful = round((numbers.useful_share or 0) * numbers.useful_known)
        samples = (
            "1 scored sample"
            if numbers.useful_known == 1
            else f"{numbers.useful_known} scored samples"
        )
        useful = f"any useful chunk in {with_useful} of {samples}"
        lines.append(
            f"{numbers.metric}: {useful}; mean among those"
            f" {_shown(3, numbers.mean_if_useful)}."
        )
    for numbers in summary.metrics:
        if numbers.conversations is not None and (
            said := numbers.conversations.sentences
        ):
            lines.append(f"{numbers.metric}: {'; '.join(said)}.")
    lines += [
        f"{numbers.metric} failed, e.g.: {numbers.failure}"
        for numbers in summary.metrics
        if numbers.failure
    ]
    rows = "1 row" if summary.rows == 1 else f"{summary.rows} rows"
    lines.append(
        f"{rows}: {summary.judged} judged, {summary.not_judged} not judged,"
        f" {summary.bad_rows} bad."
    )
    if summary.grades:
        lines.append(
            "Captured:"
            f" {', '.join(f'{count} {grade}' for grade, count in summary.grades.items())}."
        )
    if summary.usage.faults:
        lines.append(
            "Calls repeated after faults of the judge's endpoint:"
            f" {summary.usage.faults}."
        )
    if run.ended_early:
        lines.append(f"The run ended early: {run.ended_early}.")
    if run.judges:
        lines.append(f"Judge: {judges_in_words(run.judges, run.addresses)}.")
    if "context_adherence" in (numbers.metric for numbers in summary.metrics) and {
        *EMBEDDED
    } & {*run.judges}:
        lines.append(
            "context_adherence by words is a probability: below 1, near 0.9 for most"
            " supported answers."
        )
    return (*lines, *run.notes)


def text_table(summary: Summary, run: RunFacts) -> str:
    """Return the metrics as a plain-text table with its footnotes.

    It has at most 80 columns and no colour codes.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False
    )
    for index, heading in enumerate(_headings(summary)):
        grid.add_column(
            Text(heading.replace("/", "/\n")),
            justify="right" if index else "left",
            overflow="fold",
        )
    for numbers in summary.metrics:
        grid.add_row(*map(Text, _cells(numbers)))
    console = Console(
        file=StringIO(),
        width=80,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(
            *([grid] if summary.metrics else ()),
            *map(Text, footnotes(summary, run)),
            sep="\n",
        )
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).rstrip()


def markdown(
    summary: Summary, run: RunFacts, decisions: Sequence[Decision] = ()
) -> str:
    """Gates, metrics, signs and footnotes as Markdown, for the summary of a CI job.

    No text of a sample.
    """

    def row(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"

    lines = [
        "## ragmetrics",
        "",
        *(f"- **{own.outcome}**: {own.sentence}" for own in decisions),
        "",
    ]
    lines += [
        row(_headings(summary)),
        row(["---"] * len(_HEADINGS)),
        *map(row, map(_cells, summary.metrics)),
        "",
    ]
    lines += [*(f"- Sign of high risk: {sign}" for sign in summary.all_signs), ""]
    return "\n".join([*lines, *(f"{line}  " for line in footnotes(summary, run)), ""])


def html_table(summary: Summary, run: RunFacts) -> str:
    """The metrics as HTML for notebooks, with footnotes and signs of high risk.

    Everything in it is escaped.
    """
    shown = (
        table(map(_cells, summary.metrics), _headings(summary))
        if summary.metrics
        else ""
    )
    signs = element("li", summary.all_signs)
    signs = f"<p>Signs of high risk</p><ul>{signs}</ul>" if signs else ""
    return f"<div>{shown}{element('p', footnotes(summary, run))}{signs}</div>"


def columns(
    results: Sequence[SampleResult], metrics: Sequence[str]
) -> dict[str, list[Any]]:
    """One entry per row of the input, None where something is missing.

    Returns:
        Columns ``index``, ``id``, ``question``, ``answer``, per metric ``<metric>``,
        ``<metric>_status`` and ``<metric>_reason``, then ``calls``, ``cost`` (US
        dollars) and ``problem`` (why a row is no sample). Texts hold no lone
        surrogates, which no file can carry.
    """
    samples = [row.sample for row in results]
    made: dict[str, list[Any]] = {"index": [row.index for row in results]}
    for name in ("id", "question", "answer"):
        made[name] = [sample and getattr(sample, name) for sample in samples]
    for name in metrics:
        found = [row.results.get(name) for row in results]
        for column, field in (
            (name, "value"),
            (f"{name}_status", "status"),
            (f"{name}_reason", "reason"),
        ):
            made[column] = [result and getattr(result, field) for result in found]
    usages = [row.usage for row in results]
    spent: dict[str, list[Any]] = {
        "calls": [own.calls for own in usages],
        "cost": [own.cost for own in usages],
    }
    made |= spent | {"problem": [row.problem or None for row in results]}
    return {
        str(clean(name)): [clean(cell) for cell in cells]
        for name, cells in made.items()
    }


def csv_text(results: Sequence[SampleResult], metrics: Sequence[str]) -> str:
    """Return the columns as CSV.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    made, file = columns(results, metrics), StringIO(newline="")
    # lines end as RFC 4180 says, which has a lone \r quoted: else it would end one, too
    lines = csv.writer(file)
    lines.writerow(made)
    for row in zip(*made.values(), strict=True):
        lines.writerow(
            [
                f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
                for cell in row
            ]
        )
    return file.getvalue()


def data_frame(results: Sequence[SampleResult], metrics: Sequence[str]) -> pd.DataFrame:
    """The columns as a data frame; what is missing is ``pd.NA``, never NaN.

    Raises:
        MissingDependency: If pandas is not installed.
    """
    pandas = extra("pandas", "pandas", "a DataFrame")
    types = {
        "index": "Int64",
        "calls": "Int64",
        "cost": "Float64",
        **dict.fromkeys(metrics, "Float64"),
    }
    frame: pd.DataFrame = pandas.DataFrame(columns(results, metrics), dtype=object)
    return frame.astype({name: types.get(name, "string") for name in frame.columns})
