"""Answers that name their sources in a closing line: for all that stands before it."""

from __future__ import annotations

import pytest
from test_two_numberings import TEXTS, cited, sample_of

SAID = "Faro is there. It is old."
NUMBERED = "[{n}] {text}"
NAMED = "Content: {text}\nSource: {n}-pl"
FILES = "[{n}] f{n}.txt\n{text}"


def prompt_of(label: str) -> str:
    passages = [
        label.format(n=number, text=text) for number, text in enumerate(TEXTS, start=1)
    ]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


CLOSINGS = [
    (NUMBERED, "Sources: [2]", [(1,)]),
    (NUMBERED, "Sources: [2], [3]", [(1,), (2,)]),
    (NUMBERED, "**Sources:** 2 and 3", [(1,), (2,)]),
    (NUMBERED, "Source: [Source 2].", [(1,)]),
    (NAMED, "SOURCES: 2-pl, 3-pl", [(1,), (2,)]),
    (FILES, "SOURCES: f2.txt", [(1,)]),
    (FILES, "Sources:\n- f2.txt\n- `f3.txt`", [(1,), (2,)]),
    (FILES, "Quellen: f3.txt; f1.txt", [(2,), (0,)]),
]


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize(("label", "closing", "expected"), CLOSINGS)
def test_a_closing_line_cites_for_the_whole_answer(
    label: str, closing: str, expected: list[tuple[int, ...]], between: str
) -> None:
    sample = sample_of(prompt_of(label), f"{SAID}{between}{closing}")
    assert cited(sample) == expected
    if between == "\n" and "[" in closing:
        return  # a mark on a line of its own, which belongs to the last sentence
    for citation in sample.citations or ():
        assert (sample.answer or "")[citation.start : citation.end] == SAID


@pytest.mark.parametrize(
    ("label", "closing"),
    [
        (FILES, "SOURCES: f2.txt, g9.txt"),
        (FILES, "Sources: the files above"),
        (NUMBERED, "Sources: [9]"),
        (NUMBERED, "Sources: 3"),
        ("{text}", "Sources: [2]"),
        ("[{n}] Source {n}0: {text}", "Sources: see 2"),
    ],
)
def test_a_closing_line_that_names_more_than_labels_is_unknown(
    label: str, closing: str
) -> None:
    sample = sample_of(prompt_of(label), f"{SAID}\n\n{closing}")
    assert sample.citations is None


def test_marks_decide_beside_a_closing_line() -> None:
    answer = "Faro is there [2]. It is old [3].\n\nSources: [2], [3]"
    assert cited(sample_of(prompt_of(NUMBERED), answer)) == [(1,), (2,)]


def test_a_line_that_the_application_added_cites_nothing() -> None:
    says = f"{SAID}\n\nSources: f1.txt, f2.txt, f3.txt"
    assert not sample_of(prompt_of(FILES), SAID, says).citations
