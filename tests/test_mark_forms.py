"""Forms of marks: read rightly, or known as a form that may cite; never silently "uncited"."""

from __future__ import annotations

from typing import Any

import pytest
from citing import oracle
from counted_steps import count_steps
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import CitationQuality, Sample
from ragmetrics_core.data.citations import may_cite_more, read_citations
from ragmetrics_core.data.label_shapes import shape_of_label
from ragmetrics_core.data.marks import marks_in, may_cite
from ragmetrics_core.data.source_lists import source_lists_in

FEW_EXAMPLES = settings(max_examples=examples(60), deadline=None)
SHOWN = ("AA is so.", "BB is so.", "Noise.")
UNREAD = "the answer may cite in a form that is not read"


def judged(answer: str, **fields: Any) -> Any:
    metric = CitationQuality(numbered_from=1)
    sample = Sample(contexts=SHOWN, answer=answer, **fields)
    return metric.score(sample, judge=oracle())


def statements_of(answer: str) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """Of each sentence its text, the ranks that it cites, and what dangles."""
    return [
        (one.text, tuple(cited.rank for cited in one.citations), one.dangling)
        for one in judged(answer).evidence.statements
    ]


# Forms that are read: each is a citation of source 1.
READ = [
    "[1]",
    "［1］",
    "[１]",
    "〔1〕",
    "[١]",
    "【1】",
    "【1†source】",
    "[[1]]",
    "[01]",
    "[Source 1]",
    "(Source 1)",
    "[Source 1, p. 3]",
    "[1, p. 3]",
    "[1, pp. 3-4]",
    "[1; 1, p. 3]",
    "[1 p. 3]",
    "[1: p. 4]",
    "[1, section 2]",
    "[Doc 1, page 12]",
    "[Source 1: report.pdf]",
    "**[1]**",
    "([1])",
    "(see [1])",
    "<sup>[1]</sup>",
    "[1](http://a.test/b)",
    "*[1]*",
    "[1]-[1]",
    "[[1], [1]]",
    "^[1]",
    "[^1]",
    "[ID:1]",
    "[ID: 1]",
    "[1 und 1]",
    "[1, and 1]",
    "[Sources 1 et 1]",
    "[Source 1-Source 1]",
    "\\[1\\]",
    "\\\\[1\\\\]",
    "[1.]",
    "[No. 1]",
    "[no 1]",
    "[Nr. 1]",
    "[№ 1]",
]
# Forms that are not read, and that are known to cite.
NOT_READ = [
    "(1)",
    "（1）",
    "²",
    "①",
    "<sup>1</sup>",
    "<cite>1</cite>",
    "<ref>1</ref>",
    "[a]",
    "[I]",
    "[Book A]",
    "[[doc_a]]",
    "[doc_a]",
    "{1}",
    "{1, 2}",
    "(Smith, 2020)",
    "(Smith et al., 2020)",
    "(Smith & Wu 2020; Ek 2019)",
    "(ibid.)",
    "[1—2]",
    "[1 to 2]",
    "[1, p. 3, 4]",
    "[see 1]",
    "[1;\n2]",
    "【1:0†source】",
    "(source: annual report)",
    "[Source: annual report]",
    "(https://b.test)",
    "[report](https://b.test)",
    "(see 2)",
    "†",
    "[1)",
    "(1]",
    "<1>",
    "<co: 1>",
    "</co:1,2>",
    "⟦1⟧",
    "〖1〗",
    "1\ufe0f\u20e3",
    "(the second document)",
    "(as source 1 says)",
    "(as sources say)",
    "(Sources say so)",
    "(“source” of the town)",
]


@pytest.mark.parametrize("mark", READ)
def test_a_form_that_is_read_leaves_its_sentence_clean(mark: str) -> None:
    assert statements_of(f"It says AA {mark}. It says BB [2].") == [
        ("It says AA.", (1,), ()),
        ("It says BB.", (2,), ()),
    ]


@pytest.mark.parametrize("mark", NOT_READ)
@pytest.mark.parametrize(
    "answer",
    [
        "It says AA {}.",
        "It says AA. {}",
        "It says AA {}. It says BB [2].",
        "It says BB [2]. It says AA {}.",
        "It says BB [2]. It says AA {}",
        "It says AA. {} It says BB [2].",
        "- It says AA {}\n- It says BB [2]",
    ],
)
def test_a_form_that_is_not_read_leaves_the_metric_undefined(
    mark: str, answer: str
) -> None:
    """Beside a mark that is read, too: the sentence would else count as uncited."""
    written = answer.format(mark)
    result = judged(written)
    assert result.status == "undefined", result
    assert (
        "may cite in a form that is not read" in result.reason
        or "name" in result.reason
    )
    row = {"answer": written, "contexts": [f"Source {n}: AA" for n in (1, 2)]}
    sample = Sample.from_row(row)
    if sample.citations is None:
        assert sample.citations_unknown
    else:
        assert may_cite_more(sample.answer, sample.citations)


def test_a_reply_that_was_cut_off_within_a_mark_may_cite() -> None:
    assert judged("It says AA [2]. It says BB [1").reason == UNREAD
    assert judged("It says AA【1").reason == UNREAD


@pytest.mark.parametrize("mark", ["^1", "1", "²"])
def test_a_number_close_behind_a_sentence_may_cite(mark: str) -> None:
    assert judged(f"It says so of AA.{mark} It says BB [2].").reason == UNREAD
    assert judged(f"It says so of AA. It fell.{mark}").reason == UNREAD


# What stands in an answer and cites nothing: the score counts what is cited beside it.
CONTENT = [
    "in [1990] and [2001-2005]",
    "as is said",
    "of [-1, 1]",
    "of [0.5, 1]",
    "of 10² and x² and km²",
    "(aged 12)",
    "(AB)",
    "[sic]",
    "[...]",
    "with `a[1]` and ~~~b[2]~~~",
    "with a[1] + b[2]",
    "with my_list[2] = 3",
    "with x = [1, 2, 3]",
    "【注意】",
    "[citation needed]",
    "of May (1903–1990)",
    "that: (1) it is and (2) it was",
    "and 2^10 = 1024",
]


def test_words_about_a_source_are_of_their_own_sentence() -> None:
    assert statements_of("Source 1 says AA [1]. The second document says BB [2].") == [
        ("Source 1 says AA.", (1,), ()),
        ("The second document says BB.", (2,), ()),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        '```json\n{"answer": "It says AA [1]."}\n```',
        "It says AA `[1]`.",
    ],
)
def test_an_answer_in_a_fence_may_cite(answer: str) -> None:
    assert judged(answer).reason == UNREAD


@pytest.mark.parametrize(
    "word", ["allumée", "dafür", "Straße", "día", "João", "plan b", "foo-bar"]
)
def test_a_mark_close_behind_any_word_is_a_mark(word: str) -> None:
    assert statements_of(f"AA {word}[1].") == [(f"AA {word}.", (1,), ())]


@pytest.mark.parametrize("words", ["[NO2]", "[no2]", "\\[2019\\]", "[3:16]", "[2: 1]"])
def test_what_is_only_written_like_a_number_of_a_source_is_no_mark(words: str) -> None:
    assert [mark.labels for mark in marks_in(f"It is so {words}, see [2].")] == [("2",)]


def test_an_escaped_bracket_alone_in_its_line_may_be_a_formula() -> None:
    r"""Markdown escapes a mark as \[1\], and TeX writes a formula so."""
    answer = "It holds:\n\\[1, 2\\]\nIt says BB \\[2\\]."
    read = read_citations(answer, {"1": 0, "2": 1})
    assert [one.contexts for one in read.citations or ()] == [(1,)]
    assert may_cite_more(answer, read.citations or ())


def test_a_bracket_close_behind_a_name_of_code_may_be_an_index() -> None:
    assert judged("AA foo_bar[1].").reason == UNREAD
    assert statements_of("AA foo_bar [1].") == [("AA foo_bar.", (1,), ())]


@pytest.mark.parametrize(
    "words", ["C++", "18+", "500+", "Disney+", "A+", "500+ units", "y=5", "[0-9]+"]
)
def test_a_sign_that_ends_a_word_is_no_operator(words: str) -> None:
    assert statements_of(f"AA {words} [1].") == [(f"AA {words}.", (1,), ())]


@pytest.mark.parametrize("words", ["C++", "18+", "500+ units"])
def test_a_mark_close_behind_such_a_word_is_a_mark(words: str) -> None:
    assert statements_of(f"AA {words}[1].") == [(f"AA {words}.", (1,), ())]


@pytest.mark.parametrize(
    "short", ["bzw. Strom", "ca. Zehn", "Nr. Eins", "vs. Faro", "Mt. Vernon", "Fig. B"]
)
def test_a_sentence_goes_on_behind_an_abbreviation(short: str) -> None:
    assert statements_of(f"AA {short} [1].") == [(f"AA {short}.", (1,), ())]


@pytest.mark.parametrize(
    "harmless",
    [
        "For more information, visit https://x.org.",
        "Result: so.",
        "It is [Summary] so.",
        "Documents 2 and 3 do not mention it.",
        "Article 6(1) GDPR applies.",
        "Smith et al. (2020) say no.",
        "It has 30 Ca²⁺.",
    ],
)
def test_a_sentence_without_a_claim_may_hold_anything(harmless: str) -> None:
    assert judged(f"It says AA [1]. {harmless}").value == 1.0


def test_claims_under_a_heading_of_sources_are_claims() -> None:
    for claims in (
        "## Citations\n1. DD was cited 500 times.\n2. DD is wrong.",
        "References:\n- DD worked with Anna in 1903.",
        "[1] The lamp was lit by DD in 1903",
        "**Sources**\n- Book A\n\n- DD was lit in 1903.",
        "References:\n- DD was lit in 1903 [1]",
        "Sources: [1] DD was lit in 1903, b.pdf",
        "Sources: DD was lit in 1903 [1], b.pdf [2]",
    ):
        assert judged(f"It says AA [1].\n\n{claims}").value < 1.0


@pytest.mark.parametrize("fence", ["```markdown", "```", "~~~md"])
def test_an_answer_in_a_fence_of_its_own_is_read(fence: str) -> None:
    closing = fence[:3]
    answer = f"{fence}\nIt says AA [1].\nIt says BB [2].\n{closing}"
    assert statements_of(answer) == [
        ("It says AA.", (1,), ()),
        ("It says BB.", (2,), ()),
    ]


@pytest.mark.parametrize("fence", ["```markdown", "~~~md"])
def test_a_part_of_an_answer_in_a_fence_of_markdown_is_read(fence: str) -> None:
    answer = f"So:\n{fence}\nIt says AA [1].\n{fence[:3]}\nIt says BB [2]."
    for text in (answer, answer.replace("\n", "\r\n")):
        assert judged(text).value == 1.0
        assert ("It says BB.", (2,), ()) in statements_of(text)


def test_marks_in_a_fence_of_text_are_in_doubt_and_those_of_code_are_not() -> None:
    beside = judged("So:\n```text\nIt says AA [1].\n```\nIt says BB [2].")
    assert (beside.status, UNREAD in beside.reason) == ("undefined", True)
    assert judged("It says AA [1].\n```text\nx = 5\n```").value == 1.0
    assert judged("It says AA [1].\n```python\nx = a[1]\n```").value == 1.0


@pytest.mark.parametrize("heading", ["Source", "**Sources**", "Citation", "Ref."])
@pytest.mark.parametrize("before", ["", "It says AA [1].\n\n"])
def test_a_column_of_sources_with_numbers_alone_may_cite(
    heading: str, before: str
) -> None:
    table = f"| What | {heading} |\n|---|---|\n| AA | 1 |\n| BB | 2, 3 |"
    result = judged(before + table)
    assert (result.status, UNREAD in result.reason) == ("undefined", True)
    without_edges = f"What | {heading}\n--- | ---\nAA | 1"
    assert judged(before + without_edges).status == "undefined"


def test_other_columns_hold_numbers_that_cite_nothing() -> None:
    for heading in ("Year", "Results", "Documents"):
        table = f"| What | {heading} |\n|---|---|\n| AA [1] | 3 |\n| BB [2] | 5 |"
        assert judged(table).value == 1.0
        assert judged(f"| What | {heading} |\n|---|---|\n| AA | 3 |").value is not None
    table = "| What | Citations |\n|---|---|\n| AA [1] | 3 |\n| BB [2] | 5 |"
    assert judged(table).value == 1.0
    assert judged("| What | Source |\n|---|---|\n| AA | [1] |").value == 1.0


def test_brackets_of_json_are_lists() -> None:
    result = judged('{"answer": "It says AA.", "sources": [1, 2]}')
    assert "JSON" in result.reason
    assert result.status == "undefined"
    assert statements_of("{It says AA [1].") == [("{It says AA.", (1,), ())]


def test_lines_that_end_as_on_windows_are_lines() -> None:
    answer = "It says AA [1].\n\nReferences:\n[1] Book A\n[2] Book B\n"
    assert judged(answer.replace("\n", "\r\n")).value == 1.0
    answer = "It says AA [1].\n\n[1] Book A"
    assert judged(answer.replace("\n", "\r\n")).value == 1.0


@pytest.mark.parametrize("words", CONTENT)
def test_what_is_content_stays_in_its_sentence(words: str) -> None:
    answer = f"It says AA {words} here [1]. It says BB {words} here."
    assert statements_of(answer) == [
        (f"It says AA {words} here.", (1,), ()),
        (f"It says BB {words} here.", (), ()),
    ]


def test_an_interval_is_content_where_sources_count_from_one() -> None:
    answer = "In the interval [0, 1] it says AA [1]."
    assert statements_of(answer) == [("In the interval [0, 1] it says AA.", (1,), ())]
    assert [mark.labels for mark in marks_in(answer, {"0": 0, "1": 1})] == [
        ("0", "1"),
        ("1",),
    ]
    assert [mark.labels for mark in marks_in("In [1990].", {"1990": 0})] == [("1990",)]


# Where sentences end, and whose mark it is: answer, and of each sentence what it cites.
BOUNDS: dict[str, tuple[str, list[tuple[str, tuple[int, ...]]]]] = {
    "a hard line break": (
        "AA was lit by the guard\nof the lamp in 1903 [1].",
        [("AA was lit by the guard of the lamp in 1903.", (1,))],
    ),
    "a hard line break before a name": (
        "It says AA and was lit by the guard, whose name was\nAnna [1].",
        [("It says AA and was lit by the guard, whose name was Anna.", (1,))],
    ),
    "two long lines": (
        "It says AA of the great tower that was lit by an old guard\nBB fell [2]",
        [
            ("It says AA of the great tower that was lit by an old guard", ()),
            ("BB fell", (2,)),
        ],
    ),
    "bold sentences": (
        "**It says AA.** It says BB [2].",
        [("**It says AA.**", ()), ("It says BB.", (2,))],
    ),
    "a letter that is no initial": (
        "AA was in World War I. It says BB [2].",
        [("AA was in World War I.", ()), ("It says BB.", (2,))],
    ),
    "items of HTML": (
        "<li>It says AA [1].</li><li>It says BB [2].</li>",
        [("<li>It says AA.</li>", (1,)), ("<li>It says BB.</li>", (2,))],
    ),
    "a source behind a paragraph": (
        "It says AA [1].\n\nIt says BB.\nSource: [2]",
        [("It says AA.", (1,)), ("It says BB.", (2,))],
    ),
    "a source behind a sentence": (
        "It says AA. Source: [1]",
        [("It says AA.", (1,))],
    ),
    "a wrapped item": (
        "- It says AA\n  in May [1]\n- It says BB [2]",
        [("- It says AA   in May", (1,)), ("- It says BB", (2,))],
    ),
    "lines that marks end": (
        "It says AA and was lit by the old guard of the tower [1]\nIt says BB [2]",
        [
            ("It says AA and was lit by the old guard of the tower", (1,)),
            ("It says BB", (2,)),
        ],
    ),
    "a heading": (
        "Summary\nIt says AA [1].",
        [("Summary", ()), ("It says AA.", (1,))],
    ),
    "abbreviations": (
        "Smith et al. say AA [1]. On Jan. 5 it said AA [1]. See Fig. 3 for AA [1].",
        [
            ("Smith et al. say AA.", (1,)),
            ("On Jan. 5 it said AA.", (1,)),
            ("See Fig. 3 for AA.", (1,)),
        ],
    ),
    "no, and a number": (
        "No. It says AA [1]. No. 5 says AA [1].",
        [("No.", ()), ("It says AA.", (1,)), ("No. 5 says AA.", (1,))],
    ),
    "a letter before a mark": (
        "It is plan AA B [1]. It says BB [2].",
        [("It is plan AA B.", (1,)), ("It says BB.", (2,))],
    ),
    "no blank behind the stop": (
        "It says AA [1].BB too [2].Then AA",
        [("It says AA.", (1,)), ("BB too.", (2,)), ("Then AA", ())],
    ),
    "marks that lead their sentences": (
        "[1] It says AA. [2] It says BB.",
        [("It says AA.", (1,)), ("It says BB.", (2,))],
    ),
    "marks that lead, side by side": (
        "[1][3] It says AA. [2] It says BB. [1] So.",
        [("It says AA.", (1, 3)), ("It says BB.", (2,)), ("So.", (1,))],
    ),
    "a mark that leads, and one that follows": (
        "[1] says AA. It says BB. [2]",
        [("says AA.", (1,)), ("It says BB.", (2,))],
    ),
    "marks joined by commas": (
        "It says AA ([1], [2]), and BB [2].",
        [("It says AA, and BB.", (1, 2))],
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_sentence_is_whole_and_has_its_own_marks(name: str) -> None:
    answer, expected = BOUNDS[name]
    assert [(text, ranks) for text, ranks, _ in statements_of(answer)] == expected


def test_a_range_may_be_written_in_two_brackets() -> None:
    assert [mark.labels for mark in marks_in("AA [1]-[3].")] == [("1", "2", "3")]


def test_a_long_sentence_is_one_statement() -> None:
    ((text, ranks, _),) = statements_of("It says AA " + "and so on " * 250 + "[1].")
    assert ranks == (1,)
    assert len(text) > 2000


# Lists of sources, which are no claims: (the body, the list).
BODY = "It says AA [1]. It says BB [2]."
LISTS = [
    "References:\n[1] Book of A\n[2] Book of B\n",
    "## References\n\n1. Book of A\n2. Book of B",
    "**Sources**\n- Book of A\n- Book of B",
    "Sources: [1], [2]",
    "Quellen:\n[1] Buch A\n\n[2] Buch B",
    '[1]: https://a.test "A"\n[2]: https://b.test',
    "[^1]: Book of A.\n[^2]: Book of B.",
    "Footnotes\n\nSmith, J. (2020). The book of A.\nWu, L. (2021). The book of B.",
    "Bibliographie :\n[1] Livre A\n[2] Livre B",
    "[1] Smith, J. (2020). The book of A.\n[2] Wu, L. (2021). The book of B.",
    "[1] Book of A\n[2] Book of B",
]
# Lists whose entries are no sentences, so that no judge is asked about them.
REFERENCES = [
    "Sources:\n- f1.pdf\n- f2.pdf",
    "Sources:\nf1.pdf\nf2.pdf",
    "## Sources\n- Handbook of towers\n- Book of bridges",
    "**References**\n1. f1.pdf, page 3\n2. f2.pdf",
    "References:\n- https://x.test/1\n- https://x.test/2",
    "Sources:\n[1] f1.pdf",
    "**References**\n\n[1] Handbook, 2003.\n\n[2] Guide, 2004.",
    "Sources: [1] a.pdf, [2] b.pdf",
    "References: [1] Handbook [2] Book",
    "Sources: a.pdf [1], b.pdf [2]",
    "**Sources:** [1] Handbook of towers; [2] Book.",
    "Sources:\n- a.pdf [1]\n- b.pdf [2]",
    "---\n[1] https://a.test\n[2] https://b.test",
    "## References\n\n- Lee, A. (2020). The towers. [https://a.test](https://a.test)\n"
    "- Wu. (2021). Why it is old. [b.test](https://b.test)",
    "## References\n\n- The towers of Norway. [https://a.test](https://a.test)",
    "Källor:\n- Lee, A. (2020). The towers. [https://a.test](https://a.test)",
    "参考資料:\n[[1]] 塔 https://a.test\n[[2]] 橋 https://b.test",
    "المصادر:\n[[1]] الأبراج https://a.test",
    "Cited works\n[[2]] Book of B",
    "**Bronnen**\n[1] Book of A\n[2] https://b.test",
]


@pytest.mark.parametrize("sources", REFERENCES)
@pytest.mark.parametrize("between", ["\n\n", "\n\n\n"])
def test_references_lower_no_score_of_a_judge_who_calls_all_a_claim(
    sources: str, between: str
) -> None:
    metric = CitationQuality(numbered_from=1)
    shown = ["The towers are red.", "The bridge is old."]
    answer = f"The towers are red [1]. The bridge is old [2].{between}{sources}"
    result = metric.score(contexts=shown, answer=answer, judge="lexical")
    assert result.value == 1.0
    assert result.evidence.claims == 2
    assert judged(f"{BODY}{between}{sources}").value == 1.0


def test_marks_of_an_answer_that_is_said_to_cite_nothing_are_unread() -> None:
    assert may_cite_more("It says BB [2].", [])
    assert not may_cite_more("It says BB.", [])


@pytest.mark.parametrize("part", ["a.", "a/", "a-", "https://"])
def test_four_times_the_entry_takes_four_times_the_steps(part: str) -> None:
    def read(n_parts: int) -> None:
        marks_in(f"It says AA [1].\n\nSources:\n- {part * n_parts}")

    read(20_000)  # a slow pattern meets the time limit
    n_small = count_steps(lambda: read(300))
    n_large = count_steps(lambda: read(1200))
    assert 0 < n_large <= 4.2 * n_small


def test_a_rule_directly_below_the_text_begins_the_list() -> None:
    sources = "---\n[1] https://a.test\n[2] https://b.test"
    assert judged(f"{BODY}\n{sources}").value == 1.0


@pytest.mark.parametrize("sources", LISTS)
def test_a_list_of_sources_claims_and_cites_nothing(sources: str) -> None:
    result = judged(f"{BODY}\n\n{sources}")
    assert result.value == 1.0, result
    assert (result.evidence.claims, result.evidence.citations) == (2, 2)
    closing = judged(f"{BODY}\n\n{sources}\n\nHope this helps.")
    if source_lists_in(f"{BODY}\n\n{sources}\n\nHope this helps."):
        assert closing.value == 1.0


@pytest.mark.parametrize("sources", LISTS)
def test_an_answer_that_only_lists_its_sources_may_cite(sources: str) -> None:
    assert may_cite(f"It says AA.\n\n{sources}")
    assert judged(f"It says AA.\n\n{sources}").status == "undefined" or (
        # without a heading, nothing says that these lines are a list
        not source_lists_in(f"It says AA.\n\n{sources}")
    )


@pytest.mark.parametrize(
    "text",
    [
        "[1] It says AA.\n[2] It says BB.",
        "Sources:\n- It says AA [1]\n- It says BB [2]",
        "It says AA [1].\n\n[1] It says AA.",
        "Sources of light say AA [1].",
        "It says AA [1].\n\n[2] Book of B",
        "It says AA [1].\n\nKällor:\n[[1]] It says AA.",
        "It says AA [1].\n\nKällor:\n[[2]] Book of B",
        "It says AA [1].\n\nSources:\n- It says BB (2020). [2](https://b.test)",
        "It says AA [1].\n\nSources:\n- It says BB ([b.test](https://b.test)).",
        "It says AA [1].\n\n- It was lit. [https://b.test](https://b.test)",
        "It says AA [2]. It says BB [1].\n\n[2] Book of B\n[1] Book of A",
    ],
)
def test_sentences_with_marks_are_no_list_of_sources(text: str) -> None:
    assert source_lists_in(text) == []


@FEW_EXAMPLES
@given(
    st.lists(
        st.tuples(st.sampled_from(["AA", "BB"]), st.sampled_from(READ)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([" ", "\n", "\n\n", "\n- "]),
    st.sampled_from(["", *LISTS]),
)
@example([("AA", "[^1]")], " ", "[^1]: Book of A.\n[^2]: Book of B.")
def test_answers_of_forms_that_are_read_are_scored_as_they_are(
    sentences: list[tuple[str, str]], between: str, sources: str
) -> None:
    """All forms name source 1, so that the sentences of AA are supported."""
    answer = between.join(f"It says {held} {mark}." for held, mark in sentences)
    result = judged(f"{answer}\n\n{sources}")
    # a footnote with a text of its own need not name the context 1
    is_footnote = "[^1]:" in sources and any(mark == "[^1]" for _, mark in sentences)
    if result.status == "undefined":  # else a list of numbers that nobody cited
        assert is_footnote or sources in LISTS[-2:]
        return
    n_supported = [held for held, _ in sentences].count("AA")
    if sources not in LISTS[-2:]:
        assert result.evidence.recall == n_supported / len(sentences)
        assert result.evidence.precision == n_supported / len(sentences)


@pytest.mark.parametrize("listed", ["**Sources:** [1], [2]", "Source: [2]"])
def test_a_list_of_other_sources_leaves_a_sentence_without_a_mark_open(
    listed: str,
) -> None:
    """The list may be what the second sentence cites."""
    result = judged(f"It says AA [1].\nIt says BB.\n\n{listed}")
    assert result.status == "undefined", result
    assert "may cite" in result.reason


def test_a_list_of_the_sources_of_the_marks_leaves_nothing_open() -> None:
    result = judged("It says AA [1].\nIt says BB.\n\nSources: [1]")
    assert result.status == "scored", result


CODE = "```python\nimport sys\nrows = read()\nprint(sys.argv[1])\n```"


@pytest.mark.parametrize(
    "words", ["rows[1] holds it", "it is sys.argv[1]", "`x`, rows[1]"]
)
def test_an_index_of_a_name_that_the_code_uses_is_no_mark(words: str) -> None:
    assert [mark.labels for mark in marks_in(f"{CODE}\nSo {words} [2].")] == [("2",)]
    # without this code nobody knows the name, and words may touch their mark
    n_marks = 1 if words == "it is sys.argv[1]" else 2
    assert len(marks_in(f"So {words} [2].")) == n_marks


@given(
    code=st.sampled_from(
        [
            "sys.argv{}",
            "df.iloc{}",
            "a.b.c{}",
            "print(rows{})",
            "max(a[0], b{})",
            "f({})",
            '"sizes": {}',
            "'max_sizes' : {}",
            '{{"a": {{"sizes":{}}}}}',
            '"sizes": [[1, 2], {}]',
            '"sizes": [{}]',
        ]
    ),
    number=st.integers(1, 3),
    before=st.sampled_from(["Use ", "So it is "]),
)
def test_what_may_be_an_index_leaves_its_own_sentence_in_doubt(
    code: str, number: int, before: str
) -> None:
    """Whether "sys.argv[1]" or "a.test[1]" cites, nobody knows; "[2]" is known."""
    sentence = before + code.format(f"[{number}]") + "."
    assert judged(sentence).reason == UNREAD
    for answer in (f"{sentence} It says BB [2].", f"It says BB [2]. {sentence}"):
        read = read_citations(answer, {"1": 0, "2": 1, "3": 2})
        assert read.citations is not None, read.why_unknown
        assert [one.contexts for one in read.citations] == [(1,)]
        assert may_cite_more(answer, read.citations)
        assert judged(answer).value == 1.0  # the other sentence claims nothing


@pytest.mark.parametrize(
    "words", ["tower(built in 1874 {})", "tower (see AA {})", "tower(built in 1874{})"]
)
def test_a_mark_behind_words_in_round_brackets_is_no_index(words: str) -> None:
    """An index stands directly behind a name, as in "len(rows[1])"."""
    assert [mark.labels for mark in marks_in(words.format("[1]"))] == [("1",)]
    assert marks_in("len(rows[1])") == []


def test_an_array_behind_a_key_is_no_mark() -> None:
    numbering = {"1": 0, "2": 1}
    read = read_citations('Set "sizes": [1, 2] in the file [2].', numbering)
    assert [one.contexts for one in read.citations or ()] == [(1,)]
    # a quote or a word alone before a mark is no key
    for before in ('It says "AA" ', "It says AA: ", 'It says: "AA." '):
        assert [mark.labels for mark in marks_in(f"{before}[1].")] == [("1",)]


@pytest.mark.parametrize("key", ["sources", "used_chunks", "source_ids", "Citations"])
def test_an_array_that_may_list_the_sources_leaves_all_sentences_open(
    key: str,
) -> None:
    """What stands behind such a key in an answer that is no JSON may be of any sentence."""
    read = read_citations(f'It says AA [1]. It says BB. "{key}": [2]', {"1": 0, "2": 1})
    assert read.citations is None
    assert "may cite" in read.why_unknown or "not read" in read.why_unknown


@pytest.mark.parametrize(
    "words",
    [
        "3.5kg",
        "Faro(s) ",
        "Faro (of 1874",
        "It is so. It fell",
        "灯塔(建于1874年",
        "n.n. ",
    ],
)
def test_words_with_a_stop_or_a_round_bracket_before_a_mark_are_no_code(
    words: str,
) -> None:
    assert [mark.labels for mark in marks_in(f"{words}[1].")] == [("1",)]


@given(
    letters=st.sampled_from(["S", "kb-", "kb_", "Q"]),
    width=st.integers(1, 3),
    first=st.integers(1, 12),
    n_labels=st.integers(1, 5),
    dash=st.sampled_from(["-", "–", " - ", "]-["]),
    n_shown=st.integers(1, 20),
)
def test_a_range_of_labels_names_each_of_them(
    letters: str, width: int, first: int, n_labels: int, dash: str, n_shown: int
) -> None:
    if dash == "]-[" and not letters.isalpha():
        dash = "-"
    numbering = {f"{letters}{n:0{width}}": n for n in range(1, n_shown + 1)}
    wanted = [f"{letters}{n:0{width}}" for n in range(first, first + n_labels)]
    answer = f"It fell [{wanted[0]}{dash}{wanted[-1]}]."
    read = read_citations(answer, numbering)
    if read.citations is None:  # no shown label has such a form: S10 beside S01
        shapes = set(map(shape_of_label, numbering))
        assert not shapes.issuperset(map(shape_of_label, wanted))
        return
    shown = tuple(numbering[label] for label in wanted if label in numbering)
    dangling = tuple(label for label in wanted if label not in numbering)
    assert [(c.contexts, c.dangling) for c in read.citations] == [(shown, dangling)]


def test_a_range_of_named_sources_names_each() -> None:
    (mark,) = marks_in("It fell [Source 1 - Source 3].")
    assert mark.labels == ("1", "2", "3")
    (mark,) = marks_in("It fell [doc-2-doc-3].", {"1": 0})
    assert mark.labels == ("2", "3")
    (mark,) = marks_in("It fell [doc-08-doc-10].", {"doc-01": 0})
    assert mark.labels == ("doc-08", "doc-09", "doc-10")


@pytest.mark.parametrize(
    "mark", ["[S3-S1]", "[S1-S300]", "[S1-3]", "[S01-S03]", "[S01]", "[S1-T3]"]
)
def test_of_a_range_without_sense_and_of_other_zeros_nobody_knows_the_labels(
    mark: str,
) -> None:
    numbering = {"S1": 0, "S2": 1, "S3": 2}
    assert read_citations(f"It fell {mark}.", numbering).citations is None


def test_words_that_touch_their_marks_keep_them_beside_code() -> None:
    answer = f"{CODE}\nIt fell[1]. The `towers` fell; the towers[2]."
    assert [mark.labels for mark in marks_in(answer)] == [("1",), ("2",)]


@pytest.mark.parametrize("mark", ["[1, 2021]", "[2021, 1]", "[1; 1998]"])
def test_a_year_beside_a_number_is_no_source_that_was_made_up(mark: str) -> None:
    answer = f"AA {mark}."
    assert read_citations(answer, {"1": 0, "2": 1}).why_unknown == UNREAD
    assert may_cite(answer)
    known = {"1": 0, "2021": 1, "1998": 2}
    assert read_citations(answer, known).citations != ()


def test_a_number_beside_years_that_are_labels_dangles() -> None:
    (cited,) = read_citations("AA [2021, 1998].", {"2021": 0}).citations or ()
    assert (cited.contexts, cited.dangling) == ((0,), ("1998",))
