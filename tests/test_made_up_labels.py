"""Labels that nobody was shown, in a form that the answer's other marks have."""

from __future__ import annotations

import pytest
from test_labels_of_applications import TEXTS, sample_of

from ragmetrics_core import Sample

# a label with its number, a mark of the first passage, and a mark of none
FORMS = {
    "in brackets": ("[{0}] ", "[1]", "[9]"),
    "a word of any language": ("[Kaynak {0}] ", "[Kaynak 1]", "[Kaynak 9]"),
    "a word before a colon": ("Nguồn {0}: ", "[Nguồn 1]", "[Nguồn 9]"),
    "two words": ("[Page no. {0}] ", "[Page no. 1]", "[Page no. 9]"),
    "a number and a name": ("[{0}: Title {0}] ", "[1: Title 1]", "[9: Bridges]"),
    "a title with its number": ("[Title {0}] ", "[Title 1]", "[Title 9]"),
    "a file and a page": ("[f{0}.pdf#page={0}] ", "[f1.pdf#page=1]", "[g.pdf#page=9]"),
    "a file": ("[f{0}.pdf] ", "[f1.pdf]", "[f9.pdf]"),
}


def answered(name: str, answer: str) -> Sample:
    label, _, _ = FORMS[name]
    passages = [label.format(number) + text for number, text in enumerate(TEXTS, 1)]
    prompt = "\n".join(["Cite your sources.", *passages, "Where is Porto?"])
    return sample_of(prompt, answer)


@pytest.mark.parametrize("name", FORMS)
def test_a_label_that_nobody_was_shown_dangles_beside_one_that_is_read(
    name: str,
) -> None:
    _, mark, made_up = FORMS[name]
    sample = answered(name, f"Porto lies in the north {mark}{made_up}.")
    assert sample.citations is not None, sample.citations_unknown
    assert [one.contexts for one in sample.citations] == [(0,), ()]
    assert [one.dangling for one in sample.citations] == [(), (made_up.strip("[]"),)]


@pytest.mark.parametrize("name", FORMS)
def test_a_label_that_nobody_was_shown_dangles_in_a_sentence_of_its_own(
    name: str,
) -> None:
    _, mark, made_up = FORMS[name]
    sample = answered(name, f"Porto lies in the north {mark}. It is new {made_up}.")
    assert sample.citations is not None, sample.citations_unknown
    assert [bool(one.dangling) for one in sample.citations] == [False, True]


def test_another_page_of_a_file_that_was_shown_is_unknown() -> None:
    answer = "Porto lies in the north [f1.pdf#page=9]."
    assert answered("a file and a page", answer).citations is None


TITLES = ("Manual", "Warranty terms", "Travel guide")


@pytest.mark.parametrize(
    ("behind", "is_known"),
    [
        ("[Colour Guide].", False),
        ("[Colour Guide, p. 3].", False),
        ("[Travel guide].", True),
        ("[Colour Guide](https://lamp.org).", True),
        ("[sic].", True),
        ("(Colour Guide).", True),
        ("[[Colour Guide]].", False),
        ("[name withheld] [Colour Guide].", False),
        ("[Colour\nGuide].", True),
        ("[Colour [old] Guide].", True),
        ("[Colour Guide]: it says so.", True),
        ("[Colour Guide][colours].", True),
        ("[AB].", True),
        ("[Red].", False),
        (f"[{'G' * 81}].", False),
        (f"[{'G' * 82}].", True),
    ],
)
def test_a_title_in_brackets_that_nobody_was_shown_leaves_an_answer_unknown(
    behind: str, *, is_known: bool
) -> None:
    """Beside a mark by title it may cite a source, or be a remark in brackets."""
    passages = [
        f"Title: {title}\n{text}" for title, text in zip(TITLES, TEXTS, strict=False)
    ]
    prompt = "\n\n".join(["Cite the title in brackets.", *passages, "Where is Porto?"])
    sample = sample_of(prompt, f"Porto lies in the north [Manual]. It is new {behind}")
    assert (sample.citations is not None) == is_known, sample.citations_unknown


@pytest.mark.parametrize(
    ("marks", "is_known"), [("[1]", True), ("[Manual]", False), ("[1][Manual]", False)]
)
def test_a_title_in_brackets_is_a_remark_where_no_mark_cites_by_title(
    marks: str, *, is_known: bool
) -> None:
    passages = [
        f"[{number}] Title: {title}\n{text}"
        for number, (title, text) in enumerate(zip(TITLES, TEXTS, strict=False), 1)
    ]
    prompt = "\n\n".join(["Cite the passages.", *passages, "Where is Porto?"])
    answer = f"Porto lies in the north {marks}. It is new [Name withheld]."
    sample = sample_of(prompt, answer)
    assert (sample.citations is not None) == is_known, sample.citations_unknown
