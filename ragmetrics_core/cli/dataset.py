"""``ragmetrics dataset``: build annotated sets from documents, review them, score judges on them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import dataset_review, dataset_score, spending
from ragmetrics_core.cli.options import judge_from, positive
from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.datasets.chunking import CHUNK_SIZE, Document
from ragmetrics_core.datasets.continuous import ContinuousSettings, build_continuous
from ragmetrics_core.datasets.desk import Desk, Show
from ragmetrics_core.datasets.discrete import DiscreteSettings, build_discrete, write_pairs
from ragmetrics_core.datasets.loading import load_documents, load_pairs
from ragmetrics_core.datasets.retrieving import named_retriever
from ragmetrics_core.datasets.score_table import composition, heading
from ragmetrics_core.datasets.set_files import write_set
from ragmetrics_core.datasets.sets import AnySet, ContinuousSet
from ragmetrics_core.engine.dry_run import Estimate, counting_judges
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.statistics.agreement import mean_error, spearman

_LINE_SECONDS = 10.0


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("dataset", help="build annotated sets, review them, score judges on them")
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_discrete(kinds)
    _add_continuous(kinds)
    dataset_review.add_to(kinds)
    dataset_score.add_to(kinds)


def _add_discrete(kinds: Any) -> None:
    parser = kinds.add_parser(
        "discrete", help="golden answers with the first and the last retrieved documents", allow_abbrev=False
    )
    _add_building(parser)
    parser.add_argument("--pairs", nargs="+", metavar="FILE", help="questions with golden answers; else a model writes")
    parser.add_argument("--questions", type=positive, default=15, metavar="N", help="how many it writes (default 15)")
    parser.add_argument("--top", type=positive, default=5, metavar="K", help="documents retrieved (default 5)")
    parser.add_argument("--take", type=positive, default=2, metavar="N", help="first and last of them (default 2)")
    parser.add_argument("--retriever", metavar="MODULE:NAME", help="your callable(question, k); by default BM25")
    parser.set_defaults(run=_discrete)


def _add_continuous(kinds: Any) -> None:
    parser = kinds.add_parser(
        "continuous", help="combinations of golden and noise contexts, labelled by their facts", allow_abbrev=False
    )
    _add_building(parser)
    parser.add_argument("--documents", type=positive, default=20, metavar="N", help="repeat over N (default 20)")
    parser.add_argument("--golden", type=positive, default=4, metavar="N", help="consecutive chunks (default 4)")
    parser.add_argument("--noise", type=int, default=3, metavar="N", help="chunks of other documents (default 3)")
    parser.add_argument("--smallest", type=positive, default=2, metavar="N", help="contexts of a combination (2)")
    parser.add_argument("--largest", type=positive, metavar="N", help="the same at most (default all)")
    parser.add_argument("--singles", action="store_true", help="combinations of one context too")
    parser.add_argument("--stratify", action="store_true", help="as many points for each number of golden chunks")
    parser.add_argument("--extraction", choices=("io", "cot"), default="io", help="prompt that extracts facts")
    parser.set_defaults(run=_continuous)


def _add_building(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", nargs="+", metavar="PATH", help="text, Markdown, JSONL, JSON files, or folders")
    parser.add_argument(
        *("--where",),
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="only rows that have it; may be repeated",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the set, as JSONL; needed but for --dry-run")
    parser.add_argument("--model", help="a LiteLLM model that writes and labels; by default RAGMETRICS_JUDGE")
    parser.add_argument("--api-base", metavar="URL", help="its endpoint, e.g. http://127.0.0.1:8000/v1")
    parser.add_argument("--language", help="language of what it writes")
    parser.add_argument("--chunk-size", type=positive, default=CHUNK_SIZE, metavar="N", help="characters (2000)")
    parser.add_argument("--overlap", type=int, default=0, metavar="N", help="characters that chunks share (0)")
    parser.add_argument("--seed", type=int, default=0, help="of every random choice (0)")
    spending.add_store(parser)
    parser.add_argument("--concurrency", type=positive, default=32, metavar="N", help="most model calls in flight")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and price, and make no call")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _discrete(options: argparse.Namespace) -> int:
    _check(options)
    documents = load_documents(options.corpus, where=_where(options.where))
    settings = DiscreteSettings(
        **{name: getattr(options, name) for name in ("chunk_size", "overlap", "top", "take", "questions", "seed")},
        retriever=options.retriever or "bm25",
    )
    given = load_pairs(options.pairs, where=_where(options.where)) if options.pairs else None
    judge = None if given is not None else _model(options, "give --pairs")
    if options.dry_run:
        if judge is None:
            show("no calls: questions, answers and documents are there")
            return 0
        return _dry_run(judge, options.questions, "questions", lambda desk: write_pairs(documents, settings, desk))
    if options.retriever:
        sys.path.insert(0, os.getcwd())
    retriever = named_retriever(options.retriever) if options.retriever else None
    desk = None if judge is None else _desk(judge, options, "questions")
    pairs = given if given is not None or desk is None else write_pairs(documents, settings, desk)
    made = build_discrete(
        documents, pairs or (), settings, retriever=retriever, source=_source(options, documents), desk=desk
    )
    return _finish(made, desk, options)


def _continuous(options: argparse.Namespace) -> int:
    _check(options)
    documents = load_documents(options.corpus, where=_where(options.where))
    names = ("chunk_size", "overlap", "documents", "golden", "noise", "largest", "stratify", "extraction", "seed")
    smallest = 1 if options.singles else options.smallest
    settings = ContinuousSettings(**{name: getattr(options, name) for name in names}, smallest=smallest).checked()
    judge = _model(options, "there is no other way to label")
    if options.dry_run:
        return _dry_run(judge, options.documents, "documents", lambda desk: build_continuous(documents, settings, desk))
    desk = _desk(judge, options, "documents")
    return _finish(build_continuous(documents, settings, desk, source=_source(options, documents)), desk, options)


def _check(options: argparse.Namespace) -> None:
    if options.out is None and not options.dry_run:
        raise SettingError("--out names the file for the set; without it only --dry-run makes sense")


def _where(texts: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingError(f"--where is written FIELD=VALUE, e.g. source=wice; got {text!r}")
        found[name] = value
    return found


def _model(options: argparse.Namespace, otherwise: str) -> LLMJudge:
    named = options.model or os.environ.get("RAGMETRICS_JUDGE")
    judge = judge_from(named, options.api_base) if named else None
    if not isinstance(judge, LLMJudge):
        raise SettingError(
            f"questions and answers are written by a language model: --model gpt-4o-mini; or {otherwise}"
        )
    return judge


def _desk(judge: Judge, options: argparse.Namespace, unit: str) -> Desk:
    shown = None if options.quiet else progress(unit)
    kept = spending.store(options)
    return Desk(judge, concurrency=options.concurrency, language=options.language, store=kept, show=shown)


def _source(options: argparse.Namespace, documents: Sequence[Document]) -> tuple[str, ...]:
    return (*map(str, options.corpus), *options.where, f"{len(documents)} documents")


def progress(unit: str) -> Show:
    """Progress as one changing line on a terminal, as a line every ten seconds elsewhere."""
    last = time.monotonic()

    def shown(done: int, total: int, usage: Usage) -> None:
        nonlocal last
        price = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        line = f"{done}/{total} {unit}, {usage.calls} calls, {usage.stored} from the store, {price}"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="" if done < total else "\n", file=sys.stderr, flush=True)
        elif time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            print(line, file=sys.stderr)

    return shown


def _dry_run(judge: Judge, count: int, unit: str, build: Callable[[Desk], object]) -> int:
    """Build with judges that count, so that the numbers are those of the very same code."""
    low, high = counting_judges(judge)
    for counter in (low, high):
        build(Desk(counter))
    show(Estimate.of(count, low.total, high.total).text(unit))
    return 0


def _finish(made: AnySet, desk: Desk | None, options: argparse.Namespace) -> int:
    write_set(options.out, made)
    lines = [f"{options.out}: {heading(made, None)}", composition(made, None)]
    if isinstance(made, ContinuousSet):
        pairs = [(point.label, point.by_tags) for point in made.points]
        rank, error = spearman(pairs), mean_error(pairs)
        facts, calls = sum(len(it.facts) for it in made.documents), sum(it.calls for it in made.documents)
        lines.append(f"{facts} facts; {calls} questions for the labels, {len(made.documents)} to write.")
        lines.append(
            "Label from the matrix against the sentences' own tags: mean absolute difference "
            f"{error or 0.0:.3f}, Spearman {'undefined' if rank is None else f'{rank:.3f}'}."
        )
        if len(made.documents) < options.documents:
            lines.append(f"Only {len(made.documents)} of {options.documents} documents could be used.")
    if made.header.left_out:
        lines.append("Left out: " + ", ".join(f"{count} {reason}" for reason, count in made.header.left_out.items()))
    if desk is not None:
        price = "price unknown" if desk.usage.cost is None else f"${desk.usage.cost:.4f}"
        lines.append(f"Model: {desk.name}; {desk.usage.calls} calls, {desk.usage.stored} from the store, {price}")
    show("\n".join([*lines, f"Next: ragmetrics dataset review {options.out}"]))
    return 0
