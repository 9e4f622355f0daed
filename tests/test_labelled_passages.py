"""Passages under labels like those of contexts, which come from an index of the application itself."""

from __future__ import annotations

import pytest
from counted_steps import count_steps
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import (
    ANSWER,
    DOCS,
    EVORA,
    FARO,
    PORTO,
    QUESTION,
    SAYS,
    Clock,
    model,
    retriever,
    tree,
)

from ragmetrics_core.capture import Document, Message, samples_of
from ragmetrics_core.capture.labelled_passages import unknown_passages
from ragmetrics_core.data.sample import Sample

LABELS = (
    "[{}] ",
    "【{}】\n",
    "[Page {}]\n",
    "Document {}: ",
    "Source {} (score 0.{}):\n",
    "<doc id={}> ",
)
SHORT = "See above."


def numbered(label: str, *texts: str) -> str:
    return "\n\n".join(
        label.format(number, number) + text for number, text in enumerate(texts, 1)
    )


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("texts", "known", "expected"),
    [
        ((PORTO, FARO), (), 1),
        ((FARO, PORTO, EVORA), (), 2),
        ((PORTO, FARO), (FARO,), 0),
        ((PORTO, FARO), (f"Before. {FARO} After.",), 0),
        ((PORTO, SHORT), (), 0),
        ((PORTO,), (), 0),
        ((FARO,), (), 0),
    ],
)
def test_passages_under_labels_like_that_of_a_context_are_known_or_counted(
    label: str, texts: tuple[str, ...], known: tuple[str, ...], expected: int
) -> None:
    prompt = f"Answer the question.\n{numbered(label, *texts)}\nQuestion: {QUESTION}"
    assert unknown_passages([prompt], [PORTO], [PORTO, *known]) == expected


@pytest.mark.parametrize("label", ["{}. ", "- ", "Text: ", "{}" * 90 + "abc "])
def test_a_bare_number_a_bullet_and_a_word_are_no_labels(label: str) -> None:
    prompt = "\n".join(
        [label.format(*"1" * 90) + PORTO, label.format(*"2" * 90) + FARO]
    )
    assert unknown_passages([prompt], [PORTO], [PORTO]) == 0


@pytest.mark.parametrize("label", ['Source {}: "', "Page {}: '"])
def test_a_quotation_mark_ends_a_label_too(label: str) -> None:
    prompt = numbered(label, PORTO, FARO)
    assert unknown_passages([prompt], [PORTO], [PORTO]) == 1


@pytest.mark.parametrize(
    "beginning",
    [
        '{{"documents": [{{"year": {}, "content": "',
        '"id": "d{}", "content": "',
        "Document(id=d{}, content='",
    ],
)
def test_what_stands_before_a_value_of_a_structure_is_no_label(beginning: str) -> None:
    """The output of a tool, as a trace holds it, names the text itself after others."""
    prompt = numbered(beginning, PORTO, FARO)
    assert unknown_passages([prompt], [PORTO], [PORTO]) == 0


@given(
    st.sampled_from(LABELS),
    st.lists(st.sampled_from((PORTO, FARO, EVORA)), min_size=1, unique=True),
)
def test_what_was_found_is_never_unknown(label: str, texts: list[str]) -> None:
    prompt = numbered(label, *texts)
    for context in texts:
        assert unknown_passages([prompt], [context], texts) == 0
        others = len(texts) - 1
        assert unknown_passages([prompt], [context], [context]) == others


def sample_of(prompt: str, *docs: Document, reply: str = ANSWER) -> Sample:
    c = Clock()
    made = tree(c, retriever(c, *docs), model(c, prompt, reply), answers=SAYS)
    (sample,) = samples_of(made)
    return sample


@pytest.mark.parametrize(
    ("docs", "expected"), [(DOCS[:1], "inferred"), (DOCS[:2], "exact")]
)
def test_a_list_of_which_a_part_was_found_elsewhere_is_in_doubt(
    docs: tuple[Document, ...], expected: str
) -> None:
    """A chatbot that fuses the hits of its store with those of its own index of words."""
    prompt = f"{numbered(LABELS[0], PORTO, FARO)}\n\n{QUESTION}"
    sample = sample_of(prompt, *docs)
    assert sample.capture is not None
    assert sample.capture.grade == expected
    is_said = any("labelled like the contexts" in w for w in sample.capture.warnings)
    assert is_said == (expected == "inferred")


def test_an_answer_that_repeats_a_passage_does_not_make_it_known() -> None:
    c = Clock()
    prompt = f"{numbered(LABELS[0], PORTO, FARO)}\n\n{QUESTION}"
    made = tree(c, retriever(c, DOCS[0]), model(c, prompt, FARO))
    (sample,) = samples_of(made)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"


def test_what_a_model_of_the_run_wrote_before_is_known() -> None:
    c = Clock()
    summary = "The south of the country has an airport and many beaches."
    prompt = [Message("user", f"{numbered(LABELS[0], PORTO, summary)}\n\n{QUESTION}")]
    made = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, "Sum up what you know of the south.", summary),
        model(c, prompt),
        answers=SAYS,
    )
    (sample,) = samples_of(made)
    assert sample.capture is not None
    assert not any("labelled like" in words for words in sample.capture.warnings)


RULES = (
    "Be brief, and never write more than a paragraph.",
    "Cite each of the sources that you use by its number.",
    "Say so where the sources do not tell the answer.",
    "Write in the language in which the question was asked.",
)


@given(
    st.integers(0, len(RULES)),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["[{}] ", "[{}]\n"]),
)
def test_rules_that_are_numbered_by_themselves_are_no_passages(
    n_rules: int, n_found: int, n_elsewhere: int, label: str
) -> None:
    """Their numbers begin anew where those of the passages begin."""
    found = (PORTO, FARO, EVORA)[:n_found]
    elsewhere = (
        "The handbook of the company says that the tower closed in 1999.",
        "Another page of the handbook tells of the harbour and its cranes.",
    )[:n_elsewhere]
    rules = numbered(label, *RULES[:n_rules])
    prompt = f"{rules}\n\n{numbered(label, *found, *elsewhere)}\n\n{QUESTION}"
    assert unknown_passages([prompt], found, found) == n_elsewhere


@pytest.mark.parametrize(
    "form",
    [
        "<doc id='{}'>{}</doc>",
        '<doc id="{}">{}</doc><score>0.7</score>',
        "Source {}: {} (page 7 of the report of the town)",
        "[{}] {} [report of the harbour, 2021.pdf]",
    ],
)
@pytest.mark.parametrize(
    "texts", [(PORTO, FARO), ("It is made of iron.", "It opened in 1874.")]
)
def test_what_stands_behind_a_text_in_its_line_makes_it_no_other_text(
    form: str, texts: tuple[str, ...]
) -> None:
    prompt = "\n".join(form.format(place, text) for place, text in enumerate(texts, 1))
    assert unknown_passages([prompt], texts, texts) == 0
    assert unknown_passages([prompt], texts[:1], texts[:1]) == 1


@pytest.mark.parametrize("label", ["\n[{}]", "\nSource: {}", " [{}]"])
def test_labels_may_stand_behind_their_texts(label: str) -> None:
    handbook = "The handbook of the company says that the tower closed in 1999."
    texts = [PORTO, FARO, handbook]
    listed = [text + label.format(place) for place, text in enumerate(texts, 1)]
    asked = "\nQuestion: what do you know of the towns of the country?"
    assert unknown_passages(["\n".join(listed[:2]) + asked], texts, texts) == 0
    found = texts[:2]
    n_expected = 0 if label.startswith(" ") else 1
    assert unknown_passages(["\n".join(listed) + asked], found, found) == n_expected


def test_short_texts_that_a_function_wrote_anew_are_in_doubt() -> None:
    texts = (PORTO, "In short, a town of the south.", "In short, a temple.")
    prompt = f"{numbered('Source {}:' + chr(10), *texts)}\n\n{QUESTION}"
    sample = sample_of(prompt, *DOCS)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    # nobody knows whether these are the passages that were found, in other words
    shares = [note.share for note in sample.capture.passages or ()]
    assert shares == [1.0, None, None][: len(DOCS)]


def test_four_times_the_texts_without_labels_take_four_times_the_steps() -> None:
    def look(n_texts: int) -> None:
        texts = [
            f"Text {number} speaks of the harbour. " * 40 for number in range(n_texts)
        ]
        assert unknown_passages([" ".join(texts)], texts, texts) == 0

    look(30)
    n_small = count_steps(lambda: look(30))
    n_large = count_steps(lambda: look(120))
    assert 0 < n_large <= 4.2 * n_small
