"""Answers that name their sources in a closing line: for all that stands before it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core.capture.unknown_meanings import NUMBER_OF_A_SOURCE
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    cited_statements,
    may_cite_more,
    may_name_more,
)

SAID = "Faro is there. It is old."
NUMBERED = "[{n}] {text}"
NAMED = "Content: {text}\nSource: {n}-pl"
FILES = "[{n}] f{n}.txt\n{text}"


def prompt_of(label: str) -> str:
    passages = [
        label.format(n=number, text=text) for number, text in enumerate(TEXTS, start=1)
    ]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


PAGES = "Title: Guide {n}\nURL: https://porto.test/{n}\n{text}"
FIRST = "https://porto.test/1"
SECOND = "https://porto.test/2"

CLOSINGS = [
    # bytedance/deer-flow, Tavily's agents: items below a heading without a colon
    (FILES, "## References\n\n- f2.txt\n- f3.txt", [(1,), (2,)]),
    (FILES, "### Sources\n- f2.txt", [(1,)]),
    (FILES, "**Sources**\n\n* f2.txt", [(1,)]),
    (FILES, "## **References**\n- f2.txt", [(1,)]),
    (FILES, "**References:**\n- f2.txt", [(1,)]),
    (NUMBERED, "## Sources\n- [2]\n- [3]", [(1,), (2,)]),
    # the answer's own list gives 2 another meaning than the prompt
    (FILES, "## Sources\n- [2] f1.txt", [(0,), (0,)]),
    (PAGES, f"## References\n- [Guide 2]({SECOND})\n- {FIRST}", [(1,), (0,)]),
    (PAGES, f"**Sources**\n- Guide 2: {SECOND}\n- Guide 1: {FIRST}", [(1,), (0,)]),
    # the address decides, as in a link
    (PAGES, f"**Sources**\n- Guide 1: {SECOND}", [(1,)]),
    (PAGES, f"## Sources\n- [Guide 1]({SECOND})", [(1,)]),
    (PAGES, f"## Sources\n- Faro and its port, today: {SECOND}", [(1,)]),
    (PAGES, f"Sources: Guide 1: {SECOND}", None),
    (FILES, "## Further reading\n- f2.txt", None),
    (FILES, "**Further reading**\n- f2.txt", None),
    (FILES, "## Sources\n- sun\n- wind", None),
    (FILES, "## Sources of the river\n- f2.txt", None),
    (FILES, "## Sources\n- f2.txt\n\nAsk me for more.", None),
    (PAGES, "## Sources\n- Guide 2: of 1911", None),
    (NUMBERED, "Sources: [2]", [(1,)]),
    (NUMBERED, "Sources: [2], [3]", [(1,), (2,)]),
    (NUMBERED, "**Sources:** 2 and 3", [(1,), (2,)]),
    (NUMBERED, "Source: [Source 2].", [(1,)]),
    (NUMBERED, "Sources: [1][2], f3 and [3]", None),
    (NUMBERED, "Sources: [1]; 3", [(0,), (2,)]),
    (FILES, "Sources: [Source: f1.txt], [f2.txt]", [(0,), (1,)]),
    (NAMED, "SOURCES: 2-pl, 3-pl", [(1,), (2,)]),
    (FILES, "SOURCES: f2.txt", [(1,)]),
    (FILES, "Sources:\n- f2.txt\n- `f3.txt`", [(1,), (2,)]),
    (FILES, "Quellen: f3.txt; f1.txt", [(2,), (0,)]),
    (NUMBERED, "出典：1、2", [(0, 1)]),
    (FILES, "Sources: f2.txt, page 4, f3.txt", [(1,), (2,)]),
    (FILES, "Sources:\n- f2.txt (page 4)\n- docs of f3.txt", None),
]


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize(("label", "closing", "expected"), CLOSINGS)
def test_a_closing_line_cites_for_the_whole_answer(
    label: str, closing: str, expected: list[tuple[int, ...]] | None, between: str
) -> None:
    sample = sample_of(prompt_of(label), f"{SAID}{between}{closing}")
    if expected is None:
        assert sample.citations is None
        return
    assert cited(sample) == expected
    # the line is read: it is no doubtful form beside its own citations
    assert not may_name_more(sample.answer, sample.citations or ())
    for citation in sample.citations or ():
        assert (sample.answer or "")[citation.start : citation.end] == SAID


@pytest.mark.parametrize(
    ("label", "closing"),
    [
        (FILES, "SOURCES: f2.txt, the files above"),
        (FILES, "SOURCES: f2.txt, 2022"),
        (FILES, "Sources: the files above"),
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


@pytest.mark.parametrize(
    ("label", "closing", "invented"),
    [
        (FILES, "SOURCES: f2.txt, g9.txt", "g9.txt"),
        (FILES, "Sources: f2.txt, [g9.txt]", "g9.txt"),
        (NAMED, "SOURCES: 2-pl, 9-pl", "9-pl"),
    ],
)
def test_a_name_in_a_closing_line_that_nobody_was_shown_dangles(
    label: str, closing: str, invented: str
) -> None:
    """It does in brackets, and the line may be cut off the answer as well."""
    for answer in (f"{SAID}\n\n{closing}", SAID):
        sample = sample_of(prompt_of(label), f"{SAID}\n\n{closing}", answer)
        found = {(one.contexts, one.dangling) for one in sample.citations or ()}
        assert found == {((1,), ()), ((), (invented,))}


HEADINGS = (
    *("Источники", "来源", "参考にした文書", "Kilder", "Źródła", "المصادر", "स्रोत"),
    *("Used sources", "**Fonti**", "Les sources utilisées", "Sources", "Fuentes"),
)


@given(
    heading=st.sampled_from(HEADINGS),
    colon=st.sampled_from([":", "：", " :"]),
    numbers=st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True),
    joined=st.sampled_from([", ", "", " и ", "、", " og ", " & ", "; "]),
    between=st.sampled_from(["\n", "\n\n", "\n\n\n"]),
    are_listed=st.booleans(),
    n_wrong=st.integers(0, 1),
)
def test_a_last_line_of_marks_cites_for_the_whole_answer_in_any_language(
    heading: str,
    colon: str,
    numbers: list[int],
    joined: str,
    between: str,
    are_listed: bool,
    n_wrong: int,
) -> None:
    marks = [f"[{number}]" for number in [*numbers, *[9] * n_wrong]]
    listed = joined.join(marks)
    if are_listed:
        listed = "".join(f"\n- {mark}" for mark in marks)
    answer = f"{SAID}{between}{heading}{colon} {listed}"
    sample = sample_of(prompt_of(NUMBERED), answer)
    assert sample.citations is not None, sample.citations_unknown
    expected = [((n - 1,), ()) for n in numbers] + [((), ("9",))] * n_wrong
    assert [(c.contexts, c.dangling) for c in sample.citations] == expected
    for citation in sample.citations:
        assert answer[citation.start : citation.end] == SAID


@given(
    heading=st.sampled_from(HEADINGS), is_numbered=st.booleans(), n=st.integers(1, 3)
)
def test_numbers_below_a_heading_of_any_language_are_never_said_to_cite_nothing(
    heading: str, is_numbered: bool, n: int
) -> None:
    """Nobody knows whether "Kilder: 1, 2" lists sources or lanes."""
    numbers = ", ".join(str(number) for number in range(1, n + 1))
    prompt = prompt_of(NUMBERED if is_numbered else "{text}")
    sample = sample_of(prompt, f"{SAID}\n\n{heading}: {numbers}")
    if sample.citations is None:
        assert sample.citations_unknown in (UNREAD_FORM, NUMBER_OF_A_SOURCE)
    else:
        assert cited(sample) == [(place,) for place in range(n)]


@pytest.mark.parametrize("word", ["Документ", "Kilde", "文書"])
def test_marks_of_a_last_line_mean_the_numbers_that_a_word_of_any_language_counts(
    word: str,
) -> None:
    prompt = prompt_of(f"{word} {{n}}: {{text}}")
    sample = sample_of(prompt, f"{SAID}\n\nИсточники: [1], [3]")
    assert cited(sample) == [(0,), (2,)]
    in_words = sample_of(prompt, "Faro is old (источник 1).")
    assert in_words.citations_unknown == UNREAD_FORM


@pytest.mark.parametrize(
    "answer",
    [
        "Price: [1]\nSize: [2]",
        "You need:\n\nPrice: [1]\n\nSize: [2]",
        "You need:\n- Price: [1]\n- Size: [2]",
        "Where it is: [1]",
    ],
)
def test_marks_behind_the_words_that_they_cite_for_are_no_closing_line(
    answer: str,
) -> None:
    numbers = [(0,), (1,)] if "[2]" in answer else [(0,)]
    sample = sample_of(prompt_of(NUMBERED), answer)
    assert cited(sample) == numbers
    assert {c.mark for c in sample.citations or ()} == {
        (found.start(), found.end()) for found in re.finditer(r"\[.\]", answer)
    }


def test_a_last_line_of_marks_below_cited_sentences_cites_nothing_itself() -> None:
    """As a list "Sources: [1], [2]" would; it may say what the second sentence rests on."""
    answer = "Faro is there [1]. It is old.\n\nИсточники: [1], [2]"
    sample = sample_of(prompt_of(NUMBERED), answer)
    assert cited(sample) == [(0,)]
    assert [one.text for one in cited_statements(answer, sample.citations or ())] == [
        "Faro is there.",
        "It is old.",
    ]
    assert may_cite_more(answer, sample.citations or ())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SOURCES: 2-pl", [(1,)]),
        ("SOURCES: 2-pl, 3-pl", [(1,), (2,)]),
        ("SOURCES: 3", None),
    ],
)
def test_a_closing_line_that_the_application_cut_off_cites_for_the_answer(
    line: str, expected: list[tuple[int, ...]] | None
) -> None:
    sample = sample_of(prompt_of(NAMED), f" {SAID}\n{line}", f"{SAID}\n")
    if expected is None:
        assert sample.citations_unknown == UNREAD_FORM
        return
    assert cited(sample) == expected
    assert {(c.start, c.end, c.mark) for c in sample.citations or ()} == {
        (0, len(SAID), None)
    }


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (f"{SAID}\nSOURCES: 2-pl", "Faro is old and there."),  # another text
        ("Faro is there (2).\nSOURCES: 3-pl", "Faro is there (2)."),
    ],
)
def test_a_closing_line_cites_for_no_other_text_and_beside_no_unread_form(
    reply: str, answer: str
) -> None:
    assert sample_of(prompt_of(NAMED), reply, answer).citations is None


def test_marks_decide_beside_a_closing_line() -> None:
    answer = "Faro is there [2]. It is old [3].\n\nSources: [2], [3]"
    assert cited(sample_of(prompt_of(NUMBERED), answer)) == [(1,), (2,)]


def test_a_line_that_the_application_added_cites_nothing() -> None:
    says = f"{SAID}\n\nSources: f1.txt, f2.txt, f3.txt"
    assert not sample_of(prompt_of(FILES), SAID, says).citations
