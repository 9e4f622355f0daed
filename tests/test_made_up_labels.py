"""Labels that nobody was shown, in a form that the answer's other marks have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    "a file and a place": ("[f{0}.md#basics] ", "[f1.md#basics]", "[g.md#years]"),
    "a time": ("[00:4{0}] ", "[00:41]", "[09:59]"),
    # SciPhi-AI/R2R: the first seven characters of an id
    "a short id": ("[c910e2{0}] ", "[c910e21]", "[9ab03fe]"),
    # all its signs are hexadecimal digits, too
    "a word and its number": ("[ace10{0}] ", "[ace101]", "[ace99]"),
    "an id": (
        "[0b1f6c1e-8a53-4f7e-9d0a-5a7d1e2c3b4{0}] ",
        "[0b1f6c1e-8a53-4f7e-9d0a-5a7d1e2c3b41]",
        "[deadbeef-0000-4000-8000-000000000001]",
    ),
    # allenai/ai2-scholarqa-lib
    "id, authors and year": (
        "[214002{0} | Berg et al. | 2021] ",
        "[2140021 | Berg et al. | 2021]",
        "[3001234 | Quinn | 2024]",
    ),
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


# labels of three passages, and one that nobody was shown
IDS = {
    "slugs": (("heat-basics", "cost-guide", "law"), "lifetime-study"),
    "paths": (("docs/heat/basics", "docs/cost", "docs/law"), "docs/life/span"),
    "keys": (("berg2021", "chen2023", "okafor2022"), "quinn2024"),
    "names with _": (("heat_basics", "cost_guide", "law"), "lifetime_study"),
    "mixed signs": (("x7Kp2", "Qq93z", "m0Tr4"), "Za81b"),
    "hours": (("00:15", "00:40", "01:10"), "0:40"),
}


def named(labels: tuple[str, ...], answer: str) -> Sample:
    passages = [f"[{label}] {text}" for label, text in zip(labels, TEXTS, strict=True)]
    prompt = "\n".join(["Cite your sources.", *passages, "Where is Porto?"])
    return sample_of(prompt, answer)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("behind", [" [{}].", " [{}]", " [{}], they say.", ".[{}]"])
def test_an_id_that_nobody_was_shown_leaves_an_answer_unknown(
    name: str, behind: str
) -> None:
    labels, made_up = IDS[name]
    known = f"Porto lies in the north [{labels[0]}]."
    assert named(labels, known).citations is not None
    sample = named(labels, f"{known} It is new{behind.format(made_up)}")
    assert sample.citations is None
    assert "form that is not read" in sample.citations_unknown


REMARKS = (
    "[sic]",
    "[...]",
    "[optional]",
    "[ ]",
    "[x]",
    "[TODO]",
    "[0, 1]",
    "[e.g.]",
    "[U.S.]",
    "[CO2]",
    "[emphasis mine]",
    "[terms-of-use](https://porto.test)",
    "[terms-of-use]: it says so",
    "`[user-id]`",
    "`row[cost-2024]`",
    "[re-elected] mayor and all",
)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("remark", REMARKS)
def test_a_remark_in_brackets_leaves_marks_of_ids_known(name: str, remark: str) -> None:
    labels, _ = IDS[name]
    answer = f"Porto lies in the north [{labels[0]}]. It is new {remark}."
    sample = named(labels, answer)
    assert sample.citations is not None, sample.citations_unknown
    assert [one.contexts for one in sample.citations] == [(0,)]


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (("c910e21", "c910e22", "c910e23"), "1a2b3c4"),
        (("00:41", "00:42", "00:43"), "09:59"),
    ],
)
def test_a_label_that_stands_elsewhere_in_the_prompt_does_not_dangle(
    labels: tuple[str, ...], shown: str
) -> None:
    passages = [f"[{label}] {text}" for label, text in zip(labels, TEXTS, strict=True)]
    prompt = "\n".join([f"Begin at {shown}.", *passages, "Where is Porto?"])
    answer = f"Porto lies in the north [{labels[0]}]. It is new [{shown}]."
    sample = sample_of(prompt, answer)
    assert sample.citations is None
    assert sample.citations_unknown


HEX = st.text("0123456789abcdef", min_size=7, max_size=7).filter(
    lambda text: not text.isalpha() and not text.isdigit()
)


@given(ids=st.lists(HEX, min_size=4, max_size=4, unique=True))
def test_a_made_up_id_is_never_silently_no_citation(ids: list[str]) -> None:
    *labels, made_up = ids
    answer = f"Porto lies in the north [{labels[0]}]. It is new [{made_up}]."
    sample = named(tuple(labels), answer)
    if sample.citations is not None:
        assert [one.contexts for one in sample.citations] == [(0,), ()]
        assert sample.citations[1].dangling == (made_up,)


@pytest.mark.parametrize("digits", ["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"])
def test_digits_of_any_script_number_a_source(digits: str) -> None:
    passages = [f"[المصدر {n}] {text}" for n, text in enumerate(TEXTS, start=1)]
    prompt = "\n".join(["Cite your sources.", *passages, "Where is Porto?"])
    marks = [f"[المصدر {digits[number]}]" for number in (2, 9)]
    sample = sample_of(prompt, f"Faro is there {marks[0]}. It is new {marks[1]}.")
    assert sample.citations is not None, sample.citations_unknown
    assert [one.contexts for one in sample.citations] == [(1,), ()]
    assert sample.citations[1].dangling == ("المصدر 9",)
