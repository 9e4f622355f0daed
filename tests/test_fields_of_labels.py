"""Fields beside a number, such as ``doc_id: 3`` below ``[1]``: what an answer's number means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture.prompt_labels import Labels, labels_in

TEXTS = ["It is of iron.", "It was opened in 1874.", "The Aurora sank."]


def labels(
    form: str, values: list[int], instruction: str = "Answer by the sources."
) -> Labels:
    """The labels of three texts, each with a number from 1 and the value of a field."""
    shown = "\n\n".join(
        form.format(n=number, value=value, text=text)
        for number, (value, text) in enumerate(zip(values, TEXTS, strict=True), start=1)
    )
    return labels_in([f"{instruction}\n\n{shown}\n\nWhat sank?"], TEXTS)


FORMS = [
    "[{n}]\ndoc_id: {value}\n{text}",
    "Passage {n}\nid: {value}\n{text}",
    "[{n}] {text}\nnumber: {value}",
]


@pytest.mark.parametrize("form", FORMS)
@given(values=st.permutations([1, 2, 3]))
def test_numbers_that_a_field_gives_to_other_texts_are_ambiguous(
    form: str, values: list[int]
) -> None:
    found = labels(form, values, "Cite with the doc_id, id or number in brackets.")
    for number, value in enumerate(values, start=1):
        if number == value:
            assert found.context_indexes_by_label[str(number)] == (number - 1,)
        else:
            assert str(number) in found.ambiguous_numbers
            assert str(number) not in found.context_indexes_by_label


@pytest.mark.parametrize("form", FORMS)
def test_a_number_of_a_field_alone_may_mean_its_text(form: str) -> None:
    found = labels(form, [7, 8, 9])
    assert found.ambiguous_numbers == {"7", "8", "9"}
    assert found.context_indexes_by_label["1"] == (0,)


def test_a_field_that_the_instructions_name_makes_shared_numbers_ambiguous() -> None:
    form = FORMS[0]
    named = labels(form, [2, 3, 4], "Cite with the id in brackets.")
    assert named.ambiguous_numbers == {"2", "3", "4"}
    assert named.context_indexes_by_label["1"] == (0,)
    assert labels(form, [2, 3, 4]).ambiguous_numbers == {"4"}


def test_chunks_in_any_order_leave_the_labels_their_numbers() -> None:
    found = labels("[{n}]\nchunk_id: {value}\n{text}", [3, 1, 2])
    assert found.ambiguous_numbers == frozenset()
    assert found.context_indexes_by_label["1"] == (0,)


# A form, and an instruction that names its field.
NAMED = [
    ("[{n}]\nPage {value} of 9\n{text}", "Cite the page number in brackets."),
    ("[{n}] {text} (p. {value})", "Cite the page of each text."),
    ("[{n}] {text}\nref: {value}", "Cite the ref of each text."),
    ('<doc index="{n}" id="{value}">{text}</doc>', "Cite ids in brackets."),
    ("[{n}]\nline_no: {value}\n{text}", "Cite by line no, as in [7]."),
]
# A form whose key itself says that the number is cited.
CITED = [
    "Result {n}\nsource number: {value}\n{text}",
    "[{n}]\ncitation: {value}\n{text}",
    "[{n}] {text}\nreference: {value}",
    "[{n}] {text}\nnumber: {value}",
]


@given(
    case=st.sampled_from([*NAMED, *((form, "Be brief.") for form in CITED)]),
    values=st.permutations([1, 2, 3]),
)
def test_a_field_that_may_be_cited_makes_its_other_numbers_ambiguous(
    case: tuple[str, str], values: list[int]
) -> None:
    form, instruction = case
    found = labels(form, values, instruction)
    for number, value in enumerate(values, start=1):
        is_ambiguous = str(number) in found.ambiguous_numbers
        assert is_ambiguous is (number != value)
        assert (str(number) in found.context_indexes_by_label) is not is_ambiguous


@given(
    case=st.sampled_from(NAMED),
    values=st.permutations([1, 2, 3]),
    instruction=st.sampled_from(
        [
            "Be brief.",
            "Cite the source and its page, as in [1, p. 2].",
            "Read each line of the pages before you cite.",
        ]
    ),
)
def test_a_field_that_nobody_asks_to_cite_leaves_the_labels_their_numbers(
    case: tuple[str, str], values: list[int], instruction: str
) -> None:
    form, _ = case
    if form.startswith("[{n}] {text}\nref"):
        form = form.replace("ref", "score")  # a "ref" is cited in any case
    found = labels(form, values, instruction)
    assert found.ambiguous_numbers == frozenset()
    assert [found.context_indexes_by_label[number] for number in "123"] == [
        (0,),
        (1,),
        (2,),
    ]


def test_a_number_of_a_page_that_is_no_label_means_nothing() -> None:
    found = labels("[{n}] {text} (p. {value})", [57, 58, 59])
    assert found.ambiguous_numbers == frozenset()
