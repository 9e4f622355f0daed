"""Prints lines of text, and the first screen of a run in colour."""

import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from ragmetrics_core.cli.run_folders import FOLDER
from ragmetrics_core.data.display import as_line, discard_output, is_terminal
from ragmetrics_core.reporting.glance import Glance
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.screen import reason_lines
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.reporting.tables import footnotes, text_grid

_RED, _GREEN, _BLUE, _BOLD, _PLAIN = (f"\x1b[{n}m" for n in (31, 32, 36, 1, 0))
_BAR = re.compile(r"(?<=  )#+(?=-*$)")
_FAULT = re.compile(r"^(  row \d+.*?  x  )(.{17})")
_NOT_PASSED = re.compile(
    r"^(failed|undecided):|gates? (?:failed|is undecided)|, \d+ (?:failed|undecided)"
)
_PASSED = re.compile(r"^passed:|gates? passed")


def show(*lines: str) -> None:
    """Print lines, each on one line.

    A line end within a line comes from data, and becomes a blank: so no text of data
    can begin a line. Control characters become visible. A reader that went away, such
    as ``head``, changes neither the run nor its exit code.
    """
    show_screen(lines, may_be_coloured=False)


def show_screen(lines: Iterable[str], *, may_be_coloured: bool = True) -> None:
    """Print the lines of a screen; in colour on a terminal, unless NO_COLOR is set."""
    printed = map(as_line, lines)
    if may_be_coloured and is_terminal(sys.stdout) and not os.environ.get("NO_COLOR"):
        printed = map(_painted, printed)
    try:
        print("\n".join(printed), flush=True)
    except BrokenPipeError:
        discard_output()


def _painted(line: str) -> str:
    """A line in colour: bars, faults and verdicts."""
    if _NOT_PASSED.search(line):
        return f"{_RED}{line}{_PLAIN}"
    if _PASSED.search(line):
        return f"{_GREEN}{line}{_PLAIN}"
    fault = _FAULT.match(line)
    if fault:
        start, name = fault.groups()
        return f"{start}{_RED}{name}{_PLAIN}{line[fault.end() :]}"
    if " is weakest" in line:
        return f"{_BOLD}{line}{_PLAIN}"
    return _BAR.sub(lambda bar: f"{_BLUE}{bar[0]}{_PLAIN}", line)


def explain_lines(
    glance: Glance, summary: Summary, run: RunFacts, remarks: Iterable[str] = ()
) -> list[str]:
    """Return what stands behind the first screen, line by line, for ``--explain``.

    Args:
        glance: The first screen.
        summary: The numbers of the metrics.
        run: The facts of the run, for the footnotes.
        remarks: Further lines, e.g. on columns of a file that were not used.
    """
    groups = ", ".join(f"{count:,} {name}" for name, count in glance.groups.items())
    lines = ["", *map(str, glance.decisions), *text_grid(summary).splitlines(), ""]
    lines.append(f"Rows: {groups or 'none'}.")
    lines += [f"  {line}" for line in reason_lines(glance)]
    if glance.failures:
        lines.append(f"! {glance.failures}")
    lines += [f"! {sign}" for sign in summary.signs]
    lines += [*remarks, *footnotes(summary, run)]
    return lines


def next_command(results: Path | None, *, failed: bool) -> str:
    """Return the command to run next.

    It shows the rows with their reasons where a gate failed, and else compares a later
    run with this one.

    Args:
        results: The file of results that was written; None without one.
        failed: Whether a gate failed.
    """
    if results is None:
        return ""
    if failed:
        return f"ragmetrics report {shlex.quote(str(results))} --explain"
    if results.parent.parent == FOLDER:
        return "ragmetrics compare   (after the next run)"
    return f"ragmetrics compare {shlex.quote(str(results))} NEW.jsonl"
