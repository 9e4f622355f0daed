"""Which lines of an answer say what its numbers mean, and which only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_numbers_beside_names import prompt_of
from test_tree_rules import PORTO
from test_two_numberings import sample_of

from ragmetrics_core.capture.answer_lists import with_plain_lists

FILES = ("f1.txt", "f2.txt", "f3.txt")
TITLES = ("Rivers and hills", "The Bridge Book", "Opening day")
WITH_NAMES = "[{n}] {name}\n{text}"
NUMBERS_ALONE = "[{n}] {text}"


@pytest.mark.parametrize(
    ("label", "names", "listed"),
    [
        (WITH_NAMES, FILES, "Steps:\n1. Open it.\n2. Close it."),
        # the list names what is cited, and more
        (WITH_NAMES, FILES, "Sources: f1.txt, f2.txt"),
        (WITH_NAMES, FILES, "Further reading:\n1. f2.txt"),
        (WITH_NAMES, FILES, "Sources:\n[1] f1.txt (see also f2.txt)"),
        # nobody was shown a name for the number, so any may be its own
        (NUMBERS_ALONE, FILES, "Sources:\n[1] z.txt"),
        (NUMBERS_ALONE, FILES, "Sources:\n[1] Bus prices"),
        (WITH_NAMES, FILES, "Sources:\n[1] Bus prices"),
        # other words than the title, all of the passage itself
        (WITH_NAMES, TITLES, f"Sources:\n[1] {' '.join(PORTO.split()[:3])}"),
        # a shorter form of the title, and words that it shares
        (WITH_NAMES, TITLES, "Sources:\n[1] Rivers"),
        (WITH_NAMES, TITLES, "Sources:\n[1] About rivers of the north"),
    ],
)
def test_a_list_that_says_nothing_else_leaves_the_number_its_passage(
    label: str, names: tuple[str, str, str], listed: str
) -> None:
    sample = sample_of(prompt_of(label, names), f"It is so [1].\n\n{listed}")
    assert [one.contexts for one in sample.citations or ()] == [(0,)]


@given(
    listed=st.lists(st.sampled_from(FILES), min_size=1, max_size=3),
    form=st.sampled_from(["[1] {}", "- [1]: {}", "[1] docs/{}", "| [1] | {} |"]),
)
def test_entries_of_one_number_agree_or_it_is_unknown(
    listed: list[str], form: str
) -> None:
    """Whatever the prompt shows under the number, and in any order of the entries."""
    entries = "\n".join(form.format(file) for file in listed)
    sample = sample_of(
        prompt_of(WITH_NAMES, FILES), f"It is so [1].\n\nSources:\n{entries}"
    )
    if len(set(listed)) > 1:
        assert sample.citations is None
        return
    found = [one.contexts for one in sample.citations or ()]
    assert found in ([(FILES.index(listed[0]),)], [])


def test_a_list_inside_of_an_item_has_numbers_of_its_own() -> None:
    plain = with_plain_lists("<ol><li>a<ol><li>x<li>y</ol><li>b</ol>")
    assert plain.split() == ["1.", "a", "1.", "x", "2.", "y", "2.", "b"]


def test_a_list_of_many_items_keeps_its_length() -> None:
    answer = "<ol>" + "<li>a" * 120 + "</ol>"
    assert len(with_plain_lists(answer)) == len(answer)


@given(st.text(alphabet="<>/olibr 1.a\n[]", max_size=60))
def test_without_tags_each_character_keeps_its_place(answer: str) -> None:
    plain = with_plain_lists(answer)
    assert len(plain) == len(answer)
