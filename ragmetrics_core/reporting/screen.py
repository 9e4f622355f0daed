"""The first screen as text, for any number of rows.

It has at most fifteen lines and 120 words, gates included.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from ragmetrics_core.data.display import as_line, count_in_words, one_line
from ragmetrics_core.reporting.gates import all_in_words
from ragmetrics_core.reporting.glance import Glance, MetricGlance
from ragmetrics_core.reporting.summary import MetricSummary

MOST_LINES, MOST_WORDS = 15, 120
_WORD = re.compile(r"[^\W\d_]+")
_OPENING = re.compile(r"  (?:first|sure\?|page |next )  |  row \d+.*?  [x? ]  .{17}  ")
_BAR = 10
_MOST_ROWS = 3
_MOST_METRICS = 4
_MOST_REASONS = 20
_WIDTH = 80  # columns
_LONGEST_QUOTE = 43
_LABEL, _LONGEST_LABEL = 9, 28  # of a row, as "row 12345" and "row 1 (q-17)"
_LONGEST_EXPECTED = 24
_LONGEST_SENTENCE = 160
_LONGEST_REASON = 280  # of what a gate came to, and of why results failed


class _Line(NamedTuple):
    """A line, and when it goes if the screen is too long: the highest rank first."""

    rank: int
    text: str
    is_metric: bool = False


def screen_lines(
    glance: Glance,
    *,
    page: str = "",
    next_command: str = "",
    exit_code: int | None = None,
) -> list[str]:
    """Return the first screen, line by line; with gates their verdict comes first.

    Args:
        glance: What there is to see.
        page: Where the page was written; "" where none was.
        next_command: What to type next; "" for nothing.
        exit_code: The exit code of the command that held gates; None outside of one.
    """
    metrics, rows = [*_metrics(glance)], [*_rows(glance)]
    parts = [
        [*_verdict(glance, exit_code)],
        [*_headline(glance)],
        metrics,
        rows,
        [*_last_lines(glance, page, next_command)],
    ]
    _shorten(parts, metrics, rows, glance)
    lines: list[str] = []
    for part in parts:
        if part and lines:
            lines.append("")
        for line in part:
            lines += map(as_line, _wrapped(line.text))
    return lines


def _wrapped(text: str) -> list[str]:
    """A line broken at words; what follows stands below the first words of a sentence."""
    label = _OPENING.match(text)
    indent = " " * (label.end() if label else 2)
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shorten(
    parts: list[list[_Line]], metrics: list[_Line], rows: list[_Line], glance: Glance
) -> None:
    """Leave out lines, the least important first, until the rest is short enough.

    Behind the metrics and rows that are left a line says how many more there are.
    """
    while True:
        lines = [line for part in parts for line in part]
        further_rows = f"  {glance.further(len(rows))}" if rows else ""
        n_left_out = len(glance.metrics) - sum(line.is_metric for line in metrics)
        further_metrics = ""
        if metrics and n_left_out:
            further_metrics = f"  and {count_in_words(n_left_out, 'further metric')}"
        texts = [*(line.text for line in lines), further_metrics, further_rows]
        n_words = sum(len(_WORD.findall(text)) for text in texts)
        n_lines = sum(len(_wrapped(text)) for text in texts)
        if (n_lines <= MOST_LINES and n_words <= MOST_WORDS) or len(lines) == 1:
            metrics += [_Line(0, further_metrics)] if further_metrics else []
            rows += [_Line(0, further_rows)] if further_rows.strip() else []
            return
        least = max(line.rank for line in lines)
        part = next(
            part for part in reversed(parts) if any(one.rank == least for one in part)
        )
        place = max(index for index, line in enumerate(part) if line.rank == least)
        del part[place]


def _verdict(glance: Glance, exit_code: int | None) -> Iterator[_Line]:
    """The verdict on all gates, then each gate, the worst first."""
    if not glance.decisions:
        return
    sentence = all_in_words(glance.decisions, exit_code)
    if sentence:
        yield _Line(0, sentence)
    for decision in glance.decisions:
        is_by_words = glance.by_words and decision.outcome == "passed"
        words = f"by words alone, {decision}" if is_by_words else str(decision)
        yield _Line(2, one_line(words, _LONGEST_REASON))


def _headline(glance: Glance) -> Iterator[_Line]:
    """What is wrong, what to do first, how sure that is, what failed, and notes."""
    judge = ", ".join(one_line(name, _LONGEST_SENTENCE) for name in glance.judges)
    if glance.by_words:
        judge = "words only"
    cost = "price unknown"
    if glance.usage.cost is not None:
        cost = f"${glance.usage.cost:.4f}" if glance.usage.cost else "free"
    facts = [
        count_in_words(glance.rows, "row"),
        f"judge: {judge}" if judge else "",
        f"{glance.seconds:.1f} s" if glance.seconds else "",
        cost,
        glance.usage.stored_in_words,
    ]
    yield _Line(1, f"{glance.title}   {' · '.join(fact for fact in facts if fact)}")
    yield _Line(2, f"  {glance.headline}")
    if glance.way:
        yield _Line(2, f"  {glance.way}")
    # beside gates the rows that failed them say more
    rank = 10 if glance.decisions else 4
    if glance.advice:
        yield _Line(rank + 1, f"  first  {glance.advice}")
    if glance.sure:
        yield _Line(rank, f"  sure?  {one_line(glance.sure, _LONGEST_SENTENCE)}")
    if glance.use:
        yield _Line(2, f"  used   {glance.use}")
    if glance.failures:
        yield _Line(2, f"  ! {one_line(glance.failures, _LONGEST_REASON)}")
    for note in glance.notes:
        yield _Line(3, f"  ! {one_line(note, _LONGEST_SENTENCE)}")


def _metrics(glance: Glance) -> Iterator[_Line]:
    """A line for each metric, then how many answers there are."""
    width = max((len(one.numbers.metric) for one in glance.metrics), default=0)
    width_of_counts = max(
        (len(_counts(one.numbers)) for one in glance.metrics), default=0
    )
    is_any_scored = any(one.numbers.mean is not None for one in glance.metrics)
    # the sentences on gates take the place of the metrics' questions
    if is_any_scored and not glance.decisions:
        head = "mean" if glance.by_words else "mean  95% range"
        yield _Line(2, f"  {'':<{min(width, 28)}}  {head}  rows above ½")
    for place, metric in enumerate(glance.metrics):
        rank = 2 if place < _MOST_METRICS else 20 + place
        if metric.numbers.mean is None and not metric.numbers.failed:
            rank = 40  # what is scored says more
        line = _metric_line(metric, min(width, 28), width_of_counts, glance)
        yield _Line(rank, line, is_metric=True)
    facts = []
    if glance.answers is not None:
        facts.append(f"{glance.answered:,} of {glance.answers:,} answered")
    if glance.ranked_low:
        facts.append(f"{count_in_words(glance.ranked_low, 'row')} ranked low")
    if facts:
        yield _Line(3, f"  {' · '.join(facts)}")


def _counts(numbers: MetricSummary) -> str:
    """How many rows of a metric are a yes."""
    return f"{numbers.n_yes:,} of {numbers.count:,}"


def _metric_line(
    metric: MetricGlance, width: int, width_of_counts: int, glance: Glance
) -> str:
    """A metric with its mean, interval, how many rows are a yes, and its question.

    Beside gates a bar takes the question's place. Of words there is no interval.
    """
    numbers = metric.numbers
    name = one_line(numbers.metric, width or 1)
    if numbers.mean is None:
        head = f"  {name:<{width}}  not scored"
        why = one_line(numbers.unscored_in_words, _WIDTH - len(head) - 2)
        return f"{head}: {why}" if why else head
    interval = ""
    if numbers.interval is not None:
        interval = f"{_short(numbers.interval.low)}–{_short(numbers.interval.high)}"
    interval = "" if glance.by_words else f"  {interval:<9}"
    asks = metric.asks
    if glance.decisions:
        n_marks = int(round(numbers.mean * _BAR, 6))  # only a mean of 1 fills the bar
        asks = "#" * n_marks + "-" * (_BAR - n_marks)
    return (
        f"  {name:<{width}}  {_short(numbers.mean):>4}{interval}"
        f"  {_counts(numbers):<{width_of_counts}}  {asks}"
    ).rstrip()


def _short(value: float) -> str:
    """A number with two decimals, without the 0 before the point: ".62", "1.0"."""
    text = f"{value:.2f}"
    return "1.0" if text == "1.00" else text.removeprefix("0")


def _rows(glance: Glance) -> Iterator[_Line]:
    """The worst rows with what is wrong in them."""
    shown = glance.worst[:_MOST_ROWS]
    labels = [one_line(row.label, _LONGEST_LABEL) for row in shown]
    width = max([_LABEL, *map(len, labels)])
    for place, (row, label) in enumerate(zip(shown, labels, strict=True)):
        mark = {"fault": "x", "unjudged": "?", "fine": " "}[row.kind]
        quote = one_line(row.quote, _LONGEST_QUOTE - (width - _LABEL))
        line = f'  {label:<{width}}  {mark}  {row.name:<17}  "{quote}"'
        if row.expected:
            line += f'   expected: "{one_line(row.expected, _LONGEST_EXPECTED)}"'
        yield _Line((3, 6, 9)[place], line)


def reason_lines(glance: Glance) -> list[str]:
    """The rows to look at, a line each with what the judge says of its lowest score."""
    lines = [
        f"{row.label}: {row.name}: {row.reason or row.quote}"
        for row in glance.worst[:_MOST_REASONS]
    ]
    return [*lines, *filter(None, [glance.further(len(lines))])]


def _last_lines(glance: Glance, page: str, next_command: str) -> Iterator[_Line]:
    """The page's path, what to type next, and what to set where calls were too slow."""
    if page:
        yield _Line(1, f"  page   {one_line(page)}")
    if next_command:
        yield _Line(8, f"  next   {one_line(next_command)}")
    failed = [metric.numbers.failed for metric in glance.metrics]
    n_late = sum(counts.get("NoReplyInTime", 0) for counts in failed)
    if n_late:
        yield _Line(
            1,
            "  set    a longer --timeout (timeout=) or a lower --concurrency:"
            f" {count_in_words(n_late, 'result')} lost to time",
        )
