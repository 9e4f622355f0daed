"""Describes the command ``evaluate``: its options, each with its help.

What the command runs stands in ``evaluate``, which a help need not load.
"""

import argparse
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.options import (
    COLUMNS,
    add,
    add_calls,
    add_clusters_of_samples,
    add_explain,
    add_gates,
    add_judge,
    add_name,
    add_settings,
    command,
    flag,
    positive,
)
from ragmetrics_core.cli.paths import RESULTS_MARK
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.gates import UntilDecided
from ragmetrics_core.traces.dialects import DIALECTS

_EXIT_CODES = (
    "Exit codes: 0 all well; 1 a gate failed or nothing was scored; 2 bad input, or a"
    " judge that cannot be used; 3 a gate is undecided; 4 batches are on their way; 130"
    " interrupted, what was done is written."
)
_LIMITS = "a cap that is reached ends the run with what is done until then"
UNTIL_SETTINGS = ("alpha", "seed", "max_samples", "margin")
"""The options that are settings of ``UntilDecided``."""


def add_to(commands: Any) -> None:
    """Add the command ``evaluate``, with its options.

    Example: ``ragmetrics evaluate rows.csv --metrics context_adherence --out
    run.jsonl``.

    Args:
        commands: The commands of the command line (argparse), to which it is added.
    """
    parser = command(commands, "evaluate", _run, epilog=_EXIT_CODES)
    _add_input(parser)
    _add_metrics(parser)
    _add_output(parser)
    add_clusters_of_samples(parser)
    add(
        parser,
        "--limit",
        "read at most N rows of each file",
        unit="N",
        convert=positive,
    )
    flag(parser, "--stop-at-bad-row", "stop at the first row that is no sample")
    add_calls(parser)
    _add_batches(parser)
    add_settings(parser.add_argument_group("limits", _LIMITS), Limits)
    gates = add_gates(parser)
    flag(
        gates,
        "--until-decided",
        "judge rows in a drawn order, and stop when the gates are decided",
    )
    add_settings(
        gates, UntilDecided, only=UNTIL_SETTINGS, about="with --until-decided: "
    )
    # called before the command runs, to fill in options from the settings file
    parser.set_defaults(fill_in=_fill_in)
    _add_columns(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """Add the options for the input: files of rows, or recorded traces."""
    add(
        parser,
        "files",
        ".jsonl, .json, .csv, .tsv or .parquet",
        unit="FILE",
        convert=Path,
        nargs="+",
    )
    flag(
        parser,
        "--traces",
        "the files hold recorded traces, e.g. OTLP JSON; the samples are found in them",
    )
    add(
        parser,
        "--dialect",
        "of traces whose spans bear the marks of several",
        unit="NAME",
        choices=tuple(DIALECTS),
    )
    add(
        parser,
        "--resolve",
        "of traces with ids alone: a mapping or function from ids to texts",
        unit="MODULE:NAME",
    )
    add(
        parser,
        "--context-tools",
        "of traces: tools whose text is evidence, separated by commas",
        unit="NAMES",
    )


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the options for the metrics and the judge."""
    add(
        parser,
        "--metrics",
        "separated by commas; by default those of the four that apply; also"
        " context_sufficiency, answer_relevance, citation_quality, retrieval_ranking",
        unit="NAMES",
    )
    parser.add_argument(
        "--list-metrics",
        action=ListMetrics,
        nargs=0,
        help="print each shipped metric, what it says and what it needs, and end",
    )
    add_judge(parser)
    help_text = (
        "a setting of a metric, e.g. adherence.polls=3 or module:name.polls=3; may be"
        " repeated"
    )
    add(
        parser,
        "--set",
        help_text,
        unit="METRIC.SETTING=VALUE",
        default=[],
        action="append",
        dest="settings",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options for the files that are written."""
    add(
        parser,
        "--out",
        "write samples and results to this JSONL file",
        unit="FILE",
        convert=Path,
    )
    parser.set_defaults(replaces=RESULTS_MARK)
    add(parser, "--report", "write an HTML page", unit="FILE", convert=Path)
    help_text = "write nothing into .ragmetrics/runs, where no path is given"
    flag(parser, "--no-files", help_text)
    add_explain(parser)
    add_name(parser)


def _add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the options to ask in batches, which cost half."""
    flag(
        parser,
        "--batch",
        "ask in batches, answered within a day at half the price; the same command"
        " later goes on",
    )
    flag(parser, "--wait", "the same, and wait for the answers")


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add an option for the column of each field of a sample."""
    columns = parser.add_argument_group(
        "columns", "found by themselves; a name or a dotted path where not"
    )
    for name in COLUMNS:
        names = (
            ("--reference-column", "--ground-truth-column")
            if name == "reference"
            else (f"--{name.replace('_', '-')}-column",)
        )
        columns.add_argument(*names, dest=f"{name}_column", metavar="NAME")


class ListMetrics(argparse.Action):
    """Prints of each shipped metric what it says and what it needs, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, *_: object, **__: object
    ) -> None:
        """Print the list as ``--help`` prints the help: whatever else was typed."""
        from ragmetrics_core.metrics.registry import METRICS, NAMED_METRICS

        for name, kind in NAMED_METRICS.items():
            metric = kind()
            needs = ", ".join(" or ".join(group) for group in metric.needs)
            when = "by default" if name in METRICS else "if --metrics names it"
            print(f"{name} ({when})\n  {(kind.__doc__ or '').splitlines()[0]}")
            print(f"  needs: {needs}\n  signature: {metric.signature}\n")
        print(
            "Calls of a run: --dry-run. Settings: --set adherence.polls=3; formulas:"
            " docs/metrics.md."
        )
        parser.exit()


def _run(options: argparse.Namespace) -> int:
    """Run the command; see ``evaluate.run``."""
    from ragmetrics_core.cli.evaluate import run  # a help needs nothing of it

    return run(options)


def _fill_in(options: argparse.Namespace) -> None:
    """Fill in options from the settings file; see ``evaluate.fill_in``."""
    from ragmetrics_core.cli.evaluate import fill_in  # a help needs nothing of it

    fill_in(options)
