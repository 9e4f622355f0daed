"""Marks of answers: which context each names, which sentence it belongs to, and what stays unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from counted_steps import count_steps
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import (
    CitationQuality,
    Report,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data import Citation, RowError
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    citations_of_marks,
    read_citations,
    statements,
)
from ragmetrics_core.data.marks import WIDEST_RANGE, marks_in
from ragmetrics_core.data.numberings import numbering_of
from ragmetrics_core.data.sentences import (
    join_lines,
    split_sentences,
    whole_sentences,
)
from ragmetrics_core.metrics.citation_support import Supports

THREE = {"1": 0, "2": 1, "3": 2}


def read(answer: str, numbering: Mapping[str, int] = THREE) -> list[tuple[Any, ...]]:
    """Of each citation the words that it is for, the numbers of its contexts, what dangles."""
    return [
        (answer[one.start : one.end], [place + 1 for place in one.contexts])
        + ((list(one.dangling),) if one.dangling else ())
        for one in citations_of_marks(answer, numbering)
    ]


# Each shape that the methods name, once; then what must be no mark.
SHAPES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "in its sentence": ("It is old [1].", [("It is old [1].", [1])]),
    "several, by a comma": ("Old [1, 2].", [("Old [1, 2].", [1, 2])]),
    "several, by a semicolon": ("Old [1;2].", [("Old [1;2].", [1, 2])]),
    "side by side": ("Old [1][2].", [("Old [1][2].", [1]), ("Old [1][2].", [2])]),
    "a range": ("Old [1-3].", [("Old [1-3].", [1, 2, 3])]),
    "a range with a dash": ("Old [1–2].", [("Old [1–2].", [1, 2])]),
    "of a provider": ("Old【1†source】.", [("Old【1†source】.", [1])]),
    "of a provider, in parts": (
        "Old【4:0†a.pdf】.",
        [("Old【4:0†a.pdf】.", [], ["4:0"])],
    ),
    "twice in a mark": ("Old [1, 1].", [("Old [1, 1].", [1])]),
    "a number not shown": ("Old [2, 9].", [("Old [2, 9].", [2], ["9"])]),
    "zeros before": ("Old [01].", [("Old [01].", [1])]),
    "behind the full stop": ("It is old. [1] It fell.", [("It is old.", [1])]),
    "close behind the full stop": ("It is old.[1] It fell.", [("It is old.", [1])]),
    "behind a quotation mark": ('He said "no." [2] So.', [('He said "no."', [2])]),
    "as a word": ("As [2] says, no. So.", [("As [2] says, no.", [2])]),
    "at the beginning": ("[1] says no. So.", [("says no.", [1])]),
    "at the beginning of a line": (
        "It is old.\n[2] It fell.",
        [("It fell.", [2])],
    ),
    "of an item of a list": (
        "- [1] It is old\n- It fell [2]",
        [("- [1] It is old", [1]), ("- It fell", [2])],
    ),
    "behind a list": ("- old\n- gone\n[1][3]", [("- gone", [1]), ("- gone", [3])]),
    "behind a paragraph": ("Old. Gone.\n\n[2]", [("Gone.", [2])]),
    "between words": ("It is [1]old.", [("It is [1]old.", [1])]),
    "alone": ("[1]", [("[1]", [1])]),
    "a range that runs backwards": ("Old [3-1].", [("Old [3-1].", [], ["3-1"])]),
    "a range too wide": (
        "Old [1-999999999].",
        [("Old [1-999999999].", [], ["1-999999999"])],
    ),
    "no number": ("He [sic] said [see below].", []),
    "round brackets": ("It is old (1).", []),
    "a number of many digits": ("Old [12345678901234567890].", []),
    "an index in code": ("Call `a[1]`:\n```\nb[2]\n```", []),
    "empty brackets": ("Old [] [ ] [,].", []),
    "a footnote with a text": ("Old [^1].\n\n[^1]: By our estimate.", []),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_mark_belongs_to_its_sentence(name: str) -> None:
    answer, expected = SHAPES[name]
    assert read(answer) == expected


def test_labels_of_the_numbering_are_marks_whatever_they_are() -> None:
    assert read("Old [doc-a; 1], new [doc-b].", {"doc-a": 0, "1": 1}) == [
        ("Old [doc-a; 1], new [doc-b].", [1, 2])
    ]


NUMBERINGS: dict[str, tuple[list[str], dict[str, int] | None]] = {
    "by a word": (["Source 2:\nA", "source 5: B"], {"2": 0, "5": 1}),
    "by a word and a bracket": (
        ["Document [1](Title: A): a", "Document [2] (B): b"],
        {"1": 0, "2": 1},
    ),
    "by a bracketed word": (["[doc 1] a", "[doc 2] b"], None),
    "by brackets from 1": (["[1] A", "[2] B"], {"1": 0, "2": 1}),
    "by brackets from 0": (["[0] A", "[1] B"], {"0": 0, "1": 1}),
    "by brackets of a bibliography": (["[12] Smith, J.", "[13] Wu, L."], None),
    "not all": (["Source 1: A", "B"], None),
    "one twice": (["Source 1: A", "Source 1: B"], None),
    "a year": (["Document 2019 says", "Document 2020 says"], None),
    "none": ([], None),
}


@pytest.mark.parametrize("name", NUMBERINGS)
def test_numbers_are_known_where_every_context_has_its_own(name: str) -> None:
    texts, expected = NUMBERINGS[name]
    assert numbering_of(texts) == expected


# Rows: what they say of marks, and what is made of them.

CITED = (Citation(start=0, end=7, contexts=(1,), mark=(3, 6)),)
ROWS: dict[str, tuple[dict[str, Any], tuple[Citation, ...] | None]] = {
    "contexts with numbers": (
        {"answer": "No [2].", "contexts": ["Source 1: a", "Source 2: b"]},
        CITED,
    ),
    "numbers in the metadata": (
        {
            "answer": "No [2].",
            "contexts": [
                {"text": "a", "metadata": {"citation_number": 1}},
                {"text": "b", "metadata": {"citation_number": "2"}},
            ],
        },
        CITED,
    ),
    "a column of numbers and ids": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "7"}],
            "citations": {"1": "x", "2": 7},
        },
        CITED,
    ),
    "such a column as JSON": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "7"}],
            "citations": '{"1": "x", "2": "7"}',
        },
        CITED,
    ),
    "an id that no context has": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "y"}],
            "citations": {"1": "x", "2": "7"},
        },
        (Citation(start=0, end=7, dangling=("2",), mark=(3, 6)),),
    ),
    "places": (
        {"answer": "No [2].", "contexts": ["a", "b"], "citations": {"1": 0, "2": 1}},
        CITED,
    ),
    "places beside ids": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "y"}],
            "citations": {"1": 0, "2": 1},
        },
        CITED,
    ),
    "one place": (
        {"answer": "No [2].", "contexts": ["a", "b"], "citations": {"2": 1}},
        CITED,
    ),
    "a column with brackets": (
        {"answer": "No [2].", "contexts": ["a", "b"], "citations": {"[2]": 1}},
        CITED,
    ),
    "labels without a value, as Parquet has them": (
        {
            "answer": "No [2].",
            "contexts": ["a", "b"],
            "citations": {"1": None, "2": 1.0, "3": float("nan")},
        },
        CITED,
    ),
    "a label in two spellings": (
        {"answer": "No [2].", "contexts": ["a", "b"], "citations": {"2": 1, "02": 1}},
        CITED,
    ),
    "citations as data": (
        {
            "answer": "No [2].",
            "contexts": ["a", "b"],
            "citations": [CITED[0].model_dump()],
        },
        CITED,
    ),
    "numbered, and nothing is cited": (
        {"answer": "No.", "contexts": ["Source 1: a", "Source 2: b"]},
        (),
    ),
    "an id of two contexts": (
        {
            "answer": "No [1].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}],
            "citations": {"1": "x"},
        },
        None,
    ),
    "marks alone": ({"answer": "No [2].", "contexts": ["a", "b"]}, None),
    "no marks": ({"answer": "No.", "contexts": ["a", "b"]}, None),
    "no answer": ({"contexts": ["Source 1: a"]}, None),
}


@pytest.mark.parametrize("name", ROWS)
def test_marks_of_a_table_are_read_where_the_row_says_what_they_mean(name: str) -> None:
    row, expected = ROWS[name]
    sample = Sample.from_row({"question": "Is it?", **row})
    assert sample.citations == expected
    assert bool(sample.citations_unknown) == (expected is None)
    assert "citations" not in sample.metadata


def test_what_is_unknown_is_said_with_what_to_do() -> None:
    sample = Sample.from_row({"answer": "No [1]. Yes [2].", "contexts": ["a"]})
    assert "2 marks" in sample.citations_unknown
    assert "column citations" in sample.citations_unknown
    silent = Sample.from_row({"answer": "No.", "contexts": ["a"]})
    assert "nobody looked" in silent.citations_unknown


def test_a_row_with_a_numbering_is_not_told_to_give_one() -> None:
    """The reason names the form that is not read, since the row says what 1 means."""
    row = {
        "answer": "It is old [1]. It fell [see 2].",
        "contexts": [{"id": "a", "text": "It is old."}],
        "citations": {"1": "a"},
    }
    sample = Sample.from_row(row)
    assert sample.citations is None
    assert sample.citations_unknown == UNREAD_FORM


@pytest.mark.parametrize("prefix", ["S", "P", "L", "ch", "sec", "fig", "T", "ID-"])
def test_a_second_label_that_looks_like_a_page_is_a_label(prefix: str) -> None:
    numbering = {f"{prefix}1": 0, f"{prefix}2": 1, f"{prefix}3": 2}
    answer = f"It is old [{prefix}3, {prefix}1]."
    read_citation = read_citations(answer, numbering)
    assert read_citation.why_unknown == ""
    assert [one.contexts for one in read_citation.citations or ()] == [(2, 0)]


def test_a_second_label_that_no_context_has_is_not_passed_over_as_a_page() -> None:
    """It dangles, as ``[S9]`` does alone."""
    read_citation = read_citations("It is old [S1, S9].", {"S1": 0, "S2": 1})
    (citation,) = read_citation.citations or ()
    assert (citation.contexts, citation.dangling) == ((0,), ("S9",))


@pytest.mark.parametrize("page", ["p. 2", "S. 2", "p2"])
def test_a_page_beside_a_label_of_letters_is_no_label(page: str) -> None:
    read_citation = read_citations(f"It is old [S1, {page}].", {"S1": 0, "S2": 1})
    assert [one.contexts for one in read_citation.citations or ()] == [(0,)]


def test_dots_for_words_left_out_end_no_sentence_and_dots_at_its_end_do() -> None:
    text = "It fell [and rose...] They left [...] in May."
    assert whole_sentences(text) == [
        "It fell [and rose...]",
        "They left [...] in May.",
    ]


def test_sentences_that_only_a_mark_keeps_apart_are_two() -> None:
    found = statements("It is old[1].It fell[2].", THREE)
    assert [statement.text for statement in found] == ["It is old.", "It fell."]


def test_marks_in_a_fence_around_a_whole_answer_of_text_are_all_that_it_cites() -> None:
    answer = "```text\nIt is old [1].\n```"
    read_citation = read_citations(answer, THREE)
    assert read_citation.why_unknown == ""
    assert [one.contexts for one in read_citation.citations or ()] == [(0,)]


@pytest.mark.parametrize("cell", [["https://a.org"], "see below", {"a": "b"}, 3])
def test_a_column_named_citations_may_hold_anything_else(cell: Any) -> None:
    sample = Sample.from_row(
        {"answer": "No [1].", "contexts": ["a"], "citations": cell}
    )
    assert (sample.citations, sample.metadata) == (None, {"citations": cell})


def test_a_named_column_must_hold_citations() -> None:
    row = {"answer": "No [1].", "contexts": ["a"], "cited": ["https://a.org"]}
    with pytest.raises(RowError, match="citations: needs"):
        Sample.from_row(row, citations="cited")


def test_spans_are_of_one_answer() -> None:
    cited = [CITED[0].model_dump()]
    row = {"answers": ["No [2].", "Yes."], "contexts": ["a", "b"], "citations": cited}
    report = evaluate([row], judge="lexical", metrics=["context_adherence"])
    assert "the row holds several" in report.results[0].problem


OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"start": 0, "end": 9}, "ends at 9"),
    ({"start": 0, "end": 1, "mark": (3, 9)}, "ends at 9"),
    ({"start": 0, "end": 1, "contexts": (1,)}, "names place 1"),
    ({"start": 2, "end": 1}, "before it begins"),
    ({"start": -1, "end": 1}, "greater than or equal to 0"),
]


@pytest.mark.parametrize(("cited", "message"), OUTSIDE)
def test_citations_lie_in_their_sample(cited: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sample(answer="No [1].", contexts=("a",), citations=(cited,))


# Results files

GOLDEN = Path(__file__).with_name("golden")


def test_citations_travel_in_results_files(tmp_path: Path) -> None:
    row = {
        "question": "Is it?",
        "answer": "No [2].",
        "contexts": ["Source 1: a", "Source 2: b"],
    }
    plain = {"question": "Is it?", "answer": "No [2].", "contexts": ["a", "b"]}
    report = evaluate([row, plain], judge="lexical", metrics=["context_adherence"])
    report.to_jsonl(tmp_path / "a.jsonl")
    _, first, second, _ = (
        json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()
    )
    assert first["sample"]["citations"][0]["contexts"] == [1]
    assert "citations" not in second["sample"]
    again = Report.from_jsonl(tmp_path / "a.jsonl")
    assert again == report
    again.to_jsonl(tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.jsonl")))
def test_files_of_before_have_no_citations(name: str) -> None:
    report = Report.from_jsonl(GOLDEN / name)
    known = {row.sample.citations for row in report if row.sample is not None}
    assert known <= {None}


# Laws

LABELS = st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)
PLAIN_SENTENCES = st.lists(
    st.text("abcdefgh ", min_size=2, max_size=30).map(
        lambda it: f"So {it.strip()} it goes"
    ),
    max_size=6,
)


def rendered(labels: Sequence[int], style: str) -> str:
    if style == "side by side":
        return "".join(f"[{label}]" for label in labels)
    if style == "of a provider":
        return "".join(f"【{label}†source】" for label in labels)
    return f"[{style.join(map(str, labels))}]"


@given(
    st.lists(st.tuples(PLAIN_SENTENCES.filter(bool), LABELS), max_size=5),
    st.sampled_from([", ", ",", ";", "; ", "side by side", "of a provider"]),
    st.booleans(),
)
def test_what_is_rendered_is_read(
    parts: list[tuple[list[str], list[int]]], style: str, behind: bool
) -> None:
    """Each paragraph ends in a mark, before or behind its full stop."""
    paragraphs = []
    for sentences, labels in parts:
        mark, text = rendered(labels, style), ". ".join(sentences)
        paragraphs.append(f"{text}. {mark}" if behind else f"{text} {mark}.")
    answer = "\n".join(paragraphs)
    numbering = {str(label): label for label in range(100)}
    cited = citations_of_marks(answer, numbering)
    read_labels = [place for one in cited for place in one.contexts]
    assert read_labels == [label for _, labels in parts for label in labels]
    last_sentences = [f"{sentences[-1]}." for sentences, _ in parts]
    texts = {(one.start, one.end): one.text for one in statements(answer, numbering)}
    spans = dict.fromkeys((one.start, one.end) for one in cited)
    assert [texts[span] for span in spans] == last_sentences


ANY_ANSWER = st.one_of(
    st.text(max_size=200),
    st.text("[]【】†123-–,; .\n`ab“”*", max_size=120),
)


@given(
    ANY_ANSWER,
    st.dictionaries(
        st.sampled_from(["0", "1", "2", "3", "a", "ab"]), st.integers(0, 5)
    ),
)
def test_no_text_breaks_reading(answer: str, numbering: dict[str, int]) -> None:
    """Places lie within the answer, every label is accounted for, and order is kept."""
    marks = marks_in(answer, numbering)
    cited = citations_of_marks(answer, numbering)
    assert [one.mark for one in cited] == [(mark.start, mark.end) for mark in marks]
    for one, mark in zip(cited, marks, strict=True):
        assert 0 <= one.start < one.end <= len(answer)
        assert set(one.dangling) == set(mark.labels) - set(numbering)
        assert set(one.contexts) == {
            numbering[x] for x in mark.labels if x in numbering
        }
        assert len(mark.labels) <= 200 * WIDEST_RANGE
    contexts = ("a",) * 6
    sample = (
        Sample(answer=answer, contexts=contexts, citations=cited)
        if answer.strip()
        else None
    )
    assert sample is None or sample.citations == cited


@given(ANY_ANSWER)
def test_statements_are_the_sentences_without_marks(answer: str) -> None:
    found = statements(answer)
    assert not any(one.start >= one.end for one in found)
    assert [one.start for one in found] == sorted(one.start for one in found)
    without_marks = [one.text for one in found]
    if not marks_in(answer):
        assert without_marks == whole_sentences(answer)
        joined = join_lines(answer)
        assert all(joined[one.start : one.end] == one.text for one in found)
    letters = sum(character.isalpha() for text in without_marks for character in text)
    inside = sum(
        character.isalpha()
        for mark in marks_in(answer)
        for character in answer[mark.start : mark.end]
    )
    assert letters == sum(map(str.isalpha, answer)) - inside


@given(ANY_ANSWER.filter(str.strip), st.lists(st.text("abc", min_size=1), max_size=3))
def test_what_is_unknown_stays_unknown(answer: str, contexts: list[str]) -> None:
    sample = Sample.from_row({"answer": answer, "contexts": contexts})
    assert sample.citations is None
    assert sample.citations_unknown


# answers of a size that are made to be read slowly
SLOW: dict[str, Callable[[int], str]] = {
    "ranges": lambda size: "[1-99]," * (size // 20),
    "sentences with marks": lambda size: "[1] a. " * (size // 5),
    "open brackets": lambda size: "[" * 5 * size,
    "an odd number of backticks": lambda size: "`" * (2 * size + 1),
    "blanks behind a heading": lambda size: f"Sources{' ' * 2 * size}x",
    "headings": lambda size: "Sources:\n" * size,
    "blanks in an entry": lambda size: f"a [1].\n\n[1]{' ' * 2 * size}[",
    "commas in brackets": lambda size: f"[{' , ' * 60}]" * (size // 10),
    "open parentheses": lambda size: "(a," * size,
    "abbreviations": lambda size: "et al. " * size,
}


@pytest.mark.parametrize("name", SLOW)
def test_four_times_the_answer_takes_four_times_the_steps(name: str) -> None:
    answer_of_size = SLOW[name]
    read_citations(answer_of_size(20_000), THREE)  # a slow pattern meets the time limit
    n_small = count_steps(lambda: read_citations(answer_of_size(300), THREE))
    n_large = count_steps(lambda: read_citations(answer_of_size(1200), THREE))
    assert 0 < n_large <= 4.2 * n_small


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It fell.\nA. Brandt lit it.", ["It fell.", "A. Brandt lit it."]),
        ("Dr. Brandt lit it. It fell.", ["Dr. Brandt lit it.", "It fell."]),
        ("It fell.\nX. 509 is old.", ["It fell.", "X. 509 is old."]),
        ("It is plan B.\nIt fell.", ["It is plan B.", "It fell."]),
    ],
)
def test_an_initial_at_the_beginning_of_a_line_ends_no_sentence(
    text: str, sentences: list[str]
) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("It fell [2](a.pdf).", [("2",)]),
        ("It fell [7](a.pdf).", [("a.pdf",)]),
        ("It fell [b.pdf](a.pdf).", [("a.pdf",)]),
        ("It fell [the fall](a.pdf).", [("a.pdf",)]),
        ("It fell [7](http://c.test).", [("7",)]),
        ("It fell [b.pdf](http://c.test).", [("b.pdf",)]),
        ("It fell [b.test](http://b.test/c).", [("http://b.test/c",)]),
        ("It fell [the fall](http://c.test).", []),
        ("It fell [the fall](c.pdf).", []),
    ],
)
def test_a_link_names_its_source_by_its_words_or_by_its_address(
    answer: str, labels: list[tuple[str, ...]]
) -> None:
    numbering = {"a.pdf": 0, "b.pdf": 1, "2": 1}
    assert [mark.labels for mark in marks_in(answer, numbering)] == labels


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("It fell [Source 1].", [("1",)]),
        ("It fell (see Document 2).", [("2",)]),
        ("It fell [[3]].", [("3",)]),
        ("It fell [citation:a-7].", [("a-7",)]),
        ("It fell [Source 2: war.pdf].", [("2",)]),
        ("It fell [Sources 1 and 3].", [("1", "3")]),
        ("It fell [S9].", [("S9",)]),
        ("It fell [the fall](http://a.test).", [("http://a.test",)]),
        ("It fell [the fall](http://b.test).", []),
        ("It fell [context matters].", []),
        ("It fell (sources of energy).", []),
        ("It fell [^1].", [("1",)]),
        ("It fell [ID:1].", [("1",)]),
        ("It is ticket [ID: 4711].", []),
        ("It fell [^1].\n\n[^1]: So.", []),
    ],
)
def test_marks_that_name_a_source_by_words(
    answer: str, labels: list[tuple[str, ...]]
) -> None:
    numbering = {"S1": 0, "http://a.test": 1}
    assert [mark.labels for mark in marks_in(answer, numbering)] == labels


@pytest.mark.parametrize(
    "mark",
    ["(2)", "²", "[2, p. 3, 4]", "（1）", "①", "<sup>2</sup>", "{1}", "【2:0†source】"],
)
def test_a_row_whose_marks_are_in_another_form_has_unknown_citations(mark: str) -> None:
    """Not those of an answer that cites nothing."""
    row = {
        "question": "Who?",
        "contexts": ["[1] Anna lit the lamp.", "[2] Berta built it."],
        "answer": f"Berta built it {mark}.",
    }
    assert Sample.from_row(row).citations is None
    assert Sample.from_row({**row, "answer": "Berta built it."}).citations == ()


# Columns that say something of numbers, and not which contexts they mean.
NOT_JOINED: dict[str, tuple[list[Any], Any, str]] = {
    "ids of contexts without any": (["a", "b"], {"1": "x", "2": "y"}, "not all"),
    "an id, and a context without": (
        [{"text": "a", "id": "x"}, "b"],
        {"1": "x", "2": "7"},
        "not all",
    ),
    "an id of two contexts": (
        [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}],
        {"1": "x"},
        "several contexts share",
    ),
    "places beyond the contexts": (["a", "b"], {"1": 1, "2": 2}, "count from 0"),
    "numbers that may count from one": (["a", "b", "c"], {"1": 1, "2": 2}, "from 1"),
    "numbers of which one is an id": (
        [{"text": "a", "id": "1"}, {"text": "b", "id": "9"}],
        {"1": 0, "2": 1},
        "some are ids",
    ),
    "a number in two spellings": (["a", "b"], {"1": 0, "01": 1}, "two things"),
    "a list of ids": (["a", "b"], ["x", "y"], "neither"),
    "nothing for every number": (["a", "b"], {"1": None, "2": None}, "neither"),
    "truth values": (["a", "b"], {"1": False, "2": True}, "neither"),
    "words": (["a", "b"], "see below", "neither"),
    "no recorded contexts": ([None], {"1": "x"}, "no contexts were recorded"),
}


@pytest.mark.parametrize("name", NOT_JOINED)
def test_a_column_that_cannot_be_joined_leaves_citations_unknown(name: str) -> None:
    """Never dangling, and the reason names the column that was given."""
    contexts, cell, reason = NOT_JOINED[name]
    row = {"answer": "No [1]. So [2].", "contexts": contexts, "citations": cell}
    sample = Sample.from_row(row)
    assert sample.citations is None
    assert reason in sample.citations_unknown
    assert "give the column" not in sample.citations_unknown
    result = CitationQuality().score(sample, judge=ScriptedJudge({}))
    assert (result.status, result.code) == ("undefined", "missing")
    assert reason in result.reason
    # without a mark there is nothing to explain
    plain = Sample.from_row({**row, "answer": "No."})
    assert plain.capture is None


def test_the_setting_of_the_metric_stands_in_for_a_column_that_holds_something_else() -> (
    None
):
    row = {"answer": "No [1].", "contexts": ["a"], "citations": ["https://a.org"]}
    judge = ScriptedJudge({Supports: {"supported": 1}})
    result = CitationQuality(numbered_from=1).score(Sample.from_row(row), judge=judge)
    assert result.value == 1.0


def test_texts_and_metadata_that_contradict_each_other_number_nothing() -> None:
    contexts = [
        {"text": "Source 1: a", "metadata": {"source_number": 2}},
        {"text": "Source 2: b", "metadata": {"source_number": 1}},
    ]
    sample = Sample.from_row({"answer": "No [1].", "contexts": contexts})
    assert sample.citations is None
    assert "differently" in sample.citations_unknown
    agreeing = [
        {"text": "Source 1: a", "metadata": {"source_number": 1}},
        {"text": "Source 2: b", "metadata": {"source_number": 2}},
    ]
    sample = Sample.from_row({"answer": "No [1].", "contexts": agreeing})
    assert sample.citations is not None


def test_a_truth_value_is_no_place() -> None:
    with pytest.raises(ValueError, match="a place is a number"):
        Citation.model_validate({"start": 0, "end": 1, "contexts": [True]})
