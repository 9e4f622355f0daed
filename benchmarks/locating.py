"""What locating candidates in a prompt costs: 200 of 2,000 characters in 400,000.

    uv run benchmarks/locating.py

Each row is one form of the same documents. Beside the milliseconds stands the ratio to
a bare ``str.find`` of every candidate in the plain prompt, which only says where a text
stands unchanged. Hostile rows show that work stays bounded. The exit status is 1 if a
goal is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable

from goals import Rows, at_most

from ragmetrics_core.capture.findings import LocateResult
from ragmetrics_core.capture.locating import locate

GOAL_MS = 20.0
# the goal of the other forms, which was missed fivefold before anybody noticed
FORM_GOAL_MS = 40.0
# the goal where offsets are needed: of texts with signs of numbers, and of all texts
OFFSETS_GOAL_MS = 100.0
HOSTILE_MS = 5_000.0
_WORDS = 3000
_ENOUGH = 4.0


def documents(count: int, length: int, seed: int = 7) -> list[str]:
    """Texts of words of 2 to 9 letters, drawn from one vocabulary, in sentences and paragraphs."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("etaoinshrdlucmfwygpbvk", k=rng.randint(2, 9)))
        for _ in range(_WORDS)
    ]
    ends = [" "] * 12 + [", ", ". ", ".\n"]
    return [
        "".join(rng.choice(words) + rng.choice(ends) for _ in range(length // 4))[
            :length
        ].strip()
        for _ in range(count)
    ]


def with_numbers(text: str) -> str:
    """A text in which every twelfth word is a number with a sign."""
    words = text.split(" ")
    numbers = ("1.5", "-5", "5 %", "2*3", "10-15")
    for index in range(5, len(words), 12):
        words[index] = numbers[index % len(numbers)]
    return " ".join(words)


def with_line_numbers(text: str) -> str:
    """A text in lines of eight words, each with its number."""
    words = text.split()
    rows = [" ".join(words[start : start + 8]) for start in range(0, len(words), 8)]
    return "\n".join(f"{number}| {row}" for number, row in enumerate(rows, 1))


def best(work: Callable[[], object], repeats: int) -> float:
    """Milliseconds of CPU, the best of a few runs; of fewer where that takes long."""
    runs: list[float] = []
    while len(runs) < repeats and sum(runs) < 1000 * _ENOUGH:
        started = time.process_time()
        work()
        runs.append(1000 * (time.process_time() - started))
    return min(runs)


def _located(found: LocateResult, expected: int) -> None:
    assert len(found.shown_in_order) == expected, (
        f"{len(found.shown_in_order)} located, {expected} expected"
    )


def main() -> int:
    """Print the rows; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    rows = Rows()
    given, others = documents(200, 2000), documents(200, 2000, seed=8)
    plain = "\n\n".join(given)
    bare = best(lambda: [plain.find(text) for text in given], repeats)
    rows.add(
        f"locating: str.find of 200 candidates in {len(plain):,} characters:"
        f" {bare:.2f} ms"
    )
    prompts = {
        "plain": (plain, 200),
        "repr": (repr(given), 200),
        "JSON": (json.dumps(given), 200),
        "no line breaks": (plain.replace("\n", " "), 200),
        "hardly a showing": ("\n\n".join((*others[:198], *given[:2])), 2),
    }
    for name, (prompt, expected) in prompts.items():
        _located(locate(given, prompt), expected)
        spent = best(lambda prompt=prompt: locate(given, prompt), repeats)
        goal = GOAL_MS if name == "plain" else FORM_GOAL_MS
        rows.add(
            f"locating: {name}: {spent:.1f} ms, × {spent / bare:.0f}",
            at_most(spent, goal, " ms"),
        )
    read = best(
        lambda: [
            (one.offsets, one.text) for one in locate(given, repr(given)).findings
        ],
        repeats,
    )
    rows.add(
        f"locating: repr, with offsets, texts and forms of all: {read:.1f} ms, ×"
        f" {read / bare:.0f}",
        at_most(read, OFFSETS_GOAL_MS, " ms"),
    )
    numbered = [with_numbers(text) for text in given]
    in_json = json.dumps(numbered)
    _located(locate(numbered, in_json), 200)
    spent = best(lambda: locate(numbered, in_json), repeats)
    rows.add(
        f"locating: JSON, each text with signs of numbers: {spent:.1f} ms",
        at_most(spent, OFFSETS_GOAL_MS, " ms"),
    )
    in_lines = "\n\n".join(with_line_numbers(text) for text in given[:50])
    _located(locate(given[:50], in_lines), 50)
    spent = best(lambda: locate(given[:50], in_lines), repeats)
    rows.add(
        f"locating: 50 texts in numbered lines: {spent:.1f} ms",
        at_most(spent, OFFSETS_GOAL_MS, " ms"),
    )
    hostile = {
        "400,000 backslashes": (given, "\\" * 400_000),
        "one letter, 10 MB": (["a" * 2000] * 3, "a" * 10_000_000),
        "one paragraph 2,000 times, 200 texts that hold it": (
            [given[0] + text for text in given],
            given[0] * 200,
        ),
        "10 MB of other texts": (given, "\n".join(others) * 25),
    }
    for name, (candidates, prompt) in hostile.items():
        spent = best(
            lambda candidates=candidates, prompt=prompt: locate(candidates, prompt), 1
        )
        rows.add(f"locating: {name}: {spent:.0f} ms", at_most(spent, HOSTILE_MS, " ms"))
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
