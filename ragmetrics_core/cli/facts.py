"""``ragmetrics facts``: extract the facts of references, edit them, freeze them, so that runs are comparable."""

import argparse
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import add, command, show
from ragmetrics_core.datasets.facts import extract_facts, read_facts, write_facts
from ragmetrics_core.datasets.reading import read_objects


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    kinds = shared.group(commands, "facts")
    extract = command(kinds, "extract", _extract)
    add(extract, "file", ".jsonl, .json, .csv, .tsv or .parquet", "FILE", Path)
    add(extract, "--out", "the facts, as JSON to edit; needed but for --dry-run", "FACTS.json", Path)
    shared.add_judge(extract)
    add(extract, "--extraction", "direct, or with a chain of thought", default="io", choices=("io", "cot"))
    shared.add_calls(extract)
    add(command(kinds, "freeze", _freeze), "file", "a file of ragmetrics facts extract", "FACTS.json", Path)


def _extract(options: argparse.Namespace) -> int:
    shared.needs_out(options)
    rows, how = [row for _, row in read_objects(options.file)], options.extraction
    judge = shared.judge_from(options.judge, options.api_base)
    if options.dry_run:
        return shared.dry_run(judge, len(rows), "references", lambda it: extract_facts(rows, it, extraction=how))
    maker = shared.maker(judge, options)
    file = extract_facts(rows, maker, extraction=how)
    write_facts(options.out, file)
    show(f"{options.out}: {file.count} facts of {len(file.rows)} references; {file.model}, {shared.spent(maker.usage)}")
    show(f"Next: edit the facts in {options.out} if they need it, then ragmetrics facts freeze {options.out}")
    return 0


def _freeze(options: argparse.Namespace) -> int:
    file = read_facts(options.file).freeze()
    write_facts(options.file, file)
    show(f"{options.file}: {file.count} facts frozen as {file.frozen}")
    return 0
