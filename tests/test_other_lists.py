"""Prompts with another list beside the contexts: of uploads, of names, of rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS
from test_two_numberings import sample_of

from ragmetrics_core import Sample

SAID = "It was opened in 1874 "
UPLOADS = "Uploaded:\nDocument 1: c.pdf\nDocument 2: b.pdf\nDocument 3: a.pdf"
NAMES = "Cite with these numbers:\n[1] c.pdf\n[2] b.pdf\n[3] a.pdf"
SAME_NAMES = "Cite with these numbers:\n[1] a.pdf\n[2] b.pdf\n[3] c.pdf"
RULES = "[1] Be short.\n[2] Cite sources by number."
EXAMPLE = "Source 1:\nThe sky is red.\nSource 2:\nWater is wet.\nSay: it is wet [2]."


def asked(label: str, mark: str, before: str = "", behind: str = "") -> Sample:
    """A sample of a chain whose prompt has lists before and behind the contexts."""
    documents = [Document(text) for text in TEXTS]
    shown = "\n\n".join(
        label.format(n=number, file=f"{letter}.pdf", text=text)
        for number, (letter, text) in enumerate(zip("abc", TEXTS, strict=True), start=1)
    )
    template = f"{before}\n\n{{context}}\n\n{behind}\n\nAsked: {{question}}"
    made = (
        {
            "context": RunnableLambda(lambda _: documents) | (lambda _: shown),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template(template)
        | FakeListChatModel(responses=[f"{SAID}{mark}."])
    )
    with capture() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("mark", ["[Document 1]", "[Doc 3]", "(Document 1)"])
@pytest.mark.parametrize("label", ["[{n}] {text}", "[{n}]\n{text}", "{n}. {text}"])
def test_a_number_of_a_list_of_uploads_is_unknown(label: str, mark: str) -> None:
    sample = asked(label, mark, before=UPLOADS)
    assert sample.citations is None
    assert "none of the contexts" in sample.citations_unknown


@pytest.mark.parametrize("mark", ["[1]", "[Source 3]"])
@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_list_of_names_that_contradicts_the_labels_makes_numbers_unknown(
    place: str, mark: str
) -> None:
    sample = asked("{n}. ({file}) {text}", mark, **{place: NAMES})
    assert sample.citations is None
    assert "two ways" in sample.citations_unknown


ORDINARY = [
    ("[{n}] {text}", "[2]", UPLOADS),
    ("[{n}] {text}", "[Source 2]", UPLOADS),
    ("Document {n}:\n{text}", "[Document 2]", UPLOADS),
    ("{n}. ({file}) {text}", "[2]", SAME_NAMES),
    ("{n}. ({file}) {text}", "[2]", NAMES),  # b.pdf in both
    ("Source {n}: {text}", "[2]", RULES),
    ("Source {n}: {text}", "[Source 2]", EXAMPLE),
    ("<document id='{n}'>\n{text}\n</document>", "[Document 2]", UPLOADS),
]


@pytest.mark.parametrize(("label", "mark", "before"), ORDINARY)
def test_another_list_leaves_the_numbers_of_the_contexts_known(
    label: str, mark: str, before: str
) -> None:
    sample = asked(label, mark, before=before)
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(1,)]


# lists of the prompt that alone say what the passages are called
LISTS_APART = {
    "files": ("[{n}] {name}", ("hills.pdf", "arches.pdf", "opening.pdf")),
    "addresses": ("- [{n}] {name}", tuple(f"https://velm.test/{n}" for n in "abc")),
    "titles": ("{n}. {name}", ("River and Hills", "Bridge Book", "Opening Day")),
    "a word and its number": ("Source {n}: {name}", ("f1.md", "f2.md", "f3.md")),
}
OWN_LISTS = (
    "### References\n\n- [{n}] {name}",
    "Sources:\n[{n}] {name}",
    "Sources:\n{n}. {name}",
    "**Sources:** [{n}] {name}",
)


def with_a_list_apart(name: str, own_list: str, *, place: str = "behind") -> Sample:
    form, names = LISTS_APART[name]
    lines = [form.format(n=n, name=one) for n, one in enumerate(names, start=1)]
    shown = "\n".join(["Reference Document List:", *lines])
    return asked("[{n}] {text}", f"[1].\n\n{own_list}", **{place: shown})


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("own_list", OWN_LISTS)
@pytest.mark.parametrize("name", LISTS_APART)
def test_an_answer_that_renumbers_the_names_of_a_list_apart_is_unknown(
    name: str, own_list: str, place: str
) -> None:
    # HKUDS/LightRAG: the passages have numbers alone, and a list names the numbers
    _, names = LISTS_APART[name]
    listed = own_list.format(n=1, name=names[2])
    sample = with_a_list_apart(name, listed, place=place)
    assert sample.citations is None
    assert "another meaning" in sample.citations_unknown


@pytest.mark.parametrize("own_list", OWN_LISTS)
@pytest.mark.parametrize("name", LISTS_APART)
def test_an_answer_that_keeps_the_numbers_of_a_list_apart_is_known(
    name: str, own_list: str
) -> None:
    _, names = LISTS_APART[name]
    sample = with_a_list_apart(name, own_list.format(n=1, name=names[0]))
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(0,)]


@pytest.mark.parametrize("entry", ["Miller (2020)", "The hills of Velm", "p. 7"])
def test_an_entry_that_the_list_apart_does_not_name_leaves_its_number_known(
    entry: str,
) -> None:
    sample = with_a_list_apart("files", f"Sources:\n[1] {entry}")
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(0,)]


def test_a_name_that_a_list_apart_gives_several_numbers_means_each_of_them() -> None:
    behind = "Files:\n[1] a.pdf\n[2] a.pdf\n[3] b.pdf"
    for number, place in ((1, 0), (2, 1)):
        answer = f"[{number}].\n\nSources:\n[{number}] a.pdf"
        sample = asked("[{n}] {text}", answer, behind=behind)
        assert sample.citations is not None, sample.citations_unknown
        assert [citation.contexts for citation in sample.citations] == [(place,)]


@given(order=st.permutations((1, 2, 3)))
def test_an_own_list_that_disagrees_with_a_list_apart_is_never_known(
    order: list[int],
) -> None:
    _, names = LISTS_APART["files"]
    answer = f"{SAID}[1]. It is old [2]. It is long [3].\n\nSources:\n" + "\n".join(
        f"[{n}] {names[of - 1]}" for n, of in enumerate(order, start=1)
    )
    prompt = "\n".join(
        [
            *(f"[{n}] {text}" for n, text in enumerate(TEXTS, start=1)),
            "",
            "Files:",
            *(f"[{n}] {name}" for n, name in enumerate(names, start=1)),
            "",
            QUESTION,
        ]
    )
    sample = sample_of(prompt, answer, texts=TEXTS)
    if order == [1, 2, 3]:
        assert sample.citations is not None, sample.citations_unknown
        assert [one.contexts for one in sample.citations] == [(0,), (1,), (2,)]
    else:
        assert sample.citations is None


def test_the_key_of_a_number_is_no_title_that_an_own_list_contradicts() -> None:
    label = '{{"reference_id": "{n}", "content": "{text}"}}'
    behind = "Files:\n[1] wolves.pdf\n[2] foxes.pdf\n[3] bears.pdf"
    sample = asked(label, "[1].\n\nSources:\n[1] wolves.pdf", behind=behind)
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(0,)]
