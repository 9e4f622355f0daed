"""What commands print of a report: the order of the page's first screen.

First the verdict, the largest loss and the stage to mend; then the table of metrics, the
groups of rows and the warnings; then judge and methods. The three worst rows and the
next command come last, where a terminal leaves the eye.
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
    """What the terminal shows first of a run, line by line.

    First come the verdicts and what to mend, then the numbers of each metric, then
    groups of rows, signs of high risk, and footnotes.

    Args:
        screen: What was found, in sentences.
        summary: The numbers.
        run: Facts of the run, for the footnotes.
        remarks: Further lines that came up while files were read.
    """
    lines = [f"{screen.title}: {screen.origin}"]
    opening_sentences = (
        screen.together,
        *screen.verdicts,
        screen.loss,
        screen.how_sure,
    )
    lines += [sentence for sentence in opening_sentences if sentence]
    lines += [f"! {warning}" for warning in screen.warnings]
    lines += _stage_to_mend(screen)
    if screen.lost_on_the_way:
        lines.append(screen.lost_on_the_way)
    lines += ["", text_grid(summary), ""]
    for metric, sentence in screen.sentences.items():
        lines.append(f"{metric_with_gloss(metric)}: {sentence}")
    for answering in screen.answering:
        lines += ["", *str(answering).splitlines()]
    lines += ["", screen.groups_in_words]
    if summary.folded_signs:
        lines.append("Signs of high risk, by rules of thumb; they are no verdict:")
    lines += [f"! {sign}" for sign in summary.folded_signs]
    lines += remarks
    lines += footnotes(summary, run, has_reasons=False)
    return lines


def _stage_to_mend(screen: FirstScreen) -> list[str]:
    """The stage to mend first, with its remedy and rows; none where none is named."""
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
    """Which rows to open, in a sentence; "" without one."""
    if not examples:
        return ""
    rows = ", ".join(str(example.row) for example in examples)
    return f"Look at {'row' if len(examples) == 1 else 'rows'} {rows}."


def lines_on_rows(examples: Sequence[Example]) -> list[str]:
    """The rows to open, each with what went wrong, or its lowest score, and question."""
    lines = ["Look at these first:"] if examples else []
    for example in examples:
        outcome = example.group
        if example.score is not None and not example.is_of_stage:
            outcome = f"{example.metric} {example.score:.3f}"
        question = example.question or "(no question)"
        lines.append(f"  row {example.row}: {outcome}: {question}")
    return lines


def next_command(out: Path | None, page: Path | None) -> str:
    """What to run next: keep the results, look at them, or compare a later run."""
    if out is None:
        # the other options may say how the files are read, e.g. --traces
        return "Next: the same command with --out results.jsonl --report report.html"
    results = shlex.quote(str(out))
    if page is None:
        return f"Next: ragmetrics report {results}"
    return f"Next, after a change: ragmetrics compare {results} NEW.jsonl"
