"""Marks of answers: which context each names, which sentence it belongs to, and what stays unknown."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from counted_steps import count_steps
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import CitationQuality, Report, Sample, ScriptedJudge, evaluate
from ragmetrics_core.data import Citation, RowError
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    WIDEST_RANGE,
    citations_of_marks,
    cited_statements,
    marks_in,
    may_cite,
    numbering_of_texts,
    read_citations,
)
from ragmetrics_core.data.sentences import split_sentences, whole_sentences
from ragmetrics_core.metrics.citation_support import Supports

THREE = {"1": 0, "2": 1, "3": 2}


def read(answer: str, numbering: Mapping[str, int] = THREE) -> list[tuple[Any, ...]]:
    """Of each citation the words that it is for, the numbers of its contexts, what dangles."""
    return [
        (answer[one.start : one.end], [place + 1 for place in one.contexts])
        + ((list(one.dangling),) if one.dangling else ())
        for one in citations_of_marks(answer, numbering)
    ]


# Each shape that the methods name, once.
SHAPES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "in its sentence": ("It is old [1].", [("It is old [1].", [1])]),
    "several, by a comma": ("Old [1, 2].", [("Old [1, 2].", [1, 2])]),
    "side by side": ("Old [1][2].", [("Old [1][2].", [1]), ("Old [1][2].", [2])]),
    "a range": ("Old [1-3].", [("Old [1-3].", [1, 2, 3])]),
    "a range with a dash": ("Old [1–2].", [("Old [1–2].", [1, 2])]),
    "twice in a mark": ("Old [1, 1].", [("Old [1, 1].", [1])]),
    "a number not shown": ("Old [2, 9].", [("Old [2, 9].", [2], ["9"])]),
    "zeros before": ("Old [01].", [("Old [01].", [1])]),
    "behind the full stop": ("It is old. [1] It fell.", [("It is old.", [1])]),
    "close behind the full stop": ("It is old.[1] It fell.", [("It is old.", [1])]),
    "behind a quotation mark": ('He said "no." [2] So.', [('He said "no."', [2])]),
    "as a word": ("As [2] says, no. So.", [("As [2] says, no.", [2])]),
    "of an item of a list": (
        "- It is old [1]\n- It fell [2]",
        [("- It is old", [1]), ("- It fell", [2])],
    ),
    "between words": ("It is [1] old.", [("It is [1] old.", [1])]),
    "in round brackets": (
        "It is old ([1], [2]). So.",
        [("It is old ([1], [2]).", [1]), ("It is old ([1], [2]).", [2])],
    ),
    "an index in code": ("Call `a[1]`:\n```\nb[2]\n```", []),
    "nothing": ("It is old.", []),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_mark_belongs_to_its_sentence(name):
    answer, expected = SHAPES[name]
    assert read(answer) == expected
    assert read_citations(answer, THREE).why_unknown == ""


# What may cite in another notation, may belong to the text behind it, be an entry of a
# list of sources, or be code. Each makes the citations unknown, alone and beside a mark.
OTHER = (
    *("(1)", "（1）", "²", "①", "<sup>1</sup>", "<cite>1</cite>", "[a]", "[Book A]"),
    "[[doc_a]]",
    "[doc_a]",
    "{1}",
    "(Smith, 2020)",
    "(Smith et al., 2020)",
    "(ibid.)",
    "[1 to 2]",
    "[1, p. 3]",
    "[see 1]",
    "[1;2]",
    "[1;\n2]",
    "【1:0†source】",
    "【1†source】",
    *("(source: annual report)", "[report](https://b.test)", "[1](https://b.test)"),
    "(see 2)",
    "†",
    "[1)",
    "(1]",
    "<1>",
    "<co: 1>",
    "⟦1⟧",
    "1\ufe0f\u20e3",
    "[^1]",
    "[S1]",
    *("(the second document)", "(as source 1 says)", "as source 2 says", "(guide.pdf)"),
    *("(Handbook, p. 3)", "[3-1]", "[1-999]", "[2019]", "［1］", "[１]", "\\[1\\]"),
    "so: [1]",
    "so.\n\n[1]",
    "so.\n[1] b.pdf",
    "so.\nSources: [1], [2]",
    "so.\n- [1] b",
    *("as sys.argv[1]", "as row_of[1]", "as a[1]", "where x = [1]", "[0-9]+", "[0, 1]"),
    *("```text\nIt is old [2].\n```", '{"sources": [1]}', "<think>or [2]", "[1, "),
    "[THINK]or [2][/THINK]",
    "◁think▷or [2]◁/think▷",
    "<seed:think>or [2]</seed:think>",
)


@pytest.mark.parametrize("form", OTHER)
def test_what_may_cite_otherwise_makes_the_citations_unknown(form):
    assert may_cite(f"It is old {form}.")
    for answer in (f"It is old {form}.", f"It fell [3]. It is old {form}."):
        assert read_citations(answer, THREE).citations is None


# None of these cites, and an answer of them alone cites nothing.
NO_CITATION = (
    "It fell in May (1903).",
    "It has 30 m² (about 12 %).",
    "He [sic] said so [...].",
    "- [ ] wash\n- [x] dry",
    "x² is 10⁴",
    "It is 12:30, at 3.5 °C.",
    "It fell (in May 2010).",
    "The sources of energy are old.",
    "Run `rows[1]` and `a.b(c)[2]`.",
    "No. 5 is old.",
)


@pytest.mark.parametrize("answer", NO_CITATION)
def test_what_hardly_cites_is_no_citation(answer):
    assert read_citations(answer, THREE).citations == ()


def test_a_statement_has_no_mark_and_no_sign_around_it():
    answer = "It is **[1]** old ([1], [2]). It fell [1] , as [2] says .\nSo **[3]**."
    found = cited_statements(answer, citations_of_marks(answer, THREE))
    assert [(one.text, one.contexts) for one in found] == [
        ("It is old.", (0, 1)),
        ("It fell, as says.", (0, 1)),
        ("So.", (2,)),
    ]


NUMBERINGS: dict[str, tuple[list[str], dict[str, int] | None]] = {
    "by a word": (["Source 2:\nA", "source 5: B"], {"2": 0, "5": 1}),
    "by a word and a bracket": (
        ["Document [1](Title: A): a", "Document [2] (B): b"],
        {"1": 0, "2": 1},
    ),
    "by brackets from 1": (["[1] A", "[2] B"], {"1": 0, "2": 1}),
    "by brackets from 0": (["[0] A", "[1] B"], {"0": 0, "1": 1}),
    "by brackets of a bibliography": (["[12] Smith, J.", "[13] Wu, L."], None),
    "not all": (["Source 1: A", "B"], None),
    "one twice": (["Source 1: A", "Source 1: B"], None),
    "a year": (["Document 2019 says", "Document 2020 says"], None),
    "none": ([], None),
}


@pytest.mark.parametrize("name", NUMBERINGS)
def test_numbers_are_known_where_every_context_has_its_own(name):
    texts, expected = NUMBERINGS[name]
    assert numbering_of_texts(texts) == expected


# Rows: what they say of marks, and what is made of them.

CITED = (Citation(start=0, end=7, contexts=(1,), mark=(3, 6)),)
ROWS: dict[str, tuple[dict[str, Any], tuple[Citation, ...] | None]] = {
    "contexts with numbers": (
        {"answer": "No [2].", "contexts": ["Source 1: a", "Source 2: b"]},
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
    "a column with brackets": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "y"}],
            "citations": {"[2]": "y"},
        },
        CITED,
    ),
    "labels without a value, as Parquet has them": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": 4}, {"text": "b", "id": 7}],
            "citations": {"1": None, "2": 7.0, "3": float("nan")},
        },
        CITED,
    ),
    "a label in two spellings": (
        {
            "answer": "No [2].",
            "contexts": [{"text": "a", "id": "x"}, {"text": "b", "id": "y"}],
            "citations": {"2": "y", "02": "y"},
        },
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
def test_marks_of_a_table_are_read_where_the_row_says_what_they_mean(name):
    row, expected = ROWS[name]
    sample = Sample.from_row({"question": "Is it?", **row})
    assert sample.citations == expected
    assert bool(sample.citations_unknown) == (expected is None)
    assert "citations" not in sample.metadata


def test_what_is_unknown_is_said_with_what_to_do():
    sample = Sample.from_row({"answer": "No [1]. Yes [2].", "contexts": ["a"]})
    assert "2 marks" in sample.citations_unknown
    assert "column citations" in sample.citations_unknown
    silent = Sample.from_row({"answer": "No.", "contexts": ["a"]})
    assert "nobody looked" in silent.citations_unknown


def test_a_row_with_a_numbering_is_not_told_to_give_one():
    """The reason names the form that is not read, since the row says what 1 means."""
    row = {
        "answer": "It is old [1]. It fell [see 2].",
        "contexts": [{"id": "a", "text": "It is old."}],
        "citations": {"1": "a"},
    }
    sample = Sample.from_row(row)
    assert sample.citations is None
    assert sample.citations_unknown == UNREAD_FORM


def test_dots_for_words_left_out_end_no_sentence_and_dots_at_its_end_do():
    text = "It fell [and rose...] They left [...] in May."
    assert whole_sentences(text) == ["It fell [and rose...]", "They left [...] in May."]


@pytest.mark.parametrize("cell", [["https://a.org"], "see below", {"a": "b"}, 3])
def test_a_column_named_citations_may_hold_anything_else(cell):
    sample = Sample.from_row(
        {"answer": "No [1].", "contexts": ["a"], "citations": cell}
    )
    assert (sample.citations, sample.metadata) == (None, {"citations": cell})


def test_a_named_column_must_hold_citations():
    row = {"answer": "No [1].", "contexts": ["a"], "cited": ["https://a.org"]}
    with pytest.raises(RowError, match="citations: needs"):
        Sample.from_row(row, citations="cited")


OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"start": 0, "end": 9}, "ends at 9"),
    ({"start": 0, "end": 1, "mark": (3, 9)}, "ends at 9"),
    ({"start": 0, "end": 1, "contexts": (1,)}, "names place 1"),
    ({"start": 2, "end": 1}, "before it begins"),
    ({"start": -1, "end": 1}, "greater than or equal to 0"),
]


@pytest.mark.parametrize(("cited", "message"), OUTSIDE)
def test_citations_lie_in_their_sample(cited, message):
    with pytest.raises(ValueError, match=message):
        Sample(answer="No [1].", contexts=("a",), citations=(cited,))


# Results files

GOLDEN = Path(__file__).parents[1] / "reporting" / "golden"


def test_citations_travel_in_results_files(tmp_path):
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


@pytest.mark.parametrize(
    "name", sorted(path.name for path in GOLDEN.glob("results_*.jsonl"))
)
def test_files_of_before_have_no_citations(name):
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
    return f"[{style.join(map(str, labels))}]"


@given(
    st.lists(st.tuples(PLAIN_SENTENCES.filter(bool), LABELS), max_size=5),
    st.sampled_from([", ", ",", "side by side"]),
    st.booleans(),
)
def test_what_is_rendered_is_read(parts, style, behind):
    """Each paragraph ends in a mark, before or behind its full stop."""
    paragraphs = []
    for sentences, labels in parts:
        mark, text = rendered(labels, style), ". ".join(sentences)
        paragraphs.append(f"{text}. {mark}" if behind else f"{text} {mark}.")
    answer = "\n".join(paragraphs)
    numbering = {str(label): label for label in range(100)}
    cited = read_citations(answer, numbering).citations or ()
    read_labels = [place for one in cited for place in one.contexts]
    assert read_labels == [label for _, labels in parts for label in labels]
    expected: list[tuple[str, tuple[int, ...]]] = []
    for sentences, labels in parts:
        plain = [" ".join(f"{each}.".split()) for each in sentences]
        expected += [(each, ()) for each in plain[:-1]]
        expected.append((plain[-1], tuple(labels)))
    found = cited_statements(answer, cited)
    assert [(one.text, one.contexts) for one in found] == expected


ANY_ANSWER = st.one_of(
    st.text(max_size=200), st.text("[]【】†123-–,; .\n`ab“”*", max_size=120)
)


@given(
    ANY_ANSWER,
    st.dictionaries(st.sampled_from(["0", "1", "2", "3"]), st.integers(0, 5)),
)
def test_no_text_breaks_reading(answer, numbering):
    """Places lie within the answer, every number is accounted for, and order is kept."""
    marks = marks_in(answer)
    cited = citations_of_marks(answer, numbering)
    assert [one.mark for one in cited] == [(mark.start, mark.end) for mark in marks]
    for one, mark in zip(cited, marks, strict=True):
        assert 0 <= one.start < one.end <= len(answer)
        assert set(one.dangling) == set(mark.labels) - set(numbering)
        known = {numbering[label] for label in mark.labels if label in numbering}
        assert set(one.contexts) == known
        assert len(mark.labels) <= 200 * WIDEST_RANGE
    statements = cited_statements(answer, cited)
    if statements:  # no citation is lost
        assert {place for one in statements for place in one.contexts} == {
            place for one in cited for place in one.contexts
        }
    contexts = ("a",) * 6
    if answer.strip():
        sample = Sample(answer=answer, contexts=contexts, citations=cited)
        assert sample.citations == cited


@given(ANY_ANSWER.filter(str.strip), st.lists(st.text("abc", min_size=1), max_size=3))
def test_what_is_unknown_stays_unknown(answer, contexts):
    sample = Sample.from_row({"answer": answer, "contexts": contexts})
    assert sample.citations is None
    assert sample.citations_unknown


# answers of a size that are made to be read slowly
SLOW: dict[str, Callable[[int], str]] = {
    "ranges": lambda size: "So [1-99]," * (size // 20),
    "words of code": lambda size: "a_" * size + "=" * size,
    "tags of reasoning": lambda size: "</think" * (size // 5),
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


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
def test_four_times_the_answer_takes_four_times_the_steps(name):
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
def test_an_initial_at_the_beginning_of_a_line_ends_no_sentence(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    "mark",
    ["(2)", "²", "[2, p. 3, 4]", "（1）", "①", "<sup>2</sup>", "{1}", "【2:0†source】"],
)
def test_a_row_whose_marks_are_in_another_form_has_unknown_citations(mark):
    """Not those of an answer that cites nothing."""
    row = {
        "question": "Who?",
        "contexts": ["[1] Anna lit the lamp.", "[2] Berta built it."],
        "answer": f"Berta built it {mark}.",
    }
    assert Sample.from_row(row).citations is None
    assert Sample.from_row({**row, "answer": "Berta built it."}).citations == ()


# Columns that say something of numbers, and not which contexts they mean.
JOINS = "the id of one context"
GIVE = "give the column citations"
X, Y = {"text": "a", "id": "x"}, {"text": "b", "id": "y"}
NOT_JOINED: dict[str, tuple[list[Any], Any, str]] = {
    "ids of contexts without any": (["a", "b"], {"1": "x", "2": "y"}, JOINS),
    "an id, and a context without": ([X, "b"], {"1": "x", "2": "7"}, JOINS),
    "an id of two contexts": ([X, X], {"1": "x"}, JOINS),
    "ids that no context has": ([X, Y], {"1": "v", "2": "w"}, JOINS),
    "places": (["a", "b"], {"1": 0, "2": 1}, JOINS),
    "places beside ids": ([X, Y], {"1": 0, "2": 1}, JOINS),
    "numbers of which one is an id": (
        [{"text": "a", "id": "1"}, {"text": "b", "id": "9"}],
        {"1": 0, "2": 1},
        JOINS,
    ),
    "no recorded contexts": ([None], {"1": "x"}, "no contexts were recorded"),
    "a number in two spellings": ([X, Y], {"1": "x", "01": "y"}, GIVE),
    "a list of ids": ([X, Y], ["x", "y"], GIVE),
    "nothing for every number": ([X, Y], {"1": None, "2": None}, GIVE),
    "truth values": ([X, Y], {"1": False, "2": True}, GIVE),
    "words": ([X, Y], "see below", GIVE),
}


@pytest.mark.parametrize("name", NOT_JOINED)
def test_a_column_that_cannot_be_joined_leaves_citations_unknown(name):
    """Never dangling, and the reason says what is needed."""
    contexts, cell, reason = NOT_JOINED[name]
    row = {"answer": "No [1]. So [2].", "contexts": contexts, "citations": cell}
    sample = Sample.from_row(row)
    assert sample.citations is None
    assert reason in sample.citations_unknown
    result = CitationQuality().score(sample, judge=ScriptedJudge({}))
    assert (result.status, result.code) == ("undefined", "missing")
    assert reason in result.reason
    # without a mark there is nothing to explain, but for a list
    plain = Sample.from_row({**row, "answer": "No."})
    assert (plain.capture is not None) == isinstance(cell, list)


@pytest.mark.parametrize(
    "text",
    [
        "[1] Anna lit it.\n[2] Rain fell.",
        "[1] Anna lit it [2, 3].",
        "Source 1: Anna lit it. Source 2: Rain fell.",
    ],
)
def test_a_number_inside_a_context_does_not_dangle(text):
    row = {"contexts": [text], "answer": "Rain fell [2]."}
    judge = ScriptedJudge({Supports: {"supported": 1}})
    for metric in (CitationQuality(), CitationQuality(numbered_from=1)):
        result = metric.score(Sample.from_row(row), judge=judge)
        assert (result.status, result.value) == ("undefined", None)
        assert "stands inside a context" in result.reason
    known = Sample.from_row({**row, "answer": "Anna lit it [1]. It fell [9]."})
    assert [one.dangling for one in known.citations or ()] == [(), ("9",)]


def test_the_setting_of_the_metric_stands_in_for_a_column_that_holds_something_else():
    row = {"answer": "No [1].", "contexts": ["a"], "citations": ["https://a.org"]}
    judge = ScriptedJudge({Supports: {"supported": 1}})
    result = CitationQuality(numbered_from=1).score(Sample.from_row(row), judge=judge)
    assert result.value == 1.0


def test_a_truth_value_is_no_place():
    with pytest.raises(ValueError, match="a place is a number"):
        Citation.model_validate({"start": 0, "end": 1, "contexts": [True]})
