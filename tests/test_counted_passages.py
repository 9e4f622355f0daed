"""Passages that any word counts from 1: each number is the place as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core.capture.prompt_numbers import labels_differing_in_a_token

WORDS = (
    *("Kilde", "Källa", "Źródło", "Lähde", "Kaynak", "Источник", "Фрагмент", "Πηγή"),
    *("مصدر", "מקור", "Extrait", "Abschnitt", "Evidence", "Item", "Note", "Section"),
)
FORMS = ("{word} {n}: {text}", "{word} {n}\n{text}", "[{word} {n}] {text}")
FORMS += ("[{word} {n} begin]\n{text}\n[{word} {n} end]",)
FORMS += ("### {word} {n}\n\n{text}", "{word} n° {n} : {text}", "{word} #{n}. {text}")


def prompt_of(form: str, words: list[str], numbers: list[int]) -> str:
    passages = [
        form.format(word=word, n=number, text=text)
        for word, number, text in zip(words, numbers, TEXTS, strict=True)
    ]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


@given(st.sampled_from(WORDS), st.sampled_from(FORMS), st.integers(1, 3))
def test_any_word_counts_passages(word: str, form: str, number: int) -> None:
    prompt = prompt_of(form, [word] * 3, [1, 2, 3])
    sample = sample_of(prompt, f"Faro is there [{number}].")
    assert cited(sample) == [(number - 1,)]


@given(
    word=st.sampled_from(["Kilde", "Chapter", "Step", "Page"]),
    form=st.sampled_from(FORMS),
    numbers=st.permutations([1, 2, 3]).filter(lambda order: order != [1, 2, 3]),
)
def test_numbers_in_another_order_may_number_anything(
    word: str, form: str, numbers: list[int]
) -> None:
    prompt = prompt_of(form, [word] * 3, numbers)
    assert sample_of(prompt, "Faro is there [1].").citations is None


def test_what_is_not_counted_throughout_is_not_counted() -> None:
    for words, numbers in (
        (["Kilde", "Step", "Kilde"], [1, 2, 3]),
        (["Kilde"] * 3, [2, 3, 4]),
        (["Kilde"] * 3, [0, 1, 2]),
    ):
        prompt = prompt_of(FORMS[0], words, numbers)
        assert labels_differing_in_a_token([prompt], TEXTS) == {}
        assert sample_of(prompt, "Faro is there [2].").citations is None
    prompt = prompt_of(FORMS[0], ["Kilde"] * 3, [1, 2, 3])
    found = labels_differing_in_a_token([prompt], TEXTS)
    assert {label: n for label, n in found.items() if label.isdigit()} == {
        "1": 0,
        "2": 1,
        "3": 2,
    }
    assert labels_differing_in_a_token([prompt, TEXTS[0]], TEXTS) == {}
    assert labels_differing_in_a_token([], TEXTS) == {}
    assert labels_differing_in_a_token([prompt], [*TEXTS, ""]) == {}


@pytest.mark.parametrize("word", ["Step", "Kilde"])
def test_an_answer_without_numbers_is_not_said_to_cite_nothing(word: str) -> None:
    prompt = prompt_of(FORMS[0], [word] * 3, [1, 2, 3])
    assert sample_of(prompt, "Faro is there.").citations is None


LETTERED = ("D{n}", "Q{n}", "chunk_{n}", "ctx{n}", "R-00{n}", "doc-{n}", "KB-10{n}x")


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("label", LETTERED)
def test_what_alone_differs_before_each_passage_is_its_label(
    label: str, *, is_own: bool
) -> None:
    """Also where the passages themselves begin with it, and in any order."""
    first, last, absent = (label.format(n=n) for n in (3, 1, 7))
    labels = [label.format(n=n) for n in (3, 2, 1)]
    texts = [f"{name}: {text}" for name, text in zip(labels, TEXTS, strict=True)]
    answer = f"It is so [{first}, {last}]. It fell [{last} and {absent}]."
    prompt = "\n\n".join(["Use the passages.", *texts, "Asked: where?"])
    sample = sample_of(prompt, answer, texts=texts if is_own else TEXTS)
    assert [(one.contexts, one.dangling) for one in sample.citations or ()] == [
        ((0, 2), ()),
        ((2,), (absent,)),
    ]


@pytest.mark.parametrize(
    "labels",
    [
        ("D1:", "D2:", "E3:"),
        ("D1:", "D2:", "D2:"),
        ("D1:", "see D2:", "D3:"),
        ("at 10:30 A1:", "at 11:30 A2:", "at 11:30 A3:"),
        ("What the old book of D1 says:", *["What the old book of D2 says:"] * 2),
    ],
)
def test_what_differs_in_another_way_labels_nothing(labels: tuple[str, ...]) -> None:
    texts = [f"{name} {text}" for name, text in zip(labels, TEXTS, strict=True)]
    prompt = "\n\n".join(["Use the passages.", *texts, "Asked: where?"])
    assert labels_differing_in_a_token([prompt], TEXTS) == {}
