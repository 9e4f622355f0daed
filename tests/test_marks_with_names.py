"""Marks with more than a number: ``[1: Bridges]``, ``[Source 1: f2.txt]``, ``[No. 1]``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_closing_sources import prompt_of
from test_two_numberings import TEXTS, cited, sample_of

NUMBERED = "[{n}] {text}"
FILES = "[{n}] f{n}.txt\n{text}"
NUMBERS = st.integers(1, 3)


@given(
    number=NUMBERS, mark=st.sampled_from(["[{}: {}]", "[{} | {}]", "[Source {}: {}]"])
)
def test_a_title_behind_a_number_changes_nothing(number: int, mark: str) -> None:
    for label, title in ((NUMBERED, "On the Town"), (FILES, f"f{number}.txt")):
        answer = f"It is old {mark.format(number, title)}."
        assert cited(sample_of(prompt_of(label), answer)) == [(number - 1,)]


@given(
    number=NUMBERS,
    named=NUMBERS,
    mark=st.sampled_from(["[{}: f{}.txt]", "[{} | f{}.txt]", "[Source {}: f{}.txt]"]),
)
def test_a_number_and_the_name_of_another_source_are_unknown(
    number: int, named: int, mark: str
) -> None:
    sample = sample_of(prompt_of(FILES), f"It is old {mark.format(number, named)}.")
    if named == number:
        assert cited(sample) == [(number - 1,)]
    else:
        assert sample.citations is None
        assert "the name of another source" in sample.citations_unknown


def test_a_number_that_nobody_was_shown_before_a_title_is_not_read() -> None:
    sample = sample_of(prompt_of(NUMBERED), "It is old [9: On the Town].")
    assert sample.citations is None


@pytest.mark.parametrize("word", ["No. ", "no. ", "Nr. ", "No ", "№ "])
def test_a_number_behind_its_word_is_that_of_the_prompt(word: str) -> None:
    prompt = prompt_of(NUMBERED)
    assert cited(sample_of(prompt, f"It is old [{word}2].")) == [(1,)]
    (citation,) = sample_of(prompt, f"It is old [{word}9].").citations or ()
    assert citation.dangling == ("9",)


@pytest.mark.parametrize("rule", ["Rule No. 2", "Rule no 2", "Symphony Nr. 2"])
def test_a_number_behind_a_word_that_a_passage_has_as_well_is_unknown(
    rule: str,
) -> None:
    texts = (f"{rule} is older than all of the others are.", *TEXTS[1:])
    prompt = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(texts, start=1))
    sample = sample_of(prompt, f"It is old [{rule.partition(' ')[2]}].", texts=texts)
    assert sample.citations is None
    assert "one that stands so in a text" in sample.citations_unknown
    assert cited(sample_of(prompt, "It is old [2].", texts=texts)) == [(1,)]


@pytest.mark.parametrize("time", ["It leaves at 22:40.", "It won 2:1.", "Open 9：30。"])
def test_a_time_of_day_is_no_form_of_citing(time: str) -> None:
    """The prompt labels nothing, so nobody knows what the answer cites: but not for its time."""
    sample = sample_of(prompt_of("{text}"), time)
    assert sample.citations is None
    assert "has no marks such as [1]" in sample.citations_unknown
    numbers = sample_of(prompt_of("{text}"), "Источники: 1, 2.")
    assert "a form that is not read" in numbers.citations_unknown
