"""Marks that name a page beside the source: ``[1, p. 3]``, ``[a.pdf#page=3]``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_closing_sources import prompt_of
from test_tree_rules import Clock, model, retriever, tree
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core import Sample
from ragmetrics_core.capture import Answer, Document, samples_of
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import cited_statements, may_name_more

PAGES = (", p. {}", ", page {}", " p. {}", ", page: {}", "#page={}", ", S. {}")
LABELS = (
    "[{n}] f{n}.txt, page {n}0\n{text}",
    "[{n}] f{n}.txt (p. {n}0)\n{text}",
    "[{n}] f{n}.txt | Page: {n}0\n{text}",
)
NAMES = ("{}", "Source {}", "f{}.txt", "source: f{}.txt")


def sample_of_pages(
    answer: str, n_first_page: int, label: str = "f{n}.txt: {text}"
) -> Sample:
    """The sample of an answer whose prompt shows files; their metadata tell the pages."""
    clock = Clock()
    found = [
        Document(
            text=text,
            metadata={"source": f"f{n}.txt", "page": n * 10 - 1 + n_first_page},
        )
        for n, text in enumerate(TEXTS, start=1)
    ]
    made = tree(
        clock,
        retriever(clock, *found),
        model(clock, prompt_of(label), answer),
        answers=(Answer(answer),),
    )
    (sample,) = samples_of(made)
    return sample


@given(
    label=st.sampled_from(LABELS),
    name=st.sampled_from(NAMES),
    page=st.sampled_from(PAGES),
    number=st.integers(1, 3),
    page_named=st.sampled_from([8, 10, 11, 20, 29, 30]),
)
def test_a_mark_names_a_source_of_its_page_or_its_meaning_is_unknown(
    label: str, name: str, page: str, number: int, page_named: int
) -> None:
    mark = f"[{name.format(number)}{page.format(page_named)}]"
    sample = sample_of(prompt_of(label), f"Faro is old {mark}.")
    if page_named == number * 10:
        assert cited(sample) == [(number - 1,)]
    else:
        assert sample.citations is None
        assert f"page {page_named}" in sample.citations_unknown


@given(
    page=st.sampled_from(PAGES),
    number=st.integers(1, 3),
    n_first_page=st.integers(0, 1),
    n_beside=st.integers(-3, 3),
)
def test_metadata_may_count_pages_from_0(
    page: str, number: int, n_first_page: int, n_beside: int
) -> None:
    """A file of page 10 by its metadata may be of page 11, where a loader counts from 0."""
    page_named = number * 10 + n_beside
    mark = f"[f{number}.txt{page.format(page_named)}]"
    sample = sample_of_pages(f"Faro is old {mark}.", n_first_page)
    page_in_metadata = number * 10 - 1 + n_first_page
    if page_named in (page_in_metadata, page_in_metadata + 1):
        assert cited(sample) == [(number - 1,)]
    else:
        assert sample.citations is None


def test_the_page_in_the_prompt_decides_before_the_metadata() -> None:
    """A loader counts from 0, and the application shows the page after."""
    label = "[{n}] f{n}.txt, page {n}0\n{text}"
    assert cited(sample_of_pages("Faro is old [1, p. 10].", 0, label)) == [(0,)]
    assert sample_of_pages("Faro is old [1, p. 9].", 0, label).citations is None


def test_a_label_that_holds_the_page_decides_before_the_metadata() -> None:
    """Where metadata count chapters as pages, say."""
    label = "[f{n}.txt, p. {n}0]\n{text}"
    assert cited(sample_of_pages("Faro is old [f1.txt, p. 10].", 5, label)) == [(0,)]


def test_a_page_of_a_file_that_nobody_was_shown_dangles() -> None:
    sample = sample_of_pages(
        "Faro is old [f1.txt#page=10]. It is new [g.pdf#page=3].", 1
    )
    assert sample.citations is not None
    assert [c.contexts for c in sample.citations] == [(0,), ()]
    assert [c.dangling for c in sample.citations] == [(), ("g.pdf",)]


AUTHORS = "[{n}]\nTitle: Town book {n}\nAuthors: <{n}>\nPage: {n}0\n{text}"


@given(
    title=st.integers(1, 3),
    author=st.integers(1, 3),
    page=st.sampled_from([3, 10, 20, 30, 100]),
)
def test_title_author_and_page_of_a_mark_are_of_one_source_or_it_is_unknown(
    title: int, author: int, page: int
) -> None:
    names = ("Meyer", "Okafor", "Chen")
    prompt = prompt_of(AUTHORS)
    for number, name in enumerate(names, start=1):
        prompt = prompt.replace(f"<{number}>", name)
    mark = f"[Town book {title}, {names[author - 1]}, p. {page}]"
    sample = sample_of(prompt, f"Faro is old {mark}.")
    if title == author and page == title * 10:
        assert cited(sample) == [(title - 1,)]
    else:
        assert sample.citations is None


def test_a_source_without_pages_keeps_its_number() -> None:
    prompt = prompt_of("[{n}] f{n}.txt\n{text}")
    assert cited(sample_of(prompt, "Faro is old [2, p. 8].")) == [(1,)]


def test_a_page_behind_several_names_may_be_that_of_any() -> None:
    """Page 99 is none of source 1, and may be one of source 9, which nobody was shown."""
    label = "[{n}] f{n}.txt, page {n}0\n{text}"
    sample = sample_of_pages("Faro is old [1, 9, p. 99].", 1, label)
    assert sample.citations is not None, sample.citations_unknown
    assert [(c.contexts, c.dangling) for c in sample.citations] == [((0,), ("9",))]


def test_a_page_behind_two_names_of_one_source_is_a_page_of_it() -> None:
    label = "[{n}] f{n}.txt, page {n}0\n{text}"
    assert cited(sample_of_pages("Faro is old [1, f1.txt, p. 10].", 1, label)) == [(0,)]
    other = sample_of_pages("Faro is old [1, f1.txt, p. 99].", 1, label)
    assert "page 99" in other.citations_unknown


@given(
    label=st.sampled_from(LABELS),
    name=st.sampled_from(NAMES),
    page=st.sampled_from(PAGES),
    order=st.permutations((1, 2, 3)),
)
def test_a_page_that_nobody_was_shown_leaves_only_its_own_mark_open(
    label: str, name: str, page: str, order: list[int]
) -> None:
    first, second, third = order
    invented = f"[{name.format(second)}{page.format(99)}]"
    answer = f"Porto is old [{first}, p. {first}0]. Faro fell {invented}. So [{third}]."
    sample = sample_of(prompt_of(label), answer)
    assert cited(sample) == [(first - 1,), (), (third - 1,)]
    statements = cited_statements(answer, sample.citations or ())
    assert [one.may_cite for one in statements] == [False, True, False]
    assert may_name_more(answer, sample.citations or ())


@pytest.mark.parametrize(
    "answer",
    [
        "Faro fell [2, p. 99].",
        "Faro fell [2, p. 99]. It is old [1, p. 98].",
        # beside it the sentence has a citation, which may not be all that it needs
        "Faro fell [1][2, p. 99]. It is old [3].",
    ],
)
def test_where_a_page_leaves_more_open_all_is_unknown(answer: str) -> None:
    sample = sample_of(prompt_of(LABELS[0]), answer)
    assert sample.citations is None
    assert "page 9" in sample.citations_unknown


def test_a_page_that_alone_tells_the_source_is_doubtful_beside_a_wrong_one() -> None:
    """The answer may count pages in another way: then page 20 is another one, too."""
    clock = Clock()
    found = [
        Document(text=text, metadata={"source": "f.txt", "page": n * 10})
        for n, text in enumerate(TEXTS, start=1)
    ]
    for wrong, expected in ((30, [(1,), (2,)]), (99, None)):
        answer = f"It is old [f.txt, p. 20]. It fell [f.txt, p. {wrong}]."
        made = tree(
            clock,
            retriever(clock, *found),
            model(clock, prompt_of("[f.txt]\n{text}"), answer),
            answers=(Answer(answer),),
        )
        (sample,) = samples_of(made)
        assert (None if sample.citations is None else cited(sample)) == expected


def test_an_open_mark_beside_a_known_one_may_name_more() -> None:
    answer = "It is old [1][2]."
    known = Citation(start=0, end=17, contexts=(0,), mark=(10, 13))
    unclear = Citation(start=0, end=17, mark=(13, 16))
    assert (known.is_open, unclear.is_open) == (False, True)
    assert not may_name_more(answer, [known])
    assert may_name_more(answer, [known, unclear])
    (statement,) = cited_statements(answer, [known, unclear])
    assert (statement.contexts, statement.may_cite) == ((0,), False)
