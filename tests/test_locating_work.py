"""Locating takes time in proportion to the texts: its steps are counted, not timed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from counted_steps import count_steps

from ragmetrics_core.capture.findings import unite_findings
from ragmetrics_core.capture.locating import locate

VOCABULARY = [
    "".join(random.Random(seed).choices("etaoinshrdlu", k=7)) for seed in range(2000)
]


def line(number: int) -> str:
    """Return a line of eight words that no other line has, with a name of its own."""
    words = random.Random(number).choices(VOCABULARY, k=8)
    return f"{' '.join(words)} zq{number}zq"


def lines(n_lines: int) -> list[str]:
    return [line(number) for number in range(n_lines)]


def text_and_prompt(n_lines: int, change: Callable[[str, int], str]) -> tuple[str, str]:
    """Return a text of many lines, and a prompt that shows each line changed."""
    changed = [change(each, number) for number, each in enumerate(lines(n_lines), 1)]
    return "\n".join(lines(n_lines)), "\n".join(changed)


def in_parts(change: Callable[[str, int], str]) -> Callable[[int], Any]:
    """Return a case of one text of many lines, each of which the prompt changes."""

    def case(n_lines: int) -> tuple[list[str], str]:
        text, prompt = text_and_prompt(n_lines, change)
        return [text], prompt

    return case


def replaced(text: str, word: str) -> str:
    """Replace the fourth word of a line."""
    words = text.split()
    return " ".join([*words[:3], word, *words[4:]])


# a case: by a size, the candidates and the prompt
CASES: dict[str, Callable[[int], tuple[list[str], str]]] = {
    "numbers before lines": in_parts(lambda text, number: f"{number}| {text}"),
    "citation marks": in_parts(lambda text, number: f"{text} [{number}]"),
    "tags round words": in_parts(lambda text, _: f"{text} <em>lamp</em>"),
    "a word replaced in each line": in_parts(lambda text, _: replaced(text, "tower")),
    "a word put in each line": in_parts(lambda text, number: f"{text} even{number}"),
    "every third line left out": in_parts(
        lambda text, number: "" if number % 3 == 0 else text
    ),
    "many passages": lambda size: (lines(size), "\n".join(lines(size))),
    "many passages, the last first": lambda size: (
        lines(size),
        "\n".join(reversed(lines(size))),
    ),
    "many passages that lack": lambda size: (
        lines(size),
        "\n".join(line(number + 10_000) for number in range(size)),
    ),
    "one passage again and again": lambda size: (
        [line(1)],
        "\n".join([line(1)] * size),
    ),
    "as many equal passages": lambda size: (
        [line(1)] * size,
        "\n".join([line(1)] * size),
    ),
    "blanks": lambda size: ([line(1)], line(1).replace(" ", " " * size * 20)),
    "angle brackets": lambda size: ([line(1)], "<" * size * 50 + line(1)),
    "combining marks": lambda size: ([line(1)], "e" + "\u0301" * size * 50 + line(1)),
    "minus signs and digits": lambda size: (
        ["-1 " * size * 5 + line(1)],
        "-1 " * size * 10 + line(1),
    ),
    "digits that were apart": lambda size: (
        ["1-" * size * 5 + line(1)],
        "1" * size * 5 + line(1),
    ),
}


def read_all(candidates: list[str], prompt: str) -> None:
    """Locate texts, and read all that is worked out later."""
    for finding in locate(candidates, prompt).findings:
        assert unite_findings([finding, finding]).outcome == finding.outcome
        assert finding.offsets is None or finding.text


@pytest.mark.parametrize("name", CASES)
def test_four_times_the_text_takes_four_times_the_steps(name: str) -> None:
    case = CASES[name]
    read_all(*case(30))  # what is kept for the next search is there from now on
    n_small = count_steps(lambda: read_all(*case(30)))
    n_large = count_steps(lambda: read_all(*case(120)))
    # a sixth more for sorting
    assert 0 < n_large <= 4.7 * n_small


@pytest.mark.parametrize("form", [str, repr, lambda text: text.replace("\n", " ")])
def test_offsets_are_worked_out_only_when_they_are_read(
    form: Callable[[str], str],
) -> None:
    """A text without signs of numbers is shown whole by its letters alone."""
    text = "\n".join(lines(5))
    names: list[str] = []

    def trace(frame: FrameType, *_: object) -> None:
        names.append(frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        result = locate([text], f"Use this:\n{form(text)}\nWhich?")
    finally:
        sys.setprofile(None)
    assert result.findings[0].extent == "whole"
    assert "locate" in names
    assert "offsets_of" not in names
