"""``ragmetrics dataset score``: hold judges and metrics against the labels of sets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import spending
from ragmetrics_core.cli.options import judge_from, positive
from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.datasets.reviews import Reviews
from ragmetrics_core.datasets.score_table import score_table
from ragmetrics_core.datasets.scoring import DRAWS, Prompt, samples_of, score_set, variants
from ragmetrics_core.datasets.set_files import read_set
from ragmetrics_core.datasets.sets import AnySet
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.registry import chosen

_PROMPTS: tuple[Prompt, ...] = ("io", "cot", "frozen")


def add_to(kinds: Any) -> None:
    """Add the command to the parser."""
    parser = kinds.add_parser("score", help="score judges and metrics on sets", allow_abbrev=False)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET", help="files of ragmetrics dataset")
    parser.add_argument(
        *("--judge",), action="append", default=[], metavar="NAME",
        help="lexical (embedded, the default), or a model's name; may be repeated",
    )  # fmt: skip
    parser.add_argument("--api-base", metavar="URL", help="the models' endpoint, e.g. http://127.0.0.1:8000/v1")
    parser.add_argument(
        "--metrics", default="retrieval_accuracy", metavar="NAMES", help="separated by commas (retrieval_accuracy)"
    )
    parser.add_argument(
        *("--prompts",), default="io,cot", metavar="NAMES",
        help="for retrieval accuracy: io, cot, frozen (the continuous set's own facts); default io,cot",
    )  # fmt: skip
    parser.add_argument("--threshold", type=float, default=0.5, help="a point is positive from this score on (0.5)")
    parser.add_argument("--draws", type=positive, default=DRAWS, metavar="N", help=f"resamples of intervals ({DRAWS})")
    parser.add_argument("--without-reviews", action="store_true", help="score on the labels as they were made")
    parser.add_argument("--concurrency", type=positive, default=32, metavar="N", help="most model calls in flight")
    spending.add_store(parser)
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and price, and make no call")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one table per set."""
    metrics = chosen(options.metrics.split(","))
    prompts = _prompts(options.prompts)
    endpoint = options.api_base
    judges = [judge_from(name, None if name == "lexical" else endpoint) for name in options.judge or [None]]
    sets = [(path, read_set(path)) for path in options.sets]
    tables = []
    for path, given in sets:
        if options.dry_run:
            tables += _estimates(given, metrics, judges, prompts, str(path))
            continue
        reviews = None if options.without_reviews else Reviews(path, given)
        store = spending.store(options)
        scores = [
            score_set(
                given, reviews, metric, judge, prompt=prompt, threshold=options.threshold, store=store,
                concurrency=options.concurrency, draws=options.draws, progress=False if options.quiet else None,
            )
            for judge in judges
            for metric, prompt in variants(given, metrics, judge, prompts)
        ]  # fmt: skip
        tables.append(score_table(given, reviews, scores, name=str(path)))
    show("\n\n".join(tables))
    return 0


def _prompts(text: str) -> list[Prompt]:
    names = [name.strip() for name in text.split(",")]
    found = [prompt for prompt in _PROMPTS if prompt in names]
    if set(names) - set(_PROMPTS):
        raise SettingError(f"--prompts are {', '.join(_PROMPTS)}; got {text!r}")
    return found


def _estimates(given: AnySet, metrics: Any, judges: list[Judge], prompts: list[Prompt], name: str) -> list[str]:
    found = []
    for judge in judges:
        for metric, prompt in variants(given, metrics, judge, prompts):
            text = estimate(samples_of(given, metric, prompt), [metric], judge).text("points or documents")
            found.append(f"{name}, {judge.name}, {metric.name} {prompt}\n{text}")
    return found
