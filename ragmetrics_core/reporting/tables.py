"""Reports as tables: plain text for terminals, HTML for notebooks, and pandas.

Pandas is for everything else.
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data import (
    EMBEDDED,
    Sample,
    SampleResult,
    adherence_worth,
    element,
    import_extra,
    judges_in_words,
    replace_surrogates,
    table,
)
from ragmetrics_core.data.display import count_in_words, markdown_text, one_line
from ragmetrics_core.reporting.diagnosis import diagnose
from ragmetrics_core.reporting.gates import all_in_words
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import MetricSummary, Summary

if TYPE_CHECKING:
    import pandas as pd

    from ragmetrics_core.reporting.glance import Glance

_FORMULA = re.compile(r"\s*[=+\-@|%]|[\t\r\n]")
_WIDTH, _LONGEST_NAME, _MOST_ROWS = 80, 20, 10
_HEADINGS = (
    "metric",
    "mean",
    "95 % interval",
    "median",
    "sd",
    "min–max",
    "scored/not/failed",
)


def _number(value: float | None, digits: int) -> str:
    """A number with so many digits; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def _range(low: float | None, high: float | None, digits: int) -> str:
    """Two numbers joined by a dash; a dash alone where one is missing."""
    if low is None or high is None:
        return "-"
    return f"{low:.{digits}f}–{high:.{digits}f}"


def _cells(numbers: MetricSummary) -> tuple[str, ...]:
    """Make the cells of a metric's row in the table, in the order of the headings.

    The last cell counts the rows that are scored, undefined and failed: "38/1/1".
    """
    interval_text = "-"
    if numbers.interval is not None:
        interval_text = _range(numbers.interval.low, numbers.interval.high, digits=3)
    n_undefined = sum(numbers.undefined.values())
    n_failed = sum(numbers.failed.values())
    return (
        numbers.metric,
        _number(numbers.mean, digits=3),
        interval_text,
        _number(numbers.median, digits=2),
        _number(numbers.sd, digits=2),
        _range(numbers.min, numbers.max, digits=2),
        f"{numbers.count}/{n_undefined}/{n_failed}",
    )


def _rows(summary: Summary) -> list[Sequence[str]]:
    """The headings, then a row of cells for each metric.

    Without any interval there is no column of intervals.
    """
    rows = [_HEADINGS, *map(_cells, summary.shown)]
    if any(numbers.interval for numbers in summary.shown):
        return [*rows]
    column = _HEADINGS.index("95 % interval")
    return [(*row[:column], *row[column + 1 :]) for row in rows]


def footnotes(summary: Summary, run: RunFacts) -> tuple[str, ...]:
    """Return what must stand under a table of these numbers.

    That is signs of high risk, what the intervals mean, rows that were not evaluated, and an early end.
    """
    notes = [f"Sign of risk: {sentence}" for sentence in summary.risks]

    # what the intervals mean, and how many clusters each rests on
    interval_by_metric = {
        numbers.metric: numbers.interval
        for numbers in summary.shown
        if numbers.interval is not None
    }
    if interval_by_metric:
        notes.append(f"Intervals: {summary.caption}.")
    for metric, interval in interval_by_metric.items():
        if interval.clusters is None:  # each row stands alone
            continue
        words = count_in_words(interval.clusters, "cluster")
        if interval.design_effect is not None:
            words += f", design effect {interval.design_effect:.2f}"
        notes.append(f"{metric}: {words}.")
    for numbers in summary.metrics:
        if numbers.unscored_in_words:
            notes.append(
                f"{numbers.metric}, rows not scored: {numbers.unscored_in_words}."
            )
    for numbers in summary.metrics:
        if numbers.failure:
            notes.append(f"{numbers.metric} failed, e.g.: {numbers.failure}")

    # how many rows there are, how samples were captured, and what is in doubt
    words = count_in_words(summary.rows, "row")
    if summary.not_judged:
        words += f", {summary.not_judged:,} without a result"
    if summary.bad_rows:
        words += f", {summary.bad_rows:,} unreadable"
    notes.append(f"{'; '.join((words, *summary.left_out))}.")
    if summary.grades:
        grades = [f"{count} {grade}" for grade, count in summary.grades.items()]
        notes.append(f"Captured: {', '.join(grades)}.")
    notes += [f"Noted of samples: {doubt}." for doubt in summary.doubts]

    # how the run went, and who judged
    if summary.usage.faults:
        notes.append(
            "Calls repeated after faults of the judge's endpoint:"
            f" {summary.usage.faults}."
        )
    if run.ended_early:
        notes.append(f"The results are incomplete: {run.ended_early}.")
    if run.judges:
        judges = judges_in_words(run.judges, run.addresses)
        stored = summary.usage.stored_in_words
        notes.append(f"Judge: {judges}{'; ' if stored else ''}{stored}.")
    if summary.other_models:
        notes.append(summary.other_models)
    metrics = [numbers.metric for numbers in summary.metrics]
    if "context_adherence" in metrics and EMBEDDED in run.judges:
        notes.append(adherence_worth())
    return (*notes, *run.notes)


def text_table(summary: Summary, run: RunFacts) -> str:
    """Return the metrics as a plain-text table with its footnotes.

    It has at most 80 columns and no colour codes.
    """
    lines = [text_grid(summary)] if summary.metrics else []
    for note in footnotes(summary, run):
        lines += textwrap.wrap(note, _WIDTH, break_on_hyphens=False)
    return "\n".join(lines).rstrip()


def text_grid(summary: Summary) -> str:
    """The metrics as a plain-text table of at most 80 columns, without footnotes.

    Example: two metrics: a line of headings, a rule, and two lines of numbers. A long
    name has a line of its own.
    """
    rows = _rows(summary)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    width_of_name = min(widths[0], _LONGEST_NAME)
    lines: list[str] = []
    for name, *numbers in rows:
        if len(name) > width_of_name:
            lines.append(one_line(name, _WIDTH))
            name = ""
        cells = [
            f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:], strict=True)
        ]
        lines.append(" ".join([f"{name:<{width_of_name}}", *cells]))
    lines.insert(1, "─" * len(lines[0]))
    return "\n".join(lines)


def markdown(
    summary: Summary, run: RunFacts, glance: Glance, exit_code: int | None = None
) -> str:
    """Write gates, metrics, faults and footnotes as Markdown, for a CI job's summary.

    It holds ids, and no text of a sample. Example of a line: "- **passed**: adherence …".

    Args:
        summary: The numbers of the run.
        run: Facts of the run, for the footnotes.
        glance: What was decided of each gate, and the rows to look at.
        exit_code: The exit code of the command that held the gates; None without one.
    """
    decisions = glance.decisions
    lines = ["## ragmetrics", ""]
    if glance.by_words:
        lines += [markdown_text(glance.headline), ""]
    if decisions and exit_code is not None:
        lines += [all_in_words(decisions, exit_code), ""]
    lines += [
        f"- **{decision.outcome}**: {markdown_text(decision.sentence)}"
        for decision in decisions
    ]
    headings, *numbers = _rows(summary)
    rule = ["---"] * len(headings)
    lines += ["", *map(_markdown_row, (headings, rule, *numbers)), ""]
    lines += [f"- Take care: {markdown_text(sign)}" for sign in summary.signs]
    rows = glance.worst[:_MOST_ROWS]
    if rows:
        lines += ["", _markdown_row(("look at", "fault", "stage")), "|---|---|---|"]
    lines += [_markdown_row((row.label, row.name, row.stage or "-")) for row in rows]
    lines.append("")
    lines += [f"- {markdown_text(note)}" for note in footnotes(summary, run)]
    return "\n".join([*lines, ""])


def _markdown_row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown; a bar in a cell does not end it."""
    return f"| {' | '.join(map(markdown_text, cells))} |"


def html_screen(glance: Glance, summary: Summary, run: RunFacts) -> str:
    """The first screen with its rows, and the table of metrics, as HTML for notebooks.

    Everything in it is escaped.
    """
    verdicts = element("p", map(str, glance.decisions))
    headline = element("h4", [glance.headline])
    first = f"First: {glance.advice}" if glance.advice else ""
    sure = f"How sure? {glance.sure}" if glance.sure else ""
    next_steps = element("p", filter(None, (glance.way, first, sure, glance.use)))
    rows = [
        (row.label.removeprefix("row "), row.name, row.question, row.answer)
        for row in glance.worst[:_MOST_ROWS]
    ]
    worst = table(rows, ("row", "fault", "question", "answer")) if rows else ""
    worst += element("p", filter(None, [glance.further(len(rows))]))
    headings, *numbers = _rows(summary)
    metrics = table(numbers, headings) if numbers else ""
    notes = element("p", footnotes(summary, run))
    return f"<div>{verdicts}{headline}{next_steps}{worst}{metrics}{notes}</div>"


def columns(
    results: Sequence[SampleResult], metrics: Sequence[str]
) -> dict[str, list[Any]]:
    """Lay out the results of a run as columns of a table, which pandas and CSV take.

    Each column has one cell for each row of the input, None where something is missing.
    Of two columns of one name, costs count before metrics, and metrics before all
    others. Example: a metric named "cost" gives way to the costs.

    Args:
        results: The rows.
        metrics: Names of the metrics.

    Returns:
        Columns ``row`` (its number as screens count), ``id``, ``question``, ``answer``,
        ``reference`` (several as JSON), ``metadata`` (as JSON), ``fault`` and ``stage``
        (what became of it, and where), per metric ``<metric>``, ``<metric>_status`` and
        ``<metric>_reason``, then ``calls``, ``cost`` (US dollars) and ``problem`` (why
        a row is no sample).
    """
    samples = [row.sample or Sample() for row in results]
    usages = [row.usage for row in results]
    diagnoses = [diagnose(row) for row in results]
    cells_by_column: dict[str, list[Any]] = {
        "row": [row.number for row in results],
        "id": [sample.id for sample in samples],
        "question": [sample.question for sample in samples],
        "answer": [sample.answer for sample in samples],
        "reference": [
            json_line(sample.reference).rstrip()
            if len(sample.reference) > 1
            else next(iter(sample.reference), None)
            for sample in samples
        ],
        "metadata": [
            json_line(sample.metadata).rstrip() if sample.metadata else None
            for sample in samples
        ],
        "fault": [diagnosis.name for diagnosis in diagnoses],
        "stage": [diagnosis.stage for diagnosis in diagnoses],
    }
    for metric in metrics:
        outcomes = [row.results.get(metric) for row in results]
        cells_by_column |= {
            metric: [outcome and outcome.value for outcome in outcomes],
            f"{metric}_status": [outcome and outcome.status for outcome in outcomes],
            f"{metric}_reason": [outcome and outcome.reason for outcome in outcomes],
        }
    cells_by_column |= {
        "calls": [usage.calls for usage in usages],
        "cost": [usage.cost for usage in usages],
        "problem": [row.problem or None for row in results],
    }
    return {
        str(replace_surrogates(name)): [replace_surrogates(cell) for cell in cells]
        for name, cells in cells_by_column.items()
    }


def csv_text(results: Sequence[SampleResult], metrics: Sequence[str]) -> str:
    """Return the columns as CSV, which Excel reads as UTF-8 by the mark at its start.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    cells = columns(results, metrics)
    file = StringIO(newline="")
    file.write("\ufeff")
    # lines end as RFC 4180 says, which has a lone \r quoted: else it would end one, too
    writer = csv.writer(file)
    writer.writerow(cells)
    for row in zip(*cells.values(), strict=True):
        writer.writerow(
            f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell
            for cell in row
        )
    return file.getvalue()


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute a text."""
    return _FORMULA.match(text) is not None


def data_frame(results: Sequence[SampleResult], metrics: Sequence[str]) -> pd.DataFrame:
    """The columns as a data frame; what is missing is ``pd.NA``, never NaN.

    Raises:
        MissingDependency: If pandas is not installed.
    """
    pandas = import_extra("pandas", "pandas", "a DataFrame")
    types = {
        "row": "Int64",
        "calls": "Int64",
        "cost": "Float64",
        **dict.fromkeys(metrics, "Float64"),
    }
    frame: pd.DataFrame = pandas.DataFrame(columns(results, metrics), dtype=object)
    return frame.astype({name: types.get(name, "string") for name in frame.columns})
