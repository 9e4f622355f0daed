"""Prompts that number each passage twice, as ``[1] Source 3: …``: what a mark then means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import (
    EVORA,
    FARO,
    PORTO,
    QUESTION,
    Clock,
    model,
    retriever,
    tree,
)

from ragmetrics_core import Sample
from ragmetrics_core.capture import Answer, Document, Message, samples_of
from ragmetrics_core.capture.prompt_labels import Labels, labels_in
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Context, EvidenceCall

TEXTS = (PORTO, FARO, EVORA)
REASON = "numbers its passages in two ways"
# a label with a number in brackets and one behind a word, and marks of that word
BRACKETED = (
    ("[{}] Source {}: ", ("[Source {}]", "(source {})", "[sources {}]")),
    ("[{}] Document #{}\n", ("[Document {}]", "(Doc {})", "[document no {}]")),
    ("[{}] report.pdf, chunk {}: ", ("[Chunk {}]", "[chunk: {}]")),
    ("[{}]: (result {}) ", ("[Result {}]", "(Result {})")),
    ("**[{}]** Passage {}\n", ("[Passage {}]",)),
)
# a label with two words, and a mark of each
WORDED = (
    ("Chunk {} of document {}: ", "[Chunk {}]", "[Document {}]"),
    ("Result {} (Document {}): ", "(Result {})", "(Document {})"),
    ("Document {}, passage {}\n", "[Doc {}]", "[Passage {}]"),
    ('<document id="{}" source="{}">', "[Document {}]", "[Source {}]"),
)
ORDERS = st.permutations((1, 2, 3))


def prompt_of(label: str, second_numbers: list[int]) -> str:
    """Number the texts from 1 on, and each with a second number as well."""
    passages = [
        label.format(number, second) + text
        for number, (second, text) in enumerate(
            zip(second_numbers, TEXTS, strict=True), start=1
        )
    ]
    return "\n\n".join(["Answer the question.", *passages, f"Question: {QUESTION}"])


def sample_of(
    prompt: str,
    reply: str | Message,
    says: str | None = None,
    texts: Sequence[str] = TEXTS,
) -> Sample:
    """The sample of a run whose answer is its model's reply, or what ``says`` holds."""
    clock = Clock()
    found = [Document(text=text, id=f"d{at}") for at, text in enumerate(texts)]
    text = reply if isinstance(reply, str) else reply.text
    made = tree(
        clock,
        retriever(clock, *found),
        model(clock, prompt, reply),
        answers=(Answer(says or text),),
    )
    (sample,) = samples_of(made)
    return sample


def cited(sample: Sample) -> list[tuple[int, ...]]:
    assert sample.citations is not None, sample.citations_unknown
    assert not any(citation.dangling for citation in sample.citations)
    return [citation.contexts for citation in sample.citations]


def assert_in_two_ways(sample: Sample) -> None:
    assert sample.citations is None
    assert REASON in (sample.citations_unknown or "")


@given(st.sampled_from(BRACKETED), ORDERS, st.integers(1, 3))
def test_no_second_numbering_changes_what_a_bracketed_number_means(
    form: tuple[str, tuple[str, ...]], second_numbers: list[int], number: int
) -> None:
    label, _ = form
    sample = sample_of(prompt_of(label, second_numbers), f"Faro is there [{number}].")
    assert cited(sample) == [(number - 1,)]


@given(st.sampled_from(BRACKETED), ORDERS, st.integers(1, 3), st.integers(0, 2))
def test_a_mark_that_names_its_kind_means_the_number_behind_that_word(
    form: tuple[str, tuple[str, ...]],
    second_numbers: list[int],
    number: int,
    which_mark: int,
) -> None:
    label, marks = form
    mark = marks[which_mark % len(marks)].format(number)
    sample = sample_of(prompt_of(label, second_numbers), f"Faro is there {mark}.")
    assert cited(sample) == [(second_numbers.index(number),)]


@given(st.sampled_from(WORDED), ORDERS, st.integers(1, 3))
def test_of_two_words_each_mark_means_its_own_and_a_bare_number_none(
    form: tuple[str, str, str], second_numbers: list[int], number: int
) -> None:
    label, first_mark, second_mark = form
    prompt = prompt_of(label, second_numbers)
    answer = (
        f"It is {first_mark.format(number)}. So it is {second_mark.format(number)}."
    )
    place = second_numbers.index(number)
    assert cited(sample_of(prompt, answer)) == [(number - 1,), (place,)]
    bare = sample_of(prompt, f"Faro is there [{number}].")
    if place == number - 1:  # both say the same of this number
        assert cited(bare) == [(place,)]
    else:
        assert_in_two_ways(bare)


@pytest.mark.parametrize(
    "mark",
    ["[Source 1]", "(Excerpt 1)", "document [1]", "Document [3]", "(Document 9)"],
)
def test_a_mark_of_another_word_or_number_is_unknown_where_numbers_differ(
    mark: str,
) -> None:
    prompt = prompt_of("[{}] Document {}: ", [3, 9, 1])
    sample = sample_of(prompt, f"Faro is there {mark}.")
    if mark == "(Document 9)":  # the prompt has a ninth document, and no [9]
        assert cited(sample) == [(1,)]
    else:
        assert_in_two_ways(sample)


def test_a_number_of_one_numbering_alone_is_not_one_that_the_model_made_up() -> None:
    prompt = prompt_of("Chunk {} of document {}: ", [11, 12, 13])
    assert_in_two_ways(sample_of(prompt, "Faro is there [12]."))
    assert_in_two_ways(sample_of(prompt, "Faro is there [Document 2]."))
    assert cited(sample_of(prompt, "Faro is there [Document 12].")) == [(1,)]
    (citation,) = sample_of(prompt, "Faro is there [40].").citations or ()
    assert citation.dangling == ("40",)


def test_a_number_of_a_named_kind_is_known_though_a_note_has_it_in_brackets() -> None:
    prompt = prompt_of("[{}] Document {}: ", [3, 9, 1])
    prompt += "\n\n[9] Our office opens at nine."
    assert cited(sample_of(prompt, "Faro is there (Document 9).")) == [(1,)]
    assert sample_of(prompt, "Faro is there [9].").citations is None


def test_several_texts_of_one_document_are_not_told_apart_by_its_number() -> None:
    prompt = prompt_of("[{}] Document {}: ", [3, 3, 1])
    assert cited(sample_of(prompt, "Faro is there [3].")) == [(2,)]
    assert_in_two_ways(sample_of(prompt, "Faro is there [Document 3]."))


def test_a_structured_reply_with_a_bare_number_is_unknown() -> None:
    prompt = prompt_of("[{}] Source {}: ", [3, 2, 1])
    for source, expected in (("Source 1", 2), (2, 1), (1, None)):
        reply = json.dumps({"answer": "Faro is there.", "citations": [source]})
        sample = sample_of(prompt, reply, says="Faro is there.")
        if expected is None:
            assert_in_two_ways(sample)
        else:
            assert cited(sample) == [(expected,)]


def test_numbers_beside_a_source_of_the_provider_mean_their_kind() -> None:
    prompt = prompt_of("[{}] Source {}: ", [3, 2, 1])
    source = CitedSource(names=("d0",))
    reply = Message("assistant", "Faro is there [Source 1].", cited_sources=(source,))
    assert cited(sample_of(prompt, reply)) == [(0,), (2,)]
    prompt = prompt_of("Chunk {} of source {}: ", [3, 2, 1])
    reply = Message("assistant", "Faro is there [1].", cited_sources=(source,))
    assert_in_two_ways(sample_of(prompt, reply))


@pytest.mark.parametrize(
    ("label", "mark"),
    [
        ("[{}] Source {}: ", "[Source 2]"),
        ("Source {} (document {}): ", "[2]"),
        ("[{}] results of 20{}\n", "[Source 2]"),
    ],
)
def test_two_numbers_that_agree_are_one_numbering(label: str, mark: str) -> None:
    prompt = prompt_of(label, [1, 2, 3])
    assert cited(sample_of(prompt, f"Faro is there {mark}.")) == [(1,)]


def test_a_number_that_the_framework_calls_cited_is_of_no_known_kind() -> None:
    prompt = prompt_of("[{}] Source {}: ", [3, 2, 1])
    for label, expected in (("2", 1), ("1", None)):
        clock = Clock()
        found = [Document(text=text, id=f"d{at}") for at, text in enumerate(TEXTS)]
        source = CitedSource(id="d0", label=label)
        made = tree(
            clock,
            retriever(clock, *found),
            model(clock, prompt, "Faro is there."),
            answers=(Answer("Faro is there.", cited_sources=(source,)),),
        )
        (sample,) = samples_of(made)
        if expected is None:
            assert_in_two_ways(sample)
        else:
            assert cited(sample) == [(expected,)]


@pytest.mark.parametrize(
    ("label", "texts"),
    [
        # the number outside goes before one of the same word inside of the text
        ("Source {}:\n", ("Source 2: It is old.\nYes.", "Source 1: It fell.\nYes.")),
        # what a text says behind its own number is no label
        (
            "",
            ("Source 1: As document 2 says.\nYes.", "Source 2: See document 1.\nYes."),
        ),
    ],
)
def test_words_of_a_text_are_no_second_numbering(
    label: str, texts: tuple[str, ...]
) -> None:
    shown = [label.format(number) + text for number, text in enumerate(texts, 1)]
    labels = labels_in(["\n\n".join(["Answer.", *shown])], texts)
    assert not labels.context_indexes_by_numbering
    assert [labels.context_indexes_by_label[number] for number in "12"] == [(0,), (1,)]


def test_a_number_of_several_turns_has_no_kind_that_tells_its_meaning() -> None:
    labels = Labels({}, frozenset({"1"}), {"source": {"1": (0,)}})
    assert labels.context_indexes_of_number("1", "source") == ()


@pytest.mark.parametrize("mark", ["[Document 2]", "[Source 2]", "(Document 2)", "[2]"])
@pytest.mark.parametrize("title", ["Comments on Document 2", "Source 2 of the river"])
def test_a_number_in_one_title_is_no_second_numbering(title: str, mark: str) -> None:
    titles = (title, "The gates", "Bones")
    passages = [
        f"[{number}] {name}: {text}"
        for number, (name, text) in enumerate(zip(titles, TEXTS, strict=True), start=1)
    ]
    prompt = "\n\n".join(["Answer.", *passages, f"Question: {QUESTION}"])
    assert cited(sample_of(prompt, f"It is in Faro {mark}.")) == [(1,)]


@given(ORDERS)
def test_the_number_of_a_chunk_leaves_the_number_of_its_source_known(
    chunks: list[int],
) -> None:
    prompt = prompt_of("Source {}: report.pdf (chunk {})\n", chunks)
    assert cited(sample_of(prompt, "It is in Faro [2].")) == [(1,)]


@pytest.mark.parametrize(
    ("label_of_earlier", "mark"),
    [("[7] Source 2: ", "[2]"), ("[4] Source 7: ", "[Source 4]")],
)
def test_a_number_of_either_numbering_that_an_earlier_turn_used_is_unknown(
    label_of_earlier: str, mark: str
) -> None:
    shown = f"{label_of_earlier}{EVORA}"
    prompt = f"{shown}\n\n[1] Source 3: {PORTO}\n\n[2] Source 4: {FARO}\n\n{QUESTION}"
    clock = Clock()
    found = [Document(text=PORTO, id="p"), Document(text=FARO, id="f")]
    reply = f"Faro is there {mark}."
    earlier = EvidenceCall(kind="retrieval", items=(Context(text=EVORA),), shown=(0,))
    for calls, expected in (((earlier,), None), ((), [(1,)])):
        made = tree(
            clock,
            retriever(clock, *found),
            model(clock, prompt, reply),
            answers=(Answer(reply),),
        )
        made = replace(
            made, earlier_calls=calls, turn_number=2, conversation_id="conversation"
        )
        (sample,) = samples_of(made)
        if expected is None:
            assert sample.citations is None
        else:
            assert cited(sample) == expected


@pytest.mark.parametrize("label", ["Source {}: ", "Document {}:\n", '<source id="{}">'])
def test_a_footnote_of_the_passage_itself_begins_no_other_list(label: str) -> None:
    texts = [TEXTS[0], f"{TEXTS[1]}\n[2] County records, volume four\n", *TEXTS[2:]]
    passages = [label.format(number) + text for number, text in enumerate(texts, 1)]
    prompt = "\n\n".join(["Answer the question.", *passages, QUESTION])
    sample = sample_of(prompt, "It cost the county a lot [2].", texts=texts)
    assert cited(sample) == [(1,)]
