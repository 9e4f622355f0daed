"""Answers that number their sources anew, and say so in a list of their own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Sample

TITLES = ("Rivers and hills", "The Bridge Book", "Opening day")
FILES = ("f1.txt", "f2.txt", "f3.txt")
NUMBERED_FILES = "[{n}] ({file}) {text}"
NUMBERED_TITLES = "[{n}] {title}\n{text}"
FILES_ALONE = "File: {file}\n{text}"
SOURCES = "Source {n}:\n{text}"
SAID = "It was opened in 1874 [1]."


def asked(label: str, answer: str, files: tuple[str, ...] = FILES) -> Sample:
    """A sample of a chain whose prompt shows each text under a label."""
    documents = [Document(text) for text in TEXTS]
    shown = "\n\n".join(
        label.format(n=number, file=file, title=title, text=text)
        for number, (text, title, file) in enumerate(
            zip(TEXTS, TITLES, files, strict=True), start=1
        )
    )
    made = (
        {
            "context": RunnableLambda(lambda _: documents) | (lambda _: shown),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("Sources:\n{context}\n\nAsked: {question}")
        | FakeListChatModel(responses=[answer])
    )
    with capture() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def cited(sample: Sample) -> list[tuple[int, ...]]:
    assert sample.citations is not None, sample.citations_unknown
    assert not any(citation.dangling for citation in sample.citations)
    return [citation.contexts for citation in sample.citations]


# An entry of a list, by its number and what it names.
FORMS: dict[str, Callable[[int, str], str]] = {
    "references": lambda number, name: f"References:\n[{number}] {name}",
    "bullets": lambda number, name: f"**Sources**\n- [{number}] {name}",
    "numbered": lambda number, name: f"Sources:\n{number}. {name}",
    "definition": lambda number, name: f"[{number}]: {name}",
    "page": lambda number, name: f"Sources:\n[{number}] {name}, p. 3",
    "heading of its own": lambda number, name: f"**Notes**\n[{number}] {name}",
    "one line": lambda number, name: f"Sources: [{number}] {name}",
    "number last": lambda number, name: f"Sources:\n- {name} [{number}]",
}
NAMES = {
    NUMBERED_FILES: FILES[2],
    NUMBERED_TITLES: TITLES[2],
    FILES_ALONE: FILES[2],
    SOURCES: "Source 3",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("label", NAMES)
def test_the_list_says_what_the_number_means(label: str, form: str) -> None:
    sample = asked(label, f"{SAID}\n\n{FORMS[form](1, NAMES[label])}")
    if form == "numbered" and label != FILES_ALONE:
        # "1." may count the sources in the order of citing
        assert sample.citations is None
    else:
        assert cited(sample) == [(2,)]


@settings(max_examples=40)
@given(
    order=st.permutations(range(3)),
    n_listed=st.integers(1, 3),
    heading=st.sampled_from(["Sources:", "## References", "Further reading:"]),
)
def test_a_list_in_the_order_of_citing_never_exchanges_the_marks(
    order: list[int], n_listed: int, heading: str
) -> None:
    """The law: "1." to "3." under a heading leave each mark its meaning, or unknown."""
    said = " ".join(f"It is so{index}x [{index + 1}]." for index in order)
    entries = [f"{n}. {FILES[i]}" for n, i in enumerate(order[:n_listed], start=1)]
    sample = asked(NUMBERED_FILES, "\n".join([said, "", heading, *entries]))
    agrees = order[:n_listed] == list(range(n_listed))
    if agrees or heading == "Further reading:":
        assert cited(sample) == [(index,) for index in order]
    else:
        assert sample.citations is None


def test_a_counted_list_of_sources_that_no_mark_numbers_so_changes_nothing() -> None:
    answer = "It is old [2].\n\nSources:\n1. f2.txt"
    assert cited(asked(NUMBERED_FILES, answer)) == [(1,)]


@settings(max_examples=40)
@given(
    order=st.permutations(range(3)),
    form=st.sampled_from(sorted(FORMS)),
    label=st.sampled_from([NUMBERED_FILES, NUMBERED_TITLES, FILES_ALONE]),
)
def test_a_new_numbering_gives_the_passage_that_the_list_names(
    order: list[int], form: str, label: str
) -> None:
    """The law: a mark never means another passage than the list names under its number."""
    names = TITLES if label == NUMBERED_TITLES else FILES
    said = " ".join(f"It is so{number}x [{number}]." for number in (1, 2, 3))
    heading, _, _ = FORMS[form](1, "\0").rpartition("\n")
    entries = [
        FORMS[form](number, names[index]).rpartition("\n")[2]
        for number, index in enumerate(order, start=1)
    ]
    if form == "one line":
        entries = ["Sources: " + ", ".join(e.partition(": ")[2] for e in entries)]
    lines = [heading, *entries] if heading else entries
    sample = asked(label, f"{said}\n\n" + "\n".join(lines))
    may_count = form == "numbered" and label != FILES_ALONE and order != [0, 1, 2]
    if may_count:
        assert sample.citations is None
    else:
        assert cited(sample) == [(index,) for index in order]


@pytest.mark.parametrize("words", [f'"{TEXTS[2]}"', f"“{TEXTS[2]}”"])
@pytest.mark.parametrize("heading", ["", "References:\n"])
def test_a_quote_says_what_the_number_means_and_cites_nothing_itself(
    heading: str, words: str
) -> None:
    sample = asked("[{n}] {text}", f"{SAID}\n\n{heading}[1] {words}")
    assert cited(sample) == [(2,)]


@pytest.mark.parametrize("name", ["f9.txt", "https://a.test/f3", "f2.txt, f3.txt"])
def test_a_list_that_contradicts_the_prompt_unclearly_makes_its_number_unknown(
    name: str,
) -> None:
    sample = asked(NUMBERED_FILES, f"{SAID}\n\nReferences:\n[1] {name}")
    assert sample.citations is None
    assert "own list" in sample.citations_unknown


def test_a_number_that_a_new_list_leaves_out_is_unknown() -> None:
    answer = f"{SAID} It is old [2].\n\nReferences:\n[1] f3.txt"
    sample = asked(NUMBERED_FILES, answer)
    assert sample.citations is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["{own}", "The annals of the Velm", "{own}: the annals", "Source 3 ({own})"]
)
@pytest.mark.parametrize("label", NAMES)
def test_a_list_of_the_prompts_own_numbers_changes_nothing(
    label: str, name: str, form: str
) -> None:
    text = name.format(own=NAMES[label])
    answer = f"{SAID.replace('1]', '3]')}\n\n{FORMS[form](3, text)}"
    sample = asked(label, answer)
    is_number_last = form == "number last" and ":" in text
    # the prompt shows another title under this number
    is_other_title = label == NUMBERED_TITLES and "annals" in name and "{" not in name
    if is_other_title or (
        label == FILES_ALONE and ("{own}" not in name or is_number_last)
    ):
        assert sample.citations is None
    else:
        assert cited(sample) == [(2,)]


def test_a_file_of_several_passages_leaves_each_its_number() -> None:
    files = ("a.pdf", "b.pdf", "b.pdf")
    answer = f"{SAID.replace('1]', '3]')}\n\nReferences:\n[3] b.pdf"
    assert cited(asked(NUMBERED_FILES, answer, files)) == [(2,)]


@pytest.mark.parametrize("number", [1, 3])
def test_a_field_beside_the_answer_says_what_the_number_means(number: int) -> None:
    source = {"number": number, "source": "f3.txt"}
    reply = {"answer": f"It was opened in 1874 [{number}].", "citations": [source]}
    assert cited(asked(NUMBERED_FILES, json.dumps(reply))) == [(2,)]


def test_claims_under_numbers_are_no_list_of_sources() -> None:
    answer = "There are two:\n\n1. It is old [2].\n2. It was opened [3]."
    assert cited(asked(NUMBERED_FILES, answer)) == [(1,), (2,)]


@pytest.mark.parametrize(
    "line",
    [
        "Sources: {0} [1], {1} [2]",
        "Sources: {0} [1]; {1} [2].",
        "Sources: {0} [1] {1} [2]",
        "Sources:\n- {0} [1], {1} [2]",
        "Sources: [1] {0}, [2] {1}",
        "Sources:\n[1] {0}; [2] {1}",
    ],
)
@pytest.mark.parametrize("files", [("f1.txt", "f2.txt"), ("f3.txt", "f1.txt")])
def test_a_number_belongs_to_the_name_on_its_own_side_of_the_comma(
    line: str, files: tuple[str, str]
) -> None:
    answer = f"{SAID} It is old [2].\n\n{line.format(*files)}"
    indexes = [(FILES.index(file),) for file in files]
    assert cited(asked(NUMBERED_FILES, answer)) == indexes


@pytest.mark.parametrize(
    "entries",
    [
        "[1] f2.txt\n[1] f3.txt",
        f'[1] "{TEXTS[2]}" (f2.md)',
    ],
)
def test_an_entry_that_contradicts_another_makes_its_number_unknown(
    entries: str,
) -> None:
    sample = asked(NUMBERED_FILES, f"{SAID}\n\nReferences:\n{entries}")
    assert sample.citations is None


def test_a_new_number_for_a_file_of_several_passages_is_unknown() -> None:
    files = ("a.pdf", "b.pdf", "b.pdf")
    sample = asked(NUMBERED_FILES, f"{SAID}\n\nReferences:\n[1] b.pdf", files)
    assert sample.citations is None


def test_a_file_may_be_the_name_of_a_passage_shown_by_its_title() -> None:
    answer = f"{SAID}\n\nReferences:\n[1] f9.txt"
    assert cited(asked(NUMBERED_TITLES, answer)) == [(0,)]


ADDRESSES = "[{n}] {title} (https://in.test/docs/{n})\n{text}"


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("https://in.test/docs/1", 0),
        ("in.test/docs/1", 0),
        ("Rivers and hills, in.test/docs/1", 0),
        ("The rivers of the north", 0),
        ("in.test/docs/3", 2),
        ("Opening day (https://in.test/docs/3)", 2),
        ("https://z.test/prices", None),
        ("z.test/prices", None),
        ("Price list 2024", None),
        ("Rivers and hills (https://in.test/docs/3)", None),
    ],
)
def test_an_entry_with_another_address_or_title_does_not_keep_the_prompts_meaning(
    text: str, index: int | None
) -> None:
    sample = asked(ADDRESSES, f"{SAID}\n\nReferences:\n[1] {text}")
    if index is None:
        assert sample.citations is None
    else:
        assert cited(sample) == [(index,)]


PAGES = "[{n}]\nTitle: {title}\nPage: 1{n}\n{text}"


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("page", [1, 10, 11, 12, 13, 111])
@pytest.mark.parametrize("form", ["references", "one line", "number last"])
def test_an_entry_with_another_page_makes_its_number_unknown(
    form: str, page: int, number: int
) -> None:
    entry = FORMS[form](number, f"{TITLES[number - 1]}, p. {page}")
    sample = asked(PAGES, f"It is so [{number}].\n\n{entry}")
    if page == 10 + number:
        assert cited(sample) == [(number - 1,)]
    else:
        assert sample.citations is None


def test_long_lines_of_a_list_are_read_before_the_timeout() -> None:
    """A pattern that tries every pair of signs would not end within it."""
    blanks = " " * 200_000
    lines = [f"a.pdf [1]{blanks}x", f"a{blanks}x [1]", "a [1]" + "." * 100_000 + "x"]
    lines += [":" * 100_000 + "x", "a [" * 50_000]
    for line in lines:
        sample = asked(NUMBERED_FILES, f"{SAID}\n\nReferences:\n{line}\n[1] f2.txt")
        assert sample.answer is not None
        assert line in sample.answer
