"""Rows of a table that a prompt shows in another order, or with the names of its columns."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture.locating import locate

CHRONICLE = (
    "The chronicle of the town tells that the gate was built in 1632 by order of the"
    " duke."
)
ROWS = [("Anna", "1874"), ("Otto", "1901")]
LONG_ROWS = [("Anna Brandt", "1874", "keeper"), ("Otto Holm", "1901", "mayor")]
COLUMNS = ("name", "year", "office")

Row = Sequence[str]


def piped(row: Row) -> str:
    return " | ".join(row)


def labelled(row: Row) -> str:
    pairs = zip(COLUMNS, row, strict=False)
    return ", ".join(f"{name}: {field}" for name, field in pairs)


def dumped(row: Row) -> str:
    return json.dumps(dict(zip(COLUMNS, row, strict=False)))


def turned(row: Row) -> str:
    return f"{row[-1]}: {' '.join(row[:-1])}"


def tabbed(row: Row) -> str:
    return "\t".join(row)


FORMS: dict[str, Callable[[Row], str]] = {
    form.__name__: form for form in (piped, labelled, dumped, turned, tabbed)
}


def outcomes(candidates: Sequence[str], *shown: str) -> list[str]:
    prompt = "\n".join(["Answer from this only.", *shown, "Who kept the lamp?"])
    return [finding.outcome for finding in locate(candidates, prompt).findings]


@pytest.mark.parametrize("rows", [ROWS, LONG_ROWS], ids=["two fields", "three fields"])
@pytest.mark.parametrize("found", FORMS)
@pytest.mark.parametrize("shown", FORMS)
def test_a_row_in_another_form_is_never_told_not_shown(
    rows: Sequence[Row], found: str, shown: str
) -> None:
    candidates = [FORMS[found](row) for row in rows]
    lines = [FORMS[shown](row) for row in rows]
    assert "not shown" not in outcomes([*candidates, CHRONICLE], *lines, CHRONICLE)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_the_prompt_lacks_is_not_shown(form: str) -> None:
    candidates = [FORMS[form](row) for row in ROWS]
    found = outcomes([*candidates, CHRONICLE], FORMS["turned"](ROWS[0]), CHRONICLE)
    assert found[1:] == ["not shown", "shown"]


def test_fields_that_stand_far_apart_are_no_row() -> None:
    begin, end = "Anna, please help.", "The year 1874 is not meant."
    found = outcomes([piped(ROWS[0]), CHRONICLE], begin, CHRONICLE, end)
    assert found == ["not shown", "shown"]


def test_words_of_a_sentence_are_no_row() -> None:
    found = outcomes(["Otto met Anna", CHRONICLE], "Anna and Otto", CHRONICLE)
    assert found == ["not shown", "shown"]


def test_a_row_that_stands_there_is_shown_and_its_neighbour_is_not() -> None:
    rows = [piped(row) for row in LONG_ROWS]
    found = outcomes([*rows, CHRONICLE], rows[0], CHRONICLE)
    assert found == ["shown", "not shown", "shown"]


@given(
    st.lists(st.from_regex(r"[a-z]{3,8}|[0-9]{2,4}", fullmatch=True), unique=True),
    st.randoms(use_true_random=False),
)
def test_the_order_of_a_rows_fields_does_not_make_it_absent(
    fields: list[str], chance: random.Random
) -> None:
    mixed = chance.sample(fields, len(fields))
    found = outcomes([piped(fields), CHRONICLE], labelled(mixed), CHRONICLE)
    is_row = 2 <= len(fields) <= 3
    if is_row and sum(map(len, fields)) >= 8:
        assert found[0] != "not shown"
