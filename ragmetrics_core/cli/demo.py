"""``ragmetrics demo``: a whole evaluation on this machine, without key and network."""

import argparse
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ragmetrics_core.cli.options import command
from ragmetrics_core.demo.own_docs import demo
from ragmetrics_core.reporting.report import Report

GROUP = "ragmetrics.demos"
_ORDER = ("langchain", "llamaindex", "haystack")  # which of several adapters shows itself first
# A demo calls no host, so frameworks must not either; they read this when they are imported.
_NO_TELEMETRY = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = command(commands, "demo", _run, "evaluate a small RAG application on this machine, keyless")
    parser.add_argument("name", nargs="?", help="which demo; by default the first that an installed adapter offers")
    parser.add_argument("--out", help="write samples and results to this JSONL file")


def _run(options: argparse.Namespace) -> int:
    """Run a demo of an adapter, else the core's own, and print its report."""
    offered = {point.name: point for point in entry_points(group=GROUP)}
    known = [name for name in _ORDER if name in offered]
    name = options.name or next(iter([*known, *sorted(offered)]), "core")
    if name != "core" and name not in offered:
        print(f"ragmetrics: no demo {name!r}; there are: {', '.join(['core', *sorted(offered)])}", file=sys.stderr)
        return 2
    report = demo() if name == "core" else _offered(offered[name])
    print("\n".join([report.table(), *(f"! {sign}" for sign in report.summary().all_signs)]))
    if options.out:
        report.to_jsonl(options.out)
        print(f"Samples and results: {options.out}")
    others = sorted({"core", *offered} - {name})
    if others:
        print(f"Other demos: {', '.join(f'ragmetrics demo {other}' for other in others)}")
    return 0


def _offered(point: EntryPoint) -> Report:
    os.environ.update(_NO_TELEMETRY)
    report = point.load()()
    if not isinstance(report, Report):
        raise TypeError(f"the demo {point.value} must return a Report, got {type(report).__name__}")
    return report
