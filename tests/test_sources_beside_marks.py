"""Answers with marks that also name sources in words, or list others than they cite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_numbers_beside_names import FILES, TITLES, prompt_of
from test_tree_rules import Clock, model, retriever, tree
from test_two_numberings import TEXTS, sample_of

from ragmetrics_core.capture import Answer, Document, samples_of

PROMPT = prompt_of("[{n}] {name}\n{text}", FILES)
IN_WORDS = (
    "According to {}, it fell.",
    "According to `{}`, it fell.",
    "Per {} it fell.",
    "Laut {} fiel sie.",
    "{} says that it fell.",
    "It fell ({}, page 3).",
    "It fell (Source: {}).",
    "It fell. — {}",
)
LISTS = ("Sources:\n- {}", "SOURCES: {}", "**References**\n\n* {}", "Sources: *{}*")


@given(
    said=st.sampled_from(IN_WORDS),
    index=st.integers(0, 2),
    number=st.integers(1, 3),
    has_ending=st.booleans(),
)
def test_a_source_that_is_cited_in_words_alone_is_never_known_as_not_cited(
    said: str, index: int, number: int, has_ending: bool
) -> None:
    name = FILES[index] if has_ending else FILES[index].removesuffix(".txt")
    sample = sample_of(PROMPT, f"It is old [{number}]. {said.format(name)}")
    if sample.citations is not None:
        assert {i for c in sample.citations for i in c.contexts} >= {index}
    elif index == number - 1:  # its mark cites it already
        assert "form" in sample.citations_unknown or "(" in said


@pytest.mark.parametrize(
    "answer",
    [
        "根据{}，它倒塌了[{}]。",
        "根据《{}》，它倒塌了[{}]。",
        "它很老。参见{} [{}]。",
        "{}によると、倒れた[{}]。",
        "{}에 따르면 무너졌다 [{}].",
    ],
)
@pytest.mark.parametrize("name", ["员工手册.pdf", "员工手册"])
def test_a_source_is_cited_in_words_that_no_spaces_divide(
    answer: str, name: str
) -> None:
    files = ("员工手册.pdf", "差旅规定.pdf", "远程办公制度.pdf")
    prompt = prompt_of("[{n}] {name}\n{text}", files)
    assert sample_of(prompt, answer.format(name, 2)).citations is None
    own = sample_of(prompt, answer.format(name, 1))
    assert own.citations is not None, own.citations_unknown
    assert [c.contexts for c in own.citations] == [(0,)]


@pytest.mark.parametrize(
    "words",
    [
        "f2.txt says nothing about it.",
        "See f2.txt for more.",
        "Open f2.txt to read on.",
        "Unlike f2.txt, it tells the date.",
        "I also read f2.txt and f3.txt.",
        "Further reading:\n- f2.txt",
        "Not used: f2.txt",
    ],
)
def test_a_file_that_an_answer_only_speaks_of_leaves_its_marks_known(
    words: str,
) -> None:
    sample = sample_of(PROMPT, f"It is old [1].\n\n{words}")
    assert sample.citations is not None, sample.citations_unknown
    assert [c.contexts for c in sample.citations] == [(0,)]


def test_a_title_that_a_text_has_is_what_the_answer_speaks_of() -> None:
    words_of_a_text = " ".join(TEXTS[1].split()[:2])
    for title, is_known in ((words_of_a_text, True), ("Opening day", False)):
        prompt = prompt_of("[{n}] {name}\n{text}", ("Rivers", title, "Bones"))
        sample = sample_of(prompt, f"It is old [1]. {title} shows it.")
        assert (sample.citations is not None) is is_known


@given(
    form=st.sampled_from(LISTS),
    names=st.sampled_from([FILES, TITLES]),
    listed=st.sets(st.integers(0, 2), min_size=1),
    numbers=st.sets(st.integers(1, 3), min_size=1),
)
def test_a_list_of_other_sources_makes_the_marks_unknown(
    form: str, names: tuple[str, ...], listed: set[int], numbers: set[int]
) -> None:
    """Unknown where a source is listed and not cited, and another cited and not listed."""
    answer = " ".join(f"It is so{number}x [{number}]." for number in sorted(numbers))
    joined = ", ".join(names[index] for index in sorted(listed))
    prompt = prompt_of("[{n}] {name}\n{text}", names)
    sample = sample_of(prompt, f"{answer}\n\n{form.format(joined)}")
    cited = {number - 1 for number in numbers}
    if listed - cited and cited - listed:
        assert sample.citations is None
        assert "names others" in sample.citations_unknown
    else:
        assert sample.citations is not None, sample.citations_unknown
        assert [c.contexts for c in sample.citations] == [(i,) for i in sorted(cited)]


@pytest.mark.parametrize(
    "answer", ['The sign says "issue [2]" [1].', "See issue [2].", "Issue.[2] It fell."]
)
def test_a_mark_that_a_context_itself_has_may_be_repeated_from_it(answer: str) -> None:
    texts = (TEXTS[0], f"{TEXTS[1]} See issue [2] of the paper.", TEXTS[2])
    clock = Clock()
    shown = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(texts, start=1))
    (sample,) = samples_of(
        tree(
            clock,
            retriever(clock, *(Document(text=text) for text in texts)),
            model(clock, shown, answer),
            answers=(Answer(answer),),
        )
    )
    assert sample.citations is None
    assert "repeat" in sample.citations_unknown
    other_word = sample_of(PROMPT, answer.replace("ssue", "tem"))
    assert other_word.citations is not None


def test_a_number_0_that_labels_nothing_leaves_open_how_the_answer_counts() -> None:
    sample = sample_of(PROMPT, "It is rows[0], and old [1].")
    assert sample.citations is None
    assert "counts from 1" in sample.citations_unknown
