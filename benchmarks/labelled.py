"""The labelled rows of a data folder, by family and source.

The rows are never part of this repository.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core.labelling.labelled_samples import sample_of

__all__ = ["SKIPPED", "Row", "labels_of", "rows_by_source", "sample_of", "shown"]

Row = dict[str, Any]

EASY = frozenset(
    {"clapnq", "clapnq_sentences", "clapnq_ablated", "mtrag_un", "xquad_en"}
)
"""Sets that are easy by construction: negatives from other documents, or the reference cut out of the contexts."""

_FIRST = ("hotpotqa", "musique", "expertqa", "expertqa_usefulness", "wice")
SKIPPED = "clapnq_unanswerable"  # its empty answer gives the label away


def rows_by_source(
    data: Path, family: str, limit: int | None = None
) -> dict[str, list[Row]]:
    """Rows of one family per source, the hard sources first.

    Args:
        data: Folder with ``<family>.dev.jsonl`` (or ``<family>.jsonl``).
        family: ``adherence``, ``relevance``, ``recall`` or ``reference_pairs``.
        limit: Most rows per source; None for all.
    """
    path = next(iter(sorted(data.glob(f"{family}*.jsonl"))), None)
    if path is None:
        raise SystemExit(f"no {family}*.jsonl in {data}")
    found: dict[str, list[Row]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row: Row = json.loads(line)
        if row["source"] != SKIPPED:
            found.setdefault(row["source"], []).append(row)
    return {source: found[source][:limit] for source in sorted(found, key=_place)}


def _place(source: str) -> tuple[bool, int, str]:
    return (
        source in EASY,
        _FIRST.index(source) if source in _FIRST else len(_FIRST),
        source,
    )


def shown(source: str) -> str:
    """Name of a source; an asterisk marks a set that is easy by construction."""
    return f"{source}*" if source in EASY else source


def labels_of(rows: Sequence[Row], name: str) -> list[Any]:
    """One label per row.

    Args:
        rows: Rows of one family.
        name: Name of the label, e.g. ``adherent``.
    """
    return [row["labels"][name] for row in rows]
