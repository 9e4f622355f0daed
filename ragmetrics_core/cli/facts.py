"""``ragmetrics facts``: extract the facts of references, edit them, freeze them, so that runs are comparable."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import spending
from ragmetrics_core.cli.dataset import progress
from ragmetrics_core.cli.options import judge_from, positive
from ragmetrics_core.cli.output import show
from ragmetrics_core.cli.reading import read_rows
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.datasets.facts import as_text, extract_facts, from_text, read_facts, write_facts
from ragmetrics_core.engine.dry_run import Estimate, counting_judges


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("facts", help="extract the facts of references, edit and freeze them")
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")
    extract = kinds.add_parser("extract", help="facts of every row's reference", allow_abbrev=False)
    extract.add_argument("file", type=Path, metavar="FILE", help=".jsonl, .json, .csv, .tsv or .parquet")
    extract.add_argument("--out", type=Path, metavar="FILE", help="the facts, as JSONL; needed but for --dry-run")
    extract.add_argument("--judge", help="lexical (embedded, the default), or a model's name")
    extract.add_argument("--api-base", metavar="URL", help="the model's endpoint")
    extract.add_argument("--extraction", choices=("io", "cot"), default="io", help="direct, or with a chain of thought")
    extract.add_argument("--concurrency", type=positive, default=32, metavar="N", help="most model calls in flight")
    spending.add_store(extract)
    extract.add_argument("--dry-run", action="store_true", help="print calls, tokens and price, and make no call")
    extract.add_argument("--quiet", action="store_true", help="no progress")
    extract.set_defaults(run=_extract)
    for name, action, text in (
        ("edit", _edit, "edit the facts with $VISUAL or $EDITOR"),
        ("freeze", _freeze, "write the digest of the facts into their file; from then on changes are refused"),
    ):
        parser = kinds.add_parser(name, help=text)
        parser.add_argument("file", type=Path, metavar="FACTS", help="a file of ragmetrics facts extract")
        parser.set_defaults(run=action)


def _extract(options: argparse.Namespace) -> int:
    if options.out is None and not options.dry_run:
        raise SettingError("--out names the file for the facts; without it only --dry-run makes sense")
    rows = list(_rows(options.file))
    judge = judge_from(options.judge, options.api_base)
    if options.dry_run:
        low, high = counting_judges(judge)
        for counter in (low, high):
            extract_facts(rows, counter, extraction=options.extraction)
        show(Estimate.of(len(rows), low.total, high.total).text("references"))
        return 0
    shown = None if options.quiet else progress("references")
    file, usage = extract_facts(
        rows,
        judge,
        extraction=options.extraction,
        concurrency=options.concurrency,
        store=spending.store(options),
        show=shown,
    )
    write_facts(options.out, file)
    price = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
    count = sum(len(row["facts"]) for row in file.rows)
    show(f"{options.out}: {count} facts of {len(file.rows)} references; {file.model}, {usage.calls} calls, {price}")
    show(f"Next: ragmetrics facts edit {options.out}, then ragmetrics facts freeze {options.out}")
    return 0


def _rows(path: Path) -> Iterator[Any]:
    for place, row in read_rows(path):
        if isinstance(row, RowError):
            raise InputError(f"{place}: {row}")
        if not isinstance(row, dict):
            raise InputError(f"{place}: needs an object, found {type(row).__name__}")
        yield row


def _edit(options: argparse.Namespace) -> int:
    file = read_facts(options.file)
    if file.frozen:
        raise InputError(f"{options.file}: the facts are frozen; extract them anew to change them")
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise SettingError("no editor is known; set EDITOR, e.g. EDITOR=nano")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "facts.txt"
        page.write_text(as_text(file), encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(command), str(page)], check=False).returncode  # noqa: S603 - the user's own editor
        except OSError as error:
            raise SettingError(f"the editor {command!r} cannot be started: {error.strerror}") from None
        if code:
            raise SettingError(f"the editor ended with {code}; nothing was changed")
        changed = file.changed(from_text(page.read_text(encoding="utf-8")))
    write_facts(options.file, changed)
    show(f"{options.file}: {sum(len(row['facts']) for row in changed.rows)} facts")
    return 0


def _freeze(options: argparse.Namespace) -> int:
    file = read_facts(options.file).freeze()
    write_facts(options.file, file)
    show(f"{options.file}: {sum(len(row['facts']) for row in file.rows)} facts frozen as {file.frozen}")
    return 0
