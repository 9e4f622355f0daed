"""Prints a report in a terminal, in the order of the HTML page's first screen.

First come the verdicts on gates, the largest loss and the stage of the pipeline to
mend; then the table of metrics, the groups of rows and the signs of risk; then
footnotes on judge and methods. The three worst rows and the next command come last,
where a terminal leaves the eye.
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragmetrics_core.page.counts import metric_with_gloss
from ragmetrics_core.page.first_screen import FirstScreen
from ragmetrics_core.page.screen_groups import Example
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.reporting.tables import footnotes, text_grid


def screen_lines(
    screen: FirstScreen, summary: Summary, run: RunFacts, remarks: Iterable[str] = ()
) -> list[str]:
    """Return what a terminal shows first of a run, line by line.

    The lines come in three parts: the verdicts and what to mend first; the numbers of
    each metric; the groups of rows, signs of high risk, and footnotes.

    Args:
        screen: What was found, in sentences.
        summary: The numbers of the metrics.
        run: Facts of the run, for the footnotes.
        remarks: Further lines, e.g. on columns of a file that were not used.
    """
    return [
        f"{screen.title}: {screen.origin}",
        *_lines_on_verdicts(screen),
        "",
        *_lines_on_metrics(screen, summary),
        "",
        screen.groups_in_words,
        *_lines_on_signs(summary),
        *remarks,
        *footnotes(summary, run, has_reasons=False),
    ]


def _lines_on_verdicts(screen: FirstScreen) -> list[str]:
    """Return the verdicts on the gates, the largest loss, warnings, and what to mend."""
    sentences = [
        screen.all_gates,  # in one sentence
        *screen.verdicts,  # each gate in a sentence
        screen.loss,  # the metric with the largest loss
        screen.how_sure,  # how sure it is that this metric lost most
    ]
    lines = [sentence for sentence in sentences if sentence]
    lines += [f"! {warning}" for warning in screen.warnings]
    lines += _lines_on_stage_to_mend(screen)
    # what each stage of the pipeline, e.g. the retrieval, lost on the way to the answer
    if screen.stage_losses:
        lines.append(screen.stage_losses)
    return lines


def _lines_on_metrics(screen: FirstScreen, summary: Summary) -> list[str]:
    """Return the table of metrics, and a sentence on each metric."""
    lines = [*text_grid(summary).splitlines(), ""]
    for metric, finding in screen.sentences.items():
        lines.append(f"{metric_with_gloss(metric)}: {finding}")
    # For each metric of sufficiency: how often the application answered when its
    # contexts were enough for that, and when they were not.
    for answering in screen.answered_or_declined:
        lines += ["", *str(answering).splitlines()]
    return lines


def _lines_on_signs(summary: Summary) -> list[str]:
    """Return the signs of high risk; a sign that several metrics show is one line."""
    signs = summary.folded_signs
    if not signs:
        return []
    heading = "Signs of high risk, by rules of thumb; they are no verdict:"
    return [heading, *(f"! {sign}" for sign in signs)]


def _lines_on_stage_to_mend(screen: FirstScreen) -> list[str]:
    """Return a line on the stage of the pipeline to mend first, its remedy and rows.

    Returns [] if no stage is named.
    """
    group = screen.mend_first
    if group is None or group.mending is None:
        return []
    words = f"Mend first: {group.mending.stage} ({screen.to_mend.why})."
    sentences = [
        words,
        group.mending.remedy,
        screen.to_mend.how_found,
        _rows_to_look_at(group.examples),
        screen.to_mend.at_risk,
    ]
    return [" ".join(filter(None, sentences))]


def _rows_to_look_at(examples: Sequence[Example]) -> str:
    """Say in a sentence which rows to open; "" if there are none."""
    if not examples:
        return ""
    rows = ", ".join(str(example.row) for example in examples)
    return f"Look at {'row' if len(examples) == 1 else 'rows'} {rows}."


def lines_on_rows(examples: Sequence[Example]) -> list[str]:
    """Return lines on the rows to open first.

    Each names the row's lowest score, or what went wrong, and its question.
    """
    lines = ["Look at these first:"] if examples else []
    for example in examples:
        outcome = example.group  # what went wrong, in words
        if example.score is not None and not example.is_of_stage:
            outcome = f"{example.metric} {example.score:.3f}"
        question = example.question or "(no question)"
        lines.append(f"  row {example.row}: {outcome}: {question}")
    return lines


def next_command(out: Path | None, page: Path | None) -> str:
    """Return the command to run next: keep the results, look at them, or compare.

    Args:
        out: The file of results that was written; None without one.
        page: The HTML page that was written; None without one.
    """
    if out is None:
        # Not spelt out, because other options may say how the files are read.
        return "Next: the same command with --out results.jsonl --report report.html"
    results = shlex.quote(str(out))
    if page is None:
        return f"Next: ragmetrics report {results}"
    return f"Next, after a change: ragmetrics compare {results} NEW.jsonl"
