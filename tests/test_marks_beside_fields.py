"""Structured answers that cite twice: by marks in their text, and in a field of sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import EVORA, Clock, model, retriever, tree
from test_two_numberings import TEXTS, sample_of

from ragmetrics_core import Sample
from ragmetrics_core.capture import Answer, Document, samples_of
from ragmetrics_core.data.citations import cited_statements

NAMES = ("porto.txt", "faro.txt", "evora.txt")
PROMPT = "Answer for the Lisbon Library.\n\n" + "\n\n".join(
    f"[{number}] {name}\n{text}"
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True), start=1)
)
DIFFER = "the marks in the structured answer cite other sources than its own list"
QUOTED_FROM_ANOTHER = "quotes a passage under the number or id of another"
# how a field may name the context with a number
FORMS_OF_SOURCES: tuple[Any, ...] = (
    lambda number: number,
    lambda number: {"id": number},
    lambda number: NAMES[number - 1],
    lambda number: {"source": NAMES[number - 1]},
    lambda number: TEXTS[number - 1],
    lambda number: {"source_id": number, "quote": TEXTS[number - 1]},
)


def samples_in_both_forms(reply: Any, prompt: str = PROMPT) -> tuple[Sample, Sample]:
    """The sample of an application that hands on the JSON, and of one that parses it."""
    text = json.dumps(reply)
    return sample_of(prompt, text), sample_of(prompt, text, reply["answer"])


FORMS_OF_JSON: dict[str, Callable[[Any], str]] = {
    "compact": lambda reply: json.dumps(reply, separators=(",", ":")),
    "indented": lambda reply: json.dumps(reply, indent=2),
    "not only ASCII": lambda reply: json.dumps(reply, ensure_ascii=False),
    "in a fence": lambda reply: f"```json\n{json.dumps(reply, indent=1)}\n```",
}
SENTENCES = ('"It fell," he said', "It\\rises", "Süd 😀\n\ngoes on", "So: a/b\tc")


@given(
    sentences=st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4),
    numbers=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    form=st.sampled_from(sorted(FORMS_OF_JSON)),
    is_list_first=st.booleans(),
)
def test_json_left_as_text_cites_sentence_by_sentence_as_its_parsed_answer(
    sentences: list[str], numbers: list[int], form: str, is_list_first: bool
) -> None:
    marked = list(zip(sentences, numbers, strict=False))
    reply: dict[str, Any] = {
        "answer": " ".join(f"{sentence} [{number}]." for sentence, number in marked)
    }
    sources = {"sources": sorted({number for _, number in marked})}
    reply = {**sources, **reply} if is_list_first else {**reply, **sources}
    text = FORMS_OF_JSON[form](reply)
    as_text, parsed = sample_of(PROMPT, text), sample_of(PROMPT, text, reply["answer"])

    def of_text(span: tuple[int, int] | None) -> str | None:
        """A part of the JSON's string, as the string has it."""
        return None if span is None else json.loads(f'"{text[slice(*span)]}"')

    def of_answer(span: tuple[int, int] | None) -> str | None:
        return None if span is None else reply["answer"][slice(*span)]

    assert parsed.citations
    assert [
        (of_text((one.start, one.end)), of_text(one.mark), one.contexts)
        for one in as_text.citations or ()
    ] == [
        (of_answer((one.start, one.end)), of_answer(one.mark), one.contexts)
        for one in parsed.citations
    ]


def test_json_that_holds_its_answer_twice_cites_for_the_whole() -> None:
    answer = "It fell [1]. It rises [2]."
    text = json.dumps({"draft": answer, "answer": answer, "sources": [1, 2]})
    citations = sample_of(PROMPT, text).citations or ()
    whole = (0, len(text), None)
    assert [(one.start, one.end, one.mark) for one in citations] == [whole, whole]
    assert [one.contexts for one in citations] == [(0,), (1,)]


def cited_in(sample: Sample) -> set[int] | None:
    """The contexts that an answer cites; None where that is not known."""
    if sample.citations is None:
        return None
    return {index for one in sample.citations for index in one.contexts}


@given(
    marked=st.sets(st.integers(1, 3), min_size=1),
    listed=st.sets(st.integers(1, 3)),
    form=st.sampled_from(FORMS_OF_SOURCES),
    key=st.sampled_from(["sources", "citations", "references"]),
)
def test_marks_and_field_are_known_in_both_forms_if_they_agree_and_else_in_none(
    marked: set[int], listed: set[int], form: Any, key: str
) -> None:
    marks = "".join(f"[{number}]" for number in sorted(marked))
    reply = {"answer": f"It rises {marks}.", key: [form(n) for n in sorted(listed)]}
    for sample in samples_in_both_forms(reply):
        if marked == listed:
            assert cited_in(sample) == {number - 1 for number in marked}
        else:
            assert sample.citations is None
            assert DIFFER in sample.citations_unknown


@given(number=st.integers(1, 3), has_marks=st.booleans(), quoted=st.integers(1, 3))
def test_a_quote_under_the_number_of_another_passage_is_unknown(
    number: int, has_marks: bool, quoted: int
) -> None:
    answer = f"It rises [{number}]." if has_marks else "It rises."
    source = {"source_id": number, "quote": TEXTS[quoted - 1]}
    for sample in samples_in_both_forms({"answer": answer, "citations": [source]}):
        if number == quoted:
            assert cited_in(sample) == {number - 1}
        else:
            assert QUOTED_FROM_ANOTHER in sample.citations_unknown


KNOWN: dict[str, tuple[dict[str, Any], set[int]]] = {
    "no marks": ({"answer": "It rises.", "sources": [2]}, {1}),
    "one number that nobody was shown": (
        {"answer": "It rises [1][9].", "sources": [1, 9]},
        {0},
    ),
    "a quote that stands nowhere": (
        {"answer": "It rises.", "sources": [{"id": 2, "quote": "nobody said this"}]},
        {1},
    ),
    "a name that gives a number another meaning": (
        {"answer": "It rises [1].", "sources": [{"id": 1, "source": "faro.txt"}]},
        {1},
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_structured_answer_is_known(name: str) -> None:
    reply, expected = KNOWN[name]
    for sample in samples_in_both_forms(reply):
        assert cited_in(sample) == expected, sample.citations_unknown


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "a number that only the marks have": (
        {"answer": "It rises [1][9].", "sources": [1]},
        DIFFER,
    ),
    "a number that only the field has": (
        {"answer": "It rises [1].", "sources": [1, 9]},
        DIFFER,
    ),
    "no sources, in a word": ({"answer": "It rises [1].", "sources": "none"}, DIFFER),
    "a name that the prompt shows, of no passage": (
        {"answer": "It rises [1].", "sources": ["Lisbon Library"]},
        "does not tell which context",
    ),
    "a page and a title in place of a list": (
        {"document_title": "Faro", "page_number": 3, "content": "It rises."},
        "fields such as a page or a file",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_structured_answer_is_unknown_for_a_true_reason(name: str) -> None:
    reply, reason = UNKNOWN[name]
    reply = {"answer": reply.get("content"), **reply}
    for sample in samples_in_both_forms(reply):
        assert sample.citations is None
        assert reason in sample.citations_unknown


@pytest.mark.parametrize(
    "reply",
    [
        {"title": "Faro", "page": 3},
        {"file": "handbook.pdf", "content": "It rises."},
    ],
)
def test_fields_that_may_name_a_source_are_not_called_no_source(reply: Any) -> None:
    for prompt in (PROMPT, "\n\n".join(TEXTS)):
        sample = sample_of(prompt, json.dumps(reply))
        assert sample.citations is None
        assert "fields such as a page or a file" in sample.citations_unknown


def test_a_title_of_the_answer_itself_names_no_source() -> None:
    for sample in samples_in_both_forms({"title": "Hills", "answer": "It rises."}):
        assert sample.citations == ()


def test_a_file_of_several_passages_agrees_with_the_mark_of_one() -> None:
    clock = Clock()
    reply = json.dumps({"answer": "It rises [2].", "sources": ["guide.pdf"]})
    prompt = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(TEXTS, start=1))
    files = ("guide.pdf", "guide.pdf", "map.pdf")
    documents = [
        Document(text=text, id=f"d{index}", metadata={"source": file})
        for index, (text, file) in enumerate(zip(TEXTS, files, strict=True))
    ]
    for answer in (reply, "It rises [2]."):
        (sample,) = samples_of(
            tree(
                clock,
                retriever(clock, *documents),
                model(clock, prompt, reply),
                answers=(Answer(answer),),
            )
        )
        assert cited_in(sample) == {1}, sample.citations_unknown


def test_of_passages_nearly_alike_a_quote_may_be_of_each() -> None:
    """The quote leaves a word out, and both passages hold the rest of it."""
    words = "The tower was built in 1889 for the great exhibition of that year"
    passages = (f"{words}, they say.", f"{words}, it is told.", EVORA)
    quote = words.replace("great ", "")
    clock = Clock()
    prompt = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(passages, start=1))
    for number in (1, 2):
        reply = {"answer": "In 1889.", "citations": [{"id": number, "quote": quote}]}
        (sample,) = samples_of(
            tree(
                clock,
                retriever(clock, *(Document(text=text) for text in passages)),
                model(clock, prompt, json.dumps(reply)),
                answers=(Answer("In 1889."),),
            )
        )
        assert cited_in(sample) == {number - 1}, sample.citations_unknown


UNNUMBERED = "Answer with marks [n].\n\n" + "\n\n".join(
    f"File: {name}\n{text}" for name, text in zip(NAMES, TEXTS, strict=True)
)


def files_of(order: list[int]) -> list[str]:
    """The files of some passages, by their indexes."""
    return [NAMES[index] for index in order]


def cited_by_sentence(sample: Sample) -> list[tuple[int, ...]]:
    """What each sentence of an answer cites, in order."""
    statements = cited_statements(sample.answer, sample.citations or ())
    return [statement.contexts for statement in statements]


@given(
    order=st.permutations([0, 1, 2]),
    n_listed=st.integers(1, 3),
    is_object=st.booleans(),
)
def test_a_mark_counts_the_list_beside_it_where_nothing_else_is_numbered(
    order: list[int], n_listed: int, is_object: bool
) -> None:
    listed = order[:n_listed]
    marks = [f"Hill {name} rises [{place}]." for place, name in enumerate("abc", 1)]
    sources: list[Any] = files_of(listed)
    if is_object:
        sources = [{"file": file, "quote": ""} for file in sources]
    reply = {"answer": " ".join(marks[:n_listed]), "cited_urls": sources}
    _, sample = samples_in_both_forms(reply, UNNUMBERED)
    may_count_passages = sorted(listed) == list(range(n_listed)) != listed
    if may_count_passages:
        assert sample.citations is None
        assert "which context it means is not known" in sample.citations_unknown
    else:
        assert cited_by_sentence(sample) == [(index,) for index in listed]


UNCLEAR_MARKS: dict[str, dict[str, Any]] = {
    "beyond the list": {
        "answer": "It fell [1]. It cost 2 [2].",
        "sources": ["faro.txt"],
    },
    "counted from 0": {
        "answer": "It fell [0]. It rises [1].",
        "sources": ["evora.txt", "faro.txt"],
    },
    "a source without a mark": {
        "answer": "It fell [1].",
        "sources": ["evora.txt", "faro.txt"],
    },
    "lists of each statement": {
        "answer": "It fell [1]. It rises [2].",
        "claims": [
            {"text": "It fell [1].", "sources": ["evora.txt"]},
            {"text": "It rises [2].", "sources": ["faro.txt"]},
        ],
    },
    "a number of its own": {
        "answer": "It fell [1]. It rises [2].",
        "sources": [{"id": 7, "file": "evora.txt"}, {"id": 9, "file": "faro.txt"}],
    },
}


@pytest.mark.parametrize("name", UNCLEAR_MARKS)
def test_a_mark_that_counts_no_list_for_sure_leaves_the_answer_unknown(
    name: str,
) -> None:
    for sample in samples_in_both_forms(UNCLEAR_MARKS[name], UNNUMBERED):
        assert sample.citations is None
        assert sample.citations_unknown


def test_a_mark_never_counts_a_list_where_the_prompt_numbers_something() -> None:
    reply = {"answer": "It fell [1].", "sources": ["evora.txt"]}
    prompt = f"{UNNUMBERED}\n\nOur rules:\n[1] Be brief."
    for sample in samples_in_both_forms(reply, prompt):
        assert sample.citations is None


def test_a_mark_that_counts_a_file_cites_all_its_passages() -> None:
    reply = {"answer": "It fell [1]. It rises [2].", "sources": ["b.txt", "a.txt"]}
    files = ("a.txt", "a.txt", "b.txt")
    prompt = "\n\n".join(
        f"File: {file}\n{text}" for file, text in zip(files, TEXTS, strict=True)
    )
    _, sample = samples_in_both_forms(reply, prompt)
    assert cited_by_sentence(sample) == [(2,), (0, 1)], sample.citations_unknown


def test_a_list_that_the_application_writes_below_changes_no_mark() -> None:
    """LangGraph's STORM tutorial: ``AnswerWithCitations.as_str`` lists the addresses."""
    reply = {
        "answer": "It fell [1]. It rises [2].",
        "cited_urls": ["evora.txt", "faro.txt"],
    }
    shown = f"{reply['answer']}\n\nCitations:\n\n[1]: evora.txt\n[2]: faro.txt"
    sample = sample_of(UNNUMBERED, json.dumps(reply), shown)
    assert cited_in(sample) == {1, 2}, sample.citations_unknown
    assert cited_by_sentence(sample)[:2] == [(2,), (1,)]
