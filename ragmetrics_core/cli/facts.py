"""``ragmetrics facts``: extract the facts of references, edit them, freeze them, so that runs are comparable."""

import argparse
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import add, command
from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.datasets.facts import as_text, extract_facts, from_text, read_facts, write_facts
from ragmetrics_core.datasets.making import Maker
from ragmetrics_core.datasets.reading import read_objects


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    kinds = shared.group(commands, "facts", "extract the facts of references, edit and freeze them")
    extract = command(kinds, "extract", _extract, "facts of every row's reference")
    add(extract, "file", ".jsonl, .json, .csv, .tsv or .parquet", "FILE", Path)
    add(extract, "--out", "the facts, as JSONL; needed but for --dry-run", "FILE", Path)
    shared.add_judge(extract)
    add(extract, "--extraction", "direct, or with a chain of thought", default="io", choices=("io", "cot"))
    shared.add_calls(extract)
    edit = command(kinds, "edit", _edit, "edit the facts with $VISUAL or $EDITOR")
    text = "write the digest of the facts into their file; from then on changes are refused"
    for parser in (edit, command(kinds, "freeze", _freeze, text)):
        add(parser, "file", "a file of ragmetrics facts extract", "FACTS", Path)


def _extract(options: argparse.Namespace) -> int:
    shared.needs_out(options)
    rows, how = [row for _, row in read_objects(options.file)], options.extraction
    judge = shared.judge_from(options.judge, options.api_base)
    if options.dry_run:
        return shared.dry_run(judge, len(rows), "references", lambda it: extract_facts(rows, Maker(it), extraction=how))
    maker = shared.maker(judge, options, "references")
    file = extract_facts(rows, maker, extraction=how)
    write_facts(options.out, file)
    show(f"{options.out}: {file.count} facts of {len(file.rows)} references; {file.model}, {shared.spent(maker.usage)}")
    show(f"Next: ragmetrics facts edit {options.out}, then ragmetrics facts freeze {options.out}")
    return 0


def _edit(options: argparse.Namespace) -> int:
    file = read_facts(options.file)
    if file.frozen:
        raise InputError(f"{options.file}: the facts are frozen; extract them anew to change them")
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise SettingError("no editor is known; set EDITOR, e.g. EDITOR=nano")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "facts.txt"
        page.write_text(as_text(file), encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(editor), str(page)], check=False).returncode  # noqa: S603 - the user's own editor
        except OSError as error:
            raise SettingError(f"the editor {editor!r} cannot be started: {error.strerror}") from None
        if code:
            raise SettingError(f"the editor ended with {code}; nothing was changed")
        changed = file.changed(from_text(page.read_text(encoding="utf-8")))
    write_facts(options.file, changed)
    show(f"{options.file}: {changed.count} facts")
    return 0


def _freeze(options: argparse.Namespace) -> int:
    file = read_facts(options.file).freeze()
    write_facts(options.file, file)
    show(f"{options.file}: {file.count} facts frozen as {file.frozen}")
    return 0
