"""Marks that name a field of the prompt, ``[chunk_id: 107]``, and ids in JSON and in tags."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_closing_sources import prompt_of
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core import Sample

NUMBERS = st.integers(1, 3)
KEYS = st.sampled_from(["chunk_id", "Source_ID", "PMID", "index", "rank", "record id"])
FORMS = st.sampled_from(["[{}: {}]", "[{}:{}]", "[{} = {}]"])


def dangling(sample: Sample) -> list[tuple[str, ...]]:
    assert sample.citations is not None, sample.citations_unknown
    assert not any(citation.contexts for citation in sample.citations)
    return [citation.dangling for citation in sample.citations]


def prompt_in_order(label: str, values: tuple[int, ...]) -> str:
    passages = [
        label.format(value) + text for value, text in zip(values, TEXTS, strict=True)
    ]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


@given(
    key=KEYS,
    form=FORMS,
    values=st.permutations((7, 107, 31201123)),
    number=NUMBERS,
    beside=st.sampled_from(["", "[x{}.pdf]\n"]),
)
def test_a_mark_with_a_key_means_the_passage_with_this_field(
    key: str, form: str, values: list[int], number: int, beside: str
) -> None:
    label = f"{beside}{key}: {{}}\n".replace("{}", "{0}")
    prompt = prompt_in_order(label, (*values,))
    value = values[number - 1]
    assert cited(sample_of(prompt, f"It is old {form.format(key, value)}.")) == [
        (number - 1,)
    ]
    invented = sample_of(prompt, f"It is old {form.format(key, 4444)}.")
    assert dangling(invented) == [(f"{key.lower()}: 4444",)]
    # another key is none of the prompt's
    other = sample_of(prompt, f"It is old {form.format('volume', value)}.")
    assert other.citations is None


@given(values=st.permutations((1, 2, 3)), number=NUMBERS)
def test_a_field_beside_a_number_is_named_by_its_key_and_the_number_by_itself(
    values: list[int], number: int
) -> None:
    passages = [
        f"[{place}] chunk_id: {value}\n{text}"
        for place, (value, text) in enumerate(zip(values, TEXTS, strict=True), start=1)
    ]
    prompt = "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])
    by_field = sample_of(prompt, f"It is old [chunk_id: {number}].")
    assert cited(by_field) == [(values.index(number),)]
    assert cited(sample_of(prompt, f"It is old [{number}].")) == [(number - 1,)]


@pytest.mark.parametrize("key", ["file_id", "rating", "page"])
def test_a_field_that_passages_share_tells_no_passage(key: str) -> None:
    prompt = prompt_in_order(f"{key}: {{}}\n", (7, 7, 8))
    for value in (7, 8):
        assert sample_of(prompt, f"It is old [{key}: {value}].").citations is None


def test_a_field_that_one_passage_lacks_tells_no_passage() -> None:
    # "file_id: 7" may be what the first passage says, and no label
    passages = [f"file_id: 7\n{TEXTS[0]}", f"file_id: 8\n{TEXTS[1]}", TEXTS[2]]
    prompt = "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])
    sample = sample_of(prompt, "It is old [file_id: 8].", texts=passages)
    assert sample.citations is None


@pytest.mark.parametrize("key", ["source", "document", "reference", "ref"])
def test_a_word_for_a_source_may_be_the_key(key: str) -> None:
    prompt = prompt_in_order(f"{key}: {{}}\n", (2, 3, 1))
    for mark in (f"[{key}: 3]", f"[{key}:3]", f"[{key} 3]", "[3]"):
        assert cited(sample_of(prompt, f"It is old {mark}.")) == [(1,)]
    # beside another number it may be a word for any source
    both = "\n\n".join(
        f"[{place}] a.txt\n{key}: {value}\n{text}"
        for place, value, text in zip((1, 2, 3), (2, 3, 1), TEXTS, strict=True)
    )
    assert sample_of(both, f"It is old [{key}: 3].").citations is None


@pytest.mark.parametrize("key", ["ref", "rank", "position"])
@pytest.mark.parametrize("between", [", ", ",\n"])
def test_a_number_in_a_field_of_json_is_a_label(key: str, between: str) -> None:
    def shown(values: tuple[int, ...]) -> str:
        rows = [
            json.dumps({key: value, "text": text}, ensure_ascii=False)
            for value, text in zip(values, TEXTS, strict=True)
        ]
        return f'{{"results": [{between.join(rows)}]}}\n\nAsked: where is Faro?'

    assert cited(sample_of(shown((1, 2, 3)), "It is old [2].")) == [(1,)]
    assert dangling(sample_of(shown((1, 2, 3)), "It is old [9].")) == [("9",)]
    in_another_order = sample_of(shown((3, 1, 2)), "It is old [1].")
    if key == "ref":
        assert cited(in_another_order) == [(1,)]
    else:  # the answer may count the passages itself
        assert in_another_order.citations is None


@given(
    number=NUMBERS,
    rows=st.sampled_from(
        [
            '{{"[doc{n}]":{{"content":"{text}"}}}}',
            '{{"id": "doc{n}", "content": "{text}"}}',
            '{{"id":"doc{n}","title":"T","content":"{text}"}}',
        ]
    ),
    between=st.sampled_from([",", ",\n", ", "]),
)
def test_ids_such_as_doc1_label_passages_in_json(
    number: int, rows: str, between: str
) -> None:
    """microsoft/chat-with-your-data-solution-accelerator: {"[doc1]": {"content": …}}."""
    passages = between.join(
        rows.format(n=n, text=text) for n, text in enumerate(TEXTS, start=1)
    )
    prompt = f'{{"retrieved_documents":[{passages}]}}\n\nAsked: where is Faro?'
    assert cited(sample_of(prompt, f"It is old [doc{number}].")) == [(number - 1,)]
    both = sample_of(prompt, f"It is old [doc{number}][doc1].")
    assert cited(both) == [(number - 1,), (0,)]
    (labels,) = dangling(sample_of(prompt, "It is old [doc9]."))
    assert labels[0].removeprefix("doc") == "9"


def test_an_id_is_no_number_of_its_passage() -> None:
    prompt = prompt_of("<source>doc-{n}</source>\n<text>{text}</text>")
    assert cited(sample_of(prompt, "It is old [doc-2].")) == [(1,)]
    assert dangling(sample_of(prompt, "It is old [doc-9].")) == [("doc-9",)]
    assert sample_of(prompt, "It is old [2].").citations is None


def test_an_id_may_stand_before_the_name_of_its_passage() -> None:
    prompt = prompt_of("<source>doc-{n}: f{n}.txt</source>\n<text>{text}</text>")
    for mark in ("[doc-2]", "[doc-2: f2.txt]", "[f2.txt]"):
        assert cited(sample_of(prompt, f"It is old {mark}.")) == [(1,)]
    for entry in ("- doc-2: f2.txt", "doc-2: f2.txt", "[doc-2] f2.txt", "- f2.txt"):
        listed = f"It is old [doc-2].\n\nSources:\n{entry}"
        assert cited(sample_of(prompt, listed)) == [(1,)]
    other = "It is old [doc-2].\n\nSources:\n- doc-2: f3.txt"
    sample = sample_of(prompt, other)
    assert sample.citations is None or cited(sample) == [(2,)]
    assert dangling(sample_of(prompt, "It is old [doc-9].")) == [("doc-9",)]
    assert sample_of(prompt, "It is old [doc-2: f3.txt].").citations is None


@pytest.mark.parametrize("target", ["CITE", "cite", "source", "#sources"])
def test_a_link_to_a_mere_word_for_a_source_means_what_its_mark_names(
    target: str,
) -> None:
    """labring/FastGPT: [id](CITE), where CITE is a constant."""
    prompt = prompt_of("id: 68{n}a\n{text}")
    answer = f"Old [682a]({target}). New [681a]({target})[683a]({target})."
    assert cited(sample_of(prompt, answer)) == [(1,), (0,), (2,)]
    for other in ("CITE3", "travel", "681a"):
        sample = sample_of(prompt, f"Old [682a]({other}).")
        assert sample.citations is None


@pytest.mark.parametrize("page", ["pag.", "pág.", "pagina", "p.", "blz.", "стр."])
def test_a_page_in_another_language_is_a_page(page: str) -> None:
    prompt = prompt_of(f"[f{{n}}.pdf, {page} {{n}}0]\n{{text}}")
    assert cited(sample_of(prompt, f"Old [f2.pdf, {page} 20].")) == [(1,)]
    assert cited(sample_of(prompt, "Old [f2.pdf].")) == [(1,)]
    other = sample_of(prompt, f"Old [f2.pdf, {page} 30].")
    assert other.citations is None
    assert "page 30" in other.citations_unknown


def test_a_place_in_a_file_names_no_source_by_itself() -> None:
    """Finnish "sivu 30" behind f2.pdf is no second label, that of f3.pdf."""
    prompt = prompt_of("[f{n}.pdf, sivu {n}0]\n{text}")
    assert cited(sample_of(prompt, "Old [f2.pdf, sivu 20].")) == [(1,)]
    for mark in ("[f2.pdf, sivu 30]", "[sivu 30]"):
        assert sample_of(prompt, f"Old {mark}.").citations is None


def test_a_repr_of_a_list_shows_its_labels_and_pages() -> None:
    """langchain-ai/langchain-academy, module 4: the context is a list of one text."""
    blocks = [
        f'<Document source="docs/faro.pdf" page="{n}"/>\n{text}\n</Document>'
        for n, text in enumerate(TEXTS, start=3)
    ]
    context = ["\n\n---\n\n".join(blocks)]
    prompt = f"Use this: {context}\n\nAsked: where is Faro?"
    listed = "Old [1]. New [2].\n\nSources:\n[1] docs/faro.pdf, page 5\n[2] {}"
    answer = listed.format("docs/faro.pdf, page 3")
    assert cited(sample_of(prompt, answer)) == [(2,), (0,)]
    # a file of three passages, and a page that none of them is of
    for entry in ("docs/faro.pdf", "docs/faro.pdf, page 6"):
        assert sample_of(prompt, listed.format(entry)).citations is None
    # pages that the prompt does not show
    without_pages = re.sub(r' page="\d"', "", prompt)
    assert sample_of(without_pages, answer).citations is None


def test_a_list_of_objects_inside_of_a_row_gives_no_label() -> None:
    """microsoft's rows have the key "[doc1]"; others have lists of ids beside their own."""
    rows = [
        json.dumps({"refs": [{"id": 4 - n}], "id": n, "text": text}, ensure_ascii=False)
        for n, text in enumerate(TEXTS, start=1)
    ]
    prompt = f'{{"results": [{", ".join(rows)}]}}\n\nAsked: where is Faro?'
    for number in (1, 3):
        sample = sample_of(prompt, f"It is old [{number}].")
        assert sample.citations is None or cited(sample) == [(number - 1,)]


def test_a_line_break_in_a_field_of_json_divides_no_field() -> None:
    rows = [
        json.dumps({"id": n, "title": f"A\nB{n}", "text": text}, ensure_ascii=False)
        for n, text in enumerate(TEXTS, start=1)
    ]
    prompt = f'{{"results": [{", ".join(rows)}]}}\n\nAsked: where is Faro?'
    assert cited(sample_of(prompt, "It is old [2].")) == [(1,)]


def test_a_label_such_as_p1_is_no_page() -> None:
    prompt = prompt_of("[P{n}] f{n}.txt\n{text}")
    assert cited(sample_of(prompt, "It is old [P2]. It fell [P3, p. 7].")) == [
        (1,),
        (2,),
    ]
