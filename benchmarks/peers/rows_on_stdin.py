"""Reads rows from standard input and answers each with a line of scores: what all peers share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
SECONDS = 3600.0
"""For one call: a small machine is slow, and no library is to fail for its time limit."""
MAX_TOKENS = 384
"""Of a reply: a small model may not stop by itself."""


def answer_rows(score_by_task: Mapping[str, Callable[[Row], list[float]]]) -> None:
    """Score each row by the function of its task; an error is written in place of scores."""
    # libraries print what they like: only this program writes lines of scores
    out = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    for line in sys.stdin:
        row = json.loads(line)
        try:
            answer: dict[str, Any] = {"scores": score_by_task[row["task"]](row)}
            if any(score != score for score in answer["scores"]):
                answer = {"error": "NaN"}
        except Exception as error:  # noqa: BLE001  # what a library raises is its result
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=out, flush=True)
