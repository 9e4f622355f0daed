"""Where words and numbers of a text begin and end, and texts that stand in longer words."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core.capture.locating import locate
from ragmetrics_core.data.word_borders import divides_word, holds_as_words

# beside each place the two parts that meet there: is it inside of a word or number?
MEETINGS = {
    ("four", "teen crowns"): True,
    ("four", " teen crowns"): False,
    ("is 12", "5 crowns"): True,
    ("is 12", ".50"): True,
    ("is 12.", "50"): True,
    ("is 12", ",50"): True,
    ("is 12", ",500"): True,
    ("is 12", ",50. It fell"): True,
    ("is 12", ",500.75"): True,
    ("at 12", ":30"): True,
    ("in 1874", ".\n2. It fell"): False,
    ("in 1874", ". It fell"): False,
    ("in 1874", ",0.83"): False,  # the next cell of a table
    ("in 1874", ":2 lamps"): False,
    ("1", "2024 saw"): True,
    ("2", "The ferry"): False,  # the number of a list, directly before the text
    ("is 12", "km"): False,  # a number and a word
    ("northern end", "Begin"): False,  # texts that are joined without a blank
    ("END", "OF TEXT"): True,
    ("end.", "begin"): False,
    ("Kontext:", "text"): False,
    ("Straß", "e"): True,
    ("Брю", "гге"): True,
    ("lamp", "лампа"): False,  # two scripts
    ("桥于1874年", "开放"): False,
    ("はし", "がある"): False,
    ("สะพาน", "เปิด"): False,
    ("cafe", "\u0301 and bar"): False,  # an accent, written behind its letter
    ("caf", "e\u0301s"): True,
    ("", "text"): False,
    ("text", ""): False,
}


@pytest.mark.parametrize(("left", "right"), MEETINGS)
def test_a_place_divides_a_word_or_number(left: str, right: str) -> None:
    assert divides_word(left + right, len(left)) == MEETINGS[left, right]


def test_a_text_stands_in_another_one_where_it_divides_no_word() -> None:
    assert holds_as_words("It is 125. It is 12.", "is 12")
    assert not holds_as_words("It is 125. It is 12.50.", "is 12")
    assert not holds_as_words("12024 saw it.", "2024 saw")
    assert not holds_as_words("It is 125.", "fell")


def test_a_piece_of_a_longer_text_may_be_cut_within_a_word_but_no_number() -> None:
    page = "It rises in the hills and falls into a lake, 1250 steps from the town."
    assert holds_as_words(page, "It rises in the hi")
    assert holds_as_words(page, "lls and falls into a la")
    assert not holds_as_words(page, "falls into a lake, 125")
    assert not holds_as_words(page, "50 steps from the town.")
    assert not holds_as_words(page, "steps from the tow")


FARE = "The fare from the harbour on line four for adults of the town is"
# the text, what stands before it and behind it in the prompt, and what is shown of it
STANDS: dict[str, tuple[str, str, str, str]] = {
    "a longer number": (f"{FARE} 12", "", "5", f"{FARE} …"),
    "a longer number, full stop": (f"{FARE} 12.", "", "5.", f"{FARE} …"),
    "a decimal number": (f"{FARE} 12", "", ".50", f"{FARE} …"),
    "a longer word": (f"{FARE} four", "", "teen crowns", f"{FARE} …"),
    "a longer word of a few letters": (f"{FARE} red" * 3, "", "dish", "…"),
    "a longer first number": (f"2024 {FARE} set.", "1", "", f"… {FARE} set."),
    "a longer first word": (f"teen {FARE} set.", "four", "", f"… {FARE} set."),
    "the next sentence": (f"{FARE} 12", "", ". 5 crowns", f"{FARE} 12"),
    "a label": (f"{FARE} 12", "Context:", " Answer:", f"{FARE} 12"),
    "the number of a list": (f"{FARE} 12", "7", "", f"{FARE} 12"),
    "a tag": (f"{FARE} four", "<b>", "</b>teen", f"{FARE} four"),
    "a word with a capital": (f"{FARE} four", "context", "Answer", f"{FARE} four"),
}


@pytest.mark.parametrize("name", STANDS)
@pytest.mark.parametrize("write", [str, json.dumps])
def test_a_text_with_a_longer_word_at_its_edge_is_not_shown_whole(
    name: str, write: Callable[[str], str]
) -> None:
    text, before, behind, expected = STANDS[name]
    finding = locate([text], write(f"Read this:\n{before}{text.rstrip('.')}{behind}"))
    shown = finding.findings[0].text
    assert shown.rstrip(".").endswith(expected.rstrip("."))
    is_whole = finding.findings[0].extent == "whole"
    assert is_whole == ("…" not in expected)


def test_a_text_of_few_letters_with_a_longer_word_at_its_edge_is_unknown() -> None:
    """Without its last word it has fewer than 32 letters, which may stand anywhere."""
    text = "The fare is for Rindfleischetikettierung"
    found = locate([text], f"Read this: {text}sgesetz.")
    assert found.findings[0].outcome == "unknown"
    assert "longer word" in found.findings[0].reason


def test_the_place_of_a_text_at_the_borders_of_words_counts() -> None:
    text = f"{FARE} 12"
    found = locate([text], f"{text}5 today.\n\nIn winter:\n{text}.")
    assert found.findings[0].extent == "whole"


def test_a_text_may_go_on_as_another_one_that_is_shown() -> None:
    """A splitter by characters cuts words; joined again, both pieces are whole."""
    page = f"{FARE} fourteen crowns, and the ferry leaves from the old quay at noon."
    pieces = [page[: len(FARE) + 5], page[len(FARE) + 5 :]]
    assert [one.extent for one in locate(pieces, page).findings] == ["whole"] * 2
    overlapping = [page[: len(FARE) + 5], page[len(FARE) - 10 :]]
    found = locate(overlapping, page).findings
    assert {one.extent for one in found} == {"whole"}


def test_a_cut_inside_of_a_word_is_a_cut() -> None:
    page = f"{FARE} fourteen crowns, and the ferry leaves from the old quay at noon."
    finding = locate([page], page[: len(FARE) + 5]).findings[0]
    assert (finding.outcome, finding.extent) == ("shown", "beginning")


WORDS = st.sampled_from(
    ["ferry", "harbour", "12", "2024", "Ünal", "мост", "crowns", "quay", "7"]
)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(WORDS, min_size=12, max_size=40), st.data())
def test_law_a_text_that_ends_inside_of_a_word_of_the_prompt_is_not_found_whole(
    words: list[str], data: st.DataObject
) -> None:
    text = " ".join(words)
    goes_on = data.draw(st.sampled_from(["5", "00", ".5"]))
    if not words[-1].isdigit():
        goes_on = data.draw(st.sampled_from("мн" if words[-1] == "мост" else "sx"))
    longer = f"Read this. {text}{goes_on} - and more"
    prompt = data.draw(st.sampled_from([str, json.dumps, repr]))(longer)
    assert locate([text], prompt).findings[0].extent != "whole"
    with_border = longer.replace(f"{text}{goes_on}", f"{text} {goes_on}")
    assert locate([text], with_border).findings[0].extent == "whole"
    # the other text is shown, and takes the words
    found = locate([text, f"{text}{goes_on}"], longer)
    assert found.findings[0].outcome != "shown"
    assert found.findings[1].extent == "whole"
