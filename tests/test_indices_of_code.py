"""An index of code that nothing marks as code, ``user_rows[1]``, is never read as source 1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core.data.citations import cited_statements, may_cite_more
from ragmetrics_core.data.marks import marks_in

NUMBERS = st.integers(1, 3)
CODE = (
    "user_rows[{}]",
    "user_rows[0][{}]",
    "$row[{}]",
    "this->rows[{}]",
    "std::get[{}]",
    "rows()[{}]",
    "read('a.csv')[{}]",
    "read(sep=';')[{}]",
    "row[{}].strip()",
    "row[{}][0].strip()",
)
LINES = (
    "return row[{}]",
    "total = price * row[{}]",
    "let total = price * row[{}]",
    "count += row[{}]",
    "ok == row[{}]",
)
# What a citation may stand directly behind.
WORDS = (
    "Paris",
    "2019",
    "macOS",
    "LangChain",
    "the town",
    "the author(s)",
    "Faro (old)",
    "WHO(2020)",
    "*Faro*",
    "_Faro_",
    "__Faro__",
    "“Faro”",
    "annual-report",
    "report.pdf",
    "Faro.",
    "灯塔",
    "Capital = old Faro",
    "return on capital",
)


def prompt_of(texts: tuple[str, ...]) -> str:
    passages = [f"[{number}] {text}" for number, text in enumerate(texts, start=1)]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


@given(code=st.sampled_from(CODE), number=NUMBERS, other=NUMBERS)
def test_a_sign_of_code_leaves_its_sentence_open_and_no_other(
    code: str, number: int, other: int
) -> None:
    sentence = f"Read it as {code.format(number)}."
    assert marks_in(sentence) == []
    assert sample_of(prompt_of(TEXTS), sentence).citations is None
    sample = sample_of(prompt_of(TEXTS), f"{sentence} Faro is old [{other}].")
    assert cited(sample) == [(other - 1,)]
    assert may_cite_more(sample.answer, sample.citations or ())


@given(line=st.sampled_from(LINES), indent=st.sampled_from(["", "  ", "\t"]))
def test_a_line_of_code_has_no_marks(line: str, indent: str) -> None:
    answer = f"Write this:\n{indent}{line.format(1)}\nFaro is old [2]."
    assert [mark.labels for mark in marks_in(answer)] == [("2",)]


@pytest.mark.parametrize("words", WORDS)
def test_a_mark_that_touches_words_of_a_sentence_is_a_mark(words: str) -> None:
    for answer in (f"See {words}[1] there.", f"{words}[1]", f"- {words}[1][2];"):
        assert marks_in(answer)[0].labels == ("1",), answer


@pytest.mark.parametrize(
    "index", ['["name"]', "['name']", "[-1]", "[i]", "[1:3]", "[:2]"]
)
def test_a_name_that_the_answer_indexes_elsewhere_is_one_of_code(index: str) -> None:
    answer = f"Take row{index} of it, then row[1] and town[2]."
    assert [mark.labels for mark in marks_in(answer)] == [("2",)]


@pytest.mark.parametrize(
    "passage",
    [
        "A row is read as row[0], and so on; take care of the rest of it.",
        'A row is read as row["name"], and so on; take care of the rest.',
        "A row is read so:\n```\nx = row[2]\n```\nTake care of the rest of it.",
        "A row is read with `row[2]`, and so on; take care of the rest of it.",
    ],
)
def test_a_name_that_a_passage_indexes_may_be_one_of_code(passage: str) -> None:
    texts = (passage, *TEXTS[1:])
    alone = sample_of(prompt_of(texts), "Read it as row[1] there.", texts=texts)
    assert "a part of code" in alone.citations_unknown
    beside = sample_of(
        prompt_of(texts), "Read it as row[1] there. Faro is old [2].", texts=texts
    )
    assert cited(beside) == [(), (1,)]
    statements = cited_statements(beside.answer, beside.citations or ())
    assert [one.may_cite for one in statements] == [True, False]
    # another word, and this word apart from its mark, cite
    for words in ("column[1]", "row [1]"):
        sample = sample_of(prompt_of(texts), f"See the {words} there.", texts=texts)
        assert cited(sample) == [(0,)]


def test_a_passage_with_marks_of_its_own_indexes_nothing() -> None:
    texts = ("Paris[3] is old, and so is all the rest of the town.", *TEXTS[1:])
    sample = sample_of(prompt_of(texts), "Paris[1] is old.", texts=texts)
    assert cited(sample) == [(0,)]
