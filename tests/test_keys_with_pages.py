"""Keys such as ``Dubey2024 pages 3-4``, which answers cite in round brackets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core.data.citations import may_cite_more

# Future-House/paper-qa: the key stands before the text, and all keys below
KEYS = (
    ("Dubey2024 pages 3-4", "Dubey2024 pages 9-10", "Meta2024 pages 1-2"),
    ("Dubey2024 pages 3-4", "Smith2020a pages 3-4", "Müller1999 pages 3-4"),
    ("Annual Report page 3", "Annual Report page 4", "Town Report page 3"),
)
LABELS = ("{}: {}", "{}: {}\nFrom {}")
NUMBERS = st.integers(0, 2)


def prompt_of(keys: tuple[str, ...], label: str) -> str:
    passages = [
        label.format(key, text, key.partition(" ")[0])
        for key, text in zip(keys, TEXTS, strict=True)
    ]
    asked = (
        f"Valid Keys: {', '.join(keys)}\n\nIndicate which sources support your answer via"
        " citation keys, like (Example2012Example pages 3-4). Where is Faro?"
    )
    return "\n\n".join(["Context:", *passages, asked])


@given(
    keys=st.sampled_from(KEYS),
    label=st.sampled_from(LABELS),
    first=NUMBERS,
    second=NUMBERS,
    brackets=st.sampled_from(["({})", "[{}]"]),
    between=st.sampled_from([", ", "; ", " and "]),
)
def test_a_key_in_brackets_cites_its_passage(
    keys: tuple[str, ...],
    label: str,
    first: int,
    second: int,
    brackets: str,
    between: str,
) -> None:
    both = brackets.format(f"{keys[first]}{between}{keys[second]}")
    answer = f"Porto is old {brackets.format(keys[first])}. Faro is so, too {both}."
    sample = sample_of(prompt_of(keys, label), answer)
    assert cited(sample) == [(first,), tuple(dict.fromkeys((first, second)))]


@given(
    label=st.sampled_from(LABELS),
    invented=st.sampled_from(
        ["Dubey2024 pages 14-15", "Dubey2024 pages 3-5", "Okafor2011 pages 3-4"]
    ),
    known=NUMBERS,
)
def test_a_key_that_nobody_was_shown_dangles(
    label: str, invented: str, known: int
) -> None:
    for answer, expected in (
        (f"It is old ({invented}).", [((), (invented,))]),
        (
            f"It is old ({KEYS[0][known]}). It fell ({invented}).",
            [((known,), ()), ((), (invented,))],
        ),
    ):
        sample = sample_of(prompt_of(KEYS[0], label), answer)
        assert sample.citations is not None, sample.citations_unknown
        found = [(one.contexts, one.dangling) for one in sample.citations]
        assert found == expected


@pytest.mark.parametrize("words", ["Example2012Example pages 3-4", "Dubey2024"])
def test_an_example_of_the_instructions_and_half_a_key_are_unknown(words: str) -> None:
    sample = sample_of(prompt_of(KEYS[0], LABELS[0]), f"It is old ({words}).")
    assert sample.citations is None


def test_a_place_in_any_source_leaves_its_sentence_open() -> None:
    for words in ("Section 4 page 3", "Handbook, pages 3-4"):
        answer = f"It is old (Meta2024 pages 1-2). It fell ({words})."
        sample = sample_of(prompt_of(KEYS[0], LABELS[0]), answer)
        assert cited(sample) == [(2,)]
        assert may_cite_more(answer, sample.citations or ())


def test_an_answer_without_a_key_cites_nothing_where_keys_are_asked_for() -> None:
    sample = sample_of(prompt_of(KEYS[0], LABELS[0]), "I cannot answer.")
    assert sample.citations == ()
