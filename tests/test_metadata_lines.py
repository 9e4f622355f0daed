"""Lines of metadata beside a numbered text: their numbers are no second label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

from ragmetrics_core.capture.prompt_labels import labels_in

FIELDS = ("chunk_id: {}", "id: {}", "doc_id: {}", "index: {}", "source_id: {}")
PLACES = ("(page {})", "Page {} of 9", "p. {}", "page: {}", "score: 0.{}", "Rank: {}")
HEAD = "{label}\n{line}\n{text}"
FOOT = "{label} {text}\n{line}"
FOOT_WITH_RULE = "{label} {text}\n{line}\n---"


def prompt_of(form: str, label: str, line: str, numbers: list[int]) -> str:
    passages = [
        form.format(label=label.format(place), line=line.format(number), text=text)
        for place, (number, text) in enumerate(
            zip(numbers, TEXTS, strict=True), start=1
        )
    ]
    return "\n\n".join(["Use the passages.", *passages, "Asked: where is Faro?"])


@given(
    form=st.sampled_from([HEAD, FOOT, FOOT_WITH_RULE]),
    label=st.sampled_from(["[{}]", "Source {}:", "Document {}:"]),
    line=st.sampled_from([*FIELDS, *PLACES]),
    numbers=st.permutations([1, 2, 3]),
    number=st.integers(1, 3),
)
def test_a_mark_means_the_label_and_not_the_metadata(
    form: str, label: str, line: str, numbers: list[int], number: int
) -> None:
    prompt = prompt_of(form, label, line, numbers)
    sample = sample_of(prompt, f"Faro is there [{number}].")
    assert cited(sample) == [(number - 1,)]


@pytest.mark.parametrize("form", [HEAD, FOOT])
def test_a_mark_that_may_mean_a_field_is_unknown(form: str) -> None:
    prompt = prompt_of(form, "[{}]", "doc_id: {}", [3, 2, 1])
    assert sample_of(prompt, "Faro is there [Document 1].").citations is None
    assert cited(sample_of(prompt, "Faro is there [Document 2].")) == [(1,)]
    assert cited(sample_of(prompt, "Faro is there [Source 1].")) == [(0,)]


@pytest.mark.parametrize("name", ["doc{}", "doc-{}", "ref{}"])
def test_a_field_whose_value_is_a_name_with_a_number_is_meant_by_the_name(
    name: str,
) -> None:
    prompt = prompt_of(HEAD, "[{}]", f"file: {name}", [3, 2, 1])
    sample = sample_of(prompt, f"Faro is there [{name.format(1)}].")
    assert cited(sample) == [(2,)]


@pytest.mark.parametrize("line", FIELDS)
def test_a_field_alone_numbers_its_text(line: str) -> None:
    prompt = "\n\n".join(
        f"{line.format(number)}\n{text}"
        for number, text in zip([3, 1, 2], TEXTS, strict=True)
    )
    labels = labels_in([prompt], list(TEXTS))
    assert labels.context_indexes_by_label["3"] == (0,)
    assert labels.context_indexes_by_label["1"] == (1,)


@pytest.mark.parametrize("line", ["(page {})", "Page {}:", "score: {}"])
def test_a_page_alone_numbers_nothing(line: str) -> None:
    prompt = "\n\n".join(
        f"{line.format(number)}\n{text}"
        for number, text in zip([3, 1, 2], TEXTS, strict=True)
    )
    assert sample_of(prompt, "Faro is there [1].").citations is None
