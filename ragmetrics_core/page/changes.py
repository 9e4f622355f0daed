"""The page of a comparison: the numbers, and the most changed samples side by side."""

import re
from difflib import SequenceMatcher
from pathlib import Path

from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.page.render import write_html
from ragmetrics_core.page.rows import cut
from ragmetrics_core.reporting.comparison import Comparison

_LONGEST_DIFF = 4000


def write_comparison(path: str | Path, comparison: Comparison) -> None:
    """Write a comparison as one HTML page; see ``Comparison.to_html``."""
    data = {
        "comparison": comparison,
        "matching": str(comparison.matched),
        "changes": [(change, change.lines(comparison.margin)[1:]) for change in comparison.changes],
        "changed": [
            {
                "metric": one.metric,
                "difference": one.difference,
                "sides": [_shown(row, one.metric) for row in (one.first, one.second)],
                "answers": _marked(*(row.sample.answer or "" if row.sample else "" for row in (one.first, one.second))),
            }
            for one in comparison.most_changed
        ],
    }
    write_html(path, "comparison.html.j2", (), data)


def _shown(row: SampleResult, metric: str) -> dict[str, object]:
    sample, result = row.sample or Sample(), row.results[metric]
    return {
        "row": row.index + 1,
        "id": sample.id or "",
        "value": result.value,
        "reason": cut(result.reason),
        "question": cut(sample.question or ""),
        "contexts": [cut(context.text) for context in sample.contexts],
    }


def _marked(first: str, second: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Both answers in pieces, each with whether it stands in one of them only; long ones unmarked."""
    if max(len(first), len(second)) > _LONGEST_DIFF or first == second:
        return [(cut(first), False)], [(cut(second), False)]
    words = (_words(first), _words(second))
    pieces: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for kind, a, b, c, d in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        for side, own in ((0, words[0][a:b]), (1, words[1][c:d])):
            if own:
                pieces[side].append(("".join(own), kind != "equal"))
    return pieces


def _words(text: str) -> list[str]:
    """Words, each with the blank after it."""
    return re.findall(r"\S+\s*|\s+", text)
