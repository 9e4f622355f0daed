"""Traces whose spans hold the beginnings of documents that the prompt shows whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spans_by_hand import QUESTION, openinference, otlp

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.capture import Document, Message, Node
from ragmetrics_core.data.unread import why_texts_are_unread
from ragmetrics_core.traces import samples_from_spans
from ragmetrics_core.traces.previews import count_previews

FACT = "The gate was opened on 4 May 1874 by the mayor Elias Holm."
PASSAGES = (
    "The harbour trades in herring and timber, and keeps a customs house with clerks"
    f" who speak Danish and Dutch. {FACT}",
    "The gate is made of riveted iron plates from the Brenner foundry. The plates were"
    " carried up the cliff by mules in spring, and masons slept in tents below.",
    "The steamer sank off the skerries in a gale of the winter of 1869. Her crew of"
    " eleven was saved by fishermen with a rope and two boats.",
)


def read(recorded: Sequence[str], prompt: str) -> tuple[Sample, list[str]]:
    """The sample of a chain, whose retriever's span holds texts, and the notes."""
    chain, search, model = openinference()
    search["attributes"] = [
        attribute
        for attribute in search["attributes"]
        if not attribute["key"].startswith("retrieval.")
    ]
    for n, text in enumerate(recorded):
        name = f"retrieval.documents.{n}.document.content"
        search["attributes"].append({"key": name, "value": {"stringValue": text}})
    for attribute in model["attributes"]:
        if attribute["key"] == "llm.input_messages.0.message.content":
            attribute["value"] = {"stringValue": prompt}
    samples = samples_from_spans([otlp(chain, search, model)])
    (sample,) = samples
    return sample, samples.notes.sentences


def numbered(texts: Sequence[str]) -> str:
    lines = [f"[{n}] {text}" for n, text in enumerate(texts, start=1)]
    return "\n".join([*lines, QUESTION])


def assert_is_in_part(sample: Sample, sentences: Sequence[str]) -> None:
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "hold only a part of" in " ".join(sample.capture.warnings)
    assert "not shown" not in " ".join(sample.capture.warnings)
    assert "recorded in part" in " ".join(sentences)
    assert "whole texts" in why_texts_are_unread(sample)
    assert {note.share for note in sample.capture.passages or ()} == {None}


def assert_is_whole(sample: Sample, sentences: Sequence[str]) -> None:
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert not sentences


def first_words(text: str) -> str:
    return " ".join(text.split()[:14])


def first_sentence(text: str) -> str:
    return text.partition(". ")[0] + "."


@settings(max_examples=40, deadline=None)
@given(st.integers(30, 120), st.sampled_from(["...", "…", " [...]"]))
def test_a_text_that_ends_in_dots_is_in_part_where_the_prompt_goes_on(
    n_letters: int, dots: str
) -> None:
    recorded = [text[:n_letters] + dots for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(PASSAGES)))


@settings(max_examples=40, deadline=None)
@given(st.integers(40, 120))
def test_several_texts_of_one_length_are_in_part(n_letters: int) -> None:
    recorded = [text[:n_letters] for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(PASSAGES)))


@pytest.mark.parametrize("cut", [first_words, first_sentence])
def test_texts_cut_at_words_and_sentences_are_in_part(
    cut: Callable[[str], str],
) -> None:
    assert_is_in_part(*read([cut(text) for text in PASSAGES], numbered(PASSAGES)))


def test_white_space_of_a_preview_may_be_another() -> None:
    recorded = [text[:90].replace(" ", "  ") + "..." for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(PASSAGES)))


@pytest.mark.parametrize("n_letters", [46, 48, 52, 85])
def test_one_text_is_in_part_by_its_end(n_letters: int) -> None:
    """It ends within a word, or with the blank behind one."""
    recorded = [PASSAGES[0][:n_letters], PASSAGES[1]]
    assert_is_in_part(*read(recorded, numbered(PASSAGES[:2])))


@pytest.mark.parametrize("limit", [50, 64, 100, 128])
def test_one_text_is_in_part_by_its_length(limit: int) -> None:
    """It ends with a word, and has as many letters as somebody cuts a text to."""
    beginning = "The harbour trades in herring and"
    word = "a" * (limit - len(beginning) - 1)
    whole = f"{beginning} {word} keeps a customs house with clerks."
    assert_is_in_part(*read([whole[:limit]], numbered([whole])))
    other = f"{beginning} a{word} keeps a customs house with clerks."
    assert_is_whole(*read([other[: limit + 1]], numbered([other])))


def test_white_space_of_the_prompt_may_be_another() -> None:
    recorded = [text[:90] + "..." for text in PASSAGES]
    shown = [text.replace(" ", "  ") for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(shown)))


def test_one_number_is_cut_within_it() -> None:
    recorded = [PASSAGES[0].partition("74 by")[0], PASSAGES[1]]
    assert_is_in_part(*read(recorded, numbered(PASSAGES[:2])))


def test_a_fact_behind_a_preview_is_not_known_to_be_lost() -> None:
    sample, _ = read([text[:80] for text in PASSAGES], numbered(PASSAGES))
    sample = sample.model_copy(update={"reference": (FACT,)})
    journey = evaluate([sample], metrics=["accuracy"], judge="lexical").journey()
    assert journey.mend is None
    assert journey.of("not_retrieved", "facts") is None
    assert "hold only a part" in str(journey)


ONE_LINE = " ".join(PASSAGES)


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param(numbered(PASSAGES), id="lines"),
        pytest.param(f"{ONE_LINE} {QUESTION}", id="one line"),
        pytest.param("".join(PASSAGES) + QUESTION, id="no blanks"),
        pytest.param(
            " ".join(f"{n}. {text}" for n, text in enumerate(PASSAGES, start=1)),
            id="numbers in one line",
        ),
        pytest.param(
            " ".join(f"Document {n}: {text}" for n, text in enumerate(PASSAGES))
            + f" Answer now, and be short: {QUESTION}",
            id="labels in one line",
        ),
        pytest.param(
            "\n".join(
                f"{text} (page {n} of the report)" for n, text in enumerate(PASSAGES)
            ),
            id="pages behind",
        ),
        pytest.param(
            "\n".join(
                f"{text} Source: book {n} of nine" for n, text in enumerate(PASSAGES)
            ),
            id="sources behind",
        ),
        pytest.param(
            f"{PASSAGES[0]}\n{PASSAGES[1]}\nUse {PASSAGES[2]} to answer it well and soon",
            id="a template goes on",
        ),
    ],
)
def test_whole_texts_are_whole_in_every_template(prompt: str) -> None:
    assert_is_whole(*read(PASSAGES, prompt))


@pytest.mark.parametrize("dots", ["...", "…", " [...]"])
def test_a_text_that_is_shown_with_its_dots_is_whole(dots: str) -> None:
    """A search of the web returns such snippets, and a model is shown no more."""
    snippets = [text[:70] + dots for text in PASSAGES]
    assert_is_whole(*read(snippets, numbered(snippets)))
    assert_is_whole(*read(snippets, " ".join([*snippets, QUESTION])))
    lines = [f"{snippet} Read it with care." for snippet in snippets]
    assert_is_whole(*read(snippets, "\n".join([*lines, QUESTION])))


def test_a_text_that_is_shown_as_recorded_is_whole_wherever_else_it_is_quoted() -> None:
    sentences = [first_sentence(text) for text in PASSAGES]
    quotes = (
        f"As in: {sentences[0]} Nobody knows why they did that.\n"
        f"And in: {sentences[1]} They say it was long ago."
    )
    sample, _ = read(sentences, f"{quotes}\n{numbered(sentences)}")
    assert "hold only a part" not in str(sample.capture)


def run_of(documents: Sequence[Document], *prompt: Message) -> Node:
    """A run that retrieved documents, and showed a model a prompt."""
    search = Node("retriever", began=1, ended=2, documents=tuple(documents))
    model = Node("model", began=3, ended=4, prompt=prompt)
    return Node("step", began=0, ended=5, children=[search, model])


def test_the_rest_of_a_sentence_may_stand_in_its_window() -> None:
    """LlamaIndex finds a sentence, and shows the text around it."""
    prompt = Message("user", numbered(PASSAGES))
    sentences = [first_sentence(text) for text in PASSAGES]
    windows = list(zip(sentences, PASSAGES, strict=True))
    with_forms = [Document(text, forms=(window,)) for text, window in windows]
    with_metadata = [
        Document(text, metadata={"window": window}) for text, window in windows
    ]
    assert count_previews(run_of(with_forms, prompt)) == 0
    assert count_previews(run_of(with_metadata, prompt)) == 0
    plain = [Document(text) for text in sentences]
    assert count_previews(run_of(plain, prompt)) == len(PASSAGES)


def test_what_a_model_wrote_around_a_document_is_no_rest_of_it() -> None:
    documents = [Document(first_sentence(text)) for text in PASSAGES]
    reply = Message("assistant", numbered(PASSAGES))
    assert count_previews(run_of(documents, reply, Message("user", QUESTION))) == 0


def test_a_small_letter_behind_a_text_without_an_end_is_the_template() -> None:
    texts = ["Opening hours of the town hall", "Prices of the ferry in summer"]
    prompt = f"{texts[0]}\nUse {texts[1]} to answer what follows as well as you can"
    assert_is_whole(*read(texts, prompt))
    joined = f"{texts[0]}\n{texts[1]}Question: what does it all cost in summer?"
    sample, _ = read(texts, joined)
    assert "hold only a part" not in str(sample.capture)


def test_chunks_that_overlap_may_be_merged() -> None:
    """The rest of each chunk stands in the next one."""
    whole = PASSAGES[0]
    chunks = [whole[:70], whole[40:110], whole[80:]]
    assert_is_whole(*read(chunks, f"{whole}\n{QUESTION}"))


CUT_NOTES = [" [truncated]", "... (97 more chars)", "… [+97 more words]", " <omitted>"]


@pytest.mark.parametrize("note", CUT_NOTES)
def test_a_note_says_that_a_text_is_in_part(note: str) -> None:
    recorded = [text[:80] + note for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(PASSAGES)))
    sample, _ = read(recorded, numbered(recorded))
    assert "hold only a part" not in str(sample.capture)


def test_the_end_of_a_text_is_in_part_where_the_prompt_shows_words_before_it() -> None:
    recorded = ["..." + text[-62:].partition(" ")[2] for text in PASSAGES]
    assert_is_in_part(*read(recorded, numbered(PASSAGES)))
    for prompt in (numbered(recorded), numbered([text[3:] for text in recorded])):
        sample, _ = read(recorded, prompt)
        assert "hold only a part" not in str(sample.capture)


SENTENCE = "The harbour trades in herring and timber."
PLATES, SHIP = PASSAGES[1:]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["[{}] ", "{}. ", "Source {}: ", "({}) ", "[{}]\n"]),
    st.sampled_from([" ", "\n"]),
    st.sampled_from([FACT, f"{FACT} It was raining all day.", SHIP]),
)
def test_a_page_in_a_labelled_block_is_more_than_its_chunk(
    label: str, between: str, rest: str
) -> None:
    """The spans hold one sentence of the first page, and the others whole."""
    shown = [f"{SENTENCE}{between}{rest}", PLATES]
    blocks = [label.format(n) + text for n, text in enumerate(shown, start=1)]
    prompt = "\n".join([*blocks, "", QUESTION])
    assert_is_in_part(*read([SENTENCE, PLATES], prompt))


@pytest.mark.parametrize(
    "lines",
    [
        [f"[1] {SENTENCE}", "[2] {}", "Answer from these passages and nothing else."],
        [f"[1] {SENTENCE}", "[2] {} Answer from these passages alone."],
        [f"[1] {SENTENCE} (page 3 of the town book)", "[2] {}"],
        [f"[1] {SENTENCE}", "Note: this page is out of date.", "[2] {}"],
        [f"[1] {SENTENCE}", "https://a.org/harbour/trade/of/herring", "[2] {}"],
        [f"[1] {SENTENCE}", "Taken from the town book.", "[2] {}", "Taken from a map."],
        ["1. Use only these.", "2. Be short, please.", "", SENTENCE, "", "{}"],
        [f"[1] {SENTENCE}", "[2] {}", "[1] It was about trade. [2] It was of iron."],
    ],
    ids=str,
)
def test_what_a_template_writes_behind_passages_is_no_part_of_them(
    lines: list[str],
) -> None:
    prompt = "\n".join([*lines, "", QUESTION]).replace("{}", PLATES)
    assert_is_whole(*read([SENTENCE, PLATES], prompt))


def test_one_passage_alone_does_not_tell_what_a_template_writes() -> None:
    lines = [f"[1] {SENTENCE} The town book says no more of it.", "[2] Be short."]
    sample, _ = read([SENTENCE], "\n".join([*lines, "", QUESTION]))
    assert "hold only a part" not in str(sample.capture)


@pytest.mark.parametrize(
    "note", ["(cut)", "<snip>", "...(1.2k chars)", "[TRUNCATED]", " [97 left out]"]
)
def test_any_note_in_brackets_that_the_prompt_lacks_tells_a_part(note: str) -> None:
    sample, sentences = read(
        [text[:90] + note for text in PASSAGES], numbered(PASSAGES)
    )
    assert_is_in_part(sample, sentences)
    assert sample.capture is not None
    assert "was cut" not in " ".join(sample.capture.warnings)
