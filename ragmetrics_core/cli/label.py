"""``ragmetrics label draw``: samples for people to label, drawn at random with known probabilities."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.agreement import metric_of
from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.reporting.labels import draw
from ragmetrics_core.reporting.report import Report


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("label", help="draw samples for people to label", allow_abbrev=False)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    drawing = actions.add_parser("draw", help="draw samples at random, with known probabilities", allow_abbrev=False)
    drawing.add_argument("results", type=Path, metavar="RESULTS.jsonl", help="results of a run; samples need ids")
    drawing.add_argument("--n", type=int, default=100, help="how many (100)")
    drawing.add_argument("--metric", help="name of the metric; by default the run's only one")
    drawing.add_argument("--stratify-by", choices=("score",), help="draw evenly over the range of scores")
    drawing.add_argument("--seed", type=int, required=True, help="of the draw, so that it can be repeated")
    drawing.add_argument("--out", type=Path, required=True, metavar="LABELS.jsonl", help="fill in the labels here")
    drawing.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw and write."""
    report = Report.from_jsonl(options.results)
    metric = metric_of(report, options.metric)
    rows = draw(report, metric, options.n, seed=options.seed, by_score=options.stratify_by is not None)
    try:
        with options.out.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except FileExistsError:
        raise InputError(f"{options.out} exists, and may hold labels; name another file") from None
    except OSError as error:
        raise InputError(f"the labels cannot be written to {options.out}: {error.strerror}") from error
    show(f"{len(rows)} samples drawn: {options.out}. Put 1 or 0 in the place of each null, then: "
         f"ragmetrics agreement {options.results} {options.out} --metric {metric} --calibrate")  # fmt: skip
    return 0
