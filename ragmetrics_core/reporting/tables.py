"""Reports as tables: plain text for terminals, HTML for notebooks, pandas for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data.errors import InputError, MissingDependency
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import MetricSummary, Summary, total_usage

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 80
_NONE = "-"
_HEADINGS = ("metric", "mean", "95 % interval", "median", "sd", "min–max", "scored/undef./failed")


def _number(value: float | None, digits: int = 2) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _range(low: float | None, high: float | None, digits: int) -> str:
    return _NONE if low is None or high is None else f"{low:.{digits}f}–{high:.{digits}f}"


def _cells(numbers: MetricSummary) -> tuple[str, ...]:
    """One row of the table, in the order of the headings."""
    interval = numbers.interval
    return (
        numbers.metric,
        _number(numbers.mean, 3),
        _range(interval.low, interval.high, 3) if interval else _NONE,
        _number(numbers.median),
        _number(numbers.sd),
        _range(numbers.min, numbers.max, 2),
        f"{numbers.count}/{sum(numbers.undefined.values())}/{sum(numbers.failed.values())}",
    )


def footnotes(summary: Summary, run: RunFacts) -> tuple[str, ...]:
    """What must stand under a table of these numbers.

    Args:
        summary: The numbers.
        run: The run's facts.

    Returns:
        What the intervals mean and how they were made, rows not evaluated, why the run ended early, notes.
    """
    methods = dict.fromkeys(numbers.interval.method for numbers in summary.metrics if numbers.interval)
    lines = [f"Intervals: {summary.caption}. Method: {'; '.join(methods)}."] if methods else []
    lines += [
        f"{numbers.metric}: {numbers.clusters} clusters"
        + ("." if numbers.design_effect is None else f", design effect {numbers.design_effect:.2f}.")
        for numbers in summary.metrics
        if numbers.clusters is not None
    ]
    lines += [
        f"{numbers.metric}: any useful chunk in {numbers.useful_share:.0%} of the samples; "
        f"mean among those {_number(numbers.mean_if_useful, 3)}."
        for numbers in summary.metrics
        if numbers.useful_share is not None
    ]
    rows = "1 row" if summary.rows == 1 else f"{summary.rows} rows"
    lines.append(f"{rows}: {summary.judged} judged, {summary.not_judged} not judged, {summary.bad_rows} bad.")
    if summary.usage.faults:
        lines.append(f"{summary.usage.faults} faults of the judge's endpoint survived by asking again.")
    if run.ended_early:
        lines.append(f"The run ended early: {run.ended_early}.")
    return (*lines, *run.notes)


def text_table(summary: Summary, run: RunFacts) -> str:
    """The metrics as a plain-text table of at most 80 columns, without colour codes.

    Args:
        summary: The numbers.
        run: The run's facts.

    Returns:
        The table and its footnotes, without a newline at the end.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for index, heading in enumerate(_HEADINGS):
        wrapped = Text(heading.replace("/", "/\n"))
        table.add_column(wrapped, justify="right" if index else "left", overflow="fold")
    for numbers in summary.metrics:
        table.add_row(*(Text(cell) for cell in _cells(numbers)))
    console = Console(file=StringIO(), width=_WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
        for line in footnotes(summary, run):
            console.print(Text(line))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).rstrip()


def html_table(summary: Summary, run: RunFacts) -> str:
    """The metrics as HTML for notebooks; everything in it is escaped.

    Args:
        summary: The numbers.
        run: The run's facts.

    Returns:
        A table, its footnotes and the signs of high risk.
    """
    head = "".join(f"<th>{escape(heading)}</th>" for heading in _HEADINGS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(numbers)) + "</tr>"
        for numbers in summary.metrics
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    notes = "".join(f"<p><small>{escape(line)}</small></p>" for line in footnotes(summary, run))
    signs = "".join(f"<li>{escape(sign)}</li>" for sign in summary.all_signs)
    return f"<div>{table}{notes}" + (f"<p>Signs of high risk</p><ul>{signs}</ul>" if signs else "") + "</div>"


def data_frame(results: Sequence[SampleResult], metrics: Sequence[str]) -> pd.DataFrame:
    """One row per row of the input; what is missing is ``pd.NA``, never NaN.

    Args:
        results: Results in input order.
        metrics: Names of the metrics to show.

    Returns:
        Columns ``index``, ``id``, ``question``, ``answer``, per metric ``<metric>``, ``<metric>_status`` and
        ``<metric>_reason``, then ``calls``, ``cost`` (US dollars) and ``problem`` (why a row is no sample).

    Raises:
        MissingDependency: If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependency('a DataFrame needs pandas: pip install "ragmetrics-core[pandas]"') from error

    dtypes = {"index": "Int64", "calls": "Int64", "cost": "Float64", **dict.fromkeys(metrics, "Float64")}
    frame = pd.DataFrame(_columns(results, metrics), dtype=object)
    return frame.astype({name: dtypes.get(name, "string") for name in frame.columns})


def write_parquet(path: str | Path, frame: pd.DataFrame) -> None:
    """Write a data frame as Parquet.

    Args:
        path: The file to write; an existing one is replaced.
        frame: The table.

    Raises:
        MissingDependency: If pyarrow is not installed.
        InputError: If the file cannot be written.
    """
    try:
        frame.to_parquet(path, engine="pyarrow", index=False)
    except ImportError as error:
        raise MissingDependency('Parquet files need: pip install "ragmetrics-core[parquet]"') from error
    except OSError as error:
        raise InputError(f"the table cannot be written to {path}: {error.strerror}") from error


def _columns(results: Sequence[SampleResult], metrics: Sequence[str]) -> dict[str, list[Any]]:
    """The data frame's columns by name, None where there is nothing."""
    samples = [row.sample for row in results]
    columns: dict[str, list[Any]] = {
        "index": [row.index for row in results],
        "id": [sample and sample.id for sample in samples],
        "question": [sample and sample.question for sample in samples],
        "answer": [sample and sample.answer for sample in samples],
    }
    for name in metrics:
        found = [row.results.get(name) for row in results]
        columns[name] = [result and result.value for result in found]
        columns[f"{name}_status"] = [result and result.status for result in found]
        columns[f"{name}_reason"] = [result and result.reason for result in found]
    usages = [total_usage([row]) for row in results]
    columns["calls"] = [usage.calls for usage in usages]
    columns["cost"] = [usage.cost for usage in usages]
    columns["problem"] = [row.problem or None for row in results]
    return columns
